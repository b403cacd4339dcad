/* kernels_moe.c - how fast the operations of mixture-of-experts layers are
 *
 * Products of all experts stand beside one dense product of the same rows, which has the same
 * floating-point operations, and beside the fastest square product.  Rows that are permuted stand
 * beside a copy of as many bytes, a router beside the logits' product.
 */

#include <string.h>

#include "bench/kernels.h"

/* Rows are 'topk' for each token, and go to all experts alike, or 'uneven': more to later ones. */
static const struct shape {
    int64_t tokens, experts, topk, in, out;
    bool uneven;
} shapes[] = {
    { 1024, 8, 2, 1024, 3584, false }, { 1024, 8, 2, 1024, 3584, true },
    { 1024, 64, 8, 1024, 512, false }, { 1024, 64, 8, 1024, 512, true },
    { 256, 64, 8, 1024, 512, true },
};

struct routing {
    int64_t choices;
    int32_t *index, *row, *source;
    float *prob;
    int64_t *offset;
};

static void *get (size_t n, size_t size)
{
    void *p = calloc (n, size);

    if (!p)
        die ("out of memory");
    return p;
}

/* Choices that follow no pattern; 'uneven': the square of a uniform number. */
static struct routing route (struct bench *b, const struct shape *s)
{
    struct routing r = { .choices = s->tokens * s->topk };
    struct kern_expert_sort a = { .tokens = s->tokens, .topk = s->topk, .experts = s->experts };
    uint64_t state = 1;

    r.index = get ((size_t)r.choices, 4);
    r.row = get ((size_t)r.choices, 4);
    r.source = get ((size_t)r.choices, 4);
    r.prob = get ((size_t)r.choices, 4);
    r.offset = get ((size_t)s->experts + 1, 8);
    for (int64_t c = 0; c < r.choices; c++) {
        double u;

        state = state * 6364136223846793005u + 1442695040888963407u;
        u = (double)(state >> 40) * 0x1p-24;
        r.index[c] = (int32_t)((s->uneven ? sqrt (u) : u) * (double)s->experts);
        r.prob[c] = 0.5f;
    }
    a.index = r.index;
    a.row = r.row;
    a.source = r.source;
    a.offset = r.offset;
    if (kern_expert_sort (b->k, &a, NULL, NULL) < 0)
        die ("a kernel failed");
    return r;
}

static void release (struct routing *r)
{
    free (r->index);
    free (r->row);
    free (r->source);
    free (r->prob);
    free (r->offset);
}

#define CALL(op)                                                        \
    static int call_##op (struct bench *b, const void *what)            \
    {                                                                   \
        return kern_##op (b->k, what, NULL, NULL);                      \
    }
CALL (expert_gemm)
CALL (row_gather)
CALL (row_combine)
CALL (router_fwd)
CALL (router_bwd)
CALL (router_sums)
CALL (expert_sort)
#undef CALL

/* --- products --- */

/* The product of all rows with one weight. */
static double dense_rate (struct bench *b, const struct shape *s, enum kern_expert_form form,
                          enum mg_dtype dtype, enum mg_dtype c_dtype)
{
    int64_t rows = s->tokens * s->topk;
    struct kern_gemm g = { .a = b->a, .b = b->b, .c = b->c, .dtype = dtype, .c_dtype = c_dtype };

    g.trans_a = g.accumulate = form == KERN_EXPERT_WGRAD;
    g.trans_b = form == KERN_EXPERT_FWD;
    g.m = form == KERN_EXPERT_WGRAD ? s->out : rows;
    g.n = form == KERN_EXPERT_FWD ? s->out : s->in;
    g.k = form == KERN_EXPERT_FWD ? s->in : form == KERN_EXPERT_DGRAD ? s->out : rows;
    g.lda = form == KERN_EXPERT_FWD ? s->in : s->out;
    g.ldb = s->in;
    g.ldc = g.n;
    return gemm_rate (b, &g);
}

