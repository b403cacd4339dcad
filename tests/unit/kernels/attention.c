/* attention - both directions against plain formulas in double, those against finite
 * differences
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum positions { PLAIN, LATER, ZIGZAG, BLIND, EACH };

enum { MOST_HEADS = 40 };

struct shape {
    int64_t batch, heads, kv_heads, seq_q, seq_k, dim;
    bool causal;
    double p;
    enum positions positions;
    bool packed; /* by group of heads: queries, k, v, as a fused projection leaves them */
};

static const struct shape shapes[] = {
    { 1, 1, 1, 1, 1, 1, true, 0, PLAIN, false },
    { 1, 1, 1, 2, 3, 5, false, 0, PLAIN, false },
    { 2, 3, 3, 17, 17, 16, true, 0, PLAIN, true },
    { 2, 4, 2, 33, 33, 20, true, 0.1, PLAIN, true },
    { 1, 6, 1, 64, 64, 64, true, 0, PLAIN, false },
    { 2, 2, 2, 65, 63, 33, false, 0.3, PLAIN, false },
    { 1, 2, 1, 130, 130, 128, true, 0.1, PLAIN, true },
    { 1, 1, 1, 200, 200, 24, true, 0, PLAIN, false },
    { 1, 2, 2, 48, 112, 8, true, 0.2, LATER, false },
    { 2, 4, 2, 128, 128, 16, true, 0.1, ZIGZAG, true },
    { 3, 6, 2, 40, 70, 12, true, 0.1, EACH, false },
    { 2, 8, 2, 20, 20, 9, true, 0, EACH, true },
    { 1, 2, 1, 70, 90, 12, true, 0.5, BLIND, false },
    { 3, 2, 1, 1, 129, 40, true, 0, LATER, false },
    { 2, 2, 2, 0, 9, 8, true, 0.1, PLAIN, false },
    { 2, 2, 2, 9, 0, 8, true, 0.1, PLAIN, false },
    { 0, 2, 2, 9, 9, 8, true, 0.1, PLAIN, false },
    { 1, 12, 12, 1, 200, 64, true, 0, LATER, false },
    { 2, 6, 2, 1, 65, 33, true, 0, LATER, false },
    { 2, 8, 1, 1, 64, 5, false, 0, PLAIN, false },
    { 2, 4, 2, 1, 3, 80, false, 0, EACH, false },
    { 1, 2, 2, 1, 2, 16, true, 0, BLIND, false },
    { 1, 40, 1, 1, 70, 8, true, 0, LATER, false },
    { 1, 4, 1, 1, 70, 8, true, 0.2, LATER, false },
};

/* One document, several of the same lengths in every batch entry, or of its own lengths, or one
 * that begins at position 128.
 */
enum documents { ONE, SAME, OWN, LATE };
enum sinks { NO_SINK, OFF_BY_ONE, LEARNED };

/* What else a case may have; zeros add nothing. */
struct extra {
    int64_t dim_v; /* not 0: v is another buffer with strides of its own */
    struct kern_window window;
    enum documents documents;
    enum sinks sinks;
};

static const struct {
    struct shape shape;
    struct extra extra;
} extras[] = {
    { { 1, 2, 1, 200, 200, 8, true, 0, PLAIN, false },
      { .window = { true, 5, 0 }, .dim_v = 11 } },
    { { 2, 2, 2, 150, 170, 6, false, 0.1, PLAIN, false },
      { .window = { true, 70, 3 }, .documents = SAME, .sinks = OFF_BY_ONE } },
    { { 2, 2, 1, 192, 192, 16, true, 0, ZIGZAG, true },
      { .window = { true, 64, -1 }, .documents = OWN, .sinks = LEARNED } },
    { { 1, 3, 3, 90, 90, 33, false, 0.2, EACH, false },
      { .window = { true, -1, 0 }, .dim_v = 16, .sinks = LEARNED } },
    { { 1, 1, 1, 300, 300, 5, true, 0, LATER, false },
      { .documents = SAME, .dim_v = 1 } },
    { { 2, 4, 2, 70, 90, 12, true, 0.3, BLIND, false }, { .sinks = LEARNED } },
    { { 1, 2, 1, 70, 90, 12, true, 0, BLIND, false }, { .sinks = OFF_BY_ONE, .dim_v = 40 } },
    { { 2, 2, 2, 9, 0, 8, true, 0.1, PLAIN, false }, { .sinks = LEARNED } },
    { { 2, 2, 2, 0, 9, 8, true, 0.1, PLAIN, false }, { .sinks = LEARNED, .dim_v = 3 } },
    { { 1, 2, 2, 80, 80, 8, true, 0, PLAIN, false }, { .window = { true, 0, 0 } } },
    { { 1, 1, 1, 66, 66, 8, false, 0, PLAIN, false }, { .window = { true, -1, -1 } } },
    { { 1, 2, 1, 1, 200, 24, true, 0, LATER, false },
      { .window = { true, 70, 0 }, .dim_v = 11, .sinks = LEARNED } },
    { { 1, 4, 2, 1, 150, 8, true, 0, LATER, false },
      { .window = { true, 3, -1 }, .dim_v = 70, .sinks = OFF_BY_ONE } },
    { { 2, 2, 2, 1, 90, 20, true, 0, EACH, false }, { .documents = SAME, .sinks = LEARNED } },
};

