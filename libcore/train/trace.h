/* trace - the intervals of some iterations, in the Trace Event Format of Chrome, which
 * Perfetto shows, too (Duffy, "Trace Event Format", 2016: complete events, "ph": "X").
 *
 * A process of the trace is a rank.  Its thread 0 is the compute stream: intervals of timers.h,
 * passes with their microbatch and chunk.  The next ones are the streams that communicators' calls
 * were made on, which move side by side.  All of these times are the device's, of timed events
 * (device/stream.h): an interval begins when its stream comes to it, however far ahead the host
 * is.  Then come what the host does and, where there is one, the thread that writes checkpoints.
 * Times are brought to the machine's clock (microseconds since 1970), so that the files of several
 * ranks can be put together.
 *
 * Every rank writes a file of its own: nothing is exchanged, and a rank that is alone or
 * late needs no other.  Recording allocates; a trace that is NULL, or not within its
 * iterations, costs a comparison.
 */
#ifndef LIBCORE_TRAIN_TRACE_H
#define LIBCORE_TRAIN_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/job/job.h"
#include "libcore/train/timers.h"

struct trace_config {
    const char *file;       /* NULL: there is no trace */
    const char *iterations; /* in the form of trace_iterations_parse() */
};

struct trace;

/* Parse the iterations of a run, of which the first is 1: "3" or "2-5".  -1, EINVAL and a
 * text. */
int trace_iterations_parse (const char *text, int64_t range[2], struct mg_error *err);

/* Returns the file of a rank: FILE with "-RANK" before its suffix, "trace.json" ->
 * "trace-3.json". The caller frees it.  NULL if out of memory.
 */
char *trace_path (const char *file, int rank);

/* Open this rank's file, without writing.  The job outlives the trace.  NULL and a text
 * on failure, also if 'file' exists and is no regular file.
 */
struct trace *trace_create (const char *file, const int64_t range[2], const struct job *job,
                            struct mg_error *err);
void trace_destroy (struct trace *t); /* NULL is allowed */

/* The compute stream, which outlives the recording.  NULL is allowed for the trace.  -1 and a text
 * if out of memory.
 */
int trace_bind (struct trace *t, struct mg_stream *stream, struct mg_error *err);

/* An iteration begins, the number-th of this run: recorded if that is in the range.  At the first
 * one of the range, this waits for the device, to set its clock by the host's.
 */
void trace_iteration (struct trace *t, int64_t iteration, int64_t number);

/* True if the last iteration of the range was recorded, and is not yet written. */
bool trace_is_full (const struct trace *t, int64_t number);

/* Begin or end an interval of the run.  Intervals of different timers may nest. */
void trace_begin (struct trace *t, enum timer which);
void trace_end (struct trace *t, enum timer which);

/* Begin or end the interval in which a replay of a graph is enqueued:  "graph-replay".  The graph
 * has 'nodes' kernels, copies and collectives.  'layer': number of the transformer layer, -1: the
 * graph of an iteration.
 */
void trace_replay (struct trace *t, int layer, size_t nodes, bool begins);

/* Record that a thread has written a rank's shard of the checkpoint of an iteration, from
 * 'begin' to 'end' of timers_now().  The run's thread calls this after that thread has
 * ended.
 */
void trace_written (struct trace *t, int64_t iteration, double begin, double end);

/* Set the microbatch and the chunk of the interval that has just begun. */
void trace_detail (struct trace *t, enum timer which, int microbatch, int chunk);

/* Write the record, and stop recording.  Later calls do nothing.  All calls that were
 * made must be done.  -1 and a text if the file cannot be written.
 */
int trace_write (struct trace *t, struct mg_error *err);

#endif /* LIBCORE_TRAIN_TRACE_H */
