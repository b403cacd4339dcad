/* gemm_few.c - matrix product of few rows: each element of B is read from memory once
 *
 * B is [n][k], so an element of C is a dot product of a row of A and a row of B.  COLS rows of B
 * meet up to ROWS rows of A in registers: an accumulator holds VEC partial sums of one element of
 * C.  Rows of A beyond ROWS take the rows of B from the first-level cache.  Elements of B are
 * fetched some time before they are read: a processor alone does not read as fast as the memory
 * can.
 *
 * The partial sums of VEC columns are transposed and added, so that the sums lie in one vector.
 *
 * Every element of C is one sum.  Its order depends on k alone: neither on m and n nor on the place
 * of the element nor on the number of threads.
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

enum {
    ROWS = VEC == 16 ? 4 : 3, /* with COLS, of the 32 registers of AVX-512, the 16 of AVX2, SSE */
    COLS = 4,                 /* divides VEC */
    KC = 64 * VEC,            /* elements of a row of B that are taken at a time */
    AHEAD = 3072,             /* bytes from an element that is read to the one that is fetched */
    TASK = 16,                /* columns that a thread takes at least, a multiple of VEC */
};

/* The float32 rows of A are 'ldx' apart, whole vectors, and end with zeros. */
struct few {
    const struct kern_gemm *a;
    const float *x;
    int64_t ldx;
};

/* Partial sums of VEC columns. */
struct partial {
    vf sum[CPU_FEW_ROWS][VEC];
};

/* Part of B: rows col .. col + cols - 1, elements l .. l + depth - 1.  'left' is the number of rows
 * from 'col' on.  The last row takes the place of rows that are missing.
 */
struct few_part {
    int64_t col, left, l, depth;
};

bool cpu_gemm_is_few (const struct kern_gemm *a)
{
    return a->m <= CPU_FEW_ROWS && !a->trans_a && a->trans_b && a->k > 0;
}

static int64_t whole (int64_t n)
{
    return (n + VEC - 1) / VEC * VEC;
}

size_t cpu_gemm_few_scratch (const struct kern_gemm *a)
{
    return (size_t)(a->m * whole (a->k)) * sizeof (float);
}

/* The row of B for column 'c' of a part. */
VEC_INLINE int64_t row_of (const struct kern_gemm *a, const struct few_part *p, int64_t c)
{
    return (p->col + cpu_min (c, p->left - 1)) * a->ldb;
}

/* The elements to prefetch while a part is multiplied by some rows of A: those that are AHEAD bytes
 * further in the row, for every 'turns'-th vector from vector 'turn' on.  At the end of a row, the
 * row of the column that is COLS further follows.
 */
struct few_ahead {
    int64_t turn, turns;
    int64_t here; /* elements of the part whose prefetched elements are in the same rows */
    int64_t same[COLS], next[COLS]; /* offsets from an element of the part: in the same row, in
                                     * the row behind it */
};

VEC_INLINE void set_ahead (const struct kern_gemm *a, const struct few_part *p, int64_t turn,
                           int64_t turns, struct few_ahead *ahead)
{
    int64_t n = cpu_min (AHEAD / (int64_t)cpu_size (a->dtype), a->k);

    *ahead = (struct few_ahead){ .turn = turn, .turns = turns, .here = a->k - n - p->l };
    for (int c = 0; c < COLS; c++) {
        ahead->same[c] = row_of (a, p, c) + p->l + n;
        ahead->next[c] = row_of (a, p, c + COLS) + p->l + n - a->k;
    }
}

/* Fetch for the elements from 'l' of the part on, if it is their turn. */
VEC_INLINE void fetch (const struct kern_gemm *a, struct few_ahead *ahead, int64_t l,
                       const enum mg_dtype type)
{
    const int64_t *from = l < ahead->here ? ahead->same : ahead->next;

    if (ahead->turn-- > 0)
        return;
    ahead->turn = ahead->turns - 1;
    VEC_UNROLL for (int c = 0; c < COLS; c++)
        __builtin_prefetch ((const char *)a->b + (size_t)(from[c] + l) * cpu_size (type), 0, 2);
}

