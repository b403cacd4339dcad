/* tape - work that a thread plans: the work is counted and not done.
 *
 * Between tape_begin() and tape_end(), the work that the calling thread enqueues on
 * streams of the device is recorded: kernels, copies and sets, and collectives of any
 * communicator.  Events do nothing, and a wait of the host returns at once.  There are no
 * results, so device_fetch() does not change its buffer.  No address is used, and tensors
 * need no memory.  Code that enqueues work is the same with and without a tape.
 *
 * A graph that is captured meanwhile (graph.h) records the work, as it does without a
 * tape.  Such a graph must not be replayed.
 */
#ifndef LIBCORE_DEVICE_TAPE_H
#define LIBCORE_DEVICE_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/tape.h"
#include "megatron/error.h"

struct mg_device;

enum { TAPE_NAME_MAX = 48 };

/* The collectives of one kind on one communicator. */
struct tape_collective {
    char group[TAPE_NAME_MAX]; /* name of the communicator: "tp" */
    const char *call;          /* "all-reduce" */
    int ranks;
    int64_t count; /* calls */
    size_t bytes;  /* of all of them, as mg_comm_stats() counts */
};

/* All zeros: an empty tape.  Only read it. */
struct tape {
    struct kern_tape kernels;
    size_t copies, copied_bytes; /* copies and sets */
    struct tape_collective *collective;
    int num_collectives;
    struct mg_device *device; /* while it records */
};

/* Record from now on, until tape_end().  Until then, no other thread may call kernels of the
 * device.  -1 and EBUSY if this thread records already, or another one on the device.
 */
int tape_begin (struct tape *tape, struct mg_device *device, struct mg_error *err);

/* Stop.  What was recorded stays.  Keeps errno. */
void tape_end (struct tape *tape);

/* Free what was recorded.  Keeps errno. */
void tape_clear (struct tape *tape);

/* --- for those who enqueue work --- */

/* True while this thread records. */
bool tape_recording (void);

/* Record work.  Only while this thread records.  -1 and ENOMEM. */
void tape_add_copy (size_t bytes);
int tape_add_collective (const char *group, int ranks, const char *call, size_t bytes,
                         struct mg_error *err);

#endif /* LIBCORE_DEVICE_TAPE_H */
