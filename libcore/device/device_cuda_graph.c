/* device_cuda_graph.c - graphs of the CUDA device
 *
 * CUDA captures what is enqueued, so the front end enqueues the work of a capture as any other.
 * The capture is of the thread: other threads, such as one that writes a checkpoint, may wait, copy
 * and allocate meanwhile.
 *
 * CUDA puts a graph on one stream.  graph.h promises the order of all streams of the capture, so
 * the first stream waits for the others before the graph runs, and they wait for it afterwards.
 */

#include <errno.h>
#include <stdlib.h>

#include "libcore/device/device_cuda_private.h"

struct capture {
    struct mg_stream *first;
    bool ended;
};

struct cuda_graph {
    struct mg_device *device;
    cudaGraphExec_t exec;
    size_t device_bytes;
    cudaEvent_t order; /* between the streams of a replay; NULL: there is one stream */
    int num_streams;
    cudaStream_t stream[GRAPH_MAX_STREAMS]; /* the first one began */
};

static void *begin_capture (struct mg_stream *stream, struct mg_error *err)
{
    const struct mg_device *device = stream->device;
    struct capture *c;

    if (device->host->check (stream->device, err) < 0 || cuda_enter (device, err) < 0)
        return NULL;
    if (!(c = calloc (1, sizeof (*c)))) {
        device->host->error_set (err, ENOMEM, "device cuda: out of memory");
        return NULL;
    }
    c->first = stream;
    if (cuda_check (device, cudaStreamBeginCapture (cuda_stream_of (stream)->handle,
                                                    cudaStreamCaptureModeThreadLocal),
                    "the begin of a capture", err) < 0) {
        free (c);
        return NULL;
    }
    return c;
}

/* End the capture also if no graph was made of it. */
static void destroy_capture (void *capture)
{
    struct capture *c = capture;
    cudaGraph_t graph = NULL;

    if (!c->ended && cuda_enter (c->first->device, NULL) == 0) {
        cudaStreamEndCapture (cuda_stream_of (c->first)->handle, &graph);
        if (graph)
            cudaGraphDestroy (graph);
        cudaGetLastError (); // of a capture that had become invalid
    }
    free (c);
}

static void destroy_graph (void *impl)
{
    struct cuda_graph *g = impl;

    if (g->device->host->check (g->device, NULL) == 0 && cuda_enter (g->device, NULL) == 0) {
        if (g->exec)
            cudaGraphExecDestroy (g->exec);
        if (g->order)
            cudaEventDestroy (g->order);
    }
    free (g);
}

static int make_order (struct cuda_graph *g, struct mg_stream *const *streams, int num_streams,
                       struct mg_error *err)
{
    for (int i = 0; i < num_streams; i++)
        g->stream[i] = cuda_stream_of (streams[i])->handle;
    g->num_streams = num_streams;
    if (num_streams == 1)
        return 0;
    return cuda_check (g->device, cudaEventCreateWithFlags (&g->order, cudaEventDisableTiming),
                       "an event of a graph", err);
}

static int free_memory (const struct mg_device *device, size_t *bytes, struct mg_error *err)
{
    size_t all;

    return cuda_check (device, cudaMemGetInfo (bytes, &all), "its free memory", err);
}

/* The upload takes the memory that the first launch would take. */
static int make_exec (struct cuda_graph *g, cudaGraph_t graph, struct mg_error *err)
{
    const struct cuda_device *d = cuda_device_of (g->device);
    size_t before, after;

    if (free_memory (g->device, &before, err) < 0
        || cuda_check (g->device, cudaGraphInstantiate (&g->exec, graph, 0), "a graph", err) < 0
        || cuda_check (g->device, cudaGraphUpload (g->exec, d->setting), "the upload of a graph",
                       err) < 0
        || cuda_wait (g->device, d->setting, "the upload of a graph", err) < 0
        || free_memory (g->device, &after, err) < 0)
        return -1;
    g->device_bytes = before > after ? before - after : 0;
    return 0;
}

static void *instantiate (void *capture, struct mg_stream *const *streams, int num_streams,
                          struct mg_error *err)
{
    struct capture *c = capture;
    struct mg_device *device = c->first->device;
    struct cuda_graph *g;
    cudaGraph_t graph = NULL;
    int rc;

    if (cuda_enter (device, err) < 0)
        return NULL;
    c->ended = true;
    if (cuda_check (device, cudaStreamEndCapture (cuda_stream_of (c->first)->handle, &graph),
                    "the end of a capture", err) < 0)
        return NULL;
    if (!(g = calloc (1, sizeof (*g)))) {
        device->host->error_set (err, ENOMEM, "device cuda: out of memory");
        cudaGraphDestroy (graph);
        return NULL;
    }
    g->device = device;
    rc = make_order (g, streams, num_streams, err);
    if (rc == 0)
        rc = make_exec (g, graph, err);
    cudaGraphDestroy (graph);
    if (rc == 0)
        return g;
    destroy_graph (g);
    return NULL;
}

/* Let a stream wait for all work that was enqueued on another one. */
static cudaError_t wait_for (const struct cuda_graph *g, cudaStream_t stream, cudaStream_t other)
{
    cudaError_t rc = cudaEventRecord (g->order, other);

    return rc == cudaSuccess ? cudaStreamWaitEvent (stream, g->order, 0) : rc;
}

static int replay (const void *impl, struct mg_error *err)
{
    const struct cuda_graph *g = impl;
    cudaError_t rc = cudaSuccess;

    if (g->device->host->check (g->device, err) < 0 || cuda_enter (g->device, err) < 0)
        return -1;
    for (int i = 1; i < g->num_streams && rc == cudaSuccess; i++)
        rc = wait_for (g, g->stream[0], g->stream[i]);
    if (rc == cudaSuccess)
        rc = cudaGraphLaunch (g->exec, g->stream[0]);
    for (int i = 1; i < g->num_streams && rc == cudaSuccess; i++)
        rc = wait_for (g, g->stream[i], g->stream[0]);
    return cuda_check (g->device, rc, "the launch of a graph", err);
}

/* CUDA does not report its own memory of the host. */
static size_t host_bytes (const void *graph)
{
    (void)graph;
    return sizeof (struct cuda_graph);
}

static size_t device_bytes (const void *graph)
{
    return ((const struct cuda_graph *)graph)->device_bytes;
}

const struct graph_ops cuda_graph_ops = {
    .begin = begin_capture,
    .instantiate = instantiate,
    .destroy = destroy_capture,
    .replay = replay,
    .destroy_graph = destroy_graph,
    .bytes = host_bytes,
    .device_bytes = device_bytes,
};
