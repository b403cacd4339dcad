/* runtime_device.cpp - devices, versions and errors of the double of the CUDA runtime */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "tests/cuda/runtime.h"

static std::atomic<cudaError_t> sticky[RUNTIME_MAX_DEVICES];
static thread_local cudaError_t last_error;
static thread_local int current;

/* A whole number of the environment; ends the process where it is none or out of range. */
static long read_number (const char *name, long standard, long least, long most)
{
    const char *text = getenv (name);
    char *end;
    long n;

    if (!text || !*text)
        return standard;
    n = strtol (text, &end, 10);
    if (*end || n < least || n > most) {
        fprintf (stderr, "cuda double: %s=%s: want a number from %ld to %ld\n", name, text, least,
                 most);
        exit (2);
    }
    return n;
}

/* CUDA reads its variable at the first call, and never again. */
static void check_connections ()
{
    const char *want = getenv ("MG_CUDA_CONNECTIONS"), *is = getenv ("CUDA_DEVICE_MAX_CONNECTIONS");

    if (want && strcmp (want, is ? is : "")) {
        fprintf (stderr, "cuda double: CUDA_DEVICE_MAX_CONNECTIONS is %s at the first call, want "
                 "%s\n", is ? is : "not set", want);
        exit (2);
    }
}

static struct runtime_settings read_settings ()
{
    struct runtime_settings s = {};
    const char *order = getenv ("MG_CUDA_ORDER"), *capability = getenv ("MG_CUDA_CAPABILITY");
    int major = 9, minor = 0;

    check_connections ();
    s.devices = read_number ("MG_CUDA_DEVICES", 2, 0, RUNTIME_MAX_DEVICES);
    s.driver = read_number ("MG_CUDA_DRIVER", CUDART_VERSION, 0, 99999);
    s.runtime = read_number ("MG_CUDA_RUNTIME", CUDART_VERSION, 0, 99999);
    s.memory = (size_t)read_number ("MG_CUDA_MEMORY_MIB", 1024, 1, 65536) << 20;
    s.held = (size_t)read_number ("MG_CUDA_HELD_MIB", 0, 0, 65536) << 20;
    s.idle_ms = read_number ("MG_CUDA_IDLE_MS", 20, 0, 60000);
    s.queues = read_number ("CUDA_DEVICE_MAX_CONNECTIONS", 0, 0, RUNTIME_MAX_QUEUES);
    s.queues = read_number ("MG_CUDA_QUEUES", s.queues, 0, RUNTIME_MAX_QUEUES);
    s.multiprocessors = read_number ("MG_CUDA_MULTIPROCESSORS", 132, 1, 1000);
    s.fail_launch = read_number ("MG_CUDA_FAIL_LAUNCH", 0, 0, 1000000000);
    s.no_keys = getenv ("MG_CUDA_NO_KEYS");
    if (capability && sscanf (capability, "%d.%d", &major, &minor) != 2) {
        fprintf (stderr, "cuda double: MG_CUDA_CAPABILITY=%s: want MAJOR.MINOR\n", capability);
        exit (2);
    }
    s.capability = major * 10 + minor;
    if (!order || !*order || !strcmp (order, "last")) {
        s.order = runtime_settings::LAST;
    } else if (!strcmp (order, "lazy")) {
        s.order = runtime_settings::LAZY;
    } else if (!strcmp (order, "first")) {
        s.order = runtime_settings::FIRST;
    } else {
        s.order = runtime_settings::RANDOM;
        s.seed = read_number ("MG_CUDA_ORDER", 1, 0, 1000000000);
    }
    return s;
}

const struct runtime_settings *runtime_settings ()
{
    static const struct runtime_settings s = read_settings ();

    return &s;
}

int runtime_device ()
{
    return current;
}

