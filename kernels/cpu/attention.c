/* attention.c - scaled dot-product attention, forward (formulas in kernels.h)
 *
 * One task is a panel: some blocks of queries that use the same kv head.  A panel goes through the
 * blocks of keys and keeps, for every query, the largest score m so far, l = sum e^(score - m) and
 * o = sum e^(score - m) v; a larger m rescales l and o (Milakov, Gimelshein 2018; Dao et al.
 * 2022).  A sink is in m and l from the start.  A block of keys is copied once for all queries of a
 * panel.  The result of a query does not depend on the other queries of its panel.
 */

#include <math.h>

#include "kernels/cpu/flash.h"

/* One block of queries of a panel. */
struct lane {
    struct flash_queries q;
    float *qt; /* [head_dim][BQ]: queries times scale log2 e */
    float *ot; /* [head_dim_v][BQ]: o */
    float m[BQ], l[BQ]; /* m: times log2 e, as scores are */
    float most[BQ];     /* the largest scores without a sink, if they are wanted */
};

/* Of one thread. */
struct work {
    struct lane lane[PANEL];
    int64_t lanes;
    struct flash_keys k;
    float *p, *factor; /* [BK][BQ] */
    struct flash_ahead ahead; /* of k */
};

struct attention_job {
    struct flash_plan plan;
    int64_t lanes;  /* of one kv head: blocks of queries of all heads of its group */
    int64_t width;  /* lanes of a panel */
    int64_t panels; /* of one kv head */
    float *memory;  /* of the threads, 'floats' each */
    size_t floats;
};

/* Set all sizes. */
static void divide (const struct kernels *k, const struct kern_attention_fwd *a,
                    struct attention_job *job)
{
    int64_t dims = a->head_dim + flash_dim_v (a), group = a->heads / a->kv_heads;
    int threads = cpu_of (k)->threads;

    job->lanes = group * flash_blocks (a->seq_q, BQ);
    job->width = flash_panel (a->batch * a->kv_heads, job->lanes, dims * BQ, threads);
    job->panels = job->lanes > 0 ? flash_blocks (job->lanes, job->width) : 0;
    job->floats = (size_t)(job->width * dims * BQ + dims * BK + 2 * BK * BQ);
}

static void carve (const struct attention_job *job, struct work *w)
{
    const struct kern_attention_fwd *a = &job->plan.a;
    float *memory = job->memory + (size_t)cpu_thread () * job->floats;

    for (int64_t i = 0; i < job->width; i++) {
        w->lane[i].qt = memory;
        w->lane[i].ot = memory + a->head_dim * BQ;
        memory += (a->head_dim + a->head_dim_v) * BQ;
    }
    w->p = memory;
    w->factor = w->p + BK * BQ;
    w->k.k = w->factor + BK * BQ;
    w->k.v = w->k.k + a->head_dim * BK;
}

/* The largest of 'before' and of 'count' rows of s.  There are four partial results, since a
 * step has to wait for the step before it.
 */
VEC_INLINE vf find_largest (const float *s, int64_t count, vf before)
{
    vf m[4] = { before, before, before, before };
    int64_t j = 0;

    for (; j + 4 <= count; j += 4) {
        VEC_UNROLL for (int r = 0; r < 4; r++)
            m[r] = vec_max (vec_load (s + (j + r) * BQ), m[r]);
    }
    for (; j < count; j++)
        m[0] = vec_max (vec_load (s + j * BQ), m[0]);
    return vec_max (vec_max (m[0], m[1]), vec_max (m[2], m[3]));
}

/* Scores to probabilities relative to m, after m and l have taken the pair in.  shrink[query] is
 * the factor by which o must be multiplied.
 */
VEC_INLINE void soften (const struct flash_pair *pair, struct work *w, struct lane *lane,
                        float *shrink, const bool drop)
{
    for (int64_t i = pair->lead; i < pair->end; i += VEC) {
        vf before = vec_load (lane->m + i), m, base, less, sum = { 0 };
        float *s = w->p + i;

        flash_ahead_fetch (&w->ahead);
        m = find_largest (s, pair->count, before);
        base = vec_select (m == -INFINITY, (vf){ 0 }, m); /* inf - inf is no number */
        less = vec_exp2 (before - base);
        for (int64_t j = 0; j < pair->count; j++) {
            vf p = vec_exp2 (vec_load (s + j * BQ) - base);

            sum += p;
            if (drop)
                p *= vec_load (w->factor + j * BQ + i);
            vec_store (s + j * BQ, p);
        }
        vec_store (lane->m + i, m);
        vec_store (lane->l + i, vec_load (lane->l + i) * less + sum);
        vec_store (shrink + i, less);
    }
}

/* Of a pair's scores. */
static void find_most (const struct flash_pair *pair, const float *s, struct lane *lane)
{
    for (int64_t i = pair->lead; i < pair->end; i += VEC)
        vec_store (lane->most + i,
                   find_largest (s + i, pair->count, vec_load (lane->most + i)));
}

static void add_pair (const struct kern_attention_fwd *a, const struct flash_pair *pair,
                      struct work *w, struct lane *lane)
{
    float shrink[BQ];

    flash_scores (a, &lane->q, &w->k, pair, lane->qt, w->p);
    if (a->max_logit)
        find_most (pair, w->p, lane);
    if (a->dropout_p > 0) {
        flash_drop (a, &lane->q, &w->k, pair, w->factor);
        soften (pair, w, lane, shrink, true);
    } else {
        soften (pair, w, lane, shrink, false);
    }
    cpu_tile (&(struct cpu_tile){ .m = a->head_dim_v,
                                  .n = pair->end - pair->lead,
                                  .k = pair->count,
                                  .a = w->k.v + pair->from * a->head_dim_v,
                                  .a_row = 1,
                                  .a_col = a->head_dim_v,
                                  .b = w->p + pair->lead,
                                  .ldb = BQ,
                                  .c = lane->ot + pair->lead,
                                  .ldc = BQ,
                                  .accumulate = true,
                                  .scale = shrink + pair->lead });
}

