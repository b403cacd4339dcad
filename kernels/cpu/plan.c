/* plan.c - the CPU backend's table of ops that only note the scratch they would take */

#include "kernels/cpu/cpu.h"

static int plan_norm_bwd (const struct kernels *k, const struct kern_norm_bwd *a,
                          struct mg_stream *stream, struct mg_error *err)
{
    (void)stream, (void)err;
    cpu_note (k, cpu_norm_bwd_scratch (a));
    return 0;
}

static int plan_attention_fwd (const struct kernels *k, const struct kern_attention *a,
                               struct mg_stream *stream, struct mg_error *err)
{
    (void)stream, (void)err;
    cpu_note (k, cpu_attention_fwd_scratch (k, a));
    return 0;
}

static int plan_attention_bwd (const struct kernels *k, const struct kern_attention_bwd *a,
                               struct mg_stream *stream, struct mg_error *err)
{
    (void)stream, (void)err;
    cpu_note (k, cpu_attention_bwd_scratch (k, a));
    return 0;
}

static int plan_bias_dropout_add_bwd (const struct kernels *k,
                                      const struct kern_bias_dropout_add_bwd *a,
                                      struct mg_stream *stream, struct mg_error *err)
{
    (void)stream, (void)err;
    if (a->dbias)
        cpu_note (k, cpu_col_sum_scratch (a->rows, a->cols));
    return 0;
}

static int plan_col_sum (const struct kernels *k, int64_t rows, int64_t cols, const void *x,
                         enum mg_dtype dtype, void *out, enum mg_dtype grad_dtype,
                         struct mg_stream *stream, struct mg_error *err)
{
    (void)x, (void)dtype, (void)out, (void)grad_dtype, (void)stream, (void)err;
    cpu_note (k, cpu_col_sum_scratch (rows, cols));
    return 0;
}

static int plan_embedding_bwd (const struct kernels *k, const struct kern_embedding_bwd *a,
                               struct mg_stream *stream, struct mg_error *err)
{
    (void)stream, (void)err;
    cpu_note (k, cpu_embedding_bwd_scratch (a));
    return 0;
}

/* --- ops without scratch --- */

/* An op whose arguments are one struct. */
#define NOTHING(op)                                                                      \
    static int plan_##op (const struct kernels *k, const struct kern_##op *a,            \
                          struct mg_stream *stream, struct mg_error *err)                \
    {                                                                                    \
        (void)k, (void)a, (void)stream, (void)err;                                       \
        return 0;                                                                        \
    }

NOTHING (norm_fwd)
NOTHING (bias_dropout_add_fwd)
NOTHING (gelu_fwd)
NOTHING (gelu_bwd)
NOTHING (embedding_fwd)
NOTHING (position_fwd)
NOTHING (position_bwd)
NOTHING (xent_max)
NOTHING (xent_sum)
NOTHING (xent_loss)
NOTHING (xent_bwd)
NOTHING (adamw)
NOTHING (fill_normal)

static int plan_fill (const struct kernels *k, int64_t n, float value, void *out,
                      enum mg_dtype dtype, struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)n, (void)value, (void)out, (void)dtype, (void)stream, (void)err;
    return 0;
}

static int plan_sum_sq (const struct kernels *k, int64_t n, const void *x,
                        enum mg_dtype dtype, double *out, struct mg_stream *stream,
                        struct mg_error *err)
{
    (void)k, (void)n, (void)x, (void)dtype, (void)out, (void)stream, (void)err;
    return 0;
}

static int plan_max_abs (const struct kernels *k, int64_t n, const void *x,
                         enum mg_dtype dtype, float *out, struct mg_stream *stream,
                         struct mg_error *err)
{
    (void)k, (void)n, (void)x, (void)dtype, (void)out, (void)stream, (void)err;
    return 0;
}

static int plan_count_zeros (const struct kernels *k, int64_t n, const void *x,
                             enum mg_dtype dtype, double *out, struct mg_stream *stream,
                             struct mg_error *err)
{
    (void)k, (void)n, (void)x, (void)dtype, (void)out, (void)stream, (void)err;
    return 0;
}

static int plan_cast (const struct kernels *k, int64_t n, const void *x, enum mg_dtype from,
                      void *y, enum mg_dtype to, struct mg_stream *stream,
                      struct mg_error *err)
{
    (void)k, (void)n, (void)x, (void)from, (void)y, (void)to, (void)stream, (void)err;
    return 0;
}

static int plan_cast_scaled (const struct kernels *k, int64_t n, float scale, const void *x,
                             enum mg_dtype from, void *y, enum mg_dtype to,
                             struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)n, (void)scale, (void)x, (void)from, (void)y, (void)to, (void)stream;
    (void)err;
    return 0;
}

static int plan_adamw_largest (const struct kernels *k, const struct kern_adamw *a,
                               struct kern_three *out, struct mg_stream *stream,
                               struct mg_error *err)
{
    (void)k, (void)a, (void)out, (void)stream, (void)err;
    return 0;
}

static int plan_state_load (const struct kernels *k, int64_t n, const struct kern_state *state,
                            void *out, enum mg_dtype dtype, struct mg_stream *stream,
                            struct mg_error *err)
{
    (void)k, (void)n, (void)state, (void)out, (void)dtype, (void)stream, (void)err;
    return 0;
}

static int plan_state_store (const struct kernels *k, int64_t n, const void *in,
                             enum mg_dtype dtype, const struct kern_state *state,
                             struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)n, (void)in, (void)dtype, (void)state, (void)stream, (void)err;
    return 0;
}

const struct kern_ops cpu_plan_ops = {
    .name = "cpu",
    .gemm = cpu_plan_gemm,
    .norm_fwd = plan_norm_fwd,
    .norm_bwd = plan_norm_bwd,
    .bias_dropout_add_fwd = plan_bias_dropout_add_fwd,
    .bias_dropout_add_bwd = plan_bias_dropout_add_bwd,
    .gelu_fwd = plan_gelu_fwd,
    .gelu_bwd = plan_gelu_bwd,
    .attention_fwd = plan_attention_fwd,
    .attention_bwd = plan_attention_bwd,
    .embedding_fwd = plan_embedding_fwd,
    .embedding_bwd = plan_embedding_bwd,
    .position_fwd = plan_position_fwd,
    .position_bwd = plan_position_bwd,
    .xent_max = plan_xent_max,
    .xent_sum = plan_xent_sum,
    .xent_loss = plan_xent_loss,
    .xent_bwd = plan_xent_bwd,
    .adamw = plan_adamw,
    .adamw_largest = plan_adamw_largest,
    .state_load = plan_state_load,
    .state_store = plan_state_store,
    .fill_normal = plan_fill_normal,
    .fill = plan_fill,
    .col_sum = plan_col_sum,
    .sum_sq = plan_sum_sq,
    .max_abs = plan_max_abs,
    .count_zeros = plan_count_zeros,
    .cast = plan_cast,
    .cast_scaled = plan_cast_scaled,
};
