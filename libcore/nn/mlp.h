/* mlp - the phases of a block's second half; see block_phases[] for their order. */
#ifndef LIBCORE_NN_MLP_H
#define LIBCORE_NN_MLP_H

#include "libcore/nn/block.h"

int mlp_norm_fwd (const struct block_run *run, struct mg_error *err);
int mlp_norm_bwd (const struct block_run *run, struct mg_error *err);
int mlp_fc1_fwd (const struct block_run *run, struct mg_error *err);
int mlp_fc1_bwd (const struct block_run *run, struct mg_error *err);
int mlp_gelu_fwd (const struct block_run *run, struct mg_error *err);
int mlp_gelu_bwd (const struct block_run *run, struct mg_error *err);
int mlp_fc2_fwd (const struct block_run *run, struct mg_error *err);
int mlp_fc2_bwd (const struct block_run *run, struct mg_error *err);
int mlp_bda_fwd (const struct block_run *run, struct mg_error *err);
int mlp_bda_bwd (const struct block_run *run, struct mg_error *err);

#endif /* LIBCORE_NN_MLP_H */
