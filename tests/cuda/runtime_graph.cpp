/* runtime_graph.cpp - captures of streams, and graphs, of the double of the CUDA runtime
 *
 * The work of a capture becomes nodes in the order of the calls.  A stream of a capture knows the
 * nodes that its next work comes after; an event that it records has the same, and a stream that
 * waits for the event takes them over.  A launch issues an operation for each node.
 */

#include <stdio.h>

#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "tests/cuda/runtime.h"

enum { NODE_BYTES = 512 }; /* bytes of device memory that each node of an executable graph takes */

struct CUgraph_st {
    int device;
    std::vector<runtime_node> nodes;
};

struct CUgraphExec_st {
    int device;
    std::vector<runtime_node> nodes;
    void *memory;
    runtime_ref last; /* two launches of one graph never run at the same time */
};

struct runtime_capture {
    unsigned long long id;
    cudaStreamCaptureMode mode;
    std::thread::id thread;
    struct CUstream_st *origin; /* NULL once it has ended */
    std::set<struct CUstream_st *> streams;
    struct CUgraph_st *graph;
    bool valid;
};
typedef std::shared_ptr<runtime_capture> capture_ref;

typedef std::lock_guard<std::mutex> locked;

static struct state {
    std::mutex mutex;
    std::set<capture_ref> captures; /* that have not ended */
    std::set<cudaGraph_t> graphs;   /* that are not destroyed */
    std::set<cudaGraphExec_t> execs;
    unsigned long long last_id;
} *own = new state (); /* never destroyed: threads may outlive main() */

static thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

/* --- what a capture forbids --- */

/* Called with the lock.  The capture of a blocking stream of the device becomes invalid. */
static cudaError_t check_legacy (int device)
{
    cudaError_t e = cudaSuccess;

    for (auto &capture : own->captures)
        for (auto stream : capture->streams)
            if (stream->blocking && stream->device == device) {
                capture->valid = false;
                e = cudaErrorStreamCaptureImplicit;
            }
    return e;
}

cudaError_t runtime_check_issue (struct CUstream_st *stream)
{
    locked hold (own->mutex);

    if (stream->legacy)
        return check_legacy (stream->device);
    return !stream->captured.capture || stream->captured.capture->valid
               ? cudaSuccess
               : cudaErrorStreamCaptureInvalidated;
}

cudaError_t runtime_check_wait (struct CUstream_st *stream)
{
    locked hold (own->mutex);

    if (stream->legacy)
        return check_legacy (stream->device);
    if (!stream->captured.capture)
        return cudaSuccess;
    if (!stream->captured.capture->valid)
        return cudaErrorStreamCaptureInvalidated;
    stream->captured.capture->valid = false;
    return cudaErrorStreamCaptureUnsupported;
}

/* Called with the lock. */
static cudaError_t check_unsafe ()
{
    cudaError_t e = cudaSuccess;

    if (thread_mode == cudaStreamCaptureModeRelaxed)
        return cudaSuccess;
    for (auto &capture : own->captures) {
        bool here = capture->thread == std::this_thread::get_id ();

        if (here ? capture->mode == cudaStreamCaptureModeRelaxed
                 : capture->mode != cudaStreamCaptureModeGlobal
                       || thread_mode != cudaStreamCaptureModeGlobal)
            continue;
        capture->valid = false;
        e = cudaErrorStreamCaptureUnsupported;
    }
    return e;
}

cudaError_t runtime_check_unsafe ()
{
    locked hold (own->mutex);

    return check_unsafe ();
}

cudaError_t runtime_check_event (const struct runtime_captured *event)
{
    locked hold (own->mutex);

    if (!event->capture)
        return check_unsafe ();
    event->capture->valid = false;
    return cudaErrorCapturedEvent;
}

cudaError_t runtime_check_pageable (struct CUstream_st *stream)
{
    locked hold (own->mutex);

    if (!stream->captured.capture)
        return cudaSuccess;
    stream->captured.capture->valid = false;
    return cudaErrorStreamCaptureUnsupported;
}

/* --- what becomes of work, records and waits --- */

bool runtime_take (struct CUstream_st *stream, std::function<cudaError_t ()> *run, bool on_host,
                   struct runtime_chain *chain)
{
    locked hold (own->mutex);
    struct runtime_captured *at = &stream->captured;

    if (!at->capture)
        return false;
    if (!at->capture->valid)
        return true;
    auto &nodes = at->capture->graph->nodes;
    nodes.push_back ({ std::move (*run), on_host, chain, stream->device, stream->priority,
                       std::vector<int> (at->after.begin (), at->after.end ()) });
    at->after = { (int)nodes.size () - 1 };
    return true;
}

bool runtime_captures (struct CUstream_st *stream)
{
    locked hold (own->mutex);

    return stream->captured.capture != nullptr;
}

struct runtime_captured runtime_mark (struct CUstream_st *stream)
{
    locked hold (own->mutex);

    return stream->captured;
}

