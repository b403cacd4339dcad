/* kernels - the operations a device offers on its memory: one op, one function.
 *
 * The CPU version defines what is correct.  Matrices are row-major; 'tokens' are rows in
 * [s, b] order: row t is position t / batch of batch entry t % batch.
 *
 * Activations, their gradients and parameters are pointers to void, elements of the call's
 * one 'dtype': float32, bfloat16 or float16.  All arithmetic is float32 or better, whatever
 * they are, and a result is rounded once, when it is stored.  Statistics and sums over tokens
 * (pointers to float) are always float32.
 *
 * Gradients of parameters are elements of a type of their own, any of the three
 * ('grad_dtype').  What a call adds to an element is summed up in float32, and the element
 * rounded once; so with a 16-bit type each call rounds once.
 *
 * Every op is enqueued on 'stream' (a stream of the same device),
 * returns 0 or -1 with errno and a text, allocates nothing in the steady state (an op may
 * prepare and cache what belongs to a new shape; for its scratch memory see the end), and
 * takes any size, 0 included.
 * "+=" means that the result is added to what is there.  Results do not depend on the
 * number of threads unless said.
 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "megatron/dtype.h"
#include "megatron/error.h"
#include "megatron/stream.h"

/* C[m,n] = op(A)[m,k] op(B)[k,n] (+ C if accumulate) (+ bias[n] on every row).
 * op(A) is A stored [m,k], or its transpose stored [k,m] if trans_a; same for B: stored
 * [k,n], or [n,k] if trans_b.  ld* are row lengths in elements of the stored matrices.
 * Operands a, b and bias are 'dtype'; c is 'c_dtype'; any two of float32, bfloat16 and
 * float16 (float32 accumulation always).
 */
struct kern_gemm {
    bool trans_a, trans_b, accumulate;
    int64_t m, n, k;
    const void *a;
    int64_t lda;
    const void *b;
    int64_t ldb;
    void *c;
    int64_t ldc;
    const void *bias; /* NULL: none; not together with accumulate */
    enum mg_dtype dtype, c_dtype;
};

/* Layer norm over the last dimension (Ba, Kiros, Hinton 2016):
 * y = (x - mean) rstd weight + bias, rstd = 1 / sqrt (var + eps), var the biased variance.
 */
struct kern_norm_fwd {
    int64_t rows, cols;
    const void *x, *weight, *bias;
    double eps;
    void *y;
    float *mean, *rstd; /* [rows], saved for the backward pass */
    enum mg_dtype dtype; /* of x, weight, bias, y */
};

/* With xhat = (x - mean) rstd and g = dy weight:
 * dx (+)= rstd (g - mean_cols (g) - xhat mean_cols (g xhat)),
 * dweight += sum_rows dy xhat, dbias += sum_rows dy.
 */
struct kern_norm_bwd {
    int64_t rows, cols;
    const void *dy, *x, *weight;
    const float *mean, *rstd;
    void *dx;
    bool accumulate_dx;
    void *dweight, *dbias;
    enum mg_dtype dtype, grad_dtype; /* of dy, x, weight, dx; of dweight, dbias */
};

/* Dropout by coordinates on [tokens, cols]: an element is kept if its 32-bit value
 * rng_philox (key, col / 4, position, sample)[col % 4] is not below rng_threshold (p), and
 * then multiplied by 1 / (1 - p).  p = 0 keeps everything and reads nothing else.
 */
struct kern_dropout {
    double p;              /* 0 <= p < 1 */
    uint64_t key;
    const int64_t *sample; /* [batch] consumed-sample index of every batch entry */
    int64_t batch;
    int64_t first_position; /* global position of row 0 */
};

/* y = residual + dropout (x + bias). y may be x or residual. residual NULL: 0. bias NULL: 0. */
struct kern_bias_dropout_add_fwd {
    int64_t rows, cols;
    const void *x, *bias, *residual;
    struct kern_dropout dropout;
    void *y;
    enum mg_dtype dtype; /* of x, bias, residual, y */
};

