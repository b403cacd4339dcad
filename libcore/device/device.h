/* device - memory, streams and kernels of one kind of processor.
 *
 * The rest of the library sees a device through this header, the streams of megatron/stream.h
 * and the kernels of kernels/kernels.h.  Backends: "cpu" and the module "cuda"; "guarded" and
 * "guarded-pages" are for tests (device_guarded.c) and are only chosen by name.
 *
 * There are two kinds of memory.  Device memory comes from device_alloc(); all other memory is host
 * memory.  The host does not read or write device memory.  Only kernels, the copies and sets below,
 * and collectives of the device's data communicators do, and these do not touch host memory, except
 * for the host side of a copy.  The memory of the CPU device is ordinary memory, so a
 * mistake has no effect there; on the guarded devices a mistake ends the process.
 */
#ifndef LIBCORE_DEVICE_DEVICE_H
#define LIBCORE_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "libcore/device/progress.h"
#include "megatron/error.h"
#include "megatron/stream.h"

/* A device as users name it. */
enum { DEVICE_NAME_MAX = 24, DEVICE_BY_RANK = -1 };
struct device_choice {
    char name[DEVICE_NAME_MAX];
    int ordinal; /* which of this machine's devices of that name, from 0 on; DEVICE_BY_RANK: no
                    number was given */
};

/* The name of no backend: the first one that this machine can use, of those in the order in which
 * the texts name them.
 */
#define DEVICE_AUTO "auto"

/* Read "NAME", "NAME:ORDINAL" or DEVICE_AUTO.  With 'tests', devices of tests are allowed.  Whether
 * the device exists is not checked.  0, or -1, errno and a text: ENODEV for a name that
 * no backend has, EINVAL or ERANGE for an invalid ordinal.
 */
int device_choose (const char *text, bool tests, struct device_choice *choice,
                   struct mg_error *err);

/* True if a text as of device_choose() names this backend.  NULL names none. */
bool device_is_named (const char *text, const char *name);

/* True if a stream of the named device that waits may keep its other streams from going on: the
 * device promises no progress of one stream while another one waits.
 */
bool device_holds_up (const char *text);

struct device_config {
    const char *name; /* NULL: "cpu"; DEVICE_AUTO only if 'ordinal' is DEVICE_BY_RANK */
    int threads;      /* compute threads of this process, at least 1 */
    double timeout;   /* seconds that a wait on a stream or event may last */
    int ordinal;      /* which of this machine's devices of that name, from 0 on; DEVICE_BY_RANK:
                         the only one or, of several, the one with the number 'local_rank' */
    int local_rank;   /* of this process among those of the job on this machine */
    /* NULL, or another device, which must outlive this one.  The two devices then share the
     * communication thread and the timeout, and fail together.  Matrix products are slow on a
     * device that shares.
     */
    struct mg_device *share;
    /* Plan for the named device, which need not exist: no module is loaded.
     * device_kernels() then only computes scratch memory (kern_scratch()); everything
     * else is the CPU's.
     */
    bool planned;
};

struct mg_device *device_create (const struct device_config *config,
                                 struct mg_error *err);
void device_destroy (struct mg_device *device);

const char *device_name (const struct mg_device *device);

/* Why DEVICE_AUTO did not get a better device, in one line; "" if it did, and for devices that were
 * chosen by name.
 */
const char *device_note (const struct mg_device *device);

/* The number of this machine's devices of a backend.  -1 and a text if there is none that can be
 * used.
 */
int device_count (const char *name, struct mg_error *err);

/* What other processes must know of a device before they talk to it.  Two processes of a machine
 * with the same place have the same device.
 */
enum { DEVICE_PLACE_MAX = 16 };
struct device_identity {
    char place[DEVICE_PLACE_MAX]; /* the bus id of a GPU, "0000:65:00.0"; "": it has none */
    int32_t driver, runtime;      /* versions of CUDA, 1000 for each major number: 13000; else 0 */
};

/* Find the device that device_create() would make of name, ordinal and local rank, without making
 * it.  -1 and a text where that would fail for these.
 */
int device_identify (const struct device_config *config, struct device_identity *identity,
                     struct mg_error *err);

/* The processor's name, its bytes of memory, and the version of its software: the
 * instruction set of the CPU's kernels, or a GPU's capability, driver and libraries.
 */
struct device_info {
    char name[80];
    size_t memory; /* 0: not known */
    size_t others; /* bytes of memory that device_alloc() has not given and cannot give: those of a
                      GPU's context, of the libraries and of other programs.  0: memory of the host,
                      or not known */
    int ordinal;   /* which of the machine's devices of that name */
    char version[120];
};
void device_describe (const struct mg_device *device, struct device_info *info);
int device_threads (const struct mg_device *device);

/* The number of hardware queues that the device's streams share, 0: one for each stream.  If there
 * are fewer queues than streams, a call that waits may hold up work of another stream.
 * device_streams() is the number of streams now.
 */
int device_queues (const struct mg_device *device);
int device_streams (const struct mg_device *device);

/* The device's kernels.  Their calls take streams of this device. */
const struct kernels *device_kernels (const struct mg_device *device);

/* Call kernels between enter() and leave(), from the thread that called enter().  enter() makes
 * this thread and the threads that it computes with flush denormals (kernels.h); leave() restores
 * the mode that each of these threads had.  A pair inside a pair changes nothing.
 */
void device_enter (struct mg_device *device);
void device_leave (struct mg_device *device);

