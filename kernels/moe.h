/* moe - the operations of mixture-of-experts layers.
 *
 * kernels.h includes this header, and its rules for ops hold here: pointers are to device
 * memory, a call is enqueued and allocates nothing, and all sizes may be 0.
 *
 * Each token is sent to 'topk' of 'experts' experts.  A choice is a token and one of its topk
 * places: choice c is place c % topk of token c / topk.  Arrays [tokens][topk] are by choice.  The
 * expert of a choice is an int32_t, and -1 means that the choice is dropped: no expert gets it.
 * Routing results thus have a fixed shape, and no op needs a number of rows on the host.
 *
 * A row has the features of a token for one expert: there is one row for each choice that
 * is not dropped.  The number of rows is only known in device memory.  An op gets the
 * largest possible number ('rows') and a pointer to the number of rows ('live').  The op
 * neither reads nor writes the rows from *live on.
 *
 * The way of a token, with the ops that compute its backward pass:
 *
 *     step                              forward                   backward
 *     logits of the experts             gemm or gemm_double       the same
 *     experts and probabilities         router_fwd                router_bwd
 *     auxiliary losses                  router_sums, router_loss  router_loss_bwd
 *     capacity                          router_capacity           -
 *     token counts, places of rows      expert_sort               -
 *     rows in the experts' order        row_gather                row_combine
 *     probabilities in that order       row_gather                row_gather
 *     received rows by local expert     expert_chunks, row_gather row_gather
 *     products of all experts           expert_gemm               expert_gemm, twice
 *     activation times probability      expert_act_fwd            expert_act_bwd
 *     rows back to tokens               row_combine               row_gather
 *
 * Router ops compute in float64 and round what they store.  "Largest" means: of equal values the
 * one with the lowest number, and a NaN is below every number.  Megatron-LM leaves the order of
 * equal values to its backend; of different values it takes the same.
 */
#ifndef KERNELS_KERNELS_H
#include "kernels/kernels.h" /* which includes this header at the right place */
#endif
#ifndef KERNELS_MOE_H
#define KERNELS_MOE_H

#include <stdbool.h>
#include <stdint.h>

#include "megatron/dtype.h"

/* C[m,n] = op(A)[m,k] op(B)[k,n] (+ C if accumulate) (+ bias[n] on every row), in float64, rounded
 * once: the router's product and its gradients, if kern_gemm lacks the types.  op and ld* are
 * those of kern_gemm.  Each operand has a type of its own: float32, float64, bfloat16 or
 * float16.
 */
struct kern_gemm_double {
    bool trans_a, trans_b, accumulate;
    int64_t m, n, k;
    const void *a;
    int64_t lda;
    const void *b;
    int64_t ldb;
    void *c;
    int64_t ldc;
    const void *bias; /* NULL: none; not together with accumulate */
    enum mg_dtype a_dtype, b_dtype, c_dtype, bias_dtype;
};

/* The score s of an expert for a token, made of the expert's logit x. */
enum kern_score {
    KERN_SOFTMAX_CHOSEN, /* x itself; probabilities are the softmax of the chosen logits
                            (Shazeer et al. 2017) */
    KERN_SOFTMAX,        /* softmax of all logits (Fedus et al. 2021), "pre-softmax" */
    KERN_SIGMOID,        /* 1 / (1 + exp (-x)) (DeepSeek-V3, 2024) */
    KERN_SQRT_SOFTPLUS,  /* sqrt (log (1 + exp (x))) */
    KERN_NUM_SCORES
};

/* Added to a sum of scores that others are divided by, as Megatron-LM does. */
#define KERN_ROUTER_EPS 1e-20

/* Arguments that the router's forward and backward pass share.  A choice's probability is
 *
 *     scale q,  q = the softmax of the token's chosen logits     (KERN_SOFTMAX_CHOSEN)
 *               q = s                                            (KERN_SOFTMAX)
 *               q = s / (sum of the token's chosen s + 1e-20)    (the others; with topk 1, q = s).
 *
 * A router of one expert with KERN_SIGMOID is a gate: the probability is 1 / (1 + exp (-x)).
 */
struct kern_router {
    int64_t tokens, experts, topk; /* topk <= experts */
    enum kern_score score;
    int64_t groups;     /* of experts / groups experts each; 0: none */
    int64_t group_topk; /* of the groups; topk <= group_topk * (experts / groups) */
    double scale;       /* 0: 1 */
    enum mg_dtype dtype; /* of logits: float32 or float64 */
};