/* dx = dropout (dy), dbias += sum_rows dx as stored (NULL: not wanted). dx may be dy. */
struct kern_bias_dropout_add_bwd {
    int64_t rows, cols;
    const void *dy;
    struct kern_dropout dropout;
    void *dx;
    void *dbias;
    enum mg_dtype dtype, grad_dtype; /* of dy, dx; of dbias */
};

/* tanh form of GeLU (Hendrycks, Gimpel 2016), Megatron's bias_gelu without the bias:
 * y = x / 2 (1 + tanh (0.79788456 x (1 + 0.044715 x^2))).
 */
struct kern_gelu_fwd {
    int64_t n;
    const void *x;
    void *y;
    enum mg_dtype dtype; /* of x, y */
};
struct kern_gelu_bwd { /* dx = dy gelu'(x); dx may be dy */
    int64_t n;
    const void *dy, *x;
    void *dx;
    enum mg_dtype dtype; /* of dy, x, dx */
};

/* Scaled dot-product attention, streamed over blocks (Dao et al. 2022): no [s, s] matrix.
 * For batch entry i, head j: p = softmax_k (scale q k^T + mask), out = dropout (p) v.
 * A key is visible to a query if causal is false or its position is not larger.
 * lse[i][j][query] = log sum_k exp (scale q k), for the backward pass and for merging.
 * A query that sees no key has out = 0, lse = minus infinity, dq = 0.  Positions are below
 * 2^31.
 * Dropout of p: value rng_philox (key_of_head, key_position / 4, query_position,
 * sample)[key_position % 4] with key_of_head = dropout_key[j] (by local head).
 */
struct kern_attention {
    int64_t batch, heads, kv_heads; /* local heads; heads % kv_heads == 0, query head j
                                       uses kv head j / (heads / kv_heads) */
    int64_t seq_q, seq_k, head_dim;
    double scale;
    bool causal;
    const int64_t *pos_q, *pos_k; /* global positions [seq], NULL: 0, 1, ... */
    enum mg_dtype dtype;          /* of q, k, v, out and their gradients */
    const void *q, *k, *v;
    /* element strides: position, batch entry, head (of q and of k and v) */
    int64_t q_stride_s, q_stride_b, q_stride_h;
    int64_t kv_stride_s, kv_stride_b, kv_stride_h;
    void *out; /* strides below */
    int64_t out_stride_s, out_stride_b, out_stride_h;
    float *lse; /* [batch][heads][seq_q] */
    double dropout_p;
    const uint64_t *dropout_key; /* [heads] */
    const int64_t *sample;       /* [batch] */
};

/* Gradients with the strides of their forward operands; overwritten, not added to (with
 * kv_heads < heads the sum over the query heads is formed inside).
 */
struct kern_attention_bwd {
    struct kern_attention fwd; /* out and lse as the forward pass left them */
    const void *dout;          /* strides of out */
    void *dq, *dk, *dv;
};

/* Rows of a vocabulary shard: out[t] = table[id[t] - first] where first <= id < first +
 * count, else zeros.  An id outside every shard is the caller's error.
 */
struct kern_embedding_fwd {
    int64_t tokens, cols;
    const int32_t *id;
    int64_t first, count;
    const void *table;
    void *out;
    enum mg_dtype dtype; /* of table, out */
};
/* dtable[id[t] - first] += dout[t], in order of t; a row that several tokens hit is rounded
 * once.
 */
struct kern_embedding_bwd {
    int64_t tokens, cols;
    const int32_t *id;
    int64_t first, count;
    const void *dout;
    void *dtable;
    enum mg_dtype dtype, grad_dtype; /* of dout; of dtable */
};

/* y[t] = dropout (x[t] + position[first_position + t / batch]). y may be x. 'position' is
 * the whole table; batch and first_position of 'dropout' are used whatever its p.
 */
struct kern_position_fwd {
    int64_t tokens, cols;
    const void *x, *position;
    struct kern_dropout dropout;
    void *y;
    enum mg_dtype dtype; /* of x, position, y */
};
/* dx = dropout (dy); dposition[...] += sum over the batch of dx as stored. dx may be dy. */
struct kern_position_bwd {
    int64_t tokens, cols;
    const void *dy;
    struct kern_dropout dropout;
    void *dx;
    void *dposition;
    enum mg_dtype dtype, grad_dtype; /* of dy, dx; of dposition */
};

