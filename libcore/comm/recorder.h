/* recorder - a flight recorder: what this process has asked of its communicators lately.
 *
 * A ring of the last calls, for the report that is made when a rank stalls or dies.
 * Adding to it takes no lock, allocates nothing and calls nothing but the clock; what
 * state a call is in follows from the lane that it was put on, when somebody asks.
 */
#ifndef LIBCORE_COMM_RECORDER_H
#define LIBCORE_COMM_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/comm/comm_ops.h"

enum { RECORD_NAME_MAX = 16, RECORDER_SIZE = 256, RECORDER_COMMS = 32 };

/* One call. */
struct record {
    char name[RECORD_NAME_MAX]; /* of the communicator */
    uint64_t seq;   /* collectives on it so far, this one included; of transfers likewise */
    int32_t call;   /* enum mg_comm_call */
    int32_t dtype;
    int32_t peer;   /* of a transfer's first entry, else -1 */
    int32_t sends;  /* that is a send */
    uint64_t count;
    uint64_t bytes; /* as struct mg_comm_stats counts them */
    double seconds; /* since it was enqueued */
    int32_t state;  /* enum record_state */
    int32_t unused;
};

enum record_state { RECORD_ENQUEUED, RECORD_STARTED, RECORD_DONE };

/* Collectives that were enqueued on a communicator. */
struct record_count {
    char name[RECORD_NAME_MAX];
    uint64_t collectives;
};

struct recorder;

/* NULL and a text if out of memory. */
struct recorder *recorder_create (struct mg_error *err);
void recorder_destroy (struct recorder *r);

/* A communicator's place in the recorder, -1: there is no more room (it is left out). */
int recorder_place (struct recorder *r, const char *name);

/* A call, which hands in 'bytes', that is about to be put on 'lane', at 'mark'.  Calls of
 * one process come from one thread at a time.
 */
void recorder_add (struct recorder *r, int place, const struct comm_request *req,
                   uint64_t bytes, const struct queue_lane *lane, uint64_t mark);

/* Tell 'watch' of every call, in the thread that makes it, once it is recorded; NULL: no
 * more.  Not while another thread makes calls.
 */
typedef void recorder_watch_f (void *arg, const struct record *record,
                               const struct queue_lane *lane, uint64_t mark);
void recorder_set_watch (struct recorder *r, recorder_watch_f *watch, void *arg);

/* "all-reduce", "send"; a constant. */
const char *record_call_name (const struct record *record);

/* The first call on 'lane' that is not done.  Any thread; false if there is none. */
bool recorder_first (struct recorder *r, const struct queue_lane *lane, struct record *out);

/* Copy up to 'max' of the last calls, the newest first, and return how many. Any thread. */
int recorder_last (struct recorder *r, struct record *out, int max);

/* Copy the counts of all communicators. Any thread. */
int recorder_counts (struct recorder *r, struct record_count out[RECORDER_COMMS]);

/* "all-reduce #12 of 64 float32 on tp", "receive from 1 of 512 float32 on pp" */
void record_describe (const struct record *record, char *text, size_t max);

#endif /* LIBCORE_COMM_RECORDER_H */
