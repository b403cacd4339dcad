/* context - positions of context-parallel ranks, names of exchanges, what is no configuration
 *
 * golden/13_recompute_cp.json holds what Megatron-LM's get_batch_on_this_cp_rank() returned.
 */

#include <string.h>

#include <jansson.h>

#include "libcore/topo/context.h"
#include "tests/tap/tap.h"

/* Dealt out chunk by chunk: rank r gets chunk r from the front and chunk r from the back. */
static void test_positions (int cp, int64_t seq)
{
    int64_t chunk = seq / (2 * cp), row = 0, wrong = 0;

    for (int rank = 0; rank < cp; rank++) {
        for (int64_t i = 0; i < chunk; i++)
            wrong += context_position (cp, seq, row++) != rank * chunk + i;
        for (int64_t i = 0; i < chunk; i++)
            wrong += context_position (cp, seq, row++) != seq - (rank + 1) * chunk + i;
    }
    ok (wrong == 0 && row == seq, "cp %d, %d positions", cp, (int)seq);
}

/* Pairs of a query and a key that is not behind it, of a rank's queries. */
static void test_work (void)
{
    enum { CP = 4, SEQ = 64 };
    int64_t pairs[CP] = { 0 };

    for (int row = 0; row < SEQ; row++)
        pairs[row / (SEQ / CP)] += context_position (CP, SEQ, row) + 1;
    ok (pairs[0] == pairs[1] && pairs[1] == pairs[2] && pairs[2] == pairs[3],
        "all ranks have the same work");
}

static void test_names (void)
{
    for (int i = 0; i < CONTEXT_NUM_COMMS; i++)
        is_int (context_comm_parse (context_comm_name ((enum context_comm)i)), i, "%s",
                context_comm_name ((enum context_comm)i));
    is_int (context_comm_parse ("allgather"), CONTEXT_ALL_GATHER, "allgather is all_gather");
    is_int (context_comm_parse (""), -1, "no word");
    is_int (context_comm_parse ("a2a+"), -1, "half a word");
}

static char words[3][12] = { "a2a", "p2p", "a2a+p2p" };
static char *const rest[] = { words[0], words[1], words[2] }; // with a first: four words

static const struct {
    struct context_config config;
    int cp, layers;
    const char *text; /* NULL: good */
} cases[] = {
    { { 0 }, 4, 3, NULL },
    { { .first = "p2p", .count = 1 }, 4, 3, NULL },
    { { .first = "ring", .count = 1 }, 1, 3,
      "--cp-comm-type \"ring\": want p2p, all_gather, a2a or a2a+p2p" },
    { { "p2p", rest, 4, 0, 0 }, 4, 4, "a2a+p2p wants --hierarchical-context-parallel-sizes" },
    { { "p2p", rest, 3, 0, 0 }, 4, 2, "has 3 words, want one, or one for each of 2 layers" },
    { { "p2p", rest + 1, 2, 0, 0 }, 4, 3, "has 2 words" },
    { { "p2p", rest, 4, 2, 2 }, 4, 4, NULL },
    { { "p2p", rest, 4, 2, 3 }, 4, 4, "2 3: their product is not the context-parallel size 4" },
    { { NULL, NULL, 0, 2, 2 }, 2, 4, "their product is not" },
    { { .first = "a2a+p2p", .count = 1 }, 1, 4, NULL },
    { { .first = "a2a+p2p", .count = 1 }, 2, 4, "a2a+p2p wants" },
};

static void test_check (void)
{
    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        struct mg_error err = { "" };
        int rc = context_check (&cases[i].config, cases[i].cp, cases[i].layers, &err);

        ok (cases[i].text ? rc < 0 && strstr (err.text, cases[i].text) : rc == 0, "case %zu: %s", i,
            rc < 0 ? err.text : "good");
    }
}

static void test_layers (void)
{
    static const enum context_comm want[] = { CONTEXT_P2P, CONTEXT_A2A, CONTEXT_P2P,
                                              CONTEXT_A2A_P2P };
    static const int inner[] = { 1, 8, 1, 4 };
    const struct context_config each = { "p2p", rest, 4, 4, 2 }, one = { "a2a", NULL, 1, 0, 0 };
    bool same = true;

    for (int i = 0; i < 4; i++)
        same = same && context_comm_at (&each, i) == want[i]
               && context_inner (&each, want[i], 8) == inner[i];
    ok (same, "each layer has its word");
    ok (context_comm_at (&one, 0) == CONTEXT_A2A && context_comm_at (&one, 99) == CONTEXT_A2A,
        "one word is for all layers");
    is_int (context_inner (&one, CONTEXT_ALL_GATHER, 8), 1, "all_gather deals out no heads");
}

/* --- the reference --- */

static int64_t at (const json_t *array, size_t i)
{
    return json_integer_value (json_array_get (array, i));
}

static bool same_ranges (int cp, int64_t seq, const json_t *ranks)
{
    int64_t row = 0, wrong = 0;

    for (size_t r = 0; r < json_array_size (ranks); r++) {
        const json_t *ranges = json_array_get (ranks, r);

        for (size_t k = 0; k < json_array_size (ranges); k++) {
            const json_t *range = json_array_get (ranges, k);

            for (int64_t p = at (range, 0); p < at (range, 1); p++)
                wrong += context_position (cp, seq, row++) != p;
        }
    }
    return row == seq && wrong == 0;
}

static bool same_lists (int cp, int64_t seq, const json_t *ranks)
{
    int64_t row = 0, wrong = 0;

    for (size_t r = 0; r < json_array_size (ranks); r++) {
        const json_t *rank = json_array_get (ranks, r);
        const json_t *list = json_is_object (rank) ? json_object_get (rank, "index") : rank;

        for (size_t i = 0; i < json_array_size (list); i++)
            wrong += context_position (cp, seq, row++) != at (list, i);
    }
    return row == seq && wrong == 0;
}

static void test_case (const json_t *c, const char *list)
{
    int cp = (int)json_integer_value (json_object_get (c, "cp"));
    int64_t seq = json_integer_value (json_object_get (c, "seq"));
    const json_t *ranks = json_object_get (c, list), *ranges = json_object_get (c, "ranges");

    if (json_object_get (c, "error"))
        ok (seq % (2 * cp) != 0, "cp %d, seq %d: an error there, rule seq-cp here", cp, (int)seq);
    else if (ranges)
        ok (same_ranges (cp, seq, ranges), "cp %d, seq %d", cp, (int)seq);
    else
        ok (same_lists (cp, seq, ranks), "cp %d, seq %d: %s", cp, (int)seq, list);
}

static void test_golden (void)
{
    static const char name[] = "golden/13_recompute_cp.json";
    const json_t *all, *c;
    char path[4096];
    json_t *root;
    size_t i;

    if (!shared_file (path, sizeof (path), name)) {
        skip (1, "%s is not there", path);
        return;
    }
    if (!(root = json_load_file (path, 0, NULL)))
        bail_out ("%s cannot be read", path);
    all = json_object_get (root, "context_parallel");
    json_array_foreach (json_object_get (all, "split"), i, c)
        test_case (c, "ranks");
    json_array_foreach (json_object_get (all, "rope_positions"), i, c)
        test_case (c, "positions");
    json_decref (root);
}

int main (void)
{
    for (int cp = 1; cp <= 8; cp++)
        test_positions (cp, 6 * cp);
    test_positions (16, 1 << 17);
    test_work ();
    test_names ();
    test_check ();
    test_layers ();
    test_golden ();
    return done_testing ();
}
