/* scratch - what ops say they need besides their operands is what they need: with as much
 * they run, and stay inside; with less they refuse.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/tape.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { MAX = 400, MATRIX = MAX * MAX };

/* Operands of all calls; 16-bit ones lie in the same memory. */
struct operands {
    float *a, *b, *c, *d;
};

struct call {
    const char *name;
    int (*run) (const struct kernels *k, const struct operands *o, const struct call *call,
                struct mg_error *err);
    int64_t m, n, l;
    enum mg_dtype dtype, c_dtype;
    bool trans_a, trans_b, accumulate;
};

static int run_gemm (const struct kernels *k, const struct operands *o,
                     const struct call *c, struct mg_error *err)
{
    struct kern_gemm g = {
        .trans_a = c->trans_a, .trans_b = c->trans_b, .accumulate = c->accumulate,
        .m = c->m, .n = c->n, .k = c->l, .dtype = c->dtype, .c_dtype = c->c_dtype,
        .a = o->a, .lda = c->trans_a ? c->m : c->l,
        .b = o->b, .ldb = c->trans_b ? c->l : c->n,
        .c = o->c, .ldc = c->n,
        .bias = c->trans_b ? o->d : NULL,
    };

    return kern_gemm (k, &g, NULL, err);
}

static int run_norm (const struct kernels *k, const struct operands *o,
                     const struct call *c, struct mg_error *err)
{
    struct kern_norm_bwd n = {
        .rows = c->m, .cols = c->n, .dtype = c->dtype,
        .dy = o->a, .x = o->b, .weight = o->d, .stat = o->a, .dx = o->c,
        .dweight = o->d + MAX, .dbias = o->d + 2 * MAX, .grad_dtype = c->c_dtype,
    };

    return kern_norm_bwd (k, &n, NULL, err);
}

static int run_col_sum (const struct kernels *k, const struct operands *o,
                        const struct call *c, struct mg_error *err)
{
    return kern_col_sum (k,
            &(struct kern_col_sum){ .rows = c->m, .cols = c->n, .x = o->a,
                                    .dtype = c->dtype, .out = o->d,
                                    .grad_dtype = c->c_dtype },
            NULL, err);
}

static int run_dropout (const struct kernels *k, const struct operands *o,
                        const struct call *c, struct mg_error *err)
{
    struct kern_bias_dropout_add_bwd b = {
        .rows = c->m, .cols = c->n, .dtype = c->dtype,
        .dy = o->a, .dx = o->c, .dbias = c->accumulate ? o->d : NULL,
        .grad_dtype = c->c_dtype,
    };

    return kern_bias_dropout_add_bwd (k, &b, NULL, err);
}

/* m tokens of which every other one is of the n words, in l columns. */
static int run_embedding (const struct kernels *k, const struct operands *o,
                          const struct call *c, struct mg_error *err)
{
    static int32_t id[MAX];
    struct kern_embedding_bwd e = {
        .tokens = c->m, .cols = c->l, .id = id, .first = 1, .count = c->n,
        .dout = o->a, .dtable = o->c, .dtype = c->dtype, .grad_dtype = c->c_dtype,
    };

    for (int i = 0; i < MAX; i++)
        id[i] = i % 2 * (1 + i % (int)c->n);
    return kern_embedding_bwd (k, &e, NULL, err);
}

/* m positions, 2 batch entries, n heads, of l features. */
static struct kern_attention_fwd attention (const struct operands *o, const struct call *c)
{
    return (struct kern_attention_fwd){
        .batch = 2, .heads = c->n, .kv_heads = c->n, .seq_q = c->m, .seq_k = c->m,
        .head_dim = c->l, .scale = 1, .causal = true, .dtype = c->dtype,
        .q = o->a, .k = o->a, .v = o->a, .out = o->b, .lse = o->d,
        .q_stride_s = 2 * c->n * c->l, .q_stride_b = c->n * c->l, .q_stride_g = c->l,
        .kv_stride_s = 2 * c->n * c->l, .kv_stride_b = c->n * c->l, .kv_stride_g = c->l,
        .out_stride_s = 2 * c->n * c->l, .out_stride_b = c->n * c->l, .out_stride_h = c->l,
    };
}

