/* sched_1f1b.c - the order of passes, and that it is Megatron-LM's */

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/schedule/schedule.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

enum { TEXT_MAX = 4096 };

/* "F0 F1 B0 ..." of one rank. */
static void order_text (const struct sched_shape *shape, char *text)
{
    struct mg_error err;
    struct sched_pass *pass;
    size_t n, used = 0;

    text[0] = '\0';
    if (!(pass = sched_1f1b.order (&sched_1f1b, shape, &n, &err)))
        bail_out ("%s", err.text);
    for (size_t i = 0; i < n && used < TEXT_MAX; i++)
        used += snprintf (text + used, TEXT_MAX - used, "%s%c%d", i ? " " : "",
                          pass[i].backward ? 'B' : 'F', pass[i].microbatch);
    free (pass);
}

static void test_orders (void)
{
    static const struct {
        struct sched_shape shape;
        const char *want;
    } cases[] = {
        { { 1, 0, .microbatches = 1 }, "F0 B0" },
        { { 1, 0, .microbatches = 3 }, "F0 B0 F1 B1 F2 B2" },
        { { 1, 0, 2, .forward_only = true }, "F0 F1" },
        { { 2, 0, .microbatches = 1 }, "F0 B0" },
        { { 2, 0, .microbatches = 2 }, "F0 F1 B0 B1" },
        { { 2, 0, .microbatches = 3 }, "F0 F1 B0 F2 B1 B2" },
        { { 2, 1, .microbatches = 3 }, "F0 B0 F1 B1 F2 B2" },
        { { 4, 0, .microbatches = 2 }, "F0 F1 B0 B1" },
        { { 4, 0, .microbatches = 3 }, "F0 F1 F2 B0 B1 B2" },
        { { 4, 0, .microbatches = 4 }, "F0 F1 F2 F3 B0 B1 B2 B3" },
        { { 4, 0, .microbatches = 5 }, "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4" },
        { { 4, 1, .microbatches = 5 }, "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4" },
        { { 4, 2, .microbatches = 5 }, "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4" },
        { { 4, 3, .microbatches = 5 }, "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4" },
        { { 4, 1, 5, .forward_only = true }, "F0 F1 F2 F3 F4" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        const struct sched_shape *s = &cases[i].shape;
        char text[TEXT_MAX];

        order_text (s, text);
        is_str (text, cases[i].want, "rank %d of %d, %d microbatches%s", s->rank, s->pp,
                s->microbatches, s->forward_only ? ", forward only" : "");
    }
    is_str (sched_1f1b.name, "1f1b", "its name");
    is_int (sched_1f1b.chunks, 1, "its chunks");
}

static int get_int (json_t *object, const char *key)
{
    return (int)json_integer_value (json_object_get (object, key));
}

static struct sched_shape shape_of (json_t *object, size_t rank)
{
    return (struct sched_shape){
        .pp = get_int (object, "pp"),
        .rank = (int)rank,
        .microbatches = get_int (object, "num_microbatches"),
        .forward_only = json_is_true (json_object_get (object, "forward_only")),
    };
}

/* "F0 B0 ..." of the reference's [1, -1, ...]: the k-th of a sign is the schedule table's
 * k-th microbatch.
 */
static void table_text (json_t *order, json_t *table, bool forward_only, char *text)
{
    size_t nth[2] = { 0, 0 }, used = 0, i;
    json_t *value;

    text[0] = '\0';
    json_array_foreach (order, i, value)
    {
        int backward = json_integer_value (value) < 0;
        json_t *row = json_array_get (table, nth[backward]++);

        if (backward && forward_only)
            continue;
        used += snprintf (text + used, TEXT_MAX - used, "%s%c%d", used ? " " : "",
                          backward ? 'B' : 'F',
                          (int)json_integer_value (json_array_get (row, 0)));
    }
}

static void check_table (json_t *table)
{
    json_t *rows = json_object_get (table, "schedule_table");
    json_t *ranks = json_object_get (table, "ranks"), *rank;
    char got[TEXT_MAX], want[TEXT_MAX];
    int bad = 0;
    size_t r;

    json_array_foreach (ranks, r, rank)
    {
        struct sched_shape shape = shape_of (table, r);
        json_t *order = json_object_get (rank, "order");

        bad += get_int (rank, "total") != shape.microbatches;
        if (!order) // too long for the reference to list it
            continue;
        order_text (&shape, got);
        table_text (order, rows, shape.forward_only, want);
        if (strcmp (got, want) != 0) {
            diag ("rank %zu: %s, want %s", r, got, want);
            bad++;
        }
    }
    is_int (bad, 0, "reference table: pp %d, %d microbatches%s", get_int (table, "pp"),
            get_int (table, "num_microbatches"),
            json_is_true (json_object_get (table, "forward_only")) ? ", forward only"
                                                                   : "");
}

/* The passes among the reference's events: "sync_off | F0.0f | X >F0.0 | B0.0 ...". */
static void trace_text (const char *events, char *text)
{
    size_t used = 0;

    text[0] = '\0';
    while (events && *events) {
        char op;
        int chunk, microbatch;

        if (sscanf (events, "%c%d.%d", &op, &chunk, &microbatch) == 3
            && (op == 'F' || op == 'B'))
            used += snprintf (text + used, TEXT_MAX - used, "%s%c%d", used ? " " : "", op,
                              microbatch);
        events = strstr (events, " | ");
        events = events ? events + 3 : NULL;
    }
}

/* The transfers of one direction ("<B", ">F", "nB", "pF") in the order of the events. */
static void trace_transfers (const char *events, const char *mark, char *text)
{
    size_t used = 0;

    text[0] = '\0';
    while ((events = strstr (events, mark))) {
        int chunk, microbatch;

        events += strlen (mark);
        if (sscanf (events, "%d.%d", &chunk, &microbatch) == 2)
            used += snprintf (text + used, TEXT_MAX - used, "%s%d", used ? " " : "",
                              microbatch);
    }
}

static void list_transfers (const struct schedule *s, enum sched_op op, char *text)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < s->nsteps; i++) {
        if (s->step[i].op == op)
            used += snprintf (text + used, TEXT_MAX - used, "%s%d", used ? " " : "",
                              s->step[i].microbatch);
    }
}

