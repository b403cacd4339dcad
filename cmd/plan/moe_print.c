/* moe_print.c - the traffic of experts as text and as JSON */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "cmd/plan/moe.h"
#include "cmd/plan/plan.h"

static const struct {
    const char *text, *json;
} phases[MOE_NUM_PHASES + 1] = {
    [MOE_FORWARD_DISPATCH] = { "forward dispatch", "forward_dispatch" },
    [MOE_FORWARD_COMBINE] = { "forward combine", "forward_combine" },
    [MOE_BACKWARD_COMBINE] = { "backward combine", "backward_combine" },
    [MOE_BACKWARD_DISPATCH] = { "backward dispatch", "backward_dispatch" },
    [MOE_NUM_PHASES] = { "together", "together" },
};

static const char *const reaches[MOE_NUM_REACHES] = {
    [MOE_WITHIN_NODES] = "within_nodes",
    [MOE_BETWEEN_NODES] = "between_nodes",
};

const char *plan_moe_dispatch_name (enum moe_dispatch dispatch)
{
    return dispatch == MOE_ALL_GATHER ? "allgather" : "alltoall";
}

/* Bytes of a rank in the mean, rounded. */
static int64_t mean (const struct plan_moe *m, const struct moe_traffic_bytes *bytes)
{
    int world = grid_world (m->grid);

    return bytes->total / world + (bytes->total % world >= (world + 1) / 2);
}

static void print_head (const struct plan_moe *m)
{
    const struct moe_load *load = &m->load;
    int world = grid_world (m->grid), ep = grid_size (m->grid, true, MG_AXIS_EP);
    int nodes = (world + m->ranks_per_node - 1) / m->ranks_per_node;

    printf ("%d ranks on %d node%s of %d: ", world, nodes, nodes == 1 ? "" : "s",
            m->ranks_per_node);
    plan_print_grids (grid_geometry (m->grid));
    printf ("\nlayers with experts: %" PRId64 ", of %d experts each, %d on a rank\n", m->num_layers,
            load->experts, load->experts / ep);
    printf ("microbatches of an iteration: %" PRId64 ", of %" PRId64 " tokens a rank, %" PRId64
            " bytes each\n",
            m->num_microbatches, load->tokens, load->row_bytes);
    printf ("choices of a token: %d; of a rank for the busiest expert %" PRId64
            ", %g times the mean, for the last one %" PRId64 "\n",
            load->topk, moe_load_choices (load, 0), load->imbalance,
            moe_load_choices (load, load->experts - 1));
}

static void print_dispatch (const struct plan_moe *m, enum moe_dispatch d)
{
    printf ("%s%s\n", plan_moe_dispatch_name (d), d == m->dispatch ? " (chosen)" : "");
    for (int p = 0; p <= MOE_NUM_PHASES; p++) {
        printf ("  %-18s", phases[p].text);
        for (int r = 0; r < MOE_NUM_REACHES; r++) {
            const struct moe_traffic_bytes *bytes = &m->traffic.bytes[d][p][r];

            printf (" %14" PRId64 " %14" PRId64, mean (m, bytes), bytes->largest);
        }
        putchar ('\n');
    }
}

static void print_job (const struct plan_moe *m)
{
    printf ("\n%-20s %29s %29s\n", "bytes of all ranks,", "within nodes", "between nodes");
    printf ("an iteration\n");
    for (int d = 0; d < MOE_NUM_DISPATCHES; d++) {
        bool chosen = d == (int)m->dispatch;

        printf ("%-9s %-10s", plan_moe_dispatch_name (d), chosen ? "(chosen)" : "");
        for (int r = 0; r < MOE_NUM_REACHES; r++)
            printf (" %29" PRId64, m->traffic.job[d][r]);
        putchar ('\n');
    }
}

static void print_rows (const struct plan_moe *m)
{
    const struct moe_traffic *t = &m->traffic;

    printf ("\nrows that the experts of a rank get: %" PRId64 " to %" PRId64 "\n", t->least_rows,
            t->most_rows);
    if (!m->bound)
        return;
    printf ("rows of a round: %" PRId64 " = ceil (%g x tokens x topk x etp), so %" PRId64
            " round%s\n",
            m->bound, m->factor, m->rounds, m->rounds == 1 ? "" : "s");
    if (m->rounds > 1)
        printf ("the backward pass dispatches %" PRId64
                " rows of the busiest rank again: those after the first round\n",
                t->most_rows - m->bound);
}

void plan_moe_print (const struct plan_moe *m)
{
    print_head (m);
    printf ("\n%-20s %29s %29s\n", "bytes of a rank,", "within nodes", "between nodes");
    printf ("%-20s %14s %14s %14s %14s\n", "layer, microbatch", "mean", "largest", "mean",
            "largest");
    for (int d = 0; d < MOE_NUM_DISPATCHES; d++)
        print_dispatch (m, d);
    print_job (m);
    print_rows (m);
    for (int i = 0; i < m->num_advices; i++)
        printf ("%s\n", m->advice[i]);
}

static void print_json_dispatch (const struct plan_moe *m, enum moe_dispatch d)
{
    printf ("\"%s\":{", plan_moe_dispatch_name (d));
    for (int p = 0; p <= MOE_NUM_PHASES; p++) {
        printf ("\"%s\":{", phases[p].json);
        for (int r = 0; r < MOE_NUM_REACHES; r++) {
            const struct moe_traffic_bytes *bytes = &m->traffic.bytes[d][p][r];

            printf ("%s\"%s\":{\"mean\":%" PRId64 ",\"largest\":%" PRId64 ",\"total\":%" PRId64 "}",
                    r ? "," : "", reaches[r], mean (m, bytes), bytes->largest, bytes->total);
        }
        printf ("},");
    }
    printf ("\"iteration\":{");
    for (int r = 0; r < MOE_NUM_REACHES; r++)
        printf ("%s\"%s\":%" PRId64, r ? "," : "", reaches[r], m->traffic.job[d][r]);
    printf ("}}");
}

void plan_moe_print_json (const struct plan_moe *m)
{
    const struct moe_load *load = &m->load;

    printf ("{\"world_size\":%d,\"ranks_per_node\":%d,", grid_world (m->grid), m->ranks_per_node);
    plan_print_grids_json (grid_geometry (m->grid));
    printf (",\"layers\":%" PRId64 ",\"num_microbatches\":%" PRId64 ",\"experts\":%d,\"topk\":%d,"
            "\"tokens\":%" PRId64 ",\"row_bytes\":%" PRId64 ",\"imbalance\":%g,\n",
            m->num_layers, m->num_microbatches, load->experts, load->topk, load->tokens,
            load->row_bytes, load->imbalance);
    printf ("\"rows\":{\"least\":%" PRId64 ",\"most\":%" PRId64, m->traffic.least_rows,
            m->traffic.most_rows);
    if (m->bound)
        printf (",\"bound\":%" PRId64 ",\"rounds\":%" PRId64, m->bound, m->rounds);
    printf ("},\n\"dispatcher\":\"%s\",\"dispatchers\":{", plan_moe_dispatch_name (m->dispatch));
    for (int d = 0; d < MOE_NUM_DISPATCHES; d++) {
        fputs (d ? ",\n" : "\n", stdout);
        print_json_dispatch (m, d);
    }
    printf ("},\n\"advice\":[");
    for (int i = 0; i < m->num_advices; i++)
        printf ("%s\"%s\"", i ? "," : "", m->advice[i]);
    printf ("]}\n");
}
