/* check.c - arguments that every backend checks */

#include <errno.h>

#include "kernels/kernels.h"

static bool is_supported (enum mg_dtype dtype)
{
    return dtype == MG_FLOAT32 || dtype == MG_BFLOAT16 || dtype == MG_FLOAT16;
}

int kern_gemm_check (const struct kern_gemm *a, struct mg_error *err)
{
    if (a->m < 0 || a->n < 0 || a->k < 0)
        return mg_error_set (err, EINVAL, "gemm: negative size in m %lld, n %lld, k %lld",
                             (long long)a->m, (long long)a->n, (long long)a->k);
    if (a->lda < (a->trans_a ? a->m : a->k) || a->ldb < (a->trans_b ? a->k : a->n)
        || a->ldc < a->n)
        return mg_error_set (err, EINVAL,
                             "gemm: row lengths a %lld, b %lld, c %lld are too short for "
                             "m %lld, n %lld, k %lld",
                             (long long)a->lda, (long long)a->ldb, (long long)a->ldc,
                             (long long)a->m, (long long)a->n, (long long)a->k);
    if (a->accumulate && a->bias)
        return mg_error_set (err, EINVAL,
                             "gemm: a bias and accumulation exclude each other");
    if (!is_supported (a->dtype) || !is_supported (a->c_dtype))
        return mg_error_set (err, ENOTSUP,
                             "gemm: types %s and %s, want float32, bfloat16 or float16",
                             mg_dtype_name (a->dtype), mg_dtype_name (a->c_dtype));
    return 0;
}

static bool is_stored (enum mg_dtype dtype)
{
    return is_supported (dtype) || dtype == MG_FLOAT8_E4M3;
}

int kern_cast_check (const struct kern_cast *a, struct mg_error *err)
{
    if (is_stored (a->from) && is_stored (a->to))
        return 0;
    return mg_error_set (err, ENOTSUP,
                         "cast: %s to %s, want float32, bfloat16, float16 or float8_e4m3",
                         mg_dtype_name (a->from), mg_dtype_name (a->to));
}

int kern_state_check (const struct kern_state *s, const char *what, struct mg_error *err)
{
    if (s->upper || is_stored (s->dtype))
        return 0;
    return mg_error_set (err, ENOTSUP, "%s: stored as %s, want float32, bfloat16, float16 or"
                         " float8_e4m3", what, mg_dtype_name (s->dtype));
}

int kern_router_check (const char *op, int64_t tokens, int64_t experts, int64_t topk,
                       enum mg_dtype dtype, struct mg_error *err)
{
    if (tokens < 0 || experts < 0 || topk < 0 || topk > experts)
        return mg_error_set (err, EINVAL, "%s: %lld tokens to %lld of %lld experts", op,
                             (long long)tokens, (long long)topk, (long long)experts);
    if (dtype != MG_FLOAT32 && dtype != MG_FLOAT64)
        return mg_error_set (err, ENOTSUP, "%s: logits of %s, want float32 or float64", op,
                             mg_dtype_name (dtype));
    return 0;
}

static int check_score (const char *op, enum kern_score score, enum mg_dtype dtype,
                        struct mg_error *err)
{
    if (score < 0 || score >= KERN_NUM_SCORES || (dtype != MG_FLOAT32 && dtype != MG_FLOAT64))
        return mg_error_set (err, ENOTSUP, "%s: score %d of %s logits, want float32 or float64", op,
                             (int)score, mg_dtype_name (dtype));
    return 0;
}

int kern_router_check_options (const struct kern_router *r, struct mg_error *err)
{
    int64_t least;

    if (r->tokens < 0 || r->experts < 0 || r->topk < 0 || r->topk > r->experts)
        return mg_error_set (err, EINVAL, "router: %lld tokens to %lld of %lld experts",
                             (long long)r->tokens, (long long)r->topk, (long long)r->experts);
    if (check_score ("router", r->score, r->dtype, err) < 0)
        return -1;
    if (r->groups == 0)
        return 0;
    if (r->groups < 0 || r->experts % r->groups != 0 || r->group_topk < 1
        || r->group_topk > r->groups)
        return mg_error_set (err, EINVAL, "router: %lld of %lld groups of %lld experts",
                             (long long)r->group_topk, (long long)r->groups,
                             (long long)r->experts);
    least = r->group_topk * (r->experts / r->groups);
    if (r->topk > least)
        return mg_error_set (err, EINVAL, "router: %lld experts of groups that have %lld",
                             (long long)r->topk, (long long)least);
    return 0;
}