/* Is there a driver that this runtime can use, and a device? */
static cudaError_t check_driver ()
{
    const struct runtime_settings *s = runtime_settings ();

    if (s->driver / 1000 < s->runtime / 1000)
        return cudaErrorInsufficientDriver;
    return s->devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t runtime_enter ()
{
    cudaError_t e = check_driver ();

    runtime_note_caller (__builtin_return_address (0));
    return e != cudaSuccess ? e : runtime_sticky (current);
}

cudaError_t runtime_return (cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last_error = error;
    return error;
}

cudaError_t runtime_sticky (int device)
{
    return sticky[device];
}

void runtime_set_sticky (int device, cudaError_t error)
{
    cudaError_t none = cudaSuccess;

    sticky[device].compare_exchange_strong (none, error);
}

void runtime_missing (const char *function)
{
    fprintf (stderr, "cuda double: %s() is not in the double\n", function);
    fflush (nullptr);
    _Exit (3);
}

extern "C" {

cudaError_t cudaGetLastError (void)
{
    cudaError_t e = cudaPeekAtLastError ();

    last_error = cudaSuccess;
    return e;
}

cudaError_t cudaPeekAtLastError (void)
{
    cudaError_t e = runtime_sticky (current);

    return e != cudaSuccess ? e : last_error;
}

const char *cudaGetErrorName (cudaError_t error)
{
    switch ((int)error) {
#define X(name, value)                                                                         \
    case value:                                                                                \
        return #name;
#include "runtime_errors.inc"
#undef X
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString (cudaError_t error)
{
    return cudaGetErrorName (error);
}

cudaError_t cudaDriverGetVersion (int *version)
{
    *version = runtime_settings ()->driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion (int *version)
{
    *version = runtime_settings ()->runtime;
    return cudaSuccess;
}

/* As the real one, this leaves the count alone where there is no usable driver. */
cudaError_t cudaGetDeviceCount (int *count)
{
    cudaError_t e = check_driver ();

    if (e == cudaSuccess || e == cudaErrorNoDevice)
        *count = runtime_settings ()->devices;
    return runtime_return (e);
}

cudaError_t cudaGetDevice (int *device)
{
    cudaError_t e = check_driver ();

    if (e == cudaSuccess)
        *device = current;
    return runtime_return (e);
}

cudaError_t cudaSetDevice (int device)
{
    cudaError_t e = check_driver ();

    if (e == cudaSuccess && (device < 0 || device >= runtime_settings ()->devices))
        e = cudaErrorInvalidDevice;
    if (e == cudaSuccess) {
        current = device;
        e = runtime_sticky (device);
    }
    return runtime_return (e);
}

static cudaError_t check_device (int device)
{
    cudaError_t e = check_driver ();

    if (e == cudaSuccess && (device < 0 || device >= runtime_settings ()->devices))
        e = cudaErrorInvalidDevice;
    return e;
}

/* Dynamic shared memory that a block may have if its kernel asks for it. */
static int shared_limit ()
{
    switch (runtime_settings ()->capability) {
    case 86:
    case 89:
    case 120:
    case 121: return 99 << 10;
    default: return (runtime_settings ()->capability >= 90 ? 227 : 163) << 10;
    }
}

cudaError_t cudaDeviceGetAttribute (int *value, cudaDeviceAttr attribute, int device)
{
    cudaError_t e = check_device (device);
    int capability = runtime_settings ()->capability;

    if (e != cudaSuccess)
        return runtime_return (e);
    runtime_count_attribute ();
    switch ((int)attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
        *value = 1024;
        break;
    case cudaDevAttrMaxBlockDimZ:
        *value = 64;
        break;
    case cudaDevAttrMaxGridDimX:
        *value = 2147483647;
        break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
        *value = 65535;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = 48 << 10;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = shared_limit ();
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = shared_limit () + (1 << 10);
        break;
    case cudaDevAttrWarpSize:
        *value = 32;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = runtime_settings ()->multiprocessors;
        break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = 2048;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = capability / 10;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = capability % 10;
        break;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrStreamPrioritiesSupported:
        *value = 1;
        break;
    case cudaDevAttrL2CacheSize:
        *value = 50 << 20;
        break;
    case cudaDevAttrIntegrated:
    case cudaDevAttrComputeMode:
        *value = 0;
        break;
    default:
        fprintf (stderr, "cuda double: attribute %d of devices is not in the double\n",
                 (int)attribute);
        return runtime_return (cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties (cudaDeviceProp *prop, int device)
{
    cudaError_t e = check_device (device);
    const struct runtime_settings *s = runtime_settings ();

    if (e != cudaSuccess)
        return runtime_return (e);
    memset (prop, 0, sizeof *prop);
    snprintf (prop->name, sizeof prop->name, "CUDA double, device %d", device);
    prop->major = s->capability / 10;
    prop->minor = s->capability % 10;
    prop->totalGlobalMem = s->memory + s->held;
    prop->multiProcessorCount = s->multiprocessors;
    prop->warpSize = 32;
    prop->maxThreadsPerBlock = 1024;
    prop->maxThreadsPerMultiProcessor = 2048;
    prop->sharedMemPerBlock = 48 << 10;
    prop->sharedMemPerBlockOptin = shared_limit ();
    prop->sharedMemPerMultiprocessor = shared_limit () + (1 << 10);
    prop->l2CacheSize = 50 << 20;
    prop->unifiedAddressing = prop->concurrentKernels = prop->streamPrioritiesSupported = 1;
    prop->pciBusID = device + 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId (char *text, int size, int device)
{
    cudaError_t e = check_device (device);

    if (e == cudaSuccess && size < 13)
        e = cudaErrorInvalidValue;
    if (e == cudaSuccess)
        snprintf (text, size, "0000:%02X:00.0", device + 1);
    return runtime_return (e);
}

cudaError_t cudaDeviceCanAccessPeer (int *can, int device, int peer)
{
    cudaError_t e = check_device (device);

    if (e == cudaSuccess)
        e = check_device (peer);
    if (e == cudaSuccess)
        *can = 0;
    return runtime_return (e);
}

cudaError_t cudaDeviceGetStreamPriorityRange (int *least, int *greatest)
{
    cudaError_t e = runtime_enter ();

    if (e == cudaSuccess) {
        if (least)
            *least = 0;
        if (greatest)
            *greatest = -5;
    }
    return runtime_return (e);
}

cudaError_t cudaMemGetInfo (size_t *free, size_t *total)
{
    cudaError_t e = runtime_enter ();

    if (e == cudaSuccess) {
        *free = runtime_settings ()->memory - runtime_used (current);
        *total = runtime_settings ()->memory + runtime_settings ()->held;
    }
    return runtime_return (e);
}

cudaError_t cudaDeviceSynchronize (void)
{
    cudaError_t e = runtime_enter ();

    if (e == cudaSuccess)
        e = runtime_check_unsafe ();
    if (e == cudaSuccess) {
        runtime_wait_device (current);
        e = runtime_sticky (current);
    }
    return runtime_return (e);
}

} /* extern "C" */
