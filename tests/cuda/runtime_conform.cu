/* runtime_conform.cu - what the double claims of the CUDA runtime, as checks that also run on a GPU
 *
 * Each check says what NVIDIA's manual says of the API: errors, events, order, death of a host that
 * touches device memory.  Where a second device is missing, its checks are skipped.
 * The program writes TAP; it exits with 1 if a check fails.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include <cuda_runtime.h>

enum { COUNT = 1000, BYTES = COUNT * sizeof (float) };

static int checks, failed;

static void report (bool good, const char *name)
{
    failed += !good;
    printf ("%s %d - %s\n", good ? "ok" : "not ok", ++checks, name);
}

static void is_error (cudaError_t got, cudaError_t want, const char *name)
{
    report (got == want, name);
    if (got != want)
        printf ("# got %d (%s), want %d\n", (int)got, cudaGetErrorName (got), (int)want);
}

__global__ void __launch_bounds__ (256) add_to (float *x, float value, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        x[i] += value;
}

__global__ void __launch_bounds__ (256) write_at (float *x)
{
    x[threadIdx.x] = 1;
}

static cudaError_t launch_add (float *x, float value, cudaStream_t stream)
{
    cudaLaunchConfig_t config = {};

    config.gridDim = dim3 ((COUNT + 255) / 256);
    config.blockDim = dim3 (256);
    config.stream = stream;
    return cudaLaunchKernelEx (&config, add_to, x, value, (int)COUNT);
}

static bool all_are (const float *x, float value)
{
    for (int i = 0; i < COUNT; i++)
        if (x[i] != value)
            return false;
    return true;
}

static void check_versions ()
{
    int version = 0, count = 0, least = -1, greatest = 1;
    cudaDeviceProp prop;

    report (cudaRuntimeGetVersion (&version) == cudaSuccess && version >= 13000, "version");
    report (cudaGetDeviceCount (&count) == cudaSuccess && count > 0, "there is a device");
    report (cudaGetDeviceProperties (&prop, 0) == cudaSuccess && prop.major >= 8
                && prop.warpSize == 32 && prop.name[0],
            "properties");
    report (cudaDeviceGetStreamPriorityRange (&least, &greatest) == cudaSuccess && least == 0
                && greatest < 0,
            "a lower number is a higher priority");
    is_error (cudaSetDevice (count), cudaErrorInvalidDevice, "a device that is not there");
    is_error (cudaSetDevice (0), cudaSuccess, "a device that is there");
    report (!strcmp (cudaGetErrorName (cudaErrorInvalidDevice), "cudaErrorInvalidDevice"),
            "names of errors");
}

static void check_last_error ()
{
    void *p = nullptr;

    cudaGetLastError ();
    is_error (cudaMalloc (&p, (size_t)1 << 50), cudaErrorMemoryAllocation, "too much memory");
    is_error (cudaPeekAtLastError (), cudaErrorMemoryAllocation, "peek leaves the error");
    is_error (cudaGetLastError (), cudaErrorMemoryAllocation, "get returns it");
    is_error (cudaGetLastError (), cudaSuccess, "and clears it");
    cudaFree (nullptr);
    is_error (cudaFree (&p), cudaErrorInvalidValue, "free of what was not allocated");
    cudaGetLastError ();
}

static void check_launches ()
{
    cudaLaunchConfig_t config = {};
    float *x = nullptr;
    int most = 0;

    cudaMalloc ((void **)&x, BYTES);
    config.gridDim = dim3 (1);
    config.blockDim = dim3 (1025);
    is_error (cudaLaunchKernelEx (&config, add_to, x, 1.0f, 0), cudaErrorInvalidConfiguration,
              "1025 threads");
    config.blockDim = dim3 (1, 1, 65);
    is_error (cudaLaunchKernelEx (&config, add_to, x, 1.0f, 0), cudaErrorInvalidConfiguration,
              "65 threads in z");
    config.blockDim = dim3 (32);
    config.gridDim = dim3 (0);
    is_error (cudaLaunchKernelEx (&config, add_to, x, 1.0f, 0), cudaErrorInvalidConfiguration,
              "no blocks");
    config.gridDim = dim3 (1, 65536);
    is_error (cudaLaunchKernelEx (&config, add_to, x, 1.0f, 0), cudaErrorInvalidConfiguration,
              "65536 blocks in y");
    config.gridDim = dim3 (1);
    config.dynamicSmemBytes = (48 << 10) + 1;
    is_error (cudaLaunchKernelEx (&config, add_to, x, 1.0f, 0), cudaErrorInvalidValue,
              "more than 48 KiB of shared memory that nobody asked for");
    cudaDeviceGetAttribute (&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
    is_error (cudaFuncSetAttribute ((const void *)add_to,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1),
              cudaErrorInvalidValue, "more shared memory than a block may have");
    is_error (cudaFuncSetAttribute ((const void *)add_to,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10),
              cudaSuccess, "64 KiB of shared memory");
    is_error (cudaLaunchKernelEx (&config, add_to, x, 1.0f, 0), cudaSuccess, "are there then");
    is_error (cudaDeviceSynchronize (), cudaSuccess, "and it runs");
    cudaGetLastError ();
    cudaFree (x);
}

static void check_copies ()
{
    float *device = nullptr, *pinned = nullptr, host[COUNT], back[COUNT];
    cudaPointerAttributes a;
    cudaStream_t stream;

    for (int i = 0; i < COUNT; i++)
        host[i] = 1;
    cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking);
    cudaMalloc ((void **)&device, BYTES);
    cudaHostAlloc ((void **)&pinned, BYTES, cudaHostAllocDefault);
    report (cudaPointerGetAttributes (&a, device) == cudaSuccess && a.type == cudaMemoryTypeDevice,
            "device memory is known");
    report (cudaPointerGetAttributes (&a, pinned) == cudaSuccess && a.type == cudaMemoryTypeHost,
            "pinned memory is known");
    report (cudaPointerGetAttributes (&a, host) == cudaSuccess
                && a.type == cudaMemoryTypeUnregistered,
            "other memory is not");
    memcpy (pinned, host, BYTES);
    cudaMemcpyAsync (device, pinned, BYTES, cudaMemcpyHostToDevice, stream);
    launch_add (device, 2, stream);
    cudaMemcpyAsync (pinned, device, BYTES, cudaMemcpyDeviceToHost, stream);
    is_error (cudaStreamSynchronize (stream), cudaSuccess, "copy, kernel, copy");
    report (all_are (pinned, 3), "run in the order of the stream");
    report (cudaMemcpy (back, device, BYTES, cudaMemcpyDefault) == cudaSuccess && all_are (back, 3),
            "a copy finds out its direction");
    cudaMemsetAsync (device, 0, BYTES, stream);
    cudaMemcpy2DAsync (device, 40, host, 20, 20, 10, cudaMemcpyHostToDevice, stream);
    cudaStreamSynchronize (stream);
    cudaMemcpy (back, device, BYTES, cudaMemcpyDeviceToHost);
    report (back[4] == 1 && back[5] == 0 && back[10] == 1 && back[94] == 1 && back[95] == 0,
            "rows of a copy");
    is_error (cudaMemcpy2DAsync (device, 16, host, 20, 20, 10, cudaMemcpyHostToDevice, stream),
              cudaErrorInvalidPitchValue, "rows longer than their pitch");
    is_error (cudaHostRegister (host, BYTES, cudaHostRegisterDefault), cudaSuccess, "register");
    is_error (cudaHostRegister (host, BYTES, cudaHostRegisterDefault),
              cudaErrorHostMemoryAlreadyRegistered, "register twice");
    is_error (cudaHostUnregister (host), cudaSuccess, "unregister");
    is_error (cudaHostUnregister (host), cudaErrorHostMemoryNotRegistered, "unregister twice");
    cudaGetLastError ();
    cudaStreamDestroy (stream);
    cudaFree (device);
    cudaFreeHost (pinned);
}

/* A host function that waits until it may go on. */
static void hold (void *arg)
{
    while (!*(std::atomic<bool> *)arg)
        usleep (100);
}

