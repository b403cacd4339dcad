/* runtime - the inner parts of the double of the CUDA runtime
 *
 * The double has the soname and the symbol version of the real library (libcudart.so.13), so host
 * code that was compiled against the toolkit's headers runs with it unchanged.  Its parts:
 * runtime_device.cpp (devices, errors), runtime_memory.cpp, runtime_queue.cpp (operations and
 * the threads that run them), runtime_copy.cpp, runtime_stream.cpp (streams, events, launches),
 * runtime_graph.cpp (captures and graphs), runtime_end.cpp (what is called after a failure).
 * A function of the API that no part has ends the process with one line that names it.
 *
 * Environment, read at the first call:
 *
 *     MG_CUDA_ORDER        which of the operations that may run runs next:
 *                          last (default)  the one issued last, when a thread waits for any
 *                          lazy            the one issued last of those that a thread waits for
 *                          first           at once, highest priority and then the one issued first
 *                          SEED, a number  random; last or lazy, chosen anew for each operation
 *     MG_CUDA_IDLE_MS      20: operations run after this time though nobody waits for them
 *     MG_CUDA_MEMORY_MIB   1024: memory of each device
 *     MG_CUDA_HELD_MIB     0: memory of each device besides, which others hold
 *     MG_CUDA_DEVICES      2: number of devices, 0 to 8
 *     MG_CUDA_CAPABILITY   9.0: compute capability of each device
 *     MG_CUDA_DRIVER       13000: version of the driver, 0: none is installed
 *     MG_CUDA_RUNTIME      13000: version that the library says it has
 *     MG_CUDA_CONNECTIONS  what CUDA_DEVICE_MAX_CONNECTIONS must be at the first call
 *     CUDA_DEVICE_MAX_CONNECTIONS  hardware queues of a device, 1 to 32, which streams get in
 *                          turn.  An operation waits until those before it in its queue are done.
 *                          Not set or 0: a queue for each stream, so that more orders are possible
 *     MG_CUDA_QUEUES       hardware queues, whatever that variable says
 *     MG_CUDA_MULTIPROCESSORS  132: multiprocessors of each device.  A call of NCCL holds as many
 *                          as its communicator may use until it ends, and waits until so many are
 *                          free.  Other work of the device wants one that is free
 *     MG_CUDA_FAIL_LAUNCH  0: which launch of a kernel fails, 1 is the first of the process
 *     MG_CUDA_COUNT        a file that gets a line when the process ends: how often memory of
 *                          devices and of the host was allocated, attributes asked for, and
 *                          streams of high priority made
 *     MG_CUDA_END          a file that gets a line, the process and the function, for each call of
 *                          CUDA or NCCL after NCCL has told the program of a failure, for each
 *                          end of a communicator, and for an exit() after a failure
 *     MG_NCCL_HURT         "SIGNAL NUMBER FUNCTION": the process sends itself the signal in that
 *                          call of this function of NCCL, 1 is the first, and writes a line with
 *                          the time since 1970 to the error output before
 *     MG_NCCL_REFUSE       set: no communicator of several ranks is made, ncclInvalidUsage
 *     MG_NCCL_FAIL         "NUMBER FUNCTION": that call of a function of NCCL that takes a stream
 *                          returns an internal error, 1 is the first
 *     MG_NCCL_VERSION      that of the header: the version that the double of NCCL says it has
 *     MG_CUDA_NO_KEYS      set: no protection keys, as on a processor that has none; then the host,
 *                          and kernels of another device, can touch a device's memory unseen
 *
 * All functions may be called from any thread.
 */
#ifndef TESTS_CUDA_RUNTIME_H
#define TESTS_CUDA_RUNTIME_H

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include <cuda_runtime_api.h>

enum { RUNTIME_MAX_DEVICES = 8, RUNTIME_MAX_QUEUES = 32 };

/* Devices and errors. */

struct runtime_settings {
    int devices, capability, driver, runtime; /* capability: 90 is 9.0 */
    size_t memory, held; /* bytes of each device, and what others hold besides */
    int idle_ms;
    int queues, multiprocessors; /* of each device; queues 0: one for each stream */
    int fail_launch;
    bool no_keys;
    enum { LAST, LAZY, FIRST, RANDOM } order;
    unsigned seed;
};
const struct runtime_settings *runtime_settings ();

