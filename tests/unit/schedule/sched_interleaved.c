/* sched_interleaved.c - the order of passes over several chunks, and that it is
 * Megatron-LM's
 */

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/schedule/schedule.h"
#include "libcore/base/sha256.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

enum { TEXT_MAX = 1 << 16 };

/* "F0.0 B1.0 ...": chunk and microbatch. */
static void order_text (const struct sched_kind *kind, const struct sched_shape *shape,
                        char *text)
{
    struct mg_error err;
    struct sched_pass *pass;
    size_t n, used = 0;

    text[0] = '\0';
    if (!(pass = kind->order (kind, shape, &n, &err)))
        bail_out ("%s", err.text);
    for (size_t i = 0; i < n && used < TEXT_MAX; i++)
        used += (size_t)snprintf (text + used, TEXT_MAX - used, "%s%c%d.%d", i ? " " : "",
                                  pass[i].backward ? 'B' : 'F', pass[i].chunk,
                                  pass[i].microbatch);
    free (pass);
}

static void test_orders (void)
{
    static const struct {
        int chunks, group;
        struct sched_shape shape;
        const char *want;
    } cases[] = {
        { 2, 2, { 2, 0, .microbatches = 2 }, "F0.0 F0.1 F1.0 F1.1 B1.0 B1.1 B0.0 B0.1" },
        { 2, 2, { 2, 1, .microbatches = 2 }, "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 B0.0 B0.1" },
        { 2, 3, { 2, 1, 5, .forward_only = true },
          "F0.0 F0.1 F0.2 F1.0 F1.1 F1.2 F0.3 F0.4 F1.3 F1.4" },
        { 2,
          3,
          { 2, 1, .microbatches = 5 },
          "F0.0 F0.1 F0.2 F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 F0.3 B0.0 F0.4 B0.1 F1.3 B0.2 "
          "F1.4 "
          "B1.3 B1.4 B0.3 B0.4" },
        { 3,
          2,
          { 2, 1, .microbatches = 2 },
          "F0.0 F0.1 F1.0 F1.1 F2.0 B2.0 F2.1 B2.1 B1.0 B1.1 B0.0 B0.1" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct sched_kind kind = sched_interleaved (cases[i].chunks, cases[i].group);
        static char text[TEXT_MAX];

        order_text (&kind, &cases[i].shape, text);
        is_str (text, cases[i].want,
                "rank %d of %d, %d chunks, %d microbatches in groups "
                "of %d",
                cases[i].shape.rank, cases[i].shape.pp, kind.chunks,
                cases[i].shape.microbatches, kind.group);
    }
}

/* Around each rule, from both sides. */
static void test_rules (void)
{
    static const struct {
        int chunks, group, pp, microbatches;
        const char *want; /* NULL: legal */
    } cases[] = {
        { 2, 4, 4, 4, NULL },
        { 2, 4, 4, 8, NULL },
        { 2, 5, 4, 9, NULL },
        { 2, 8, 4, 8, NULL },
        { 2, 2, 1, 2,
          "interleaved schedule: pipeline of 1 ranks, 2 virtual stages on each; "
          "want at least 2 of both" },
        { 1, 2, 2, 2,
          "interleaved schedule: pipeline of 2 ranks, 1 virtual stages on each; "
          "want at least 2 of both" },
        { 2, 4, 4, 3,
          "interleaved schedule: 3 microbatches are fewer than the 4 pipeline "
          "ranks" },
        { 2, 3, 4, 8,
          "interleaved schedule: microbatch group size 3, want 4 (the pipeline "
          "ranks) to 8 (the microbatches)" },
        { 2, 9, 4, 8,
          "interleaved schedule: microbatch group size 9, want 4 (the pipeline "
          "ranks) to 8 (the microbatches)" },
        { 2, 4, 4, 5,
          "interleaved schedule: 5 microbatches in groups of 4 leave 1, want "
          "none or at least 4 (the pipeline ranks); use 4 or 8 microbatches" },
        { 2, 5, 4, 8,
          "interleaved schedule: 8 microbatches in groups of 5 leave 3, want "
          "none or at least 4 (the pipeline ranks); use 5 or 9 microbatches" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct sched_kind kind = sched_interleaved (cases[i].chunks, cases[i].group);
        struct sched_shape shape = { cases[i].pp, 0, .microbatches = cases[i].microbatches };
        struct mg_error err = { .text = "" };
        struct schedule *s = schedule_create (&kind, &shape, &err);

        if (cases[i].want)
            is_str (s ? "accepted" : err.text, cases[i].want, "refused");
        else
            ok (s, "pp %d, %d microbatches in groups of %d: legal %s", shape.pp,
                shape.microbatches, kind.group, err.text);
        schedule_destroy (s);
    }
}

/* Pools: what they cost, and what is no pool. */
static void test_pools (void)
{
    static const struct {
        int rank, pool[3];
        int slots; /* 0: refused */
    } cases[] = {
        { 0, { 0, 1, 2 }, 18 }, // pools of their own: what each has at most
        { 0, { 0, 0, 0 }, 13 }, // 2 (pp - 1) + (chunks - 1) group + 1
        { 0, { 0, 1, 0 }, 15 },
        { 1, { 0, 0, 1 }, 12 }, // 11 in flight, and the last chunk in a pool of its own
        { 1, { 0, 1, 2 }, 16 },
        { 1, { 0, 0, 0 }, 0 }, // the last chunk of the model
        { 0, { 1, 0, 0 }, 0 },
        { 0, { 0, 2, 1 }, 0 },
        { 0, { -1, 0, 0 }, 0 },
    };
    struct sched_kind kind = sched_interleaved (3, 5);

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct sched_shape shape = { 2, cases[i].rank, .microbatches = 15 };
        struct mg_error err = { .text = "" };
        struct schedule *s;

        errno = 0;
        s = schedule_create_pooled (&kind, &shape, cases[i].pool, &err);
        if (cases[i].slots == 0)
            ok (!s && errno == EINVAL, "refused: %s", err.text);
        else
            is_int (s ? schedule_num_slots (s) : 0, cases[i].slots,
                    "rank %d, pools %d %d %d: slots %s", shape.rank, cases[i].pool[0],
                    cases[i].pool[1], cases[i].pool[2], err.text);
        schedule_destroy (s);
    }
}

/* Gradients that come early to the last rank are received as they come. */
static void test_lookahead (void)
{
    struct sched_kind kind = sched_interleaved (2, 8);
    int most[2] = { 0, 0 };

    for (int rank = 0; rank < 2; rank++) {
        struct sched_shape shape = { 2, rank, .microbatches = 16 };
        struct schedule *s = schedule_create (&kind, &shape, NULL);
        int ahead = 0;

        for (size_t i = 0; i < s->nsteps; i++) {
            ahead += s->step[i].op == SCHED_RECV_BWD;
            ahead -= s->step[i].op == SCHED_WAIT_BWD;
            most[rank] = ahead > most[rank] ? ahead : most[rank];
        }
        schedule_destroy (s);
    }
    is_int (most[0], 1, "one gradient ahead on the first rank");
    is_int (most[1], 7, "group - pp + 1 on the last");
}

/* --- the reference --- */

static int get_int (json_t *object, const char *key)
{
    return (int)json_integer_value (json_object_get (object, key));
}

static bool get_bool (json_t *object, const char *key)
{
    return json_is_true (json_object_get (object, key));
}

static struct sched_kind kind_of (json_t *object)
{
    return sched_interleaved (get_int (object, "vpp"),
                              get_int (object, "microbatch_group_size_per_vp_stage"));
}

static struct sched_shape shape_of (json_t *object, size_t rank)
{
    return (struct sched_shape){
        .pp = get_int (object, "pp"),
        .rank = (int)rank,
        .microbatches = get_int (object, "num_microbatches"),
        .forward_only = get_bool (object, "forward_only"),
    };
}

static bool same_hash (const char *text, json_t *object, const char *key)
{
    char hex[SHA256_HEX];

    sha256_hex (text, strlen (text), hex);
    return strcmp (hex, json_string_value (json_object_get (object, key))) == 0;
}

/* "1 1 2 -2 ...\n": the reference's canonical text of an order.  It lists backward passes
 * where there are none: with forward passes only they follow all the others.
 */
static void signed_text (const struct sched_kind *kind, const struct sched_shape *shape,
                         char *text)
{
    size_t used = 0, n;
    struct sched_pass *pass = kind->order (kind, shape, &n, NULL);

    for (size_t i = 0; pass && i < n; i++)
        used += (size_t)sprintf (text + used, "%s%d", i ? " " : "",
                                 pass[i].backward ? -pass[i].chunk - 1
                                                  : pass[i].chunk + 1);
    for (size_t i = 0; pass && i < n && shape->forward_only; i++)
        used += (size_t)sprintf (text + used, " %d", pass[i].chunk - kind->chunks);
    strcpy (text + used, "\n");
    free (pass);
}

/* "mb chunk\n" per row of the schedule table: the forward passes as they come. */
static void table_text (const struct sched_kind *kind, struct sched_shape shape,
                        char *text)
{
    size_t used = 0, n;
    struct sched_pass *pass;

    shape.forward_only = true;
    pass = kind->order (kind, &shape, &n, NULL);
    for (size_t i = 0; pass && i < n; i++)
        used += (size_t)sprintf (text + used, "%d %d\n", pass[i].microbatch,
                                 pass[i].chunk);
    free (pass);
}

static void check_table (json_t *table)
{
    struct sched_kind kind = kind_of (table);
    json_t *ranks = json_object_get (table, "ranks"), *rank;
    static char text[TEXT_MAX];
    int bad = 0;
    size_t r;

    table_text (&kind, shape_of (table, 0), text);
    bad += !same_hash (text, table, "schedule_table_sha256");
    json_array_foreach (ranks, r, rank)
    {
        struct sched_shape shape = shape_of (table, r);

        signed_text (&kind, &shape, text);
        bad += !same_hash (text, rank, "order_sha256");
        bad += kind.warmup (&kind, &shape) != get_int (rank, "warmup");
        bad += shape.microbatches * kind.chunks != get_int (rank, "total");
    }
    is_int (bad, 0,
            "reference table: pp %d, %d chunks, %d microbatches in groups of %d%s",
            get_int (table, "pp"), kind.chunks, get_int (table, "num_microbatches"),
            kind.group, get_bool (table, "forward_only") ? ", forward only" : "");
}

/* The passes among the reference's events: "sync_off | F0.0f | X >F0.0 | B0.0 ...". */
static void trace_passes (const char *events, char *text)
{
    size_t used = 0;

    text[0] = '\0';
    while (events && *events) {
        char op;
        int chunk, microbatch;

        if (sscanf (events, "%c%d.%d", &op, &chunk, &microbatch) == 3
            && (op == 'F' || op == 'B'))
            used += (size_t)snprintf (text + used, TEXT_MAX - used, "%s%c%d.%d",
                                      used ? " " : "", op, chunk, microbatch);
        events = strstr (events, " | ");
        events = events ? events + 3 : NULL;
    }
}

/* The transfers of one direction ("<B", ">F", "nB", "pF") in the order of the events; the
 * chunk is the sender's.
 */
static void trace_transfers (const char *events, const char *mark, char *text)
{
    size_t used = 0;

    text[0] = '\0';
    while ((events = strstr (events, mark))) {
        int chunk, microbatch;

        events += strlen (mark);
        if (sscanf (events, "%d.%d", &chunk, &microbatch) == 2)
            used += (size_t)snprintf (text + used, TEXT_MAX - used, "%s%d.%d",
                                      used ? " " : "", chunk, microbatch);
    }
}

static void list_transfers (const struct schedule *s, enum sched_op op, char *text)
{
    int last = s->shape.pp - 1;
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < s->nsteps; i++) {
        int chunk = s->step[i].chunk;

        if (s->step[i].op != op)
            continue;
        if (op == SCHED_RECV_FWD && s->shape.rank == 0)
            chunk--;
        if (op == SCHED_RECV_BWD && s->shape.rank == last)
            chunk++;
        used += (size_t)snprintf (text + used, TEXT_MAX - used, "%s%d.%d",
                                  used ? " " : "", chunk, s->step[i].microbatch);
    }
}

