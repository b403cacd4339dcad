/* What is made of what the ranks say. */

#include <stdlib.h>
#include <string.h>

#include "libcore/job/diagnosis.h"
#include "tests/tap/tap.h"

enum { N = 8 };

static void test_lists (void)
{
    static const struct {
        unsigned in;
        const char *text;
    } rows[] = {
        { 0x00, "ranks " }, { 0x01, "rank 0" }, { 0x80, "rank 7" }, { 0x2f, "ranks 0-3,5" },
        { 0xff, "ranks 0-7" }, { 0x55, "ranks 0,2,4,6" }, { 0xc3, "ranks 0-1,6-7" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        bool in[N];
        char text[64];
        int n = 0;

        for (int r = 0; r < N; r++)
            n += in[r] = rows[i].in >> r & 1;
        is_int (diagnosis_ranks (in, N, text, sizeof (text)), n, "ranks are counted");
        is_str (text, rows[i].text, "listed");
    }
}

static void test_long_list (void)
{
    bool in[1000];
    char text[80];

    for (int r = 0; r < 1000; r++)
        in[r] = r % 2;
    is_int (diagnosis_ranks (in, 1000, text, sizeof (text)), 500, "500 ranks");
    ok (strlen (text) < sizeof (text) && strcmp (text + strlen (text) - 3, "...") == 0,
        "cut: %s", text);
}

/* All ranks of tp 2 x pp 2 x dp 2 wait in the same collective on the world ... */
static void fill (struct diagnosis_rank rank[N])
{
    memset (rank, 0, N * sizeof (*rank));
    for (int r = 0; r < N; r++) {
        struct rank_state *s = &rank[r].state;

        rank[r].fate = RANK_ANSWERED;
        strcpy (rank[r].host, r < 4 ? "a" : "b");
        strcpy (s->activity, "iteration 3");
        s->waiting = s->recorded = 1;
        s->wait_seconds = 2;
        s->wait = (struct record){ .name = "world", .seq = 5, .dtype = MG_FLOAT64,
                                   .call = MG_CALL_ALL_REDUCE, .count = 20, .peer = -1 };
        s->last = s->wait;
        s->num_counts = 2;
        strcpy (s->count[0].name, "world");
        s->count[0].collectives = 5;
        strcpy (s->count[1].name, "tp");
        s->count[1].collectives = 9;
    }
}

static struct grid *make_grid (void)
{
    struct geometry g;

    geometry_init (&g);
    g.world = N;
    g.tp = g.pp = 2;
    return grid_create (&g, NULL);
}

static void check (const struct diagnosis_rank *rank, const struct grid *grid, const char *why,
                   const char *want)
{
    char *text = diagnosis_text (rank, N, grid, why);

    is_str (text ? text : "", want, "the report");
    free (text);
}

static void test_fates (const struct grid *grid)
{
    struct diagnosis_rank rank[N];

    fill (rank);
    check (rank, grid, "why",
           "why\n  ranks 0-7: in iteration 3, waiting in all-reduce #5 on world, 2.0 s");
    rank[5].fate = RANK_DIED;
    check (rank, grid, "",
           "rank 5 on b died\n  ranks 0-4,6-7: in iteration 3, waiting in all-reduce #5 on "
           "world, for rank 5, 2.0 s");
    rank[5].fate = RANK_SILENT;
    check (rank, grid, "rank 1: out of time",
           "rank 5 on b does not answer: it is stopped, or its node is lost; rank 1: out of "
           "time\n  ranks 0-4,6-7: in iteration 3, waiting in all-reduce #5 on world, for rank "
           "5, 2.0 s");
    check (rank, NULL, "early",
           "rank 5 on b does not answer: it is stopped, or its node is lost; early\n  ranks "
           "0-4,6-7: in iteration 3, waiting in all-reduce #5 on world, 2.0 s");
    for (int r = 0; r < N; r++)
        rank[r].fate = RANK_UNKNOWN;
    check (rank, grid, "why", "why\n  ranks 0-7: never heard of");
}

/* A rank that answers and does not wait is the one that is waited for. */
static void test_busy (const struct grid *grid)
{
    struct diagnosis_rank rank[N];

    fill (rank);
    rank[3].state.waiting = 0;
    rank[3].state.count[0].collectives = 4;
    rank[3].state.last.seq = 4;
    rank[3].state.last.seconds = 60;
    check (rank, grid, "late",
           "rank 3 on a is waited for; late\n  ranks 0-2,4-7: in iteration 3, waiting in "
           "all-reduce #5 on world, for rank 3, 2.0 s\n  rank 3: in iteration 3, not waiting; "
           "its last call, 60.0 s ago: all-reduce #4 of 20 float64 on world");
    // its host waits for its own device alone
    rank[3].state.running = rank[7].state.running = 1;
    rank[7].state = rank[3].state;
    strcpy (rank[3].state.wait_text, "stream compute");
    strcpy (rank[7].state.wait_text, "stream compute");
    rank[3].state.wait_seconds = 7;
    check (rank, grid, "late",
           "rank 3 on a is waited for; rank 7 on b is waited for; late\n  ranks 0-2,4-6: in "
           "iteration 3, waiting in all-reduce #5 on world, for ranks 3,7, 2.0 s\n  ranks 3,7: in "
           "iteration 3, running kernels (stream compute) after all-reduce #4 of 20 float64 on "
           "world, 7.0 s");
}

static void test_mismatch (const struct grid *grid)
{
    struct diagnosis_rank rank[N];

    fill (rank);
    rank[6].state.wait.call = MG_CALL_BARRIER;
    check (rank, grid, "late",
           "ranks 0 and 6 do not match: all-reduce #5 of 20 float64 on world, and barrier #5 on "
           "world; late\n  ranks 0-5,7: in iteration 3, waiting in all-reduce #5 on world, 2.0 "
           "s\n  rank 6: in iteration 3, waiting in barrier #5 on world, 2.0 s");
    fill (rank);
    rank[6].state.wait.count = 21;
    check (rank, grid, "late",
           "ranks 0 and 6 do not match: all-reduce #5 of 20 float64 on world, and all-reduce #5 "
           "of 21 float64 on world; late\n  ranks 0-7: in iteration 3, waiting in all-reduce #5 "
           "on world, 2.0 s");
}

/* Two orders: rank 0 is on tp, which rank 1 has not come to, since it is on world. */
static void test_order (const struct grid *grid)
{
    struct diagnosis_rank rank[N];

    fill (rank);
    strcpy (rank[0].state.wait.name, "tp");
    rank[0].state.wait.seq = 10;
    rank[0].state.count[0].collectives = 4;
    rank[0].state.count[1].collectives = 10;
    check (rank, grid, "late",
           "late\n  rank 0: in iteration 3, waiting in all-reduce #10 on tp, for rank 1, 2.0 s"
           "\n  ranks 1-7: in iteration 3, waiting in all-reduce #5 on world, for rank 0, 2.0 s");
}

static void test_transfer (const struct grid *grid)
{
    struct diagnosis_rank rank[N];

    fill (rank);
    for (int r = 4; r < N; r++)
        rank[r].state.wait = (struct record){ .name = "pp", .call = MG_CALL_P2P, .peer = 0,
                                              .dtype = MG_FLOAT32, .count = 4 };
    check (rank, grid, "late",
           "late\n  ranks 0-3: in iteration 3, waiting in all-reduce #5 on world, 2.0 s\n"
           "  ranks 4-7: in iteration 3, waiting in receive on pp, for ranks 0-3, 2.0 s");
    // a lane's communicator has two members, and its name says who the other one is
    for (int r = 4; r < N; r++) {
        strcpy (rank[r].state.wait.name, "pp-fwd-in");
        rank[r].state.wait.peer = 1;
    }
    check (rank, grid, "late",
           "late\n  ranks 0-3: in iteration 3, waiting in all-reduce #5 on world, 2.0 s\n"
           "  ranks 4-7: in iteration 3, waiting in receive on pp-fwd-in, for ranks 0-3, 2.0 "
           "s");
}

/* A call with several transfers waits for both neighbours. */
static void test_grouped (const struct grid *grid)
{
    struct diagnosis_rank rank[N];

    fill (rank);
    for (int r = 4; r < N; r++)
        rank[r].state.wait = (struct record){ .name = "pp", .call = MG_CALL_P2P, .peer = 1,
                                              .more = 2, .other = 0, .dtype = MG_FLOAT32,
                                              .count = 4 };
    check (rank, grid, "late",
           "late\n  ranks 0-3: in iteration 3, waiting in all-reduce #5 on world, 2.0 s\n"
           "  ranks 4-7: in iteration 3, waiting in transfers on pp, for ranks 0-3, 2.0 s");
}

int main (void)
{
    struct grid *grid = make_grid ();

    test_lists ();
    test_long_list ();
    ok (grid != NULL, "a grid");
    test_fates (grid);
    test_busy (grid);
    test_mismatch (grid);
    test_order (grid);
    test_transfer (grid);
    test_grouped (grid);
    grid_destroy (grid);
    return done_testing ();
}
