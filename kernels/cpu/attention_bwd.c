/* attention_bwd.c - scaled dot-product attention, backward
 *
 * With s = scale q k, p = e^(s - lse), z the factors of dropout, delta = sum_d dout out:
 * dp = z (dout v), ds = p (dp - delta), dq = scale sum_k ds k, dk = scale sum_q ds q,
 * dv = sum_q z p dout  (Dao et al. 2022).  The probability of a sink is e^(sink - lse), and its
 * dp is 0: dsink = - sum_q e^(sink - lse) delta.
 *
 * A pair is a block of queries with some keys of one block (flash_pair).  If there are enough kv
 * heads for all threads, a task is one kv head, and each pair is formed once (5 products).  Else
 * there are two rounds: the tasks of the first are blocks of queries (dq), those of the second
 * blocks of keys (dk, dv).  Each pair is then formed twice (7 products).  Some blocks, a panel, are
 * gone through together, so that what they share is loaded once.  Whatever the division, the same
 * terms are added in the same order, so the result does not depend on it or on the number of
 * threads.
 */

#include <math.h>

#include "kernels/cpu/flash.h"

enum { STORE_AHEAD = 8 }; /* rows between the one that is stored and the one that is fetched */

/* One block of queries. [head_dim][BQ] is queries across, [BQ][pad] features across. */
struct lane {
    struct flash_queries q;
    float *qt, *dot; /* [head_dim][BQ], [head_dim_v][BQ]: queries times scale log2 e; dout */
    float *qs, *dos; /* [BQ][pad], [BQ][pad_v]: queries times scale; dout */
    float *dqt;      /* [head_dim][BQ] */
    float lse[BQ], delta[BQ]; /* lse: times log2 e */
};

/* Of one thread. */
struct work {
    struct lane lane[PANEL];
    int64_t lanes;
    struct flash_keys k[PANEL];
    float *p, *ds;   /* [BK][BQ]: z p; ds */
    float *factor;   /* [BK][BQ]: z */
    float *dk, *dv;  /* [keys][pad], [keys][pad_v] */
    struct flash_ahead ahead; /* of k[0] */
};

struct backward_job {
    struct flash_plan plan;
    const struct kern_attention_bwd *g;
    int64_t pad, pad_v; /* head_dim and head_dim_v, rounded up to whole vectors */
    int threads;
    bool by_head;      /* a task is one kv head */
    int64_t q_width;   /* blocks of queries of a panel */
    int64_t k_width;   /* blocks of keys of a panel */
    int64_t keys;      /* rows of a thread's dk and dv */
    float *delta;      /* [batch][heads][seq_q] */
    double *sinks;     /* [batch][heads]: what each head adds to dsink */
    float *memory;     /* of the threads, 'floats' each */
    size_t floats;
};

/* True if 'tasks' of equal size keep the threads busy for 5/7 of the time or more. */
static bool is_enough (int64_t tasks, int threads)
{
    int64_t rounds = (tasks + threads - 1) / threads;

    return 7 * tasks >= 5 * rounds * threads;
}

static int64_t pad (int64_t dim)
{
    return (dim + VEC - 1) / VEC * VEC;
}

/* Set all sizes. */
static void divide (const struct kernels *k, const struct kern_attention_fwd *a,
                    struct backward_job *job)
{
    int64_t dims = a->head_dim + flash_dim_v (a), sets = a->batch * a->kv_heads, pads, each;
    int64_t q_blocks = flash_blocks (a->seq_q, BQ), k_blocks = flash_blocks (a->seq_k, BK);

