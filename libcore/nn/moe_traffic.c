/* moe_traffic.c - bytes between the ranks of every tp-ep group, pair by pair
 *
 * All ranks have the same load.  So what one rank sends another depends on their places in the
 * expert grid alone: whether they have the same etp or the same ep coordinate, and the load of the
 * experts of either.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/nn/moe_traffic.h"

/* Bytes of the numbers that are sent with rows. */
enum { COUNT_BYTES = 8, INDEX_BYTES = 4, PROB_BYTES = 4 };

/* The state of one pass over the groups. */
struct counter {
    const struct moe_load *load;
    const struct grid *grid;
    int ranks_per_node;
    int ep, group_size;
    int64_t *rows; /* [ep]: choices that one rank has for the experts of an ep rank */

    /* of the group at hand */
    int *rank, *ep_of, *etp_of, *node;
    struct flow {
        int64_t sent[MOE_NUM_DISPATCHES][MOE_NUM_PHASES + 1][MOE_NUM_REACHES];
        int64_t received[MOE_NUM_DISPATCHES][MOE_NUM_PHASES + 1][MOE_NUM_REACHES];
    } *flow; /* [group_size] */
};

/* All choices of the first expert.  The product of a factor such as 1.1 may be a little too large,
 * which must not make one choice more.
 */
static int64_t hot_choices (const struct moe_load *load)
{
    double mean = (double)load->tokens * load->topk / load->experts;
    double hot = ceil (load->imbalance * mean * (1 - 1e-12));

    return hot < (double)load->tokens ? (int64_t)hot : load->tokens;
}

int64_t moe_load_choices (const struct moe_load *load, int expert)
{
    int64_t hot = hot_choices (load), rest = load->tokens * load->topk - hot, choices = hot;
    int others = load->experts - 1;

    if (expert > 0)
        choices = rest / others + (expert - 1 < rest % others);
    if (load->capacity && (load->pad || choices > load->capacity))
        choices = load->capacity;
    return choices;
}

int64_t moe_load_bound (const struct moe_load *load, double factor, int etp)
{
    double rows = (double)load->tokens * load->topk * etp;

    return (int64_t)ceil (factor * rows * (1 - 1e-12));
}

static int check_load (const struct moe_load *load, const struct grid *grid, struct mg_error *err)
{
    int ep = grid_size (grid, true, MG_AXIS_EP);

    if (load->experts < 1 || load->topk < 1 || load->topk > load->experts
        || load->experts % ep != 0 || load->tokens < 0 || load->row_bytes < 0)
        return mg_error_set (err, EINVAL, "a load of %d experts, topk %d, on ep %d is not possible",
                             load->experts, load->topk, ep);
    if (!(load->imbalance >= 1) || load->imbalance * load->topk > load->experts)
        return mg_error_set (err, EINVAL, "an imbalance of %g is not possible, want 1 to %g: "
                             "a token has %d different experts of %d", load->imbalance,
                             (double)load->experts / load->topk, load->topk, load->experts);
    return 0;
}

/* No sum is more than what all pairs exchange if each rank sends each other all that it has. */
static int check_size (const struct counter *c, const int64_t *layers, struct mg_error *err)
{
    const struct moe_load *load = c->load;
    double choices = (double)load->tokens * load->topk, most = 0, sum;

    if (load->capacity && load->pad)
        choices = (double)load->capacity * load->experts;
    for (int p = 0; p < grid_size (c->grid, true, MG_AXIS_PP); p++)
        most = (double)layers[p] > most ? (double)layers[p] : most;
    sum = choices * ((double)load->row_bytes + PROB_BYTES + INDEX_BYTES)
          + (double)COUNT_BYTES * load->experts;
    sum *= (double)c->group_size * c->ep * grid_world (c->grid) * MOE_NUM_PHASES;
    if (sum * (most < 1 ? 1 : most) >= 9e18)
        return mg_error_set (err, EOVERFLOW, "the traffic is more than 63 bits of bytes");
    return 0;
}

/* Add the bytes that member a of the group sends to member b. */
static void pair_bytes (const struct counter *c, int a, int b,
                        int64_t bytes[MOE_NUM_DISPATCHES][MOE_NUM_PHASES])
{
    const struct moe_load *load = c->load;
    int64_t to = c->rows[c->ep_of[b]], from = c->rows[c->ep_of[a]], probs = load->topk * PROB_BYTES;
    int64_t there = 0, back = 0; // rows of choices that are sent to experts, and come from them

    if (c->etp_of[a] == c->etp_of[b]) {
        there = to;
        back = from;
    }
    else if (c->ep_of[a] == c->ep_of[b])
        there = back = c->ep * from;
    bytes[MOE_ALL_TO_ALL][MOE_FORWARD_DISPATCH]
        = there * (load->row_bytes + PROB_BYTES) + (int64_t)COUNT_BYTES * load->experts;
    bytes[MOE_ALL_TO_ALL][MOE_FORWARD_COMBINE] = back * load->row_bytes;
    bytes[MOE_ALL_TO_ALL][MOE_BACKWARD_COMBINE] = there * load->row_bytes;
    bytes[MOE_ALL_TO_ALL][MOE_BACKWARD_DISPATCH] = back * (load->row_bytes + PROB_BYTES);

    bytes[MOE_ALL_GATHER][MOE_FORWARD_DISPATCH]
        = load->tokens * (load->row_bytes + probs + (int64_t)load->topk * INDEX_BYTES);
    bytes[MOE_ALL_GATHER][MOE_FORWARD_COMBINE] = load->tokens * load->row_bytes;
    bytes[MOE_ALL_GATHER][MOE_BACKWARD_COMBINE] = load->tokens * load->row_bytes;
    bytes[MOE_ALL_GATHER][MOE_BACKWARD_DISPATCH] = load->tokens * (load->row_bytes + probs);
}

