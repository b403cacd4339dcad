/* reduce.c - column sums, sum of squares, axpby */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

enum {
    STRIP = 128,   /* columns of a task of col_sum */
    GROUP = 64,    /* rows summed before they are added to the total: less rounding */
    CHUNKS = 1024, /* partial sums of sum_sq, at most */
};

/* Columns col .. col + n - 1, n at most STRIP. */
static void sum_strip (int64_t rows, int64_t cols, const float *x, int64_t n, float *out)
{
    vf total[STRIP / VEC], part[STRIP / VEC];

    for (int i = 0; i < STRIP / VEC; i++)
        total[i] = (vf){ 0 };
    for (int64_t begin = 0; begin < rows; begin += GROUP) {
        for (int i = 0; i < STRIP / VEC; i++)
            part[i] = (vf){ 0 };
        for (int64_t r = begin; r < cpu_min (begin + GROUP, rows); r++)
            for (int64_t c = 0; c < n; c += VEC)
                part[c / VEC] += vec_load_part (x + r * cols + c, n - c);
        for (int i = 0; i < STRIP / VEC; i++)
            total[i] += part[i];
    }
    for (int64_t c = 0; c < n; c += VEC)
        vec_store_part (out + c, vec_load_part (out + c, n - c) + total[c / VEC], n - c);
}

int cpu_col_sum (const struct kernels *k, int64_t rows, int64_t cols, const float *x,
                 float *out, struct mg_stream *stream, struct mg_error *err)
{
    (void)stream, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (rows * cols > CPU_SERIAL)
    for (int64_t c = 0; c < cols; c += STRIP)
        sum_strip (rows, cols, x + c, cpu_min (STRIP, cols - c), out + c);
    return 0;
}

static double sum_chunk (const float *x, int64_t n)
{
    vd sum[4] = { { 0 }, { 0 }, { 0 }, { 0 } };
    double total = 0;

    for (int64_t i = 0; i < n; i += VEC) {
        vf v = vec_load_part (x + i, n - i);
        vd low = vec_double_low (v), high = vec_double_high (v);
        int pair = i / VEC & 1;

        sum[2 * pair] += low * low;
        sum[2 * pair + 1] += high * high;
    }
    sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (int i = 0; i < VEC / 2; i++)
        total += sum[0][i];
    return total;
}

int cpu_sum_sq (const struct kernels *k, int64_t n, const float *x, double *out,
                struct mg_stream *stream, struct mg_error *err)
{
    /* The chunks depend on n only, so the sum does not depend on the threads. */
    int64_t size = (n + CHUNKS - 1) / CHUNKS, chunks;
    double part[CHUNKS], total = 0;

    (void)stream, (void)err;
    if (size < CPU_BLOCK)
        size = CPU_BLOCK;
    chunks = (n + size - 1) / size;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (n > CPU_SERIAL)
    for (int64_t i = 0; i < chunks; i++)
        part[i] = sum_chunk (x + i * size, cpu_min (size, n - i * size));
    for (int64_t i = 0; i < chunks; i++)
        total += part[i];
    *out = total;
    return 0;
}

static void axpby (int64_t n, float a, const float *x, float b, float *y)
{
    for (int64_t i = 0; i < n; i += VEC) {
        vf v = a * vec_load_part (x + i, n - i);

        if (b != 0)
            v += b * vec_load_part (y + i, n - i);
        vec_store_part (y + i, v, n - i);
    }
}

int cpu_axpby (const struct kernels *k, int64_t n, double a, const float *x, double b,
               float *y, struct mg_stream *stream, struct mg_error *err)
{
    (void)stream, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (n > CPU_SERIAL)
    for (int64_t i = 0; i < cpu_blocks (n); i++)
        axpby (cpu_min (CPU_BLOCK, n - i * CPU_BLOCK), (float)a, x + i * CPU_BLOCK, (float)b,
               y + i * CPU_BLOCK);
    return 0;
}
