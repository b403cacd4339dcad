/* runtime_memory.cpp - device and pinned memory of the double of the CUDA runtime
 *
 * Each device has a range of addresses.  Where the processor has protection keys, each range has
 * one: a thread may touch it only after runtime_allow().  Signals start with the rights of a
 * new thread, none, so a thread that left a kernel by launch_fault() asks for its rights again.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <atomic>
#include <map>
#include <mutex>

#include "tests/cuda/launch.h"
#include "tests/cuda/runtime.h"

static const size_t RANGE = (size_t)1 << 38, PAGE = 4096, ALIGNMENT = 256;

struct mapping {
    struct runtime_block block;
    char *map; /* NULL: registered memory, which is the program's */
    size_t mapped;
    bool freed;
};

struct range {
    char *begin, *next;
    int key; /* of protection, -1: none */
    size_t used;
};

static struct memory {
    std::mutex mutex;
    std::map<const char *, mapping> mappings; /* by first byte */
    struct range ranges[RUNTIME_MAX_DEVICES];
    bool started;
} *own = new memory (); /* never destroyed: threads may outlive main() */

static struct sigaction old_segv, old_bus;

/* The device that an address belongs to, -1 if none. */
static int device_of (const void *p)
{
    for (int i = 0; i < RUNTIME_MAX_DEVICES; i++) {
        const char *begin = own->ranges[i].begin;

        if (begin && (const char *)p >= begin && (const char *)p < begin + RANGE)
            return i;
    }
    return -1;
}

/* Print what a wrong address belongs to.  Runs in a signal handler: takes no lock. */
static void explain (const char *who, const void *p)
{
    int device = device_of (p);
    auto found = own->mappings.upper_bound ((const char *)p);

    fprintf (stderr, "cuda double: %s touches %p of device %d", who, p, device);
    if (found == own->mappings.begin ()) {
        fprintf (stderr, ", below all allocations\n");
        return;
    }
    --found;
    const mapping &m = found->second;
    size_t at = (const char *)p - m.block.base;
    if (at < m.block.size)
        fprintf (stderr, ", byte %zu of %s%zu bytes\n", at, m.freed ? "freed " : "", m.block.size);
    else
        fprintf (stderr, ", %zu bytes past the end of %s%zu bytes\n", at - m.block.size,
                 m.freed ? "freed " : "", m.block.size);
}

static void on_fault (int number, siginfo_t *info, void *)
{
    if (device_of (info->si_addr) >= 0)
        explain (launch_is_device () ? "a kernel" : "the host", info->si_addr);
    launch_fault (info->si_addr);
    sigaction (number, number == SIGSEGV ? &old_segv : &old_bus, nullptr); /* and again */
}

/* Called with the lock. */
static void start ()
{
    struct sigaction action = {};

    if (own->started)
        return;
    own->started = true;
    for (int i = 0; i < runtime_settings ()->devices; i++) {
        struct range *r = &own->ranges[i];
        void *p = mmap (nullptr, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                        0);

        if (p == MAP_FAILED) {
            perror ("cuda double: addresses of a device");
            exit (2);
        }
        r->begin = r->next = (char *)p;
        r->key = runtime_settings ()->no_keys ? -1 : pkey_alloc (0, PKEY_DISABLE_ACCESS);
    }
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction (SIGSEGV, &action, &old_segv);
    sigaction (SIGBUS, &action, &old_bus);
}

void runtime_allow (int device)
{
    for (int i = 0; i < RUNTIME_MAX_DEVICES; i++) {
        struct range *r = &own->ranges[i];

        if (r->begin && r->key >= 0)
            pkey_set (r->key, device == i || device == RUNTIME_MAX_DEVICES ? 0
                                                                           : PKEY_DISABLE_ACCESS);
    }
}

void runtime_begin_thread ()
{
    stack_t stack = {};

    {
        std::lock_guard<std::mutex> hold (own->mutex);
        start ();
    }
    stack.ss_size = 128 << 10;
    stack.ss_sp = malloc (stack.ss_size); /* never freed: the thread may use it */
    if (!stack.ss_sp || sigaltstack (&stack, nullptr) < 0) {
        perror ("cuda double: stack for signals");
        exit (2);
    }
}

