/* runtime_stream.cpp - streams, events and launches of the double of the CUDA runtime */

#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "tests/cuda/launch.h"
#include "tests/cuda/runtime.h"

struct CUevent_st {
    int device;
    bool timing;
    runtime_ref op; /* the operation that records the event; NULL: it was never recorded */
    struct runtime_captured captured; /* the last record was in a capture */
};

static struct state {
    std::mutex mutex;
    std::set<cudaEvent_t> events;              /* that are not destroyed */
    std::map<std::pair<const void *, int>, int> shared; /* of kernel and device: dynamic limit */
} *own = new state;

enum { SHARED_STANDARD = 48 << 10 };

/* The operation and device of an event.  False if the handle is no event. */
static bool find_event (cudaEvent_t event, struct CUevent_st *copy)
{
    std::lock_guard<std::mutex> hold (own->mutex);

    if (!own->events.count (event))
        return false;
    *copy = *event;
    return true;
}

static cudaError_t create_stream (cudaStream_t *out, unsigned flags, int priority)
{
    cudaError_t e = runtime_enter ();

    if (e == cudaSuccess && (flags & ~(unsigned)cudaStreamNonBlocking))
        e = cudaErrorInvalidValue;
    if (e == cudaSuccess) { /* priorities out of range are brought into it */
        *out = runtime_stream_create (runtime_device (), !(flags & cudaStreamNonBlocking),
                                      std::max (-5, std::min (0, priority)));
        (*out)->flags = flags;
        if (priority < 0)
            runtime_count_stream ();
    }
    return runtime_return (e);
}

/* Issue a launch.  Its grid, block and shared memory have been checked. */
static void issue (struct CUstream_st *stream, const cudaLaunchConfig_t *config,
                   const void *kernel, const struct launch_kernel *known, void **args)
{
    struct launch_request request = {};
    auto values = std::make_shared<std::vector<std::vector<char>>> ();

    for (int i = 0; i < known->num_parameters; i++)
        values->emplace_back ((char *)args[i], (char *)args[i] + known->sizes[i]);
    request.kernel = kernel;
    request.grid[0] = config->gridDim.x;
    request.grid[1] = config->gridDim.y;
    request.grid[2] = config->gridDim.z;
    request.block[0] = config->blockDim.x;
    request.block[1] = config->blockDim.y;
    request.block[2] = config->blockDim.z;
    request.shared = config->dynamicSmemBytes;
    request.bounds = [] (void *, const void *address, const void **base, size_t *size) {
        struct runtime_block block;

        if (!runtime_find (address, 1, &block) || block.kind != RUNTIME_DEVICE)
            return false;
        *base = block.base;
        *size = block.size;
        return true;
    };
    runtime_submit (stream, [request, values] {
        struct launch_request r = request;
        std::vector<void *> list;

        for (auto &v : *values)
            list.push_back (v.data ());
        r.args = list.data ();
        return (cudaError_t)launch_run (&r);
    });
}

static std::atomic<int> launches; /* of this process, for MG_CUDA_FAIL_LAUNCH */

/* The errors of a launch that are known before it runs. */
static cudaError_t check_launch (const cudaLaunchConfig_t *c, const void *kernel)
{
    size_t threads = (size_t)c->blockDim.x * c->blockDim.y * c->blockDim.z;
    size_t limit = SHARED_STANDARD;

    if (!launch_find (kernel))
        return cudaErrorInvalidDeviceFunction;
    if (threads == 0 || threads > LAUNCH_MAX_THREADS || c->blockDim.x > 1024
        || c->blockDim.y > 1024 || c->blockDim.z > 64 || c->gridDim.x == 0
        || c->gridDim.x > 2147483647u || c->gridDim.y == 0 || c->gridDim.y > 65535
        || c->gridDim.z == 0 || c->gridDim.z > 65535)
        return cudaErrorInvalidConfiguration;
    {
        std::lock_guard<std::mutex> hold (own->mutex);
        auto found = own->shared.find ({ kernel, runtime_device () });
        if (found != own->shared.end ())
            limit = std::max (limit, (size_t)found->second);
    }
    if (c->dynamicSmemBytes > limit)
        return cudaErrorInvalidValue;
    for (unsigned i = 0; i < c->numAttrs; i++) {
        if (c->attrs[i].id == cudaLaunchAttributeIgnore)
            continue;
        fprintf (stderr, "cuda double: attribute %d of a launch is not in the double\n",
                 (int)c->attrs[i].id);
        return cudaErrorNotSupported;
    }
    return cudaSuccess;
}