/* Vocabulary-parallel cross entropy in three local passes; the caller reduces 'max' (by
 * maximum) and 'sum' and 'target' (by sum) over the tensor-parallel group in between, so
 * logits are never gathered.  Local columns 0..valid-1 are the vocabulary ids first,
 * first + 1, ...; columns from valid on are padding and count as minus infinity.
 */
struct kern_xent_max { /* max[t] = largest valid logit; -FLT_MAX where valid is 0 */
    int64_t tokens, cols, valid;
    const float *logits; /* [tokens, cols] */
    float *max;
};
struct kern_xent_sum { /* sum[t] = sum_j exp (logit - max[t]); target[t] = logit of the
                          label minus max[t] if it is local, else 0 */
    int64_t tokens, cols, valid, first;
    const float *logits, *max;
    const int32_t *label;
    float *sum, *target;
};
/* From the reduced sums: loss[t] = log (sum[t]) - target[t], c = sum_t mask[t], and d = 1
 * if per_token is set, else max (c, 1).  scale[t] = weight mask[t] / d;  out (device memory,
 * three doubles) += { weight sum_t mask[t] loss[t] / d, sum_t mask[t] loss[t], c }.
 */
struct kern_xent_loss {
    int64_t tokens;
    const float *sum, *target, *mask;
    double weight;
    float *scale;
    double *out;
    bool per_token;
};
/* Gradient of the logits, in place: element j of row t = scale[t] (exp (logit - max) / sum -
 * [j is label]), 0 in padding columns.  Rows of 16-bit elements begin where those of the
 * logits did: kern_xent_ld() elements apart.
 */
struct kern_xent_bwd {
    int64_t tokens, cols, valid, first;
    float *logits;
    const float *max, *sum;
    const int32_t *label;
    const float *scale;
    enum mg_dtype dtype; /* of the gradient */
};

static inline int64_t kern_xent_ld (int64_t cols, enum mg_dtype dtype)
{
    return dtype == MG_FLOAT32 ? cols : 2 * cols;
}

/* An array of float32 values, and how it is stored:
 * - float32 and bfloat16: as they are, rounded to nearest even;
 * - float16 and float8: divided by 'scale', a power of two, then rounded so;
 * - with 'upper', which is an array of bfloat16: in two halves.  'upper' has the value
 *   rounded to nearest in its bits, (bits + 0x8000) >> 16, data the low 16 bits: of exact
 *   ties, and of these alone, rounding to even would make another bfloat16.  A NaN becomes
 *   the quiet one.
 */
struct kern_state {
    void *data;
    enum mg_dtype dtype; /* of data; with 'upper' any */
    void *upper;         /* NULL: none */
    float scale;         /* of float16 and float8 */
    bool positive;       /* values are not negative, and what is above 0 must not become 0:
                            with a scale it is stored as the least number above 0
                            (denormals are 0) */
};

/* Has a type a scale? */
static inline bool kern_has_scale (enum mg_dtype dtype)
{
    return dtype == MG_FLOAT16 || dtype == MG_FLOAT8_E4M3;
}

/* The scale of an array whose largest magnitude is 'largest': the least power of two, from
 * 2^-101 or float8's 2^-116 on, that brings it to at most 32752, half of float16's largest
 * number, or 448, float8's largest; NaN if 'largest' is not finite.  What was stored with it
 * are float32 numbers of 2^-125 or more, so that half of one is no denormal, and storing these
 * again, with the scale of any part of them, is storing the same numbers.
 */
float kern_scale (enum mg_dtype dtype, float largest);

/* A number for each of AdamW's values. */
struct kern_three {
    float param, m, v;
};

/* AdamW (Loshchilov, Hutter 2019) on n elements, with g = grad * grad_scale:
 * m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
 * p = p (1 - lr weight_decay) - lr (m / c1) / (sqrt (v / c2) + eps), c = 1 - beta^step,
 * all in float32; the update has m and v before they are rounded to be stored.
 * The new p, as stored and then rounded to 'copy_dtype', is also put into 'copy' (NULL:
 * nowhere).
 */
