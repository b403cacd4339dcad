/* ptx_host - the instructions of kernels/cuda/ptx.h on the host
 *
 * Each lane holds the elements of a fragment that the PTX manual says (section "Matrix fragments
 * for mma.m16n8k16"): lane 4 g + t has rows g and g + 8, columns 2 t and 2 t + 1 of each 8.
 */
#ifndef TESTS_CUDA_PTX_HOST_H
#define TESTS_CUDA_PTX_HOST_H

#include "tests/cuda/device.h"

template <typename T> DEVICE_QUIET float device_unpack (uint32_t pair, int half)
{
    uint16_t bits = (uint16_t)(pair >> 16 * half);
    T value;

    memcpy ((void *)&value, &bits, sizeof (value));
    return (float)value;
}

/* c[16][8] += a[16][16] b[16][8], the sum of the 16 products first. */
template <typename T> struct device_mma {
    float *c;
    const uint32_t *a, *b;

    DEVICE_QUIET static void gather (void **lanes, float a[16][16], float b[16][8])
    {
        for (int lane = 0; lane < 32; lane++) {
            const auto *m = (device_mma *)lanes[lane];
            int g = lane / 4, t = lane % 4 * 2;

            for (int i = 0; i < 4; i++)
                for (int h = 0; h < 2; h++)
                    a[g + i % 2 * 8][t + i / 2 * 8 + h] = device_unpack<T> (m->a[i], h);
            for (int i = 0; i < 2; i++)
                for (int h = 0; h < 2; h++)
                    b[t + i * 8 + h][g] = device_unpack<T> (m->b[i], h);
        }
    }
    DEVICE_QUIET static void combine (void **lanes, unsigned)
    {
        float a[16][16], b[16][8], sum[16][8] = {};

        gather (lanes, a, b);
        for (int i = 0; i < 16; i++)
            for (int k = 0; k < 16; k++)
                for (int j = 0; j < 8; j++)
                    sum[i][j] += a[i][k] * b[k][j];
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 4; i++)
                ((device_mma *)lanes[lane])->c[i] += sum[lane / 4 + i / 2 * 8]
                                                        [lane % 4 * 2 + i % 2];
    }
    DEVICE_QUIET static void run (float *c, const uint32_t *a, const uint32_t *b,
                                  const char *file, int line)
    {
        device_mma me = { c, a, b };

        if (launch_self->lane == 0)
            launch_note_mma ();
        launch_warp (0xffffffff, &me, combine, "mma.m16n8k16", file, line);
    }
};

/* Lane 8 i + r has the address of row r of matrix i; lane 4 g + t gets the elements 2 t and 2 t + 1
 * of row g of each, or of column g if transposed.
 */
template <int N, bool TRANS> struct device_ldmatrix {
    uint32_t *out;
    uint16_t row[8];

    DEVICE_QUIET static uint32_t at (void **rows, int r, int c)
    {
        return ((device_ldmatrix *)rows[r])->row[c];
    }
    DEVICE_QUIET static void combine (void **lanes, unsigned)
    {
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < N; i++) {
                int g = lane / 4, t = lane % 4 * 2;
                uint32_t low = TRANS ? at (lanes + 8 * i, t, g) : at (lanes + 8 * i, g, t);
                uint32_t high
                    = TRANS ? at (lanes + 8 * i, t + 1, g) : at (lanes + 8 * i, g, t + 1);

                ((device_ldmatrix *)lanes[lane])->out[i] = high << 16 | low;
            }
    }
    DEVICE_QUIET static void run (uint32_t *out, const void *row, const char *file, int line)
    {
        device_ldmatrix me = { out, {} };

        /* The addresses of lanes behind the last matrix are not used. */
        if (launch_self->lane < 8 * N) {
            const void *base;
            size_t size;

            if ((uintptr_t)row % 16)
                launch_fail (cudaErrorMisalignedAddress, "ldmatrix of %s:%d: row at %p", file, line,
                             row);
            if (!launch_shared_bounds (row, &base, &size)
                || (const char *)row + 16 > (const char *)base + size
                || (const char *)row < (const char *)base)
                launch_fail (cudaErrorIllegalAddress, "ldmatrix of %s:%d: row at %p is not in"
                             " shared memory", file, line, row);
            launch_note_access (row, 16, LAUNCH_READ);
            memcpy (me.row, row, 16);
        }
        launch_warp (0xffffffff, &me, combine, TRANS ? "ldmatrix.trans" : "ldmatrix", file, line);
    }
};

#endif /* TESTS_CUDA_PTX_HOST_H */