/* Everything of one case: inputs, what is expected of outputs, in double. */
struct problem {
    struct kern_attention_fwd a; /* without the outputs */
    int32_t *pos_q, *pos_k, *start; /* [batch][seq] */
    int64_t v_s, v_b, v_g;          /* strides of v */
    float sink[MOST_HEADS];
    uint64_t dropout_key[MOST_HEADS];
    int64_t sample[4];
    struct kit_array q, kv, v, dout; /* kv: k, then v; packed: all three in q; v: see extra */
    size_t q_size, kv_size, v_size, out_size, lse_size;
    double *out, *lse, *dq, *dk, *dv; /* same layout as the kernel's */
    double dsink[MOST_HEADS];
};

static void *allocate (size_t n, size_t size)
{
    return kit_alloc (n, size);
}

/* Rank 0 of 2 with the zigzag division holds the first and the last quarter. */
static int64_t position (enum positions kind, bool is_query, int64_t entry, int64_t i,
                         int64_t n, int64_t other)
{
    switch (kind) {
    case LATER: /* queries are the last ones */
        return is_query ? other - n + i : i;
    case ZIGZAG:
        return is_query ? (i < n / 2 ? i : i + n) : (i * 5 + 3) % (2 * n);
    case BLIND: /* queries before the first key see nothing */
        return is_query ? i : i + 11;
    case EACH: /* every entry has others */
        return is_query ? i + 3 * entry : i + 5 * entry * entry;
    default:
        return i;
    }
}

static void set_strides (struct problem *p, const struct shape *s, const struct extra *e)
{
    struct kern_attention_fwd *a = &p->a;
    int64_t q_row = s->heads * s->dim, kv_row = s->kv_heads * s->dim;
    int64_t group = s->heads / s->kv_heads * s->dim;

    a->q_stride_h = s->dim;
    a->out_stride_h = e->dim_v ? e->dim_v : s->dim;
    a->q_stride_g = s->packed ? group + 2 * s->dim : group;
    a->kv_stride_g = s->packed ? a->q_stride_g : s->dim;
    a->q_stride_b = s->packed ? q_row + 2 * kv_row : q_row;
    a->kv_stride_b = s->packed ? q_row + 2 * kv_row : kv_row;
    a->q_stride_s = a->q_stride_b * s->batch;
    a->kv_stride_s = a->kv_stride_b * s->batch;
    a->out_stride_b = s->heads * a->out_stride_h + 3;
    a->out_stride_s = a->out_stride_b * s->batch;
    if (e->dim_v) {
        a->v_stride_g = e->dim_v + 1;
        a->v_stride_b = s->kv_heads * a->v_stride_g;
        a->v_stride_s = a->v_stride_b * s->batch + 2;
    }
    p->v_g = e->dim_v ? a->v_stride_g : a->kv_stride_g;
    p->v_b = e->dim_v ? a->v_stride_b : a->kv_stride_b;
    p->v_s = e->dim_v ? a->v_stride_s : a->kv_stride_s;
    p->v_size = (size_t)(p->v_s * s->seq_k);
    p->q_size = (size_t)(a->q_stride_s * s->seq_q);
    p->kv_size = (size_t)(a->kv_stride_s * s->seq_k);
    p->out_size = (size_t)(a->out_stride_s * s->seq_q);
    p->lse_size = (size_t)(s->batch * s->heads * s->seq_q);
}

static void set_positions (struct problem *p, const struct shape *s)
{
    bool each = s->positions == EACH, plain = s->positions == PLAIN;

    p->pos_q = allocate ((size_t)(s->batch * s->seq_q), sizeof (int32_t));
    p->pos_k = allocate ((size_t)(s->batch * s->seq_k), sizeof (int32_t));
    for (int64_t b = 0; b < s->batch; b++) {
        for (int64_t i = 0; i < s->seq_q; i++)
            p->pos_q[b * s->seq_q + i]
                = (int32_t)position (s->positions, true, b, i, s->seq_q, s->seq_k);
        for (int64_t i = 0; i < s->seq_k; i++)
            p->pos_k[b * s->seq_k + i]
                = (int32_t)position (s->positions, false, b, i, s->seq_k, s->seq_q);
    }
    p->a.pos_q = (struct kern_positions){ plain ? NULL : p->pos_q, 1, each ? s->seq_q : 0 };
    p->a.pos_k = (struct kern_positions){ plain ? NULL : p->pos_k, 1, each ? s->seq_k : 0 };
}

static void set_documents (struct problem *p, const struct shape *s, const struct extra *e)
{
    p->start = allocate ((size_t)(s->batch * s->seq_q), sizeof (int32_t));
    if (e->documents == ONE)
        return;
    for (int64_t b = 0; b < s->batch; b++) {
        for (int64_t i = 0; i < s->seq_q; i++) {
            int32_t length = e->documents == LATE  ? 128
                             : e->documents == OWN ? 40 + 23 * (int32_t)b
                                                   : 40;
            int32_t at = p->pos_q[b * s->seq_q + i];

            p->start[b * s->seq_q + i] = at - at % length;
        }
    }
    p->a.start
        = (struct kern_starts){ p->start, 1, e->documents == OWN ? s->seq_q : 0 };
}

/* Width of v. */
static int64_t dim_v (const struct kern_attention_fwd *a)
{
    return a->head_dim_v ? a->head_dim_v : a->head_dim;
}

static void allocate_wanted (struct problem *p)
{
    p->out = allocate (p->out_size, sizeof (double));
    p->lse = allocate (p->lse_size, sizeof (double));
    p->dq = allocate (p->q_size, sizeof (double));
    p->dk = allocate (p->kv_size, sizeof (double));
    p->dv = allocate (p->v_size, sizeof (double));
}

