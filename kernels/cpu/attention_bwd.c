/* attention_bwd.c - scaled dot-product attention, backward
 *
 * With s = scale q k, p = e^(s - lse), z the factors of dropout, delta = sum_d dout out:
 * dp = z (dout v), ds = p (dp - delta), dq = scale sum_k ds k, dk = scale sum_q ds q,
 * dv = sum_q z p dout  (Dao et al. 2022).
 *
 * A pair is a block of queries with some keys of one block (flash_pair).  Where there
 * are kv heads enough for all threads, a task is one kv head, and each pair is formed
 * once (5 products).  Else there are two rounds, tasks being blocks of queries (dq),
 * then blocks of keys (dk, dv), and each pair is formed twice (7 products).  Either way
 * the same terms are added in the same order, so the result does not depend on the
 * choice or the number of threads.
 */

#include <errno.h>
#include <math.h>

#include "kernels/cpu/flash.h"

/* Of one thread. [head_dim][BQ] is queries across, [BQ][pad] features across. */
struct work {
    struct flash_queries q;
    struct flash_keys k;
    int64_t pad;        /* head_dim, rounded up to whole vectors */
    float *qt, *dot;    /* [head_dim][BQ]: queries times scale; dout */
    float *qs, *dos;    /* [BQ][pad]: the same */
    float *dqt;         /* [head_dim][BQ] */
    float *keys, *values; /* [BK][head_dim], copies; values of 16-bit types only */
    float *p, *ds;      /* [BK][BQ]: z p; ds */
    float *factor;      /* [BK][BQ]: z */
    float *dk, *dv;     /* [keys][pad] */
    float lse[BQ], delta[BQ];
};

struct job {
    const struct kern_attention_bwd *g;
    const struct kern_attention_fwd *a; /* g->fwd */
    float *delta;                   /* [batch][heads][seq_q] */
    float *memory;                  /* of the threads, 'floats' each */
    size_t floats;
    int64_t keys; /* rows of a thread's dk and dv */
    int threads;
};

static int64_t pad_of (const struct kern_attention_fwd *a)
{
    return (a->head_dim + VEC - 1) / VEC * VEC;
}

static size_t floats (const struct kern_attention_fwd *a, int64_t keys)
{
    int copies = a->dtype == MG_FLOAT32 ? 1 : 2;

    return (size_t)(3 * a->head_dim * BQ + 2 * BQ * pad_of (a) + 3 * BK * BQ
                    + copies * a->head_dim * BK + 2 * keys * pad_of (a));
}

static void carve (const struct job *job, struct work *w)
{
    const struct kern_attention_fwd *a = job->a;
    float *memory = job->memory + (size_t)cpu_thread () * job->floats;
    int64_t pad = w->pad = pad_of (a);

    w->qs = memory;
    w->dos = w->qs + BQ * pad;
    w->dk = w->dos + BQ * pad;
    w->dv = w->dk + job->keys * pad;
    w->p = w->dv + job->keys * pad;
    w->ds = w->p + BK * BQ;
    w->factor = w->ds + BK * BQ;
    w->qt = w->factor + BK * BQ;
    w->dot = w->qt + a->head_dim * BQ;
    w->dqt = w->dot + a->head_dim * BQ;
    w->keys = w->dqt + a->head_dim * BQ;
    w->values = w->keys + a->head_dim * BK;
}

/* out[r][c] = scale x[r][c], padded with 0. */
VEC_INLINE void copy_rows (const struct flash_rows *x, float scale, float *out,
                           int64_t pad, const enum mg_dtype type)
{
    for (int64_t r = 0; r < x->rows; r++)
        for (int64_t c = 0; c < pad; c += VEC)
            vec_store (out + r * pad + c,
                       c < x->cols ? scale
                                         * vec_get (x->x, x->first + r * x->stride + c,
                                                    x->cols - c, type)
                                   : (vf){ 0 });
}

