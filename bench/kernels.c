/* kernels.c - how fast the CPU kernels are, as shares of what the machine can do
 *
 *     bench/kernels [-t THREADS] [-s SECONDS] [GROUP]...
 *
 * GROUP: gemm, memory, attention, moe, experts; all without one.  Each figure is the best of at
 * least 5 calls within SECONDS (0.2; a busy machine needs more).  The floors are measured in the
 * same run: the fastest square matrix product, and the triad a[i] = b[i] + s c[i] on
 * arrays far larger than the caches (its bytes counted as 12 an element).
 */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/kernels.h"

static int call_gemm (struct bench *b, const void *what)
{
    return kern_gemm (b->k, what, NULL, NULL);
}

double gemm_rate (struct bench *b, const struct kern_gemm *g)
{
    return 2e-9 * (double)g->m * (double)g->n * (double)g->k / best_of (call_gemm, b, g);
}

/* y = x W^T of a [out, in] weight; dx = dy W; dW += dy^T x. */
static struct kern_gemm form (struct bench *b, int which, int64_t rows, int64_t in, int64_t out,
                              enum mg_dtype dtype)
{
    struct kern_gemm g = { .a = b->a, .b = b->b, .c = b->c, .dtype = dtype };

    g.trans_a = which == 2;
    g.trans_b = which == 0;
    g.accumulate = which == 2;
    g.m = which == 2 ? out : rows;
    g.n = which == 0 ? out : in;
    g.k = which == 0 ? in : which == 1 ? out : rows;
    g.lda = which == 0 ? in : out;
    g.ldb = in;
    g.ldc = which == 0 ? out : in;
    g.c_dtype = which == 2 ? MG_FLOAT32 : dtype;
    return g;
}

void bench_fill (struct bench *b, enum mg_dtype dtype)
{
    if (kern_cast (b->k,
                   &(struct kern_cast){ .n = b->n, .scale = 1, .x = b->d,
                                        .from = MG_FLOAT32, .y = b->a, .to = dtype },
                   NULL, NULL) < 0
        || kern_cast (b->k,
                      &(struct kern_cast){ .n = b->n, .scale = 1, .x = b->d,
                                           .from = MG_FLOAT32, .y = b->b, .to = dtype },
                      NULL, NULL) < 0
        || kern_fill (b->k,
                      &(struct kern_fill){ .n = b->n, .value = 0, .out = b->c,
                                           .dtype = MG_FLOAT32 },
                      NULL, NULL) < 0)
        die ("a kernel failed");
}

double square_rate (struct bench *b, enum mg_dtype dtype)
{
    double best = 0;

    for (int64_t n = 512; n <= 2048; n *= 2) {
        for (int which = 0; which < 2; which++) {
            struct kern_gemm g = { .trans_b = which, .m = n, .n = n, .k = n, .a = b->a,
                                   .lda = n, .b = b->b, .ldb = n, .c = b->c, .ldc = n,
                                   .dtype = dtype, .c_dtype = dtype };
            double rate = gemm_rate (b, &g);

            best = rate > best ? rate : best;
        }
    }
    return best;
}

/* The products of a model's step: of 12 layers, and of an output layer, the last one. */
enum { MODEL_PRODUCTS = 5, MODEL_LAYERS = 12 };

struct model {
    const char *name;
    int64_t rows, length; /* tokens; of them in a sequence */
    int64_t layer[MODEL_PRODUCTS][2]; /* width of the input and of the output */
};

static const struct model models[] = {
    { "GPT-2 124M", 256, 64,
      { { 768, 2304 }, { 768, 768 }, { 768, 3072 }, { 3072, 768 }, { 768, 50304 } } },
    { "Llama 124M, B 4, T 64", 256, 64,
      { { 768, 1280 }, { 768, 768 }, { 768, 4096 }, { 2048, 768 }, { 768, 32000 } } },
    { "Llama 124M, B 1, T 1024", 1024, 1024,
      { { 768, 1280 }, { 768, 768 }, { 768, 4096 }, { 2048, 768 }, { 768, 32000 } } },
};

/* GFLOP of attention's products: two of the forward and four of the backward pass, each of half
 * the scores, which is what a causal mask leaves.  All heads together are as wide as layer[1].
 */
static double attention_work (const struct model *m)
{
    double scores = (double)m->rows * (double)m->length / 2;

    return 6 * 2e-9 * scores * (double)m->layer[1][0] * MODEL_LAYERS;
}