static int check_loss (int64_t tokens, int64_t experts, int64_t topk, int64_t batch,
                       enum kern_score score, enum mg_dtype dtype, struct mg_error *err)
{
    if (tokens < 0 || experts < 0 || topk < 0 || topk > experts || batch < 1)
        return mg_error_set (err, EINVAL, "router loss: %lld tokens of %lld sequences to %lld of "
                             "%lld experts", (long long)tokens, (long long)batch, (long long)topk,
                             (long long)experts);
    return check_score ("router loss", score, dtype, err);
}

int kern_router_sums_check (const struct kern_router_sums *a, struct mg_error *err)
{
    return check_loss (a->tokens, a->experts, a->topk, a->batch, a->score, a->dtype, err);
}

int kern_router_loss_bwd_check (const struct kern_router_loss_bwd *a, struct mg_error *err)
{
    return check_loss (a->tokens, a->experts, 0, a->batch, a->score, a->dtype, err);
}

int kern_router_quantile_check (const struct kern_router_quantile *a, struct mg_error *err)
{
    if (kern_router_check ("router_quantile", a->tokens, a->experts, a->topk, a->dtype, err) < 0)
        return -1;
    if (a->tokens == 0 || a->experts == 0)
        return 0;
    if (a->topk >= a->experts || a->tokens * a->topk % a->experts != 0)
        return mg_error_set (err, EINVAL, "router_quantile: %lld experts, want more than the %lld "
                             "of a token, and a divisor of %lld tokens times these",
                             (long long)a->experts, (long long)a->topk, (long long)a->tokens);
    return 0;
}

int kern_router_capacity_check (const struct kern_router_capacity *a, struct mg_error *err)
{
    if (a->capacity < 0)
        return mg_error_set (err, EINVAL, "router_capacity: %lld", (long long)a->capacity);
    return 0;
}

int kern_attention_check (const struct kern_attention_fwd *a, struct mg_error *err)
{
    if (a->kv_heads < 1 || a->heads % a->kv_heads != 0)
        return mg_error_set (err, EINVAL,
                             "attention: %lld heads are not a multiple of %lld kv heads",
                             (long long)a->heads, (long long)a->kv_heads);
    return 0;
}

int kern_gemm_double_check (const struct kern_gemm_double *a, struct mg_error *err)
{
    const enum mg_dtype types[] = { a->a_dtype, a->b_dtype, a->c_dtype, a->bias_dtype };

    if (a->m < 0 || a->n < 0 || a->k < 0 || (a->accumulate && a->bias))
        return mg_error_set (err, EINVAL, "gemm_double: m %lld, n %lld, k %lld%s",
                             (long long)a->m, (long long)a->n, (long long)a->k,
                             a->bias ? ", a bias" : "");
    for (int i = 0; i < 4; i++)
        if (types[i] != MG_FLOAT64 && !is_supported (types[i]))
            return mg_error_set (err, ENOTSUP, "gemm_double: type %s, want float32, float64, "
                                 "bfloat16 or float16", mg_dtype_name (types[i]));
    return 0;
}

int kern_expert_sort_check (const struct kern_expert_sort *a, struct mg_error *err)
{
    if (!a->rank_count || (a->ranks > 0 && a->experts % a->ranks == 0))
        return 0;
    return mg_error_set (err, EINVAL, "expert_sort: %lld ranks do not divide %lld experts",
                         (long long)a->ranks, (long long)a->experts);
}

int kern_expert_gemm_check (const struct kern_expert_gemm *a, struct mg_error *err)
{
    if (a->experts < 0 || a->rows < 0 || a->in < 0 || a->out < 0)
        return mg_error_set (err, EINVAL, "expert_gemm: negative size in experts %lld, rows %lld, "
                             "in %lld, out %lld", (long long)a->experts, (long long)a->rows,
                             (long long)a->in, (long long)a->out);
    if (a->w_stride != 0 && a->w_stride < a->in * a->out)
        return mg_error_set (err, EINVAL, "expert_gemm: weights are %lld elements apart, want at "
                             "least in %lld x out %lld", (long long)a->w_stride,
                             (long long)a->in, (long long)a->out);
    if (!is_supported (a->dtype) || !is_supported (a->c_dtype))
        return mg_error_set (err, ENOTSUP,
                             "expert_gemm: types %s and %s, want float32, bfloat16 or float16",
                             mg_dtype_name (a->dtype), mg_dtype_name (a->c_dtype));
    return 0;
}