/* The current device of the calling thread. */
int runtime_device ();

/* Each call of the API begins with this.  Returns the error that makes the call fail at once: no
 * usable driver, or a sticky error of the current device.  Otherwise returns success.
 */
cudaError_t runtime_enter ();

/* Each call of the API ends with this: keep an error for cudaGetLastError().  Returns 'error'. */
cudaError_t runtime_return (cudaError_t error);

/* The error of a kernel that failed; the device never gets rid of it. */
cudaError_t runtime_sticky (int device);
void runtime_set_sticky (int device, cudaError_t error);

/* For MG_CUDA_END.  The first function notes a call of NCCL; 'ends': the call ends a communicator.
 * The second notes a call of CUDA: 'address' lies in the code of the called function.  The third
 * notes that the program has learned of a failure.
 */
void runtime_note_call (const char *function, bool ends);
void runtime_note_caller (const void *address);
void runtime_note_failure ();

/* Print a line and end the process: the program called what the double does not have. */
extern "C" void runtime_missing (const char *function) __attribute__ ((noreturn));

/* Memory.  Addresses of a device's memory are its own, and are never used again.  An allocation
 * ends at a page that nobody may touch, as closely as its alignment of 256 bytes permits.
 */

enum runtime_kind { RUNTIME_PAGEABLE, RUNTIME_PINNED, RUNTIME_DEVICE };

struct runtime_block {
    enum runtime_kind kind;
    int device;       /* of device memory; of pinned memory, the one that was current */
    const char *base; /* NULL: pageable memory */
    size_t size;      /* as asked for */
};

/* New device memory, filled with 0xff (NaN, -1); NULL if the device has no room. */
void *runtime_alloc (int device, size_t size);
/* New pinned host memory, filled with 0xff; NULL if there is none. */
void *runtime_alloc_pinned (int device, size_t size);
/* Unmap the allocation that begins at p.  False if none of that kind does. */
bool runtime_free (void *p, enum runtime_kind kind);
/* Host memory of the program becomes pinned, or ceases to be. */
cudaError_t runtime_register (int device, void *p, size_t size);
cudaError_t runtime_unregister (void *p);

/* Count a question for an attribute, or a stream of high priority (MG_CUDA_COUNT). */
void runtime_count_attribute ();
void runtime_count_stream ();

/* What 'p' is.  False if 'size' bytes from p are not within one allocation, or if p is an address
 * of device memory that is not allocated.
 */
bool runtime_find (const void *p, size_t size, struct runtime_block *block);
/* True if all of 'size' bytes from p are in one allocation of device memory. */
bool runtime_is_device (const void *p, size_t size);
/* Bytes of device memory in use, whole pages. */
size_t runtime_used (int device);

/* The calling thread may touch: nothing of the devices (-1), memory of one device, or of all
 * (RUNTIME_MAX_DEVICES).  Does nothing where the processor has no protection keys.
 */
void runtime_allow (int device);
/* Prepare a thread that runs operations: its stack for signals. */
void runtime_begin_thread ();

/* Operations.  One thread a device runs copies and kernels, one runs host functions. */

struct runtime_op {
    std::function<cudaError_t ()> run; /* an error becomes the sticky error of the device */
    int device;
    bool on_host; /* a host function */
    bool apart;   /* of a chain: a thread of its own runs it once it is ready */
    int holds;    /* multiprocessors, from its beginning to its end; only where 'apart' is set */
    int priority;
    uint64_t number; /* order of issue */
    int unmet = 0;   /* operations that must be done before */
    std::vector<std::shared_ptr<runtime_op>> before, next;
    bool wanted = false, done = false;
    std::chrono::steady_clock::time_point end;
};
typedef std::shared_ptr<runtime_op> runtime_ref;

struct runtime_capture;

/* The capture that a stream or the record of an event belongs to.  'after' are the nodes that its
 * next work comes after.  Guarded by the lock of the captures.
 */
struct runtime_captured {
    std::shared_ptr<runtime_capture> capture; /* NULL: none */
    std::set<int> after;
};