static void problem_open_more (struct problem *p, const struct shape *s,
                               const struct extra *e)
{
    memset (p, 0, sizeof (*p));
    p->a = (struct kern_attention_fwd){ .batch = s->batch,
                                    .heads = s->heads,
                                    .kv_heads = s->kv_heads,
                                    .seq_q = s->seq_q,
                                    .seq_k = s->seq_k,
                                    .head_dim = s->dim,
                                    .head_dim_v = e->dim_v,
                                    .scale = 1.3 / sqrt ((double)s->dim),
                                    .causal = s->causal,
                                    .window = e->window,
                                    .has_sink = e->sinks != NO_SINK,
                                    .sink = e->sinks == LEARNED ? p->sink : NULL,
                                    .dropout_p = s->p };
    set_strides (p, s, e);
    set_positions (p, s);
    set_documents (p, s, e);
    if (e->sinks == LEARNED)
        kit_random (p->sink, MOST_HEADS, 4);
    for (int i = 0; i < MOST_HEADS; i++)
        p->dropout_key[i] = rng_key (7, RNG_DROPOUT_ATTENTION, (uint64_t)(5 + i), 3);
    for (int i = 0; i < 4; i++)
        p->sample[i] = 1000 + 77 * i + ((int64_t)i << 33);
    p->a.seed = 7;
    p->a.layer = 3;
    p->a.first_head = 5;
    p->a.sample = p->sample;
    p->q = kit_array (p->q_size, 3);
    p->kv = kit_array (2 * p->kv_size, 1);
    p->dout = kit_array (p->out_size, 0);
    kit_random (p->q.x, p->q_size, 1);
    kit_random (p->kv.x, 2 * p->kv_size, 2);
    kit_random (p->dout.x, p->out_size, 3);
    p->a.q = p->q.x;
    p->a.k = s->packed ? p->q.x + s->heads / s->kv_heads * s->dim : p->kv.x;
    p->a.v = s->packed ? (const float *)p->a.k + s->dim : p->kv.x + p->kv_size;
    p->v = kit_array (p->v_size, 2);
    kit_random (p->v.x, p->v_size, 5);
    if (e->dim_v)
        p->a.v = p->v.x;
    allocate_wanted (p);
}

static void problem_open (struct problem *p, const struct shape *s)
{
    problem_open_more (p, s, &(struct extra){ 0 });
}

static bool problem_close (struct problem *p)
{
    bool whole = kit_array_free (&p->q);

    whole = kit_array_free (&p->kv) && whole;
    whole = kit_array_free (&p->v) && whole;
    whole = kit_array_free (&p->dout) && whole;
    free (p->start);
    free (p->pos_q);
    free (p->pos_k);
    free (p->out);
    free (p->lse);
    free (p->dq);
    free (p->dk);
    free (p->dv);
    return whole;
}

/* Where the element 0 of a row is. */
static int64_t at_q (const struct kern_attention_fwd *a, int64_t b, int64_t h, int64_t i)
{
    int64_t group = a->heads / a->kv_heads;

    return i * a->q_stride_s + b * a->q_stride_b + h / group * a->q_stride_g
           + h % group * a->q_stride_h;
}

static int64_t at_kv (const struct kern_attention_fwd *a, int64_t b, int64_t h, int64_t j)
{
    return j * a->kv_stride_s + b * a->kv_stride_b
           + h / (a->heads / a->kv_heads) * a->kv_stride_g;
}

static int64_t at_v (const struct problem *p, int64_t b, int64_t h, int64_t j)
{
    return j * p->v_s + b * p->v_b + h / (p->a.heads / p->a.kv_heads) * p->v_g;
}

static int64_t at_out (const struct kern_attention_fwd *a, int64_t b, int64_t h, int64_t i)
{
    return i * a->out_stride_s + b * a->out_stride_b + h * a->out_stride_h;
}

/* Factor of dropout, by the definition in kernels.h. */
static double factor (const struct problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    int32_t query = p->pos_q[b * p->a.seq_q + i], key = p->pos_k[b * p->a.seq_k + j];
    uint32_t bits[4];

    if (p->a.dropout_p == 0)
        return 1;
    rng_philox (p->dropout_key[h], (uint32_t)(key / 4), (uint32_t)query,
                (uint64_t)p->sample[b], bits);
    return bits[key % 4] < rng_threshold (p->a.dropout_p)
               ? 0
               : 1 / (1 - p->a.dropout_p);
}

/* Does a query see a key?  By the definition in kernels.h. */
static bool is_visible (const struct problem *p, int64_t b, int64_t i, int64_t j)
{
    int64_t query = p->pos_q[b * p->a.seq_q + i], key = p->pos_k[b * p->a.seq_k + j];
    const struct kern_window *w = &p->a.window;

    if (p->a.causal && key > query)
        return false;
    if (w->set && w->left >= 0 && key < query - w->left)
        return false;
    if (w->set && w->right >= 0 && key > query + w->right)
        return false;
    return !p->a.start.at || key >= p->start[b * p->a.start.stride_b + i];
}

/* prob[j] of one query; returns its lse. */
static double softmax (const struct problem *p, int64_t b, int64_t h, int64_t i,
                       double *prob)
{
    const struct kern_attention_fwd *a = &p->a;
    const float *q = (const float *)a->q + at_q (a, b, h, i), *k = a->k;
    double max = a->has_sink ? p->sink[h] : -INFINITY, sum = 0;

    for (int64_t j = 0; j < a->seq_k; j++) {
        const float *key = k + at_kv (a, b, h, j);
        double dot = 0;

        prob[j] = -INFINITY;
        if (!is_visible (p, b, i, j))
            continue;
        for (int64_t d = 0; d < a->head_dim; d++)
            dot += (double)q[d] * key[d];
        prob[j] = dot * a->scale;
        max = fmax (max, prob[j]);
    }
    if (a->has_sink)
        sum = exp (p->sink[h] - max);
    for (int64_t j = 0; j < a->seq_k; j++) {
        prob[j] = max == -INFINITY ? 0 : exp (prob[j] - max);
        sum += prob[j];
    }
    for (int64_t j = 0; j < a->seq_k && sum > 0; j++)
        prob[j] /= sum;
    return max + log (sum);
}

