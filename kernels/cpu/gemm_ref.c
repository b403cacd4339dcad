/* gemm_ref.c - matrix product without a library
 *
 * C is cut into blocks, one task each.  A task goes through k in steps of KC, converts the parts of
 * A and B that it needs to float, into memory of its own, and multiplies them with cpu_tile(); the
 * block is rounded when it is done.  B is used in strips, each as wide as the tile and short enough
 * for the first-level cache.  A strip is multiplied by all rows of A.
 *
 * Every element of C is one sum, from l = 0 on, whatever block it lies in: the cut follows
 * the number of threads, and the result does not depend on it.
 *
 * Every block converts its rows of A and its columns of B.  With the largest blocks that takes a
 * tenth of the time: converting an element takes as long as WIDEN multiplications.
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

enum { MC = CPU_BLOCK_ROWS, NC = CPU_BLOCK_COLS, KC = 128, STRIP = 4 * VEC };
enum { WIDEN = 8 }; /* measured with AVX-512 */

/* How C is cut: 'down' x 'across' blocks of 'rows' x 'cols' each, or less at the ends. 'depth'
 * is the row length of A in scratch.
 */
struct cut {
    int64_t rows, cols, down, across, depth;
};

/* Of one thread: A [rows][depth], B [depth][STRIP], C [rows][cols]. */
struct work {
    float *a, *b, *c;
};

