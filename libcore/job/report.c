/* report.c - fold what the ranks say */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/job/report.h"

enum { LINE_MAX_LEN = 320, LIST_MAX = 120 };

struct report {
    const struct report_rank *ranks;
    int size;
    const struct grid *grid;
    bool *in;      /* [size] scratch of a list */
    bool *blamed;  /* [size] waited for, without waiting itself */
    char (*line)[LINE_MAX_LEN]; /* [size] what a rank does */
    FILE *out;
};

int report_ranks (const bool *in, int size, char *text, size_t max)
{
    size_t len = 0;
    int n = 0;

    for (int r = 0; r < size; r++)
        n += in[r];
    snprintf (text, max, n == 1 ? "rank " : "ranks ");
    len = strlen (text);
    for (int r = 0; r < size && len < max - 1; r++) {
        const char *comma = len > 0 && text[len - 1] != ' ' ? "," : "";
        int end = r;

        if (!in[r])
            continue;
        while (end + 1 < size && in[end + 1])
            end++;
        if (max - len < 24)
            snprintf (text + len, max - len, "%s...", comma);
        else if (end > r)
            snprintf (text + len, max - len, "%s%d-%d", comma, r, end);
        else
            snprintf (text + len, max - len, "%s%d", comma, r);
        len = max - len < 24 ? max : strlen (text);
        r = end;
    }
    return n;
}

/* Kind of group that a communicator's name stands for, -1: none. */
static int kind_of (const char *name)
{
    return strcmp (name, "pp-backward") == 0 ? GROUP_PP : group_kind_by_name (name);
}

/* The group on whose communicator rank r waits. */
static bool group_of_wait (const struct report *rep, int r, struct group *group)
{
    const struct rank_state *s = &rep->ranks[r].state;
    int kind;

    if (rep->ranks[r].fate != RANK_ANSWERED || !s->waiting || !s->recorded || !rep->grid
        || (kind = kind_of (s->wait.name)) < 0)
        return false;
    grid_group_of (rep->grid, (enum group_kind)kind, r, group);
    return group->rank >= 0;
}

static uint64_t collectives_of (const struct rank_state *s, const char *name)
{
    for (int i = 0; i < s->num_counts && i < RECORDER_COMMS; i++) {
        if (strncmp (s->count[i].name, name, RECORD_NAME_MAX) == 0)
            return s->count[i].collectives;
    }
    return 0;
}

/* Is rank m the reason why rank r waits on? */
static bool is_waited_for (const struct report *rep, int r, int m)
{
    const struct record *wait = &rep->ranks[r].state.wait;
    const struct report_rank *other = &rep->ranks[m];

    if (other->fate != RANK_ANSWERED)
        return true;
    if (wait->call == MG_CALL_P2P)
        return !other->state.waiting;
    return collectives_of (&other->state, wait->name) < wait->seq;
}

/* Mark in in[] whom rank r waits for; false: nobody that is known. */
static bool find_waited_for (struct report *rep, int r)
{
    struct group group;
    bool any = false;

    memset (rep->in, 0, (size_t)rep->size * sizeof (*rep->in));
    if (!group_of_wait (rep, r, &group))
        return false;
    for (int i = 0; i < group.size; i++) {
        const struct record *wait = &rep->ranks[r].state.wait;
        int m = group_at (&group, i);

        if (m == r || (wait->call == MG_CALL_P2P && i != wait->peer)
            || !is_waited_for (rep, r, m))
            continue;
        rep->in[m] = any = true;
    }
    return any;
}

/* What rank r does, without its number: ranks with the same line are folded. */
static void describe (struct report *rep, int r)
{
    const struct report_rank *rank = &rep->ranks[r];
    const struct rank_state *s = &rank->state;
    char *line = rep->line[r], call[128], list[LIST_MAX];

    if (rank->fate == RANK_DIED)
        snprintf (line, LINE_MAX_LEN, "died");
    else if (rank->fate == RANK_LEFT)
        snprintf (line, LINE_MAX_LEN, "has left");
    else if (rank->fate != RANK_ANSWERED)
        snprintf (line, LINE_MAX_LEN, "does not answer");
    else if (!s->waiting && s->last.name[0]) {
        record_describe (&s->last, call, sizeof (call));
        snprintf (line, LINE_MAX_LEN, "busy in %s for %.0f s, last: %s", s->activity,
                  s->last.seconds, call);
    } else if (!s->waiting)
        snprintf (line, LINE_MAX_LEN, "busy in %s", s->activity);
    else {
        if (s->recorded)
            record_describe (&s->wait, call, sizeof (call));
        else
            snprintf (call, sizeof (call), "%.100s", s->wait_text);
        if (find_waited_for (rep, r)) {
            report_ranks (rep->in, rep->size, list, sizeof (list));
            for (int m = 0; m < rep->size; m++)
                rep->blamed[m] |= rep->in[m] && (rep->ranks[m].fate != RANK_ANSWERED
                                                 || !rep->ranks[m].state.waiting);
            snprintf (line, LINE_MAX_LEN, "waits in %s, for %s (%s)", call, list, s->activity);
        } else
            snprintf (line, LINE_MAX_LEN, "waits in %s (%s)", call, s->activity);
    }
}