    job->threads = cpu_of (k)->threads;
    job->pad = pad (a->head_dim);
    job->pad_v = pad (flash_dim_v (a));
    pads = job->pad + job->pad_v;
    job->by_head = is_enough (sets, job->threads);
    each = BQ * (dims + a->head_dim + pads);
    if (job->by_head) { /* fewer blocks together would not make more tasks */
        job->q_width = flash_panel (1, q_blocks * (a->heads / a->kv_heads), each, 0);
        job->k_width = 1;
    } else {
        job->q_width = flash_panel (a->batch * a->heads, q_blocks, each, job->threads);
        job->k_width = flash_panel (sets, k_blocks, BK * (dims + pads), job->threads);
    }
    job->keys = BK * (job->by_head ? k_blocks : job->k_width);
    job->floats = (size_t)(job->q_width * each
                           + (job->k_width > 1 ? job->k_width : 1) * BK * dims + 3 * BK * BQ
                           + job->keys * pads);
}

static void carve_lane (const struct backward_job *job, float *memory, struct lane *lane)
{
    lane->qs = memory;
    lane->dos = lane->qs + BQ * job->pad;
    lane->qt = lane->dos + BQ * job->pad_v;
    lane->dqt = lane->qt + job->plan.a.head_dim * BQ;
    lane->dot = lane->dqt + job->plan.a.head_dim * BQ;
}

