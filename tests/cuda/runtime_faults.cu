/* runtime_faults.cu - mistakes of host code that the double must find
 *
 * runtime-faults NAME good|bad runs one step of a program in its right form, or with the mistake.
 * Exit status: 0 if the results are right and no call failed; a signal or another status if the
 * mistake was found.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <thread>

#include <cuda_runtime.h>

enum { COUNT = 1000, BYTES = COUNT * sizeof (float) };

static float *x, *y, *pinned;
static cudaStream_t one, two;
static cudaEvent_t event;
static bool bad;

static void need (cudaError_t e)
{
    if (e == cudaSuccess)
        return;
    fprintf (stderr, "runtime-faults: %s\n", cudaGetErrorName (e));
    exit (1);
}

__global__ void __launch_bounds__ (256) set_to (float *out, float value, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        out[i] = value;
}

__global__ void __launch_bounds__ (256) add_one (float *out, const float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        out[i] = in[i] + 1;
}

static cudaLaunchConfig_t shape (cudaStream_t stream)
{
    cudaLaunchConfig_t config = {};

    config.gridDim = dim3 ((COUNT + 255) / 256);
    config.blockDim = dim3 (256);
    config.stream = stream;
    return config;
}

static void set (float *out, float value, cudaStream_t stream)
{
    cudaLaunchConfig_t config = shape (stream);

    need (cudaLaunchKernelEx (&config, set_to, out, value, (int)COUNT));
}

static void add (float *out, const float *in, cudaStream_t stream)
{
    cudaLaunchConfig_t config = shape (stream);

    need (cudaLaunchKernelEx (&config, add_one, out, in, (int)COUNT));
}

/* Wait for all, and compare what device memory has. */
static bool device_is (const float *device, float value)
{
    static float host[COUNT];

    need (cudaDeviceSynchronize ());
    need (cudaMemcpy (host, device, BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++)
        if (host[i] != value)
            return false;
    return true;
}

static bool all_are (const float *host, float value)
{
    for (int i = 0; i < COUNT; i++)
        if (host[i] != value)
            return false;
    return true;
}

/* A stream reads what another one writes. */
static bool wait_missing ()
{
    set (x, 1, one);
    need (cudaEventRecord (event, one));
    if (!bad)
        need (cudaStreamWaitEvent (two, event, 0));
    add (y, x, two);
    return device_is (y, 2);
}

static bool record_early ()
{
    if (bad)
        need (cudaEventRecord (event, one));
    set (x, 1, one);
    if (!bad)
        need (cudaEventRecord (event, one));
    need (cudaStreamWaitEvent (two, event, 0));
    add (y, x, two);
    return device_is (y, 2);
}

static bool wait_early ()
{
    if (bad)
        need (cudaStreamWaitEvent (two, event, 0));
    set (x, 1, one);
    need (cudaEventRecord (event, one));
    if (!bad)
        need (cudaStreamWaitEvent (two, event, 0));
    add (y, x, two);
    return device_is (y, 2);
}

/* The second writer of x must wait until the reader of the first has read it. */
static bool write_before_read ()
{
    set (x, 1, one);
    need (cudaEventRecord (event, one));
    need (cudaStreamWaitEvent (two, event, 0));
    add (y, x, two);
    if (!bad) {
        need (cudaEventRecord (event, two));
        need (cudaStreamWaitEvent (one, event, 0));
    }
    set (x, 5, one);
    need (cudaStreamSynchronize (one));
    return device_is (y, 2);
}

static bool host_read ()
{
    float value;

    set (x, 1, one);
    need (cudaStreamSynchronize (one));
    if (bad)
        value = *(volatile float *)x;
    else
        need (cudaMemcpy (&value, x, sizeof value, cudaMemcpyDeviceToHost));
    return value == 1;
}

static bool host_write ()
{
    if (bad)
        memset (x, 0, BYTES);
    else
        need (cudaMemset (x, 0, BYTES));
    return device_is (x, 0);
}

/* The host changes a buffer that a copy still reads. */
static bool copy_buffer_changed (float *buffer)
{
    for (int i = 0; i < COUNT; i++)
        buffer[i] = 1;
    need (cudaMemcpyAsync (x, buffer, BYTES, cudaMemcpyHostToDevice, one));
    if (!bad)
        need (cudaStreamSynchronize (one));
    memset (buffer, 0, BYTES);
    return device_is (x, 1);
}

static bool pinned_changed ()
{
    return copy_buffer_changed (pinned);
}

static bool pageable_dead ()
{
    float local[COUNT];

    return copy_buffer_changed (local);
}

/* The host reads a result that is not there yet. */
static bool result_early ()
{
    set (x, 1, one);
    need (cudaMemcpyAsync (pinned, x, BYTES, cudaMemcpyDeviceToHost, one));
    if (!bad)
        need (cudaStreamSynchronize (one));
    return all_are (pinned, 1);
}

static bool other_stream_waited ()
{
    set (x, 1, one);
    need (cudaMemcpyAsync (pinned, x, BYTES, cudaMemcpyDeviceToHost, one));
    need (cudaMemsetAsync (y, 0, BYTES, two));
    need (cudaStreamSynchronize (bad ? two : one));
    return all_are (pinned, 1);
}

/* A launch fails, and nobody looks. */
static bool error_unchecked ()
{
    cudaLaunchConfig_t config = shape (one);

    if (bad)
        config.blockDim = dim3 (2048);
    (void)cudaLaunchKernelEx (&config, set_to, x, 1.0f, (int)COUNT);
    return device_is (x, 1);
}

static bool shared_not_asked ()
{
    cudaLaunchConfig_t config = shape (one);

    config.dynamicSmemBytes = 100 << 10;
    if (!bad)
        need (cudaFuncSetAttribute ((const void *)set_to,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
    need (cudaLaunchKernelEx (&config, set_to, x, 1.0f, (int)COUNT));
    return device_is (x, 1);
}

static bool wrong_device ()
{
    need (cudaSetDevice (bad ? 1 : 0));
    set (x, 1, one);
    need (cudaSetDevice (0));
    return device_is (x, 1);
}

/* A kernel of device 0 gets memory of device 1. */
static bool memory_of_other ()
{
    float *other;

    need (cudaSetDevice (1));
    need (cudaMalloc ((void **)&other, BYTES));
    need (cudaSetDevice (0));
    set (bad ? other : x, 1, one);
    return device_is (bad ? other : x, 1);
}

static bool used_after_free ()
{
    set (x, 1, one);
    if (bad)
        need (cudaFree (x));
    add (y, x, one);
    return device_is (y, 2);
}

static bool freed_twice ()
{
    need (cudaFree (x));
    if (bad)
        need (cudaFree (x));
    return true;
}

static bool past_end ()
{
    cudaLaunchConfig_t config = shape (one);

    config.gridDim = dim3 (5);
    need (cudaLaunchKernelEx (&config, set_to, x, 1.0f, bad ? COUNT + 128 : COUNT));
    return device_is (x, 1);
}

static bool copy_past_end ()
{
    need (cudaMemcpy (x, y, bad ? BYTES + 1 : BYTES, cudaMemcpyDeviceToDevice));
    return true;
}

static bool direction_wrong ()
{
    memset (pinned, 0, BYTES);
    need (cudaMemcpy (x, pinned, BYTES, bad ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice));
    return device_is (x, 0);
}

/* Memory that nobody wrote is not 0. */
static bool never_written ()
{
    if (!bad)
        need (cudaMemsetAsync (x, 0, BYTES, one));
    add (y, x, one);
    return device_is (y, 1);
}

static bool destroyed_stream ()
{
    if (bad)
        need (cudaStreamDestroy (two));
    set (x, 1, two);
    return device_is (x, 1);
}

static bool destroyed_event ()
{
    set (x, 1, one);
    need (cudaEventRecord (event, one));
    if (bad)
        need (cudaEventDestroy (event));
    need (cudaStreamWaitEvent (two, event, 0));
    add (y, x, two);
    return device_is (y, 2);
}

/* Streams that are not blocking do not wait for the legacy stream. */
static bool legacy_trusted ()
{
    set (x, 1, nullptr);
    if (!bad)
        need (cudaStreamSynchronize (nullptr));
    add (y, x, one);
    return device_is (y, 2);
}

static void fill_host (void *arg)
{
    for (int i = 0; i < COUNT; i++)
        ((float *)arg)[i] = 1;
}

static bool host_function_raced ()
{
    need (cudaLaunchHostFunc (one, fill_host, pinned));
    need (cudaMemcpyAsync (x, pinned, BYTES, cudaMemcpyHostToDevice, bad ? two : one));
    return device_is (x, 1);
}

/* --- graphs --- */

/* Make a graph of what stream 'one' has captured, and launch it there. */
static void end_and_launch ()
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    need (cudaStreamEndCapture (one, &graph));
    need (cudaGraphInstantiate (&exec, graph, 0));
    need (cudaGraphDestroy (graph));
    need (cudaGraphLaunch (exec, one));
}

static void begin ()
{
    need (cudaStreamBeginCapture (one, cudaStreamCaptureModeThreadLocal));
}

/* A stream waits for another one, by the event. */
static void order (cudaStream_t before, cudaStream_t after)
{
    need (cudaEventRecord (event, before));
    need (cudaStreamWaitEvent (after, event, 0));
}

static bool graph_fork_early ()
{
    begin ();
    if (bad)
        order (one, two);
    set (x, 1, one);
    if (!bad)
        order (one, two);
    add (y, x, two);
    order (two, one);
    end_and_launch ();
    return device_is (y, 2);
}

static bool graph_join_missing ()
{
    begin ();
    order (one, two);
    set (x, 1, two);
    if (!bad)
        order (two, one);
    end_and_launch ();
    return device_is (x, 1);
}

/* An event of a capture tells nobody that a launch is done. */
static bool graph_event_trusted ()
{
    begin ();
    set (x, 1, one);
    need (cudaEventRecord (event, one));
    end_and_launch ();
    if (!bad)
        need (cudaEventRecord (event, one));
    need (cudaStreamWaitEvent (two, event, 0));
    add (y, x, two);
    return device_is (y, 2);
}

/* Another stream of the capture does not wait for a launch. */
static bool graph_stream_trusted ()
{
    begin ();
    order (one, two);
    set (x, 1, two);
    order (two, one);
    end_and_launch ();
    if (!bad)
        order (one, two);
    add (y, x, two);
    return device_is (y, 2);
}

static bool graph_result_early ()
{
    begin ();
    set (x, 1, one);
    need (cudaMemcpyAsync (pinned, x, BYTES, cudaMemcpyDeviceToHost, one));
    end_and_launch ();
    if (!bad)
        need (cudaStreamSynchronize (one));
    return all_are (pinned, 1);
}

/* A copy of a graph reads host memory at each launch, not at the capture. */
static bool graph_source_changed ()
{
    for (int i = 0; i < COUNT; i++)
        pinned[i] = 1;
    begin ();
    need (cudaMemcpyAsync (x, pinned, BYTES, cudaMemcpyHostToDevice, one));
    if (bad)
        memset (pinned, 0, BYTES);
    end_and_launch ();
    return device_is (x, 1);
}

static bool graph_pageable ()
{
    static float host[COUNT];

    begin ();
    need (cudaMemcpyAsync (x, bad ? host : pinned, BYTES, cudaMemcpyHostToDevice, one));
    set (x, 1, one);
    end_and_launch ();
    return device_is (x, 1);
}

static bool graph_memory_freed ()
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    begin ();
    set (y, 1, one);
    need (cudaStreamEndCapture (one, &graph));
    need (cudaGraphInstantiate (&exec, graph, 0));
    if (bad)
        need (cudaFree (y));
    need (cudaGraphLaunch (exec, one));
    need (cudaDeviceSynchronize ());
    return true;
}

static bool graph_destroyed ()
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    begin ();
    set (x, 1, one);
    need (cudaStreamEndCapture (one, &graph));
    need (cudaGraphInstantiate (&exec, graph, 0));
    if (bad)
        need (cudaGraphExecDestroy (exec));
    need (cudaGraphLaunch (exec, one));
    return device_is (x, 1);
}