/* "rank 5 on n2 (pid 12) died" and the like for those with that fate, or all blamed. */
static int tell_fate (struct report *rep, enum rank_fate fate, const char *what, int told)
{
    for (int r = 0; r < rep->size; r++) {
        const struct report_rank *rank = &rep->ranks[r];
        bool fits = fate == RANK_ANSWERED ? rep->blamed[r] && rank->fate == fate
                                          : rank->fate == fate;

        if (!fits)
            continue;
        if (told < 8)
            fprintf (rep->out, "%srank %d%s%s %s", told > 0 ? "; " : "", r,
                     rank->host[0] ? " on " : "", rank->host, what);
        else if (told == 8)
            fprintf (rep->out, "; and others");
        told++;
    }
    return told;
}

/* Members of one group that make different calls under the same number. */
static int tell_mismatch (struct report *rep, int told)
{
    for (int r = 0; r < rep->size; r++) {
        const struct record *a = &rep->ranks[r].state.wait;
        struct group group;
        char one[128], two[128];

        if (!group_of_wait (rep, r, &group) || a->call == MG_CALL_P2P)
            continue;
        for (int i = group.rank + 1; i < group.size; i++) {
            int m = group_at (&group, i);
            const struct record *b = &rep->ranks[m].state.wait;
            struct group other;

            if (!group_of_wait (rep, m, &other) || strcmp (a->name, b->name) != 0
                || a->seq != b->seq
                || (a->call == b->call && a->count == b->count && a->dtype == b->dtype))
                continue;
            record_describe (a, one, sizeof (one));
            record_describe (b, two, sizeof (two));
            fprintf (rep->out, "%sranks %d and %d do not match: %s, and %s",
                     told > 0 ? "; " : "", r, m, one, two);
            return told + 1;
        }
    }
    return told;
}

static void tell_all (struct report *rep)
{
    char list[LIST_MAX];

    for (int r = 0; r < rep->size; r++) {
        double most = 0;

        if (rep->line[r][0] == '\0')
            continue;
        memset (rep->in, 0, (size_t)rep->size * sizeof (*rep->in));
        for (int m = r; m < rep->size; m++) {
            const struct rank_state *s = &rep->ranks[m].state;

            if (m != r && strcmp (rep->line[m], rep->line[r]) != 0)
                continue;
            rep->in[m] = true;
            if (rep->ranks[m].fate == RANK_ANSWERED && s->waiting && s->wait_seconds > most)
                most = s->wait_seconds;
        }
        report_ranks (rep->in, rep->size, list, sizeof (list));
        fprintf (rep->out, "\n  %s: %s", list, rep->line[r]);
        if (most > 0)
            fprintf (rep->out, ", %.1f s", most);
        for (int m = rep->size - 1; m >= r; m--) {
            if (rep->in[m])
                rep->line[m][0] = '\0';
        }
    }
}

char *report_text (const struct report_rank *ranks, int size, const struct grid *grid,
                   const char *why)
{
    struct report rep = { .ranks = ranks, .size = size, .grid = grid };
    char *text = NULL;
    size_t len;
    int told = why[0] != '\0';

    rep.in = calloc ((size_t)size, sizeof (*rep.in));
    rep.blamed = calloc ((size_t)size, sizeof (*rep.blamed));
    rep.line = calloc ((size_t)size, sizeof (*rep.line));
    if (!rep.in || !rep.blamed || !rep.line || !(rep.out = open_memstream (&text, &len)))
        goto out;
    for (int r = 0; r < size; r++)
        describe (&rep, r);
    fputs (why, rep.out);
    told = tell_fate (&rep, RANK_DIED, "died", told);
    told = tell_fate (&rep, RANK_SILENT, "does not answer: it is stopped, or its node is lost",
                      told);
    told = tell_mismatch (&rep, told);
    tell_fate (&rep, RANK_ANSWERED, "is waited for", told);
    tell_all (&rep);
    if (fclose (rep.out) != 0) {
        free (text);
        text = NULL;
    }
out:
    free (rep.in);
    free (rep.blamed);
    free (rep.line);
    return text;
}
