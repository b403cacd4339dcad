/* moe_traffic.c - the traffic of experts against a count of every token on every way
 *
 * The count gives every rank tokens with different experts each, in the numbers that
 * moe_load_choices() says, and follows every choice from rank to rank.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/nn/moe_traffic.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

enum { WORLD_MAX = 64 };

/* Bytes from rank to rank. */
struct count {
    int64_t bytes[MOE_NUM_DISPATCHES][MOE_NUM_PHASES][WORLD_MAX][WORLD_MAX];
};

static struct grid *make_grid (int world, int tp, int pp, int ep, int etp, const char *order)
{
    struct geometry g;

    geometry_init (&g);
    g.world = world;
    g.tp = tp, g.pp = pp, g.ep = ep, g.etp = etp;
    strcpy (g.order, order);
    return grid_create (&g, NULL);
}

static int coord (const struct grid *grid, enum mg_axis axis, int rank)
{
    return grid_coord (grid, true, axis, rank);
}

static bool same (const struct grid *grid, enum mg_axis axis, int a, int b)
{
    return coord (grid, axis, a) == coord (grid, axis, b);
}

static bool same_group (const struct grid *grid, int a, int b)
{
    return same (grid, MG_AXIS_DP, a, b) && same (grid, MG_AXIS_PP, a, b);
}

static void send (struct count *c, enum moe_dispatch way, enum moe_traffic_phase phase, int from,
                  int to, int64_t bytes)
{
    if (from != to)
        c->bytes[way][phase][from][to] += bytes;
}

/* One choice of a token of rank 's', by way of rank 'd', to rank 'x', and back. */
static void follow (struct count *c, const struct moe_load *load, int s, int d, int x)
{
    int64_t row = load->row_bytes;

    if (d == x) {
        send (c, MOE_ALL_TO_ALL, MOE_FORWARD_DISPATCH, s, d, row + 4);
        send (c, MOE_ALL_TO_ALL, MOE_FORWARD_COMBINE, d, s, row);
        send (c, MOE_ALL_TO_ALL, MOE_BACKWARD_COMBINE, s, d, row);
        send (c, MOE_ALL_TO_ALL, MOE_BACKWARD_DISPATCH, d, s, row + 4);
        return;
    }
    send (c, MOE_ALL_TO_ALL, MOE_FORWARD_DISPATCH, d, x, row + 4);
    send (c, MOE_ALL_TO_ALL, MOE_FORWARD_COMBINE, x, d, row);
    send (c, MOE_ALL_TO_ALL, MOE_BACKWARD_COMBINE, d, x, row);
    send (c, MOE_ALL_TO_ALL, MOE_BACKWARD_DISPATCH, x, d, row + 4);
}

/* Every choice of rank 's': the ranks of its expert are all etp ranks of one ep coordinate. */
static void follow_choices (struct count *c, const struct moe_load *load, const struct grid *grid,
                            int s)
{
    int own = load->experts / grid_size (grid, true, MG_AXIS_EP);

    for (int e = 0; e < load->experts; e++) {
        for (int64_t n = moe_load_choices (load, e); n > 0; n--) {
            int d = 0;

            while (!same_group (grid, s, d) || !same (grid, MG_AXIS_TP, s, d)
                   || coord (grid, MG_AXIS_EP, d) != e / own)
                d++;
            for (int x = 0; x < grid_world (grid); x++) {
                if (same_group (grid, d, x) && same (grid, MG_AXIS_EP, d, x))
                    follow (c, load, s, d, x);
            }
        }
    }
}

static void follow_tokens (struct count *c, const struct moe_load *load, int s, int x)
{
    for (int64_t t = 0; t < load->tokens; t++) {
        send (c, MOE_ALL_GATHER, MOE_FORWARD_DISPATCH, s, x, load->row_bytes);
        for (int k = 0; k < load->topk; k++) {
            send (c, MOE_ALL_GATHER, MOE_FORWARD_DISPATCH, s, x, 4 + 4); // an index, a probability
            send (c, MOE_ALL_GATHER, MOE_BACKWARD_DISPATCH, x, s, 4);
        }
        send (c, MOE_ALL_GATHER, MOE_FORWARD_COMBINE, x, s, load->row_bytes);
        send (c, MOE_ALL_GATHER, MOE_BACKWARD_COMBINE, s, x, load->row_bytes);
        send (c, MOE_ALL_GATHER, MOE_BACKWARD_DISPATCH, x, s, load->row_bytes);
    }
}

static void count_all (struct count *c, const struct moe_load *load, const struct grid *grid)
{
    memset (c, 0, sizeof (*c));
    for (int s = 0; s < grid_world (grid); s++) {
        follow_choices (c, load, grid, s);
        for (int x = 0; x < grid_world (grid); x++) {
            if (!same_group (grid, s, x))
                continue;
            follow_tokens (c, load, s, x);
            for (int e = 0; e < load->experts; e++)
                send (c, MOE_ALL_TO_ALL, MOE_FORWARD_DISPATCH, s, x, 8);
        }
    }
}

