/* gemm_ref.c - matrix product without a library
 *
 * C is cut into blocks of MC x NC, one task each; a task goes through k in steps of KC,
 * converts the parts of A and B that it needs to float, into memory of its own, and
 * multiplies them with cpu_tile().  The cut depends on the sizes alone, so the result
 * does not depend on the number of threads.
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

enum { MC = 96, NC = 256, KC = 256 };

/* Of one thread: A [MC][KC], B [KC][NC], C [MC][NC]. */
struct work {
    float a[MC * KC], b[KC * NC], c[MC * NC];
};

/* A 'rows' x 'cols' part of a stored matrix to out[row][col], or its transpose to
 * out[col][row]; 'ld' is the row length of both.
 */
struct part {
    const void *from;
    enum mg_dtype dtype;
    int64_t row, col, rows, cols, ld;
};

VEC_INLINE void copy_as (const struct part *p, float *out, int64_t ld,
                         const enum mg_dtype type)
{
    for (int64_t r = 0; r < p->rows; r++) {
        int64_t first = (p->row + r) * p->ld + p->col;

        for (int64_t c = 0; c < p->cols; c += VEC)
            vec_store_part (out + r * ld + c, vec_get (p->from, first + c, p->cols - c, type),
                            p->cols - c);
    }
}

/* A square of VEC x VEC at a time; fills up to whole vectors, for which 'ld' has room. */
VEC_INLINE void copy_transposed_as (const struct part *p, float *out, int64_t ld,
                                    const enum mg_dtype type)
{
    for (int64_t c = 0; c < p->cols; c += VEC) {
        for (int64_t r = 0; r < p->rows; r += VEC) {
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

static void copy (const struct part *p, float *out, int64_t ld)
{
    VEC_TYPED (p->dtype, copy_as, p, out, ld);
}

static void copy_transposed (const struct part *p, float *out, int64_t ld)
{
    VEC_TYPED (p->dtype, copy_transposed_as, p, out, ld);
}

static void copy_a (const struct kern_gemm *a, int64_t row, int64_t l, int64_t rows,
                    int64_t depth, float *out)
{
    if (a->trans_a)
        copy_transposed (&(struct part){ a->a, a->dtype, l, row, depth, rows, a->lda },
                         out, KC);
    else
        copy (&(struct part){ a->a, a->dtype, row, l, rows, depth, a->lda }, out, KC);
}

static void copy_b (const struct kern_gemm *a, int64_t l, int64_t col, int64_t depth,
                    int64_t cols, float *out)
{
    if (a->trans_b)
        copy_transposed (&(struct part){ a->b, a->dtype, col, l, cols, depth, a->ldb },
                         out, NC);
    else
        copy (&(struct part){ a->b, a->dtype, l, col, depth, cols, a->ldb }, out, NC);
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

/* The block of C at (row, col). Columns from n on are whatever b holds there. */
static void multiply (const struct kern_gemm *a, struct work *w, int64_t row, int64_t col)
{
    int64_t rows = cpu_min (MC, a->m - row), cols = cpu_min (NC, a->n - col);
    struct part bias = { a->bias, a->dtype, 0, col, 1, cols, a->n };

    memset (w->c, 0, (size_t)(rows * NC) * sizeof (float));
    for (int64_t r = 0; a->bias && r < rows; r++)
        copy (&bias, w->c + r * NC, NC);
    for (int64_t l = 0; l < a->k; l += KC) {
        int64_t depth = cpu_min (KC, a->k - l);

        copy_a (a, row, l, rows, depth, w->a);
        copy_b (a, l, col, depth, cols, w->b);
        cpu_tile (&(struct cpu_tile){ .m = rows,
                                      .n = (cols + VEC - 1) / VEC * VEC,
                                      .k = depth,
                                      .a = w->a,
                                      .a_row = KC,
                                      .a_col = 1,
                                      .b = w->b,
                                      .ldb = NC,
                                      .c = w->c,
                                      .ldc = NC,
                                      .accumulate = true });
    }
    for (int64_t r = 0; r < rows; r++)
        VEC_TYPED (a->c_dtype, store, a, (row + r) * a->ldc + col, cols, w->c + r * NC);
}

size_t cpu_gemm_ref_scratch (const struct kernels *k)
{
    return (size_t)cpu_of (k)->threads * sizeof (struct work);
}

int cpu_gemm_ref (const struct kernels *k, const struct kern_gemm *a,
                  struct mg_error *err)
{
    int threads = cpu_of (k)->threads;
    int64_t down = (a->m + MC - 1) / MC, across = (a->n + NC - 1) / NC;
    struct work *work = cpu_scratch (k, cpu_gemm_ref_scratch (k), err);

    if (!work)
        return -1;
    for (int i = 0; i < threads; i++) /* no garbage, that might be slow or trap */
        memset (work[i].b, 0, sizeof (work[i].b));
#pragma omp parallel for num_threads (threads) schedule (dynamic) \
    if (a->m * a->n * a->k > CPU_SERIAL)
    for (int64_t task = 0; task < down * across; task++)
        multiply (a, &work[cpu_thread ()], task / across * MC, task % across * NC);
    return 0;
}