/* One query: its out and lse, and what it adds to the gradients.  A key of probability 0 adds
 * nothing.  'prob' and 'z' (the factors of dropout) have room for seq_k.
 */
static void solve_row (struct problem *p, int64_t b, int64_t h, int64_t i, double *prob,
                       double *z)
{
    const struct kern_attention_fwd *a = &p->a;
    double *out = p->out + at_out (a, b, h, i), *dq = p->dq + at_q (a, b, h, i),
           delta = 0;
    const float *dout = p->dout.x + at_out (a, b, h, i), *k = a->k, *v = a->v;
    const float *q = (const float *)a->q + at_q (a, b, h, i);
    double lse = softmax (p, b, h, i, prob);

    p->lse[(b * a->heads + h) * a->seq_q + i] = lse;
    for (int64_t j = 0; j < a->seq_k; j++) {
        z[j] = prob[j] == 0 ? 0 : factor (p, b, h, i, j);
        for (int64_t d = 0; z[j] != 0 && d < dim_v (a); d++)
            out[d] += prob[j] * z[j] * v[at_v (p, b, h, j) + d];
    }
    for (int64_t d = 0; d < dim_v (a); d++)
        delta += dout[d] * out[d];
    if (a->has_sink)
        p->dsink[h] -= exp (p->sink[h] - lse) * delta;
    for (int64_t j = 0; j < a->seq_k; j++) {
        int64_t k_row = at_kv (a, b, h, j), v_row = at_v (p, b, h, j);
        double dp = 0, ds;

        if (prob[j] == 0)
            continue;
        for (int64_t d = 0; z[j] != 0 && d < dim_v (a); d++)
            dp += z[j] * dout[d] * v[v_row + d];
        ds = a->scale * prob[j] * (dp - delta);
        for (int64_t d = 0; d < a->head_dim; d++) {
            dq[d] += ds * k[k_row + d];
            p->dk[k_row + d] += ds * q[d];
        }
        for (int64_t d = 0; z[j] != 0 && d < dim_v (a); d++)
            p->dv[v_row + d] += prob[j] * z[j] * dout[d];
    }
}

static void solve (struct problem *p)
{
    double *prob = allocate ((size_t)p->a.seq_k, sizeof (*prob));
    double *z = allocate ((size_t)p->a.seq_k, sizeof (*z));

    for (int64_t b = 0; b < p->a.batch; b++)
        for (int64_t h = 0; h < p->a.heads; h++)
            for (int64_t i = 0; i < p->a.seq_q; i++)
                solve_row (p, b, h, i, prob, z);
    free (prob);
    free (z);
}

/* What the kernel wrote, and whether elements between the heads' are as they were (NaN).
 */
struct result {
    struct kit_array out, lse, dq, dk, dv, dsink;
};

static bool run_bwd (const struct kernels *k, const struct problem *p, bool accumulate,
                     struct result *r, struct mg_error *err)
{
    struct kern_attention_fwd a = p->a;
    struct kern_attention_bwd g;

    r->out = kit_array (p->out_size, 2);
    r->lse = kit_array (p->lse_size, 1);
    r->dq = kit_array (p->q_size, 1);
    r->dk = kit_array (p->kv_size, 1);
    r->dv = kit_array (p->v_size, 3);
    r->dsink = kit_array ((size_t)p->a.heads, 1);
    for (int64_t h = 0; h < p->a.heads; h++)
        r->dsink.x[h] = 0.5f * (float)h;
    a.out = r->out.x;
    a.lse = r->lse.x;
    if (kern_attention_fwd (k, &a, NULL, err) < 0)
        return false;
    g = (struct kern_attention_bwd){ .fwd = a, .dout = p->dout.x, .dq = r->dq.x,
                                     .dk = r->dk.x, .dv = r->dv.x,
                                     .accumulate = accumulate, .dsink = r->dsink.x };
    for (size_t i = 0; accumulate && i < p->q_size; i++)
        r->dq.x[i] = 2;
    for (size_t i = 0; accumulate && i < p->kv_size; i++)
        r->dk.x[i] = -3;
    for (size_t i = 0; accumulate && i < p->v_size; i++)
        r->dv.x[i] = -3;
    return kern_attention_bwd (k, &g, NULL, err) == 0;
}

static bool run (const struct kernels *k, const struct problem *p, struct result *r,
                 struct mg_error *err)
{
    return run_bwd (k, p, false, r, err);
}

static bool result_free (struct result *r)
{
    bool whole = kit_array_free (&r->out);

    whole = kit_array_free (&r->lse) && whole;
    whole = kit_array_free (&r->dq) && whole;
    whole = kit_array_free (&r->dk) && whole;
    whole = kit_array_free (&r->dsink) && whole;
    return kit_array_free (&r->dv) && whole;
}

/* NaN where the kernel must not write: a double array says it by NaN. */
static void blank (double *x, size_t n, int64_t stride_b, int64_t groups, int64_t stride_g,
                   int64_t width)
{
    for (size_t i = 0; i < n; i++) {
        int64_t at = (int64_t)i % stride_b;

        if (at >= groups * stride_g || at % stride_g >= width)
            x[i] = NAN;
    }
}