static double expert_rate (struct bench *b, const struct shape *s, const struct routing *r,
                           enum kern_expert_form form, enum mg_dtype dtype,
                           enum mg_dtype c_dtype)
{
    struct kern_expert_gemm g = { .form = form, .accumulate = form == KERN_EXPERT_WGRAD,
                                  .experts = s->experts, .rows = r->choices, .in = s->in,
                                  .out = s->out, .offset = r->offset, .dtype = dtype,
                                  .c_dtype = c_dtype };

    g.x = form == KERN_EXPERT_DGRAD ? b->c : b->a;
    g.w = form == KERN_EXPERT_WGRAD ? b->c : b->b;
    g.y = form == KERN_EXPERT_FWD ? b->c : form == KERN_EXPERT_DGRAD ? b->a : b->b;
    return 2e-9 * (double)r->choices * (double)s->in * (double)s->out
           / best_of (call_expert_gemm, b, &g);
}

static void bench_products (struct bench *b, enum mg_dtype dtype)
{
    static const char *const names[] = { "forward", "dgrad", "wgrad" };
    double floor;

    bench_fill (b, dtype);
    floor = square_rate (b, dtype);
    printf ("experts, %s: best square product %.0f GFLOP/s; of it, and of the dense product\n",
            mg_dtype_name (dtype), floor);
    for (size_t i = 0; i < sizeof (shapes) / sizeof (shapes[0]); i++) {
        const struct shape *s = &shapes[i];
        struct routing r = route (b, s);

        printf ("  %2d experts, %4d rows%s, %d x %d:", (int)s->experts, (int)r.choices,
                s->uneven ? " uneven" : "", (int)s->in, (int)s->out);
        for (int form = 0; form < 3; form++) {
            enum mg_dtype c_dtype = form == KERN_EXPERT_WGRAD ? MG_FLOAT32 : dtype;
            double dense = dense_rate (b, s, (enum kern_expert_form)form, dtype, c_dtype);
            double rate = expert_rate (b, s, &r, (enum kern_expert_form)form, dtype, c_dtype);

            printf ("  %s %4.0f (%.2f, %.2f)", names[form], rate, rate / floor, rate / dense);
        }
        printf ("\n");
        release (&r);
    }
}

/* The products of a layer with gated experts in a step, forward and backward, in float32. */
static void bench_layer (struct bench *b, int64_t experts, int64_t rows, int64_t hidden,
                         int64_t ffn)
{
    const struct shape shapes[] = { { rows, experts, 1, hidden, 2 * ffn, false },
                                    { rows, experts, 1, ffn, hidden, false } };
    double time = 0;

    for (int i = 0; i < 2; i++) {
        const struct shape *s = &shapes[i];
        struct routing r = route (b, s);

        for (int form = 0; form < 3; form++)
            time += 2e-9 * (double)(rows * s->in * s->out)
                    / expert_rate (b, s, &r, (enum kern_expert_form)form, MG_FLOAT32, MG_FLOAT32);
        release (&r);
    }
    printf ("%d experts of %d x %d, %d rows: %.2f ms\n", (int)experts, (int)hidden, (int)ffn,
            (int)rows, 1e3 * time);
}

/* Those of bench/experts: on one rank, and on one of two that share the experts. */
void bench_layers (struct bench *b)
{
    bench_fill (b, MG_FLOAT32);
    for (int64_t ranks = 1; ranks <= 2; ranks++) {
        bench_layer (b, 8 / ranks, 2048, 768, 2048);
        bench_layer (b, 64 / ranks, 8192, 768, 512);
    }
}

/* --- rows --- */

static int call_copy (struct bench *b, const void *what)
{
    const struct kern_copy a = { .rows = *(const int64_t *)what, .heads = 1, .cols = 1024,
                                 .x = b->a, .x_stride = 1024, .y = b->b, .y_stride = 1024 };

    return kern_copy (b->k, &a, NULL, NULL);
}