static int run_attention (const struct kernels *k, const struct operands *o,
                          const struct call *c, struct mg_error *err)
{
    struct kern_attention_fwd a = attention (o, c);
    struct kern_attention_bwd g = { .fwd = a, .dout = o->b, .dq = o->c, .dk = o->c,
                                    .dv = o->c };

    return c->accumulate ? kern_attention_bwd (k, &g, NULL, err)
                         : kern_attention_fwd (k, &a, NULL, err);
}

/* m rows of 3 experts, from l to n features; the form is that of trans_a, trans_b. */
static int run_expert_gemm (const struct kernels *k, const struct operands *o,
                            const struct call *c, struct mg_error *err)
{
    struct kern_expert_gemm g = {
        .form = c->trans_a ? KERN_EXPERT_WGRAD : c->trans_b ? KERN_EXPERT_FWD : KERN_EXPERT_DGRAD,
        .accumulate = c->accumulate, .experts = 3, .rows = c->m, .in = c->l, .out = c->n,
        .offset = (const int64_t *)o->d, .dtype = c->dtype, .c_dtype = c->c_dtype,
    };

    g.x = g.form == KERN_EXPERT_DGRAD ? o->c : o->a;
    g.w = g.form == KERN_EXPERT_WGRAD ? o->c : o->b;
    g.y = g.form == KERN_EXPERT_FWD ? o->c : g.form == KERN_EXPERT_WGRAD ? o->b : o->a;
    if (!k->tape) {
        int64_t offset[] = { 0, c->m / 2, c->m / 2, c->m };
        int rc;

        memcpy (o->d, offset, sizeof (offset));
        rc = kern_expert_gemm (k, &g, NULL, err);
        memset (o->d, 0, sizeof (offset));
        return rc;
    }
    return kern_expert_gemm (k, &g, NULL, err);
}

static int run_gemm_double (const struct kernels *k, const struct operands *o,
                            const struct call *c, struct mg_error *err)
{
    struct kern_gemm_double g = { .m = c->m, .n = c->n, .k = c->l, .a = o->a, .lda = c->l,
                                  .b = o->b, .ldb = c->n, .c = o->c, .ldc = c->n,
                                  .a_dtype = c->dtype, .b_dtype = c->c_dtype };

    return kern_gemm_double (k, &g, NULL, err);
}

/* m tokens to l of n experts. */
static struct kern_router router_of (const struct call *c)
{
    return (struct kern_router){ .tokens = c->m, .experts = c->n, .topk = c->l,
                                 .score = KERN_SIGMOID, .groups = 5, .group_topk = 3 };
}

static int run_router (const struct kernels *k, const struct operands *o, const struct call *c,
                       struct mg_error *err)
{
    struct kern_router_fwd f = { router_of (c), o->a, .index = (int32_t *)o->b, .prob = o->c };
    struct kern_router_bwd b = { router_of (c), o->a, (const int32_t *)o->a, o->a, true, o->c };

    return c->accumulate ? kern_router_bwd (k, &b, NULL, err)
                         : kern_router_fwd (k, &f, NULL, err);
}

/* 4 sequences. */
static int run_router_loss (const struct kernels *k, const struct operands *o,
                            const struct call *c, struct mg_error *err)
{
    struct kern_router_sums s = { c->m, c->n, c->l, 4, KERN_SIGMOID, o->a, MG_FLOAT32, NULL, o->b,
                                  o->c, (double *)o->d };
    struct kern_router_loss_bwd b = { c->m, c->n, 4, KERN_SIGMOID, o->a, MG_FLOAT32, NULL, o->b, 1,
                                      1, NULL, o->c };
    int rc = c->accumulate ? kern_router_loss_bwd (k, &b, NULL, err)
                           : kern_router_sums (k, &s, NULL, err);

    if (!k->tape)
        memset (o->d, 0, sizeof (double));
    return rc;
}

static int run_sinkhorn (const struct kernels *k, const struct operands *o, const struct call *c,
                         struct mg_error *err)
{
    struct kern_router_sinkhorn s = { c->m, c->n, c->l, o->a, MG_FLOAT32, 1e-4, (int32_t *)o->b,
                                      NULL };

    return kern_router_sinkhorn (k, &s, NULL, err);
}

static int run_quantile (const struct kernels *k, const struct operands *o, const struct call *c,
                         struct mg_error *err)
{
    struct kern_router_quantile q = { c->m, c->n, c->l, o->a, MG_FLOAT32, o->b, o->c };

    return kern_router_quantile (k, &q, NULL, err);
}

