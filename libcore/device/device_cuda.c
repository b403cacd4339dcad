/* device_cuda.c - the CUDA device: which one, its memory, copies, the table of the module
 *
 * A call of the runtime concerns the calling thread's current device, so every slot makes its
 * device current first.  The streams do not wait for the default stream, and nothing is enqueued
 * there.
 */

#include <cublasLt.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/module.h"
#include "libcore/device/device_cuda_private.h"
#include "libcore/topo/environment.h"

enum { QUEUES = 8, MOST_QUEUES = 32 }; /* queues if the variable is not set; the largest value of
                                        * the variable */

enum { CAPABILITY = 8 }; /* the lowest major number: mma.sync of 16 bits and cp.async */

int cuda_check (const struct mg_device *device, cudaError_t rc, const char *what,
                struct mg_error *err)
{
    char text[200];

    if (rc == cudaSuccess)
        return 0;
    snprintf (text, sizeof (text), "device cuda:%d: %s: %s (%s)", cuda_device_of (device)->ordinal,
              what, cudaGetErrorString (rc), cudaGetErrorName (rc));
    /* The first question clears an error of the call alone, such as too little memory.  An error of
     * the device stays.
     */
    if (cudaGetLastError () != cudaSuccess && cudaPeekAtLastError () != cudaSuccess)
        device->host->fail ((struct mg_device *)device, text);
    return device->host->error_set (err, rc == cudaErrorMemoryAllocation ? ENOMEM : EIO, "%s",
                                    text);
}

int cuda_enter (const struct mg_device *device, struct mg_error *err)
{
    return cuda_check (device, cudaSetDevice (cuda_device_of (device)->ordinal),
                       "it cannot be used", err);
}

bool cuda_abandons (const struct mg_device *device)
{
    struct cuda_device *d = cuda_device_of (device);

    d->abandoned = d->abandoned || device->host->check ((struct mg_device *)device, NULL) < 0;
    return d->abandoned;
}

/* --- which device --- */

/* "13.0" of 13000. */
static void print_version (char text[16], int version)
{
    snprintf (text, 16, "%d.%d", version / 1000, version % 1000 / 10);
}

/* Check that the libraries are those of the headers, or later ones of the same major release. */
static bool check_libraries (const struct device_host *host, struct mg_error *err)
{
    const size_t blas = cublasLtGetVersion ();
    char have[16], want[16];
    int version = 0;

    cudaRuntimeGetVersion (&version);
    if (version / 1000 != CUDART_VERSION / 1000 || version < CUDART_VERSION) {
        print_version (have, version);
        print_version (want, CUDART_VERSION);
        host->error_set (err, ENODEV, "device cuda: libcudart is of CUDA %s, %s or a later release "
                         "of the same number is needed", have, want);
        return false;
    }
    if (blas / 10000 != CUBLAS_VERSION / 10000 || blas < CUBLAS_VERSION) {
        host->error_set (err, ENODEV, "device cuda: libcublasLt is %zu, %d or a later release of "
                         "the same number is needed", blas, CUBLAS_VERSION);
        return false;
    }
    return true;
}

/* The plugin sets CUDA_DEVICE_MAX_CONNECTIONS to 1 for PyTorch, by which all streams would share a
 * queue of the device.  The largest value replaces that one.  A user's own value stays.  CUDA reads
 * the variable in its first call.
 */