static int call_memcpy (struct bench *b, const void *what)
{
    int64_t rows = *(const int64_t *)what;

#pragma omp parallel for num_threads (b->threads)
    for (int i = 0; i < b->threads; i++) {
        int64_t first = rows * i / b->threads, last = rows * (i + 1) / b->threads;

        memcpy (b->b + first * 1024, b->a + first * 1024, (size_t)(last - first) * 4096);
    }
    return 0;
}

static void bench_rows (struct bench *b)
{
    static const struct shape s = { 8192, 64, 4, 1024, 1024, true };
    struct routing r = route (b, &s);
    double bytes = 8e-9 * (double)r.choices * 1024, copy, gather, combine, weighted, plain;
    struct kern_row_gather g = { r.choices, 1024, &r.offset[64], r.source, s.topk, NULL, b->a,
                                 b->b, MG_FLOAT32 };
    struct kern_row_combine c = { s.tokens, s.topk, 1024, r.row, r.prob, b->a, false, b->b,
                                  MG_FLOAT32 };

    copy = bytes / best_of (call_copy, b, &r.choices);
    plain = bytes / best_of (call_memcpy, b, &r.choices);
    gather = bytes / best_of (call_row_gather, b, &g);
    g.weight = r.prob;
    weighted = bytes / best_of (call_row_gather, b, &g);
    /* reads all rows, writes one for each token */
    combine = bytes * (0.5 + 0.5 / (double)s.topk) / best_of (call_row_combine, b, &c);
    copy = plain > copy ? plain : copy;
    printf ("rows of 4 KiB: copy %.1f GB/s; permute %.1f (%.2f), weighted %.1f (%.2f), "
            "unpermute %.1f (%.2f)\n", copy, gather, gather / copy, weighted, weighted / copy,
            combine, combine / copy);
    release (&r);
}

/* --- routers --- */

static void bench_router (struct bench *b, int64_t experts, int64_t topk, enum kern_score score)
{
    const struct shape s = { 4096, experts, topk, 0, 0, true };
    struct routing r = route (b, &s);
    struct kern_router q = { .tokens = s.tokens, .experts = experts, .topk = topk,
                             .score = score };
    struct kern_router_fwd f = { q, b->a, .index = r.index, .prob = r.prob };
    struct kern_router_bwd g = { q, b->a, r.index, r.prob, false, b->b };
    struct kern_router_sums m = { s.tokens, experts, topk, 1, score, b->a, MG_FLOAT32, NULL, b->b,
                                  b->c, NULL };
    struct kern_expert_sort e = { .tokens = s.tokens, .topk = topk, .index = r.index,
                                  .experts = experts, .offset = r.offset, .row = r.row,
                                  .source = r.source };
    struct kern_gemm p = { .trans_b = true, .m = s.tokens, .n = experts, .k = 1024, .a = b->a,
                           .lda = 1024, .b = b->b, .ldb = 1024, .c = b->c, .ldc = experts };
    double product = 2e-9 * (double)(p.m * p.n * p.k) / gemm_rate (b, &p);

    printf ("router, %d tokens to %d of %3d, ms: logits of 1024 features %.2f, forward %.2f, "
            "backward %.2f, sums %.2f, sort %.2f\n", (int)s.tokens, (int)topk, (int)experts,
            1e3 * product, 1e3 * best_of (call_router_fwd, b, &f),
            1e3 * best_of (call_router_bwd, b, &g), 1e3 * best_of (call_router_sums, b, &m),
            1e3 * best_of (call_expert_sort, b, &e));
    release (&r);
}

void bench_moe (struct bench *b)
{
    bench_products (b, MG_BFLOAT16);
    bench_products (b, MG_FLOAT32);
    bench_rows (b);
    bench_router (b, 8, 2, KERN_SOFTMAX_CHOSEN);
    bench_router (b, 64, 8, KERN_SOFTMAX);
    bench_router (b, 256, 8, KERN_SIGMOID);
}
