/* runtime_copy.cpp - copies and fills of the double of the CUDA runtime
 *
 * All copies happen when their turn comes, those of pageable memory too.  The real library reads
 * pageable memory before cudaMemcpyAsync() returns, but does not promise that it does.
 */

#include <stdio.h>
#include <string.h>

#include "tests/cuda/runtime.h"

struct plane {
    const void *p;
    size_t pitch;
};

/* Does a copy of 'kind' permit 'p' on this side, and does all of it lie in one allocation? */
static cudaError_t check_side (struct CUstream_st *stream, struct plane side, size_t width,
                               size_t height, bool want_device, bool any, const char *name)
{
    struct runtime_block block;
    size_t size = (height - 1) * side.pitch + width;

    if (height > 1 && side.pitch < width)
        return cudaErrorInvalidPitchValue;
    if (!side.p)
        return cudaErrorInvalidValue;
    if (!runtime_find (side.p, size, &block)) {
        fprintf (stderr, "cuda double: %s: %zu bytes at %p are not within an allocation\n", name,
                 size, side.p);
        return cudaErrorInvalidValue;
    }
    if (!any && (block.kind == RUNTIME_DEVICE) != want_device)
        return cudaErrorInvalidValue;
    return block.kind == RUNTIME_PAGEABLE ? runtime_check_pageable (stream) : cudaSuccess;
}

/* Issue a copy.  *op becomes its operation. */
static cudaError_t copy (struct plane to, struct plane from, size_t width, size_t height,
                         cudaMemcpyKind kind, cudaStream_t handle, runtime_ref *op)
{
    cudaError_t e = runtime_enter ();
    struct CUstream_st *stream = runtime_stream (handle);
    bool any = kind == cudaMemcpyDefault;

    if (e != cudaSuccess)
        return e;
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    if ((int)kind < 0 || kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    if (width == 0 || height == 0)
        return cudaSuccess;
    e = check_side (stream, to, width, height,
                    kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice, any,
                    "target of a copy");
    if (e == cudaSuccess)
        e = check_side (stream, from, width, height,
                        kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice, any,
                        "source of a copy");
    if (e == cudaSuccess)
        e = runtime_check_issue (stream);
    if (e != cudaSuccess)
        return e;
    *op = runtime_submit (stream, [=] {
        runtime_allow (RUNTIME_MAX_DEVICES); /* two devices may take part */
        for (size_t i = 0; i < height; i++)
            memcpy ((char *)to.p + i * to.pitch, (const char *)from.p + i * from.pitch, width);
        return cudaSuccess;
    });
    return cudaSuccess;
}

static cudaError_t fill (struct plane to, int value, size_t width, size_t height,
                         cudaStream_t handle, runtime_ref *op)
{
    cudaError_t e = runtime_enter ();
    struct CUstream_st *stream = runtime_stream (handle);

    if (e != cudaSuccess)
        return e;
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    if (width == 0 || height == 0)
        return cudaSuccess;
    e = check_side (stream, to, width, height, true, false, "target of a fill");
    if (e == cudaSuccess)
        e = runtime_check_issue (stream);
    if (e != cudaSuccess)
        return e;
    *op = runtime_submit (stream, [=] {
        runtime_allow (RUNTIME_MAX_DEVICES);
        for (size_t i = 0; i < height; i++)
            memset ((char *)to.p + i * to.pitch, value, width);
        return cudaSuccess;
    });
    return cudaSuccess;
}

/* A call that blocks ends with this: it waits for the operation. */
static cudaError_t wait_for (cudaError_t e, const runtime_ref &op)
{
    if (e == cudaSuccess && op) {
        runtime_wait (op);
        e = runtime_sticky (op->device);
    }
    return runtime_return (e);
}

extern "C" {

cudaError_t cudaMemcpyAsync (void *to, const void *from, size_t size, cudaMemcpyKind kind,
                             cudaStream_t stream)
{
    runtime_ref op;

    return runtime_return (copy ({ to, 0 }, { from, 0 }, size, 1, kind, stream, &op));
}

cudaError_t cudaMemcpy (void *to, const void *from, size_t size, cudaMemcpyKind kind)
{
    runtime_ref op;
    cudaError_t e = copy ({ to, 0 }, { from, 0 }, size, 1, kind, nullptr, &op);

    return wait_for (e, op);
}

cudaError_t cudaMemcpy2DAsync (void *to, size_t to_pitch, const void *from, size_t from_pitch,
                               size_t width, size_t height, cudaMemcpyKind kind,
                               cudaStream_t stream)
{
    runtime_ref op;

    return runtime_return (copy ({ to, to_pitch }, { from, from_pitch }, width, height, kind,
                                 stream, &op));
}

cudaError_t cudaMemcpy2D (void *to, size_t to_pitch, const void *from, size_t from_pitch,
                          size_t width, size_t height, cudaMemcpyKind kind)
{
    runtime_ref op;
    cudaError_t e = copy ({ to, to_pitch }, { from, from_pitch }, width, height, kind, nullptr,
                          &op);

    return wait_for (e, op);
}

cudaError_t cudaMemcpyPeerAsync (void *to, int to_device, const void *from, int from_device,
                                 size_t size, cudaStream_t stream)
{
    struct runtime_block a = {}, b = {};
    runtime_ref op;

    if (size > 0 && (!runtime_find (to, size, &a) || !runtime_find (from, size, &b)
                     || a.kind != RUNTIME_DEVICE || b.kind != RUNTIME_DEVICE))
        return runtime_return (cudaErrorInvalidValue);
    if (size > 0 && (a.device != to_device || b.device != from_device))
        return runtime_return (cudaErrorInvalidDevice);
    return runtime_return (copy ({ to, 0 }, { from, 0 }, size, 1, cudaMemcpyDeviceToDevice, stream,
                                 &op));
}

cudaError_t cudaMemsetAsync (void *to, int value, size_t size, cudaStream_t stream)
{
    runtime_ref op;

    return runtime_return (fill ({ to, 0 }, value, size, 1, stream, &op));
}

cudaError_t cudaMemset (void *to, int value, size_t size)
{
    runtime_ref op;
    cudaError_t e = fill ({ to, 0 }, value, size, 1, nullptr, &op);

    return wait_for (e, op);
}

cudaError_t cudaMemset2DAsync (void *to, size_t pitch, int value, size_t width, size_t height,
                               cudaStream_t stream)
{
    runtime_ref op;

    return runtime_return (fill ({ to, pitch }, value, width, height, stream, &op));
}

} /* extern "C" */