/* Attention's products count as if they ran as fast as the best square product: an attention that
 * keeps its scores in the cache has no product of its own to be measured alone.
 */
static void bench_model (struct bench *b, const struct model *m, enum mg_dtype dtype,
                         double floor)
{
    static const char *const names[] = { "forward", "dgrad", "wgrad" };
    double flops = attention_work (m), time = flops / floor;

    printf ("  attention at the best square product: %.3f s\n", time);
    for (int i = 0; i < MODEL_PRODUCTS; i++) {
        int64_t in = m->layer[i][0], out = m->layer[i][1];

        printf ("  %4d x %5d x %5d", (int)m->rows, (int)in, (int)out);
        for (int which = 0; which < 3; which++) {
            struct kern_gemm g = form (b, which, m->rows, in, out, dtype);
            double rate = gemm_rate (b, &g), work;

            work = 2e-9 * (double)g.m * (double)g.n * (double)g.k
                   * (i < MODEL_PRODUCTS - 1 ? MODEL_LAYERS : 1);
            flops += work;
            time += work / rate;
            printf ("  %s %4.0f (%.2f)", names[which], rate, rate / floor);
        }
        printf ("\n");
    }
    printf ("  a %s step's products: %.3f s, %.0f GFLOP/s, %.2f of the floor\n", m->name, time,
            flops / time, flops / time / floor);
}

static void bench_gemm (struct bench *b, enum mg_dtype dtype)
{
    double floor;

    bench_fill (b, dtype);
    floor = square_rate (b, dtype);
    printf ("%s: best square product %.0f GFLOP/s\n", mg_dtype_name (dtype), floor);
    for (size_t i = 0; i < sizeof (models) / sizeof (models[0]); i++)
        bench_model (b, &models[i], dtype, floor);
}

static int call_triad (struct bench *b, const void *what)
{
    float *restrict a = b->a;
    const float *restrict x = b->b, *restrict y = b->c, s = *(const float *)what;

#pragma omp parallel for simd num_threads (b->threads)
    for (int64_t i = 0; i < b->n; i++)
        a[i] = x[i] + s * y[i];
    return 0;
}

/* With new scales where there are some. */
static int call_adamw (struct bench *b, const void *what)
{
    struct kern_adamw a = *(const struct kern_adamw *)what;
    struct kern_three largest;

    if (kern_has_scale (a.m.dtype)) {
        if (kern_adamw_largest (b->k,
                &(struct kern_adamw_largest){ .update = a, .out = &largest },
                NULL, NULL) < 0)
            return -1;
        a.scale.m = kern_scale (a.m.dtype, largest.m);
        a.scale.v = kern_scale (a.v.dtype, largest.v);
    }
    return kern_adamw (b->k, &a, NULL, NULL);
}

static int call_norm_fwd (struct bench *b, const void *what)
{
    return kern_norm_fwd (b->k, what, NULL, NULL);
}

static int call_norm_bwd (struct bench *b, const void *what)
{
    return kern_norm_bwd (b->k, what, NULL, NULL);
}

static int call_act_fwd (struct bench *b, const void *what)
{
    return kern_act_fwd (b->k, what, NULL, NULL);
}

static int call_act_bwd (struct bench *b, const void *what)
{
    return kern_act_bwd (b->k, what, NULL, NULL);
}

static int call_bda (struct bench *b, const void *what)
{
    return kern_bias_dropout_add_fwd (b->k, what, NULL, NULL);
}

static int call_sum_sq (struct bench *b, const void *what)
{
    double sum;

    (void)what;
    return kern_sum_sq (b->k,
                        &(struct kern_sum_sq){ .n = b->n, .x = b->a, .dtype = MG_FLOAT32,
                                               .out = &sum },
                        NULL, NULL);
}

static int call_max_abs (struct bench *b, const void *what)
{
    float largest;

    (void)what;
    return kern_max_abs (b->k,
            &(struct kern_max_abs){ .n = b->n, .x = b->a, .dtype = MG_FLOAT32,
                                    .out = &largest },
            NULL, NULL);
}

static int call_quantise (struct bench *b, const void *what)
{
    (void)what;
    return kern_cast (b->k,
                      &(struct kern_cast){ .n = b->n, .scale = 448, .x = b->a,
                                           .from = MG_FLOAT32, .y = b->b,
                                           .to = MG_FLOAT8_E4M3 },
                      NULL, NULL);
}

