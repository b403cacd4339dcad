/* kernels - the operations that a device offers on its memory.
 *
 * An operation (op) has one argument struct, struct kern_NAME, and one row in KERN_OPS.  A call
 * is data: the op, its arguments, the stream (struct kern_call).  Every call goes through
 * kern_run(), which runs the call unless a graph takes it or a tape counts it (struct kernels).
 * kern_scratch() returns the scratch memory that a call needs.  kern_NAME() is kern_run() for one
 * op.  The ops of mixture-of-experts layers are in moe.h, which this header includes.
 *
 * The CPU version defines what is correct.  Matrices are row-major; 'tokens' are rows in
 * [s, b] order: row t is position t / batch of batch entry t % batch.
 *
 * Every pointer in an argument struct points to device memory, results included, unless the
 * struct says that it points to host memory.
 *
 * Activations, their gradients and parameters are pointers to void.  Their elements have the one
 * 'dtype' of the call: float32, bfloat16 or float16, unless the struct names more.  Whatever the
 * type, arithmetic is float32 or better, and a result is rounded once, when it is stored.
 * Statistics and sums over tokens (pointers to float) are always float32.
 *
 * Gradients of parameters have a type of their own ('grad_dtype'), also one of the three.
 * A call sums in float32 everything that it adds to an element, and then rounds the
 * element once.
 *
 * A call is enqueued on its stream, a stream of the same device.  It returns 0, or -1 with errno
 * and a text.  A call allocates nothing, with two exceptions: an op may prepare and cache
 * something for a new shape, and kernels_cpu_set_scratch() has the rule for scratch
 * memory.  All sizes may be 0.  "+=" means that the result is added to the value that is
 * there.  Results do not depend on the number of threads, unless the op says so.
 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/norm.h"
#include "megatron/dtype.h"
#include "megatron/error.h"
#include "megatron/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* The places of the rows of a matrix.  Groups of 'inner' rows are stride_outer apart, and
 * the rows of a group are stride_inner apart, in elements.  inner 0: the rows follow each
 * other.
 */
struct kern_rows {
    int64_t inner, stride_outer, stride_inner;
};

/* y = xhat weight + bias for each row.  norm.h says what xhat is, and what 'stat' holds of a row.
 * With 'one_plus' the factor is 1 + weight.
 */
struct kern_norm_fwd {
    enum kern_norm kind;
    int64_t rows, cols;
    const void *x, *weight;
    const void *bias; /* NULL: none */
    struct kern_rows x_rows, y_rows;
    bool one_plus;
    double eps;
    void *y;
    float *stat; /* [statistics of the kind][rows], saved for the backward pass */
    enum mg_dtype dtype; /* of x, weight, bias, y */
};

/* With g = dy weight:
 * LayerNorm: dx (+)= rstd (g - mean_cols (g) - xhat mean_cols (g xhat)),
 * RMSNorm: dx (+)= rstd (g - xhat mean_cols (g xhat)),
 * dweight += sum_rows dy xhat, dbias += sum_rows dy.
 * dx may be dy.
 */
struct kern_norm_bwd {
    enum kern_norm kind;
    int64_t rows, cols;
    const void *dy, *x, *weight;
    struct kern_rows dy_rows, x_rows, dx_rows;
    bool one_plus;
    const float *stat;
    void *dx;
    bool accumulate_dx;
    void *dweight;
    void *dbias; /* NULL: the norm has no bias */
    enum mg_dtype dtype, grad_dtype; /* of dy, x, weight, dx; of dweight, dbias */
};

/* Global positions of rows in their sequences, below 2^31: row s of batch entry b is at position
 * at[s * stride_s + b * stride_b].  With stride_b 0 all batch entries have the same positions.
 * at NULL: row s is at position s.
 */
struct kern_positions {
    const int32_t *at;
    int64_t stride_s, stride_b;
};

/* Dropout by coordinates on [tokens, cols]: an element is kept if its 32-bit value
 * rng_philox (key, col / 4, position, sample)[col % 4] is not below rng_threshold (p), and
 * then multiplied by 1 / (1 - p).  With p = 0 every element is kept, and no other member
 * is read.
 */
