/* moe_advice.c - what would keep the traffic of experts within nodes
 *
 * With an order that begins with tp, cp and ep the ranks of a tp-ep group follow each other.  Such
 * groups lie on one node each if and only if etp x ep divides the ranks of a node, or is all of a
 * pipeline stage's ranks and these are on one node.  Every advice is tried before it is given.
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cmd/plan/moe.h"

static const char best_order[] = "tp-cp-ep-dp-pp";

static void __attribute__ ((format (printf, 2, 3)))
advise (struct plan_moe *m, const char *fmt, ...)
{
    va_list ap;

    if (m->num_advices == PLAN_MOE_ADVICES)
        return;
    va_start (ap, fmt);
    vsnprintf (m->advice[m->num_advices++], PLAN_MOE_TEXT, fmt, ap);
    va_end (ap);
}

/* True if the geometry is possible with every tp-ep group on one node. */
static bool stays (const struct geometry *g, int ranks_per_node)
{
    struct grid *grid = grid_create (g, NULL);
    bool good;
    int first;

    if (!grid)
        return false;
    good = crossing_count (grid, GROUP_TP_EP, ranks_per_node, &first) == 0;
    grid_destroy (grid);
    return good;
}

static void advise_order (struct plan_moe *m, struct geometry g)
{
    snprintf (g.order, sizeof (g.order), "%s", best_order);
    if (stays (&g, m->ranks_per_node))
        advise (m, "the order %s would keep each on one node (--megatron-order, MEGATRON_ORDER)",
                best_order);
}

/* Find the least possible number of ranks on a node that is at least the present number, or else
 * the largest below it.
 */
static void advise_nodes (struct plan_moe *m, const struct geometry *g)
{
    int size = geometry_etp (g) * g->ep, above, best = 0;

    above = (m->ranks_per_node + size - 1) / size * size;
    if (above <= g->world && stays (g, above))
        best = above;
    else if (above - size > 0 && stays (g, above - size))
        best = above - size;
    if (best)
        advise (m, "nodes of %d ranks would keep each on one node", best);
}

static void advise_etp (struct plan_moe *m, struct geometry g)
{
    g.etp = 1;
    if (geometry_etp (grid_geometry (m->grid)) > 1 && stays (&g, m->ranks_per_node))
        advise (m, "--expert-tensor-parallel-size 1 would keep each on one node");
}

static void advise_ep (struct plan_moe *m, struct geometry g)
{
    int ep = g.ep;

    for (g.ep = ep - 1; g.ep > 0; g.ep--) {
        if (ep % g.ep == 0 && stays (&g, m->ranks_per_node)) {
            advise (m,
                    "--expert-model-parallel-size %d would keep each on one node, with %d experts "
                    "on a rank in place of %d",
                    g.ep, m->load.experts / g.ep, m->load.experts / ep);
            return;
        }
    }
}

/* The other dispatcher, if it sends less between nodes. */
static void advise_dispatch (struct plan_moe *m)
{
    enum moe_dispatch other = m->dispatch == MOE_ALL_GATHER ? MOE_ALL_TO_ALL : MOE_ALL_GATHER;
    int64_t now = m->traffic.bytes[m->dispatch][MOE_NUM_PHASES][MOE_BETWEEN_NODES].total;
    int64_t then = m->traffic.bytes[other][MOE_NUM_PHASES][MOE_BETWEEN_NODES].total;

    if (then < now)
        advise (m, "--moe-token-dispatcher-type %s would send %.0f%% of the bytes between nodes",
                plan_moe_dispatch_name (other), 100 * (double)then / (double)now);
}

void plan_moe_advise (struct plan_moe *m)
{
    struct geometry g = *grid_geometry (m->grid);

    if (grid_size (m->grid, true, MG_AXIS_EP) * grid_size (m->grid, true, MG_AXIS_TP) == 1) {
        advise (m, "a rank has all experts: nothing is sent");
        return;
    }
    if (crossing_describe (m->grid, GROUP_TP_EP, m->ranks_per_node, m->advice[m->num_advices++])
        == 0)
        return;
    g.etp = geometry_etp (&g); // an advice changes one thing, not what follows from tp
    advise_order (m, g);
    advise_nodes (m, &g);
    advise_etp (m, g);
    advise_ep (m, g);
    advise_dispatch (m);
}