static int compare_transfers (const struct sched_kind *kind,
                              const struct sched_shape *shape, const char *events)
{
    static const struct {
        enum sched_op op;
        const char *mark;
    } kinds[] = {
        { SCHED_RECV_FWD, "pF" },
        { SCHED_SEND_FWD, ">F" },
        { SCHED_RECV_BWD, "nB" },
        { SCHED_SEND_BWD, "<B" },
    };
    static char got[TEXT_MAX], want[TEXT_MAX];
    struct mg_error err;
    struct schedule *s = schedule_create (kind, shape, &err);
    int bad = 0;

    if (!s)
        bail_out ("%s", err.text);
    for (size_t k = 0; k < COUNT (kinds); k++) {
        list_transfers (s, kinds[k].op, got);
        trace_transfers (events, kinds[k].mark, want);
        if (strcmp (got, want) != 0) {
            diag ("rank %d, %s: %s, want %s", shape->rank, sched_op_names[kinds[k].op],
                  got, want);
            bad++;
        }
    }
    schedule_destroy (s);
    return bad;
}

/* A shape that the reference refuses to run. */
static void check_refused (const struct sched_kind *kind, json_t *trace)
{
    struct sched_shape shape = shape_of (trace, 0);
    struct mg_error err = { .text = "" };

    ok (!schedule_create (kind, &shape, &err), "reference trace is refused: %s",
        err.text);
}

