/* device_guarded.c - test that the guarded device catches who touches its memory */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libcore/comm/comm.h"
#include "libcore/device/bounce.h"
#include "libcore/device/device.h"
#include "tests/tap/tap.h"

enum { N = 1000 };

static struct mg_device *make_device (const char *name)
{
    const struct device_config config = { .name = name, .threads = 2, .timeout = 10 };
    struct mg_error err = { "" };
    struct mg_device *device = device_create (&config, &err);

    if (!device)
        bail_out ("%s", err.text);
    return device;
}

/* What the host does to an address in a process of its own: its signal, and what it says. */
static int touch (volatile float *at, bool write, char *said, size_t max)
{
    int fd[2], status;
    ssize_t len;
    pid_t child;

    if (pipe (fd) < 0 || (child = fork ()) < 0)
        bail_out ("no process");
    if (child == 0) {
        dup2 (fd[1], STDERR_FILENO);
        if (write)
            *at = 1;
        _exit (*at > 2 ? 1 : 0);
    }
    close (fd[1]);
    len = read (fd[0], said, max - 1);
    said[len > 0 ? len : 0] = '\0';
    close (fd[0]);
    waitpid (child, &status, 0);
    return WIFSIGNALED (status) ? WTERMSIG (status) : 0;
}

static void is_caught (float *at, bool write, const char *what)
{
    char said[200], want[100];

    is_int (touch (at, write, said, sizeof (said)), SIGSEGV, "%s", what);
    snprintf (want, sizeof (want), "guarded device: the host touched device memory at 0x%012lx\n",
              (unsigned long)(uintptr_t)at);
    is_str (said, want, "and told");
}

/* The host, and system calls. */
static void host (struct mg_device *device, struct mg_stream *stream)
{
    struct mg_error err = { "" };
    float *a = device_alloc (device, N * sizeof (*a), &err);
    float *x = device_host_alloc (device, N * sizeof (*x), &err);
    float *back = device_host_alloc (device, N * sizeof (*back), &err);
    const size_t size = N * sizeof (*x);
    char said[200];
    int fd[2];

    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    is_caught (a, false, "a read");
    is_caught (&a[N - 1], true, "a write");
    is_int (device_upload (stream, a, x, size, &err), 0, "a copy is allowed");
    is_int (device_fetch (stream, back, a, size, &err), 0, "both ways");
    ok (memcmp (x, back, size) == 0, "and copies");
    is_caught (a, false, "a read after a copy");
    if (pipe (fd) == 0)
        ok (write (fd[1], a, 10) < 0 && errno == EFAULT, "a system call is refused");
    close (fd[0]);
    close (fd[1]);
    is_int (touch (back, true, said, sizeof (said)), 0, "host memory is free");
    device_free (device, a);
    device_host_free (device, x);
    device_host_free (device, back);
}

/* Host memory that is not pinned is no side of a copy; a bounce brings it there and back. */
static void pageable (struct mg_device *device, struct mg_stream *stream)
{
    struct mg_error err = { "" };
    float *a = device_alloc (device, N * sizeof (*a), &err), x[N], back[N] = { 0 };
    float *pinned = device_host_alloc (device, N * sizeof (*pinned), &err);
    struct bounce bounce;

    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    ok (device_upload (stream, a, x, sizeof (x), &err) < 0 && errno == EFAULT, "an upload: %s",
        err.text);
    ok (device_download (stream, x, a, sizeof (x), &err) < 0 && errno == EFAULT,
        "a download: %s", err.text);
    ok (device_fetch (stream, pinned + 1, a, sizeof (x), &err) < 0 && errno == EFAULT,
        "the end of a block: %s", err.text);
    is_int (device_fetch (stream, pinned + 1, a, sizeof (x) - sizeof (x[0]), &err), 0,
            "a part of a block is pinned");
    is_int (device_host_allocated (device), N * sizeof (*pinned), "pinned bytes");
    if (bounce_init (&bounce, device, 12, &err) < 0)
        bail_out ("%s", err.text);
    is_int (bounce_write (&bounce, stream, a, x, sizeof (x), &err), 0, "a bounce writes");
    is_int (bounce_read (&bounce, stream, back, a, sizeof (x), &err), 0, "and reads");
    ok (memcmp (x, back, sizeof (x)) == 0, "in parts");
    bounce_clear (&bounce);
    device_host_free (device, pinned);
    is_int (device_host_allocated (device), 0, "none is left");
    device_free (device, a);
}

