/* state.cu - arrays of float32 values that are stored otherwise (struct kern_state) */

#include "kernels/cuda/state.h"

__global__ void __launch_bounds__ (CUDA_THREADS) state_load (struct kern_state_load a)
{
    for (int64_t i = cuda_thread (); i < a.n; i += cuda_num_threads ())
        cuda_set_typed_element (a.out, i, cuda_state_get (a.state, i), a.dtype);
}

/* in may be the state's upper half: an element is read before anything is written. */
__global__ void __launch_bounds__ (CUDA_THREADS) state_store (struct kern_state_store a)
{
    for (int64_t i = cuda_thread (); i < a.n; i += cuda_num_threads ())
        cuda_state_put (a.state, i, cuda_typed_element (a.in, i, a.dtype));
}

int cuda_state_load (const struct cuda_call *call, const struct kern_state_load *a,
                     struct mg_error *err)
{
    if (kern_state_check (&a->state, "values", err) < 0)
        return -1;
    return cuda_launch_each<state_load> (call, "state_load", err, a->n, *a);
}

int cuda_state_store (const struct cuda_call *call, const struct kern_state_store *a,
                      struct mg_error *err)
{
    if (kern_state_check (&a->state, "values", err) < 0)
        return -1;
    return cuda_launch_each<state_store> (call, "state_store", err, a->n, *a);
}