static bool same (const struct kit_array *a, const struct kit_array *b)
{
    return a->n == 0 || memcmp (a->x, b->x, a->n * sizeof (float)) == 0;
}

/* What the kernel must not write. */
static void blank_all (struct problem *p)
{
    const struct kern_attention_fwd *a = &p->a;

    blank (p->out, p->out_size, a->out_stride_b, a->heads, dim_v (a), dim_v (a));
    blank (p->dq, p->q_size, a->q_stride_b, a->kv_heads, a->q_stride_g,
           a->heads / a->kv_heads * a->head_dim);
    blank (p->dk, p->kv_size, a->kv_stride_b, a->kv_heads, a->kv_stride_g, a->head_dim);
    if (!a->head_dim_v)
        blank (p->dv, p->v_size, p->v_b, a->kv_heads, p->v_g, dim_v (a));
    for (size_t i = 0; a->head_dim_v && i < p->v_size; i++) {
        int64_t at = (int64_t)i % p->v_s;

        if (at >= p->v_b * a->batch || at % p->v_g >= dim_v (a))
            p->dv[i] = NAN;
    }
}

static double sink_error (const struct problem *p, const struct result *r)
{
    double want[MOST_HEADS];

    for (int64_t h = 0; h < p->a.heads; h++)
        want[h] = 0.5 * (double)h + p->dsink[h];
    return kit_error (r->dsink.x, want, (size_t)p->a.heads);
}

static bool same_results (const struct result *a, const struct result *b)
{
    return same (&a->out, &b->out) && same (&a->lse, &b->lse) && same (&a->dq, &b->dq)
           && same (&a->dk, &b->dk) && same (&a->dv, &b->dv) && same (&a->dsink, &b->dsink);
}

static void test_more (const struct kit *kit, const struct shape *shape,
                       const struct extra *extra, const char *name, size_t index)
{
    struct problem p;
    struct result first = { 0 };

    problem_open_more (&p, shape, extra);
    solve (&p);
    blank_all (&p);
    for (size_t i = 0; i < kit->count; i++) {
        const struct kit_variant *v = &kit->variants[i];
        struct mg_error err = { "" };
        struct result r;
        double worst;

        ok (run (v->k, &p, &r, &err), "%s: %s %zu: works %s", v->name, name, index, err.text);
        worst = fmax (kit_error (r.out.x, p.out, p.out_size),
                      kit_error (r.lse.x, p.lse, p.lse_size));
        ok (worst < 2e-6, "%s: %s %zu: out and lse (%.2g)", v->name, name, index, worst);
        worst = fmax (fmax (kit_error (r.dq.x, p.dq, p.q_size),
                            kit_error (r.dk.x, p.dk, p.kv_size)),
                      fmax (kit_error (r.dv.x, p.dv, p.v_size), sink_error (&p, &r)));
        ok (worst < 5e-6, "%s: %s %zu: gradients (%.2g)", v->name, name, index, worst);
        if (i % 2 == 0) { /* then the same with more threads */
            first = r;
            continue;
        }
        ok (same_results (&r, &first), "%s: %s %zu: the same bits as with 1 thread", v->name,
            name, index);
        ok (result_free (&r) && result_free (&first), "%s: %s %zu: nothing written outside",
            v->name, name, index);
    }
    ok (problem_close (&p), "%s %zu: inputs are whole", name, index);
}

static void test_shape (const struct kit *kit, size_t index)
{
    test_more (kit, &shapes[index], &(struct extra){ 0 }, "shape", index);
}

/* A number from 'low' to 'high', by 'index' and 'which'. */
static int64_t draw (size_t index, uint32_t which, int64_t low, int64_t high)
{
    uint32_t bits[4];

    rng_philox (99, which, (uint32_t)index, 0, bits);
    return low + bits[0] % (high - low + 1);
}

/* Any combination of everything. */
static void test_random (const struct kit *kit, size_t index)
{
    int64_t kv_heads = draw (index, 0, 1, 2), seq = draw (index, 1, 1, 180);
    enum positions positions = (enum positions)draw (index, 2, PLAIN, EACH);
    struct shape s = { draw (index, 3, 1, 3), kv_heads * draw (index, 4, 1, 3), kv_heads,
                       seq, draw (index, 5, 1, 200), draw (index, 6, 1, 40),
                       draw (index, 7, 0, 2) > 0, draw (index, 8, 0, 2) > 1 ? 0.2 : 0,
                       positions, draw (index, 9, 0, 1) > 0 };
    struct extra e = { .documents = (enum documents)draw (index, 10, ONE, OWN),
                       .sinks = (enum sinks)draw (index, 11, NO_SINK, LEARNED),
                       .window = { draw (index, 12, 0, 2) > 0, draw (index, 13, -1, 120),
                                   draw (index, 14, -1, 30) } };

    if (positions == ZIGZAG || positions == LATER)
        s.seq_k = s.seq_q + draw (index, 15, 0, 60);
    if (s.packed)
        s.seq_k = seq;
    if (draw (index, 16, 0, 1) > 0) {
        s.packed = false;
        e.dim_v = draw (index, 17, 1, 40);
    }
    test_more (kit, &s, &e, "random", index);
}

/* Is each element the other's, rounded after a number was added?  Gaps have the number alone. */
static bool is_sum (const struct kit_array *got, const struct kit_array *alone, float before)
{
    for (size_t i = 0; i < got->n; i++)
        if (got->x[i] != (isnan (alone->x[i]) ? before : before + alone->x[i]))
            return false;
    return true;
}