static int compare_transfers (const struct sched_shape *shape, const char *events)
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
    struct mg_error err;
    struct schedule *s = schedule_create (&sched_1f1b, shape, &err);
    char got[TEXT_MAX], want[TEXT_MAX];
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

static void check_trace (json_t *trace)
{
    json_t *ranks = json_object_get (trace, "ranks"), *rank;
    char got[TEXT_MAX], want[TEXT_MAX];
    int bad = 0;
    size_t r;

    json_array_foreach (ranks, r, rank)
    {
        struct sched_shape shape = shape_of (trace, r);
        const char *events = json_string_value (json_object_get (rank, "events"));

        order_text (&shape, got);
        trace_text (events, want);
        if (strcmp (got, want) != 0) {
            diag ("rank %zu: %s, want %s", r, got, want);
            bad++;
        }
        bad += compare_transfers (&shape, events ? events : "");
    }
    ok (json_array_size (ranks) > 0 && bad == 0,
        "reference trace: pp %d, %d microbatches%s: passes and transfers",
        get_int (trace, "pp"), get_int (trace, "num_microbatches"),
        json_is_true (json_object_get (trace, "forward_only")) ? ", forward only" : "");
}

static void test_reference (void)
{
    json_error_t json_error;
    json_t *root, *item;
    char path[4096];
    size_t i, tables = 0, traces = 0;

    if (!shared_file (path, sizeof (path), "golden/02_pipeline_schedules.json")) {
        skip (1, "no reference schedules at %s", path);
        return;
    }
    if (!(root = json_load_file (path, 0, &json_error)))
        bail_out ("%s: %s", path, json_error.text);
    json_array_foreach (json_object_get (root, "tables"), i, item)
    {
        if (!json_is_null (json_object_get (item, "vpp")))
            continue; // interleaved
        check_table (item);
        tables++;
    }
    json_array_foreach (json_object_get (root, "traces"), i, item)
    {
        // with errors: the reference refuses that option without interleaving
        if (!json_is_null (json_object_get (item, "vpp"))
            || json_object_get (item, "errors"))
            continue;
        check_trace (item);
        traces++;
    }
    ok (tables > 0 && traces > 0, "%zu tables and %zu traces without interleaving",
        tables, traces);
    json_decref (root);
}

int main (void)
{
    test_orders ();
    test_reference ();
    return done_testing ();
}