/* index = the experts with the topk largest values v, the largest first; prob = their
 * probabilities.  v = s + bias (Wang et al. 2024, arXiv 2408.15664), or, if 'beta' is set, x - beta
 * (quantile balancing).  Neither changes s in the probabilities.
 *
 * With groups (DeepSeek-V3), a group's value is the sum of its max (topk / group_topk, 1) largest
 * v, and only experts of the group_topk groups with the largest values are chosen.  (Megatron-LM
 * takes topk / group_topk, and makes an empty sum of 0.)
 *
 * If 'given' is set, the experts are those in 'index' (kern_router_sinkhorn, or a replay), and only
 * their probabilities are computed: 0 where the index is -1.
 */
struct kern_router_fwd {
    struct kern_router router;
    const void *logits; /* [tokens][experts] */
    const float *bias;  /* [experts]; NULL: 0 */
    const float *beta;  /* [experts]; NULL: none */
    bool given;
    int32_t *index;     /* [tokens][topk] */
    float *prob;        /* [tokens][topk] */
};

/* dlogits (+)= the gradient of the logits, from that of the probabilities.  'index' is
 * the result of kern_router_fwd, not that of kern_router_capacity: the score of a choice
 * that is dropped later is part of the sum by which the other scores are divided.  The
 * dprob of a dropped choice is 0, as kern_row_gather makes it.
 */
struct kern_router_bwd {
    struct kern_router router;
    const void *logits;
    const int32_t *index;
    const float *dprob; /* [tokens][topk] */
    bool accumulate;
    void *dlogits;      /* [tokens][experts], of the type of logits */
};

/* The scores of auxiliary losses are r = softmax of all logits (both softmaxes), or
 * r = s / (sum of all s + 1e-20).  The counted experts are those with the topk largest r;
 * bias, groups and capacity have no effect.  Token t is of sequence t % batch; with batch
 * 1 all tokens are one sequence.  Tokens whose mask is 0 (padding) do not count.
 *
 * count[b][e] = number of choices of expert e by tokens of sequence b, sum[b][e] = sum of their r;
 * *z_loss += mean of log (sum_e exp (x))^2 over the tokens that count (Zoph et al. 2022).
 */
struct kern_router_sums {
    int64_t tokens, experts, topk, batch;
    enum kern_score score;
    const void *logits; /* [tokens][experts] */
    enum mg_dtype dtype; /* of logits: float32 or float64 */
    const float *mask;  /* [tokens], 0 or 1; NULL: 1 */
    float *count, *sum; /* [batch][experts]; NULL: not wanted */
    double *z_loss;     /* NULL: not wanted */
};

/* The load balancing loss (Fedus et al. 2021) from sums:
 *
 *     weight[b][e] = coeff experts count[b][e] / (T C), C the sum of all counts,
 *     *loss += sum_b,e weight[b][e] sum[b][e] / coeff.
 *
 * weight is the slope of coeff loss by the scores r.  T is the number of tokens of a sequence, on
 * all ranks whose counts are in 'count'.  'count' is reduced before: over the ranks that share the
 * sequences (loss of the microbatch or of sequences), or over all ranks that have the router, and
 * then added up over microbatches (global loss, arXiv 2501.11873).  'sum' is that of this rank, so
 * that *loss is this rank's part.  (Megatron-LM's factor is experts / (topk T^2 batch), of counts
 * divided by the number of microbatches: the same, as C is topk T batch times that number.)
 */
struct kern_router_loss {
    int64_t experts, topk, batch;
    const float *count, *sum; /* [batch][experts]; sum: not read without loss */
    double tokens; /* T; 0: C / (topk batch), which leaves out masked tokens */
    double coeff;  /* not 0 */
    float *weight; /* [batch][experts]; NULL: not wanted */
    double *loss;  /* NULL: not wanted */
};

/* dlogits += *factor (scale (slope of sum_t,e weight[t % batch][e] r[t][e])
 *                     + z (slope of the mean of log (sum_e exp (x))^2)),
 * the sum and the mean over tokens that count.  *factor is the factor of the main loss
 * (MoEAuxLossAutoScaler of Megatron-LM).  'z' holds the z-loss's coefficient.
 */
struct kern_router_loss_bwd {
    int64_t tokens, experts, batch;
    enum kern_score score;
    const void *logits; /* [tokens][experts] */
    enum mg_dtype dtype; /* of logits, dlogits: float32 or float64 */
    const float *mask;   /* NULL: 1 */
    const float *weight; /* [batch][experts]; NULL: none */
    double scale, z;
    const double *factor; /* NULL: 1 */
    void *dlogits;
};

