/* device - memory, streams and kernels of one kind of processor.
 *
 * The rest of the library sees a device through this header, the streams of megatron/stream.h
 * and the kernels of kernels/kernels.h.  Backends: "cpu"; "guarded" and "guarded-pages" are for
 * tests (device_guarded.c) and are only chosen by name.
 *
 * Two kinds of memory: a device's memory comes from device_alloc(), everything else is host
 * memory.  The host does not read or write device memory: only kernels, the copies and sets
 * below, and collectives of the device's communicators do.  These three do not touch host
 * memory, except for the host side of a copy.  The CPU device's memory is ordinary memory, so
 * it forgives a mistake; the guarded devices do not.
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
    int ordinal;      /* which of this machine's devices of that name, from 0 on */
    /* NULL, or a device that this one shares a communication thread and its failure with; it
     * must outlive this one.  'timeout' is then its, and products are slow.
     */
    struct mg_device *share;
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

/* The same, outside the plan: not counted in device_allocated().  For small things that kernels
 * read or leave for the host, and for what is there only while a run is set up.
 */
void *device_alloc_apart (struct mg_device *device, size_t size, struct mg_error *err);

/* Host memory that copies reach fastest (pinned, where that is a difference), aligned and zeroed
 * as above.  Not counted in device_allocated().
 */
void *device_host_alloc (struct mg_device *device, size_t size, struct mg_error *err);
void device_host_free (struct mg_device *device, void *ptr);

/* Enqueue a copy of 'size' bytes: host to device, device to host, device to device.  Device
 * memory is that of the stream's device; the two sides must not overlap.  A host buffer belongs
 * to the copy until the stream is known to have come behind it (mg_stream_synchronize(), an
 * event): an upload's must not change, a download's must not be looked at.  On the CPU a copy on
 * a compute stream is done when the call returns; on a comm stream it has its turn behind what
 * was enqueued earlier.
 */
int device_upload (struct mg_stream *stream, void *to, const void *from, size_t size,
                   struct mg_error *err);
int device_download (struct mg_stream *stream, void *to, const void *from, size_t size,
                     struct mg_error *err);
int device_copy (struct mg_stream *stream, void *to, const void *from, size_t size,
                 struct mg_error *err);

/* Enqueue that 'size' bytes of device memory become 'byte'. */
int device_set (struct mg_stream *stream, void *to, int byte, size_t size,
                struct mg_error *err);

/* Download, and wait for it: the stream and everything before it is done on return. */
int device_fetch (struct mg_stream *stream, void *to, const void *from, size_t size,
                  struct mg_error *err);

/* Is this an address in the device's memory?  Devices that cannot tell say what the caller hopes
 * for, 'hoped'.
 */
bool device_holds (const struct mg_device *device, const void *ptr, bool hoped);

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