void *runtime_alloc (int device, size_t size)
{
    std::lock_guard<std::mutex> hold (own->mutex);
    struct range *r = &own->ranges[device];
    size_t rounded, mapped;
    char *map, *p;

    start ();
    if (size > runtime_settings ()->memory)
        return nullptr;
    rounded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    mapped = (rounded + PAGE - 1) / PAGE * PAGE;
    if (mapped > runtime_settings ()->memory - r->used
        || mapped + 2 * PAGE > (size_t)(r->begin + RANGE - r->next))
        return nullptr;
    map = r->next + PAGE;
    if (mprotect (map, mapped, PROT_READ | PROT_WRITE) < 0)
        return nullptr;
    r->next = map + mapped;
    r->used += mapped;
    memset (map, 0xff, mapped);
    if (r->key >= 0)
        pkey_mprotect (map, mapped, PROT_READ | PROT_WRITE, r->key);
    p = map + mapped - rounded;
    own->mappings[p] = { { RUNTIME_DEVICE, device, p, size }, map, mapped, false };
    return p;
}

void *runtime_alloc_pinned (int device, size_t size)
{
    std::lock_guard<std::mutex> hold (own->mutex);
    size_t mapped = (size + PAGE - 1) / PAGE * PAGE;
    void *p = mmap (nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return nullptr;
    memset (p, 0xff, mapped);
    own->mappings[(char *)p] = { { RUNTIME_PINNED, device, (char *)p, size }, (char *)p, mapped,
                                 false };
    return p;
}

bool runtime_free (void *p, enum runtime_kind kind)
{
    std::lock_guard<std::mutex> hold (own->mutex);
    auto found = own->mappings.find ((char *)p);

    if (found == own->mappings.end () || found->second.block.kind != kind || found->second.freed
        || !found->second.map)
        return false;
    mapping &m = found->second;
    if (kind == RUNTIME_PINNED) {
        munmap (m.map, m.mapped);
        own->mappings.erase (found);
        return true;
    }
    /* Give the pages back; the addresses stay out of use. */
    mmap (m.map, m.mapped, PROT_NONE,
          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    own->ranges[m.block.device].used -= m.mapped;
    m.freed = true;
    return true;
}

static bool find_locked (const void *p, size_t size, struct runtime_block *block)
{
    auto found = own->mappings.upper_bound ((const char *)p);
    int device = device_of (p);

    *block = { device >= 0 ? RUNTIME_DEVICE : RUNTIME_PAGEABLE, device, nullptr, 0 };
    if (found != own->mappings.begin ()) {
        const mapping &m = (--found)->second;
        size_t at = (const char *)p - m.block.base;

        if (at < m.block.size) {
            *block = m.block;
            return !m.freed && size <= m.block.size - at;
        }
    }
    return device < 0;
}

bool runtime_find (const void *p, size_t size, struct runtime_block *block)
{
    std::lock_guard<std::mutex> hold (own->mutex);

    return find_locked (p, size, block);
}

bool runtime_is_device (const void *p, size_t size)
{
    struct runtime_block block;

    return runtime_find (p, size, &block) && block.kind == RUNTIME_DEVICE;
}

size_t runtime_used (int device)
{
    std::lock_guard<std::mutex> hold (own->mutex);

    return own->ranges[device].used;
}

cudaError_t runtime_register (int device, void *p, size_t size)
{
    std::lock_guard<std::mutex> hold (own->mutex);
    struct runtime_block block;
    auto next = own->mappings.lower_bound ((char *)p);

    if (!p || size == 0 || device_of (p) >= 0)
        return cudaErrorInvalidValue;
    if (!find_locked (p, size, &block) || block.base
        || (next != own->mappings.end () && next->first < (char *)p + size))
        return cudaErrorHostMemoryAlreadyRegistered;
    own->mappings[(char *)p] = { { RUNTIME_PINNED, device, (char *)p, size }, nullptr, 0, false };
    return cudaSuccess;
}

cudaError_t runtime_unregister (void *p)
{
    std::lock_guard<std::mutex> hold (own->mutex);
    auto found = own->mappings.find ((char *)p);

    if (found == own->mappings.end () || found->second.map)
        return cudaErrorHostMemoryNotRegistered;
    own->mappings.erase (found);
    return cudaSuccess;
}

/* MG_CUDA_COUNT names a file that gets a line at the end of the process: how often memory of
 * devices and of the host was allocated, and attributes of devices were asked for, and streams of
 * high priority were made.
 */
static struct counts {
    std::atomic<long> device, host, attributes, streams;

    ~counts ()
    {
        const char *name = getenv ("MG_CUDA_COUNT");
        FILE *to = name ? fopen (name, "a") : nullptr;

        if (name && (!to || fprintf (to, "%ld %ld %ld %ld\n", device.load (), host.load (),
                                 attributes.load (), streams.load ()) < 0
                     || fclose (to)))
            fprintf (stderr, "cuda double: MG_CUDA_COUNT=%s: %s\n", name, strerror (errno));
    }
} counts;

void runtime_count_attribute ()
{
    counts.attributes++;
}

void runtime_count_stream ()
{
    counts.streams++;
}

/* Allocations, as the API has them.  To free memory waits for its device, as the real one does. */

extern "C" {

cudaError_t cudaMalloc (void **out, size_t size)
{
    cudaError_t e = runtime_enter ();

    if (e == cudaSuccess)
        e = runtime_check_unsafe ();
    if (e != cudaSuccess)
        return runtime_return (e);
    *out = nullptr;
    if (size == 0)
        return cudaSuccess;
    counts.device++;
    *out = runtime_alloc (runtime_device (), size);
    return runtime_return (*out ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree (void *p)
{
    cudaError_t e = runtime_enter ();
    struct runtime_block block;

    if (e == cudaSuccess && p)
        e = runtime_check_unsafe ();
    if (e != cudaSuccess || !p)
        return runtime_return (e);
    if (!runtime_find (p, 0, &block) || block.kind != RUNTIME_DEVICE || block.base != p)
        return runtime_return (cudaErrorInvalidValue);
    runtime_wait_device (block.device);
    return runtime_return (runtime_free (p, RUNTIME_DEVICE) ? runtime_sticky (block.device)
                                                            : cudaErrorInvalidValue);
}

cudaError_t cudaHostAlloc (void **out, size_t size, unsigned)
{
    cudaError_t e = runtime_enter ();

    if (e == cudaSuccess)
        e = runtime_check_unsafe ();
    if (e != cudaSuccess)
        return runtime_return (e);
    *out = nullptr;
    if (size == 0)
        return cudaSuccess;
    counts.host++;
    *out = runtime_alloc_pinned (runtime_device (), size);
    return runtime_return (*out ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaMallocHost (void **out, size_t size)
{
    return cudaHostAlloc (out, size, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost (void *p)
{
    cudaError_t e = runtime_enter ();

    if (e == cudaSuccess && p)
        e = runtime_check_unsafe ();
    if (e != cudaSuccess || !p)
        return runtime_return (e);
    for (int i = 0; i < runtime_settings ()->devices; i++)
        runtime_wait_device (i);
    return runtime_return (runtime_free (p, RUNTIME_PINNED) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaHostRegister (void *p, size_t size, unsigned)
{
    cudaError_t e = runtime_enter ();

    if (e == cudaSuccess)
        e = runtime_check_unsafe ();
    return runtime_return (e != cudaSuccess ? e : runtime_register (runtime_device (), p, size));
}

cudaError_t cudaHostUnregister (void *p)
{
    cudaError_t e = runtime_enter ();

    if (e == cudaSuccess)
        e = runtime_check_unsafe ();
    return runtime_return (e != cudaSuccess ? e : runtime_unregister (p));
}

cudaError_t cudaPointerGetAttributes (cudaPointerAttributes *attributes, const void *p)
{
    cudaError_t e = runtime_enter ();
    struct runtime_block block;

    if (e != cudaSuccess)
        return runtime_return (e);
    memset (attributes, 0, sizeof *attributes);
    if (!runtime_find (p, 1, &block) || !block.base) {
        attributes->type = cudaMemoryTypeUnregistered;
        attributes->device = -2; /* cudaInvalidDeviceId */
        attributes->hostPointer = (void *)p;
        return cudaSuccess;
    }
    attributes->type = block.kind == RUNTIME_DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    attributes->device = block.device;
    attributes->devicePointer = (void *)p;
    attributes->hostPointer = block.kind == RUNTIME_PINNED ? (void *)p : nullptr;
    return cudaSuccess;
}

} /* extern "C" */