/* index = the experts with the topk largest elements of a token in the plan d1[e] c[t][e] d0[t],
 * c = exp (logits), after rounds of
 *
 *     d0[t] = 1 / tokens  / (sum_e d1[e] c[t][e] + 1e-8),
 *     d1[e] = 1 / experts / (sum_t d0[t] c[t][e] + 1e-8)
 *
 * from d1 = 1 on, until a round changes d1 by at most 'tol' in the mean (Sinkhorn's algorithm;
 * Megatron-LM's tol is 1e-4), or 10000 rounds.  Their probabilities: kern_router_fwd with 'given',
 * KERN_SIGMOID for topk 1, KERN_SOFTMAX for more.
 */
enum { KERN_SINKHORN_ROUNDS = 10000 };
#define KERN_SINKHORN_EPS 1e-8

struct kern_router_sinkhorn {
    int64_t tokens, experts, topk;
    const void *logits; /* [tokens][experts] */
    enum mg_dtype dtype; /* of logits: float32 or float64 */
    double tol;
    int32_t *index;     /* [tokens][topk] */
    float *plan;        /* [tokens][experts]; NULL: not wanted */
};

/* sum[e] += the (tokens topk / experts + 1)-th largest of x[t][e] - alpha[t] over the tokens, where
 * alpha[t] is the (topk + 1)-th largest of x[t][e] - beta[e] over the experts.  If beta[e] were
 * this value and alpha stayed, expert e would get tokens topk / experts tokens.  topk < experts,
 * and experts divides tokens topk.
 */
struct kern_router_quantile {
    int64_t tokens, experts, topk;
    const void *logits; /* [tokens][experts] */
    enum mg_dtype dtype; /* of logits: float32 or float64 */
    const float *beta;  /* [experts] */
    float *sum;         /* [experts] */
};

/* beta = b - mean of b over the experts, b = ema beta + (1 - ema) scale sum. */
struct kern_router_beta {
    int64_t experts;
    const float *sum; /* [experts] */
    double scale;     /* 1 / the number of quantiles in sum */
    double ema;
    float *beta;      /* [experts] */
};

/* bias[e] += rate sign (mean of count - count[e]) (arXiv 2408.15664): counts of a global batch. */
struct kern_router_bias {
    int64_t experts;
    const float *count; /* [experts] */
    double rate;
    float *bias;        /* [experts] */
};

/* The global place of a matrix [tokens, cols]: what kern_dropout has. */
struct kern_place {
    uint64_t key;
    const int64_t *sample; /* [batch] consumed-sample index of every batch entry */
    int64_t batch;
    struct kern_positions position;
};

/* Random logits instead of computed ones, for measurements:
 *
 *     logits[t][e] = rng_normal (key, e / 4, position, sample)[e % 4] + bias b[e]
 *     b[e] = rng_normal (bias_key, e / 4, 0, sample)[e % 4]   of each sequence, or
 *            rng_normal (bias_key, e / 4, 1, 0)[e % 4]        of all, if 'bias_stays' is set
 *
 * Without a bias all experts have the same load in the mean.  Megatron-LM passes the gradient of
 * the logits on to those that were replaced.
 */
struct kern_router_random {
    int64_t tokens, experts;
    struct kern_place place;
    double bias; /* standard deviation; 0: none */
    bool bias_stays;
    uint64_t bias_key;
    void *logits;        /* [tokens][experts] */
    enum mg_dtype dtype; /* of logits: float32 or float64 */
};

/* y (+)= x u, u = 1 - eps + 2 eps (v + 1/2) / 2^32 for the 32-bit value
 * v = rng_philox (key, col / 4, position, sample)[col % 4]: uniform in (1 - eps, 1 + eps) (Fedus et
 * al. 2021).  The backward pass is the same op on gradients.  y may be x.
 */
struct kern_jitter {
    int64_t rows, cols;
    double eps;
    struct kern_place place;
    const void *x;
    bool accumulate;
    void *y;
    enum mg_dtype dtype; /* of x, y */
};

/* kept = index, with -1 in the place of what is too much: of an expert's choices the 'capacity'
 * with the largest probabilities are kept ('by_prob'), or those of the first tokens.  Of equal
 * probabilities the first token's is larger.  (Megatron-LM's policy "position" is a top-k of ones
 * and zeros, and which choices it keeps is up to its backend; the numbers kept are the same.)
 */
struct kern_router_capacity {
    int64_t tokens, topk, experts;
    const int32_t *index; /* [tokens][topk] */
    const float *prob;    /* [tokens][topk]; not read without by_prob */
    int64_t capacity;     /* ceil (factor tokens topk / experts) in Megatron-LM */
    bool by_prob;
    int32_t *kept;        /* [tokens][topk]; may be index */
};

