/* tile.c - the inner product of matrix blocks
 *
 * R rows by V vectors of C stay in registers while k runs: each step loads V vectors of B
 * and broadcasts R elements of A.  6 x 4 of the 32 registers of AVX-512, 6 x 2 of the 16
 * of AVX2 and SSE.
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

enum { ROWS = 6, VECS = VEC == 16 ? 4 : 2 };

VEC_INLINE void block (const struct cpu_tile *t, int64_t row, int64_t col, const int rows,
                       const int vecs)
{
    const float *a = t->a + row * t->a_row, *b = t->b + col;
    float *c = t->c + row * t->ldc + col;
    vf sum[ROWS][VECS];

    VEC_UNROLL for (int r = 0; r < rows; r++)
        VEC_UNROLL for (int v = 0; v < vecs; v++)
            sum[r][v] = t->accumulate ? vec_load (c + r * t->ldc + v * VEC) : (vf){ 0 };
    if (t->scale) {
        VEC_UNROLL for (int r = 0; r < rows; r++)
            VEC_UNROLL for (int v = 0; v < vecs; v++)
                sum[r][v] *= vec_load (t->scale + col + v * VEC);
    }
    for (int64_t l = 0; l < t->k; l++) {
        vf line[VECS];

        VEC_UNROLL for (int v = 0; v < vecs; v++)
            line[v] = vec_load (b + l * t->ldb + v * VEC);
        VEC_UNROLL for (int r = 0; r < rows; r++)
            VEC_UNROLL for (int v = 0; v < vecs; v++)
                sum[r][v] += vec_set (a[r * t->a_row + l * t->a_col]) * line[v];
    }
    VEC_UNROLL for (int r = 0; r < rows; r++)
        VEC_UNROLL for (int v = 0; v < vecs; v++)
            vec_store (c + r * t->ldc + v * VEC, sum[r][v]);
}

/* 'rows' rows, all columns. */
VEC_INLINE void strip (const struct cpu_tile *t, int64_t row, const int rows)
{
    int64_t col = 0;

    for (; col + VECS * VEC <= t->n; col += VECS * VEC)
        block (t, row, col, rows, VECS);
    for (; VECS == 4 && col + 2 * VEC <= t->n; col += 2 * VEC)
        block (t, row, col, rows, 2);
    for (; col < t->n; col += VEC)
        block (t, row, col, rows, 1);
}

void cpu_tile (const struct cpu_tile *t)
{
    int64_t row = 0;

    for (; row + ROWS <= t->m; row += ROWS)
        strip (t, row, ROWS);
    if (t->m - row >= 4) {
        strip (t, row, 4);
        row += 4;
    }
    if (t->m - row >= 2) {
        strip (t, row, 2);
        row += 2;
    }
    if (t->m - row == 1)
        strip (t, row, 1);
}