/* Make block 'block' of a head the queries of the pairs to come. */
static void load_queries (const struct job *job, int64_t entry, int64_t head,
                          int64_t block, struct work *w)
{
    const struct kern_attention_fwd *a = job->a;
    struct flash_rows q = { (void *)a->q, a->dtype, 0, a->q_stride_s, 0, a->head_dim };
    struct flash_rows dout
        = { (void *)job->g->dout, a->dtype, 0, a->out_stride_s, 0, a->head_dim };

    flash_set_queries (a, entry, head, block, &w->q);
    q.rows = dout.rows = w->q.count;
    q.first = flash_q_row (a, &w->q, 0);
    dout.first = flash_out_row (a, &w->q, 0);
    flash_turn (&q, w->q.across, (float)a->scale, w->qt);
    flash_turn (&dout, w->q.across, 1, w->dot);
    VEC_TYPED (a->dtype, copy_rows, &q, (float)a->scale, w->qs, w->pad);
    VEC_TYPED (a->dtype, copy_rows, &dout, 1, w->dos, w->pad);
    for (int64_t i = 0; i < w->q.across; i++) {
        float lse = i < w->q.count ? a->lse[flash_lse (a, &w->q) + i] : INFINITY;

        /* A query that sees nothing has only scores of minus infinity: p = 0. */
        w->lse[i] = lse == -INFINITY ? 0 : lse;
        w->delta[i] = i < w->q.count ? job->delta[flash_lse (a, &w->q) + i] : 0;
    }
}

/* The pair's keys as float32, and k copied if 'often', or if it must be converted. */
static void load_keys (const struct kern_attention_fwd *a, struct work *w, bool often)
{
    if (often || !w->k.k)
        flash_copy_rows (a, &w->k, a->k, &w->k.k, &w->k.k_stride, w->keys);
    if (!w->k.v)
        flash_copy_rows (a, &w->k, a->v, &w->k.v, &w->k.v_stride, w->values);
}

/* Form z p and ds of the pair. */
static void form_pair (const struct job *job, struct work *w)
{
    const struct kern_attention_fwd *a = job->a;

    flash_scores (a, &w->q, &w->k, w->qt, w->p);
    cpu_tile (&(struct cpu_tile){ .m = w->k.count,
                                  .n = w->q.across - w->k.lead,
                                  .k = a->head_dim,
                                  .a = w->k.v,
                                  .a_row = w->k.v_stride,
                                  .a_col = 1,
                                  .b = w->dot + w->k.lead,
                                  .ldb = BQ,
                                  .c = w->ds + w->k.lead,
                                  .ldc = BQ });
    if (a->dropout_p > 0)
        flash_drop (a, &w->q, &w->k, w->factor);
    for (int64_t i = w->k.lead; i < w->q.across; i += VEC) {
        vf lse = vec_load (w->lse + i), delta = vec_load (w->delta + i);

        for (int64_t j = 0; j < w->k.count; j++) {
            vf p = vec_exp (vec_load (w->p + j * BQ + i) - lse);
            vf dp = vec_load (w->ds + j * BQ + i), z = vec_set (1);

            if (a->dropout_p > 0)
                z = vec_load (w->factor + j * BQ + i);
            vec_store (w->p + j * BQ + i, z * p);
            vec_store (w->ds + j * BQ + i, p * (z * dp - delta));
        }
    }
}

static void add_dq (const struct kern_attention_fwd *a, struct work *w)
{
    cpu_tile (&(struct cpu_tile){ .m = a->head_dim,
                                  .n = w->q.across - w->k.lead,
                                  .k = w->k.count,
                                  .a = w->k.k,
                                  .a_row = 1,
                                  .a_col = w->k.k_stride,
                                  .b = w->ds + w->k.lead,
                                  .ldb = BQ,
                                  .c = w->dqt + w->k.lead,
                                  .ldc = BQ,
                                  .accumulate = true });
}

/* 'row' is where the keys' rows begin in w->dk and w->dv. */
static void add_dk_dv (struct work *w, int64_t row)
{
    int64_t lead = w->k.lead;
    struct cpu_tile tile = { .m = w->k.count,
                             .n = w->pad,
                             .k = w->q.count - lead,
                             .a = w->ds + lead,
                             .a_row = BQ,
                             .a_col = 1,
                             .b = w->qs + lead * w->pad,
                             .ldb = w->pad,
                             .c = w->dk + row * w->pad,
                             .ldc = w->pad,
                             .accumulate = true };

    cpu_tile (&tile);
    tile.a = w->p + lead;
    tile.b = w->dos + lead * w->pad;
    tile.c = w->dv + row * w->pad;
    cpu_tile (&tile);
}

static void store_dq (const struct job *job, const struct work *w)
{
    float scale[BQ];

    for (int i = 0; i < BQ; i++)
        scale[i] = (float)job->a->scale;
    flash_turn_back (w->dqt, scale, job->g->accumulate,
                     &(struct flash_rows){ job->g->dq, job->a->dtype,
                                           flash_q_row (job->a, &w->q, 0),
                                           job->a->q_stride_s, w->q.count,
                                           job->a->head_dim });
}