static int64_t parts (int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* Multiplications of the busiest thread for each step of k. */
static int64_t cost (int64_t m, int64_t n, int64_t down, int64_t across, int threads)
{
    int64_t rows = parts (m, down), cols = parts (n, across);

    return parts (down * across, threads) * (rows * cols + WIDEN * (rows + cols));
}

/* The largest blocks, or somewhat smaller ones that the threads share better. */
static struct cut cut_for (const struct kern_gemm *a, int threads)
{
    int64_t least_down = parts (a->m, MC), least_across = parts (a->n, NC);
    int64_t down = least_down, across = least_across, best, now;
    struct cut c = { .depth = parts (cpu_min (KC, a->k), VEC) * VEC };

    best = cost (a->m, a->n, down, across, threads);
    for (int i = 0; threads > 1 && i < 16; i++) {
        now = cost (a->m, a->n, least_down + i / 4, least_across + i % 4, threads);
        if (now < best) {
            best = now;
            down = least_down + i / 4;
            across = least_across + i % 4;
        }
    }
    c.rows = parts (a->m, down);
    c.cols = parts (parts (a->n, across), VEC) * VEC;
    c.down = parts (a->m, c.rows);
    c.across = parts (a->n, c.cols);
    return c;
}

/* Floats in a struct work, whole cache lines. */
static size_t work_size (const struct cut *c)
{
    return (size_t)parts (c->rows * (c->depth + c->cols) + c->depth * STRIP, 16) * 16;
}

/* A 'rows' x 'cols' part of a stored matrix to out[row][col], or its transpose to
 * out[col][row]; 'ld' is the row length of both.
 */
struct gemm_part {
    const void *from;
    enum mg_dtype dtype;
    int64_t row, col, rows, cols, ld;
};

/* Both functions fill up to whole vectors with zeros, for which 'ld' has room. */
VEC_INLINE void copy_as (const struct gemm_part *p, float *out, int64_t ld,
                         const enum mg_dtype type)
{
    for (int64_t r = 0; r < p->rows; r++) {
        int64_t first = (p->row + r) * p->ld + p->col;

        for (int64_t c = 0; c < p->cols; c += VEC)
            vec_store (out + r * ld + c, vec_get (p->from, first + c, p->cols - c, type));
    }
}

/* A square of VEC x VEC at a time, along the rows, which may lie in memory far apart. */
VEC_INLINE void copy_transposed_as (const struct gemm_part *p, float *out, int64_t ld,
                                    const enum mg_dtype type)
{
    for (int64_t r = 0; r < p->rows; r += VEC) {
        for (int64_t c = 0; c < p->cols; c += VEC) {
            vf square[VEC];

            VEC_UNROLL for (int i = 0; i < VEC; i++)
                square[i] = r + i < p->rows
                                ? vec_get (p->from,
                                           (p->row + r + i) * p->ld + p->col + c,
                                           p->cols - c, type)
                                : (vf){ 0 };
            vec_transpose (square);
            VEC_UNROLL for (int i = 0; i < VEC; i++)
                if (c + i < p->cols)
                    vec_store (out + (c + i) * ld + r, square[i]);
        }
    }
}

static void copy (const struct gemm_part *p, float *out, int64_t ld)
{
    VEC_TYPED (p->dtype, copy_as, p, out, ld);
}

static void copy_transposed (const struct gemm_part *p, float *out, int64_t ld)
{
    VEC_TYPED (p->dtype, copy_transposed_as, p, out, ld);
}

static void copy_a (const struct kern_gemm *a, int64_t row, int64_t l, int64_t rows,
                    int64_t depth, float *out, int64_t ld)
{
    if (a->trans_a)
        copy_transposed (&(struct gemm_part){ a->a, a->dtype, l, row, depth, rows, a->lda },
                         out, ld);
    else
        copy (&(struct gemm_part){ a->a, a->dtype, row, l, rows, depth, a->lda }, out, ld);
}

static void copy_b (const struct kern_gemm *a, int64_t l, int64_t col, int64_t depth,
                    int64_t cols, float *out)
{
    if (a->trans_b)
        copy_transposed (&(struct gemm_part){ a->b, a->dtype, col, l, cols, depth, a->ldb },
                         out, STRIP);
    else
        copy (&(struct gemm_part){ a->b, a->dtype, l, col, depth, cols, a->ldb }, out, STRIP);
}

/* Part of a row of C, from its element 'first' on; 'sum' is whole vectors. */
VEC_INLINE void store (const struct kern_gemm *a, int64_t first, int64_t n,
                       const float *sum, const enum mg_dtype type)
{
    for (int64_t i = 0; i < n; i += VEC) {
        vf v = vec_load (sum + i);

        if (a->accumulate)
            v = vec_get (a->c, first + i, n - i, type) + v;
        vec_put (a->c, first + i, v, n - i, type);
    }
}

/* Steps l .. l + depth - 1 of k for a block at (row, col). */
static void add_product (const struct kern_gemm *a, const struct cut *cut,
                         const struct work *w, struct gemm_part block, int64_t l)
{
    int64_t depth = cpu_min (KC, a->k - l);

    copy_a (a, block.row, l, block.rows, depth, w->a, cut->depth);
    for (int64_t s = 0; s < block.cols; s += STRIP) {
        int64_t width = cpu_min (STRIP, block.cols - s);

        copy_b (a, l, block.col + s, depth, width, w->b);
        cpu_tile (&(struct cpu_tile){ .m = block.rows,
                                      .n = parts (width, VEC) * VEC,
                                      .k = depth,
                                      .a = w->a,
                                      .a_row = cut->depth,
                                      .a_col = 1,
                                      .b = w->b,
                                      .ldb = STRIP,
                                      .c = w->c + s,
                                      .ldc = cut->cols,
                                      .accumulate = l > 0 || a->bias });
    }
}

static void multiply (const struct kern_gemm *a, const struct cut *cut, const struct work *w,
                      int64_t row, int64_t col)
{
    struct gemm_part c = { a->c, a->c_dtype, row, col, cpu_min (cut->rows, a->m - row),
                           cpu_min (cut->cols, a->n - col), a->ldc };
    struct gemm_part bias = { a->bias, a->dtype, 0, col, 1, c.cols, a->n };

    for (int64_t r = 0; a->bias && r < c.rows; r++)
        copy (&bias, w->c + r * cut->cols, cut->cols);
    if (!a->bias && a->k == 0)
        memset (w->c, 0, (size_t)(c.rows * cut->cols) * sizeof (float));
    for (int64_t l = 0; l < a->k; l += KC)
        add_product (a, cut, w, c, l);
    for (int64_t r = 0; r < c.rows; r++)
        VEC_TYPED (a->c_dtype, store, a, (row + r) * a->ldc + col, c.cols,
                   w->c + r * cut->cols);
}

/* A single block, which is all of C. */
static struct cut cut_one (const struct kern_gemm *a)
{
    return (struct cut){ a->m, parts (a->n, VEC) * VEC, 1, 1,
                         parts (cpu_min (KC, a->k), VEC) * VEC };
}

static struct work divide (const struct cut *cut, float *memory)
{
    struct work w = { .c = memory };

    w.a = w.c + cut->rows * cut->cols;
    w.b = w.a + cut->rows * cut->depth;
    return w;
}

size_t cpu_gemm_block_floats (const struct kern_gemm *a)
{
    struct cut cut = cut_one (a);

    return work_size (&cut);
}

void cpu_gemm_block (const struct kern_gemm *a, float *work)
{
    const struct cut cut = cut_one (a);
    const struct work w = divide (&cut, work);

    multiply (a, &cut, &w, 0, 0);
}

size_t cpu_gemm_ref_scratch (const struct kernels *k, const struct kern_gemm *a)
{
    struct cut cut = cut_for (a, cpu_of (k)->threads);

    return (size_t)cpu_of (k)->threads * work_size (&cut) * sizeof (float);
}

int cpu_gemm_ref (const struct kernels *k, const struct kern_gemm *a,
                  struct mg_error *err)
{
    int threads = cpu_of (k)->threads;
    const struct cut cut = cut_for (a, threads);
    size_t size = work_size (&cut);
    float *work = cpu_scratch (k, (size_t)threads * size * sizeof (float), err);

    if (!work)
        return -1;
#pragma omp parallel for num_threads (threads) schedule (dynamic) \
    if (a->m * a->n * a->k > CPU_SERIAL)
    for (int64_t task = 0; task < cut.down * cut.across; task++) {
        const struct work w = divide (&cut, work + (size_t)cpu_thread () * size);

        multiply (a, &cut, &w, task / cut.across * cut.rows, task % cut.across * cut.cols);
    }
    return 0;
}
