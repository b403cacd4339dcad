/* cases.c - one call of most kernels, with the bytes and operations that the call needs */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/cases.h"
#include "tests/tap/tap.h"

const struct cases_size cases_tiny = { 64, 128, 64, 1, 256, 4, 64 };
const struct cases_size cases_small = { 64, 512, 128, 1, 2048, 4, 64 };
const struct cases_size cases_middle = { 256, 1024, 512, 2, 2048, 4, 256 };
const struct cases_size cases_large = { 32768, 2048, 4096, 16, 16384, 8, 2048 };

enum { DIM = 128, BATCH = 4, TOPK = 2 };
static const enum mg_dtype BF16 = MG_BFLOAT16, F32 = MG_FLOAT32;

/* --- operands, whose bytes are counted --- */

static void *room (struct cases_call *c, int64_t n, enum mg_dtype dtype, float value, int times)
{
    c->bytes += times * (double)n * (double)mg_dtype_size (dtype);
    return c->memory->numbers ((size_t)n, dtype, value);
}

/* n numbers: that a call reads; that it writes; that it reads and writes. */
static void *in (struct cases_call *c, int64_t n, enum mg_dtype dtype)
{
    return room (c, n, dtype, NAN, 1);
}
static void *out (struct cases_call *c, int64_t n, enum mg_dtype dtype)
{
    return room (c, n, dtype, NAN, 1);
}
static void *both (struct cases_call *c, int64_t n, enum mg_dtype dtype)
{
    return room (c, n, dtype, NAN, 2);
}

/* n numbers that are all 'value'. */
static void *alike (struct cases_call *c, int64_t n, enum mg_dtype dtype, float value, int times)
{
    return room (c, n, dtype, value, times);
}

/* n integers i -> i factor % below + first. */
static int32_t *integers (struct cases_call *c, int64_t n, int64_t factor, int64_t below,
                          int64_t first)
{
    int32_t *x = malloc ((size_t)n * sizeof (*x)), *made;

    if (!x)
        bail_out ("out of memory");
    for (int64_t i = 0; i < n; i++)
        x[i] = (int32_t)(i * factor % below + first);
    c->bytes += 4 * (double)n;
    made = c->memory->bytes ((size_t)n * sizeof (*x), x);
    free (x);
    return made;
}

/* The first rows of experts that have as many each. */
static int64_t *offsets (struct cases_call *c)
{
    int64_t x[64] = { 0 }, experts = c->size->experts;

    for (int64_t e = 0; e <= experts; e++)
        x[e] = c->size->rows / experts * e;
    return c->memory->bytes ((size_t)(experts + 1) * sizeof (x[0]), x);
}

static const int64_t *samples (struct cases_call *c)
{
    static const int64_t x[BATCH] = { 5, 6, 7, 8 };

    return c->memory->bytes (sizeof (x), x);
}