static int call_dequantise (struct bench *b, const void *what)
{
    (void)what;
    return kern_cast (b->k,
                      &(struct kern_cast){ .n = b->n, .scale = 0.5f, .x = b->b,
                                           .from = MG_FLOAT8_E4M3, .y = b->c,
                                           .to = MG_BFLOAT16 },
                      NULL, NULL);
}

static int call_col_sum (struct bench *b, const void *what)
{
    int64_t cols = *(const int64_t *)what;

    return kern_col_sum (b->k,
            &(struct kern_col_sum){ .rows = b->n / cols, .cols = cols, .x = b->a,
                                    .dtype = MG_FLOAT32, .out = b->d,
                                    .grad_dtype = MG_FLOAT32 },
            NULL, NULL);
}

static int call_xent_sum (struct bench *b, const void *what)
{
    return kern_xent_sum (b->k, what, NULL, NULL);
}

static int call_xent_bwd (struct bench *b, const void *what)
{
    return kern_xent_bwd (b->k, what, NULL, NULL);
}

static void report (const char *name, double bytes, double time, double floor)
{
    printf ("  %-28s %6.1f GB/s (%.2f of triad)\n", name, 1e-9 * bytes / time,
            1e-9 * bytes / time / floor);
}

static void bench_norm (struct bench *b, double floor)
{
    int64_t cols = 768, rows = b->n / cols;
    double n = (double)(rows * cols);
    float *stat = calloc ((size_t)(2 * rows + 4 * cols), sizeof (float));
    float *w = stat + 2 * rows;
    struct kern_norm_fwd f = { .rows = rows, .cols = cols, .x = b->a, .weight = w,
                               .bias = w + cols, .eps = 1e-5, .y = b->b, .stat = stat };
    struct kern_norm_bwd g = { .rows = rows,
                               .cols = cols,
                               .dy = b->b,
                               .x = b->a,
                               .weight = w,
                               .stat = stat,
                               .dx = b->c,
                               .accumulate_dx = true,
                               .dweight = w + 2 * cols,
                               .dbias = w + 3 * cols };

    if (!stat)
        die ("out of memory");
    report ("norm_fwd", 8 * n, best_of (call_norm_fwd, b, &f), floor);
    report ("norm_bwd, adding to dx", 16 * n, best_of (call_norm_bwd, b, &g), floor);
    free (stat);
}

static void bench_dropout (struct bench *b, double floor)
{
    static const int64_t sample[4] = { 1, 2, 3, 4 };
    int64_t cols = 768, rows = b->n / cols;
    double n = (double)(rows * cols);
    struct kern_bias_dropout_add_fwd f = { .rows = rows,
                                           .cols = cols,
                                           .x = b->a,
                                           .bias = b->d,
                                           .residual = b->b,
                                           .y = b->c,
                                           .dropout = { .sample = sample, .batch = 4 } };

    report ("bias_dropout_add, p 0", 12 * n, best_of (call_bda, b, &f), floor);
    f.dropout.p = 0.1;
    report ("bias_dropout_add, p 0.1", 12 * n, best_of (call_bda, b, &f), floor);
}

static void bench_xent (struct bench *b, double floor)
{
    int64_t cols = 50304, rows = b->n / cols;
    double n = (double)(rows * cols);
    float *stat = calloc ((size_t)rows, 5 * sizeof (float));
    struct kern_xent_sum f = { .tokens = rows,
                               .cols = cols,
                               .valid = 50257,
                               .logits = b->a,
                               .max = stat,
                               .label = (int32_t *)stat,
                               .sum = stat + rows,
                               .target = stat + 2 * rows };
    struct kern_xent_bwd g = { .tokens = rows,
                               .cols = cols,
                               .valid = 50257,
                               .logits = b->a,
                               .max = stat,
                               .label = (int32_t *)stat,
                               .sum = stat + rows,
                               .scale = stat + 3 * rows };

    if (!stat)
        die ("out of memory");
    report ("xent_sum", 4 * n, best_of (call_xent_sum, b, &f), floor);
    report ("xent_bwd", 8 * n, best_of (call_xent_bwd, b, &g), floor);
    free (stat);
}

