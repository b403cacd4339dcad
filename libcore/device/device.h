/* device - memory, streams and kernels of one kind of processor.
 *
 * Backends: "cpu" now.  The rest of the library sees a device through this header, the
 * streams of megatron/stream.h and the kernels of kernels/kernels.h.
 */
#ifndef LIBCORE_DEVICE_DEVICE_H
#define LIBCORE_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"
#include "megatron/error.h"
#include "megatron/stream.h"

struct device_config {
    const char *name; /* "cpu"; NULL: the best there is */
    int threads;      /* compute threads of this process, at least 1 */
    double timeout;   /* seconds that a wait on a stream or event may last */
};

struct mg_device *device_create (const struct device_config *config,
                                 struct mg_error *err);
void device_destroy (struct mg_device *device);

const char *device_name (const struct mg_device *device);
int device_threads (const struct mg_device *device);

/* The device's kernels; they take streams of this device. */
const struct kernels *device_kernels (const struct mg_device *device);

/* Call kernels between these two, from the thread that called the first.  enter() makes this thread
 * and the threads that it computes with flush denormals (kernels.h); leave() restores the mode that
 * each of them had.  A pair inside a pair changes nothing.
 */
void device_enter (struct mg_device *device);
void device_leave (struct mg_device *device);

/* Memory, aligned to 64 bytes and zeroed; NULL and a text (with the size) on failure. */
void *device_alloc (struct mg_device *device, size_t size, struct mg_error *err);
void device_free (struct mg_device *device, void *ptr);

/* Memory that kernels use besides their operands: as much as the most demanding call takes
 * (kern_scratch()).  It is allocated once: from then on kernels allocate none, and one that needs
 * more fails with ENOMEM.  Less than there is changes nothing.
 */
int device_reserve_scratch (struct mg_device *device, size_t size, struct mg_error *err);

/* Bytes that device_alloc() has given so far, those that were freed included. */
size_t device_allocated (const struct mg_device *device);

/* Bytes that device_alloc() could still give, as far as is known. */
size_t device_available (const struct mg_device *device);

/* Mark the device as failed with a text: every present and later wait on its streams and
 * events ends with it. Any thread.
 */
void device_fail (struct mg_device *device, const char *text);

/* After a failure: is no work for other processes in hand any more?  Waits for a second at
 * most.  If there is some, a call is stuck, and memory that it may use must not be freed.
 */
bool device_settled (struct mg_device *device);

/* What a thread is waiting for on the device's streams: queue_waiting(). */
struct queue_waiting;
bool device_waiting (struct mg_device *device, struct queue_waiting *waiting);

/* Watch the work that the communication thread does for the device: queue_set_watch(). */
struct queue_watch;
void device_set_watch (struct mg_device *device, const struct queue_watch *watch);

/* 0, or -1, EIO and the text if the device has failed. Never blocks. */
int device_check (struct mg_device *device, struct mg_error *err);

#endif /* LIBCORE_DEVICE_DEVICE_H */