/* The sizes of a case, by which its function describes its operands. */
#define ROWS (c->size->rows)
#define COLS (c->size->cols)
#define N (ROWS * COLS)
#define ARGS(op, ...)                                      \
    struct kern_##op *a = (struct kern_##op *)c->args;     \
    *a = (struct kern_##op){ __VA_ARGS__ }

/* --- norms, dropout, activations --- */

static struct cases_call *norm_fwd (struct cases_call *c)
{
    ARGS (norm_fwd, .kind = KERN_RMS_NORM, .rows = ROWS, .cols = COLS, .eps = 1e-5, .dtype = BF16);
    a->x = in (c, N, BF16);
    a->weight = in (c, COLS, BF16);
    a->y = out (c, N, BF16);
    a->stat = out (c, ROWS, F32);
    return c;
}

static struct cases_call *norm_bwd (struct cases_call *c)
{
    ARGS (norm_bwd, .kind = KERN_RMS_NORM, .rows = ROWS, .cols = COLS, .accumulate_dx = true,
          .dtype = BF16, .grad_dtype = F32);
    a->dy = in (c, N, BF16);
    a->x = in (c, N, BF16);
    a->weight = in (c, COLS, BF16);
    a->stat = alike (c, ROWS, F32, 1, 1);
    a->dx = both (c, N, BF16);
    a->dweight = both (c, COLS, F32);
    return c;
}

static struct cases_call *bda_fwd (struct cases_call *c)
{
    ARGS (bias_dropout_add_fwd, .rows = ROWS, .cols = COLS, .dtype = BF16);
    a->x = in (c, N, BF16);
    a->bias = in (c, COLS, BF16);
    a->residual = in (c, N, BF16);
    a->y = out (c, N, BF16);
    return c;
}

static struct cases_call *bda_fwd_dropout (struct cases_call *c)
{
    ARGS (bias_dropout_add_fwd, .rows = ROWS, .cols = COLS, .dtype = BF16);
    a->dropout = (struct kern_dropout){ .p = 0.1, .key = 77, .batch = BATCH };
    a->dropout.sample = samples (c);
    a->x = in (c, N, BF16);
    a->residual = in (c, N, BF16);
    a->y = out (c, N, BF16);
    return c;
}

static struct cases_call *bda_bwd (struct cases_call *c)
{
    ARGS (bias_dropout_add_bwd, .rows = ROWS, .cols = COLS, .dtype = BF16, .grad_dtype = F32);
    a->dy = in (c, N, BF16);
    a->dx = out (c, N, BF16);
    a->dbias = both (c, COLS, F32);
    return c;
}

static struct cases_call *gelu_fwd (struct cases_call *c)
{
    ARGS (act_fwd, .rows = ROWS, .cols = COLS, .dtype = BF16);
    a->x = in (c, N, BF16);
    a->y = out (c, N, BF16);
    return c;
}

static struct cases_call *gelu_bwd (struct cases_call *c)
{
    ARGS (act_bwd, .rows = ROWS, .cols = COLS, .dtype = BF16);
    a->dy = in (c, N, BF16);
    a->x = in (c, N, BF16);
    a->dx = out (c, N, BF16);
    return c;
}

static const struct kern_act swiglu = { .function = KERN_SILU, .gated = true };

static struct cases_call *swiglu_fwd (struct cases_call *c)
{
    ARGS (act_fwd, .rows = ROWS, .cols = COLS, .act = swiglu, .dtype = BF16);
    a->x = in (c, 2 * N, BF16);
    a->y = out (c, N, BF16);
    return c;
}

static struct cases_call *swiglu_bwd (struct cases_call *c)
{
    ARGS (act_bwd, .rows = ROWS, .cols = COLS, .act = swiglu, .dtype = BF16);
    a->dy = in (c, N, BF16);
    a->x = in (c, 2 * N, BF16);
    a->dx = out (c, 2 * N, BF16);
    return c;
}

/* --- attention --- */

static struct cases_call *rope (struct cases_call *c)
{
    int64_t heads = COLS / DIM, count = ROWS / BATCH;
    ARGS (rope, .tokens = ROWS, .batch = BATCH, .groups = 1, .heads = heads, .half = DIM / 2,
          .stride_g = COLS, .stride_h = DIM, .count = count, .dtype = BF16);
    a->x = both (c, N, BF16);
    a->table = in (c, count * DIM, F32);
    return c;
}

static struct cases_call *copy (struct cases_call *c)
{
    int64_t heads = COLS / DIM;
    ARGS (copy, .rows = ROWS, .heads = heads, .cols = DIM, .x_stride = COLS, .x_stride_h = DIM,
          .y_stride = COLS, .y_stride_h = DIM, .dtype = BF16);
    a->x = in (c, N, BF16);
    a->y = out (c, N, BF16);
    return c;
}

/* Rows of one sequence, with all heads in a row; no mask, as in the figures of others. */
static void describe_attention (struct cases_call *c, struct kern_attention_fwd *a)
{
    int64_t seq = c->size->seq, heads = c->size->heads, n = seq * heads * DIM;

    *a = (struct kern_attention_fwd){ .batch = 1, .heads = heads, .kv_heads = heads, .seq_q = seq,
                                      .seq_k = seq, .head_dim = DIM, .head_dim_v = DIM,
                                      .scale = 1 / sqrt (DIM), .dtype = BF16 };
    a->q_stride_h = a->q_stride_g = a->kv_stride_g = a->v_stride_g = a->out_stride_h = DIM;
    a->q_stride_s = a->kv_stride_s = a->v_stride_s = a->out_stride_s = heads * DIM;
    a->q_stride_b = a->kv_stride_b = a->v_stride_b = a->out_stride_b = heads * DIM;
    a->q = in (c, n, BF16);
    a->k = in (c, n, BF16);
    a->v = in (c, n, BF16);
    a->out = out (c, n, BF16);
    a->lse = alike (c, seq * heads, F32, 6, 1);
}

static struct cases_call *attention_fwd (struct cases_call *c)
{
    double seq = (double)c->size->seq;

    describe_attention (c, (struct kern_attention_fwd *)c->args);
    c->flops = 4 * seq * seq * (double)c->size->heads * DIM;
    return c;
}

/* Five products of the scores' size: those that every backward pass has. */
static struct cases_call *attention_bwd (struct cases_call *c)
{
    int64_t seq = c->size->seq, n = seq * c->size->heads * DIM;
    ARGS (attention_bwd, .grad_dtype = F32);
    describe_attention (c, &a->fwd);
    a->dout = in (c, n, BF16);
    a->dq = out (c, n, BF16);
    a->dk = out (c, n, BF16);
    a->dv = out (c, n, BF16);
    c->flops = 10 * (double)seq * (double)seq * (double)c->size->heads * DIM;
    return c;
}

static struct cases_call *attention_merge (struct cases_call *c)
{
    int64_t heads = COLS / DIM;
    ARGS (attention_merge, .batch = 1, .heads = heads, .seq_q = ROWS, .head_dim = DIM,
          .out_stride_s = COLS, .out_stride_b = COLS, .out_stride_h = DIM, .dtype = BF16,
          .part_dtype = BF16);
    a->out = both (c, N, BF16);
    a->part = in (c, N, BF16);
    a->lse = both (c, ROWS * heads, F32);
    a->part_lse = in (c, ROWS * heads, F32);
    return c;
}

/* --- embeddings and the loss --- */

static struct cases_call *embedding_fwd (struct cases_call *c)
{
    ARGS (embedding_fwd, .tokens = ROWS, .cols = COLS, .count = ROWS, .dtype = BF16);
    a->id = integers (c, ROWS, 7919, ROWS, 0);
    a->table = in (c, N, BF16);
    a->out = out (c, N, BF16);
    return c;
}

static struct cases_call *embedding_bwd (struct cases_call *c)
{
    ARGS (embedding_bwd, .tokens = ROWS, .cols = COLS, .count = ROWS, .dtype = BF16,
          .grad_dtype = F32);
    a->id = integers (c, ROWS, 7919, ROWS, 0);
    a->dout = in (c, N, BF16);
    a->dtable = both (c, N, F32);
    return c;
}

static struct cases_call *position_fwd (struct cases_call *c)
{
    ARGS (position_fwd, .tokens = ROWS, .cols = COLS, .count = ROWS / BATCH, .dtype = BF16);
    a->dropout = (struct kern_dropout){ .batch = BATCH };
    a->x = in (c, N, BF16);
    a->table = in (c, N / BATCH, BF16);
    a->y = out (c, N, BF16);
    return c;
}

static struct cases_call *position_bwd (struct cases_call *c)
{
    ARGS (position_bwd, .tokens = ROWS, .cols = COLS, .count = ROWS / BATCH, .dtype = BF16,
          .grad_dtype = F32);
    a->dropout = (struct kern_dropout){ .batch = BATCH };
    a->dy = in (c, N, BF16);
    a->dx = out (c, N, BF16);
    a->dtable = both (c, N / BATCH, F32);
    return c;
}

#define LOGITS (ROWS * c->size->vocab)

static struct cases_call *xent_max (struct cases_call *c)
{
    ARGS (xent_max, .tokens = ROWS, .cols = c->size->vocab, .valid = c->size->vocab);
    a->logits = in (c, LOGITS, F32);
    a->max = out (c, ROWS, F32);
    return c;
}

static struct cases_call *xent_sum (struct cases_call *c)
{
    ARGS (xent_sum, .tokens = ROWS, .cols = c->size->vocab, .valid = c->size->vocab);
    a->logits = in (c, LOGITS, F32);
    a->max = alike (c, ROWS, F32, 1, 1);
    a->label = integers (c, ROWS, 3, c->size->vocab, 0);
    a->sum = out (c, ROWS, F32);
    a->target = out (c, ROWS, F32);
    return c;
}

static struct cases_call *xent_loss (struct cases_call *c)
{
    ARGS (xent_loss, .tokens = ROWS);
    a->sum = alike (c, ROWS, F32, 3, 1);
    a->target = in (c, ROWS, F32);
    a->mask = alike (c, ROWS, F32, 1, 1);
    a->scale = out (c, ROWS, F32);
    a->out = out (c, 3, MG_FLOAT64);
    return c;
}

/* The gradient replaces the logits. */
static struct cases_call *backward_xent (struct cases_call *c, enum mg_dtype dtype)
{
    ARGS (xent_bwd, .tokens = ROWS, .cols = c->size->vocab, .valid = c->size->vocab,
          .dtype = dtype);
    a->logits = both (c, LOGITS, F32);
    a->max = alike (c, ROWS, F32, 1, 1);
    a->sum = alike (c, ROWS, F32, 9, 1);
    a->label = integers (c, ROWS, 3, c->size->vocab, 0);
    a->scale = in (c, ROWS, F32);
    c->bytes -= (double)LOGITS * (double)(4 - mg_dtype_size (dtype));
    return c;
}

static struct cases_call *xent_bwd (struct cases_call *c)
{
    return backward_xent (c, F32);
}

static struct cases_call *xent_bwd_bf16 (struct cases_call *c)
{
    return backward_xent (c, BF16);
}

/* --- the optimizer --- */

static struct kern_adamw update (struct cases_call *c)
{
    struct kern_adamw a = { .n = N, .grad_dtype = F32, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95,
                            .eps = 1e-8, .weight_decay = 0.1, .c1 = 0.1, .c2 = 0.05,
                            .grad_scale = 1 };

    a.grad = in (c, N, F32);
    return a;
}

static struct cases_call *adamw (struct cases_call *c)
{
    ARGS (adamw, 0);
    *a = update (c);
    a->param = (struct kern_state){ .data = both (c, N, F32), .dtype = F32 };
    a->m = (struct kern_state){ .data = both (c, N, F32), .dtype = F32 };
    a->v = (struct kern_state){ .data = alike (c, N, F32, 0.25f, 2), .dtype = F32,
                                .positive = true };
    return c;
}

static struct cases_call *adamw_copy (struct cases_call *c)
{
    struct kern_adamw *a = (struct kern_adamw *)adamw (c)->args;

    a->copy = out (c, N, BF16);
    a->copy_dtype = BF16;
    return c;
}

/* Parameters in two halves, moments in 16 bits. */
static struct kern_adamw update_stored (struct cases_call *c, int times)
{
    struct kern_adamw a = update (c);

    a.param = (struct kern_state){ .data = room (c, N, BF16, NAN, times), .dtype = BF16 };
    a.param.upper = room (c, N, BF16, NAN, times);
    a.m = (struct kern_state){ .data = room (c, N, BF16, NAN, times), .dtype = BF16 };
    a.v = (struct kern_state){ .data = room (c, N, BF16, 0.25f, times), .dtype = BF16,
                               .positive = true };
    return a;
}

static struct cases_call *adamw_stored (struct cases_call *c)
{
    ARGS (adamw, 0);
    *a = update_stored (c, 2);
    return c;
}

static struct cases_call *adamw_largest (struct cases_call *c)
{
    ARGS (adamw_largest, .update = update_stored (c, 1));
    a->out = out (c, 3, F32);
    return c;
}

static struct cases_call *state_load (struct cases_call *c)
{
    ARGS (state_load, .n = N, .dtype = F32);
    a->state = (struct kern_state){ .data = in (c, N, BF16), .dtype = BF16 };
    a->out = out (c, N, F32);
    return c;
}

static struct cases_call *state_store (struct cases_call *c)
{
    ARGS (state_store, .n = N, .dtype = F32);
    a->in = in (c, N, F32);
    a->state = (struct kern_state){ .data = out (c, N, BF16), .dtype = BF16 };
    return c;
}

/* --- arrays --- */

static struct cases_call *fill_normal (struct cases_call *c)
{
    ARGS (fill_normal, .rows = ROWS, .cols = COLS, .ld = COLS, .key = 9, .std = 0.02, .dtype = F32);
    a->out = out (c, N, F32);
    return c;
}

static struct cases_call *fill (struct cases_call *c)
{
    ARGS (fill, .n = N, .value = 1, .dtype = F32);
    a->out = out (c, N, F32);
    return c;
}

static struct cases_call *cast (struct cases_call *c)
{
    ARGS (cast, .n = N, .scale = 1, .from = F32, .to = BF16);
    a->x = in (c, N, F32);
    a->y = out (c, N, BF16);
    return c;
}

static struct cases_call *col_sum (struct cases_call *c)
{
    ARGS (col_sum, .rows = ROWS, .cols = COLS, .dtype = BF16, .grad_dtype = F32);
    a->x = in (c, N, BF16);
    a->out = both (c, COLS, F32);
    return c;
}

static struct cases_call *sum_sq (struct cases_call *c)
{
    ARGS (sum_sq, .n = N, .dtype = F32);
    a->x = in (c, N, F32);
    a->out = out (c, 1, MG_FLOAT64);
    return c;
}

static struct cases_call *max_abs (struct cases_call *c)
{
    ARGS (max_abs, .n = N, .dtype = F32);
    a->x = in (c, N, F32);
    a->out = out (c, 1, F32);
    return c;
}

static struct cases_call *count_zeros (struct cases_call *c)
{
    ARGS (count_zeros, .n = N, .dtype = F32);
    a->x = in (c, N, F32);
    a->out = out (c, 1, MG_FLOAT64);
    return c;
}

/* --- experts --- */

static struct cases_call *gemm_double (struct cases_call *c)
{
    int64_t m = ROWS, n = 64, k = c->size->deep;
    ARGS (gemm_double, .trans_b = true, .m = m, .n = n, .k = k, .lda = k, .ldb = k, .ldc = n,
          .a_dtype = BF16, .b_dtype = F32, .c_dtype = MG_FLOAT64);
    a->a = in (c, m * k, BF16);
    a->b = in (c, n * k, F32);
    a->c = out (c, m * n, MG_FLOAT64);
    c->flops = 2 * (double)m * (double)n * (double)k;
    return c;
}

enum { EXPERTS = 64 }; /* of a router */

static struct kern_router router_of (const struct cases_call *c)
{
    return (struct kern_router){ .tokens = ROWS, .experts = EXPERTS, .topk = TOPK,
                                 .score = KERN_SOFTMAX, .dtype = F32 };
}

static struct cases_call *router_fwd (struct cases_call *c)
{
    ARGS (router_fwd, .router = router_of (c));
    a->logits = in (c, ROWS * EXPERTS, F32);
    a->index = integers (c, ROWS * TOPK, 1, EXPERTS, 0);
    a->prob = out (c, ROWS * TOPK, F32);
    return c;
}

static struct cases_call *router_bwd (struct cases_call *c)
{
    ARGS (router_bwd, .router = router_of (c));
    a->logits = in (c, ROWS * EXPERTS, F32);
    a->index = integers (c, ROWS * TOPK, 1, EXPERTS, 0);
    a->dprob = in (c, ROWS * TOPK, F32);
    a->dlogits = out (c, ROWS * EXPERTS, F32);
    return c;
}

static struct cases_call *router_sums (struct cases_call *c)
{
    ARGS (router_sums, .tokens = ROWS, .experts = EXPERTS, .topk = TOPK, .batch = 1,
          .score = KERN_SOFTMAX, .dtype = F32);
    a->logits = in (c, ROWS * EXPERTS, F32);
    a->count = both (c, EXPERTS, F32);
    a->sum = both (c, EXPERTS, F32);
    return c;
}

static struct cases_call *jitter (struct cases_call *c)
{
    ARGS (jitter, .rows = ROWS, .cols = COLS, .eps = 0.01, .dtype = BF16);
    a->place = (struct kern_place){ .key = 5, .batch = BATCH };
    a->place.sample = samples (c);
    a->x = in (c, N, BF16);
    a->y = out (c, N, BF16);
    return c;
}

static struct cases_call *row_gather (struct cases_call *c)
{
    ARGS (row_gather, .rows = ROWS, .cols = COLS, .dtype = BF16);
    a->source = integers (c, ROWS, 7919, ROWS, 0);
    a->x = in (c, N, BF16);
    a->y = out (c, N, BF16);
    return c;
}

static struct cases_call *row_combine (struct cases_call *c)
{
    int64_t tokens = ROWS / TOPK;
    ARGS (row_combine, .tokens = tokens, .topk = TOPK, .cols = COLS, .dtype = BF16);
    a->row = integers (c, ROWS, 7919, ROWS, 0);
    a->weight = in (c, ROWS, F32);
    a->x = in (c, N, BF16);
    a->y = out (c, tokens * COLS, BF16);
    return c;
}

static struct cases_call *row_dot (struct cases_call *c)
{
    int64_t tokens = ROWS / TOPK;
    ARGS (row_dot, .tokens = tokens, .topk = TOPK, .cols = COLS, .dtype = BF16);
    a->row = integers (c, ROWS, 7919, ROWS, 0);
    a->x = in (c, N, BF16);
    a->y = in (c, tokens * COLS, BF16);
    a->out = out (c, ROWS, F32);
    return c;
}

static struct cases_call *expert_sort (struct cases_call *c)
{
    ARGS (expert_sort, .tokens = ROWS / TOPK, .topk = TOPK, .experts = EXPERTS);
    a->index = integers (c, ROWS, 7919, EXPERTS, 0);
    a->row = integers (c, ROWS, 1, ROWS, 0);
    a->source = integers (c, ROWS, 1, ROWS, 0);
    a->offset = c->memory->bytes ((EXPERTS + 1) * 8, NULL);
    return c;
}

/* A product of 'rows' rows, 'cols' columns and the inner dimension 'deep'. */
static struct cases_call *expert_gemm (struct cases_call *c, enum kern_expert_form form)
{
    int64_t deep = c->size->deep, experts = c->size->experts;
    ARGS (expert_gemm, .form = form, .experts = experts, .rows = ROWS, .dtype = BF16,
          .c_dtype = form == KERN_EXPERT_WGRAD ? F32 : BF16);
    a->in = form == KERN_EXPERT_FWD ? deep : COLS;
    a->out = form == KERN_EXPERT_FWD ? COLS : deep;
    a->accumulate = form == KERN_EXPERT_WGRAD;
    a->offset = offsets (c);
    a->x = in (c, ROWS * a->in, BF16);
    a->w = form == KERN_EXPERT_WGRAD ? both (c, experts * COLS * deep, F32)
                                     : in (c, experts * COLS * deep, BF16);
    a->y = in (c, ROWS * a->out, BF16);
    c->flops = 2 * (double)ROWS * (double)COLS * (double)deep;
    return c;
}

static struct cases_call *expert_fwd (struct cases_call *c)
{
    return expert_gemm (c, KERN_EXPERT_FWD);
}

static struct cases_call *expert_dgrad (struct cases_call *c)
{
    return expert_gemm (c, KERN_EXPERT_DGRAD);
}

static struct cases_call *expert_wgrad (struct cases_call *c)
{
    return expert_gemm (c, KERN_EXPERT_WGRAD);
}

static struct cases_call *expert_bias_fwd (struct cases_call *c)
{
    ARGS (expert_bias_fwd, .experts = c->size->experts, .rows = ROWS, .cols = COLS, .dtype = BF16);
    a->offset = offsets (c);
    a->bias = in (c, c->size->experts * COLS, BF16);
    a->x = both (c, N, BF16);
    return c;
}

static struct cases_call *expert_bias_bwd (struct cases_call *c)
{
    ARGS (expert_bias_bwd, .experts = c->size->experts, .rows = ROWS, .cols = COLS, .dtype = BF16,
          .grad_dtype = F32);
    a->offset = offsets (c);
    a->dx = in (c, N, BF16);
    a->dbias = both (c, c->size->experts * COLS, F32);
    return c;
}

static struct cases_call *expert_act_fwd (struct cases_call *c)
{
    ARGS (expert_act_fwd, .fwd = { .rows = ROWS, .cols = COLS, .act = swiglu, .dtype = BF16 });
    a->factor = in (c, ROWS, F32);
    a->fwd.x = in (c, 2 * N, BF16);
    a->fwd.y = out (c, N, BF16);
    return c;
}

static struct cases_call *expert_act_bwd (struct cases_call *c)
{
    ARGS (expert_act_bwd, .bwd = { .rows = ROWS, .cols = COLS, .act = swiglu, .dtype = BF16 });
    a->factor = in (c, ROWS, F32);
    a->dfactor = out (c, ROWS, F32);
    a->bwd.dy = in (c, N, BF16);
    a->bwd.x = in (c, 2 * N, BF16);
    a->bwd.dx = out (c, 2 * N, BF16);
    return c;
}

#define STREAM(NAME, OP, reason) { #NAME, KERN_##OP, CASES_STREAM, reason, NAME }
#define PRODUCT(NAME, OP) { #NAME, KERN_##OP, CASES_PRODUCT, NULL, NAME }
#define OTHER(NAME, OP) { #NAME, KERN_##OP, CASES_OTHER, NULL, NAME }

const struct cases_row cases[] = {
    STREAM (norm_fwd, NORM_FWD,
            "reads the weight for each row: a cache has it"),
    STREAM (norm_bwd, NORM_BWD,
            "reads the weight for each row: a cache has it"),
    STREAM (bda_fwd, BIAS_DROPOUT_ADD_FWD,
            "reads the bias for each row: a cache has it"),
    STREAM (bda_fwd_dropout, BIAS_DROPOUT_ADD_FWD, NULL),
    STREAM (bda_bwd, BIAS_DROPOUT_ADD_BWD, NULL),
    STREAM (gelu_fwd, ACT_FWD, NULL),
    STREAM (gelu_bwd, ACT_BWD, NULL),
    STREAM (swiglu_fwd, ACT_FWD, NULL),
    STREAM (swiglu_bwd, ACT_BWD, NULL),
    STREAM (rope, ROPE,
            "reads the factors of a token for each head: a cache has them"),
    STREAM (copy, COPY, NULL),
    PRODUCT (attention_fwd, ATTENTION_FWD),
    PRODUCT (attention_bwd, ATTENTION_BWD),
    STREAM (attention_merge, ATTENTION_MERGE,
            "reads a number of each row once a pack: a cache has it"),
    STREAM (embedding_fwd, EMBEDDING_FWD, NULL),
    STREAM (embedding_bwd, EMBEDDING_BWD,
            "sorts at least 2048 keys: few beside the rows of a batch"),
    STREAM (position_fwd, POSITION_FWD,
            "reads the table for each sequence: a cache has it"),
    STREAM (position_bwd, POSITION_BWD,
            "sorts at least 2048 keys: few beside the rows of a batch"),
    STREAM (xent_max, XENT_MAX, NULL),
    STREAM (xent_sum, XENT_SUM, NULL),
    STREAM (xent_loss, XENT_LOSS,
            "a few numbers a token"),
    STREAM (xent_bwd, XENT_BWD, NULL),
    STREAM (xent_bwd_bf16, XENT_BWD, NULL),
    STREAM (adamw, ADAMW, NULL),
    STREAM (adamw_copy, ADAMW, NULL),
    STREAM (adamw_stored, ADAMW, NULL),
    STREAM (adamw_largest, ADAMW_LARGEST,
            "the last steps of a block's sum have bank conflicts"),
    STREAM (state_load, STATE_LOAD, NULL),
    STREAM (state_store, STATE_STORE, NULL),
    STREAM (fill_normal, FILL_NORMAL,
            "stores element by element: it runs once, at the start"),
    STREAM (fill, FILL, NULL),
    STREAM (cast, CAST, NULL),
    STREAM (col_sum, COL_SUM, NULL),
    STREAM (sum_sq, SUM_SQ,
            "the last steps of a block's sum have bank conflicts"),
    STREAM (max_abs, MAX_ABS,
            "the last steps of a block's sum have bank conflicts"),
    STREAM (count_zeros, COUNT_ZEROS,
            "the last steps of a block's sum have bank conflicts"),
    PRODUCT (gemm_double, GEMM_DOUBLE),
    OTHER (router_fwd, ROUTER_FWD),
    OTHER (router_bwd, ROUTER_BWD),
    OTHER (router_sums, ROUTER_SUMS),
    STREAM (jitter, JITTER, NULL),
    STREAM (row_gather, ROW_GATHER, NULL),
    STREAM (row_combine, ROW_COMBINE, NULL),
    STREAM (row_dot, ROW_DOT, NULL),
    OTHER (expert_sort, EXPERT_SORT),
    PRODUCT (expert_fwd, EXPERT_GEMM),
    PRODUCT (expert_dgrad, EXPERT_GEMM),
    PRODUCT (expert_wgrad, EXPERT_GEMM),
    STREAM (expert_bias_fwd, EXPERT_BIAS_FWD,
            "reads the bias for each row: a cache has it"),
    STREAM (expert_bias_bwd, EXPERT_BIAS_BWD,
            "adds to gradients element by element: few beside the rows"),
    STREAM (expert_act_fwd, EXPERT_ACT_FWD, NULL),
    STREAM (expert_act_bwd, EXPERT_ACT_BWD, NULL),
};
const size_t cases_count = sizeof (cases) / sizeof (cases[0]);

void cases_make (const struct cases_row *row, struct cases_call *c)
{
    c->bytes = c->flops = 0;
    memset (c->args, 0, sizeof (c->args));
    if (kern_op_size (row->op) > sizeof (c->args))
        bail_out ("%s: its arguments have %zu bytes", row->name, kern_op_size (row->op));
    row->make (c);
}

bool cases_lack (enum kern_op op)
{
    switch (op) {
    case KERN_GEMM: /* a library's */
    case KERN_ROUTER_LOSS:
    case KERN_ROUTER_LOSS_BWD:
    case KERN_ROUTER_SINKHORN:
    case KERN_ROUTER_QUANTILE:
    case KERN_ROUTER_BETA:
    case KERN_ROUTER_BIAS:
    case KERN_ROUTER_RANDOM:
    case KERN_ROUTER_CAPACITY:
    case KERN_EXPERT_CHUNKS: return true;
    default: return false;
    }
}