static int run_capacity (const struct kernels *k, const struct operands *o, const struct call *c,
                         struct mg_error *err)
{
    struct kern_router_capacity a = { c->m, c->l, c->n, (const int32_t *)o->a, o->a, 7, true,
                                      (int32_t *)o->c };

    return kern_router_capacity (k, &a, NULL, err);
}

static int run_sort (const struct kernels *k, const struct operands *o, const struct call *c,
                     struct mg_error *err)
{
    struct kern_expert_sort a = { .tokens = c->m, .topk = c->l, .index = (const int32_t *)o->a,
                                  .experts = c->n, .row = (int32_t *)o->c };
    struct kern_expert_chunks b = { 1, c->m, c->n, (const int64_t *)o->a, .limit = 9,
                                    .row = (int32_t *)o->c };

    return c->accumulate ? kern_expert_chunks (k, &b, NULL, err)
                         : kern_expert_sort (k, &a, NULL, err);
}

/* c_dtype is float32 where nothing is said. */
static const struct call calls[] = {
    { "product", run_gemm, 33, 70, 40, MG_FLOAT32, .trans_b = true },
    { "large product", run_gemm, 300, 390, 310, MG_FLOAT32, .trans_a = true },
    { "added product", run_gemm, 65, 129, 17, MG_FLOAT32, .accumulate = true },
    { "bfloat16 product", run_gemm, 33, 70, 40, MG_BFLOAT16, .c_dtype = MG_BFLOAT16,
      .trans_b = true },
    { "bfloat16 product of blocks", run_gemm, 399, 257, 390, MG_BFLOAT16,
      .c_dtype = MG_BFLOAT16 },
    { "bfloat16 product to float32", run_gemm, 70, 33, 390, MG_BFLOAT16,
      .trans_a = true, .accumulate = true },
    { "float16 product", run_gemm, 129, 129, 129, MG_FLOAT16, .c_dtype = MG_FLOAT16 },
    { "product of mixed types", run_gemm, 20, 30, 40, MG_FLOAT32, .c_dtype = MG_BFLOAT16 },
    { "norm", run_norm, 65, 39, 0, MG_FLOAT32, .c_dtype = MG_FLOAT32 },
    { "bfloat16 norm", run_norm, 300, 400, 0, MG_BFLOAT16, .c_dtype = MG_FLOAT32 },
    { "norm with bfloat16 gradients", run_norm, 65, 39, 0, MG_BFLOAT16,
      .c_dtype = MG_BFLOAT16 },
    { "column sums", run_col_sum, 399, 77, 0, MG_FLOAT16, .c_dtype = MG_FLOAT32 },
    { "float16 column sums", run_col_sum, 399, 77, 0, MG_FLOAT16, .c_dtype = MG_FLOAT16 },
    { "dropout", run_dropout, 30, 50, 0, MG_FLOAT32, .c_dtype = MG_FLOAT32 },
    { "dropout with a bias", run_dropout, 130, 50, 0, MG_BFLOAT16, .accumulate = true },
    { "dropout with a bfloat16 bias", run_dropout, 130, 50, 0, MG_BFLOAT16,
      .c_dtype = MG_BFLOAT16,
      .accumulate = true },
    { "embedding", run_embedding, 399, 70, 30, MG_BFLOAT16, .c_dtype = MG_FLOAT32 },
    { "embedding with bfloat16 gradients", run_embedding, 399, 70, 130, MG_BFLOAT16,
      .c_dtype = MG_BFLOAT16 },
    { "attention", run_attention, 65, 3, 24, MG_FLOAT32, .c_dtype = MG_FLOAT32 },
    { "bfloat16 attention", run_attention, 100, 2, 7, MG_BFLOAT16, .c_dtype = MG_FLOAT32 },
    { "attention backward", run_attention, 129, 1, 24, MG_FLOAT32, .accumulate = true },
    { "float16 attention backward", run_attention, 65, 5, 9, MG_FLOAT16,
      .accumulate = true },
    { "experts", run_expert_gemm, 70, 130, 40, MG_FLOAT32, .trans_b = true },
    { "experts, bfloat16", run_expert_gemm, 70, 130, 40, MG_BFLOAT16, .c_dtype = MG_BFLOAT16,
      .trans_b = true },
    { "experts' rows, bfloat16", run_expert_gemm, 300, 33, 140, MG_BFLOAT16,
      .c_dtype = MG_BFLOAT16, .accumulate = true },
    { "experts' weights, float16", run_expert_gemm, 300, 270, 140, MG_FLOAT16, .trans_a = true },
    { "experts' weights, bfloat16", run_expert_gemm, 300, 270, 140, MG_BFLOAT16, .trans_a = true },
    { "experts' weights in bfloat16", run_expert_gemm, 390, 270, 140, MG_BFLOAT16,
      .c_dtype = MG_BFLOAT16, .trans_a = true, .accumulate = true },
    { "product in double", run_gemm_double, 70, 65, 129, MG_BFLOAT16, .c_dtype = MG_BFLOAT16 },
    { "router", run_router, 300, 15, 4, MG_FLOAT32, .accumulate = false },
    { "router backward", run_router, 300, 15, 4, MG_FLOAT32, .accumulate = true },
    { "sums of a router", run_router_loss, 399, 15, 4, MG_FLOAT32, .accumulate = false },
    { "losses of a router", run_router_loss, 399, 15, 4, MG_FLOAT32, .accumulate = true },
    { "Sinkhorn", run_sinkhorn, 300, 15, 4, MG_FLOAT32, .accumulate = false },
    { "quantiles", run_quantile, 300, 15, 4, MG_FLOAT32, .accumulate = false },
    { "capacity", run_capacity, 300, 15, 4, MG_FLOAT32, .accumulate = false },
    { "sort by expert", run_sort, 300, 15, 4, MG_FLOAT32, .accumulate = false },
    { "chunks", run_sort, 300, 15, 4, MG_FLOAT32, .accumulate = true },
};