static void carve (const struct backward_job *job, struct work *w)
{
    const struct kern_attention_fwd *a = &job->plan.a;
    float *memory = job->memory + (size_t)cpu_thread () * job->floats;
    int64_t dims = a->head_dim + a->head_dim_v;

    for (int64_t i = 0; i < job->q_width; i++) {
        carve_lane (job, memory, &w->lane[i]);
        memory += BQ * (job->pad + job->pad_v + dims + a->head_dim);
    }
    w->dk = memory;
    w->dv = w->dk + job->keys * job->pad;
    w->p = w->dv + job->keys * job->pad_v;
    w->ds = w->p + BK * BQ;
    w->factor = w->ds + BK * BQ;
    memory = w->factor + BK * BQ;
    for (int64_t i = 0; i < job->k_width || i == 0; i++) {
        w->k[i].k = memory;
        w->k[i].v = memory + a->head_dim * BK;
        memory += dims * BK;
    }
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

/* Make block 'block' of a head the queries of the pairs to come; 'rows': qs and dos, too. */
static void load_queries (const struct backward_job *job, int64_t entry, int64_t head,
                          int64_t block, bool rows, struct lane *lane)
{
    const struct kern_attention_fwd *a = &job->plan.a;
    struct flash_rows q = { (void *)a->q, a->dtype, 0, a->q_stride_s, 0, a->head_dim };
    struct flash_rows dout
        = { (void *)job->g->dout, a->dtype, 0, a->out_stride_s, 0, a->head_dim_v };
    int64_t at;

    flash_set_queries (a, entry, head, block, &lane->q);
    at = flash_lse (a, &lane->q);
    q.rows = dout.rows = lane->q.count;
    q.first = flash_q_row (a, &lane->q, 0);
    dout.first = flash_out_row (a, &lane->q, 0);
    flash_turn (&q, lane->q.across, (float)(a->scale * FLASH_LOG2E), lane->qt);
    flash_turn (&dout, lane->q.across, 1, lane->dot);
    if (rows) {
        VEC_TYPED (a->dtype, copy_rows, &q, (float)a->scale, lane->qs, job->pad);
        VEC_TYPED (a->dtype, copy_rows, &dout, 1, lane->dos, job->pad_v);
    }
    for (int64_t i = 0; i < lane->q.across; i++) {
        float lse = i < lane->q.count ? a->lse[at + i] : INFINITY;

        /* A query that sees no key has only scores of minus infinity: p = 0. */
        lane->lse[i] = lse == -INFINITY ? 0 : (float)(lse * FLASH_LOG2E);
        lane->delta[i] = i < lane->q.count ? job->delta[at + i] : 0;
    }
}

/* Scores to z p, dout v to ds. */
static void soften (const struct kern_attention_fwd *a, const struct lane *lane,
                    const struct flash_pair *pair, struct work *w)
{
    for (int64_t i = pair->lead; i < pair->end; i += VEC) {
        vf lse = vec_load (lane->lse + i), delta = vec_load (lane->delta + i);

        flash_ahead_fetch (&w->ahead);
        for (int64_t j = 0; j < pair->count; j++) {
            vf p = vec_exp2 (vec_load (w->p + j * BQ + i) - lse);
            vf dp = vec_load (w->ds + j * BQ + i), z = vec_set (1);

            if (a->dropout_p > 0)
                z = vec_load (w->factor + j * BQ + i);
            vec_store (w->p + j * BQ + i, z * p);
            vec_store (w->ds + j * BQ + i, p * (z * dp - delta));
        }
    }
}

/* Form z p and ds of the pair. */
static void form_pair (const struct kern_attention_fwd *a, const struct lane *lane,
                       const struct flash_keys *k, const struct flash_pair *pair,
                       struct work *w)
{
    flash_scores (a, &lane->q, k, pair, lane->qt, w->p);
    cpu_tile (&(struct cpu_tile){ .m = pair->count,
                                  .n = pair->end - pair->lead,
                                  .k = a->head_dim_v,
                                  .a = k->v + pair->from * a->head_dim_v,
                                  .a_row = a->head_dim_v,
                                  .a_col = 1,
                                  .b = lane->dot + pair->lead,
                                  .ldb = BQ,
                                  .c = w->ds + pair->lead,
                                  .ldc = BQ });
    if (a->dropout_p > 0)
        flash_drop (a, &lane->q, k, pair, w->factor);
    soften (a, lane, pair, w);
}

static void add_dq (const struct kern_attention_fwd *a, const struct lane *lane,
                    const struct flash_keys *k, const struct flash_pair *pair,
                    const struct work *w)
{
    cpu_tile (&(struct cpu_tile){ .m = a->head_dim,
                                  .n = pair->end - pair->lead,
                                  .k = pair->count,
                                  .a = k->k + pair->from * a->head_dim,
                                  .a_row = 1,
                                  .a_col = a->head_dim,
                                  .b = w->ds + pair->lead,
                                  .ldb = BQ,
                                  .c = lane->dqt + pair->lead,
                                  .ldc = BQ,
                                  .accumulate = true });
}

/* 'row' is where the keys' rows begin in w->dk and w->dv. */
static void add_dk_dv (const struct backward_job *job, const struct lane *lane,
                       const struct flash_pair *pair, const struct work *w, int64_t row)
{
    int64_t lead = pair->lead;
    struct cpu_tile tile = { .m = pair->count,
                             .n = job->pad,
                             .k = cpu_min (pair->end, lane->q.count) - lead,
                             .a = w->ds + lead,
                             .a_row = BQ,
                             .a_col = 1,
                             .b = lane->qs + lead * job->pad,
                             .ldb = job->pad,
                             .c = w->dk + row * job->pad,
                             .ldc = job->pad,
                             .accumulate = true };

    cpu_tile (&tile);
    tile.n = tile.ldb = tile.ldc = job->pad_v;
    tile.a = w->p + lead;
    tile.b = lane->dos + lead * job->pad_v;
    tile.c = w->dv + row * job->pad_v;
    cpu_tile (&tile);
}

static void store_dq (const struct backward_job *job, const struct lane *lane)
{
    const struct kern_attention_fwd *a = &job->plan.a;
    float scale[BQ];

    for (int i = 0; i < BQ; i++)
        scale[i] = (float)a->scale;
    flash_turn_back (lane->dqt, scale, job->g->accumulate,
                     &(struct flash_rows){ job->g->dq, a->dtype, flash_q_row (a, &lane->q, 0),
                                           a->q_stride_s, lane->q.count, a->head_dim });
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
static void store_dk_dv (const struct backward_job *job, int64_t entry, int64_t kv_head,
                         int64_t block, const struct work *w, int64_t row)
{
    const struct kern_attention_fwd *a = &job->plan.a;
    struct flash_keys k = { .entry = entry, .head = kv_head, .first = block * BK };
    int64_t count = cpu_min (BK, a->seq_k - block * BK);
    struct flash_rows dk = { job->g->dk, a->dtype, flash_k_row (a, &k, 0), a->kv_stride_s, count,
                             a->head_dim };
    struct flash_rows dv = { job->g->dv, a->dtype, flash_v_row (a, &k, 0), a->v_stride_s, count,
                             a->head_dim_v };

    for (int64_t j = 0; j < count; j++) {
        flash_fetch (&dk, j + STORE_AHEAD, 1);
        flash_fetch (&dv, j + STORE_AHEAD, 1);
        VEC_TYPED (a->dtype, store_row, w->dk + (row + j) * job->pad, a->head_dim,
                   job->g->dk, flash_k_row (a, &k, j), job->g->accumulate);
        VEC_TYPED (a->dtype, store_row, w->dv + (row + j) * job->pad_v, a->head_dim_v,
                   job->g->dv, flash_v_row (a, &k, j), job->g->accumulate);
    }
}

/* The lanes of a panel against one block of keys: see go_through_keys(). */
static void load_block (const struct backward_job *job, int64_t block, bool all, struct work *w)
{
    const struct kern_attention_fwd *a = &job->plan.a;
    int64_t entry = w->lane[0].q.entry, head = w->lane[0].q.head / (a->heads / a->kv_heads);
    int64_t lanes[PANEL], count = 0;
    struct flash_pair pair;

    for (int64_t i = 0; i < w->lanes; i++)
        if (!flash_hidden (&job->plan, entry, w->lane[i].q.first / BQ, block))
            lanes[count++] = i;
    if (count == 0)
        return;
    flash_set_keys (a, entry, head, block, &w->k[0]);
    flash_ahead_set (a, &w->k[0], count * (BQ / VEC), &w->ahead);
    for (int64_t i = 0; i < count; i++) {
        const struct lane *lane = &w->lane[lanes[i]];

        for (int64_t from = 0; from < w->k[0].count; from += pair.count) {
            if (!flash_pair (&lane->q, &w->k[0], from, &pair))
                continue;
            form_pair (a, lane, &w->k[0], &pair, w);
            add_dq (a, lane, &w->k[0], &pair, w);
            if (all)
                add_dk_dv (job, lane, &pair, w, block * BK + from);
        }
    }
}

/* Form dq of a panel's lanes from all keys.  If 'all', also add to dk and dv. */
static void go_through_keys (const struct backward_job *job, bool all, struct work *w)
{
    size_t size = (size_t)(job->plan.a.head_dim * BQ) * sizeof (float);

    for (int64_t i = 0; i < w->lanes; i++)
        memset (w->lane[i].dqt, 0, size);
    for (int64_t block = 0; block < job->plan.k_blocks; block++)
        load_block (job, block, all, w);
    for (int64_t i = 0; i < w->lanes; i++)
        store_dq (job, &w->lane[i]);
}

static void clear_dk_dv (const struct backward_job *job, const struct work *w)
{
    memset (w->dk, 0, (size_t)(job->keys * (job->pad + job->pad_v)) * sizeof (float));
}

/* Everything of one kv head. */
static void do_head (const struct backward_job *job, int64_t entry, int64_t kv_head)
{
    int64_t group = job->plan.a.heads / job->plan.a.kv_heads, blocks = job->plan.q_blocks;
    struct work w;

    carve (job, &w);
    clear_dk_dv (job, &w);
    for (int64_t first = 0; first < group * blocks; first += w.lanes) {
        w.lanes = cpu_min (job->q_width, group * blocks - first);
        for (int64_t i = 0; i < w.lanes; i++)
            load_queries (job, entry, kv_head * group + (first + i) / blocks,
                          (first + i) % blocks, true, &w.lane[i]);
        go_through_keys (job, true, &w);
    }
    for (int64_t b = 0; b < job->plan.k_blocks; b++)
        store_dk_dv (job, entry, kv_head, b, &w, b * BK);
}

/* dq of a panel: the blocks of queries from 'first' on. */
static void do_queries (const struct backward_job *job, int64_t entry, int64_t head, int64_t first)
{
    struct work w;

    carve (job, &w);
    w.lanes = cpu_min (job->q_width, job->plan.q_blocks - first);
    for (int64_t i = 0; i < w.lanes; i++)
        load_queries (job, entry, head, first + i, false, &w.lane[i]);
    go_through_keys (job, false, &w);
}

/* Add the terms of one block of queries to dk and dv of 'count' blocks of keys from 'first' on. */
static void go_through_panel (const struct backward_job *job, int64_t entry, int64_t head,
                              int64_t q_block, int64_t first, int64_t count, struct work *w)
{
    const struct kern_attention_fwd *a = &job->plan.a;
    struct lane *lane = &w->lane[0];
    struct flash_pair pair;
    bool loaded = false;

    for (int64_t i = 0; i < count; i++) {
        if (flash_hidden (&job->plan, entry, q_block, first + i))
            continue;
        if (!loaded)
            load_queries (job, entry, head, q_block, true, lane);
        loaded = true;
        for (int64_t from = 0; from < w->k[i].count; from += pair.count) {
            if (!flash_pair (&lane->q, &w->k[i], from, &pair))
                continue;
            form_pair (a, lane, &w->k[i], &pair, w);
            add_dk_dv (job, lane, &pair, w, i * BK + from);
        }
    }
}

/* dk and dv of a panel: the blocks of keys from 'first' on. */
static void do_keys (const struct backward_job *job, int64_t entry, int64_t kv_head, int64_t first)
{
    const struct kern_attention_fwd *a = &job->plan.a;
    int64_t group = a->heads / a->kv_heads;
    int64_t count = cpu_min (job->k_width, job->plan.k_blocks - first);
    struct work w;

    carve (job, &w);
    w.ahead = (struct flash_ahead){ 0 }; /* all keys of the panel are there */
    clear_dk_dv (job, &w);
    for (int64_t i = 0; i < count; i++)
        flash_set_keys (a, entry, kv_head, first + i, &w.k[i]);
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; head++)
        for (int64_t b = 0; b < job->plan.q_blocks; b++)
            go_through_panel (job, entry, head, b, first, count, &w);
    for (int64_t i = 0; i < count; i++)
        store_dk_dv (job, entry, kv_head, first + i, &w, i * BK);
}

/* Form delta of one head, and the head's term of dsink. */
VEC_INLINE void do_delta (const struct backward_job *job, int64_t entry, int64_t head,
                          const enum mg_dtype type)
{
    const struct kern_attention_fwd *a = &job->plan.a;
    struct flash_queries q = { .entry = entry, .head = head };
    float *delta = job->delta + flash_lse (a, &q);
    const float *lse = a->lse + flash_lse (a, &q);
    double sink = 0, sum_sink = 0;

    for (int64_t i = 0; i < a->seq_q; i++) {
        int64_t row = flash_out_row (a, &q, i);
        vf sum = { 0 };

        for (int64_t d = 0; d < a->head_dim_v; d += VEC)
            sum += vec_get (a->out, row + d, a->head_dim_v - d, type)
                   * vec_get (job->g->dout, row + d, a->head_dim_v - d, type);
        delta[i] = vec_sum (sum);
    }
    if (!a->has_sink || !job->g->dsink)
        return;
    if (a->sink)
        sink = vec_one (a->sink, head, type);
    /* An lse of minus infinity means that the sink is that, too, and has no probability. */
    for (int64_t i = 0; i < a->seq_q; i++)
        if (lse[i] != -INFINITY)
            sum_sink -= exp (sink - lse[i]) * delta[i];
    job->sinks[entry * a->heads + head] = sum_sink;
}

/* Sums over batch entries, in their order. */
static void add_dsink (const struct backward_job *job)
{
    const struct kern_attention_bwd *g = job->g;

    for (int64_t head = 0; head < job->plan.a.heads; head++) {
        double sum = 0;

        for (int64_t entry = 0; entry < job->plan.a.batch; entry++)
            sum += job->sinks[entry * job->plan.a.heads + head];
        VEC_TYPED (g->grad_dtype, vec_add, g->dsink, head, vec_set ((float)sum), 1);
    }
}

static void run_heads (const struct backward_job *job)
{
    int64_t kv_heads = job->plan.a.kv_heads, tasks = job->plan.a.batch * kv_heads;

#pragma omp parallel for num_threads (job->threads) schedule (dynamic)
    for (int64_t task = 0; task < tasks; task++)
        do_head (job, task / kv_heads, task % kv_heads);
}

static void run_blocks (const struct backward_job *job)
{
    const struct kern_attention_fwd *a = &job->plan.a;
    int64_t q_panels = job->q_width > 0 ? flash_blocks (job->plan.q_blocks, job->q_width) : 0;
    int64_t k_panels = job->k_width > 0 ? flash_blocks (job->plan.k_blocks, job->k_width) : 0;
    int64_t q_tasks = a->batch * a->heads * q_panels;
    int64_t k_tasks = a->batch * a->kv_heads * k_panels;

#pragma omp parallel num_threads (job->threads)
    {
        /* Longest first: of a causal mask late queries and early keys. */
#pragma omp for schedule (dynamic) nowait
        for (int64_t task = 0; task < q_tasks; task++) {
            int64_t head = task / q_panels;

            do_queries (job, head / a->heads, head % a->heads,
                        (q_panels - 1 - task % q_panels) * job->q_width);
        }
#pragma omp for schedule (dynamic)
        for (int64_t task = 0; task < k_tasks; task++) {
            int64_t head = task / k_panels;

            do_keys (job, head / a->kv_heads, head % a->kv_heads,
                     task % k_panels * job->k_width);
        }
    }
}

/* Floats of delta, a multiple of 16. */
static size_t num_deltas (const struct kern_attention_fwd *a)
{
    return (size_t)(a->batch * a->heads * a->seq_q + 15) / 16 * 16;
}

/* Floats that job->sinks takes, a multiple of 16. */
static size_t num_sinks (const struct kern_attention_fwd *a)
{
    return a->has_sink ? (size_t)(2 * a->batch * a->heads + 15) / 16 * 16 : 0;
}

size_t cpu_attention_bwd_scratch (const struct kernels *k,
                                  const struct kern_attention_bwd *g)
{
    struct backward_job job;

    if (g->fwd.kv_heads < 1)
        return 0; // the call is refused
    divide (k, &g->fwd, &job);
    return (flash_plan_floats (&g->fwd) + num_sinks (&g->fwd) + num_deltas (&g->fwd)
            + (size_t)job.threads * job.floats)
           * sizeof (float);
}

int cpu_attention_bwd (const struct kernels *k, const struct kern_attention_bwd *g,
                       struct mg_error *err)
{
    const struct kern_attention_fwd *a = &g->fwd;
    struct backward_job job = { .g = g };
    int64_t heads = a->batch * a->heads;
    float *memory;

    if (kern_attention_check (a, err) < 0)
        return -1;
    if (heads == 0)
        return 0;
    divide (k, a, &job);
    if (!(memory = cpu_scratch (k, cpu_attention_bwd_scratch (k, g), err)))
        return -1;
    flash_prepare (a, memory, &job.plan);
    job.sinks = (double *)(memory + flash_plan_floats (a));
    job.delta = memory + flash_plan_floats (a) + num_sinks (a);
    job.memory = job.delta + num_deltas (a);
#pragma omp parallel for num_threads (job.threads)
    for (int64_t i = 0; i < heads; i++)
        VEC_TYPED (a->dtype, do_delta, &job, i / a->heads, i % a->heads);
    if (a->has_sink && g->dsink)
        add_dsink (&job);
    if (job.by_head)
        run_heads (&job);
    else
        run_blocks (&job);
    return 0;
}
