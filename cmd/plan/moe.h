/* moe - the parts of "megatron plan moe". */
#ifndef CMD_PLAN_MOE_H
#define CMD_PLAN_MOE_H

#include <stdint.h>

#include "cmd/plan/crossing.h"
#include "libcore/nn/moe_traffic.h"

enum { PLAN_MOE_ADVICES = 6, PLAN_MOE_TEXT = CROSSING_TEXT };

/* The data that is printed. */
struct plan_moe {
    const struct grid *grid;
    int ranks_per_node;
    struct moe_load load;
    enum moe_dispatch dispatch; /* the dispatcher that the run uses */
    struct moe_traffic traffic;
    int64_t num_layers;       /* layers with experts, in the whole model */
    int64_t num_microbatches; /* microbatches of an iteration */
    double factor; /* --moe-expert-rank-capacity-factor; 0: experts have a capacity instead */
    int64_t bound; /* largest number of rows of a rank's experts in one round; 0: no bound */
    int64_t rounds;
    int num_advices;
    char advice[PLAN_MOE_ADVICES][PLAN_MOE_TEXT];
};

/* Megatron-LM's name of a dispatcher. */
const char *plan_moe_dispatch_name (enum moe_dispatch dispatch);

/* Print whether groups of experts lie on several nodes, and how to keep them on one node. */
void plan_moe_advise (struct plan_moe *m);

void plan_moe_print (const struct plan_moe *m);
void plan_moe_print_json (const struct plan_moe *m);

#endif /* CMD_PLAN_MOE_H */