/* The answer of a query that has asked long enough for what may run to have run. */
template <typename Handle> static cudaError_t ask (cudaError_t (*query) (Handle), Handle handle)
{
    cudaError_t e = query (handle);

    for (int i = 0; i < 40 && e == cudaErrorNotReady; i++) {
        usleep (1000);
        e = query (handle);
    }
    return e;
}

static void check_events ()
{
    std::atomic<bool> go (false);
    cudaEvent_t a, b, silent;
    cudaStream_t one, two;
    float ms = -1;

    cudaEventCreate (&a);
    cudaEventCreate (&b);
    cudaEventCreateWithFlags (&silent, cudaEventDisableTiming);
    cudaStreamCreateWithFlags (&one, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags (&two, cudaStreamNonBlocking);
    is_error (cudaEventQuery (a), cudaSuccess, "an event that was never recorded is done");
    is_error (cudaEventSynchronize (a), cudaSuccess, "and nobody waits for it");
    is_error (cudaStreamWaitEvent (one, a, 0), cudaSuccess, "nor does a stream");
    is_error (cudaEventElapsedTime (&ms, a, b), cudaErrorInvalidResourceHandle,
              "no time of an event that was never recorded");
    cudaGetLastError ();
    cudaEventRecord (a, one);
    cudaLaunchHostFunc (one, hold, &go);
    cudaEventRecord (b, one);
    cudaStreamWaitEvent (two, b, 0);
    cudaEventRecord (silent, two);
    is_error (cudaEventSynchronize (a), cudaSuccess, "what was recorded before is done");
    is_error (ask (cudaEventQuery, b), cudaErrorNotReady, "what was recorded after is not");
    is_error (ask (cudaStreamQuery, one), cudaErrorNotReady, "nor is the stream");
    is_error (ask (cudaStreamQuery, two), cudaErrorNotReady, "nor is the stream that waits");
    is_error (cudaEventElapsedTime (&ms, a, b), cudaErrorNotReady, "there is no time yet");
    is_error (cudaPeekAtLastError (), cudaSuccess, "not ready is no last error");
    go = true;
    is_error (cudaStreamSynchronize (two), cudaSuccess, "the stream that waits ends");
    is_error (cudaEventQuery (b), cudaSuccess, "then the event is done");
    report (cudaEventElapsedTime (&ms, a, b) == cudaSuccess && ms >= 0, "and there is a time");
    is_error (cudaEventElapsedTime (&ms, a, silent), cudaErrorInvalidResourceHandle,
              "no time of an event without times");
    cudaGetLastError ();
    go = false;
    cudaEventRecord (b, one);
    cudaStreamWaitEvent (two, b, 0);
    cudaLaunchHostFunc (one, hold, &go);
    cudaEventRecord (b, one);
    is_error (cudaStreamSynchronize (two), cudaSuccess,
              "a stream waits for what was recorded when it was told to");
    go = true;
    cudaStreamDestroy (one);
    is_error (cudaEventSynchronize (b), cudaSuccess, "a destroyed stream goes on");
    cudaStreamDestroy (two);
    cudaEventDestroy (a);
    cudaEventDestroy (b);
    cudaEventDestroy (silent);
}

static void check_legacy ()
{
    std::atomic<bool> go (false);
    cudaStream_t blocking, other;
    float *x = nullptr;

    cudaMalloc ((void **)&x, BYTES);
    cudaStreamCreate (&blocking);
    cudaStreamCreateWithFlags (&other, cudaStreamNonBlocking);
    cudaLaunchHostFunc (blocking, hold, &go);
    launch_add (x, 1, nullptr);
    launch_add (x, 1, other);
    is_error (cudaStreamSynchronize (other), cudaSuccess, "a stream apart waits for nobody");
    is_error (ask (cudaStreamQuery, (cudaStream_t)nullptr), cudaErrorNotReady,
              "the legacy stream waits for others");
    go = true;
    is_error (cudaStreamSynchronize (nullptr), cudaSuccess, "until they are done");
    go = false;
    cudaLaunchHostFunc (nullptr, hold, &go);
    launch_add (x, 1, blocking);
    is_error (ask (cudaStreamQuery, blocking), cudaErrorNotReady, "and others wait for it");
    go = true;
    is_error (cudaDeviceSynchronize (), cudaSuccess, "the device waits for all");
    is_error (cudaStreamQuery (blocking), cudaSuccess, "which are done then");
    cudaStreamDestroy (blocking);
    cudaStreamDestroy (other);
    cudaFree (x);
}

static void check_devices ()
{
    cudaStream_t stream;
    cudaEvent_t event;
    float *x = nullptr, host = 0;
    int count = 0;

    cudaGetDeviceCount (&count);
    if (count < 2) {
        printf ("ok %d # SKIP there is one device\n", ++checks);
        return;
    }
    cudaSetDevice (1);
    cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking);
    cudaMalloc ((void **)&x, BYTES);
    cudaMemset (x, 0, BYTES);
    cudaSetDevice (0);
    cudaEventCreate (&event);
    is_error (launch_add (x, 1, stream), cudaErrorInvalidResourceHandle,
              "launch to a stream of another device");
    is_error (cudaEventRecord (event, stream), cudaErrorInvalidResourceHandle,
              "record of an event of another device");
    is_error (cudaMemcpyAsync (&host, x, sizeof host, cudaMemcpyDeviceToHost, stream), cudaSuccess,
              "a copy may be issued from another device");
    is_error (cudaStreamSynchronize (stream), cudaSuccess, "and waited for");
    cudaGetLastError ();
    cudaEventDestroy (event);
    cudaSetDevice (1);
    cudaFree (x);
    cudaStreamDestroy (stream);
    cudaSetDevice (0);
}