static void check_trace (json_t *trace)
{
    struct sched_kind kind = kind_of (trace);
    json_t *ranks = json_object_get (trace, "ranks"), *rank;
    static char got[TEXT_MAX], want[TEXT_MAX];
    int bad = 0;
    size_t r;

    if (json_object_get (trace, "errors")) {
        check_refused (&kind, trace);
        return;
    }
    json_array_foreach (ranks, r, rank)
    {
        struct sched_shape shape = shape_of (trace, r);
        const char *events = json_string_value (json_object_get (rank, "events"));

        order_text (&kind, &shape, got);
        trace_passes (events, want);
        if (strcmp (got, want) != 0) {
            diag ("rank %zu: %s, want %s", r, got, want);
            bad++;
        }
        bad += compare_transfers (&kind, &shape, events ? events : "");
    }
    ok (json_array_size (ranks) > 0 && bad == 0,
        "reference trace: pp %d, %d chunks, %d microbatches in groups of %d%s: passes "
        "and "
        "transfers",
        get_int (trace, "pp"), kind.chunks, get_int (trace, "num_microbatches"),
        kind.group, get_bool (trace, "forward_only") ? ", forward only" : "");
}

/* One chunk is no interleaving here: the plain schedule serves, in the reference another
 * one of its code.  An overlap of expert communication makes the warm-up longer.
 */