static void test_accumulate (const struct kit_variant *v, size_t index)
{
    struct problem p;
    struct result alone, sum;

    problem_open (&p, &shapes[index]);
    ok (run (v->k, &p, &alone, NULL) && run_bwd (v->k, &p, true, &sum, NULL)
            && is_sum (&sum.dq, &alone.dq, 2) && is_sum (&sum.dk, &alone.dk, -3)
            && is_sum (&sum.dv, &alone.dv, -3),
        "%s: shape %zu: gradients are added to what is there", v->name, index);
    result_free (&alone);
    result_free (&sum);
    problem_close (&p);
}

/* Attention to the first 'keys' keys and to the rest, merged, is attention to all. */
static void test_merge_of (const struct kit_variant *v, const struct shape *shape,
                           const struct extra *extra, size_t index, int64_t keys)
{
    struct problem p;
    struct kern_attention_fwd a;
    struct kern_attention_merge m;
    struct kit_array out, lse, part, part_lse;
    double worst;

    problem_open_more (&p, shape, extra);
    solve (&p);
    out = kit_array (p.out_size, 1);
    part = kit_array (p.out_size, 2);
    lse = kit_array (p.lse_size, 3);
    part_lse = kit_array (p.lse_size, 0);
    a = p.a;
    a.seq_k = keys;
    a.out = out.x;
    a.lse = lse.x;
    ok (kern_attention_fwd (v->k, &a, NULL, NULL) == 0, "%s: first part", v->name);
    a.seq_k = p.a.seq_k - keys;
    a.k = (const float *)p.a.k + keys * a.kv_stride_s;
    a.v = (const float *)p.a.v + keys * p.v_s;
    a.has_sink = false;
    a.pos_k.at = p.pos_k + keys;
    a.pos_k.stride_s = 1;
    a.out = part.x;
    a.lse = part_lse.x;
    ok (kern_attention_fwd (v->k, &a, NULL, NULL) == 0, "%s: second part", v->name);
    m = (struct kern_attention_merge){
        .batch = a.batch, .heads = a.heads, .seq_q = a.seq_q, .head_dim = dim_v (&a),
        .out = out.x, .part = part.x, .out_stride_s = a.out_stride_s,
        .out_stride_b = a.out_stride_b, .out_stride_h = a.out_stride_h, .lse = lse.x,
        .part_lse = part_lse.x,
    };
    ok (kern_attention_merge (v->k, &m, NULL, NULL) == 0, "%s: merge", v->name);
    blank_all (&p);
    worst = fmax (kit_error (out.x, p.out, p.out_size), kit_error (lse.x, p.lse, p.lse_size));
    ok (worst < 3e-6, "%s: shape %zu, %lld keys and the rest: merged (%.2g)", v->name, index,
        (long long)keys, worst);
    ok (kit_array_free (&out) & kit_array_free (&part) & kit_array_free (&lse)
            & kit_array_free (&part_lse), "%s: nothing written outside", v->name);
    problem_close (&p);
}

static void test_merge (const struct kit_variant *v, size_t index, int64_t keys)
{
    test_merge_of (v, &shapes[index], &(struct extra){ 0 }, index, keys);
}

static void test_merge_extra (const struct kit_variant *v, size_t index, int64_t keys)
{
    test_merge_of (v, &extras[index].shape, &extras[index].extra, index, keys);
}

/* A bfloat16 result takes a float32 part in, and is rounded once. */
static void test_merge_types (const struct kit_variant *v)
{
    uint16_t out[3] = { 0x3f80, 0x4000, 0xc040 }; /* 1, 2, -3 */
    const float part[3] = { 1.0078125f, 5, 7 }, part_lse = logf (3);
    float lse = 0;
    struct kern_attention_merge m = {
        .batch = 1, .heads = 1, .seq_q = 1, .head_dim = 3, .out = out, .part = part,
        .lse = &lse, .part_lse = &part_lse, .dtype = MG_BFLOAT16, .part_dtype = MG_FLOAT32,
    };

    ok (kern_attention_merge (v->k, &m, NULL, NULL) == 0 && out[0] == 0x3f81
            && out[1] == 0x4088 && out[2] == 0x4090 && fabsf (lse - logf (4)) < 1e-6,
        "%s: a quarter of 1, 2, -3 and three of 1.0078, 5, 7", v->name);
}

/* sum (dout out) by the formula, for one changed input. */
static double loss (struct problem *p)
{
    double sum = 0;

    memset (p->out, 0, p->out_size * sizeof (double));
    solve (p);
    for (size_t i = 0; i < p->out_size; i++)
        sum += p->out[i] * p->dout.x[i];
    return sum;
}

/* The largest difference of a gradient of 'n' inputs from that by differences. */
static double slope_error (struct problem *p, float *x, size_t n, const double *grad)
{
    double worst = 0;

    for (size_t i = 0; i < n; i++) {
        float before = x[i], step = 0x1p-10f;
        double up, down;

        x[i] = before + step;
        up = loss (p);
        x[i] = before - step;
        down = loss (p);
        x[i] = before;
        memset (p->dq, 0, p->q_size * sizeof (double));
        memset (p->dk, 0, p->kv_size * sizeof (double));
        memset (p->dv, 0, p->v_size * sizeof (double));
        memset (p->dsink, 0, sizeof (p->dsink));
        loss (p);
        worst = fmax (worst, fabs (grad[i] - (up - down) / (2 * step)));
    }
    return worst;
}