/* Memory and streams of a capture. */
struct captured {
    float *x, *pinned;
    cudaStream_t one, two, other; /* the capture is of the first two */
    cudaEvent_t fork, join;
};

static void create_captured (struct captured *c)
{
    cudaMalloc ((void **)&c->x, BYTES);
    cudaHostAlloc ((void **)&c->pinned, BYTES, cudaHostAllocDefault);
    for (cudaStream_t *s : { &c->one, &c->two, &c->other })
        cudaStreamCreateWithFlags (s, cudaStreamNonBlocking);
    for (cudaEvent_t *e : { &c->fork, &c->join })
        cudaEventCreateWithFlags (e, cudaEventDisableTiming);
    cudaMemset (c->x, 0, BYTES);
    cudaDeviceSynchronize ();
}

static void destroy_captured (struct captured *c)
{
    for (cudaStream_t s : { c->one, c->two, c->other })
        cudaStreamDestroy (s);
    for (cudaEvent_t e : { c->fork, c->join })
        cudaEventDestroy (e);
    cudaFree (c->x);
    cudaFreeHost (c->pinned);
}

static bool is_capturing (cudaStream_t stream)
{
    cudaStreamCaptureStatus status;

    return cudaStreamIsCapturing (stream, &status) == cudaSuccess
           && status == cudaStreamCaptureStatusActive;
}