/* Device memory, aligned to 64 bytes and zeroed.  NULL and a text with the size on failure. */
void *device_alloc (struct mg_device *device, size_t size, struct mg_error *err);
void device_free (struct mg_device *device, void *ptr);

/* Allocate a block of 'bytes' and a little more.  From now on device_alloc() gives parts of it, as
 * long as these fit, so that what is planned is there before anything uses it.  A part that is
 * freed is not given again; the block is freed with the device.  Only devices whose backend
 * 'reserves' (device_ops.h) do so, others ignore the call.  Call it once.  -1 and a text where
 * there is no memory.
 */
int device_reserve (struct mg_device *device, size_t bytes, struct mg_error *err);

/* Device memory that the memory plan leaves out: device_allocated() does not count it.  Use it
 * for a few numbers that kernels exchange with the host, and for memory that is freed before the
 * first step.
 */
void *device_alloc_apart (struct mg_device *device, size_t size, struct mg_error *err);

/* Pinned host memory, aligned and zeroed as above: the host side of copies.  device_allocated()
 * does not count it.
 */
void *device_host_alloc (struct mg_device *device, size_t size, struct mg_error *err);
void device_host_free (struct mg_device *device, void *ptr);

/* Enqueue a copy of 'size' bytes: host to device, device to host, device to device.  Device
 * memory is that of the stream's device; the two sides must not overlap.  The host side is inside
 * of one block of device_host_alloc() of that device: a device whose memory is apart from the
 * host's refuses pageable host memory (EFAULT), since such a copy would wait.  A host buffer
 * belongs to the copy until the copy is known to be done (mg_stream_synchronize(), an event).
 * Until then the caller does not change the buffer of an upload and does not read the buffer of a
 * download. On the CPU, a copy on a compute stream is done when the call returns, and a copy on a
 * comm stream is done after the work that was enqueued there before it.
 */
int device_upload (struct mg_stream *stream, void *to, const void *from, size_t size,
                   struct mg_error *err);
int device_download (struct mg_stream *stream, void *to, const void *from, size_t size,
                     struct mg_error *err);
int device_copy (struct mg_stream *stream, void *to, const void *from, size_t size,
                 struct mg_error *err);

/* Enqueue an operation that sets 'size' bytes of device memory to 'byte'. */
int device_set (struct mg_stream *stream, void *to, int byte, size_t size,
                struct mg_error *err);

/* Download and wait: on return, the copy and all earlier work of the stream are done. */
int device_fetch (struct mg_stream *stream, void *to, const void *from, size_t size,
                  struct mg_error *err);

/* True if the address is in the device's memory.  A device that cannot find out returns
 * 'hoped', the answer that the caller expects.
 */
bool device_holds (const struct mg_device *device, const void *ptr, bool hoped);

/* Bytes that device_alloc() has allocated so far; freed memory still counts. */
size_t device_allocated (const struct mg_device *device);

/* Bytes that device_host_alloc() has allocated and that are not freed. */
size_t device_host_allocated (struct mg_device *device);

/* The number of times that the host has waited: for streams (mg_stream_synchronize(),
 * device_fetch(), communicators' calls without a stream), and for events
 * (mg_event_synchronize()).  A wait also counts if the work was already done.
 */
struct device_waits {
    uint64_t streams, events;
};
struct device_waits device_waits (const struct mg_device *device);

/* Bytes that device_alloc() could still allocate, as far as the system reports. */
size_t device_available (const struct mg_device *device);

/* True if the device, or the device that is planned, has memory of its own, which this process
 * alone takes of: then host memory is no part of device_available(), and other processes of the
 * machine have other devices.
 */
bool device_is_apart (const struct mg_device *device);

/* True if work of the device can be captured in graphs (graph.h). */
bool device_has_graphs (const struct mg_device *device);

/* Mark the device as failed: every present and later wait on its streams and events ends with this
 * text.  Any thread may call it.
 */
void device_fail (struct mg_device *device, const char *text);

/* After a failure: true if no communication with other processes is queued or running.  Waits a
 * second at most.  If the result is false, a call is stuck, and memory that the call may use must
 * not be freed.
 */
bool device_settled (struct mg_device *device);

/* Wait for something besides a stream or event: queue_wait_for(). */
struct queue_wait;
int device_wait (struct mg_device *device, const struct queue_wait *wait, struct mg_error *err);

/* What the host waits for. */
struct device_waiting {
    struct stream_place place; /* of a stream (progress.h); stream 0: something else */
    bool work;      /* 'text' is work of the host itself or something outside of the device, such as
                       a connection; false: it is the device's stream, which runs by itself */
    double seconds; /* since the wait began */
    char text[200];
};

/* False if the host does not wait, or what it waits for is there.  Any thread. */
bool device_waiting (struct mg_device *device, struct device_waiting *waiting);

/* What a stream has had to wait for: progress_waits(). */
int device_progress_waits (struct mg_device *device, struct stream_place at,
                           struct stream_place *on, int max);

/* Somebody who knows what holds up a wait that has reached its deadline: queue_set_explain(). */
struct queue_explain;
void device_set_explain (struct mg_device *device, const struct queue_explain *explain);

/* Set the function that finds failures during waits: queue_set_look().  device_wait() calls it, and
 * so does every wait of a device that has no host work.
 */
struct queue_look;
void device_set_look (struct mg_device *device, const struct queue_look *look);

/* 0, or -1, EIO and the text if the device has failed. Never blocks. */
int device_check (struct mg_device *device, struct mg_error *err);

#endif /* LIBCORE_DEVICE_DEVICE_H */