/* All float32; halves and bfloat16 moments; halves and E4M3 ones. */
static void bench_adamw (struct bench *b, double floor)
{
    static const char *const names[] = { "adamw", "adamw, halves, bfloat16",
                                         "adamw, halves, float8" };
    static const enum mg_dtype types[] = { MG_FLOAT32, MG_BFLOAT16, MG_FLOAT8_E4M3 };
    struct kern_adamw a = { .n = b->n, .param = { .data = b->a }, .grad = b->d, .lr = 1e-4,
                            .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1,
                            .c1 = 0.1, .c2 = 0.05, .grad_scale = 1 };

    for (int i = 0; i < 3; i++) {
        size_t moment = mg_dtype_size (types[i]);

        memset (b->a, 0, (size_t)b->n * sizeof (float));
        memset (b->b, 0, (size_t)b->n * moment);
        memset (b->c, 0, (size_t)b->n * moment);
        a.param.upper = i > 0 ? b->a + b->n / 2 : NULL;
        a.m = (struct kern_state){ .data = b->b, .dtype = types[i] };
        a.v = (struct kern_state){ .data = b->c, .dtype = types[i], .positive = true };
        report (names[i], (double)(12 + 4 * moment) * (double)b->n,
                best_of (call_adamw, b, &a), floor);
    }
}

static void bench_memory (struct bench *b)
{
    static const float s = 0.5f;
    static const int64_t cols = 768;
    double n = (double)b->n, floor = 12e-9 * n / best_of (call_triad, b, &s);
    struct kern_act_fwd gelu = { .rows = 1, .cols = b->n, .x = b->a, .y = b->b };
    struct kern_act_bwd gelu_bwd = { .rows = 1, .cols = b->n, .dy = b->b, .x = b->a,
                                     .dx = b->c };

    printf ("memory: triad %.1f GB/s\n", floor);
    bench_adamw (b, floor);
    report ("sum_sq", 4 * n, best_of (call_sum_sq, b, NULL), floor);
    report ("col_sum", 4 * n, best_of (call_col_sum, b, &cols), floor);
    report ("max_abs", 4 * n, best_of (call_max_abs, b, NULL), floor);
    report ("float32 to float8", 5 * n, best_of (call_quantise, b, NULL), floor);
    report ("float8 to bfloat16", 3 * n, best_of (call_dequantise, b, NULL), floor);
    bench_norm (b, floor);
    bench_dropout (b, floor);
    report ("gelu_fwd", 8 * n, best_of (call_act_fwd, b, &gelu), floor);
    report ("gelu_bwd", 12 * n, best_of (call_act_bwd, b, &gelu_bwd), floor);
    bench_xent (b, floor);
}

struct both {
    struct kern_attention_fwd fwd;
    struct kern_attention_bwd bwd;
};

static int call_attention_fwd (struct bench *b, const void *what)
{
    return kern_attention_fwd (b->k, &((const struct both *)what)->fwd, NULL, NULL);
}

static int call_attention_bwd (struct bench *b, const void *what)
{
    return kern_attention_bwd (b->k, &((const struct both *)what)->bwd, NULL, NULL);
}

/* Pairs of a query and a key that it sees, under a causal mask and a window of 'left' positions. */
static double count_pairs (int64_t seq, int64_t left)
{
    double pairs = 0;

    for (int64_t i = 0; i < seq; i++)
        pairs += (double)(i < left ? i + 1 : left + 1);
    return pairs;
}

