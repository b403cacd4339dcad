/* attention - the phases of a block's first half; see block_phases[] for their order. */
#ifndef LIBCORE_NN_ATTENTION_H
#define LIBCORE_NN_ATTENTION_H

#include "libcore/nn/block.h"

/* Shared by both halves: all-reduce of ACT_BRANCH over the tensor-parallel group. */
int block_reduce_fwd (const struct block_run *run, struct mg_error *err);

int attention_norm_fwd (const struct block_run *run, struct mg_error *err);
int attention_norm_bwd (const struct block_run *run, struct mg_error *err);
int attention_qkv_fwd (const struct block_run *run, struct mg_error *err);
int attention_qkv_bwd (const struct block_run *run, struct mg_error *err);
int attention_core_fwd (const struct block_run *run, struct mg_error *err);
int attention_core_bwd (const struct block_run *run, struct mg_error *err);
int attention_proj_fwd (const struct block_run *run, struct mg_error *err);
int attention_proj_bwd (const struct block_run *run, struct mg_error *err);
int attention_bda_fwd (const struct block_run *run, struct mg_error *err);
int attention_bda_bwd (const struct block_run *run, struct mg_error *err);

#endif /* LIBCORE_NN_ATTENTION_H */