cudaError_t runtime_join (struct CUstream_st *stream, const struct runtime_captured *event,
                          bool recorded, bool *none)
{
    locked hold (own->mutex);
    struct runtime_captured *at = &stream->captured;

    if (!event->capture && (!at->capture || !recorded)) {
        *none = !at->capture;
        return cudaSuccess;
    }
    if (at->capture && !at->capture->valid)
        return cudaErrorStreamCaptureInvalidated;
    if (!event->capture) {
        at->capture->valid = false;
        return cudaErrorStreamCaptureIsolation;
    }
    if (event->capture == at->capture) {
        at->after.insert (event->after.begin (), event->after.end ());
        return cudaSuccess;
    }
    if (at->capture) {
        at->capture->valid = event->capture->valid = false;
        return event->capture->origin ? cudaErrorStreamCaptureMerge
                                      : cudaErrorStreamCaptureIsolation;
    }
    if (!event->capture->origin)
        return cudaErrorCapturedEvent;
    if (!event->capture->valid)
        return cudaErrorStreamCaptureInvalidated;
    if (stream->legacy) {
        event->capture->valid = false;
        return cudaErrorStreamCaptureImplicit;
    }
    event->capture->streams.insert (stream);
    *at = *event;
    return cudaSuccess;
}

void runtime_leave (struct CUstream_st *stream)
{
    locked hold (own->mutex);
    capture_ref capture = stream->captured.capture;

    if (!capture)
        return;
    capture->valid = false;
    capture->streams.erase (stream);
    if (capture->origin == stream) {
        for (auto other : capture->streams)
            other->captured = {};
        delete capture->graph;
        capture->origin = nullptr;
        own->captures.erase (capture);
    }
    stream->captured = {};
}

/* --- graphs --- */

/* Does the origin's next work come after all nodes?  Called with the lock. */
static bool is_joined (const runtime_capture *capture)
{
    auto &nodes = capture->graph->nodes;
    std::vector<bool> before (nodes.size (), false);

    for (int i : capture->origin->captured.after)
        before[i] = true;
    for (int i = (int)nodes.size (); i-- > 0;) {
        if (!before[i])
            return false;
        for (int b : nodes[i].before)
            before[b] = true;
    }
    return true;
}

/* Called with the lock. */
static cudaError_t end_capture (const capture_ref &capture, cudaGraph_t *out)
{
    cudaError_t e = !capture->valid          ? cudaErrorStreamCaptureInvalidated
                    : !is_joined (&*capture) ? cudaErrorStreamCaptureUnjoined
                                             : cudaSuccess;

    for (auto stream : capture->streams)
        stream->captured = {};
    capture->origin = nullptr;
    own->captures.erase (capture);
    if (e == cudaSuccess) {
        own->graphs.insert (capture->graph);
        *out = capture->graph;
    } else {
        delete capture->graph;
    }
    capture->graph = nullptr;
    return e;
}

/* The stream that a call about captures names, or the error of the call. */
static cudaError_t find_stream (cudaStream_t handle, struct CUstream_st **stream)
{
    cudaError_t e = runtime_enter ();

    *stream = runtime_stream (handle);
    return e == cudaSuccess && !*stream ? cudaErrorInvalidResourceHandle : e;
}