static void test_differences (void)
{
    static const struct shape small
        = { 2, 2, 1, 5, 6, 3, true, 0.3, ZIGZAG, false };
    static const struct extra extra
        = { .dim_v = 2, .window = { true, 6, 1 }, .documents = OWN, .sinks = LEARNED };

    for (int more = 0; more < 2; more++) {
        struct problem p;
        double worst;

        problem_open_more (&p, &small, more ? &extra : &(struct extra){ 0 });
        worst = slope_error (&p, p.q.x, p.q_size, p.dq);
        worst = fmax (worst, slope_error (&p, p.kv.x, p.kv_size, p.dk));
        worst = fmax (worst, slope_error (&p, (float *)p.a.v, p.v_size, p.dv));
        if (more)
            worst = fmax (worst, slope_error (&p, p.sink, 2, p.dsink));
        ok (worst < 3e-6, "the formula's gradients are differences (%.2g)", worst);
        problem_close (&p);
    }
}

/* The share of dropped probabilities, seen through v = 1: out = sum_k z p. */
static void test_dropout_share (const struct kit_variant *v)
{
    static const struct shape s = { 4, 4, 4, 128, 128, 4, false, 0.25, PLAIN, false };
    struct problem p;
    struct result r;
    double sum = 0, square = 0, n;

    problem_open (&p, &s);
    for (size_t i = 0; i < p.kv_size; i++) {
        p.kv.x[i] = 0; /* all probabilities equal */
        p.kv.x[p.kv_size + i] = 1;
    }
    ok (run (v->k, &p, &r, NULL), "%s: dropout works", v->name);
    n = (double)p.lse_size;
    for (int64_t b = 0; b < s.batch; b++) {
        for (int64_t h = 0; h < s.heads; h++) {
            for (int64_t i = 0; i < s.seq_q; i++) {
                double out = r.out.x[at_out (&p.a, b, h, i)];

                sum += out - 1;
                square += (out - 1) * (out - 1);
            }
        }
    }
    /* Variance of a sum of 128 factors / 128: p / (1 - p) / 128. */
    is_near (sum / n, 0, 5 * sqrt (1 / 3.0 / 128 / n), "%s: mean of kept mass is 1",
             v->name);
    is_near (square / n * 128 * 3, 1, 5 * sqrt (2 / n), "%s: its variance", v->name);
    result_free (&r);
    problem_close (&p);
}

static void test_not_finite (const struct kit_variant *v)
{
    static const struct shape s = { 1, 1, 1, 70, 70, 8, true, 0, PLAIN, false };
    struct problem p;
    struct result r;

    problem_open (&p, &s);
    p.kv.x[50 * 8 + 1] = NAN;
    run (v->k, &p, &r, NULL);
    ok (!isnan (r.out.x[at_out (&p.a, 0, 0, 49)]), "%s: a NaN key is not seen before it",
        v->name);
    ok (isnan (r.out.x[at_out (&p.a, 0, 0, 50)])
            && isnan (r.out.x[at_out (&p.a, 0, 0, 69)]) && isnan (r.lse.x[60]),
        "%s: a NaN key makes every query that sees it NaN", v->name);
    result_free (&r);
    p.kv.x[50 * 8 + 1] = 1e30f;
    p.q.x[60 * 8 + 1] = 1e30f;
    run (v->k, &p, &r, NULL);
    ok (!isfinite (r.out.x[at_out (&p.a, 0, 0, 60)]), "%s: an infinite score shows",
        v->name);
    result_free (&r);
    problem_close (&p);
}

/* Keys of a block that no query sees are not read: NaN there shows nowhere. */
static void test_skipped (const struct kit_variant *v, const struct extra *extra,
                          const char *name)
{
    static const struct shape s = { 1, 2, 1, 64, 256, 8, true, 0, LATER, false };
    struct problem p;
    struct result r;
    bool finite = true, zero = true;

    problem_open_more (&p, &s, extra);
    for (int64_t i = 0; i < 2 * 64 * 8; i++)
        p.kv.x[i] = p.kv.x[(int64_t)p.kv_size + i] = NAN;
    ok (run (v->k, &p, &r, NULL), "%s: %s: works", v->name, name);
    for (int64_t h = 0; h < 2; h++)
        for (int64_t i = 0; i < 64 * 8; i++)
            finite = finite && isfinite (r.out.x[at_out (&p.a, 0, h, i / 8) + i % 8])
                     && isfinite (r.dq.x[at_q (&p.a, 0, h, i / 8) + i % 8]);
    for (int64_t i = 0; i < 2 * 64 * 8; i++)
        zero = zero && r.dk.x[i] == 0 && r.dv.x[i] == 0;
    ok (finite && zero, "%s: %s: blocks that nobody sees are skipped", v->name, name);
    result_free (&r);
    problem_close (&p);
}

/* Round 'n' numbers to a 16-bit type; the result has them as that. */
static uint16_t *round_all (const struct kernels *k, float *x, size_t n, enum mg_dtype dtype)
{
    uint16_t *half = allocate (n, sizeof (*half));

    kit_cast (k, (int64_t)n, x, MG_FLOAT32, half, dtype);
    kit_cast (k, (int64_t)n, half, dtype, x, MG_FLOAT32);
    return half;
}

/* Are these the numbers, rounded?  A NaN stands for what was not written. */
static bool is_rounded (const struct kernels *k, const uint16_t *got,
                        const struct kit_array *want, enum mg_dtype dtype)
{
    uint16_t *half = allocate (want->n, sizeof (*half));
    bool equal = true;

    kit_cast (k, (int64_t)want->n, want->x, MG_FLOAT32, half, dtype);
    for (size_t i = 0; i < want->n; i++)
        equal = equal && (isnan (want->x[i]) || got[i] == half[i]);
    free (half);
    return equal;
}

/* The same numbers in a 16-bit type and in float32: results are those of float32, rounded.  One
 * query is without dropout.
 */
