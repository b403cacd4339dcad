/* diagnosis.c - make the report from the states of the ranks
 *
 * Each rank gets a line of words; ranks with the same line are then printed as one.  A rank that
 * is waited for, and does not wait itself, is blamed in the first line.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/job/pp_lane.h"
#include "libcore/job/diagnosis.h"

enum { LINE_MAX_LEN = 320, LIST_MAX = 120 };

struct diagnosis {
    const struct diagnosis_rank *ranks;
    int size;
    const struct grid *grid;
    bool *in;      /* [size] scratch of a list */
    bool *blamed;  /* [size] waited for, without waiting itself */
    bool *waited;  /* [size] scratch of another */
    char (*line)[LINE_MAX_LEN]; /* [size] what a rank does, in words that fold */
    FILE *out;
};

int diagnosis_ranks (const bool *in, int size, char *text, size_t max)
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
    if (strcmp (name, "control") == 0)
        return GROUP_WORLD;
    if (strcmp (name, "pp-backward") == 0 || pp_lane_peer (name, 1, 0) >= 0)
        return GROUP_PP;
    return group_kind_by_name (name);
}

/* The group on whose communicator rank r waits. */
static bool group_of_wait (const struct diagnosis *d, int r, struct group *group)
{
    const struct rank_state *s = &d->ranks[r].state;
    int kind;

    if (d->ranks[r].fate != RANK_ANSWERED || !s->waiting || !s->recorded || !d->grid
        || (kind = kind_of (s->wait.name)) < 0)
        return false;
    grid_group_of (d->grid, (enum group_kind)kind, r, group);
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

/* True if rank m is the reason why rank r still waits. */
static bool is_waited_for (const struct diagnosis *d, int r, int m)
{
    const struct record *wait = &d->ranks[r].state.wait;
    const struct diagnosis_rank *other = &d->ranks[m];

    if (other->fate != RANK_ANSWERED)
        return true;
    if (wait->call == MG_CALL_P2P)
        return !other->state.waiting;
    return collectives_of (&other->state, wait->name) < wait->seq;
}

/* Mark in waited[] the ranks that rank r waits for: the peers of transfers, or the
 * members that have not come to the collective.
 */
static void mark_waited_for (struct diagnosis *d, int r)
{
    const struct record *wait = &d->ranks[r].state.wait;
    struct group group;
    int peer, other;

    if (!group_of_wait (d, r, &group))
        return;
    peer = pp_lane_peer (wait->name, group.size, group.rank);
    if (peer < 0) // not a lane, whose communicator has other members than the group
        peer = wait->peer;
    other = wait->more > 0 ? wait->other : peer;
    for (int i = 0; i < group.size; i++) {
        int m = group_at (&group, i);
        bool transfer = wait->call == MG_CALL_P2P;

        if (m == r || (transfer ? i != peer && i != other : !is_waited_for (d, r, m)))
            continue;
        d->waited[m] = true;
        d->blamed[m] |= is_waited_for (d, r, m)
                        && (d->ranks[m].fate != RANK_ANSWERED || !d->ranks[m].state.waiting);
    }
}

/* "all-reduce #12 on tp": without sizes, which differ between stages. */
static void describe_wait (const struct rank_state *s, char *text, size_t max)
{
    struct record wait = s->wait;
    char call[128], *of, *on;

    if (!s->recorded) {
        snprintf (text, max, "%.*s", DIAGNOSIS_WHAT_MAX, s->wait_text);
        return;
    }
    if (wait.call == MG_CALL_P2P) {
        snprintf (text, max, "%s on %.15s", record_call_name (&wait), wait.name);
        return;
    }
    record_describe (&wait, call, sizeof (call));
    of = strstr (call, " of ");
    on = strstr (call, " on ");
    if (of && on)
        *of = '\0';
    snprintf (text, max, "%s%s", call, of && on ? on : "");
}

/* Describe what rank r does, without its number: ranks with the same line are folded.
 * Empty for a rank that was already reported.
 */
static void describe (struct diagnosis *d, int r)
{
    const struct diagnosis_rank *rank = &d->ranks[r];
    const struct rank_state *s = &rank->state;
    char *line = d->line[r], call[128];

    if (rank->fate == RANK_LEFT)
        snprintf (line, LINE_MAX_LEN, "left");
    else if (rank->fate == RANK_UNKNOWN)
        snprintf (line, LINE_MAX_LEN, "never heard of");
    else if (rank->fate != RANK_ANSWERED)
        return;
    else if (s->waiting) {
        describe_wait (s, call, sizeof (call));
        snprintf (line, LINE_MAX_LEN, "in %s, waiting in %s", s->activity, call);
        mark_waited_for (d, r);
    } else if (s->running) {
        record_describe (&s->last, call, sizeof (call));
        snprintf (line, LINE_MAX_LEN, "in %s, running kernels (%.*s)%s%s", s->activity,
                  DIAGNOSIS_WHAT_MAX, s->wait_text, s->last.name[0] ? " after " : "",
                  s->last.name[0] ? call : "");
    } else if (s->last.name[0]) {
        record_describe (&s->last, call, sizeof (call));
        snprintf (line, LINE_MAX_LEN, "in %s, not waiting; its last call, %.1f s ago: %s",
                  s->activity, s->last.seconds, call);
    } else
        snprintf (line, LINE_MAX_LEN, "in %s, not waiting", s->activity);
}

/* "rank 5 on n2 died" and the like for those with that fate, or all blamed. */
static int write_fate (struct diagnosis *d, enum rank_fate fate, const char *what, int told)
{
    for (int r = 0; r < d->size; r++) {
        const struct diagnosis_rank *rank = &d->ranks[r];
        bool fits = fate == RANK_ANSWERED ? d->blamed[r] && rank->fate == fate
                                          : rank->fate == fate;

        if (!fits)
            continue;
        if (told < 8)
            fprintf (d->out, "%srank %d%s%s %s", told > 0 ? "; " : "", r,
                     rank->host[0] ? " on " : "", rank->host, what);
        else if (told == 8)
            fprintf (d->out, "; and others");
        told++;
    }
    return told;
}

/* Members of one group that make different calls under the same number. */
static int write_mismatch (struct diagnosis *d, int told)
{
    for (int r = 0; r < d->size; r++) {
        const struct record *a = &d->ranks[r].state.wait;
        struct group group;
        char one[128], two[128];

        if (!group_of_wait (d, r, &group) || a->call == MG_CALL_P2P)
            continue;
        for (int i = group.rank + 1; i < group.size; i++) {
            int m = group_at (&group, i);
            const struct record *b = &d->ranks[m].state.wait;
            struct group other;

            if (!group_of_wait (d, m, &other) || strcmp (a->name, b->name) != 0
                || a->seq != b->seq
                || (a->call == b->call && a->count == b->count && a->dtype == b->dtype))
                continue;
            record_describe (a, one, sizeof (one));
            record_describe (b, two, sizeof (two));
            fprintf (d->out, "%sranks %d and %d do not match: %s, and %s",
                     told > 0 ? "; " : "", r, m, one, two);
            return told + 1;
        }
    }
    return told;
}

/* One line for all ranks that do what rank r does. */
static void write_fold (struct diagnosis *d, int r)
{
    char list[LIST_MAX], key[LINE_MAX_LEN];
    double most = 0;
    bool any = false;

    memcpy (key, d->line[r], sizeof (key));
    memset (d->in, 0, (size_t)d->size * sizeof (*d->in));
    memset (d->waited, 0, (size_t)d->size * sizeof (*d->waited));
    for (int m = r; m < d->size; m++) {
        const struct rank_state *s = &d->ranks[m].state;

        if (strcmp (d->line[m], key) != 0)
            continue;
        d->in[m] = true;
        d->line[m][0] = '\0';
        mark_waited_for (d, m);
        if (d->ranks[m].fate == RANK_ANSWERED && (s->waiting || s->running)
            && s->wait_seconds > most)
            most = s->wait_seconds;
    }
    diagnosis_ranks (d->in, d->size, list, sizeof (list));
    fprintf (d->out, "\n  %s: %s", list, key);
    for (int m = 0; m < d->size; m++)
        any |= d->waited[m];
    if (any) {
        diagnosis_ranks (d->waited, d->size, list, sizeof (list));
        fprintf (d->out, ", for %s", list);
    }
    if (most > 0)
        fprintf (d->out, ", %.1f s", most);
}

char *diagnosis_text (const struct diagnosis_rank *ranks, int size, const struct grid *grid,
                      const char *why)
{
    struct diagnosis d = { .ranks = ranks, .size = size, .grid = grid };
    char *text = NULL;
    size_t len;
    int told = 0;

    d.in = calloc ((size_t)size, sizeof (*d.in));
    d.blamed = calloc ((size_t)size, sizeof (*d.blamed));
    d.waited = calloc ((size_t)size, sizeof (*d.waited));
    d.line = calloc ((size_t)size, sizeof (*d.line));
    if (!d.in || !d.blamed || !d.waited || !d.line
        || !(d.out = open_memstream (&text, &len)))
        goto out;
    for (int r = 0; r < size; r++)
        describe (&d, r);
    told = write_fate (&d, RANK_DIED, "died", told);
    told = write_fate (&d, RANK_SILENT, "does not answer: it is stopped, or its node is lost",
                       told);
    told = write_mismatch (&d, told);
    told = write_fate (&d, RANK_ANSWERED, "is waited for", told);
    if (why[0] != '\0')
        fprintf (d.out, "%s%s", told > 0 ? "; " : "", why);
    for (int r = 0; r < size; r++) {
        if (d.line[r][0] != '\0')
            write_fold (&d, r);
    }
    if (fclose (d.out) != 0) {
        free (text);
        text = NULL;
    }
out:
    free (d.in);
    free (d.blamed);
    free (d.waited);
    free (d.line);
    return text;
}