/* Copies whose sides are not where they should be. */
static void sides (struct mg_device *device, struct mg_stream *stream)
{
    struct mg_error err = { "" };
    float *a = device_alloc (device, N * sizeof (*a), &err), *b;
    float *x = device_host_alloc (device, N * sizeof (*x), &err);

    ok (device_upload (stream, x, x, 4, &err) < 0 && strstr (err.text, "want device memory"),
        "host to host: %s", err.text);
    ok (device_download (stream, a, a, 4, &err) < 0 && errno == EFAULT,
        "device to device as a download: %s", err.text);
    ok (device_copy (stream, a, x, 4, &err) < 0 && errno == EFAULT, "host to device as a copy");
    ok (device_set (stream, x, 0, 4, &err) < 0 && errno == EFAULT, "a set of host memory");
    device_set (stream, a, 0x40, N * sizeof (*a), &err);
    device_free (device, a);
    b = device_alloc (device, N * sizeof (*b), &err);
    device_fetch (stream, x, b, N * sizeof (*x), &err);
    ok (a == b && x[0] == 0 && x[N - 1] == 0, "memory that is given out again is zero");
    ok (device_holds (device, b, false) && !device_holds (device, x, true),
        "the device knows its memory");
    device_free (device, b);
    device_host_free (device, x);
    ok (!device_alloc (device, (size_t)1 << 60, &err) && errno == ENOMEM, "%s", err.text);
}

static void kernels (struct mg_device *device, struct mg_stream *stream)
{
    const struct kernels *k = device_kernels (device);
    struct mg_error err = { "" };
    float *a = device_alloc (device, N * sizeof (*a), &err), x[N];
    double *sum = device_alloc (device, sizeof (*sum), &err);
    double *host_sum = device_host_alloc (device, sizeof (*host_sum), &err);
    struct kern_fill fill = { .n = N, .value = 2, .out = a, .dtype = MG_FLOAT32 };
    struct kern_sum_sq sum_sq = { .n = N, .x = a, .dtype = MG_FLOAT32, .out = sum };

    is_int (kern_fill (k, &fill, stream, &err), 0, "a kernel is allowed");
    is_int (kern_sum_sq (k, &sum_sq, stream, &err), 0, "with several threads");
    device_fetch (stream, host_sum, sum, sizeof (*host_sum), &err);
    is_near (*host_sum, 4.0 * N, 0, "its result is right");
    is_caught (a, false, "a read after a kernel");
    fill.out = x;
    ok (kern_fill (k, &fill, stream, &err) < 0 && errno == EFAULT,
        "a kernel on host memory: %s", err.text);
    sum_sq.out = host_sum;
    ok (kern_sum_sq (k, &sum_sq, stream, &err) < 0 && errno == EFAULT, "or with its result there");
    device_free (device, a);
    device_free (device, sum);
    device_host_free (device, host_sum);
}

static void no_abort (void *arg, int code)
{
    (void)arg, (void)code;
    abort ();
}

/* Communicators know which memory they are for. */
static void communicators (struct mg_device *device)
{
    static const int task = 0;
    const struct device_config shares = { .name = "cpu", .threads = 1, .share = device };
    struct mg_error err = { "" };
    struct mg_device *host = device_create (&shares, &err);
    struct comm_net_config config = {
        .device = device, .host = host, .size = 1, .abort = no_abort,
    };
    struct comm_net *net = comm_net_create (&config, &err);
    float x[2] = { 1, 2 }, *a = device_alloc (device, 2 * sizeof (*a), &err);

    for (int control = 0; control < 2; control++) {
        const struct comm_config group = { .name = "tp", .size = 1, .tasks = &task,
                                           .control = control };
        struct mg_comm *comm = comm_create (net, &group, &err);
        void *good = control ? x : a, *bad = control ? a : x;
        struct mg_p2p pair[] = { { MG_SEND, 0, good, 1, MG_FLOAT32 },
                                 { MG_RECV, 0, (float *)bad + 1, 1, MG_FLOAT32 } };

        is_int (mg_comm_all_reduce (comm, good, 2, MG_FLOAT32, MG_SUM, NULL, &err), 0,
                "%s", control ? "control: host memory" : "data: device memory");
        ok (mg_comm_all_reduce (comm, bad, 2, MG_FLOAT32, MG_SUM, NULL, &err) < 0
                && errno == EINVAL, "and no other: %s", err.text);
        ok (mg_comm_p2p (comm, pair, 2, NULL, &err) < 0 && errno == EINVAL,
            "neither in transfers");
        pair[1].buf = (float *)good + 1;
        is_int (mg_comm_p2p (comm, pair, 2, NULL, &err), 0, "that are good otherwise");
        comm_destroy (comm);
    }
    device_free (device, a);
    comm_net_destroy (net);
    device_destroy (host);
}

int main (void)
{
    static const char *const names[] = { "guarded", "guarded-pages" };
    struct mg_error err = { "" };
    struct device_config config = { .threads = 1, .timeout = 1 };
    struct mg_device *device = device_create (&config, &err);

    is_str (device_name (device), "cpu", "no guarded device unless it is asked for");
    config.name = names[0];
    config.share = device;
    ok (!device_create (&config, &err) && errno == ENOTSUP, "%s", err.text);
    device_destroy (device);
    for (size_t i = 0; i < sizeof (names) / sizeof (names[0]); i++) {
        struct mg_stream *stream;

        device = make_device (names[i]);
        is_str (device_name (device), names[i], "a guarded device");
        stream = mg_stream_create (device, MG_STREAM_COMPUTE, "main", &err);
        host (device, stream);
        pageable (device, stream);
        sides (device, stream);
        kernels (device, stream);
        communicators (device);
        mg_stream_destroy (stream);
        device_destroy (device);
    }
    return done_testing ();
}
