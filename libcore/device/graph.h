/* graph - work that is recorded once and run as a whole, any number of times.
 *
 * Between graph_begin() and graph_end(), the calling thread captures: work that it
 * enqueues on the streams of the capture becomes a part of the graph and does not run.
 * The capture begins with one stream.  Another stream of the device joins the capture
 * when it waits for an event that was recorded in the capture (a fork).  The first stream
 * must have waited for all work of the others when the capture ends (joins).
 * graph_replay() then does what the same calls would do: it enqueues the work on the same
 * streams, in the same order, with the same arguments.  A device may order a replay more strictly,
 * as one piece of work of all its streams: the replay then begins after all earlier work of these
 * streams, and their later work begins after the replay.  Streams must outlive the graph's last
 * replay.
 *
 * An event that was recorded in a capture orders the work of the graph, and nothing else.  Outside
 * the graph, nothing can wait for the event until it is recorded again outside.
 *
 * A replay repeats the work of the device, but not the work of the host between calls.
 * So a capture refuses everything that a replay cannot repeat, with a text that names the
 * place (graph_place()) and the operation:
 *
 *   - a wait of the host for a stream or an event, and a collective without a stream;
 *   - an allocation or release of the device's memory, the end of a stream;
 *   - a copy from or to host memory that does not come from device_host_alloc();
 *   - work on a stream that is not in the capture, and a wait for an event that was recorded
 *     outside of the capture; later, a wait outside for an event that was last recorded inside;
 *   - work of another stream that the first one has not waited for at the end.
 *
 * These are the rules of CUDA's stream capture, and every device keeps them.  Memory that
 * a graph uses must stay at its place: addresses, sizes and numbers are those of the
 * capture.  layer_graph_replay() (nn/layer_graph.h) checks this for layers.
 *
 * On the CPU device a graph is a list of calls: kernels, copies, collectives, events.  A replay
 * walks over the list.  On the CUDA device it is a graph of CUDA, and a replay is one launch.
 */
#ifndef LIBCORE_DEVICE_GRAPH_H
#define LIBCORE_DEVICE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"
#include "megatron/stream.h"

struct device_graph;

/* Capture from now on, on a compute stream.  Until the end, no other thread may call kernels of the
 * device.  -1 and a text: EBUSY if this thread captures already, or another one on the device;
 * EINVAL for a comm stream; ENOTSUP if the device has no graphs; ENOMEM.
 */
int graph_begin (struct mg_stream *stream, struct mg_error *err);

/* Name the layer and the phase of the next calls, for error texts: "layer 3", "router".  Both are
 * copied.  Outside of a capture nothing happens.
 */
void graph_place (const char *layer, const char *phase);

/* End the capture.  Returns the graph, which can be replayed.  On failure the capture is
 * freed, and the result is NULL with a text: EPERM if the capture has refused anything,
 * or if work is not joined; EINVAL if this thread does not capture; ENOMEM.
 */
struct device_graph *graph_end (struct mg_error *err);

/* End the capture of this thread, if there is one, and free it.  Keeps errno. */
void graph_cancel (void);

/* graph_end() if 'rc', the result of the calls that were captured, is 0; else graph_cancel(), NULL,
 * and the text of the call that failed.
 */
struct device_graph *graph_finish (int rc, struct mg_error *err);

/* Enqueue the work of a graph, not within a capture.  Blocks where the same calls would block: on
 * the CPU device, for example, until a collective on a compute stream is done.  If a call fails, -1
 * and its text; later work is not enqueued.
 */
int graph_replay (const struct device_graph *graph, struct mg_error *err);

/* NULL is allowed. Keeps errno. */
void graph_destroy (struct device_graph *graph);

/* Kernels, copies, sets and collectives of a graph, as they were called: a device may have several
 * nodes for one of them.  Bytes of host memory that the graph takes, as far as they are known, and
 * of the device's memory: how much less of that was free once the graph was made.
 */
size_t graph_nodes (const struct device_graph *graph);
size_t graph_bytes (const struct device_graph *graph);
size_t graph_device_bytes (const struct device_graph *graph);

/* --- for those who enqueue work --- */

/* Work that a graph repeats by a call: run() gets a copy of the arguments.  Memory that the
 * arguments point to must outlive the graph.
 */
struct graph_work {
    const char *name; /* "all-reduce"; for texts, kept by reference */
    int (*run) (const void *args, struct mg_stream *stream, struct mg_error *err);
    const void *args;
    size_t size;
};

/* True if this thread captures. */
bool graph_capturing (void);

/* Add the work to the capture instead of enqueuing it.  Legal only while this thread
 * captures. */
int graph_add (struct mg_stream *stream, const struct graph_work *work, struct mg_error *err);

/* Refuse work that no graph can have, such as "a wait of the host for stream compute".
 * The capture's end will fail, too.  Returns -1 and the text.
 */
int graph_refuse (struct mg_error *err, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));

#endif /* LIBCORE_DEVICE_GRAPH_H */