/* Compare phase 'p', or all phases, of one dispatcher and one reach. */
static bool matches (const struct count *c, const struct moe_traffic *t, int world, int per_node,
                     int w, int p, int reach)
{
    int64_t total = 0, largest = 0;

    for (int a = 0; a < world; a++) {
        int64_t sent = 0, received = 0;

        for (int b = 0; b < world; b++) {
            if ((a / per_node == b / per_node) != (reach == MOE_WITHIN_NODES))
                continue;
            for (int phase = 0; phase < MOE_NUM_PHASES; phase++) {
                if (phase == p || p == MOE_NUM_PHASES) {
                    sent += c->bytes[w][phase][a][b];
                    received += c->bytes[w][phase][b][a];
                }
            }
        }
        total += sent;
        largest = sent > largest ? sent : largest;
        largest = received > largest ? received : largest;
    }
    return total == t->bytes[w][p][reach].total && largest == t->bytes[w][p][reach].largest;
}

static bool job_matches (const struct count *c, const struct moe_traffic *t,
                         const struct grid *grid, int per_node, const int64_t *layers, int w,
                         int reach)
{
    int64_t total = 0;

    for (int a = 0; a < grid_world (grid); a++) {
        for (int b = 0; b < grid_world (grid); b++) {
            for (int p = 0; p < MOE_NUM_PHASES; p++) {
                if ((a / per_node == b / per_node) == (reach == MOE_WITHIN_NODES))
                    total += c->bytes[w][p][a][b] * layers[coord (grid, MG_AXIS_PP, a)];
            }
        }
    }
    return total == t->job[w][reach];
}

static bool check (const struct moe_load *load, const struct grid *grid, int per_node)
{
    static struct count c;
    int64_t layers[8];
    struct moe_traffic t;
    bool good = true;

    for (size_t i = 0; i < COUNT (layers); i++)
        layers[i] = (int64_t)i * 3 + 1;
    if (moe_traffic_count (load, grid, per_node, layers, &t, NULL) < 0)
        return false;
    count_all (&c, load, grid);
    for (int w = 0; w < MOE_NUM_DISPATCHES; w++) {
        for (int reach = 0; reach < MOE_NUM_REACHES; reach++) {
            for (int p = 0; p <= MOE_NUM_PHASES; p++)
                good &= matches (&c, &t, grid_world (grid), per_node, w, p, reach);
            good &= job_matches (&c, &t, grid, per_node, layers, w, reach);
        }
    }
    return good;
}

/* --- layouts and loads at random --- */

static int draw (int n)
{
    return rand () % n; // NOLINT: the same numbers in every run
}

/* The numbers of choices make a routing: no expert has more choices than there are tokens. */
static bool is_routing (const struct moe_load *load)
{
    int64_t sum = 0, most = 0;

    for (int e = 0; e < load->experts; e++) {
        int64_t n = moe_load_choices (load, e);

        if (n < 0 || n > load->tokens)
            return false;
        most = n > most ? n : most;
        sum += n;
    }
    return sum == load->tokens * load->topk && most == moe_load_choices (load, 0);
}

static void test_random (void)
{
    static const char *const orders[] = {
        "tp-cp-ep-dp-pp", "ep-tp-cp-dp-pp", "dp-ep-tp-cp-pp", "tp-dp-cp-ep-pp", "tp-cp-ep-pp-dp",
    };
    int done = 0, wrong = 0, bad_routing = 0;

    srand (11);
    while (done < 300) {
        int ep = 1 << draw (4), etp = 1 << draw (3), pp = 1 + draw (3), edp = 1 + draw (2);
        int world = ep * etp * pp * edp, own = 1 + draw (3);
        struct moe_load load = { .experts = ep * own, .tokens = draw (9),
                                 .row_bytes = 2 * draw (20), .topk = 1 + draw (ep * own) };
        struct grid *grid;

        if (world > WORLD_MAX
            || !(grid = make_grid (world, draw (2) ? etp : 1, pp, ep, etp,
                                   orders[draw (COUNT (orders))])))
            continue;
        load.imbalance = 1 + ((double)load.experts / load.topk - 1) * draw (5) / 4;
        bad_routing += !is_routing (&load);
        load.capacity = draw (3) ? 0 : 1 + draw (3);
        load.pad = load.capacity && draw (2);
        if (!check (&load, grid, 1 + draw (world))) {
            wrong++;
            diag ("world %d, ep %d, etp %d, pp %d, experts %d, topk %d, tokens %d", world, ep, etp,
                  pp, load.experts, load.topk, (int)load.tokens);
        }
        grid_destroy (grid);
        done++;
    }
    is_int (wrong, 0, "%d layouts and loads are counted as token by token", done);
    is_int (bad_routing, 0, "and each load is that of a routing");
}

/* --- by hand --- */

