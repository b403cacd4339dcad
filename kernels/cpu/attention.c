/* attention.c - scaled dot-product attention, forward (formulas in kernels.h)
 *
 * One task is one block of queries of one head.  It goes through the blocks of keys and
 * keeps, for every query, the largest score m so far, l = sum e^(score - m) and
 * o = sum e^(score - m) v; a larger m rescales l and o (Milakov, Gimelshein 2018; Dao et
 * al. 2022).  A query that sees no key gets out = 0, lse = minus infinity.
 */

#include <errno.h>
#include <math.h>

#include "kernels/cpu/flash.h"

/* Of one thread. */
struct work {
    struct flash_queries q;
    struct flash_keys k;
    float *qt, *ot;    /* [head_dim][BQ]: queries times scale; o */
    float *v, *keys;   /* [BK][head_dim], copies; the latter of 16-bit types only */
    float *p, *factor; /* [BK][BQ] */
    float m[BQ], l[BQ];
};

static size_t floats (const struct kern_attention_fwd *a)
{
    int copies = a->dtype == MG_FLOAT32 ? 1 : 2;

    return (size_t)(2 * a->head_dim * BQ + copies * a->head_dim * BK + 2 * BK * BQ);
}

static void carve (const struct kern_attention_fwd *a, float *memory, struct work *w)
{
    w->qt = memory;
    w->ot = w->qt + a->head_dim * BQ;
    w->v = w->ot + a->head_dim * BQ;
    w->p = w->v + a->head_dim * BK;
    w->factor = w->p + BK * BQ;
    w->keys = w->factor + BK * BQ;
}

/* Scores to probabilities relative to m, after m, l and o have taken the block in. */
static void soften (const struct kern_attention_fwd *a, struct work *w)
{
    for (int64_t i = w->k.lead; i < w->q.across; i += VEC) {
        vf before = vec_load (w->m + i), m = before, base, shrink, sum = { 0 };

        for (int64_t j = 0; j < w->k.count; j++)
            m = vec_max (vec_load (w->p + j * BQ + i), m);
        base = vec_select (m == -INFINITY, (vf){ 0 }, m); /* inf - inf is no number */
        shrink = vec_exp (before - base);
        for (int64_t j = 0; j < w->k.count; j++) {
            vf p = vec_exp (vec_load (w->p + j * BQ + i) - base);

            sum += p;
            if (a->dropout_p > 0)
                p *= vec_load (w->factor + j * BQ + i);
            vec_store (w->p + j * BQ + i, p);
        }
        vec_store (w->m + i, m);
        vec_store (w->l + i, vec_load (w->l + i) * shrink + sum);
        for (int64_t d = 0; d < a->head_dim; d++)
            vec_store (w->ot + d * BQ + i, vec_load (w->ot + d * BQ + i) * shrink);
    }
}

static void take_keys (const struct kern_attention_fwd *a, struct work *w)
{
    flash_copy_rows (a, &w->k, a->v, &w->k.v, &w->k.v_stride, w->v);
    if (!w->k.k)
        flash_copy_rows (a, &w->k, a->k, &w->k.k, &w->k.k_stride, w->keys);
    flash_scores (a, &w->q, &w->k, w->qt, w->p);
    if (a->dropout_p > 0)
        flash_drop (a, &w->q, &w->k, w->factor);
    soften (a, w);
    cpu_tile (&(struct cpu_tile){ .m = a->head_dim,
                                  .n = w->q.across - w->k.lead,
                                  .k = w->k.count,
                                  .a = w->k.v,
                                  .a_row = 1,
                                  .a_col = w->k.v_stride,
                                  .b = w->p + w->k.lead,
                                  .ldb = BQ,
                                  .c = w->ot + w->k.lead,
                                  .ldc = BQ,
                                  .accumulate = true });
}

static void attend (const struct kern_attention_fwd *a, int64_t entry, int64_t head,
                    int64_t block, float *memory)
{
    struct work w;
    float over_l[BQ], *lse;

    carve (a, memory, &w);
    flash_set_queries (a, entry, head, block, &w.q);
    flash_turn (&(struct flash_rows){ (void *)a->q, a->dtype, flash_q_row (a, &w.q, 0),
                                      a->q_stride_s, w.q.count, a->head_dim },
                w.q.across, (float)a->scale, w.qt);
    memset (w.ot, 0, (size_t)(a->head_dim * BQ) * sizeof (float));
    for (int i = 0; i < BQ; i++) {
        w.m[i] = -INFINITY;
        w.l[i] = 0;
    }
    for (int64_t first = 0; first < a->seq_k; first += w.k.count)
        if (flash_pair (a, &w.q, first, &w.k))
            take_keys (a, &w);
    lse = a->lse + flash_lse (a, &w.q);
    for (int64_t i = 0; i < w.q.count; i++) {
        over_l[i] = w.l[i] == 0 ? 0 : 1 / w.l[i];
        lse[i] = w.l[i] == 0 ? -INFINITY : w.m[i] + logf (w.l[i]);
    }
    flash_turn_back (w.ot, over_l, false,
                     &(struct flash_rows){ a->out, a->dtype, flash_out_row (a, &w.q, 0),
                                           a->out_stride_s, w.q.count, a->head_dim });
}

size_t cpu_attention_fwd_scratch (const struct kernels *k, const struct kern_attention_fwd *a)
{
    return (size_t)cpu_of (k)->threads * floats (a) * sizeof (float);
}

int cpu_attention_fwd (const struct kernels *k, const struct kern_attention_fwd *a,
                       struct mg_error *err)
{
    int threads = cpu_of (k)->threads;
    int64_t blocks = flash_blocks (a->seq_q, BQ), tasks = a->batch * a->heads * blocks;
    float *memory;

    if (a->kv_heads < 1 || a->heads % a->kv_heads != 0)
        return mg_error_set (err, EINVAL,
                             "attention: %lld heads are not a multiple of %lld kv heads",
                             (long long)a->heads, (long long)a->kv_heads);
    if (tasks == 0)
        return 0;
    if (!(memory = cpu_scratch (k, cpu_attention_fwd_scratch (k, a), err)))
        return -1;
    /* The blocks of a head one after the other, as its keys are in cache then; the late
     * ones of a causal mask see the most keys: longest first.
     */
#pragma omp parallel for num_threads (threads) schedule (dynamic)
    for (int64_t task = 0; task < tasks; task++) {
        int64_t head = task / blocks, block = blocks - 1 - task % blocks;

        attend (a, head / a->heads, head % a->heads, block,
                memory + (size_t)cpu_thread () * floats (a));
    }
    return 0;
}
