/* cast.cu - elementwise conversion of float32, bfloat16, float16 and float8
 *
 * A thread has as many elements as 16 bytes hold of the wider type, so that the threads of a warp
 * read and write pieces that follow each other.
 */

#include "kernels/cuda/number.h"

template <typename FROM, typename TO>
constexpr int GROUP = 16 / (int)(sizeof (FROM) > sizeof (TO) ? sizeof (FROM) : sizeof (TO));

template <typename FROM, typename TO, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) cast (struct kern_cast a)
{
    const FROM *from = (const FROM *)a.x;
    const int SIZE = GROUP<FROM, TO>;
    float scale = a.scale_at ? *a.scale_at : a.scale;

    for (int64_t i = cuda_thread () * SIZE; i < a.n; i += cuda_num_threads () * SIZE) {
        cuda_group<FROM, SIZE> x = cuda_load_group<WIDE, SIZE> (from + i, a.n - i);
        cuda_group<TO, SIZE> y;

#pragma unroll
        for (int j = 0; j < SIZE; j++) {
            float v = cuda_float (x.x[j]);

            y.x[j] = cuda_rounded<TO> (scale == 1 ? v : v * scale);
        }
        cuda_store_group<WIDE> ((TO *)a.y + i, y, a.n - i);
    }
}

template <typename FROM, typename TO>
static int launch (const struct cuda_call *call, const struct kern_cast *a, struct mg_error *err)
{
    const int SIZE = GROUP<FROM, TO>;
    int64_t n = (a->n + SIZE - 1) / SIZE;
    bool wide = cuda_is_grouped<SIZE> ((const FROM *)a->x) && cuda_is_grouped<SIZE> ((TO *)a->y);

    return wide ? cuda_launch_each<cast<FROM, TO, true>> (call, "cast", err, n, *a)
                : cuda_launch_each<cast<FROM, TO, false>> (call, "cast", err, n, *a);
}

template <typename FROM>
static int launch_from (const struct cuda_call *call, const struct kern_cast *a,
                        struct mg_error *err)
{
    return a->to == MG_FLOAT8_E4M3 ? launch<FROM, cuda_e4m3> (call, a, err)
           : a->to == MG_BFLOAT16  ? launch<FROM, __nv_bfloat16> (call, a, err)
           : a->to == MG_FLOAT16   ? launch<FROM, __half> (call, a, err)
                                   : launch<FROM, float> (call, a, err);
}

int cuda_cast (const struct cuda_call *call, const struct kern_cast *a, struct mg_error *err)
{
    if (kern_cast_check (a, err) < 0)
        return -1;
    return CUDA_STORED (a->from, launch_from, call, a, err);
}