/* Begin a capture of: pinned to x, x += 2 on the other stream, x to pinned, x = 0. */
static void capture_work (const struct captured *c)
{
    float value = 2;

    is_error (cudaStreamBeginCapture (c->one, cudaStreamCaptureModeThreadLocal), cudaSuccess,
              "a capture begins");
    cudaMemcpyAsync (c->x, c->pinned, BYTES, cudaMemcpyHostToDevice, c->one);
    cudaEventRecord (c->fork, c->one);
    is_error (cudaStreamWaitEvent (c->two, c->fork, 0), cudaSuccess, "a fork");
    report (is_capturing (c->two), "brings a stream into the capture");
    is_error (launch_add (c->x, value, c->two), cudaSuccess, "work of that stream");
    value = 100;
    cudaEventRecord (c->join, c->two);
    is_error (cudaStreamWaitEvent (c->one, c->join, 0), cudaSuccess, "a join");
    cudaMemcpyAsync (c->pinned, c->x, BYTES, cudaMemcpyDeviceToHost, c->one);
    cudaMemsetAsync (c->x, 0, BYTES, c->one);
}

static void check_captures (const struct captured *c)
{
    cudaStreamCaptureStatus status;
    unsigned long long id = 0;
    cudaGraph_t graph;
    size_t nodes = 1;

    capture_work (c);
    is_error (cudaStreamBeginCapture (c->one, cudaStreamCaptureModeThreadLocal),
              cudaErrorIllegalState, "a capture begins once");
    report (cudaStreamGetCaptureInfo (c->one, &status, &id, nullptr, nullptr, nullptr, nullptr)
                    == cudaSuccess
                && status == cudaStreamCaptureStatusActive && id > 0,
            "the stream captures");
    is_error (launch_add (c->x, 7, c->other), cudaSuccess, "other streams go on");
    is_error (cudaStreamSynchronize (c->other), cudaSuccess, "and can be waited for");
    is_error (cudaStreamEndCapture (c->one, &graph), cudaSuccess, "the capture ends");
    cudaGraphDestroy (graph);
    is_error (cudaStreamEndCapture (c->one, &graph), cudaErrorIllegalState, "once");
    cudaGetLastError ();
    is_error (cudaStreamBeginCapture (c->one, cudaStreamCaptureModeThreadLocal), cudaSuccess,
              "another one");
    is_error (cudaStreamEndCapture (c->one, &graph), cudaSuccess, "without work");
    report (cudaGraphGetNodes (graph, nullptr, &nodes) == cudaSuccess && nodes == 0,
            "has no nodes");
    cudaGraphDestroy (graph);
}