/* Sort choices by expert and then by token.  The experts are first .. first + experts - 1, and a
 * choice of any other expert counts as dropped.  Expert first + e has count[e] rows from row
 * offset[e] on; offset[experts] is the number of rows.
 *
 * row[c] = the row of choice c, -1 if it is dropped; source[row] = its choice.
 *
 * With 'capacity', every expert has 'capacity' rows, offset[e] is e capacity, and further choices
 * of an expert are dropped.  Rows that no choice has are the last of their expert, and their source
 * is -1: kern_row_gather makes zeros of them, which is Megatron-LM's padding to capacity.
 *
 * With 'limit', only rows begin, ..., begin + limit - 1 are wanted, and they are numbered from 0:
 * the row of other choices is -1, and offset[e] counts wanted rows.  Counts and tallies are of
 * all.
 *
 * tally[e] += the number of choices that have a row of the expert.  (Megatron-LM's tally of padded
 * experts counts the padding, too.)  rank_count[r] = the number of rows of the r-th
 * experts / ranks experts.  Everything that is written may be NULL: not wanted.
 */
struct kern_expert_sort {
    int64_t tokens, topk;
    const int32_t *index; /* [tokens][topk] */
    int64_t first, experts;
    int64_t capacity;     /* 0: as many rows as there are choices */
    int64_t begin, limit; /* limit 0: all rows are wanted; not with capacity */
    int64_t *count;       /* [experts] */
    int64_t *offset;      /* [experts + 1] */
    int32_t *row;         /* [tokens][topk] */
    int32_t *source;      /* [tokens topk], [experts capacity] or [limit]; the rest is not
                             written */
    float *tally;         /* [experts] */
    int64_t ranks;        /* divides experts; read only with rank_count */
    int64_t *rank_count;  /* [ranks] */
};

/* Order what ranks sent by local expert.  Received rows are in the order [part][source][expert]:
 * first those of part 0, in these those of source 0, in these those for expert 0 ...  The chunk of
 * (part p, source s, expert e) has count[p stride_part + s stride_source + e] rows.  The wanted
 * order is [expert][part][source].
 *
 * Only 'limit' rows of each part, from row 'begin' of the part on, are present.  The others were
 * received in other rounds.  So there are at most parts limit rows.
 *
 * source[i] = the received row that is row i in the wanted order, row[j] = the row of received row
 * j in the wanted order: kern_row_gather with 'source' sorts, and with 'row' goes back.
 * offset[e] = the first row of expert e, offset[experts] = the number of rows.
 */
struct kern_expert_chunks {
    int64_t parts, sources, experts;
    const int64_t *count;
    int64_t stride_part, stride_source;
    int64_t begin, limit;
    int64_t *offset;       /* [experts + 1] */
    int32_t *row, *source; /* [parts limit]; what is beyond the number of rows is not written */
};

/* Row i of y = weight[j] times row j / divide of x, j = source[i], for all i below *live.  A row of
 * y whose source is -1 is 0.  This permutes (divide topk), sorts, and is the backward pass of
 * kern_row_combine.
 */
struct kern_row_gather {
    int64_t rows, cols;
    const int64_t *live;   /* not above rows; NULL: all rows */
    const int32_t *source; /* [rows]; NULL: j = i */
    int64_t divide;        /* 0: 1 */
    const float *weight;   /* NULL: 1 */
    const void *x;
    void *y;               /* [rows, cols] */
    enum mg_dtype dtype;   /* of x, y */
};

/* Row t of y (+)= sum over k of weight[c] times row row[c] of x, c = t topk + k, formed in float32
 * in the order of k.  A choice whose row is -1 counts for nothing.  This unpermutes, and is the
 * backward pass of kern_row_gather with divide topk.
 */
struct kern_row_combine {
    int64_t tokens, topk, cols;
    const int32_t *row;  /* [tokens][topk]; NULL: row c */
    const float *weight; /* [tokens][topk]; NULL: 1 */
    const void *x;
    bool accumulate;
    void *y;             /* [tokens, cols] */
    enum mg_dtype dtype; /* of x, y */
};

/* out[c] = the product of row row[c] of x and row c / topk of y, 0 if row[c] is -1: the gradient of
 * a weight of kern_row_combine (x its rows, y the gradient of its result) and of kern_row_gather
 * (x the gradient of its rows, y its tokens).
 */
struct kern_row_dot {
    int64_t tokens, topk, cols;
    const int32_t *row; /* [tokens][topk]; NULL: row c */
    const void *x;
    const void *y;      /* [tokens, cols] */
    float *out;         /* [tokens][topk] */
    enum mg_dtype dtype; /* of x, y */
};