VEC_INLINE void store_row (const float *row, int64_t n, void *x, int64_t first,
                           bool accumulate, const enum mg_dtype type)
{
    for (int64_t c = 0; c < n; c += VEC) {
        vf v = vec_load (row + c);

        if (accumulate)
            v += vec_get (x, first + c, n - c, type);
        vec_put (x, first + c, v, n - c, type);
    }
}

/* Block 'block' of keys, whose rows in w->dk and w->dv begin with 'row'. */
static void store_dk_dv (const struct job *job, int64_t entry, int64_t kv_head,
                         int64_t block, const struct work *w, int64_t row)
{
    const struct kern_attention_fwd *a = job->a;
    struct flash_keys k = { .entry = entry, .head = kv_head, .first = block * BK };

    for (int64_t j = 0; j < cpu_min (BK, a->seq_k - block * BK); j++) {
        int64_t to = flash_kv_row (a, &k, j);

        VEC_TYPED (a->dtype, store_row, w->dk + (row + j) * w->pad, a->head_dim,
                   job->g->dk, to, job->g->accumulate);
        VEC_TYPED (a->dtype, store_row, w->dv + (row + j) * w->pad, a->head_dim,
                   job->g->dv, to, job->g->accumulate);
    }
}

/* One block of queries against all keys: dq; and, if 'all', what it adds to dk and dv. */
static void go_through_keys (const struct job *job, struct work *w, bool all)
{
    const struct kern_attention_fwd *a = job->a;

    memset (w->dqt, 0, (size_t)(a->head_dim * BQ) * sizeof (float));
    for (int64_t first = 0; first < a->seq_k; first += w->k.count) {
        if (!flash_pair (a, &w->q, first, &w->k))
            continue;
        load_keys (a, w, true);
        form_pair (job, w);
        add_dq (a, w);
        if (all)
            add_dk_dv (w, first);
    }
    store_dq (job, w);
}

/* Everything of one kv head. */
static void do_head (const struct job *job, int64_t entry, int64_t kv_head)
{
    const struct kern_attention_fwd *a = job->a;
    int64_t group = a->heads / a->kv_heads;
    struct work w;

    carve (job, &w);
    memset (w.dk, 0, (size_t)(2 * job->keys * w.pad) * sizeof (float));
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
        for (int64_t block = 0; block < flash_blocks (a->seq_q, BQ); block++) {
            load_queries (job, entry, head, block, &w);
            go_through_keys (job, &w, true);
        }
    }
    for (int64_t b = 0; b < flash_blocks (a->seq_k, BK); b++)
        store_dk_dv (job, entry, kv_head, b, &w, b * BK);
}

/* dq of one block of queries. */
static void do_queries (const struct job *job, int64_t entry, int64_t head, int64_t block)
{
    struct work w;

    carve (job, &w);
    load_queries (job, entry, head, block, &w);
    go_through_keys (job, &w, false);
}

/* What one block of queries adds to dk and dv of the block of keys from 'first' on. */
static void go_through_block (const struct job *job, int64_t first, struct work *w)
{
    int64_t end = cpu_min (first + BK, job->a->seq_k);

    for (int64_t next = first; next < end; next += w->k.count) {
        if (!flash_pair (job->a, &w->q, next, &w->k))
            continue;
        load_keys (job->a, w, false);
        form_pair (job, w);
        add_dk_dv (w, next - first);
    }
}

/* dk and dv of one block of keys. */
static void do_keys (const struct job *job, int64_t entry, int64_t kv_head, int64_t block)
{
    const struct kern_attention_fwd *a = job->a;
    int64_t group = a->heads / a->kv_heads;
    struct work w;

    carve (job, &w);
    memset (w.dk, 0, (size_t)(2 * job->keys * w.pad) * sizeof (float));
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
        for (int64_t b = 0; b < flash_blocks (a->seq_q, BQ); b++) {
            flash_set_queries (a, entry, head, b, &w.q);
            if (!flash_pair (a, &w.q, block * BK, &w.k) && w.k.count > CUT)
                continue; /* the whole block is hidden: do not load the queries */
            load_queries (job, entry, head, b, &w);
            go_through_block (job, block * BK, &w);
        }
    }
    store_dk_dv (job, entry, kv_head, block, &w, 0);
}