static void replace_connections (void)
{
    const char *value = getenv ("CUDA_DEVICE_MAX_CONNECTIONS");
    const char *mark = getenv (ENVIRONMENT_CONNECTIONS);

    if (value && mark && strcmp (value, mark) == 0)
        setenv ("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
}

/* CUDA's rule for the variable.  The stream that zeroes new memory needs no queue of its own: in a
 * step it has no work.
 */
static int queues (const struct mg_device *device)
{
    const char *text = getenv ("CUDA_DEVICE_MAX_CONNECTIONS");
    int n = text ? atoi (text) : 0;

    (void)device;
    return n < 1 ? QUEUES : n > MOST_QUEUES ? MOST_QUEUES : n;
}

static bool usable (const struct device_host *host, struct mg_error *err)
{
    const char *visible = getenv ("CUDA_VISIBLE_DEVICES");
    char have[16], want[16];
    int count = 0, driver = 0;
    cudaError_t rc;

    replace_connections ();
    if (!check_libraries (host, err))
        return false;
    rc = cudaGetDeviceCount (&count);
    if (rc == cudaSuccess && count > 0)
        return true;
    cudaDriverGetVersion (&driver);
    if (driver == 0) {
        host->error_set (err, ENODEV, "device cuda: this machine has no NVIDIA driver");
    } else if (rc == cudaErrorInsufficientDriver) {
        print_version (have, driver);
        print_version (want, CUDART_VERSION);
        host->error_set (err, ENODEV, "device cuda: the driver is for CUDA %s, %s is needed", have,
                         want);
    } else if (rc == cudaSuccess || rc == cudaErrorNoDevice) {
        host->error_set (err, ENODEV, "device cuda: no GPU is visible%s%.40s",
                         visible ? ", CUDA_VISIBLE_DEVICES is " : "", visible ? visible : "");
    } else {
        host->error_set (err, ENODEV, "device cuda: %s (%s)", cudaGetErrorString (rc),
                         cudaGetErrorName (rc));
    }
    return false;
}

static int count (void)
{
    int n = 0;

    return cudaGetDeviceCount (&n) == cudaSuccess ? n : 0;
}

/* Returns which of the visible devices, one that can run the kernels. */
static int choose_ordinal (const struct device_host *host, int ordinal, int local_rank,
                           struct mg_error *err)
{
    int n = count (), major = 0, minor = 0;

    if (ordinal == DEVICE_BY_RANK && n > 1 && local_rank >= n)
        return host->error_set (err, ENODEV, "device cuda: this is process %d of those on this "
                                "machine, and %d GPUs are visible: want one for each process",
                                local_rank + 1, n);
    if (ordinal == DEVICE_BY_RANK)
        ordinal = n == 1 ? 0 : local_rank;
    if (ordinal >= n)
        return host->error_set (err, ENODEV, "device cuda: there is no number %d, want 0 to %d",
                                ordinal, n - 1);
    cudaDeviceGetAttribute (&major, cudaDevAttrComputeCapabilityMajor, ordinal);
    cudaDeviceGetAttribute (&minor, cudaDevAttrComputeCapabilityMinor, ordinal);
    if (major < CAPABILITY)
        return host->error_set (err, ENODEV, "device cuda:%d: its compute capability is %d.%d, "
                                "%d.0 is needed", ordinal, major, minor, CAPABILITY);
    return ordinal;
}

/* None of these calls makes a context on the device. */
static int identify (const struct device_host *host, int ordinal, int local_rank,
                     struct device_identity *identity, struct mg_error *err)
{
    cudaError_t rc;
    int version = 0;

    if ((ordinal = choose_ordinal (host, ordinal, local_rank, err)) < 0)
        return -1;
    cudaDriverGetVersion (&version);
    identity->driver = version;
    cudaRuntimeGetVersion (&version);
    identity->runtime = version;
    rc = cudaDeviceGetPCIBusId (identity->place, sizeof (identity->place), ordinal);
    if (rc == cudaSuccess)
        return 0;
    return host->error_set (err, EIO, "device cuda:%d: its bus id: %s (%s)", ordinal,
                            cudaGetErrorString (rc), cudaGetErrorName (rc));
}

/* --- kernels --- */

static int open_call (const struct kernels *k, struct mg_stream *base, size_t scratch,
                      struct cuda_call *call, struct mg_error *err)
{
    struct cuda_stream *stream = cuda_stream_of (base);
    const struct mg_device *device = k->impl;

    if (!base)
        return device->host->error_set (err, EINVAL, "device cuda: a kernel without a stream");
    if (device->host->check (base->device, err) < 0 || cuda_enter (base->device, err) < 0
        || cuda_stream_scratch (stream, scratch, err) < 0)
        return -1;
    *call = (struct cuda_call){ .stream = stream->handle, .scratch = stream->scratch };
    return 0;
}

/* --- the device --- */

static int create (struct mg_device *device, struct mg_error *err)
{
    struct cuda_device *d = calloc (1, sizeof (*d));

    if (!d)
        return device->host->error_set (err, ENOMEM, "device cuda: out of memory");
    device->impl = d;
    if ((d->ordinal = choose_ordinal (device->host, device->ordinal, device->local_rank, err)) < 0)
        return -1;
    device->ordinal = d->ordinal;
    if (cuda_enter (device, err) < 0
        || cuda_check (device, cudaDeviceGetStreamPriorityRange (&d->least_priority,
                                                                 &d->greatest_priority),
                       "its streams' priorities", err) < 0
        || cuda_check (device, cudaStreamCreateWithFlags (&d->setting, cudaStreamNonBlocking),
                       "a stream", err) < 0)
        return -1;
    if (!(d->table = cuda_table_create (open_call, device, err)))
        return -1;
    device->kernels = cuda_table_kernels (d->table);
    return 0;
}

static void destroy (struct mg_device *device)
{
    struct cuda_device *d = cuda_device_of (device);
    int saved_errno = errno;

    if (!d)
        return;
    if (!d->abandoned) { // the queue, which knows of a failure, is gone
        cuda_table_destroy (d->table);
        if (d->setting)
            cudaStreamDestroy (d->setting);
    }
    free (d);
    device->impl = NULL;
    errno = saved_errno;
}

static void *alloc (struct mg_device *device, size_t size)
{
    cudaStream_t setting = cuda_device_of (device)->setting;
    void *ptr = NULL;

    if (cuda_enter (device, NULL) < 0)
        return NULL;
    if (cuda_check (device, cudaMalloc (&ptr, size), "memory", NULL) < 0)
        return NULL;
    if (cuda_check (device, cudaMemsetAsync (ptr, 0, size, setting), "zeros", NULL) < 0
        || cuda_wait (device, setting, "new memory", NULL) < 0) {
        if (!cuda_abandons (device))
            cudaFree (ptr);
        return NULL;
    }
    return ptr;
}

static void release (struct mg_device *device, void *ptr)
{
    if (!cuda_abandons (device) && cuda_enter (device, NULL) == 0)
        cuda_check (device, cudaFree (ptr), "the release of memory", NULL);
}

static size_t available (const struct mg_device *device)
{
    size_t left = 0, all = 0;

    if (cuda_enter (device, NULL) == 0)
        cuda_check (device, cudaMemGetInfo (&left, &all), "its free memory", NULL);
    return left;
}

static void describe (const struct mg_device *device, struct device_info *info)
{
    struct cudaDeviceProp prop = { .major = 0 };
    const size_t blas = cublasLtGetVersion ();
    char has[16], is[16];
    int driver = 0, runtime = 0;

    info->ordinal = cuda_device_of (device)->ordinal;
    if (cudaGetDeviceProperties (&prop, info->ordinal) == cudaSuccess) {
        snprintf (info->name, sizeof (info->name), "%.79s", prop.name);
        info->memory = prop.totalGlobalMem;
    }
    cudaDriverGetVersion (&driver);
    cudaRuntimeGetVersion (&runtime);
    print_version (has, driver);
    print_version (is, runtime);
    snprintf (info->version, sizeof (info->version), "capability %d.%d, driver for CUDA %s, "
              "libcudart %s, libcublasLt %zu.%zu.%zu", prop.major, prop.minor, has, is,
              blas / 10000, blas / 100 % 100, blas % 100);
}

static bool holds (const struct mg_device *device, const void *ptr)
{
    struct cudaPointerAttributes at;

    return cuda_enter (device, NULL) == 0 && cudaPointerGetAttributes (&at, ptr) == cudaSuccess
           && at.type == cudaMemoryTypeDevice && at.device == cuda_device_of (device)->ordinal;
}

static void *host_alloc (struct mg_device *device, size_t size)
{
    void *ptr = NULL;

    if (cuda_enter (device, NULL) < 0
        || cuda_check (device, cudaHostAlloc (&ptr, size, cudaHostAllocDefault), "host memory",
                       NULL) < 0)
        return NULL;
    return memset (ptr, 0, size);
}

static void host_free (struct mg_device *device, void *ptr)
{
    if (!cuda_abandons (device) && cuda_enter (device, NULL) == 0)
        cuda_check (device, cudaFreeHost (ptr), "the release of host memory", NULL);
}

static int copy (struct mg_stream *stream, enum device_copy kind, void *to, const void *from,
                 size_t size, struct mg_error *err)
{
    static const enum cudaMemcpyKind kinds[] = {
        [COPY_UPLOAD] = cudaMemcpyHostToDevice,
        [COPY_DOWNLOAD] = cudaMemcpyDeviceToHost,
        [COPY_ON_DEVICE] = cudaMemcpyDeviceToDevice,
    };
    struct mg_device *device = stream->device;

    if (device->host->check (device, err) < 0 || cuda_enter (device, err) < 0)
        return -1;
    return cuda_check (device, cudaMemcpyAsync (to, from, size, kinds[kind],
                                                cuda_stream_of (stream)->handle),
                       "a copy", err);
}

static int set (struct mg_stream *stream, void *to, int byte, size_t size, struct mg_error *err)
{
    struct mg_device *device = stream->device;

    if (device->host->check (device, err) < 0 || cuda_enter (device, err) < 0)
        return -1;
    return cuda_check (device,
                       cudaMemsetAsync (to, byte, size, cuda_stream_of (stream)->handle), "a set",
                       err);
}

/* Kernels compute on the device, whose mode of denormals is a matter of how they are compiled. */
static void enter_or_leave (struct mg_device *device)
{
    (void)device;
}

static const struct device_ops ops = {
    .name = "cuda",
    .usable = usable,
    .count = count,
    .identify = identify,
    .create = create,
    .destroy = destroy,
    .alloc = alloc,
    .free = release,
    .available = available,
    .describe = describe,
    .apart = true,
    .queues = queues,
    .reserves = true,
    .pageable = false,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .copy = copy,
    .set = set,
    .holds = holds,
    .give_scratch = cuda_give_scratch,
    .enter = enter_or_leave,
    .leave = enter_or_leave,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_synchronize = cuda_stream_synchronize,
    .stream_idle = cuda_stream_idle,
    .stream_native = cuda_stream_native,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_synchronize = cuda_event_synchronize,
    .event_reached = cuda_event_reached,
    .event_seconds = cuda_event_seconds,
    .graph = &cuda_graph_ops,
};

extern const struct module mg_module;
const struct module mg_module = { MODULE_ABI, "device_cuda", &ops };