static void count_pair (struct counter *c, int a, int b)
{
    enum moe_traffic_reach reach = c->node[a] == c->node[b] ? MOE_WITHIN_NODES : MOE_BETWEEN_NODES;
    int64_t bytes[MOE_NUM_DISPATCHES][MOE_NUM_PHASES];

    pair_bytes (c, a, b, bytes);
    for (int w = 0; w < MOE_NUM_DISPATCHES; w++) {
        for (int p = 0; p < MOE_NUM_PHASES; p++) {
            c->flow[a].sent[w][p][reach] += bytes[w][p];
            c->flow[b].received[w][p][reach] += bytes[w][p];
            c->flow[a].sent[w][MOE_NUM_PHASES][reach] += bytes[w][p];
            c->flow[b].received[w][MOE_NUM_PHASES][reach] += bytes[w][p];
        }
    }
}

/* Add what one rank sends and receives. */
static void add_flow (struct moe_traffic *t, const struct flow *flow, int64_t layers)
{
    for (int w = 0; w < MOE_NUM_DISPATCHES; w++) {
        for (int r = 0; r < MOE_NUM_REACHES; r++) {
            for (int p = 0; p <= MOE_NUM_PHASES; p++) {
                struct moe_traffic_bytes *bytes = &t->bytes[w][p][r];
                int64_t sent = flow->sent[w][p][r], received = flow->received[w][p][r];
                int64_t most = sent > received ? sent : received;

                bytes->total += sent;
                if (most > bytes->largest)
                    bytes->largest = most;
            }
            t->job[w][r] += flow->sent[w][MOE_NUM_PHASES][r] * layers;
        }
    }
}

static void count_group (struct counter *c, int index, const int64_t *layers,
                         struct moe_traffic *t)
{
    struct group group;

    grid_group_at (c->grid, GROUP_TP_EP, index, &group);
    memset (c->flow, 0, (size_t)c->group_size * sizeof (*c->flow));
    for (int i = 0; i < c->group_size; i++) {
        c->rank[i] = group_at (&group, i);
        c->ep_of[i] = grid_coord (c->grid, true, MG_AXIS_EP, c->rank[i]);
        c->etp_of[i] = grid_coord (c->grid, true, MG_AXIS_TP, c->rank[i]);
        c->node[i] = c->rank[i] / c->ranks_per_node;
    }
    for (int a = 0; a < c->group_size; a++) {
        for (int b = 0; b < c->group_size; b++) {
            if (a != b)
                count_pair (c, a, b);
        }
    }
    for (int i = 0; i < c->group_size; i++)
        add_flow (t, &c->flow[i], layers[grid_coord (c->grid, true, MG_AXIS_PP, c->rank[i])]);
}

/* Compute what the experts of each ep rank get from one rank, and from all ranks. */
static void count_rows (struct counter *c, int etp, struct moe_traffic *t)
{
    int own = c->load->experts / c->ep;

    for (int e = 0; e < c->load->experts; e++)
        c->rows[e / own] += moe_load_choices (c->load, e);
    t->least_rows = INT64_MAX;
    for (int r = 0; r < c->ep; r++) {
        int64_t all = c->rows[r] * c->ep * etp;

        t->least_rows = all < t->least_rows ? all : t->least_rows;
        t->most_rows = all > t->most_rows ? all : t->most_rows;
    }
}

int moe_traffic_count (const struct moe_load *load, const struct grid *grid, int ranks_per_node,
                       const int64_t *layers, struct moe_traffic *traffic, struct mg_error *err)
{
    int ep = grid_size (grid, true, MG_AXIS_EP), etp = grid_size (grid, true, MG_AXIS_TP);
    struct counter c = { .load = load, .grid = grid, .ranks_per_node = ranks_per_node, .ep = ep,
                         .group_size = ep * etp };
    size_t n = (size_t)c.group_size;
    int rc = -1;

    memset (traffic, 0, sizeof (*traffic));
    if (check_load (load, grid, err) < 0 || check_size (&c, layers, err) < 0)
        return -1;
    c.rows = calloc ((size_t)ep, sizeof (*c.rows));
    c.rank = calloc (4 * n, sizeof (*c.rank));
    c.flow = calloc (n, sizeof (*c.flow));
    if (c.rows && c.rank && c.flow) {
        c.ep_of = c.rank + n;
        c.etp_of = c.rank + 2 * n;
        c.node = c.rank + 3 * n;
        count_rows (&c, etp, traffic);
        for (int i = 0; i < grid_group_count (grid, GROUP_TP_EP); i++)
            count_group (&c, i, layers, traffic);
        rc = 0;
    }
    else
        mg_error_set (err, ENOMEM, "out of memory");
    free (c.flow);
    free (c.rank);
    free (c.rows);
    return rc;
}