struct kern_adamw {
    int64_t n;
    struct kern_state param, m, v;
    struct kern_three scale; /* of the new values, where they have one */
    void *copy;
    enum mg_dtype copy_dtype;
    const void *grad;
    enum mg_dtype grad_dtype;
    double lr, beta1, beta2, eps, weight_decay, c1, c2, grad_scale;
};

/* Initial weights: a [rows, cols] part, at (first_row, first_col), of a global matrix
 * whose element (r, c) is mean + std * rng_normal (key, c / 4, r, 0)[c % 4].
 */
struct kern_fill_normal {
    int64_t rows, cols, ld, first_row, first_col;
    uint64_t key;
    double mean, std;
    void *out;
    enum mg_dtype dtype; /* of out */
};

struct kernels;

struct kern_ops {
    const char *name;
    int (*gemm) (const struct kernels *, const struct kern_gemm *, struct mg_stream *,
                 struct mg_error *);
    int (*norm_fwd) (const struct kernels *, const struct kern_norm_fwd *,
                     struct mg_stream *, struct mg_error *);
    int (*norm_bwd) (const struct kernels *, const struct kern_norm_bwd *,
                     struct mg_stream *, struct mg_error *);
    int (*bias_dropout_add_fwd) (const struct kernels *,
                                 const struct kern_bias_dropout_add_fwd *,
                                 struct mg_stream *, struct mg_error *);
    int (*bias_dropout_add_bwd) (const struct kernels *,
                                 const struct kern_bias_dropout_add_bwd *,
                                 struct mg_stream *, struct mg_error *);
    int (*gelu_fwd) (const struct kernels *, const struct kern_gelu_fwd *,
                     struct mg_stream *, struct mg_error *);
    int (*gelu_bwd) (const struct kernels *, const struct kern_gelu_bwd *,
                     struct mg_stream *, struct mg_error *);
    int (*attention_fwd) (const struct kernels *, const struct kern_attention *,
                          struct mg_stream *, struct mg_error *);
    int (*attention_bwd) (const struct kernels *, const struct kern_attention_bwd *,
                          struct mg_stream *, struct mg_error *);
    int (*embedding_fwd) (const struct kernels *, const struct kern_embedding_fwd *,
                          struct mg_stream *, struct mg_error *);
    int (*embedding_bwd) (const struct kernels *, const struct kern_embedding_bwd *,
                          struct mg_stream *, struct mg_error *);
    int (*position_fwd) (const struct kernels *, const struct kern_position_fwd *,
                         struct mg_stream *, struct mg_error *);
    int (*position_bwd) (const struct kernels *, const struct kern_position_bwd *,
                         struct mg_stream *, struct mg_error *);
    int (*xent_max) (const struct kernels *, const struct kern_xent_max *,
                     struct mg_stream *, struct mg_error *);
    int (*xent_sum) (const struct kernels *, const struct kern_xent_sum *,
                     struct mg_stream *, struct mg_error *);
    int (*xent_loss) (const struct kernels *, const struct kern_xent_loss *,
                      struct mg_stream *, struct mg_error *);
    int (*xent_bwd) (const struct kernels *, const struct kern_xent_bwd *,
                     struct mg_stream *, struct mg_error *);
    int (*adamw) (const struct kernels *, const struct kern_adamw *, struct mg_stream *,
                  struct mg_error *);
    /* *out = the largest finite magnitudes of the values that adamw would store, 0 of none,
     * whatever 'scale' is; host memory as that of sum_sq.
     */
    int (*adamw_largest) (const struct kernels *, const struct kern_adamw *,
                          struct kern_three *out, struct mg_stream *, struct mg_error *);
    /* out = the values of 'state'; 'state' = the values of in.  Elements of out and in are
     * 'dtype', rounded to nearest even.  in may be the state's 'upper'.
     */
    int (*state_load) (const struct kernels *, int64_t n, const struct kern_state *state,
                       void *out, enum mg_dtype dtype, struct mg_stream *,
                       struct mg_error *);
    int (*state_store) (const struct kernels *, int64_t n, const void *in,
                        enum mg_dtype dtype, const struct kern_state *state,
                        struct mg_stream *, struct mg_error *);
    int (*fill_normal) (const struct kernels *, const struct kern_fill_normal *,
                        struct mg_stream *, struct mg_error *);
    /* out[i] = value, rounded to 'dtype'. */
    int (*fill) (const struct kernels *, int64_t n, float value, void *out,
                 enum mg_dtype dtype, struct mg_stream *, struct mg_error *);
    /* out[c] += sum over rows of x[r][c], elements of 'dtype': bias gradients. */
    int (*col_sum) (const struct kernels *, int64_t rows, int64_t cols, const void *x,
                    enum mg_dtype dtype, void *out, enum mg_dtype grad_dtype,
                    struct mg_stream *, struct mg_error *);
    /* *out = sum of x[i]^2, formed in double in a fixed order; a NaN or infinity in x
     * makes it not finite. 'out' is host memory, valid when the stream has been waited for.
     * Also of float8.
     */
    int (*sum_sq) (const struct kernels *, int64_t n, const void *x, enum mg_dtype dtype,
                   double *out, struct mg_stream *, struct mg_error *);
    /* *out = the largest |x[i]|, 0 of none, NaN if one is; host memory as that of sum_sq. */
    int (*max_abs) (const struct kernels *, int64_t n, const void *x, enum mg_dtype dtype,
                    float *out, struct mg_stream *, struct mg_error *);
    /* *out = how many of x are zero, of either sign; host memory as that of sum_sq. */
    int (*count_zeros) (const struct kernels *, int64_t n, const void *x,
                        enum mg_dtype dtype, double *out, struct mg_stream *,
                        struct mg_error *);
    /* Elementwise conversion, rounding to nearest even; also from and to float8. */
    int (*cast) (const struct kernels *, int64_t n, const void *x, enum mg_dtype from,
                 void *y, enum mg_dtype to, struct mg_stream *, struct mg_error *);
    /* The same of x[i] scale, formed in float32: to float8 with the inverse of a tensor's
     * scale, and back with the scale.  y may be x if both are of one type.
     */
    int (*cast_scaled) (const struct kernels *, int64_t n, float scale, const void *x,
                        enum mg_dtype from, void *y, enum mg_dtype to, struct mg_stream *,
                        struct mg_error *);
};