struct kern_dropout {
    double p;              /* 0 <= p < 1 */
    uint64_t key;
    const int64_t *sample; /* [batch] consumed-sample index of every batch entry */
    int64_t batch;
    struct kern_positions position;
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

/* The function f of an activation. */
enum kern_function {
    KERN_GELU_TANH,    /* x / 2 (1 + tanh (0.79788456 x (1 + 0.044715 x^2))): the tanh form of GeLU
                          (Hendrycks, Gimpel 2016), Megatron's bias_gelu without the bias */
    KERN_GELU,         /* x / 2 (1 + erf (x / sqrt (2))) */
    KERN_QUICK_GELU,   /* x / (1 + exp (-1.702 x)) */
    KERN_SILU,         /* x / (1 + exp (-x)) */
    KERN_RELU,         /* max (x, 0), slope 0 at 0 */
    KERN_SQUARED_RELU, /* max (x, 0)^2 (So et al. 2021) */
    KERN_NUM_FUNCTIONS
};

/* An activation.  Without 'gated', y = f (x), both [rows, cols].  With it (Shazeer 2020), rows of x
 * have 2 cols elements, the gate g and then l:
 * y = f (min (g, clamp)) (max (-clamp, min (l, clamp)) + offset).
 */
struct kern_act {
    enum kern_function function;
    bool gated;
    float clamp;  /* above 0; 0: none */
    float offset; /* of l */
};

struct kern_act_fwd {
    int64_t rows, cols;
    struct kern_act act;
    const void *x;
    void *y;
    enum mg_dtype dtype; /* of x, y */
};
/* dx = the gradient of x, made of the gradient of y.  dx may be dy unless 'gated'.  A
 * number beyond the clamp has gradient 0.
 */
struct kern_act_bwd {
    int64_t rows, cols;
    struct kern_act act;
    const void *dy, *x;
    void *dx;
    enum mg_dtype dtype; /* of dy, x, dx */
};

/* Rotary position embedding, in place (Su et al. 2021).  Of each head a pair of elements
 * (a, b) becomes (c a - s b, s a + c b), or, with 'inverse', which is the backward pass,
 * (c a + s b, c b - s a).  Pair i is elements i and 'half' + i of the head, or, with
 * 'interleaved', 2 i and 2 i + 1.  c and s are table[position][i] and table[position][half + i],
 * which hold cosine and sine of the angle, and a factor if there is one.  Elements from 2
 * half on do not change.  Heads are in groups, and the groups of all tokens follow each
 * other at one distance: head h of group g of token t begins at x[(t groups + g) stride_g
 * + h stride_h].
 */
struct kern_rope {
    int64_t tokens, batch, groups, heads; /* heads of a group */
    int64_t half;
    bool interleaved, inverse;
    void *x;
    int64_t stride_g, stride_h;
    const float *table; /* [count][2 half] */
    int64_t count;      /* number of rows of the table; every position is below it */
    struct kern_positions position; /* of token t / batch of batch entry t % batch */
    enum mg_dtype dtype; /* of x */
};

/* How the blocks of a row become one. */
enum kern_combine {
    KERN_COMBINE_NONE, /* they do not */
    KERN_COMBINE_SUM,
    KERN_COMBINE_MEAN, /* the sum divided by the number of blocks */
    KERN_COMBINE_MAX,  /* a maximum or minimum with a NaN is a NaN */
    KERN_COMBINE_MIN
};

/* Blocks of columns from one matrix to another: y[row][h][col] = x[row][h][col], where block h of a
 * row begins h x_stride_h (y_stride_h) behind the start of the row, and rows are x_stride
 * (y_stride) apart.  With x_stride_h 0 one block goes to several places.  y and x do not overlap.
 *
 * With 'combine' there is one block of y in a row, y[row][col] = x[row][0][col] op x[row][1][col]
 * op ..., from the left; without blocks it is 0.  float64 is combined in float64, all other types
 * in float32, and the result is rounded once.  Every backend treats denormal operands of sums and
 * means as 0, and their denormal results become 0.  So the result has the bits of
 * reduce_ordered() (libcore/comm/reduce.h), except those of a NaN.
 */
struct kern_copy {
    int64_t rows, heads, cols; /* heads: blocks of a row */
    enum kern_combine combine;
    const void *x;
    int64_t x_stride, x_stride_h;
    void *y;
    int64_t y_stride, y_stride_h; /* y_stride_h: not read with 'combine' */
    enum mg_dtype dtype; /* of x, y: also float64 */
};

/* A sliding window: a key at position pk is visible to a query at position pq only if
 * pq - left <= pk <= pq + right.  A negative bound is no bound.  Bounds are below 2^31.
 */
struct kern_window {
    bool set; /* false: no window, left and right are not read */
    int64_t left, right;
};

/* The lowest position that each query sees, the start of its document: query s of batch entry b
 * sees keys from position at[s * stride_s + b * stride_b] on.  With stride_b 0 all batch entries
 * have the same documents.  at NULL: every query sees keys from position 0 on.
 */
struct kern_starts {
    const int32_t *at;
    int64_t stride_s, stride_b;
};

/* Scaled dot-product attention, streamed over blocks (Dao et al. 2022): no [s, s] matrix.
 * For batch entry i, head j: p = softmax_k (scale q k^T + mask), out = dropout (p) v.
 * lse[i][j][query] = log sum_k exp (scale q k), for the backward pass and for merging.
 * Dropout of p: value rng_philox (key_of_head, key_position / 4, query_position,
 * sample)[key_position % 4] with key_of_head = rng_key (seed, RNG_DROPOUT_ATTENTION,
 * first_head + j, layer).
 *
 * A key is visible to a query if all of these hold: causal is false, or the key's position is not
 * larger than the query's; the key is in the query's window; the key's position is not below
 * the query's start.  Blocks of queries and keys without a visible pair are skipped.  A block has
 * 64 queries or keys in a row, and its lowest and highest positions decide.
 *
 * A sink (Xiao et al. 2023) is one more term exp (sink of the head) in the sum that the softmax
 * divides by, and in the sum of lse.  The sink has no value, and neither scale nor dropout applies
 * to it.  Sinks of 0 are the softmax "off by one".
 *
 * With 'coeff', which is the layer's number in Megatron-LM's query-key layer scaling, a score of
 * float16 operands is divided by coeff, rounded to float16, and multiplied by coeff again.  So a
 * score of coeff 65504 is still finite.  Gradients pass the rounding as if it were none.  For other
 * types coeff changes nothing.  A sink is no score.
 *
 * A query that sees no key has out = 0, dq = 0, and lse = the head's sink; without sinks lse is
 * minus infinity.
 *
 * Query heads are in groups of heads / kv_heads, which use one kv head (Ainslie et al. 2023).
 * Strides are in elements.  Query head j of position s, batch entry b, begins at
 * q[s q_stride_s + b q_stride_b + (j / group) q_stride_g + (j % group) q_stride_h], so that the
 * rows of a fused product [group][queries of the group, key, value] are used where they are;
 * kv head g at s kv_stride_s + b kv_stride_b + g kv_stride_g of k and v; out head j at
 * s out_stride_s + b out_stride_b + j out_stride_h.  If one of the strides of v is not 0, v
 * has these and kv_stride_* are those of k alone.
 */
struct kern_attention_fwd {
    int64_t batch, heads, kv_heads; /* local heads; heads % kv_heads == 0 */
    int64_t seq_q, seq_k;
    int64_t head_dim;   /* of a row of q and k */
    int64_t head_dim_v; /* of a row of v and out; 0: head_dim */
    double scale;
    double coeff; /* above 0: scores of float16 are coeff fp16 (scale q k / coeff); 0: they are not
                     rounded */
    bool causal;
    struct kern_window window;
    struct kern_positions pos_q, pos_k;
    struct kern_starts start;
    enum mg_dtype dtype; /* of q, k, v, sink, out and the gradients of q, k, v, out */
    const void *q, *k, *v;
    int64_t q_stride_s, q_stride_b, q_stride_g, q_stride_h;
    int64_t kv_stride_s, kv_stride_b, kv_stride_g;
    int64_t v_stride_s, v_stride_b, v_stride_g; /* all 0: those of k */
    bool has_sink;
    const void *sink; /* [heads]; NULL: 0 for every head; read only with has_sink */
    void *out;
    int64_t out_stride_s, out_stride_b, out_stride_h;
    float *lse; /* [batch][heads][seq_q] */
    float *max_logit; /* [1]: the maximum of its value and the largest score that a query
                         sees; NULL: not computed */
    double dropout_p;
    uint64_t seed;
    int64_t layer, first_head; /* global numbers, of the first local head */
    const int64_t *sample;     /* [batch] */
};

/* Gradients with the strides of their forward operands, overwritten or, with 'accumulate',
 * added to.  The sum over the query heads of a group is formed inside.
 * With a sink, dsink[j] -= sum over batch entries and queries of exp (sink[j] - lse) (dout . out),
 * whatever 'accumulate' is.
 */
struct kern_attention_bwd {
    struct kern_attention_fwd fwd; /* out and lse are the results of the forward pass */
    const void *dout;              /* strides of out */
    void *dq, *dk, *dv;
    bool accumulate;
    void *dsink; /* [heads]; NULL: not wanted; written only with has_sink */
    enum mg_dtype grad_dtype; /* of dsink */
};

/* Merge the attention of the same queries over two sets of keys (Dao et al. 2022, section 3.1):
 * with l = log (exp (lse) + exp (part_lse)),
 * out = out exp (lse - l) + part exp (part_lse - l), lse = l.
 * Where both lse are minus infinity, out is 0 and lse stays.  Strides are those of
 * kern_attention_fwd, the same for out and part; lse and part_lse are [batch][heads][seq_q].
 *
 * A sink is counted once: only one of the parts may have it (has_sink), and the merged out and lse
 * are then those with the sink.  Of the backward calls, which all get the merged out and lse, only
 * one may have has_sink and dsink.
 */
struct kern_attention_merge {
    int64_t batch, heads, seq_q;
    int64_t head_dim; /* of a row of out: the attention's head_dim_v */
    void *out;
    const void *part;
    int64_t out_stride_s, out_stride_b, out_stride_h;
    float *lse;
    const float *part_lse;
    enum mg_dtype dtype, part_dtype; /* of out, of part */
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
/* dtable[id[t] - first] += dout[t], in order of t.  A row is rounded once, even if
 * several tokens have it.
 */
struct kern_embedding_bwd {
    int64_t tokens, cols;
    const int32_t *id;
    int64_t first, count;
    const void *dout;
    void *dtable;
    enum mg_dtype dtype, grad_dtype; /* of dout; of dtable */
};

/* y[t] = dropout (x[t] + table[entry of row t]).  y may be x.  The entry of a row is its position
 * in 'dropout', or, where entry.at is not NULL, its position in 'entry'; it is below 'count'.
 * 'batch' of 'dropout' is used whatever its p.
 */
struct kern_position_fwd {
    int64_t tokens, cols;
    const void *x;
    const void *table; /* [count, cols] */
    int64_t count;
    struct kern_positions entry;
    struct kern_dropout dropout;
    void *y;
    enum mg_dtype dtype; /* of x, table, y */
};
/* dx = dropout (dy); dtable[entry of row t] += dx[t] as stored, in order of t.  An entry
 * is rounded once, even if several tokens have it.  dx may be dy.
 */
struct kern_position_bwd {
    int64_t tokens, cols;
    const void *dy;
    struct kern_dropout dropout;
    void *dx;
    void *dtable; /* [count, cols] */
    int64_t count;
    struct kern_positions entry;
    enum mg_dtype dtype, grad_dtype; /* of dy, dx; of dtable */
};

/* Vocabulary-parallel cross entropy in three local passes; the caller reduces 'max' (by
 * maximum) and 'sum' and 'target' (by sum) over the tensor-parallel group in between, so
 * logits are never gathered.  Local columns 0 to valid - 1 are the vocabulary ids first,
 * first + 1, ...; later columns are padding and count as minus infinity.
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
 * if per_token is set, else max (*count, 1), and w = *weight *times.  scale[t] = w mask[t] / d;
 * out += { w sum_t mask[t] loss[t] / d, sum_t mask[t] loss[t], c }.
 */
struct kern_xent_loss {
    int64_t tokens;
    const float *sum, *target, *mask;
    const double *weight; /* NULL: 1 */
    float *scale;
    const double *count; /* number of tokens over which the loss is a mean; NULL: c */
    const double *times; /* NULL: 1 */
    double *out;         /* [3] */
    bool per_token;
};
/* Gradient of the logits, in place: element j of row t = scale[t] (exp (logit - max) / sum -
 * [j is label]), 0 in padding columns.  A row of 16-bit elements begins where the row of the
 * logits began, so that rows are kern_xent_ld() elements apart.
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

/* An array of float32 values, which is stored in one of these ways:
 * - float32 and bfloat16: as numbers of this type, rounded to nearest even;
 * - float16 and float8: divided by 'scale', a power of two, then rounded to nearest even;
 * - with 'upper', which is an array of bfloat16: in two halves.  'upper' holds the value rounded
 *   to nearest by its bits, (bits + 0x8000) >> 16, and 'data' holds the low 16 bits.
 *   Rounding to even would only differ for an exact tie.  A NaN becomes the quiet NaN.
 */
struct kern_state {
    void *data;
    enum mg_dtype dtype; /* of data; with 'upper' any */
    void *upper;         /* NULL: none */
    float scale;         /* of float16 and float8 */
    bool positive;       /* values are not negative, and a value above 0 must not become 0:
                            with a scale it is stored as at least the least number above 0
                            (denormals are 0) */
};

/* True if values of the type are stored with a scale. */
static inline bool kern_has_scale (enum mg_dtype dtype)
{
    return dtype == MG_FLOAT16 || dtype == MG_FLOAT8_E4M3;
}

/* The scale of an array whose largest magnitude is 'largest': the least power of two, from
 * 2^-101 or float8's 2^-116 on, that brings it to at most 32752, half of float16's largest
 * number, or 448, float8's largest.  NaN if 'largest' is not finite.
 *
 * Values that were stored with such a scale are float32 numbers of 2^-125 or more, so that half
 * of one is no denormal.  If these values, or a part of them, are stored again with their
 * own scale, they do not change.
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
    struct kern_three scale; /* scales of those new values that have one */
    void *copy;
    enum mg_dtype copy_dtype;
    const void *grad;
    enum mg_dtype grad_dtype;
    double lr, beta1, beta2, eps, weight_decay, c1, c2, grad_scale;
};

/* *out = the largest finite magnitudes of the values that 'update' would store; 0 if there are no
 * values.  The 'scale' of 'update' does not matter.
 */
struct kern_adamw_largest {
    struct kern_adamw update;
    struct kern_three *out;
};

/* out = the values of 'state', or 'state' = the values of in.  Elements of out and in are
 * 'dtype', rounded to nearest even.  in may be the state's 'upper'.
 */
struct kern_state_load {
    int64_t n;
    struct kern_state state;
    void *out;
    enum mg_dtype dtype;
};
struct kern_state_store {
    int64_t n;
    const void *in;
    enum mg_dtype dtype;
    struct kern_state state;
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

/* out[i] = value, rounded to 'dtype'. */
struct kern_fill {
    int64_t n;
    float value;
    void *out;
    enum mg_dtype dtype;
};

/* out[c] += sum over rows of x[r][c]: bias gradients. */
struct kern_col_sum {
    int64_t rows, cols;
    const void *x;
    void *out;
    enum mg_dtype dtype, grad_dtype; /* of x, of out */
};

/* *out = sum of x[i]^2, formed in double in a fixed order; a NaN or infinity in x makes it not
 * finite.  x may be float8.
 */
struct kern_sum_sq {
    int64_t n;
    const void *x;
    enum mg_dtype dtype;
    double *out;
};

/* *out = the largest |x[i]|; 0 if n is 0, NaN if some x[i] is NaN. */
struct kern_max_abs {
    int64_t n;
    const void *x;
    enum mg_dtype dtype;
    float *out;
};

/* *out = the number of elements of x that are zero, of either sign. */
struct kern_count_zeros {
    int64_t n;
    const void *x;
    enum mg_dtype dtype;
    double *out;
};

/* y[i] = x[i] scale, formed in float32, rounded to nearest even; x and y may be float8.  Without
 * a factor (scale 1) this is a conversion, which keeps denormals.  In a conversion to
 * float8, 'scale' is the inverse of the tensor's scale; in a conversion from float8, it
 * is the tensor's scale.  y may be x if both are of one type.  A scale that changes from
 * call to call can be in device memory.
 */
struct kern_cast {
    int64_t n;
    float scale;           /* not read if there is a scale_at */
    const float *scale_at; /* the scale is *scale_at; NULL: 'scale' */
    const void *x;
    void *y;
    enum mg_dtype from, to; /* of x, of y */
};

#include "kernels/moe.h"

/* All ops: enumerator KERN_..., name of the argument struct and of the function. */
#define KERN_OPS(OP)                                 \
    OP (GEMM, gemm)                                  \
    OP (NORM_FWD, norm_fwd)                          \
    OP (NORM_BWD, norm_bwd)                          \
    OP (BIAS_DROPOUT_ADD_FWD, bias_dropout_add_fwd)  \
    OP (BIAS_DROPOUT_ADD_BWD, bias_dropout_add_bwd)  \
    OP (ACT_FWD, act_fwd)                            \
    OP (ACT_BWD, act_bwd)                            \
    OP (ROPE, rope)                                  \
    OP (COPY, copy)                                  \
    OP (ATTENTION_FWD, attention_fwd)                \
    OP (ATTENTION_BWD, attention_bwd)                \
    OP (ATTENTION_MERGE, attention_merge)            \
    OP (EMBEDDING_FWD, embedding_fwd)                \
    OP (EMBEDDING_BWD, embedding_bwd)                \
    OP (POSITION_FWD, position_fwd)                  \
    OP (POSITION_BWD, position_bwd)                  \
    OP (XENT_MAX, xent_max)                          \
    OP (XENT_SUM, xent_sum)                          \
    OP (XENT_LOSS, xent_loss)                        \
    OP (XENT_BWD, xent_bwd)                          \
    OP (ADAMW, adamw)                                \
    OP (ADAMW_LARGEST, adamw_largest)                \
    OP (STATE_LOAD, state_load)                      \
    OP (STATE_STORE, state_store)                    \
    OP (FILL_NORMAL, fill_normal)                    \
    OP (FILL, fill)                                  \
    OP (COL_SUM, col_sum)                            \
    OP (SUM_SQ, sum_sq)                              \
    OP (MAX_ABS, max_abs)                            \
    OP (COUNT_ZEROS, count_zeros)                    \
    OP (CAST, cast)                                  \
    KERN_MOE_OPS (OP)

#define KERN_ENUMERATOR(OP, op) KERN_##OP,
enum kern_op { KERN_OPS (KERN_ENUMERATOR) KERN_NUM_OPS };
#undef KERN_ENUMERATOR

/* The op's name, as in its argument struct, and the size of that struct. */
const char *kern_op_name (enum kern_op op);
size_t kern_op_size (enum kern_op op);

/* The places of the pointers in the op's argument struct and in the structs inside it,
 * and whether the op may write through them.  Each pointer is NULL or points to device
 * memory.  pointers.awk makes this list from the declarations.
 */
struct kern_pointer {
    size_t at; /* byte of the argument struct */
    bool written;
};
const struct kern_pointer *kern_op_pointers (enum kern_op op, size_t *count);

struct kernels;

/* The functions of a backend, by op.  A table for plans alone has no run functions; its
 * scratch functions then use no memory of 'k'.
 */
struct kern_ops {
    const char *name;
    int (*run[KERN_NUM_OPS]) (const struct kernels *k, const void *args,
                              struct mg_stream *stream, struct mg_error *err);
    /* *bytes = the scratch memory that the call needs.  Reads sizes and types only, and no memory
     * that a pointer points to.  gemm also prepares its cache for the shape.  NULL: the
     * op needs no scratch memory.
     */
    int (*scratch[KERN_NUM_OPS]) (const struct kernels *k, const void *args, size_t *bytes,
                                  struct mg_error *err);
};

struct kern_tape;
struct kern_call;

/* Takes calls instead of running them. */
struct kern_taker {
    int (*take) (void *arg, const struct kernels *k, const struct kern_call *call,
                 struct mg_error *err);
    void *arg;
};

/* For backends: 0 if a call's sizes, row lengths and types are valid; else -1 and a text: EINVAL,
 * or ENOTSUP for a type.  No memory that a pointer points to is read.
 */
int kern_gemm_check (const struct kern_gemm *a, struct mg_error *err);
int kern_attention_check (const struct kern_attention_fwd *a, struct mg_error *err);
int kern_cast_check (const struct kern_cast *a, struct mg_error *err);
int kern_gemm_double_check (const struct kern_gemm_double *a, struct mg_error *err);
int kern_expert_sort_check (const struct kern_expert_sort *a, struct mg_error *err);
int kern_expert_gemm_check (const struct kern_expert_gemm *a, struct mg_error *err);

/* The same for how 'what' is stored; the text begins with it. */
int kern_state_check (const struct kern_state *s, const char *what, struct mg_error *err);

/* The same for an op on the logits of a router, with 'topk' choices a token; the text begins with
 * 'op'.
 */
int kern_router_check (const char *op, int64_t tokens, int64_t experts, int64_t topk,
                       enum mg_dtype dtype, struct mg_error *err);

/* The same for the other arguments of routers. */
int kern_router_check_options (const struct kern_router *r, struct mg_error *err);
int kern_router_sums_check (const struct kern_router_sums *a, struct mg_error *err);
int kern_router_loss_bwd_check (const struct kern_router_loss_bwd *a, struct mg_error *err);
int kern_router_quantile_check (const struct kern_router_quantile *a, struct mg_error *err);
int kern_router_capacity_check (const struct kern_router_capacity *a, struct mg_error *err);

/* A device's kernels: the table, and data of the backend, such as a cache of primitives.
 * The device sets 'taker' while a graph is captured (libcore/device/graph.h), and 'tape'
 * while work is planned (libcore/device/tape.h).
 */
struct kernels {
    const struct kern_ops *ops;
    void *impl;
    const struct kern_taker *taker; /* takes the calls; NULL: the calls run, ... */
    struct kern_tape *tape;         /* ... or are counted here; NULL: the calls are not
                                     * counted */
};

struct kern_call {
    enum kern_op op;
    const void *args; /* struct kern_NAME of the op */
    struct mg_stream *stream;
};

/* Run the call, or pass it to the taker or the tape of 'k' if there is one.  -1 and
 * ENOTSUP if 'k' is only planned (device.h).
 */
int kern_run (const struct kernels *k, const struct kern_call *call, struct mg_error *err);

/* *bytes = the scratch memory that the call uses besides its operands.  The memory that
 * arguments point to is not read, and the pointers may be NULL.
 */
int kern_scratch (const struct kernels *k, const struct kern_call *call, size_t *bytes,
                  struct mg_error *err);

/* kern_run() of one op: kern_gemm (k, &args, stream, err) ... */
#define KERN_FUNCTION(OP, op)                                                              \
    static inline int kern_##op (const struct kernels *k, const struct kern_##op *args,    \
                                 struct mg_stream *stream, struct mg_error *err)           \
    {                                                                                      \
        const struct kern_call call = { KERN_##OP, args, stream };                         \
                                                                                           \
        return kern_run (k, &call, err);                                                   \
    }
KERN_OPS (KERN_FUNCTION)
#undef KERN_FUNCTION

/* The CPU backend, using 'threads' threads. NULL and a text on failure. */
struct kernels *kernels_cpu_create (int threads, struct mg_error *err);

/* The same without the library of matrix products, which takes some milliseconds to start: for
 * callers that rarely multiply.
 */
struct kernels *kernels_cpu_create_light (int threads, struct mg_error *err);
void kernels_cpu_destroy (struct kernels *k);

/* The compilation that was chosen for this machine: "v4". */
const char *kernels_cpu_isa (const struct kernels *k);

/* Call the ops between enter() and leave(), from the thread that called enter().  Between the two,
 * the ops and the libraries that they call compute with denormals flushed (flush.h).  So a result
 * depends neither on the thread that computes it nor on the caller's mode.  enter() sets the mode
 * in the calling thread and in the OpenMP threads that it computes with; leave() restores the mode
 * that each of these threads had.  A pair inside a pair changes nothing.
 *
 * Ops that convert and do not compute (cast without a factor, state_load and state_store of types
 * without a scale) keep denormals.  Other backends flush as their processor does; results agree
 * where no value is near 2^-126.
 */
void kernels_cpu_enter (struct kernels *k);
void kernels_cpu_leave (struct kernels *k);

/* Call fn (arg) in the calling thread and in each OpenMP thread that the ops compute with. */
void kernels_cpu_each_thread (struct kernels *k, void (*fn) (void *arg), void *arg);

/* From now on all calls on 'stream' use the 'size' bytes at 'memory' as scratch memory, one call
 * after the other.  'memory' is aligned to 64 bytes and stays the caller's.  A call that needs more
 * fails with ENOMEM.  For calls on other streams, or without a stream, the ops allocate
 * scratch memory whenever a call needs more than they have.  With 'memory' NULL, the
 * stream has no scratch memory any more.  At most KERN_SCRATCH_STREAMS streams have
 * scratch memory; -1 and a text for a further one.
 */
enum { KERN_SCRATCH_STREAMS = 8 };
int kernels_cpu_set_scratch (struct kernels *k, const struct mg_stream *stream, void *memory,
                             size_t size, struct mg_error *err);

#ifdef __cplusplus
}
#endif

#endif /* KERNELS_KERNELS_H */