static void test_type (const struct kit_variant *v, enum mg_dtype dtype, int64_t queries)
{
    const struct shape s = { 2, 4, 2, queries, 90, 20, true, queries > 1 ? 0.1 : 0, EACH, false };
    static const struct extra extra = { .dim_v = 12, .window = { true, 30, -1 },
                                        .documents = OWN, .sinks = LEARNED };
    const char *type = mg_dtype_name (dtype);
    struct problem p;
    struct result r;
    struct kern_attention_bwd narrow, wide = { .grad_dtype = MG_FLOAT32 };
    uint16_t *half[9], dsink[4] = { 0 };
    float none[4] = { 0 };

    problem_open_more (&p, &s, &extra);
    half[0] = round_all (v->k, p.q.x, p.q_size, dtype);
    half[1] = round_all (v->k, p.kv.x, p.kv_size, dtype);
    half[2] = round_all (v->k, p.v.x, p.v_size, dtype);
    half[3] = round_all (v->k, p.dout.x, p.out_size, dtype);
    half[4] = round_all (v->k, p.sink, MOST_HEADS, dtype);
    ok (run (v->k, &p, &r, NULL), "%s: float32", v->name);
    for (int i = 5; i < 9; i++)
        half[i] = allocate (p.q_size + p.kv_size + p.v_size + p.out_size, sizeof (uint16_t));
    narrow = (struct kern_attention_bwd){ .fwd = p.a, .dout = half[3], .dq = half[6],
                                          .dk = half[7], .dv = half[8], .dsink = dsink,
                                          .grad_dtype = dtype };
    narrow.fwd.dtype = dtype;
    narrow.fwd.q = half[0];
    narrow.fwd.k = half[1];
    narrow.fwd.v = half[2];
    narrow.fwd.sink = half[4];
    narrow.fwd.out = half[5];
    narrow.fwd.lse = r.lse.x;
    ok (kern_attention_fwd (v->k, &narrow.fwd, NULL, NULL) == 0
            && is_rounded (v->k, half[5], &r.out, dtype), "%s: out of %s", v->name, type);
    wide.fwd = p.a;
    wide.fwd.out = r.out.x;
    wide.fwd.lse = r.lse.x;
    wide.dout = p.dout.x;
    wide.dq = r.dq.x;
    wide.dk = r.dk.x;
    wide.dv = r.dv.x;
    wide.dsink = memcpy (r.dsink.x, none, sizeof (none));
    free (round_all (v->k, r.out.x, p.out_size, dtype));
    ok (kern_attention_bwd (v->k, &wide, NULL, NULL) == 0
            && kern_attention_bwd (v->k, &narrow, NULL, NULL) == 0
            && is_rounded (v->k, half[6], &r.dq, dtype)
            && is_rounded (v->k, half[7], &r.dk, dtype)
            && is_rounded (v->k, half[8], &r.dv, dtype)
            && is_rounded (v->k, dsink, &r.dsink, dtype), "%s: gradients of %s", v->name, type);
    for (int i = 0; i < 9; i++)
        free (half[i]);
    result_free (&r);
    problem_close (&p);
}

static void test_badparam (const struct kit_variant *v)
{
    struct kern_attention_fwd a = { .batch = 1, .heads = 3, .kv_heads = 2 };
    struct kern_attention_bwd g;
    struct mg_error err = { "" };

    errno = 0;
    ok (kern_attention_fwd (v->k, &a, NULL, &err) == -1 && errno == EINVAL,
        "%s: 3 heads for 2 kv heads: %s", v->name, err.text);
    g = (struct kern_attention_bwd){ .fwd = a };
    errno = 0;
    ok (kern_attention_bwd (v->k, &g, NULL, &err) == -1 && errno == EINVAL,
        "%s: backward, too: %s", v->name, err.text);
    a.kv_heads = 0;
    ok (kern_attention_fwd (v->k, &a, NULL, &err) == -1, "%s: no kv heads: %s",
        v->name, err.text);
}

int main (void)
{
    struct kit kit;

    kit_open (&kit);
    test_differences ();
    for (size_t i = 0; i < sizeof (shapes) / sizeof (shapes[0]); i++)
        test_shape (&kit, i);
    for (size_t i = 0; i < sizeof (extras) / sizeof (extras[0]); i++)
        test_more (&kit, &extras[i].shape, &extras[i].extra, "extra", i);
    for (size_t i = 0; i < 40; i++)
        test_random (&kit, i);
    for (size_t i = 0; i < kit.count; i++) {
        test_dropout_share (&kit.variants[i]);
        test_not_finite (&kit.variants[i]);
        test_badparam (&kit.variants[i]);
        test_accumulate (&kit.variants[i], 3);
        test_accumulate (&kit.variants[i], 6);
        test_merge (&kit.variants[i], 3, 10);
        test_merge (&kit.variants[i], 8, 0);
        test_merge (&kit.variants[i], 9, 64);
        test_merge (&kit.variants[i], 12, 30);
        test_merge_types (&kit.variants[i]);
        test_merge_extra (&kit.variants[i], 1, 64);
        test_merge_extra (&kit.variants[i], 5, 20);
        test_merge_extra (&kit.variants[i], 6, 0);
        test_skipped (&kit.variants[i], &(struct extra){ .window = { true, 63, -1 } },
                      "window");
        test_skipped (&kit.variants[i], &(struct extra){ .documents = LATE }, "document");
        test_type (&kit.variants[i], MG_BFLOAT16, 70);
        test_type (&kit.variants[i], MG_BFLOAT16, 1);
        test_type (&kit.variants[i], MG_FLOAT16, 70);
        test_type (&kit.variants[i], MG_FLOAT16, 1);
    }
    kit_close (&kit);
    return done_testing ();
}