/* A device's kernels: the table and whatever the backend keeps (primitive cache ...). */
struct kernels {
    const struct kern_ops *ops;
    void *impl;
};

/* The CPU backend, using 'threads' threads. NULL and a text on failure. */
struct kernels *kernels_cpu_create (int threads, struct mg_error *err);
void kernels_cpu_destroy (struct kernels *k);

/* Numerics: call the ops between these two, from the thread that called the first.  Then the ops,
 * and the libraries that they call, compute with denormals flushed (flush.h), so that a result
 * depends neither on the thread that computes it nor on the caller's mode.  enter() sets the mode
 * in the calling thread and in the OpenMP threads that it computes with; leave() restores the mode
 * that each of them had.  A pair inside a pair changes nothing.  Ops that convert and do not
 * compute (cast without a factor, state_load and state_store of types without a scale) keep
 * denormals.  Other backends flush as their processor does; results agree where nothing is near
 * 2^-126.
 */
void kernels_cpu_enter (struct kernels *k);
void kernels_cpu_leave (struct kernels *k);

/* Call fn (arg) in the calling thread and in each OpenMP thread that the ops compute with. */
void kernels_cpu_each_thread (struct kernels *k, void (*fn) (void *arg), void *arg);

/* Scratch: memory that a call of an op uses besides its operands.  How much, the ops tell:
 * between these two they look at sizes and types only, at nothing that a pointer points to,
 * compute nothing, and note their scratch; gemm makes ready what it keeps for a shape.  The
 * second returns the most that a call of an op has noted, in bytes.
 */
void kernels_cpu_plan_begin (struct kernels *k);
size_t kernels_cpu_plan_end (struct kernels *k);

/* From now on 'size' bytes at 'memory', aligned to 64 and the caller's, are the scratch of
 * all calls, one after the other; a call that needs more fails with ENOMEM.  Without it the
 * ops allocate what they need, whenever one needs more than there is.
 */
void kernels_cpu_give_scratch (struct kernels *k, void *memory, size_t size);

#endif /* KERNELS_KERNELS_H */