/* Nothing of a capture runs; a launch runs all of it, with the arguments of the capture and what is
 * in memory at the launch.
 */
static void check_launches (const struct captured *c)
{
    size_t nodes = 0, before = 0, after = 0, all;
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    capture_work (c);
    cudaStreamEndCapture (c->one, &graph);
    report (cudaGraphGetNodes (graph, nullptr, &nodes) == cudaSuccess && nodes == 4,
            "kernels, copies and sets are nodes, events are not");
    cudaMemGetInfo (&before, &all);
    is_error (cudaGraphInstantiate (&exec, graph, 0), cudaSuccess, "a graph that can run");
    is_error (cudaGraphUpload (exec, c->one), cudaSuccess, "is on the device");
    is_error (cudaStreamSynchronize (c->one), cudaSuccess, "after a while");
    cudaMemGetInfo (&after, &all);
    report (after <= before, "where it takes memory");
    is_error (cudaGraphDestroy (graph), cudaSuccess, "and needs the other one no more");
    for (int i = 0; i < COUNT; i++)
        c->pinned[i] = 1;
    is_error (cudaGraphLaunch (exec, c->other), cudaSuccess, "a launch, on a stream of choice");
    is_error (cudaGraphLaunch (exec, c->other), cudaSuccess, "and one more");
    is_error (cudaStreamSynchronize (c->other), cudaSuccess, "both run");
    report (all_are (c->pinned, 5), "one after the other, with the arguments of the capture");
    is_error (cudaEventQuery (c->join), cudaErrorCapturedEvent,
              "nobody can ask for an event of a capture");
    cudaGetLastError ();
    is_error (cudaEventRecord (c->join, c->other), cudaSuccess, "until it is recorded again");
    is_error (cudaEventSynchronize (c->join), cudaSuccess, "outside");
    is_error (cudaGraphExecDestroy (exec), cudaSuccess, "the end of a graph");
}

static void check_graphs ()
{
    struct captured c;

    create_captured (&c);
    check_captures (&c);
    check_launches (&c);
    destroy_captured (&c);
}

/* What a call says in a capture, and what the capture ends with. */
static void refuse (const char *name, cudaStreamCaptureMode mode, unsigned flags, cudaError_t want,
                    cudaError_t want_end, const std::function<cudaError_t (cudaStream_t)> &call)
{
    cudaGraph_t graph = nullptr;
    cudaError_t e, end;
    cudaStream_t s;

    cudaStreamCreateWithFlags (&s, flags);
    cudaStreamBeginCapture (s, mode);
    e = call (s);
    end = cudaStreamEndCapture (s, &graph);
    report (e == want && end == want_end && !graph == (end != cudaSuccess), name);
    if (e != want || end != want_end)
        printf ("# got %d, then %d, want %d, then %d\n", e, end, want, want_end);
    if (graph)
        cudaGraphDestroy (graph);
    cudaStreamDestroy (s);
    cudaGetLastError ();
}

static const auto own = cudaStreamNonBlocking, mixed = cudaStreamDefault;
static const auto local = cudaStreamCaptureModeThreadLocal, global = cudaStreamCaptureModeGlobal,
                  relaxed = cudaStreamCaptureModeRelaxed;
static const auto good = cudaSuccess, invalid = cudaErrorStreamCaptureInvalidated,
                  no = cudaErrorStreamCaptureUnsupported;