extern "C" {

cudaError_t cudaStreamCreate (cudaStream_t *out)
{
    return create_stream (out, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags (cudaStream_t *out, unsigned flags)
{
    return create_stream (out, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority (cudaStream_t *out, unsigned flags, int priority)
{
    return create_stream (out, flags, priority);
}

/* What was issued goes on. */
cudaError_t cudaStreamDestroy (cudaStream_t handle)
{
    cudaError_t e = runtime_enter ();
    struct CUstream_st *stream = runtime_stream (handle);

    if (e == cudaSuccess && (!stream || stream->legacy))
        e = cudaErrorInvalidResourceHandle;
    if (e == cudaSuccess) {
        runtime_leave (stream);
        runtime_stream_destroy (stream);
    }
    return runtime_return (e);
}

cudaError_t cudaStreamSynchronize (cudaStream_t handle)
{
    cudaError_t e = runtime_enter ();
    struct CUstream_st *stream = runtime_stream (handle);

    if (e == cudaSuccess && !stream)
        e = cudaErrorInvalidResourceHandle;
    if (e == cudaSuccess)
        e = runtime_check_wait (stream);
    if (e == cudaSuccess) {
        int device = stream->device;

        if (stream->legacy) /* its turn comes after the blocking streams */
            runtime_wait (runtime_submit (stream, nullptr));
        else
            runtime_wait (runtime_last (stream));
        e = runtime_sticky (device);
    }
    return runtime_return (e);
}

cudaError_t cudaStreamQuery (cudaStream_t handle)
{
    cudaError_t e = runtime_enter ();
    struct CUstream_st *stream = runtime_stream (handle);

    if (e == cudaSuccess && !stream)
        e = cudaErrorInvalidResourceHandle;
    if (e == cudaSuccess)
        e = runtime_check_wait (stream);
    if (e == cudaSuccess)
        e = runtime_done (runtime_last (stream)) ? runtime_sticky (stream->device)
                                                 : cudaErrorNotReady;
    return runtime_return (e);
}

cudaError_t cudaStreamGetPriority (cudaStream_t handle, int *priority)
{
    cudaError_t e = runtime_enter ();
    struct CUstream_st *stream = runtime_stream (handle);

    if (e == cudaSuccess && !stream)
        e = cudaErrorInvalidResourceHandle;
    if (e == cudaSuccess)
        *priority = stream->priority;
    return runtime_return (e);
}

cudaError_t cudaStreamGetFlags (cudaStream_t handle, unsigned *flags)
{
    cudaError_t e = runtime_enter ();
    struct CUstream_st *stream = runtime_stream (handle);

    if (e == cudaSuccess && !stream)
        e = cudaErrorInvalidResourceHandle;
    if (e == cudaSuccess)
        *flags = stream->flags;
    return runtime_return (e);
}

cudaError_t cudaStreamGetDevice (cudaStream_t handle, int *device)
{
    cudaError_t e = runtime_enter ();
    struct CUstream_st *stream = runtime_stream (handle);

    if (e == cudaSuccess && !stream)
        e = cudaErrorInvalidResourceHandle;
    if (e == cudaSuccess)
        *device = stream->device;
    return runtime_return (e);
}

cudaError_t cudaEventCreateWithFlags (cudaEvent_t *out, unsigned flags)
{
    cudaError_t e = runtime_enter ();
    unsigned known = cudaEventBlockingSync | cudaEventDisableTiming;

    if (e == cudaSuccess && (flags & ~known))
        e = cudaErrorInvalidValue;
    if (e != cudaSuccess)
        return runtime_return (e);
    *out = new CUevent_st ();
    (*out)->device = runtime_device ();
    (*out)->timing = !(flags & cudaEventDisableTiming);
    std::lock_guard<std::mutex> hold (own->mutex);
    own->events.insert (*out);
    return cudaSuccess;
}

cudaError_t cudaEventCreate (cudaEvent_t *out)
{
    return cudaEventCreateWithFlags (out, cudaEventDefault);
}

/* Streams that wait for the event still wait for the operation that it recorded. */
cudaError_t cudaEventDestroy (cudaEvent_t event)
{
    cudaError_t e = runtime_enter ();
    std::lock_guard<std::mutex> hold (own->mutex);

    if (e == cudaSuccess && own->events.erase (event) == 0)
        e = cudaErrorInvalidResourceHandle;
    else if (e == cudaSuccess)
        delete event;
    return runtime_return (e);
}

cudaError_t cudaEventRecord (cudaEvent_t event, cudaStream_t handle)
{
    cudaError_t e = runtime_enter ();
    struct CUstream_st *stream = runtime_stream (handle);
    struct CUevent_st found;

    if (e == cudaSuccess && (!stream || !find_event (event, &found)
                             || found.device != stream->device))
        e = cudaErrorInvalidResourceHandle;
    if (e == cudaSuccess)
        e = runtime_check_issue (stream);
    if (e != cudaSuccess)
        return runtime_return (e);
    struct runtime_captured captured = runtime_mark (stream);
    runtime_ref op = captured.capture ? nullptr : runtime_submit (stream, nullptr);
    std::lock_guard<std::mutex> hold (own->mutex);
    event->op = op;
    event->captured = captured;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent (cudaStream_t handle, cudaEvent_t event, unsigned flags)
{
    cudaError_t e = runtime_enter ();
    struct CUstream_st *stream = runtime_stream (handle);
    struct CUevent_st found;
    bool none = false;

    if (e == cudaSuccess && flags != cudaEventWaitDefault)
        e = cudaErrorInvalidValue;
    if (e == cudaSuccess && (!stream || !find_event (event, &found)))
        e = cudaErrorInvalidResourceHandle;
    if (e == cudaSuccess)
        e = runtime_join (stream, &found.captured, found.op != nullptr, &none);
    if (e == cudaSuccess && none)
        e = runtime_check_issue (stream);
    if (e == cudaSuccess && none && found.op)
        runtime_submit (stream, nullptr, false, found.op);
    return runtime_return (e);
}

cudaError_t cudaEventQuery (cudaEvent_t event)
{
    cudaError_t e = runtime_enter ();
    struct CUevent_st found;

    if (e == cudaSuccess && !find_event (event, &found))
        e = cudaErrorInvalidResourceHandle;
    if (e == cudaSuccess)
        e = runtime_check_event (&found.captured);
    if (e == cudaSuccess)
        e = runtime_done (found.op) ? runtime_sticky (found.device) : cudaErrorNotReady;
    return runtime_return (e);
}

cudaError_t cudaEventSynchronize (cudaEvent_t event)
{
    cudaError_t e = runtime_enter ();
    struct CUevent_st found;

    if (e == cudaSuccess && !find_event (event, &found))
        e = cudaErrorInvalidResourceHandle;
    if (e == cudaSuccess)
        e = runtime_check_event (&found.captured);
    if (e == cudaSuccess) {
        runtime_wait (found.op);
        e = runtime_sticky (found.device);
    }
    return runtime_return (e);
}

cudaError_t cudaEventElapsedTime (float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    cudaError_t e = runtime_enter ();
    struct CUevent_st a, b;

    if (e != cudaSuccess)
        return runtime_return (e);
    if (find_event (begin, &a) && find_event (end, &b)
        && (a.captured.capture || b.captured.capture))
        return runtime_return (cudaErrorCapturedEvent);
    if (!find_event (begin, &a) || !find_event (end, &b) || !a.op || !b.op || !a.timing
        || !b.timing || a.device != b.device)
        return runtime_return (cudaErrorInvalidResourceHandle);
    if (!runtime_done (a.op) || !runtime_done (b.op))
        return cudaErrorNotReady;
    *ms = std::chrono::duration<float, std::milli> (b.op->end - a.op->end).count ();
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc (cudaStream_t handle, cudaHostFn_t function, void *arg)
{
    cudaError_t e = runtime_enter ();
    struct CUstream_st *stream = runtime_stream (handle);

    if (e == cudaSuccess && !function)
        e = cudaErrorInvalidValue;
    if (e == cudaSuccess && !stream)
        e = cudaErrorInvalidResourceHandle;
    if (e == cudaSuccess)
        e = runtime_check_issue (stream);
    if (e == cudaSuccess)
        runtime_submit (stream, [function, arg] {
            function (arg);
            return cudaSuccess;
        }, true);
    return runtime_return (e);
}

/* A kernel is known only from its first launch on.  So these functions accept any address. */
cudaError_t cudaFuncSetAttribute (const void *kernel, cudaFuncAttribute attribute, int value)
{
    cudaError_t e = runtime_enter ();
    int most = 0;

    if (e == cudaSuccess && !kernel)
        e = cudaErrorInvalidDeviceFunction;
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute (&most, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                    runtime_device ());
    if (e != cudaSuccess)
        return runtime_return (e);
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout)
        return runtime_return (value < -1 || value > 100 ? cudaErrorInvalidValue : cudaSuccess);
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > most)
        return runtime_return (cudaErrorInvalidValue);
    std::lock_guard<std::mutex> hold (own->mutex);
    own->shared[{ kernel, runtime_device () }] = value;
    return cudaSuccess;
}

/* Attributes that the double does not know, such as registers, are 0. */
cudaError_t cudaFuncGetAttributes (cudaFuncAttributes *attributes, const void *kernel)
{
    cudaError_t e = runtime_enter ();

    if (e == cudaSuccess && !kernel)
        e = cudaErrorInvalidDeviceFunction;
    if (e != cudaSuccess)
        return runtime_return (e);
    memset (attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = LAUNCH_MAX_THREADS;
    attributes->binaryVersion = attributes->ptxVersion = runtime_settings ()->capability;
    std::lock_guard<std::mutex> hold (own->mutex);
    auto found = own->shared.find ({ kernel, runtime_device () });
    attributes->maxDynamicSharedSizeBytes
        = found == own->shared.end () ? SHARED_STANDARD : found->second;
    return cudaSuccess;
}

/* By threads and dynamic shared memory alone: registers are not known. */
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor (int *blocks, const void *kernel,
                                                           int threads, size_t shared)
{
    cudaError_t e = runtime_enter ();
    int all = 0;

    if (e == cudaSuccess && !kernel)
        e = cudaErrorInvalidDeviceFunction;
    if (e == cudaSuccess && (threads < 1 || threads > LAUNCH_MAX_THREADS))
        e = cudaErrorInvalidValue;
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute (&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor,
                                    runtime_device ());
    if (e == cudaSuccess) /* the system takes 1 KiB of each block */
        *blocks = std::min (std::min (2048 / threads, 32), (int)(all / (shared + 1024)));
    return runtime_return (e);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags (int *blocks,
                                                                    const void *kernel,
                                                                    int threads, size_t shared,
                                                                    unsigned)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor (blocks, kernel, threads, shared);
}

/* A stream of another device than the current one is an invalid handle. */
cudaError_t cudaLaunchKernelExC (const cudaLaunchConfig_t *config, const void *kernel, void **args)
{
    cudaError_t e = runtime_enter ();
    struct CUstream_st *stream = runtime_stream (config->stream);

    if (e == cudaSuccess)
        e = check_launch (config, kernel);
    if (e == cudaSuccess && (!stream || stream->device != runtime_device ()))
        e = cudaErrorInvalidResourceHandle;
    if (e == cudaSuccess)
        e = runtime_check_issue (stream);
    if (e == cudaSuccess && ++launches == runtime_settings ()->fail_launch)
        e = cudaErrorLaunchOutOfResources;
    if (e == cudaSuccess)
        issue (stream, config, kernel, launch_find (kernel), args);
    return runtime_return (e);
}

cudaError_t cudaLaunchKernel (const void *kernel, dim3 grid, dim3 block, void **args,
                              size_t shared, cudaStream_t stream)
{
    cudaLaunchConfig_t config = {};

    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    return cudaLaunchKernelExC (&config, kernel, args);
}

} /* extern "C" */