static size_t plan (struct kernels *k, const struct operands *untouchable,
                    const struct call *call, struct mg_error *err)
{
    struct kernels planning = *k;
    struct kern_tape tape = { 0 };

    planning.tape = &tape;
    if (call->run (&planning, untouchable, call, err) < 0)
        bail_out ("%s: %s", call->name, err->text);
    if (tape.count != 1)
        bail_out ("%s: %zu calls", call->name, tape.count);
    return kern_tape_scratch (&tape, NULL);
}

/* Exactly what was planned, at the end of an allocation, with a mark in front and behind. */
static void check (const struct kit_variant *v, const struct operands *o,
                   const struct operands *untouchable, const struct call *call)
{
    struct mg_error err = { "" };
    size_t size = plan (v->k, untouchable, call, &err);
    char *memory = aligned_alloc (64, (size + 63) / 64 * 64 + 128);

    if (!memory)
        bail_out ("out of memory");
    memset (memory, 77, (size + 63) / 64 * 64 + 128);
    kernels_cpu_set_scratch (v->k, NULL, memory + 64, size, &err);
    ok (call->run (v->k, o, call, &err) == 0 && memory[63] == 77 && memory[64 + size] == 77,
        "%s, %s: %zu bytes are enough %s", call->name, v->name, size, err.text);
    if (size > 0) {
        kernels_cpu_set_scratch (v->k, NULL, memory + 64, size - 1, &err);
        errno = 0;
        ok (call->run (v->k, o, call, &err) < 0 && errno == ENOMEM
                && strstr (err.text, "were planned"),
            "and one less are not: %s", err.text);
    }
    kernels_cpu_set_scratch (v->k, NULL, NULL, 0, &err);
    free (memory);
}

int main (void)
{
    struct operands o = { .a = calloc (MATRIX, sizeof (float)),
                          .b = calloc (MATRIX, sizeof (float)),
                          .c = calloc (MATRIX, sizeof (float)),
                          .d = calloc (MATRIX, sizeof (float)) };
    /* who looks at these ends the test */
    const size_t size = MATRIX * sizeof (float);
    void *closed = mmap (NULL, 4 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    float *far = closed;
    const struct operands untouchable = { far, far + MATRIX, far + 2 * MATRIX,
                                          far + 3 * MATRIX };
    struct kit kit;

    if (closed == MAP_FAILED)
        bail_out ("mmap");
    if (!o.a || !o.b || !o.c || !o.d)
        bail_out ("out of memory");
    kit_open_cpu (&kit);
    for (size_t v = 0; v < kit.count; v++)
        for (size_t c = 0; c < sizeof (calls) / sizeof (calls[0]); c++)
            check (&kit.variants[v], &o, &untouchable, &calls[c]);
    kit_close (&kit);
    munmap (closed, 4 * size);
    free (o.a);
    free (o.b);
    free (o.c);
    free (o.d);
    return done_testing ();
}
