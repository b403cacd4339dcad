/* attention.c - scaled dot-product attention (formulas in kernels.h)
 *
 * Backward, with p = exp (scale q k - lse), pd = dropout (p), dp = dropout (dout v^T) and
 * delta = sum_d dout out: ds = p (dp - delta), dq = scale ds k, dk = scale ds^T q,
 * dv = pd^T dout.
 */

#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "libcore/base/rng.h"

struct head {
    const struct kern_attention *a;
    int64_t entry, index; /* batch entry, query head */
};

static const float *row_q (const struct head *h, const float *q, int64_t s)
{
    return q + s * h->a->q_stride_s + h->entry * h->a->q_stride_b
           + h->index * h->a->q_stride_h;
}

static const float *row_kv (const struct head *h, const float *kv, int64_t s)
{
    return kv + s * h->a->kv_stride_s + h->entry * h->a->kv_stride_b
           + h->index / (h->a->heads / h->a->kv_heads) * h->a->kv_stride_h;
}

static const float *row_out (const struct head *h, const float *out, int64_t s)
{
    return out + s * h->a->out_stride_s + h->entry * h->a->out_stride_b
           + h->index * h->a->out_stride_h;
}

static float dot (const float *x, const float *y, int64_t n)
{
    float sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* scale q k, or minus infinity where the key is not visible. */
static float score (const struct head *h, int64_t i, int64_t j)
{
    const struct kern_attention *a = h->a;
    int64_t pos_q = a->pos_q ? a->pos_q[i] : i, pos_k = a->pos_k ? a->pos_k[j] : j;

    if (a->causal && pos_k > pos_q)
        return -INFINITY;
    return (float)a->scale * dot (row_q (h, a->q, i), row_kv (h, a->k, j), a->head_dim);
}

static float keep (const struct head *h, int64_t i, int64_t j)
{
    const struct kern_attention *a = h->a;
    int64_t pos_q = a->pos_q ? a->pos_q[i] : i, pos_k = a->pos_k ? a->pos_k[j] : j;
    uint32_t bits[4];

    if (a->dropout_p == 0)
        return 1;
    rng_philox (a->dropout_key[h->index], (uint32_t)(pos_k / 4), (uint32_t)pos_q,
                (uint64_t)a->sample[h->entry], bits);
    return bits[pos_k % 4] < rng_threshold (a->dropout_p)
               ? 0
               : (float)(1 / (1 - a->dropout_p));
}

static void attend (const struct head *h, int64_t i)
{
    const struct kern_attention *a = h->a;
    float *out = (float *)row_out (h, a->out, i);
    float max = -INFINITY, sum = 0;

    memset (out, 0, (size_t)a->head_dim * sizeof (float));
    for (int64_t j = 0; j < a->seq_k; j++)
        max = fmaxf (max, score (h, i, j));
    for (int64_t j = 0; j < a->seq_k; j++) {
        float p = max == -INFINITY ? 0 : expf (score (h, i, j) - max);
        float pd = p * keep (h, i, j);

        sum += p;
        for (int64_t d = 0; d < a->head_dim; d++)
            out[d] += pd * row_kv (h, a->v, j)[d];
    }
    for (int64_t d = 0; d < a->head_dim && sum > 0; d++)
        out[d] /= sum;
    a->lse[(h->entry * a->heads + h->index) * a->seq_q + i] = max + logf (sum);
}

int cpu_attention_fwd (const struct kernels *k, const struct kern_attention *a,
                       struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t j = 0; j < a->heads; j++) {
            struct head h = { a, b, j };

            for (int64_t i = 0; i < a->seq_q; i++)
                attend (&h, i);
        }
    }
    return 0;
}

static void attend_bwd (const struct kern_attention_bwd *g, const struct head *h, int64_t i)
{
    const struct kern_attention *a = h->a;
    const float *dout = row_out (h, g->dout, i), *q = row_q (h, a->q, i);
    float *dq = (float *)row_q (h, g->dq, i);
    float delta = dot (dout, row_out (h, a->out, i), a->head_dim);
    float lse = a->lse[(h->entry * a->heads + h->index) * a->seq_q + i];

    memset (dq, 0, (size_t)a->head_dim * sizeof (float));
    if (lse == -INFINITY)
        return;
    for (int64_t j = 0; j < a->seq_k; j++) {
        float *dk = (float *)row_kv (h, g->dk, j), *dv = (float *)row_kv (h, g->dv, j);
        float mask = keep (h, i, j), p = expf (score (h, i, j) - lse);
        float dp = mask * dot (dout, row_kv (h, a->v, j), a->head_dim);
        float ds = (float)a->scale * p * (dp - delta);

        for (int64_t d = 0; d < a->head_dim; d++) {
            dq[d] += ds * row_kv (h, a->k, j)[d];
            dk[d] += ds * q[d];
            dv[d] += mask * p * dout[d];
        }
    }
}

int cpu_attention_bwd (const struct kernels *k, const struct kern_attention_bwd *g,
                       struct mg_stream *stream, struct mg_error *err)
{
    const struct kern_attention *a = &g->fwd;
    int64_t group = a->kv_heads > 0 ? a->heads / a->kv_heads : 1;

    (void)k, (void)stream, (void)err;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t j = 0; j < a->heads; j++) {
            struct head h = { a, b, j };

            for (int64_t s = 0; s < a->seq_k && j % group == 0; s++) {
                memset ((float *)row_kv (&h, g->dk, s), 0,
                        (size_t)a->head_dim * sizeof (float));
                memset ((float *)row_kv (&h, g->dv, s), 0,
                        (size_t)a->head_dim * sizeof (float));
            }
            for (int64_t i = 0; i < a->seq_q; i++)
                attend_bwd (g, &h, i);
        }
    }
    return 0;
}
