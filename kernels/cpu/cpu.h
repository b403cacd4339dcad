/* cpu - what the files of the CPU backend share: its state, the functions of its table
 * (contracts in kernels.h), dropout by coordinates.
 */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include "kernels/kernels.h"

struct cpu {
    int threads;
};

static inline const struct cpu *cpu_of (const struct kernels *k)
{
    return k->impl;
}

int cpu_gemm (const struct kernels *, const struct kern_gemm *, struct mg_stream *,
              struct mg_error *);
int cpu_norm_fwd (const struct kernels *, const struct kern_norm_fwd *,
                  struct mg_stream *, struct mg_error *);
int cpu_norm_bwd (const struct kernels *, const struct kern_norm_bwd *,
                  struct mg_stream *, struct mg_error *);
int cpu_bias_dropout_add_fwd (const struct kernels *,
                              const struct kern_bias_dropout_add_fwd *,
                              struct mg_stream *, struct mg_error *);
int cpu_bias_dropout_add_bwd (const struct kernels *,
                              const struct kern_bias_dropout_add_bwd *,
                              struct mg_stream *, struct mg_error *);
int cpu_gelu_fwd (const struct kernels *, const struct kern_gelu_fwd *,
                  struct mg_stream *, struct mg_error *);
int cpu_gelu_bwd (const struct kernels *, const struct kern_gelu_bwd *,
                  struct mg_stream *, struct mg_error *);
int cpu_attention_fwd (const struct kernels *, const struct kern_attention *,
                       struct mg_stream *, struct mg_error *);
int cpu_attention_bwd (const struct kernels *, const struct kern_attention_bwd *,
                       struct mg_stream *, struct mg_error *);
int cpu_embedding_fwd (const struct kernels *, const struct kern_embedding_fwd *,
                       struct mg_stream *, struct mg_error *);
int cpu_embedding_bwd (const struct kernels *, const struct kern_embedding_bwd *,
                       struct mg_stream *, struct mg_error *);
int cpu_position_fwd (const struct kernels *, const struct kern_position_fwd *,
                      struct mg_stream *, struct mg_error *);
int cpu_position_bwd (const struct kernels *, const struct kern_position_bwd *,
                      struct mg_stream *, struct mg_error *);
int cpu_xent_max (const struct kernels *, const struct kern_xent_max *,
                  struct mg_stream *, struct mg_error *);
int cpu_xent_sum (const struct kernels *, const struct kern_xent_sum *,
                  struct mg_stream *, struct mg_error *);
int cpu_xent_loss (const struct kernels *, const struct kern_xent_loss *,
                   struct mg_stream *, struct mg_error *);
int cpu_xent_bwd (const struct kernels *, const struct kern_xent_bwd *,
                  struct mg_stream *, struct mg_error *);
int cpu_adamw (const struct kernels *, const struct kern_adamw *, struct mg_stream *,
               struct mg_error *);
int cpu_fill_normal (const struct kernels *, const struct kern_fill_normal *,
                     struct mg_stream *, struct mg_error *);
int cpu_fill (const struct kernels *, int64_t n, float value, float *out,
              struct mg_stream *, struct mg_error *);
int cpu_col_sum (const struct kernels *, int64_t rows, int64_t cols, const float *x,
                 float *out, struct mg_stream *, struct mg_error *);
int cpu_sum_sq (const struct kernels *, int64_t n, const float *x, double *out,
                struct mg_stream *, struct mg_error *);
int cpu_axpby (const struct kernels *, int64_t n, double a, const float *x, double b,
               float *y, struct mg_stream *, struct mg_error *);
int cpu_cast (const struct kernels *, int64_t n, const void *x, enum mg_dtype from,
              void *y, enum mg_dtype to, struct mg_stream *, struct mg_error *);

/* 0, or 1 / (1 - p): what element (row, col) of a [tokens, cols] matrix is multiplied by. */
float cpu_dropout (const struct kern_dropout *d, int64_t row, int64_t col);

/* One element of 'dtype' as float; float to an element, to nearest even. */
float cpu_load (const void *x, enum mg_dtype dtype, int64_t i);
void cpu_store (void *y, enum mg_dtype dtype, int64_t i, float value);

#endif /* KERNELS_CPU_CPU_H */