/* Whose captures forbid an allocation, and to whom. */
static void check_allocations ()
{
    cudaStreamCaptureMode mode = relaxed;
    float *x = nullptr, *y = nullptr;
    auto allocate = [&] (cudaStream_t) { return cudaMalloc ((void **)&y, 4); };
    auto by_another = [&] (cudaStream_t s) {
        cudaError_t e = good;
        std::thread ([&] { e = allocate (s); }).join ();
        return e;
    };

    cudaMalloc ((void **)&x, BYTES);
    refuse ("allocation", local, own, no, invalid, allocate);
    refuse ("allocation, global", global, own, no, invalid, allocate);
    refuse ("allocation, relaxed", relaxed, own, good, good, allocate);
    cudaFree (y);
    refuse ("allocation by another thread", local, own, good, good, by_another);
    cudaFree (y);
    refuse ("allocation by another thread, global", global, own, no, invalid, by_another);
    cudaThreadExchangeStreamCaptureMode (&mode);
    refuse ("allocation by a relaxed thread", local, own, good, good, allocate);
    cudaThreadExchangeStreamCaptureMode (&mode);
    cudaFree (y);
    refuse ("release", local, own, no, invalid, [&] (cudaStream_t) { return cudaFree (x); });
    cudaFree (x);
}

/* Waits, questions, and the legacy stream. */
static void check_waits ()
{
    const auto captured = cudaErrorCapturedEvent;
    float *x = nullptr, host[COUNT] = { 0 };
    cudaEvent_t outside, inside;

    cudaMalloc ((void **)&x, BYTES);
    cudaEventCreateWithFlags (&outside, cudaEventDisableTiming);
    cudaEventCreateWithFlags (&inside, cudaEventDisableTiming);
    cudaEventRecord (outside, nullptr);
    cudaDeviceSynchronize ();
    refuse ("wait for a stream", relaxed, own, no, invalid, cudaStreamSynchronize);
    refuse ("question about a stream", relaxed, own, no, invalid, cudaStreamQuery);
    refuse ("wait for the device", local, own, no, invalid,
            [] (cudaStream_t) { return cudaDeviceSynchronize (); });
    refuse ("question about an event", local, own, no, invalid,
            [&] (cudaStream_t) { return cudaEventQuery (outside); });
    refuse ("wait for an event inside", relaxed, own, captured, invalid, [&] (cudaStream_t s) {
        cudaEventRecord (inside, s);
        return cudaEventSynchronize (inside);
    });
    refuse ("question about an event inside", relaxed, own, captured, invalid,
            [&] (cudaStream_t s) {
                cudaEventRecord (inside, s);
                return cudaEventQuery (inside);
            });
    refuse ("wait for an event outside", local, own, cudaErrorStreamCaptureIsolation, invalid,
            [&] (cudaStream_t s) { return cudaStreamWaitEvent (s, outside, 0); });
    refuse ("the legacy stream", local, mixed, cudaErrorStreamCaptureImplicit, invalid,
            [&] (cudaStream_t) { return launch_add (x, 1, nullptr); });
    refuse ("a copy on the legacy stream", relaxed, mixed, cudaErrorStreamCaptureImplicit, invalid,
            [&] (cudaStream_t) { return cudaMemcpy (host, x, 4, cudaMemcpyDeviceToHost); });
    refuse ("the legacy stream, of a stream apart", local, own, good, good,
            [&] (cudaStream_t) { return launch_add (x, 1, nullptr); });
    cudaDeviceSynchronize ();
    cudaEventDestroy (inside);
    cudaEventDestroy (outside);
    cudaFree (x);
}