/* delta of one head. */
VEC_INLINE void do_delta (const struct job *job, int64_t entry, int64_t head,
                          const enum mg_dtype type)
{
    const struct kern_attention_fwd *a = job->a;
    struct flash_queries q = { .entry = entry, .head = head };
    float *delta = job->delta + flash_lse (a, &q);

    for (int64_t i = 0; i < a->seq_q; i++) {
        int64_t row = flash_out_row (a, &q, i);
        vf sum = { 0 };

        for (int64_t d = 0; d < a->head_dim; d += VEC)
            sum += vec_get (a->out, row + d, a->head_dim - d, type)
                   * vec_get (job->g->dout, row + d, a->head_dim - d, type);
        delta[i] = vec_sum (sum);
    }
}

static void run_heads (const struct job *job)
{
    int64_t tasks = job->a->batch * job->a->kv_heads;

#pragma omp parallel for num_threads (job->threads) schedule (dynamic)
    for (int64_t task = 0; task < tasks; task++)
        do_head (job, task / job->a->kv_heads, task % job->a->kv_heads);
}

static void run_blocks (const struct job *job)
{
    const struct kern_attention_fwd *a = job->a;
    int64_t q_blocks = flash_blocks (a->seq_q, BQ),
            k_blocks = flash_blocks (a->seq_k, BK);
    int64_t q_tasks = a->batch * a->heads * q_blocks;
    int64_t k_tasks = a->batch * a->kv_heads * k_blocks;

#pragma omp parallel num_threads (job->threads)
    {
        /* Longest first: of a causal mask late queries and early keys. */
#pragma omp for schedule (dynamic) nowait
        for (int64_t task = 0; task < q_tasks; task++) {
            int64_t head = task / q_blocks;

            do_queries (job, head / a->heads, head % a->heads,
                        q_blocks - 1 - task % q_blocks);
        }
#pragma omp for schedule (dynamic)
        for (int64_t task = 0; task < k_tasks; task++) {
            int64_t head = task / k_blocks;

            do_keys (job, head / a->kv_heads, head % a->kv_heads, task % k_blocks);
        }
    }
}

/* Do 'tasks' of equal size keep the threads busy for 5/7 of the time or more? */
static bool is_enough (int64_t tasks, int threads)
{
    int64_t rounds = (tasks + threads - 1) / threads;

    return 7 * tasks >= 5 * rounds * threads;
}

/* Does a task take all of a head's keys at once? */
static bool is_by_head (const struct kern_attention_fwd *a, int threads)
{
    return is_enough (a->batch * a->kv_heads, threads);
}

/* Keys whose gradients a thread keeps. */
static int64_t kept_keys (const struct kern_attention_fwd *a, int threads)
{
    return is_by_head (a, threads) ? flash_blocks (a->seq_k, BK) * BK : BK;
}

/* Floats of delta. */
static size_t num_deltas (const struct kern_attention_fwd *a)
{
    return (size_t)(a->batch * a->heads * a->seq_q + 15) / 16 * 16;
}

size_t cpu_attention_bwd_scratch (const struct kernels *k,
                                  const struct kern_attention_bwd *g)
{
    int threads = cpu_of (k)->threads;
    size_t each = floats (&g->fwd, kept_keys (&g->fwd, threads));

    return (num_deltas (&g->fwd) + (size_t)threads * each) * sizeof (float);
}

int cpu_attention_bwd (const struct kernels *k, const struct kern_attention_bwd *g,
                       struct mg_error *err)
{
    const struct kern_attention_fwd *a = &g->fwd;
    struct job job = { .g = g, .a = a, .threads = cpu_of (k)->threads };
    int64_t heads = a->batch * a->heads;

    if (a->kv_heads < 1 || a->heads % a->kv_heads != 0)
        return mg_error_set (err, EINVAL,
                             "attention: %lld heads are not a multiple of %lld kv heads",
                             (long long)a->heads, (long long)a->kv_heads);
    if (heads == 0)
        return 0;
    job.keys = kept_keys (a, job.threads);
    job.floats = floats (a, job.keys);
    if (!(job.delta = cpu_scratch (k, cpu_attention_bwd_scratch (k, g), err)))
        return -1;
    job.memory = job.delta + num_deltas (a);
#pragma omp parallel for num_threads (job.threads)
    for (int64_t i = 0; i < heads; i++)
        VEC_TYPED (a->dtype, do_delta, &job, i / a->heads, i % a->heads);
    if (is_by_head (a, job.threads))
        run_heads (&job);
    else
        run_blocks (&job);
    return 0;
}
