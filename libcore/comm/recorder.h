/* recorder - a flight recorder: the latest calls of this process on its communicators.
 *
 * A ring of the last calls, for the report that is made when a rank stalls or dies.
 * To add a call takes no lock and no allocation; only the clock is read.  The state of a
 * call is found out when the record is read, from the lane that the call was put on.
 */
#ifndef LIBCORE_COMM_RECORDER_H
#define LIBCORE_COMM_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/comm/comm_ops.h"

enum { RECORD_NAME_MAX = 16, RECORDER_SIZE = 256, RECORDER_COMMS = 32 };

/* One call. */
struct record {
    char name[RECORD_NAME_MAX]; /* name of the communicator */
    uint64_t seq;   /* number of collectives on the communicator so far, this one
                     * included; for a transfer, the number of transfers */
    int32_t call;   /* enum mg_comm_call */
    int32_t dtype;
    int32_t peer;   /* peer of a transfer's first entry, else -1 */
    int32_t sends;  /* the transfer's first entry is a send */
    uint64_t count;
    uint64_t bytes; /* bytes, counted as in struct mg_comm_stats */
    double seconds; /* seconds since the call was enqueued */
    int32_t state;  /* enum record_state */
    int32_t unused;
};

enum record_state { RECORD_ENQUEUED, RECORD_STARTED, RECORD_DONE };

/* Number of collectives that were enqueued on a communicator. */
struct record_count {
    char name[RECORD_NAME_MAX];
    uint64_t collectives;
};

struct recorder;

/* NULL and a text if out of memory. */
struct recorder *recorder_create (struct mg_error *err);
void recorder_destroy (struct recorder *r);

/* Add a communicator.  Returns its number in the recorder, or -1 if there is no room; its
 * calls are then not recorded. */
int recorder_place (struct recorder *r, const char *name);

/* Record a call of 'bytes' bytes, just before it is put on 'lane' at 'mark'.  Calls of
 * one process come from one thread at a time.
 */
void recorder_add (struct recorder *r, int place, const struct comm_request *req,
                   uint64_t bytes, const struct queue_lane *lane, uint64_t mark);

/* Set a function that is called after each call is recorded, in the thread that makes the
 * call.  NULL: no function.  No other thread may make calls meanwhile.
 */
typedef void recorder_watch_f (void *arg, const struct record *record,
                               const struct queue_lane *lane, uint64_t mark);
void recorder_set_watch (struct recorder *r, recorder_watch_f *watch, void *arg);

/* The name of a call, "all-reduce" or "send", as a constant. */
const char *record_call_name (const struct record *record);

/* Find the first call on 'lane' that is not done.  False if all are done.  Any thread may
 * call this. */
bool recorder_first (struct recorder *r, const struct queue_lane *lane, struct record *out);

/* Copy up to 'max' of the last calls, the newest first.  Returns their number.  Any
 * thread may call this. */
int recorder_last (struct recorder *r, struct record *out, int max);

/* Copy the counts of all communicators.  Any thread may call this. */
int recorder_counts (struct recorder *r, struct record_count out[RECORDER_COMMS]);

/* Describe a call: "all-reduce #12 of 64 float32 on tp", "receive from 1 of 512 float32
 * on pp" */
void record_describe (const struct record *record, char *text, size_t max);

#endif /* LIBCORE_COMM_RECORDER_H */
