/* graphs - the parts of "megatron plan graphs". */
#ifndef CMD_PLAN_GRAPHS_H
#define CMD_PLAN_GRAPHS_H

#include "cmd/plan/memory.h"

/* The data that is printed. */
struct plan_graphs {
    int first, n; /* ranks */
    const struct plan_memory_row *row;   /* [n] of these ranks */
    int pp;
    const struct plan_memory_row *stage; /* [pp] of the pipeline of the first of them */
};

/* Graphs that Megatron-LM captures for the same run: one for each layer, direction and microbatch;
 * without a pipeline, all microbatches use the graphs of one.
 */
int64_t plan_graphs_peer (const struct passes_plan *plan, int pp);

void plan_graphs_print (const struct plan_graphs *g);
void plan_graphs_print_json (const struct plan_graphs *g);

#endif /* CMD_PLAN_GRAPHS_H */
