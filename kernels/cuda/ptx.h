/* ptx - what CUDA C++ has no words for: all inline PTX, and declarations of shared memory.
 *
 * Each function has a second form, for the double of CUDA (tests/cuda), which compiles the same
 * kernels with g++.  No other file has inline PTX or asks for __CUDACC__.
 *
 * Fragments have the layouts of the PTX manual.  With g = lane / 4 and t = lane % 4, a register of
 * two elements holds the lower column (a, c) or row (b) in its low half.
 *   a[16][16]: a[0] row g, columns 2t, 2t+1; a[1] row g+8, the same columns; a[2] row g, columns
 *   2t+8, 2t+9; a[3] row g+8, columns 2t+8, 2t+9.
 *   b[16][8]: b[0] rows 2t, 2t+1 of column g; b[1] rows 2t+8, 2t+9.
 *   c[16][8]: c[0], c[1] row g, columns 2t, 2t+1; c[2], c[3] row g+8.
 */
#ifndef KERNELS_CUDA_PTX_H
#define KERNELS_CUDA_PTX_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#ifdef __CUDACC__
#define PTX_CALL __device__ __forceinline__
#define PTX_SITE
#else
#define PTX_CALL inline
#define PTX_SITE , DEVICE_SITE
#endif

/* SHARED (float, sums, [32]): an array of the block, uninitialised. */
#ifdef __CUDACC__
#define SHARED(TYPE, NAME, COUNT) __shared__ TYPE NAME COUNT
#else
#define SHARED(TYPE, NAME, COUNT)                                    \
    static const char NAME##_key = 0;                                \
    typedef TYPE NAME##_type COUNT;                                  \
    auto &NAME = *(NAME##_type *)launch_shared_static (&NAME##_key, sizeof (NAME##_type))
#endif

/* The dynamic shared memory of the launch, aligned to 16 bytes. */
PTX_CALL void *ptx_shared ()
{
#ifdef __CUDACC__
    extern __shared__ uint4 ptx_shared_memory[];

    return ptx_shared_memory;
#else
    return launch_shared_dynamic ();
#endif
}

/* Copy BYTES (4, 8 or 16) from global to shared memory in the background, both aligned to BYTES.
 * The first 'valid' bytes are copied, the others are zeroed; with valid 0 'from' is not read.
 * The bytes may be read after ptx_copy_wait() and a barrier.
 */
template <int BYTES> PTX_CALL void ptx_copy (void *to, const void *from, int valid PTX_SITE)
{
    static_assert (BYTES == 4 || BYTES == 8 || BYTES == 16, "what cp.async copies");
#ifdef __CUDACC__
    uint32_t at = (uint32_t)__cvta_generic_to_shared (to);

    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
                     "r"(valid)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(at), "l"(from),
                     "r"(valid), "n"(BYTES)
                     : "memory");
#else
    launch_copy_async (to, from, BYTES, (unsigned)valid, file, line);
#endif
}

/* End a group of copies of the calling thread. */
PTX_CALL void ptx_copy_commit ()
{
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    launch_copy_commit ();
#endif
}

/* Wait for the calling thread's groups of copies except for the last LEFT. */
template <int LEFT> PTX_CALL void ptx_copy_wait ()
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#else
    launch_copy_wait (LEFT);
#endif
}

/* c += a b on a whole warp; T is __nv_bfloat16 or __half. */
template <typename T>
PTX_CALL void ptx_mma (float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2] PTX_SITE);

#ifdef __CUDACC__
#define PTX_MMA(T, NAME)                                                                   \
    template <>                                                                            \
    PTX_CALL void ptx_mma<T> (float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) \
    {                                                                                      \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32"         \
                     " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"    \
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                      \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));  \
    }
PTX_MMA (__nv_bfloat16, "bf16")
PTX_MMA (__half, "f16")
#undef PTX_MMA
#else
template <typename T>
PTX_CALL void ptx_mma (float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                       const char *file, int line)
{
    device_mma<T>::run (c, a, b, file, line);
}
#endif

/* N (1, 2 or 4) matrices of 8 x 8 16-bit elements from shared memory on a whole warp.  Lane
 * 8 i + r has the address of row r of matrix i, aligned to 16 bytes.  Lane 4 g + t gets the
 * elements 2 t and 2 t + 1 of row g of matrix i in out[i]; with TRANS, of column g.
 */
template <int N, bool TRANS = false>
PTX_CALL void ptx_ldmatrix (uint32_t (&out)[N], const void *row PTX_SITE)
{
    static_assert (N == 1 || N == 2 || N == 4, "what ldmatrix loads");
#ifdef __CUDACC__
    uint32_t at = (uint32_t)__cvta_generic_to_shared (row);

#define PTX_LD(COUNT, KIND, REGS, AT) \
    "ldmatrix.sync.aligned.m8n8." COUNT KIND ".shared.b16 " REGS ", [" AT "];"
    if constexpr (N == 4 && !TRANS)
        asm volatile(PTX_LD ("x4", "", "{%0, %1, %2, %3}", "%4")
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(at) : "memory");
    else if constexpr (N == 4)
        asm volatile(PTX_LD ("x4", ".trans", "{%0, %1, %2, %3}", "%4")
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(at) : "memory");
    else if constexpr (N == 2 && !TRANS)
        asm volatile(PTX_LD ("x2", "", "{%0, %1}", "%2")
                     : "=r"(out[0]), "=r"(out[1]) : "r"(at) : "memory");
    else if constexpr (N == 2)
        asm volatile(PTX_LD ("x2", ".trans", "{%0, %1}", "%2")
                     : "=r"(out[0]), "=r"(out[1]) : "r"(at) : "memory");
    else if constexpr (!TRANS)
        asm volatile(PTX_LD ("x1", "", "{%0}", "%1") : "=r"(out[0]) : "r"(at) : "memory");
    else
        asm volatile(PTX_LD ("x1", ".trans", "{%0}", "%1") : "=r"(out[0]) : "r"(at) : "memory");
#undef PTX_LD
#else
    device_ldmatrix<N, TRANS>::run (out, row, file, line);
#endif
}

/* 2^x with at most 2 ulps of error; denormal results are 0. */
PTX_CALL float ptx_exp2 (float x)
{
#ifdef __CUDACC__
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    float y = exp2f (x);

    return y < 0x1p-126f ? 0 : y;
#endif
}


#endif /* KERNELS_CUDA_PTX_H */
