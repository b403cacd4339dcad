/* launch - runs the grid of a kernel on the CPU.
 *
 * This is the seam between the two halves of the double of CUDA.  The runtime (runtime_*.cpp) owns
 * streams, memory and errors, and calls launch_run() when a kernel's turn has come.  The engine
 * (launch*.cpp, watch.cpp) runs the kernel's blocks one after the other in the calling thread;
 * the threads of a block are fibers.  Several host threads may run kernels at the same time.
 *
 * A kernel is a plain function on the host, and its address is its identity.  The toolkit's
 * cudaLaunchKernelEx() does not pass the types of arguments on.  So device.h, which is included
 * before each .cu file, puts a template of its own in its place: the template calls
 * launch_describe() with a function that calls the kernel, and with the sizes of its parameters,
 * and then calls cudaLaunchKernelExC().  A kernel that was never described cannot run.
 *
 * Environment: MG_CUDA_THREADS is the order in which threads and blocks run.  0 or unset:
 * ascending; 1: descending; any other number: the seed of a random order, another one for each
 * round of the threads.
 */
#ifndef TESTS_CUDA_LAUNCH_H
#define TESTS_CUDA_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LAUNCH_MAX_PARAMETERS = 32, LAUNCH_MAX_THREADS = 1024 };

/* What is known of a kernel.  Lives as long as the process. */
struct launch_kernel {
    const char *name;
    void (*call) (const void *kernel, void **args); /* args[i] points to argument i */
    int num_parameters;
    size_t sizes[LAUNCH_MAX_PARAMETERS]; /* bytes of each parameter */
};

/* Describe the kernel at address 'kernel'.  A second description of an address is ignored.
 * Any thread may call this at any time.
 */
void launch_describe (const void *kernel, const struct launch_kernel *description);

/* The description of a kernel, or NULL: cudaErrorInvalidDeviceFunction (98).  The runtime copies
 * the arguments of a launch by 'sizes' when the launch is enqueued.
 */
const struct launch_kernel *launch_find (const void *kernel);

/* The allocation that holds 'address': its first byte, and its bytes as the program asked for them,
 * without the padding to a page.  False if no allocation of the device holds it.
 */
typedef bool (*launch_bounds_f) (void *arg, const void *address, const void **base, size_t *size);

struct launch_request {
    const void *kernel;
    unsigned grid[3], block[3]; /* the runtime has checked the limits: at least 1 each, at most
                                   LAUNCH_MAX_THREADS threads in a block */
    size_t shared;              /* bytes of dynamic shared memory */
    void **args;                /* args[i] points to argument i; read during the call only */
    launch_bounds_f bounds;     /* asked by instrumented kernels only; NULL: no bounds are checked.
                                   It may take a lock, but must not run a kernel. */
    void *bounds_arg;
};

/* Run all blocks of the grid.  Blocks until the last one has ended.  Returns a cudaError_t:
 * 0, 9 (threads or shared memory beyond the engine's limits), 98 (not described), 700 (address),
 * 716 (misaligned), 719 (barriers that do not meet, a race, __trap()).
 * After an error the rest of the grid has not run, the reason is on stderr, and launch_reason()
 * of this thread returns it.
 */
int launch_run (const struct launch_request *request);

/* The text of the last error in this thread, "" if there is none. */
const char *launch_reason (void);

/* For the runtime's handler of SIGSEGV and SIGBUS.  If the calling thread runs device code, the
 * kernel is ended with error 700, and the call does not return.  Otherwise it returns.
 * The handler must run on the alternative stack, and its signals must not be blocked while it runs
 * (SA_ONSTACK | SA_NODEFER), since the kernel is left without a return from the handler.
 */
void launch_fault (const void *address);

/* True if the calling thread runs device code now. */
bool launch_is_device (void);

/* What instrumented kernels of this process did between launch_count_reset() and launch_count().  A
 * request is one access of the lanes of a warp that run together.
 */
struct launch_counts {
    uint64_t read_bytes, written_bytes; /* of global memory */
    uint64_t requests, sectors; /* of global memory; sectors have 32 bytes */
    uint64_t memory_sectors; /* sectors that a launch reads, each once, and that it writes, each
                                once: what memory moves if the L2 cache keeps all of a launch */
    uint64_t shared_requests, wavefronts; /* wavefronts - shared_requests: bank conflicts */
    uint64_t least_wavefronts; /* of the same requests without conflicts, 128 bytes a pass */
    uint64_t exps; /* expf(), exp2f() and the like */
    uint64_t mma;  /* mma.sync instructions of a warp */
};
void launch_count (struct launch_counts *counts);
void launch_count_reset (void);

/* Call 'tell' before each launch of this process.  NULL: no more.  No kernel may run meanwhile. */
typedef void (*launch_tell_f) (const struct launch_request *request);
void launch_tell (launch_tell_f tell);

#ifdef __cplusplus
}
#endif

#endif /* TESTS_CUDA_LAUNCH_H */