extern "C" {

cudaError_t cudaStreamBeginCapture (cudaStream_t handle, cudaStreamCaptureMode mode)
{
    struct CUstream_st *stream;
    cudaError_t e = find_stream (handle, &stream);

    if (e == cudaSuccess && (unsigned)mode > cudaStreamCaptureModeRelaxed)
        e = cudaErrorInvalidValue;
    if (e == cudaSuccess && stream->legacy)
        e = cudaErrorStreamCaptureUnsupported;
    if (e != cudaSuccess)
        return runtime_return (e);
    locked hold (own->mutex);
    if (stream->captured.capture)
        return runtime_return (cudaErrorIllegalState);
    capture_ref capture = std::make_shared<runtime_capture> ();
    *capture = { ++own->last_id, mode, std::this_thread::get_id (), stream, { stream },
                 new CUgraph_st { stream->device, {} }, true };
    stream->captured = { capture, {} };
    own->captures.insert (capture);
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture (cudaStream_t handle, cudaGraph_t *out)
{
    struct CUstream_st *stream;
    cudaError_t e = find_stream (handle, &stream);

    *out = nullptr;
    if (e != cudaSuccess)
        return runtime_return (e);
    locked hold (own->mutex);
    capture_ref capture = stream->captured.capture;
    if (!capture)
        return runtime_return (cudaErrorIllegalState);
    if (capture->mode != cudaStreamCaptureModeRelaxed
        && capture->thread != std::this_thread::get_id ())
        return runtime_return (cudaErrorStreamCaptureWrongThread);
    if (capture->origin != stream) {
        capture->valid = false;
        return runtime_return (cudaErrorStreamCaptureUnmatched);
    }
    return runtime_return (end_capture (capture, out));
}

cudaError_t cudaStreamGetCaptureInfo (cudaStream_t handle, cudaStreamCaptureStatus *status,
                                      unsigned long long *id, cudaGraph_t *graph,
                                      const cudaGraphNode_t **before, const cudaGraphEdgeData **,
                                      size_t *num_before)
{
    struct CUstream_st *stream;
    cudaError_t e = find_stream (handle, &stream);

    if (e == cudaSuccess && (before || num_before)) {
        fprintf (stderr, "cuda double: the nodes before a stream's work are not in the double\n");
        e = cudaErrorNotSupported;
    }
    if (e != cudaSuccess)
        return runtime_return (e);
    locked hold (own->mutex);
    capture_ref capture = stream->captured.capture;
    if (stream->legacy && (e = check_legacy (stream->device)) != cudaSuccess)
        return runtime_return (e);
    *status = !capture         ? cudaStreamCaptureStatusNone
              : capture->valid ? cudaStreamCaptureStatusActive
                               : cudaStreamCaptureStatusInvalidated;
    if (id && capture)
        *id = capture->id;
    if (graph && capture)
        *graph = capture->graph;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing (cudaStream_t handle, cudaStreamCaptureStatus *status)
{
    return cudaStreamGetCaptureInfo (handle, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaThreadExchangeStreamCaptureMode (cudaStreamCaptureMode *mode)
{
    if ((unsigned)*mode > cudaStreamCaptureModeRelaxed)
        return runtime_return (cudaErrorInvalidValue);
    std::swap (*mode, thread_mode);
    return cudaSuccess;
}

/* Handles of nodes can only be counted. */
cudaError_t cudaGraphGetNodes (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n)
{
    cudaError_t e = runtime_enter ();
    locked hold (own->mutex);

    if (e == cudaSuccess && (!own->graphs.count (graph) || !n))
        e = cudaErrorInvalidValue;
    if (e != cudaSuccess)
        return runtime_return (e);
    for (size_t i = 0; nodes && i < *n; i++)
        nodes[i] = i < graph->nodes.size () ? (cudaGraphNode_t)&graph->nodes[i] : nullptr;
    if (!nodes || *n > graph->nodes.size ())
        *n = graph->nodes.size ();
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy (cudaGraph_t graph)
{
    cudaError_t e = runtime_enter ();
    locked hold (own->mutex);

    if (e == cudaSuccess && own->graphs.erase (graph) == 0)
        e = cudaErrorInvalidValue;
    else if (e == cudaSuccess)
        delete graph;
    return runtime_return (e);
}

cudaError_t cudaGraphInstantiate (cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    cudaError_t e = runtime_enter ();
    locked hold (own->mutex);
    struct CUgraphExec_st *exec;

    *out = nullptr;
    if (e == cudaSuccess && (!own->graphs.count (graph) || flags != 0))
        e = cudaErrorInvalidValue;
    if (e != cudaSuccess)
        return runtime_return (e);
    exec = new CUgraphExec_st { graph->device, graph->nodes, nullptr, nullptr };
    exec->memory = runtime_alloc (graph->device, (graph->nodes.size () + 1) * NODE_BYTES);
    if (!exec->memory) {
        delete exec;
        return runtime_return (cudaErrorMemoryAllocation);
    }
    own->execs.insert (*out = exec);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags (cudaGraphExec_t *out, cudaGraph_t graph,
                                           unsigned long long flags)
{
    return cudaGraphInstantiate (out, graph, flags);
}

/* Launches that are under way go on. */
cudaError_t cudaGraphExecDestroy (cudaGraphExec_t exec)
{
    cudaError_t e = runtime_enter ();
    locked hold (own->mutex);

    if (e == cudaSuccess && own->execs.erase (exec) == 0)
        e = cudaErrorInvalidValue;
    if (e != cudaSuccess)
        return runtime_return (e);
    runtime_free (exec->memory, RUNTIME_DEVICE);
    delete exec;
    return cudaSuccess;
}

/* The stream of a launch or an upload, or the error of the call. */
static cudaError_t check_exec (cudaGraphExec_t exec, cudaStream_t handle,
                               struct CUstream_st **stream)
{
    cudaError_t e = find_stream (handle, stream);

    if (e == cudaSuccess)
        e = runtime_check_issue (*stream);
    if (e != cudaSuccess)
        return e;
    locked hold (own->mutex);
    if (!own->execs.count (exec) || exec->device != (*stream)->device)
        return cudaErrorInvalidValue;
    if ((*stream)->captured.capture) {
        fprintf (stderr, "cuda double: a graph in a capture is not in the double\n");
        (*stream)->captured.capture->valid = false;
        return cudaErrorNotSupported;
    }
    return cudaSuccess;
}

cudaError_t cudaGraphUpload (cudaGraphExec_t exec, cudaStream_t handle)
{
    struct CUstream_st *stream;
    cudaError_t e = check_exec (exec, handle, &stream);

    if (e == cudaSuccess)
        runtime_submit (stream, nullptr);
    return runtime_return (e);
}

cudaError_t cudaGraphLaunch (cudaGraphExec_t exec, cudaStream_t handle)
{
    struct CUstream_st *stream;
    cudaError_t e = check_exec (exec, handle, &stream);

    if (e == cudaSuccess)
        exec->last = runtime_submit_nodes (stream, exec->nodes, exec->last);
    return runtime_return (e);
}

} /* extern "C" */