/* A stream of a device.  The legacy stream waits for the blocking ones, and they wait for it. */
struct CUstream_st {
    int device;
    bool blocking, legacy;
    int priority;
    int queue; /* of the device's hardware queues, where these are limited */
    unsigned flags;
    runtime_ref last; /* issued last; guarded by the lock of the queues */
    struct runtime_captured captured;
};

/* The stream behind a handle of the API, NULL if there is none: error 400. */
struct CUstream_st *runtime_stream (cudaStream_t handle);
struct CUstream_st *runtime_stream_create (int device, bool blocking, int priority);
void runtime_stream_destroy (struct CUstream_st *stream);

/* Operations that run one after the other on whatever stream, in the order in which they were
 * issued, such as the calls of a communicator.  A thread of its own runs each of them once it is
 * ready (apart), since it waits for other processes.  A chain is never destroyed.
 */
struct runtime_chain {
    runtime_ref last; /* guarded by the lock of the queues */
    int holds;        /* multiprocessors that each of them holds until it ends */
};

/* Issue 'run' on a stream; 'also' is one more operation that must be done before, or NULL.  If the
 * stream captures, 'run' becomes a node of the graph instead, and the result is NULL.  The caller
 * has asked runtime_check_issue().
 */
runtime_ref runtime_submit (struct CUstream_st *stream, std::function<cudaError_t ()> run,
                            bool on_host = false, runtime_ref also = nullptr,
                            struct runtime_chain *chain = nullptr);
/* The operation that a chain was given last, NULL if none. */
runtime_ref runtime_chain_last (struct runtime_chain *chain);
/* Block until an operation is done; NULL is done. */
void runtime_wait (const runtime_ref &op);
/* True if an operation is done.  If it is not, it counts as waited for from now on. */
bool runtime_done (const runtime_ref &op);
/* Block until all operations of a device are done. */
void runtime_wait_device (int device);
/* The operation that a stream was given last, NULL if none. */
runtime_ref runtime_last (struct CUstream_st *stream);

/* Graphs.  Work of a capture is a node: it comes after some of the nodes before it. */

struct runtime_node {
    std::function<cudaError_t ()> run;
    bool on_host;
    struct runtime_chain *chain; /* NULL: none; each launch adds an operation to it */
    int device, priority;
    std::vector<int> before; /* numbers of nodes, all of them smaller than the node's own */
};

/* The errors of calls that a capture forbids.  An error makes the captures that are concerned
 * invalid.
 *   issue: of work on a stream: 901 if the stream's capture is invalid, 906 if the stream is the
 *          legacy one and a blocking stream of its device captures;
 *   wait: of a call that waits for a stream or asks for its state: 900, 906;
 *   unsafe: of a call that may wait for the device, such as cudaMalloc(): 900 if a capture of this
 *          thread, or a global one of any, is in progress;
 *   event: of a call that waits for an event or asks for its state: 907, or as unsafe.
 */
cudaError_t runtime_check_issue (struct CUstream_st *stream);
cudaError_t runtime_check_wait (struct CUstream_st *stream);
cudaError_t runtime_check_unsafe ();
cudaError_t runtime_check_event (const struct runtime_captured *event);

/* Pageable memory in a copy on this stream: 900 if it captures. */
cudaError_t runtime_check_pageable (struct CUstream_st *stream);

/* Make work of a stream a node of its capture.  False: the stream does not capture. */
bool runtime_take (struct CUstream_st *stream, std::function<cudaError_t ()> *run, bool on_host,
                   struct runtime_chain *chain);
bool runtime_captures (struct CUstream_st *stream);

/* The place of a stream in its capture, for an event that records it. */
struct runtime_captured runtime_mark (struct CUstream_st *stream);

/* A stream waits for an event, and one of both is in a capture: the stream joins the capture, or an
 * error: 902, 905, 906.  *none is set if neither is.
 */
cudaError_t runtime_join (struct CUstream_st *stream, const struct runtime_captured *event,
                          bool recorded, bool *none);

/* A stream is destroyed: its capture becomes invalid. */
void runtime_leave (struct CUstream_st *stream);

/* Issue all nodes as one operation of the stream, after 'also'; returns the operation. */
runtime_ref runtime_submit_nodes (struct CUstream_st *stream,
                                  const std::vector<runtime_node> &nodes, const runtime_ref &also);

#endif /* TESTS_CUDA_RUNTIME_H */
