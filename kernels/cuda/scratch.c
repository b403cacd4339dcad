/* scratch.c - the scratch memory that the CUDA kernels need */

#include "kernels/cuda/cuda.h"

/* Two float sums of each column for each group of rows. */
size_t cuda_norm_bwd_scratch (const struct kern_norm_bwd *a)
{
    int64_t groups = (a->rows + CUDA_NORM_GROUP - 1) / CUDA_NORM_GROUP;

    return (size_t)(2 * groups * a->cols) * sizeof (float);
}

/* A bias is reserved whenever it would be converted: a plan has no pointers. */
size_t cuda_gemm_scratch (const struct kern_gemm *a)
{
    const bool narrowed = cuda_gemm_is_narrowed (a);
    int64_t floats = narrowed ? cuda_gemm_padded (a->m * a->n) : 0;

    if (narrowed || a->c_dtype != a->dtype)
        floats += cuda_gemm_padded (a->n);
    return CUDA_GEMM_WORKSPACE + (size_t)floats * sizeof (float);
}

/* A float sum of each column for each group of rows. */
size_t cuda_col_sum_scratch (const struct kern_col_sum *a)
{
    return (size_t)(cuda_col_groups (a->rows) * a->cols) * sizeof (float);
}

/* Scratch memory of the bias gradient.  It is always counted, since a plan does not know whether
 * there is a bias.
 */
size_t cuda_bias_dropout_add_bwd_scratch (const struct kern_bias_dropout_add_bwd *a)
{
    const struct kern_col_sum sum = { .rows = a->rows, .cols = a->cols };

    return cuda_col_sum_scratch (&sum);
}

/* delta of each query. */
size_t cuda_attention_bwd_scratch (const struct kern_attention_bwd *a)
{
    return (size_t)(a->fwd.batch * a->fwd.heads * a->fwd.seq_q) * sizeof (float);
}

/* Keys of tokens. */
size_t cuda_embedding_bwd_scratch (const struct kern_embedding_bwd *a)
{
    return (size_t)cuda_sort_count (a->tokens) * sizeof (uint64_t);
}

size_t cuda_position_bwd_scratch (const struct kern_position_bwd *a)
{
    return (size_t)cuda_sort_count (a->tokens) * sizeof (uint64_t);
}

/* --- routers: parts in the order in which the ops use them --- */

size_t cuda_router_fwd_scratch (const struct kern_router_fwd *a)
{
    const struct kern_router *r = &a->router;

    return cuda_token_scratch (r->tokens, cuda_order_bytes (r->experts, r->groups));
}

/* The gradients of the chosen experts before the call. */
size_t cuda_router_bwd_scratch (const struct kern_router_bwd *a)
{
    const struct kern_router *r = &a->router;

    return cuda_token_scratch (r->tokens, cuda_part_bytes (r->topk, sizeof (double)));
}

/* Three numbers of a token; counts; sums of groups of rows; the order of a token's scores. */
size_t cuda_router_sums_scratch (const struct kern_router_sums *a)
{
    int64_t cols = a->batch * a->experts;
    int64_t rows = a->batch > 0 ? (a->tokens + a->batch - 1) / a->batch : 0;

    return cuda_part_bytes (3 * a->tokens, sizeof (double))
           + cuda_part_bytes (cols, sizeof (uint32_t))
           + cuda_part_bytes (cuda_router_groups (rows) * cols, sizeof (double))
           + cuda_token_scratch (a->tokens, cuda_order_bytes (a->experts, 0));
}

/* The number of tokens that count. */
size_t cuda_router_loss_bwd_scratch (const struct kern_router_loss_bwd *a)
{
    (void)a;
    return sizeof (double);
}

/* The matrix; factors of rows and of columns; sums of groups of rows; whether the rounds are done;
 * the order of a token's elements.
 */
size_t cuda_router_sinkhorn_scratch (const struct kern_router_sinkhorn *a)
{
    return cuda_part_bytes (a->tokens * a->experts, sizeof (double))
           + cuda_part_bytes (a->tokens, sizeof (double))
           + cuda_part_bytes (a->experts, sizeof (double))
           + cuda_part_bytes (cuda_router_groups (a->tokens) * a->experts, sizeof (double))
           + cuda_part_bytes (1, sizeof (int))
           + cuda_token_scratch (a->tokens, cuda_order_bytes (a->experts, 0));
}

/* alpha of each token. */
size_t cuda_router_quantile_scratch (const struct kern_router_quantile *a)
{
    return cuda_part_bytes (a->tokens, sizeof (double));
}

/* Two arrays with the begin and end of each expert's list, and the lists. */
size_t cuda_router_capacity_scratch (const struct kern_router_capacity *a)
{
    return 2 * cuda_part_bytes (a->experts, sizeof (uint32_t))
           + cuda_part_bytes (a->tokens * a->topk, sizeof (int32_t));
}

/* Three numbers for each part. */
size_t cuda_adamw_largest_scratch (const struct kern_adamw_largest *a)
{
    (void)a;
    return CUDA_PARTS * 3 * sizeof (uint32_t);
}

/* A sum of 8 bytes at most for each part. */
enum { PARTS_BYTES = CUDA_PARTS * 8 };

size_t cuda_sum_sq_scratch (const struct kern_sum_sq *a)
{
    (void)a;
    return PARTS_BYTES;
}

size_t cuda_max_abs_scratch (const struct kern_max_abs *a)
{
    (void)a;
    return PARTS_BYTES;
}

size_t cuda_count_zeros_scratch (const struct kern_count_zeros *a)
{
    (void)a;
    return PARTS_BYTES;
}

/* Keys of choices, and the first choice of each expert. */
size_t cuda_expert_sort_scratch (const struct kern_expert_sort *a)
{
    return (size_t)cuda_sort_count (a->tokens * a->topk) * sizeof (uint64_t)
           + (size_t)(a->experts + 1) * sizeof (int64_t);
}

/* The first row of each chunk in its part, of each part, and of each chunk in the wanted order. */
size_t cuda_expert_chunks_scratch (const struct kern_expert_chunks *a)
{
    int64_t chunks = a->sources * a->experts;

    return (size_t)(a->parts * (2 * chunks + 1) + a->parts + 1) * sizeof (int64_t);
}
