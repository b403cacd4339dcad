/* recorder - a flight recorder: the latest calls of this process on its communicators.
 *
 * A ring of the last calls, for the report that is made when a rank stalls or dies.  Around each
 * call, two events are recorded on its stream.  So the state of a call is that of the device,
 * however far ahead of it the host is.  Adding a call takes no lock of the recorder and allocates
 * nothing.  A call that is captured into a graph is not recorded where the device's libraries
 * replay the graph by themselves.
 */
#ifndef LIBCORE_COMM_RECORDER_H
#define LIBCORE_COMM_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/comm/comm_ops.h"
#include "libcore/device/progress.h"

enum { RECORD_NAME_MAX = 16, RECORDER_SIZE = 512, RECORDER_COMMS = 32 };

/* One call. */
struct record {
    char name[RECORD_NAME_MAX]; /* name of the communicator */
    uint64_t seq;   /* number of collectives on the communicator so far, this one
                     * included; for a transfer, the number of transfers */
    int32_t call;   /* enum mg_comm_call */
    int32_t dtype;
    int32_t peer;   /* peer of a transfer's first entry, else -1 */
    int32_t sends;  /* the transfer's first entry is a send */
    int32_t more;   /* further entries of the transfer's list */
    int32_t other;  /* the list's first peer that is not 'peer'; 'peer' if there is none */
    uint64_t count;
    uint64_t bytes; /* bytes, counted as in struct mg_comm_stats */
    double seconds; /* seconds since the call was enqueued */
    int32_t state;  /* enum record_state */
    int32_t unused; /* so that the size is a multiple of 8 */
};

enum record_state { RECORD_ENQUEUED, RECORD_STARTED, RECORD_DONE };

/* Collectives on a communicator that have begun, as far as the ring tells. */
struct record_count {
    char name[RECORD_NAME_MAX];
    uint64_t collectives;
};

struct recorder;

/* For calls on streams of 'device' and, if it is not NULL, of 'host', which shares with it
 * (device.h).  Both must outlive the recorder.  NULL and a text if out of memory.
 */
struct recorder *recorder_create (struct mg_device *device, struct mg_device *host,
                                  struct mg_error *err);
void recorder_destroy (struct recorder *r);

/* Add a communicator.  Returns its number in the recorder, or -1 if there is no room; its
 * calls are then not recorded. */
int recorder_place (struct recorder *r, const char *name);

/* A call, which hands in 'bytes', is about to be enqueued on 'stream' ... */
void recorder_begin (struct recorder *r, int place, const struct comm_request *req,
                     uint64_t bytes, struct mg_stream *stream);

/* ... and is enqueued, or done.  Calls of one process come from one thread at a time. */
void recorder_end (struct recorder *r, struct mg_stream *stream);

/* Tell 'watch' of every call, in the thread that makes it, right before ('begins') and after it is
 * enqueued; NULL: no more.  Not while another thread makes calls.
 */
typedef void recorder_watch_f (void *arg, const struct record *record, struct mg_stream *stream,
                               bool begins);
void recorder_set_watch (struct recorder *r, recorder_watch_f *watch, void *arg);

/* The name of a call, "all-reduce" or "send", as a constant.  A list of several transfers is
 * "transfers".
 */
const char *record_call_name (const struct record *record);

/* The call that holds up a stream: the first one before the place that has begun and is not done,
 * on the stream itself or on one that the stream waits for.  False: none; then what holds up the
 * stream is a kernel, or a call that is no longer in the ring.  Any thread.
 */
bool recorder_blocking (struct recorder *r, struct stream_place place, struct record *out);

/* The newest call that has begun.  False: none.  Any thread. */
bool recorder_newest (struct recorder *r, struct record *out);

/* For queue_set_explain(): writes the call that holds up the host.  'arg' is the recorder. */
void recorder_explain (void *arg, char *text, size_t max);

/* Copy up to 'max' of the last calls, the newest first.  Returns their number.  Any
 * thread may call this. */
int recorder_last (struct recorder *r, struct record *out, int max);

/* Copy the counts of all communicators.  Any thread. */
int recorder_counts (struct recorder *r, struct record_count out[RECORDER_COMMS]);

/* Describe a call: "all-reduce #12 of 64 float32 on tp", "receive from 1 of 512 float32
 * on pp", "receive from 1 of 512 float32 and 2 other transfers on pp" */
void record_describe (const struct record *record, char *text, size_t max);

#endif /* LIBCORE_COMM_RECORDER_H */