/* Rates count the products of visible pairs only: 2 forward, 5 backward. */
static void bench_attention (struct bench *b)
{
    static const struct {
        int64_t batch, heads, seq, dim;
        double p;
        int64_t window; /* 0: none */
    } shapes[]
        = { { 4, 12, 64, 64, 0, 0 },   { 4, 12, 64, 64, 0.1, 0 },   { 2, 12, 256, 64, 0, 0 },
            { 1, 12, 1024, 64, 0, 0 }, { 1, 12, 1024, 64, 0.1, 0 }, { 1, 6, 1024, 128, 0, 0 },
            { 1, 4, 4096, 64, 0, 0 },  { 1, 4, 4096, 128, 0, 0 },   { 1, 4, 4096, 64, 0, 512 },
            { 1, 2, 2048, 128, 0, 0 }, { 1, 1, 2048, 64, 0, 0 },    { 4, 16, 256, 16, 0, 0 } };
    static const int64_t sample[4] = { 1, 2, 3, 4 };

    printf ("attention, causal: share of the best square product, measured before each line\n");
    for (size_t i = 0; i < sizeof (shapes) / sizeof (shapes[0]); i++) {
        int64_t dim = shapes[i].dim, row = shapes[i].heads * dim, seq = shapes[i].seq;
        int64_t window = shapes[i].window;
        double pairs = count_pairs (seq, window ? window : seq)
                       * (double)(shapes[i].batch * shapes[i].heads);
        struct both both;
        double floor = square_rate (b, MG_FLOAT32), fwd, bwd;

        both.fwd = (struct kern_attention_fwd){ .batch = shapes[i].batch,
                                            .heads = shapes[i].heads,
                                            .kv_heads = shapes[i].heads,
                                            .seq_q = seq,
                                            .seq_k = seq,
                                            .head_dim = dim,
                                            .scale = 1 / sqrt ((double)dim),
                                            .causal = true,
                                            .window = { window > 0, window, 0 },
                                            .q = b->a,
                                            .k = b->a + row,
                                            .v = b->a + 2 * row,
                                            .q_stride_s = 3 * row * shapes[i].batch,
                                            .q_stride_b = 3 * row,
                                            .q_stride_g = dim,
                                            .kv_stride_s = 3 * row * shapes[i].batch,
                                            .kv_stride_b = 3 * row,
                                            .kv_stride_g = dim,
                                            .out = b->b,
                                            .out_stride_s = row * shapes[i].batch,
                                            .out_stride_b = row,
                                            .out_stride_h = dim,
                                            .lse = b->c,
                                            .dropout_p = shapes[i].p,
                                            .seed = 7,
                                            .sample = sample };
        both.bwd = (struct kern_attention_bwd){ .fwd = both.fwd, .dout = b->b, .dq = b->d,
                                                .dk = b->d + row, .dv = b->d + 2 * row };
        fwd = 4e-9 * pairs * (double)dim / best_of (call_attention_fwd, b, &both);
        bwd = 10e-9 * pairs * (double)dim / best_of (call_attention_bwd, b, &both);
        printf ("  %d x %2d x %4d x %3d, p %.1f, window %3d: forward %4.0f GFLOP/s (%.2f), "
                "backward %4.0f (%.2f)\n",
                (int)shapes[i].batch, (int)shapes[i].heads, (int)seq, (int)dim,
                shapes[i].p, (int)window, fwd, fwd / floor, bwd, bwd / floor);
    }
}

/* In huge pages, as the memory of a job is (libcore/device/device_cpu.c). */
static float *array (int64_t n)
{
    size_t page = 2 << 20, size = ((size_t)n * sizeof (float) + page - 1) / page * page;
    float *x = aligned_alloc (page, size);

    if (!x)
        die ("out of memory");
    madvise (x, size, MADV_HUGEPAGE);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i * 2654435761 % 1000) * 1e-3f;
    return x;
}

static bool wanted (char *const groups[], const char *group)
{
    for (int i = 0; groups[i]; i++)
        if (strcmp (groups[i], group) == 0)
            return true;
    return !groups[0];
}

static void run (struct bench *b, char *const groups[])
{
    printf ("%d threads\n", b->threads);
    if (wanted (groups, "gemm")) {
        bench_gemm (b, MG_BFLOAT16);
        bench_gemm (b, MG_FLOAT16);
        bench_gemm (b, MG_FLOAT32); // leaves numbers for the others
    }
    if (wanted (groups, "memory"))
        bench_memory (b);
    if (wanted (groups, "attention"))
        bench_attention (b);
    if (wanted (groups, "moe"))
        bench_moe (b);
    if (wanted (groups, "experts"))
        bench_layers (b);
}

int main (int argc, char **argv)
{
    struct bench b = { .threads = 2, .seconds = 0.2, .n = 50304 * 1024 };
    struct mg_error err = { "" };
    int option;

    while ((option = getopt (argc, argv, "t:s:")) != -1) {
        if (option == 't')
            b.threads = atoi (optarg);
        else if (option == 's')
            b.seconds = atof (optarg);
        else
            die ("usage: kernels [-t THREADS] [-s SECONDS] [gemm|memory|attention|moe|experts]...");
    }
    if (!(b.k = kernels_cpu_create (b.threads, &err)))
        die (err.text);
    b.a = array (b.n);
    b.b = array (b.n);
    b.c = array (b.n);
    b.d = array (b.n);
    run (&b, argv + optind);
    kernels_cpu_destroy (b.k);
    free (b.a);
    free (b.b);
    free (b.c);
    free (b.d);
    return 0;
}
