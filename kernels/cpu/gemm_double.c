/* gemm_double.c - matrix product in double, of operands of any types
 *
 * C is cut into blocks of BLOCK x BLOCK, one task each.  A task goes through k in steps of DEPTH,
 * converts the parts of A and B that it needs to double, into memory of its thread, and adds their
 * product to its block, which is rounded when it is done.  An element is one sum, from the first
 * element of k on.
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

enum { BLOCK = 64, DEPTH = 128, LANES = VEC / 2, ROWS = 4, ACROSS = 2 };

/* Of a thread: A [BLOCK][DEPTH], B [DEPTH][BLOCK], C [BLOCK][BLOCK]. */
struct work {
    double a[BLOCK * DEPTH], b[DEPTH * BLOCK], c[BLOCK * BLOCK];
};

static double get (const void *p, int64_t i, enum mg_dtype dtype)
{
    if (dtype == MG_FLOAT64)
        return ((const double *)p)[i];
    return (double)vec_one (p, i, dtype);
}

static void put (void *p, int64_t i, enum mg_dtype dtype, double value)
{
    if (dtype == MG_FLOAT64)
        ((double *)p)[i] = value;
    else
        VEC_TYPED (dtype, vec_put, p, i, vec_set ((float)value), 1);
}

/* n elements that follow each other. */
VEC_INLINE void widen_as (const void *p, int64_t first, int64_t n, double *out,
                          const enum mg_dtype type)
{
    for (int64_t i = 0; i < n; i += VEC) {
        int64_t left = cpu_min (VEC, n - i);
        vf v = vec_get (p, first + i, left, type);

        for (int64_t j = 0; j < left; j++)
            out[i + j] = (double)v[j];
    }
}

static void widen (const void *p, int64_t first, int64_t n, double *out, enum mg_dtype dtype)
{
    if (dtype == MG_FLOAT64)
        memcpy (out, (const double *)p + first, (size_t)n * sizeof (double));
    else
        VEC_TYPED (dtype, widen_as, p, first, n, out);
}

/* A part of a stored matrix, or of its transpose, to out[row][col]; 'ld' is the row length stored,
 * out_ld that of out.
 */
static void copy (const void *p, enum mg_dtype dtype, bool transpose, int64_t row, int64_t col,
                  int64_t rows, int64_t cols, int64_t ld, double *out, int64_t out_ld)
{
    double line[DEPTH];

    for (int64_t r = 0; !transpose && r < rows; r++)
        widen (p, (row + r) * ld + col, cols, out + r * out_ld, dtype);
    for (int64_t c = 0; transpose && c < cols; c++) {
        widen (p, (col + c) * ld + row, rows, line, dtype);
        for (int64_t r = 0; r < rows; r++)
            out[r * out_ld + c] = line[r];
    }
}

/* ROWS x (ACROSS LANES) elements of C. */
VEC_INLINE void multiply_tile (const double *a, const double *b, double *c, int64_t depth)
{
    vd sum[ROWS][ACROSS];

    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < ACROSS; j++)
            memcpy (&sum[r][j], c + r * BLOCK + j * LANES, sizeof (vd));
    for (int64_t l = 0; l < depth; l++) {
        vd line[ACROSS];

        memcpy (line, b + l * BLOCK, sizeof (line));
        VEC_UNROLL for (int r = 0; r < ROWS; r++)
            VEC_UNROLL for (int j = 0; j < ACROSS; j++)
                sum[r][j] += a[r * DEPTH + l] * line[j];
    }
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < ACROSS; j++)
            memcpy (c + r * BLOCK + j * LANES, &sum[r][j], sizeof (vd));
}

static void multiply (const struct kern_gemm_double *a, struct work *w, int64_t row, int64_t col)
{
    int64_t m = cpu_min (BLOCK, a->m - row), n = cpu_min (BLOCK, a->n - col);

    memset (w, 0, sizeof (*w));
    for (int64_t l = 0; l < a->k; l += DEPTH) {
        int64_t depth = cpu_min (DEPTH, a->k - l);

        copy (a->a, a->a_dtype, a->trans_a, row, l, m, depth, a->lda, w->a, DEPTH);
        copy (a->b, a->b_dtype, a->trans_b, l, col, depth, n, a->ldb, w->b, BLOCK);
        for (int64_t r = 0; r < m; r += ROWS)
            for (int64_t c = 0; c < n; c += ACROSS * LANES)
                multiply_tile (w->a + r * DEPTH, w->b + c, w->c + r * BLOCK + c, depth);
    }
    for (int64_t r = 0; r < m; r++) {
        for (int64_t c = 0; c < n; c++) {
            int64_t at = (row + r) * a->ldc + col + c;
            double sum = w->c[r * BLOCK + c];

            if (a->accumulate)
                sum += get (a->c, at, a->c_dtype);
            if (a->bias)
                sum += get (a->bias, col + c, a->bias_dtype);
            put (a->c, at, a->c_dtype, sum);
        }
    }
}

size_t cpu_gemm_double_scratch (const struct kernels *k, const struct kern_gemm_double *a)
{
    (void)a;
    return (size_t)cpu_of (k)->threads * sizeof (struct work);
}

int cpu_gemm_double (const struct kernels *k, const struct kern_gemm_double *a,
                     struct mg_error *err)
{
    int64_t down = (a->m + BLOCK - 1) / BLOCK, across = (a->n + BLOCK - 1) / BLOCK;
    struct work *work;

    if (kern_gemm_double_check (a, err) < 0
        || !(work = cpu_scratch (k, cpu_gemm_double_scratch (k, a), err)))
        return -1;
#pragma omp parallel for num_threads (cpu_of (k)->threads) schedule (dynamic) \
    if (down * across > 1)
    for (int64_t task = 0; task < down * across; task++)
        multiply (a, &work[cpu_thread ()], task / across * BLOCK, task % across * BLOCK);
    return 0;
}
