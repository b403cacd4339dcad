/* fill.c - initial weights by global coordinates, and constants */

#include "kernels/cpu/cpu.h"
#include "libcore/base/rng.h"

int cpu_fill_normal (const struct kernels *k, const struct kern_fill_normal *a,
                     struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
    for (int64_t r = 0; r < a->rows; r++) {
        double normal[4];
        int64_t block = -1;

        for (int64_t c = 0; c < a->cols; c++) {
            int64_t col = a->first_col + c;

            if (col / 4 != block) {
                block = col / 4;
                rng_normal (a->key, (uint32_t)block, (uint32_t)(a->first_row + r), 0,
                            normal);
            }
            a->out[r * a->ld + c] = (float)(a->mean + a->std * normal[col % 4]);
        }
    }
    return 0;
}

int cpu_fill (const struct kernels *k, int64_t n, float value, float *out,
              struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
    for (int64_t i = 0; i < n; i++)
        out[i] = value;
    return 0;
}