/* Add the part's products with rows row .. row + rows - 1 of A. */
VEC_INLINE void add_rows (const struct few *f, const struct few_part *p, int64_t row,
                          vf (*out)[VEC], const int rows, const enum mg_dtype type)
{
    const float *x = f->x + row * f->ldx + p->l;
    int64_t from[COLS];
    vf sum[ROWS][COLS];
    struct few_ahead ahead;

    set_ahead (f->a, p, row / ROWS, (f->a->m + ROWS - 1) / ROWS, &ahead);
    VEC_UNROLL for (int c = 0; c < COLS; c++)
        from[c] = row_of (f->a, p, c) + p->l;
    VEC_UNROLL for (int r = 0; r < rows; r++)
        VEC_UNROLL for (int c = 0; c < COLS; c++)
            sum[r][c] = out[r][c];
    for (int64_t l = 0; l < p->depth; l += VEC) {
        vf b[COLS];

        fetch (f->a, &ahead, l, type);
        if (p->depth - l >= VEC) {
            VEC_UNROLL for (int c = 0; c < COLS; c++)
                b[c] = vec_get (f->a->b, from[c] + l, VEC, type);
        } else {
            VEC_UNROLL for (int c = 0; c < COLS; c++)
                b[c] = vec_get (f->a->b, from[c] + l, p->depth - l, type);
        }
        VEC_UNROLL for (int r = 0; r < rows; r++) {
            vf v = vec_load (x + r * f->ldx + l);

            VEC_UNROLL for (int c = 0; c < COLS; c++)
                sum[r][c] += v * b[c];
        }
    }
    VEC_UNROLL for (int r = 0; r < rows; r++)
        VEC_UNROLL for (int c = 0; c < COLS; c++)
            out[r][c] = sum[r][c];
}

/* The next part of the thread.  It has no rows if 'p' is the thread's last part. */
static struct few_part next_part (const struct kern_gemm *a, const struct few_part *p)
{
    struct few_part next = *p;

    next.l += p->depth;
    if (next.l == a->k) {
        next.l = 0;
        next.col += COLS;
        next.left -= COLS;
    }
    next.depth = cpu_min (KC, a->k - next.l);
    return next;
}

/* All rows of A. */
VEC_INLINE void add_part (const struct few *f, const struct few_part *p, vf (*out)[VEC],
                          const enum mg_dtype type)
{
    int64_t m = f->a->m, row = 0;

    for (; row + ROWS <= m; row += ROWS)
        add_rows (f, p, row, out + row, ROWS, type);
    if (ROWS > 3 && m - row == 3)
        add_rows (f, p, row, out + row, 3, type);
    else if (m - row == 2)
        add_rows (f, p, row, out + row, 2, type);
    else if (m - row == 1)
        add_rows (f, p, row, out + row, 1, type);
}

/* Store up to VEC columns of C of one row. */
VEC_INLINE void store (const struct kern_gemm *a, int64_t row, int64_t col, vf sum,
                       const enum mg_dtype c_type)
{
    int64_t at = row * a->ldc + col, left = a->n - col;

    if (a->bias)
        sum += vec_get (a->bias, col, left, a->dtype);
    if (a->accumulate)
        sum = vec_get (a->c, at, left, c_type) + sum;
    vec_put (a->c, at, sum, left, c_type);
}

static void end_columns (const struct kern_gemm *a, int64_t col, const struct partial *p)
{
    for (int64_t r = 0; r < a->m; r++) {
        vf lane[VEC];

        memcpy (lane, p->sum[r], sizeof (lane));
        VEC_TYPED (a->c_dtype, store, a, r, col, vec_sum_rows (lane));
    }
}

/* Columns first .. end - 1. */
VEC_INLINE void do_columns (const struct few *f, int64_t first, int64_t end,
                            const enum mg_dtype type)
{
    struct few_part p = { first, f->a->n - first, 0, cpu_min (KC, f->a->k) };
    struct partial partial;

    for (int64_t col = first; col < end; col += VEC) {
        memset (&partial, 0, sizeof (partial.sum[0]) * (size_t)f->a->m);
        while (p.left > 0 && p.col < col + VEC) {
            add_part (f, &p, (vf (*)[VEC])&partial.sum[0][p.col - col], type);
            p = next_part (f->a, &p);
        }
        end_columns (f->a, col, &partial);
    }
}

VEC_INLINE void widen (const struct kern_gemm *a, float *x, int64_t ldx, const enum mg_dtype type)
{
    for (int64_t r = 0; r < a->m; r++)
        for (int64_t l = 0; l < a->k; l += VEC)
            vec_store (x + r * ldx + l, vec_get (a->a, r * a->lda + l, a->k - l, type));
}

int cpu_gemm_few (const struct kernels *k, const struct kern_gemm *a, struct mg_error *err)
{
    float *x = cpu_scratch (k, cpu_gemm_few_scratch (a), err);
    struct few f = { a, x, whole (a->k) };

    if (!x)
        return -1;
    VEC_TYPED (a->dtype, widen, a, x, f.ldx);
#pragma omp parallel for num_threads (cpu_of (k)->threads) schedule (guided) \
    if (a->m * a->n * a->k > CPU_SERIAL)
    for (int64_t first = 0; first < a->n; first += TASK)
        VEC_TYPED (a->dtype, do_columns, &f, first, cpu_min (a->n, first + TASK));
    return 0;
}