static bool is_ours (json_t *one)
{
    return get_int (one, "vpp") > 1
           && !get_bool (one, "overlap_moe_expert_parallel_comm");
}

static void test_reference (void)
{
    json_error_t json_error;
    json_t *root, *item;
    char path[4096];
    int single = 0, overlap = 0;
    size_t i;

    if (!shared_file (path, sizeof (path), "golden/02_pipeline_schedules.json")) {
        skip (1, "no reference schedules at %s", path);
        return;
    }
    if (!(root = json_load_file (path, 0, &json_error)))
        bail_out ("%s: %s", path, json_error.text);
    json_array_foreach (json_object_get (root, "tables"), i, item)
    {
        overlap += get_bool (item, "overlap_moe_expert_parallel_comm");
        single += get_int (item, "vpp") == 1;
        if (is_ours (item))
            check_table (item);
    }
    json_array_foreach (json_object_get (root, "traces"), i, item)
    {
        single += get_int (item, "vpp") == 1;
        if (is_ours (item))
            check_trace (item);
    }
    skip (1, "%d reference cases with one virtual stage, %d with overlapped expert "
          "communication", single, overlap);
    json_decref (root);
}

int main (void)
{
    test_orders ();
    test_rules ();
    test_pools ();
    test_lookahead ();
    test_reference ();
    return done_testing ();
}