static void begin_lane (const struct kern_attention_fwd *a, int64_t entry, int64_t head,
                        int64_t block, struct lane *lane)
{
    float m = -INFINITY;

    flash_set_queries (a, entry, head, block, &lane->q);
    flash_turn (&(struct flash_rows){ (void *)a->q, a->dtype, flash_q_row (a, &lane->q, 0),
                                      a->q_stride_s, lane->q.count, a->head_dim },
                lane->q.across, (float)(a->scale * FLASH_LOG2E), lane->qt);
    memset (lane->ot, 0, (size_t)(a->head_dim_v * BQ) * sizeof (float));
    if (a->has_sink)
        m = a->sink ? (float)(vec_one (a->sink, head, a->dtype) * FLASH_LOG2E) : 0;
    for (int i = 0; i < BQ; i++) {
        lane->m[i] = m;
        lane->l[i] = m == -INFINITY ? 0 : 1;
        lane->most[i] = -INFINITY;
    }
}

/* Panels note their largest scores in any order. */
static void note_most (const struct kern_attention_fwd *a, const struct lane *lane)
{
    float most = -INFINITY, before;

    for (int64_t i = 0; i < lane->q.count; i++)
        most = lane->most[i] > most ? lane->most[i] : most;
    most = (float)(most / FLASH_LOG2E);
    __atomic_load (a->max_logit, &before, __ATOMIC_RELAXED);
    while (most > before
           && !__atomic_compare_exchange (a->max_logit, &before, &most, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED))
        continue;
}

static void end_lane (const struct kern_attention_fwd *a, const struct lane *lane)
{
    float over_l[BQ], *lse = a->lse + flash_lse (a, &lane->q);

    for (int64_t i = 0; i < lane->q.count; i++) {
        over_l[i] = lane->l[i] == 0 ? 0 : 1 / lane->l[i];
        lse[i] = lane->l[i] == 0
                     ? -INFINITY
                     : (float)(lane->m[i] / FLASH_LOG2E) + logf (lane->l[i]);
    }
    flash_turn_back (lane->ot, over_l, false,
                     &(struct flash_rows){ a->out, a->dtype, flash_out_row (a, &lane->q, 0),
                                           a->out_stride_s, lane->q.count, a->head_dim_v });
}

/* All lanes of a panel against one block of keys. */
static void add_block (const struct attention_job *job, int64_t block, struct work *w)
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
    flash_set_keys (a, entry, head, block, &w->k);
    flash_ahead_set (a, &w->k, count * (BQ / VEC), &w->ahead);
    for (int64_t i = 0; i < count; i++) {
        struct lane *lane = &w->lane[lanes[i]];

        for (int64_t from = 0; from < w->k.count; from += pair.count)
            if (flash_pair (&lane->q, &w->k, from, &pair))
                add_pair (a, &pair, w, lane);
    }
}

static void do_panel (const struct attention_job *job, int64_t entry, int64_t kv_head,
                      int64_t panel)
{
    const struct kern_attention_fwd *a = &job->plan.a;
    int64_t group = a->heads / a->kv_heads, first = panel * job->width;
    struct work w;

    carve (job, &w);
    w.lanes = cpu_min (job->width, job->lanes - first);
    /* Late queries see the most keys under a causal mask: longest first. */
    for (int64_t i = 0; i < w.lanes; i++)
        begin_lane (a, entry, kv_head * group + (first + i) % group,
                    job->plan.q_blocks - 1 - (first + i) / group, &w.lane[i]);
    for (int64_t block = 0; block < job->plan.k_blocks; block++)
        add_block (job, block, &w);
    for (int64_t i = 0; i < w.lanes; i++) {
        end_lane (a, &w.lane[i]);
        if (a->max_logit)
            note_most (a, &w.lane[i]);
    }
}

size_t cpu_attention_fwd_scratch (const struct kernels *k, const struct kern_attention_fwd *a)
{
    struct attention_job job;

    if (a->kv_heads < 1)
        return 0; // the call is refused
    divide (k, a, &job);
    return (flash_plan_floats (a) + (size_t)cpu_of (k)->threads * job.floats) * sizeof (float);
}

int cpu_attention_fwd (const struct kernels *k, const struct kern_attention_fwd *a,
                       struct mg_error *err)
{
    struct attention_job job;
    float *memory;
    int64_t tasks;

    if (kern_attention_check (a, err) < 0)
        return -1;
    if (cpu_attention_is_one (a))
        return cpu_attention_one (k, a, err);
    divide (k, a, &job);
    tasks = a->batch * a->kv_heads * job.panels;
    if (tasks == 0)
        return 0;
    if (!(memory = cpu_scratch (k, cpu_attention_fwd_scratch (k, a), err)))
        return -1;
    flash_prepare (a, memory, &job.plan);
    job.memory = memory + flash_plan_floats (a);
    /* The panels of a kv head one after the other, as its keys are in cache then. */
#pragma omp parallel for num_threads (cpu_of (k)->threads) schedule (dynamic)
    for (int64_t task = 0; task < tasks; task++) {
        int64_t head = task / job.panels;

        do_panel (&job, head / a->kv_heads, head % a->kv_heads, task % job.panels);
    }
    return 0;
}