/* Forks, joins and ends. */
static void check_joins ()
{
    cudaGraph_t graph = nullptr;
    cudaEvent_t inside;
    cudaStream_t other;
    float *x = nullptr;

    cudaMalloc ((void **)&x, BYTES);
    cudaEventCreateWithFlags (&inside, cudaEventDisableTiming);
    cudaStreamCreateWithFlags (&other, own);
    is_error (cudaStreamBeginCapture (nullptr, local), no, "no capture of the legacy stream");
    is_error (cudaStreamEndCapture (other, &graph), cudaErrorIllegalState,
              "no end without a beginning");
    cudaGetLastError ();
    refuse ("work after an error", local, own, invalid, invalid, [&] (cudaStream_t s) {
        cudaStreamSynchronize (s);
        return launch_add (x, 1, s);
    });
    refuse ("work that is not joined", local, own, good, cudaErrorStreamCaptureUnjoined,
            [&] (cudaStream_t s) {
                cudaEventRecord (inside, s);
                cudaStreamWaitEvent (other, inside, 0);
                return launch_add (x, 1, other);
            });
    refuse ("work after a join", local, own, good, cudaErrorStreamCaptureUnjoined,
            [&] (cudaStream_t s) {
                cudaEventRecord (inside, s);
                cudaStreamWaitEvent (other, inside, 0);
                cudaEventRecord (inside, other);
                cudaStreamWaitEvent (s, inside, 0);
                return launch_add (x, 1, other);
            });
    refuse ("the end of another thread", local, own, cudaErrorStreamCaptureWrongThread, good,
            [&] (cudaStream_t s) {
                cudaError_t e = good;
                std::thread ([&] { e = cudaStreamEndCapture (s, &graph); }).join ();
                return e;
            });
    refuse ("the end of another stream", local, own, cudaErrorStreamCaptureUnmatched, invalid,
            [&] (cudaStream_t s) {
                cudaEventRecord (inside, s);
                cudaStreamWaitEvent (other, inside, 0);
                return cudaStreamEndCapture (other, &graph);
            });
    refuse ("two captures", local, own, cudaErrorStreamCaptureMerge, invalid, [&] (cudaStream_t s) {
        cudaError_t e;
        cudaStreamBeginCapture (other, local);
        cudaEventRecord (inside, other);
        e = cudaStreamWaitEvent (s, inside, 0);
        report (cudaStreamEndCapture (other, &graph) == invalid, "the other of two captures");
        return e;
    });
    is_error (launch_add (x, 1, other), cudaSuccess, "after all captures, work runs");
    is_error (cudaDeviceSynchronize (), cudaSuccess, "and can be waited for");
    cudaGetLastError ();
    cudaStreamDestroy (other);
    cudaEventDestroy (inside);
    cudaFree (x);
}

/* How a child ends that runs 'f': its exit status, or 128 and the signal. */
static int end_of (const char *program, const char *name)
{
    pid_t child = fork ();
    int status = 0;

    if (child == 0) {
        if (!freopen ("/dev/null", "w", stderr))
            _exit (99);
        execl (program, program, name, (char *)nullptr);
        _exit (98);
    }
    waitpid (child, &status, 0);
    return WIFSIGNALED (status) ? 128 + WTERMSIG (status) : WEXITSTATUS (status);
}

/* Programs of a process of their own. */

static int touch ()
{
    float *x = nullptr;

    if (cudaMalloc ((void **)&x, BYTES) != cudaSuccess)
        return 1;
    *(volatile float *)x = 1;
    return 0;
}

static int wrong_address ()
{
    cudaLaunchConfig_t config = {};
    cudaError_t e;
    void *p = nullptr;
    float host = 0, *x = nullptr;

    cudaMalloc ((void **)&x, BYTES);
    config.gridDim = config.blockDim = dim3 (1);
    e = cudaLaunchKernelEx (&config, write_at, (float *)nullptr);
    if (e != cudaSuccess || cudaDeviceSynchronize () != cudaErrorIllegalAddress)
        return 1;
    if (cudaGetLastError () != cudaErrorIllegalAddress
        || cudaGetLastError () != cudaErrorIllegalAddress)
        return 2;
    if (cudaMalloc (&p, 1) != cudaErrorIllegalAddress)
        return 3;
    return cudaMemcpy (&host, x, 4, cudaMemcpyDeviceToHost) == cudaErrorIllegalAddress ? 0 : 4;
}

int main (int argc, char **argv)
{
    if (argc > 1)
        return !strcmp (argv[1], "touch") ? touch () : wrong_address ();
    check_versions ();
    check_last_error ();
    check_launches ();
    check_copies ();
    check_events ();
    check_legacy ();
    check_devices ();
    check_graphs ();
    check_allocations ();
    check_waits ();
    check_joins ();
    report (end_of (argv[0], "wrong-address") == 0, "an illegal address is an error for ever");
    if (getenv ("MG_CUDA_NO_KEYS"))
        printf ("ok %d # SKIP this processor has no protection keys\n", ++checks);
    else
        report (end_of (argv[0], "touch") == 128 + SIGSEGV, "a host that touches the device dies");
    printf ("1..%d\n", checks);
    return failed > 0;
}