/* The products of all experts.  Rows offset[e] to offset[e + 1] - 1 of x and y are those of expert
 * e, whose weight W_e is stored [out, in]:
 *
 *     KERN_EXPERT_FWD   y = x W_e^T
 *     KERN_EXPERT_DGRAD x (+)= y W_e
 *     KERN_EXPERT_WGRAD W_e (+)= y^T x    of the expert's rows
 *
 * x is [rows, in], y is [rows, out]; offset[experts] <= rows.  The two that are read have type
 * 'dtype', the one that is written 'c_dtype', any two of float32, bfloat16 and float16 (float32
 * accumulation always, rounded once).  The weight of an expert without rows gets zeros from
 * KERN_EXPERT_WGRAD, or stays if 'accumulate' is set.  In float32 the rounding of
 * KERN_EXPERT_DGRAD and KERN_EXPERT_WGRAD may depend on the number of threads.
 */
enum kern_expert_form { KERN_EXPERT_FWD, KERN_EXPERT_DGRAD, KERN_EXPERT_WGRAD };

struct kern_expert_gemm {
    enum kern_expert_form form;
    bool accumulate;
    int64_t experts, rows, in, out;
    const int64_t *offset; /* [experts + 1] */
    void *x, *w, *y;
    int64_t w_stride; /* elements from one expert's weight to the next one's; 0: in out */
    enum mg_dtype dtype, c_dtype;
};

/* Row r of x += factor[r] bias[e], e the expert of the row. */
struct kern_expert_bias_fwd {
    int64_t experts, rows, cols;
    const int64_t *offset; /* [experts + 1] */
    const void *bias;      /* [experts, cols] */
    const float *factor;   /* [rows]; NULL: 1 */
    void *x;               /* [rows, cols] */
    enum mg_dtype dtype;   /* of bias, x */
};

/* dbias[e] += sum over the rows of expert e of factor[r] dx[r]; dfactor[r] += the product of dx[r]
 * and bias[e].
 */
struct kern_expert_bias_bwd {
    int64_t experts, rows, cols;
    const int64_t *offset;
    const void *dx, *bias; /* bias: not read without dfactor */
    const float *factor;   /* NULL: 1 */
    float *dfactor;        /* [rows]; NULL: not wanted */
    void *dbias;           /* [experts, cols] */
    enum mg_dtype dtype, grad_dtype; /* of dx, bias; of dbias */
};

/* kern_act_fwd of the rows below *live, times a factor of the row: y = factor[r] f (x).  Here
 * Megatron-LM multiplies by the probability of the row's choice.
 */
struct kern_expert_act_fwd {
    struct kern_act_fwd fwd;
    const int64_t *live;  /* not above rows; NULL: all rows */
    const float *factor;  /* [rows]; NULL: 1 */
};

/* kern_act_bwd of the same: dx from factor[r] dy, and dfactor[r] = the product of dy[r] and f (x).
 */
struct kern_expert_act_bwd {
    struct kern_act_bwd bwd;
    const int64_t *live;
    const float *factor;
    float *dfactor; /* [rows]; NULL: not wanted */
};

/* All of them: see KERN_OPS. */
#define KERN_MOE_OPS(OP)                  \
    OP (GEMM_DOUBLE, gemm_double)         \
    OP (ROUTER_FWD, router_fwd)           \
    OP (ROUTER_BWD, router_bwd)           \
    OP (ROUTER_SUMS, router_sums)         \
    OP (ROUTER_LOSS, router_loss)         \
    OP (ROUTER_LOSS_BWD, router_loss_bwd) \
    OP (ROUTER_SINKHORN, router_sinkhorn) \
    OP (ROUTER_QUANTILE, router_quantile) \
    OP (ROUTER_BETA, router_beta)         \
    OP (ROUTER_BIAS, router_bias)         \
    OP (ROUTER_RANDOM, router_random)     \
    OP (JITTER, jitter)                   \
    OP (ROUTER_CAPACITY, router_capacity) \
    OP (EXPERT_SORT, expert_sort)         \
    OP (EXPERT_CHUNKS, expert_chunks)     \
    OP (ROW_GATHER, row_gather)           \
    OP (ROW_COMBINE, row_combine)         \
    OP (ROW_DOT, row_dot)                 \
    OP (EXPERT_GEMM, expert_gemm)         \
    OP (EXPERT_BIAS_FWD, expert_bias_fwd) \
    OP (EXPERT_BIAS_BWD, expert_bias_bwd) \
    OP (EXPERT_ACT_FWD, expert_act_fwd)   \
    OP (EXPERT_ACT_BWD, expert_act_bwd)

#endif /* KERNELS_MOE_H */