/* A thread that asks whether work is done, while another one captures. */
static bool graph_watched ()
{
    set (y, 1, two);
    need (cudaEventRecord (event, two));
    need (cudaDeviceSynchronize ());
    need (cudaStreamBeginCapture (one, bad ? cudaStreamCaptureModeGlobal
                                           : cudaStreamCaptureModeThreadLocal));
    set (x, 1, one);
    std::thread ([] { need (cudaEventQuery (event)); }).join ();
    end_and_launch ();
    return device_is (x, 1);
}

static const struct fault {
    const char *name;
    bool (*run) ();
} faults[] = {
    { "wait-missing", wait_missing },
    { "record-early", record_early },
    { "wait-early", wait_early },
    { "write-before-read", write_before_read },
    { "host-read", host_read },
    { "host-write", host_write },
    { "pinned-changed", pinned_changed },
    { "pageable-dead", pageable_dead },
    { "result-early", result_early },
    { "other-stream-waited", other_stream_waited },
    { "error-unchecked", error_unchecked },
    { "shared-not-asked", shared_not_asked },
    { "wrong-device", wrong_device },
    { "memory-of-other", memory_of_other },
    { "used-after-free", used_after_free },
    { "freed-twice", freed_twice },
    { "past-end", past_end },
    { "copy-past-end", copy_past_end },
    { "direction-wrong", direction_wrong },
    { "never-written", never_written },
    { "destroyed-stream", destroyed_stream },
    { "destroyed-event", destroyed_event },
    { "legacy-trusted", legacy_trusted },
    { "host-function-raced", host_function_raced },
    { "graph-fork-early", graph_fork_early },
    { "graph-join-missing", graph_join_missing },
    { "graph-event-trusted", graph_event_trusted },
    { "graph-stream-trusted", graph_stream_trusted },
    { "graph-result-early", graph_result_early },
    { "graph-source-changed", graph_source_changed },
    { "graph-pageable", graph_pageable },
    { "graph-memory-freed", graph_memory_freed },
    { "graph-destroyed", graph_destroyed },
    { "graph-watched", graph_watched },
};

int main (int argc, char **argv)
{
    for (const struct fault &f : faults) {
        if (argc < 3) {
            printf ("%s\n", f.name);
            continue;
        }
        if (strcmp (f.name, argv[1]))
            continue;
        bad = !strcmp (argv[2], "bad");
        need (cudaMalloc ((void **)&x, BYTES));
        need (cudaMalloc ((void **)&y, BYTES));
        need (cudaHostAlloc ((void **)&pinned, BYTES, cudaHostAllocDefault));
        need (cudaStreamCreateWithFlags (&one, cudaStreamNonBlocking));
        need (cudaStreamCreateWithFlags (&two, cudaStreamNonBlocking));
        need (cudaEventCreateWithFlags (&event, cudaEventDisableTiming));
        return !f.run ();
    }
    return argc < 3 ? 0 : 2;
}