static void is_bytes (const struct moe_traffic *t, int w, int p, const int64_t want[4],
                      const char *what)
{
    const struct moe_traffic_bytes *within = &t->bytes[w][p][MOE_WITHIN_NODES];
    const struct moe_traffic_bytes *between = &t->bytes[w][p][MOE_BETWEEN_NODES];

    is_int (within->total, want[0], "%s, within nodes", what);
    is_int (within->largest, want[1], "of one rank");
    is_int (between->total, want[2], "%s, between nodes", what);
    is_int (between->largest, want[3], "of one rank");
}

/* Four ranks with an expert each, on two nodes; 8 tokens of 10 bytes and one choice. */
static void test_by_hand (void)
{
    static const int64_t layers[] = { 3 };
    struct moe_load load = { .experts = 4, .topk = 1, .tokens = 8, .row_bytes = 10,
                             .imbalance = 1 };
    struct grid *grid = make_grid (4, 1, 1, 4, 1, "tp-cp-ep-dp-pp");
    struct moe_traffic t;

    is_int (moe_traffic_count (&load, grid, 2, layers, &t, NULL), 0, "balanced");
    // 2 choices for each other rank, and 4 numbers
    is_bytes (&t, MOE_ALL_TO_ALL, MOE_FORWARD_DISPATCH, (int64_t[]){ 240, 60, 480, 120 },
              "2 rows and 4 counts");
    is_bytes (&t, MOE_ALL_TO_ALL, MOE_BACKWARD_DISPATCH, (int64_t[]){ 112, 28, 224, 56 },
              "2 rows and probabilities");
    is_bytes (&t, MOE_ALL_TO_ALL, MOE_NUM_PHASES, (int64_t[]){ 512, 128, 1024, 256 }, "all phases");
    is_bytes (&t, MOE_ALL_GATHER, MOE_FORWARD_DISPATCH, (int64_t[]){ 576, 144, 1152, 288 },
              "8 tokens");
    is_int (t.job[MOE_ALL_TO_ALL][MOE_WITHIN_NODES], 3 * 512, "three layers");
    is_int (t.job[MOE_ALL_TO_ALL][MOE_BETWEEN_NODES], 3 * 1024, "between nodes");
    is_int (t.most_rows, 8, "rows of an expert's rank");
    is_int (t.least_rows, 8, "the same on all");

    load.imbalance = 4;
    is_int (moe_traffic_count (&load, grid, 2, layers, &t, NULL), 0, "all tokens to one expert");
    is_bytes (&t, MOE_ALL_TO_ALL, MOE_FORWARD_DISPATCH, (int64_t[]){ 240, 144, 480, 288 },
              "8 rows to rank 0");
    is_int (t.most_rows, 32, "rows of its rank");
    is_int (t.least_rows, 0, "none elsewhere");
    is_int (moe_load_bound (&load, 2, 1), 16, "the bound");
    is_int (moe_load_bound (&load, 1.1, 1), 9, "is rounded up");
    is_int (moe_load_bound (&load, 1.1, 10), 88, "but not because of the factor's last digit");
    is_int (moe_load_choices (&(struct moe_load){ .experts = 10, .topk = 1, .tokens = 100,
                                                  .imbalance = 1.1 }, 0), 11,
            "nor is the load of the busiest expert");
    load.capacity = 3;
    is_int (moe_load_choices (&load, 0), 3, "a capacity drops what is more");
    is_int (moe_load_choices (&load, 1), 0, "and adds nothing");
    load.pad = true;
    is_int (moe_load_choices (&load, 1), 3, "unless experts are padded");
    grid_destroy (grid);
}

static void test_refused (void)
{
    static const int64_t layers[] = { 1 };
    static const struct {
        struct moe_load load;
        int errnum;
        const char *text;
    } cases[] = {
        { { .experts = 8, .topk = 2, .imbalance = 4.5 }, EINVAL,
          "an imbalance of 4.5 is not possible, want 1 to 4: a token has 2 different experts "
          "of 8" },
        { { .experts = 8, .topk = 2, .imbalance = 0.9 }, EINVAL,
          "an imbalance of 0.9 is not possible, want 1 to 4: a token has 2 different experts "
          "of 8" },
        { { .experts = 6, .topk = 2, .imbalance = 1 }, EINVAL,
          "a load of 6 experts, topk 2, on ep 4 is not possible" },
        { { .experts = 8, .topk = 9, .imbalance = 1 }, EINVAL,
          "a load of 8 experts, topk 9, on ep 4 is not possible" },
        { { .experts = 8, .topk = 2, .imbalance = 1, .tokens = INT64_MAX / 8, .row_bytes = 2 },
          EOVERFLOW, "the traffic is more than 63 bits of bytes" },
    };
    struct grid *grid = make_grid (4, 1, 1, 4, 1, "tp-cp-ep-dp-pp");
    struct moe_traffic t;

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err = { .text = "" };

        is_int (moe_traffic_count (&cases[i].load, grid, 2, layers, &t, &err), -1, "refused");
        is_int (errno, cases[i].errnum, "errno");
        is_str (err.text, cases[i].text, "the text");
    }
    grid_destroy (grid);
}

int main (void)
{
    test_random ();
    test_by_hand ();
    test_refused ();
    return done_testing ();
}
