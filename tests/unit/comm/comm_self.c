/* comm_self.c - test communicators of one rank, and the checks of all communicators */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/comm/comm.h"
#include "libcore/device/device.h"
#include "libcore/device/graph.h"
#include "libcore/device/stream.h"
#include "tests/tap/tap.h"

static void no_abort (void *arg, int code)
{
    (void)arg, (void)code;
    abort ();
}

static struct mg_device *make_device (double timeout)
{
    struct device_config config = { .threads = 1, .timeout = timeout };
    struct mg_error err = { "" };
    struct mg_device *device = device_create (&config, &err);

    if (!device)
        bail_out ("%s", err.text);
    return device;
}

static struct comm_net *make_net (struct mg_device *device)
{
    struct comm_net_config config = { .device = device, .size = 1, .abort = no_abort };
    struct mg_error err = { "" };
    struct comm_net *net = comm_net_create (&config, &err);

    if (!net)
        bail_out ("%s", err.text);
    return net;
}

static struct mg_comm *make_comm (struct comm_net *net)
{
    static const int task = 0;
    struct comm_config config = { .name = "tp", .size = 1, .rank = 0, .tasks = &task };
    struct mg_error err = { "" };
    struct mg_comm *comm = comm_create (net, &config, &err);

    if (!comm)
        bail_out ("%s", err.text);
    return comm;
}

/* Calls in a graph: taken with their arrays, done and counted by each replay. */
static void test_graph (void)
{
    struct mg_device *device = make_device (10);
    struct comm_net *net = make_net (device);
    struct mg_comm *comm = make_comm (net);
    struct mg_error err = { "" };
    struct mg_stream *stream = mg_stream_create (device, MG_STREAM_COMPUTE, "main", &err);
    float *a = device_alloc (device, 4 * sizeof (float), &err);
    struct mg_comm_stats stats;
    struct device_graph *graph;
    size_t count = 2, at = 0;

    is_int (graph_begin (stream, &err), 0, "a capture");
    is_int (mg_comm_all_to_allv (comm, a, &count, &at, a + 2, &count, &at, MG_FLOAT32, stream,
                                 &err), 0, "takes a call %s", err.text);
    count = at = 1000;
    graph = graph_end (&err);
    mg_comm_get_stats (comm, &stats);
    ok (graph && stats.calls[MG_CALL_ALL_TO_ALL] == 0, "which is not counted");
    a[1] = 5;
    for (int i = 0; i < 2; i++)
        is_int (graph_replay (graph, &err), 0, "a replay");
    mg_comm_get_stats (comm, &stats);
    ok (a[3] == 5 && stats.calls[MG_CALL_ALL_TO_ALL] == 2
            && stats.bytes[MG_CALL_ALL_TO_ALL] == 4 * sizeof (float),
        "with the counts of the capture, counted each time");
    graph_destroy (graph);
    graph_begin (stream, &err);
    ok (mg_comm_barrier (comm, NULL, &err) < 0
            && strstr (err.text, "a wait of the host for communicator tp"),
        "not without a stream: %s", err.text);
    graph_cancel ();
    device_free (device, a);
    mg_stream_destroy (stream);
    comm_destroy (comm);
    comm_net_destroy (net);
    device_destroy (device);
}

/* Every call once, on 'stream', with 'n' elements. */
static void all_calls (struct mg_comm *comm, struct mg_stream *stream, size_t n)
{
    size_t zero = 0, one = 1;
    float *a = calloc (n + 1, sizeof (*a)), *b = calloc (n + 1, sizeof (*b));
    float *c = calloc (n + 1, sizeof (*c)), *d = calloc (n + 1, sizeof (*d));
    float *e = calloc (n + 1, sizeof (*e)), *f = calloc (n + 2, sizeof (*f));
    struct mg_p2p list[] = { { MG_RECV, 0, e, n, MG_FLOAT32 },
                             { MG_SEND, 0, d, n, MG_FLOAT32 } };
    struct mg_error err = { "" };
    bool same = true;

    for (size_t i = 0; i < n; i++)
        a[i] = (float)i + 0.5f;
    is_int (mg_comm_all_reduce (comm, a, n, MG_FLOAT32, MG_SUM, stream, &err), 0,
            "all-reduce of %zu", n);
    is_int (mg_comm_reduce_scatter (comm, a, b, n, MG_FLOAT32, MG_MAX, stream, &err), 0,
            "reduce-scatter");
    is_int (mg_comm_reduce_scatter (comm, b, b, n, MG_FLOAT32, MG_MIN, stream, &err), 0,
            "in place");
    is_int (mg_comm_all_gather (comm, b, c, n, MG_FLOAT32, stream, &err), 0,
            "all-gather");
    is_int (mg_comm_all_gather (comm, c, c, n, MG_FLOAT32, stream, &err), 0, "in place");
    is_int (mg_comm_all_to_all (comm, c, d, n, MG_FLOAT32, stream, &err), 0,
            "all-to-all");
    is_int (mg_comm_broadcast (comm, d, n, MG_FLOAT32, 0, stream, &err), 0, "broadcast");
    is_int (mg_comm_p2p (comm, list, 2, stream, &err), 0, "a transfer to itself");
    is_int (
        mg_comm_all_to_allv (comm, e, &n, &zero, f, &n, &one, MG_FLOAT32, stream, &err),
        0, "all-to-allv");
    is_int (mg_comm_barrier (comm, stream, &err), 0, "barrier");
    if (stream)
        is_int (mg_stream_synchronize (stream, &err), 0, "synchronize");
    for (size_t i = 0; i < n; i++)
        same = same && f[i + 1] == (float)i + 0.5f;
    ok (same, "everything was copied");
    free (a), free (b), free (c), free (d), free (e), free (f);
}

/* Work that holds a stream up. */
static _Atomic int gate;

static int hold_poll (struct work *work, struct mg_error *err)
{
    (void)work, (void)err;
    return gate;
}

static void hold_describe (const struct work *work, char *text, size_t max)
{
    (void)work;
    snprintf (text, max, "hold");
}

static void *open_later (void *arg)
{
    usleep (20000);
    gate = 1;
    return arg;
}

static void behind_other_work (struct mg_device *device, struct mg_comm *comm)
{
    struct work hold = { .poll = hold_poll, .describe = hold_describe };
    struct mg_error err = { "" };
    struct mg_stream *stream = mg_stream_create (device, MG_STREAM_COMM, "s", &err);
    int from = 7, to = 0;

    gate = 0;
    stream_submit (stream, &hold, &err);
    is_int (mg_comm_all_to_all (comm, &from, &to, 1, MG_INT32, stream, &err), 0,
            "a copy behind other work");
    is_int (to, 0, "is not made at once");
    gate = 1;
    mg_stream_synchronize (stream, &err);
    is_int (to, 7, "but in its turn");
    for (size_t i = 0; i < 3; i++) {
        pthread_t thread;

        gate = 0;
        stream_submit (stream, &hold, &err);
        pthread_create (&thread, NULL, open_later, NULL);
        all_calls (comm, stream, i * 100);
        pthread_join (thread, NULL);
    }
    mg_stream_destroy (stream);
}

/* Sends and receives of different lists and streams meet in the order of each kind. */
static void crossed_transfers (struct mg_device *device, struct mg_comm *comm)
{
    struct mg_error err = { "" };
    struct mg_stream *a = mg_stream_create (device, MG_STREAM_COMM, "a", &err);
    struct mg_stream *b = mg_stream_create (device, MG_STREAM_COMM, "b", &err);
    int from[3] = { 1, 2, 3 }, to[3] = { 0, 0, 0 };
    struct mg_p2p sends[] = { { MG_SEND, 0, &from[0], 1, MG_INT32 },
                              { MG_SEND, 0, &from[1], 1, MG_INT32 } };
    struct mg_p2p mixed[] = { { MG_RECV, 0, &to[0], 1, MG_INT32 },
                              { MG_SEND, 0, &from[2], 1, MG_INT32 },
                              { MG_RECV, 0, &to[1], 1, MG_INT32 } };
    struct mg_p2p last = { MG_RECV, 0, &to[2], 1, MG_INT32 };

    is_int (mg_comm_p2p (comm, sends, 2, a, &err), 0, "two sends");
    ok (!stream_idle (a), "wait for their receives");
    is_int (mg_comm_p2p (comm, mixed, 3, b, &err), 0,
            "two receives and a send elsewhere");
    is_int (mg_stream_synchronize (a, &err), 0, "end the first list");
    is_int (mg_comm_p2p (comm, &last, 1, a, &err), 0, "the last receive");
    is_int (mg_stream_synchronize (b, &err), 0, "ends the second");
    is_int (mg_stream_synchronize (a, &err), 0, "and itself");
    ok (to[0] == 1 && to[1] == 2 && to[2] == 3, "the n-th met the n-th");
    mg_stream_destroy (a);
    mg_stream_destroy (b);
}

static void statistics (struct comm_net *net)
{
    struct mg_comm *comm = make_comm (net);
    struct mg_comm_stats stats;
    int32_t x[4] = { 0 }, y[4];
    size_t count = 3, zero = 0;
    struct mg_p2p list[] = {{MG_SEND, 0, x, 2, MG_INT32}, {MG_RECV, 0, y, 2, MG_INT32}};

    mg_comm_all_reduce (comm, x, 4, MG_INT32, MG_SUM, NULL, NULL);
    mg_comm_all_reduce (comm, x, 0, MG_INT32, MG_SUM, NULL, NULL);
    mg_comm_all_reduce (comm, NULL, 1, MG_INT32, MG_SUM, NULL, NULL);
    mg_comm_reduce_scatter (comm, x, y, 3, MG_INT32, MG_SUM, NULL, NULL);
    mg_comm_all_gather (comm, x, y, 2, MG_INT32, NULL, NULL);
    mg_comm_all_to_all (comm, x, y, 1, MG_INT32, NULL, NULL);
    mg_comm_all_to_allv (comm, x, &count, &zero, y, &count, &zero, MG_INT32, NULL, NULL);
    mg_comm_broadcast (comm, x, 4, MG_UINT8, 0, NULL, NULL);
    mg_comm_p2p (comm, list, 2, NULL, NULL);
    mg_comm_barrier (comm, NULL, NULL);
    mg_comm_get_stats (comm, &stats);
    ok (stats.calls[MG_CALL_ALL_REDUCE] == 2 && stats.bytes[MG_CALL_ALL_REDUCE] == 16,
        "two all-reduces of 16 bytes, the refused one not counted");
    ok (stats.calls[MG_CALL_REDUCE_SCATTER] == 1
            && stats.bytes[MG_CALL_REDUCE_SCATTER] == 12,
        "a reduce-scatter of 12 bytes");
    ok (stats.calls[MG_CALL_ALL_GATHER] == 1 && stats.bytes[MG_CALL_ALL_GATHER] == 8,
        "an all-gather of 8 bytes");
    ok (stats.calls[MG_CALL_ALL_TO_ALL] == 2 && stats.bytes[MG_CALL_ALL_TO_ALL] == 16,
        "two all-to-alls of 16 bytes");
    ok (stats.calls[MG_CALL_BROADCAST] == 1 && stats.bytes[MG_CALL_BROADCAST] == 4,
        "a broadcast of 4 bytes");
    ok (stats.calls[MG_CALL_P2P] == 1 && stats.bytes[MG_CALL_P2P] == 8, "8 bytes sent");
    ok (stats.calls[MG_CALL_BARRIER] == 1 && stats.bytes[MG_CALL_BARRIER] == 0,
        "a barrier");
    comm_destroy (comm);
}

/* One refused call: -1, EINVAL or EOVERFLOW, and a text that says where. */
static void refused (int rc, int want, const char *text, const struct mg_error *err)
{
    ok (rc == -1 && errno == want && strstr (err->text, text), "refused: %s", err->text);
}

static void refuse_all_reduces (struct mg_comm *comm)
{
    struct mg_device *other = make_device (1);
    struct mg_error err;
    struct mg_stream *strange = mg_stream_create (other, MG_STREAM_COMM, "s", &err);
    enum mg_dtype f32 = MG_FLOAT32;
    float x[4] = { 0 };

    refused (mg_comm_all_reduce (NULL, x, 1, f32, MG_SUM, NULL, &err), EINVAL,
             "all-reduce: no communicator", &err);
    refused (mg_comm_all_reduce (comm, NULL, 1, f32, MG_SUM, NULL, &err), EINVAL,
             "all-reduce on tp: no buffer", &err);
    refused (mg_comm_all_reduce (comm, x, 1, MG_NUM_DTYPES, MG_SUM, NULL, &err), EINVAL,
             "no element type 8", &err);
    refused (mg_comm_all_reduce (comm, x, 1, f32, 4, NULL, &err), EINVAL,
             "no operation 4", &err);
    refused (mg_comm_all_reduce (comm, x, 1, MG_INT32, MG_AVG, NULL, &err), EINVAL,
             "no averages of int32", &err);
    refused (mg_comm_all_reduce (comm, x, SIZE_MAX / 4, f32, MG_SUM, NULL, &err),
             EOVERFLOW, "more than memory", &err);
    refused (mg_comm_all_reduce (comm, x, 1, f32, MG_SUM, strange, &err), EINVAL,
             "another device", &err);
    is_int (mg_comm_all_reduce (comm, NULL, 0, f32, MG_SUM, NULL, &err), 0,
            "an empty buffer is fine");
    mg_stream_destroy (strange);
    device_destroy (other);
}

static void refuse_collectives (struct mg_comm *comm)
{
    enum mg_dtype f32 = MG_FLOAT32;
    float x[4] = { 0 }, y[4] = { 0 };
    struct mg_error err;

    refused (mg_comm_reduce_scatter (comm, x, x, 1, MG_UINT8, MG_AVG, NULL, &err), EINVAL,
             "no averages of uint8", &err);
    refused (mg_comm_reduce_scatter (NULL, x, y, 1, f32, MG_SUM, NULL, &err), EINVAL,
             "reduce-scatter: no comm", &err);
    refused (mg_comm_reduce_scatter (comm, x, NULL, 1, f32, MG_SUM, NULL, &err), EINVAL,
             "no buffer", &err);
    refused (mg_comm_reduce_scatter (comm, x, x + 1, 2, f32, MG_SUM, NULL, &err), EINVAL,
             "overlaps", &err);
    refused (mg_comm_all_gather (NULL, x, y, 1, f32, NULL, &err), EINVAL, "no comm",
             &err);
    refused (mg_comm_all_gather (comm, NULL, y, 1, f32, NULL, &err), EINVAL, "no buf",
             &err);
    refused (mg_comm_all_gather (comm, x, x + 1, 2, f32, NULL, &err), EINVAL, "overlaps",
             &err);
    refused (mg_comm_all_to_all (comm, x, x, 1, f32, NULL, &err), EINVAL, "overlap",
             &err);
    refused (mg_comm_all_to_all (NULL, x, y, 1, f32, NULL, &err), EINVAL, "no comm",
             &err);
    refused (mg_comm_broadcast (comm, x, 1, f32, 1, NULL, &err), EINVAL, "root 1", &err);
    refused (mg_comm_broadcast (comm, x, 1, f32, -1, NULL, &err), EINVAL, "root -1",
             &err);
    refused (mg_comm_broadcast (comm, NULL, 1, f32, 0, NULL, &err), EINVAL, "no buf",
             &err);
    refused (mg_comm_barrier (NULL, NULL, &err), EINVAL, "barrier: no comm", &err);
}

static void refuse_all_to_allvs (struct mg_comm *comm)
{
    size_t one = 1, two = 2, zero = 0, huge = SIZE_MAX / 3;
    enum mg_dtype f32 = MG_FLOAT32;
    float x[4] = { 0 }, y[4] = { 0 };
    struct mg_error err;

    refused (mg_comm_all_to_allv (comm, x, NULL, &zero, y, &one, &zero, f32, NULL, &err),
             EINVAL, "counts or offsets", &err);
    refused (mg_comm_all_to_allv (comm, x, &one, &zero, y, &two, &zero, f32, NULL, &err),
             EINVAL, "differ in size", &err);
    refused (mg_comm_all_to_allv (comm, x, &one, &zero, x, &one, &zero, f32, NULL, &err),
             EINVAL, "overlap", &err);
    refused (
        mg_comm_all_to_allv (comm, x, &huge, &zero, y, &huge, &zero, f32, NULL, &err),
        EOVERFLOW, "sending", &err);
    refused (mg_comm_all_to_allv (comm, x, &one, &huge, y, &one, &zero, f32, NULL, &err),
             EOVERFLOW, "sending", &err);
    refused (
        mg_comm_all_to_allv (comm, NULL, &one, &zero, y, &one, &zero, f32, NULL, &err),
        EINVAL, "no buffer", &err);
}

static void refuse_transfers (struct mg_comm *comm)
{
    float x[4] = { 0 }, y[4] = { 0 };
    struct mg_p2p bad_peer = { MG_SEND, 1, x, 1, MG_FLOAT32 };
    struct mg_p2p bad_kind = { 9, 0, x, 1, MG_FLOAT32 };
    struct mg_p2p no_buf = { MG_RECV, 0, NULL, 1, MG_FLOAT32 };
    struct mg_p2p too_long = { MG_RECV, 0, x, SIZE_MAX / 4, MG_FLOAT32 };
    struct mg_p2p unequal[] = { { MG_SEND, 0, x, 1, MG_FLOAT32 },
                                { MG_RECV, 0, y, 2, MG_FLOAT32 } };
    struct mg_error err;

    refused (mg_comm_p2p (NULL, &bad_peer, 1, NULL, &err), EINVAL, "no comm", &err);
    refused (mg_comm_p2p (comm, NULL, 1, NULL, &err), EINVAL, "want a list", &err);
    refused (mg_comm_p2p (comm, &bad_peer, -1, NULL, &err), EINVAL, "want a list", &err);
    refused (mg_comm_p2p (comm, &bad_peer, 1, NULL, &err), EINVAL, "peer 1", &err);
    refused (mg_comm_p2p (comm, &bad_kind, 1, NULL, &err), EINVAL, "no kind 9", &err);
    refused (mg_comm_p2p (comm, &no_buf, 1, NULL, &err), EINVAL, "no buffer", &err);
    refused (mg_comm_p2p (comm, &too_long, 1, NULL, &err), EOVERFLOW, "memory", &err);
    refused (mg_comm_p2p (comm, unequal, 2, NULL, &err), EPROTO,
             "on tp a send of 4 bytes met a receive of 8", &err);
    is_int (mg_comm_p2p (comm, NULL, 0, NULL, &err), 0, "an empty list is fine");
}

static void test_badparam (struct mg_comm *comm)
{
    refuse_all_reduces (comm);
    refuse_collectives (comm);
    refuse_all_to_allvs (comm);
    refuse_transfers (comm);
}

static void bad_creation (struct mg_device *device, struct comm_net *net)
{
    static const struct {
        struct comm_net_config config;
        const char *text;
    } nets[] = {
        { { .size = 1, .abort = no_abort }, "want a device" },
        { { .size = 1 }, "want a device" },
        { { .size = 0, .abort = no_abort }, "at least 1 rank" },
        { { .backend = "self", .size = 2, .abort = no_abort }, "cannot connect 2 ranks" },
        { { .backend = "tin cans", .size = 2, .abort = no_abort }, "\"tin cans\"" },
    };
    static const int task = 0;
    struct comm_config comms[] = {
        { .name = NULL, .size = 1, .tasks = &task },
        { .name = "x", .size = 0, .tasks = &task },
        { .name = "x", .size = 1, .rank = 1, .tasks = &task },
        { .name = "x", .size = 1, .rank = -1, .tasks = &task },
        { .name = "x", .size = 1, .tasks = NULL },
        { .name = "x", .size = 1, .tasks = &task, .tag = -1 },
        { .name = "x", .size = 1, .tasks = &task, .tag = 32768 },
    };
    struct mg_error err;

    for (size_t i = 0; i < sizeof (nets) / sizeof (nets[0]); i++) {
        struct comm_net_config config = nets[i].config;

        config.device = i == 0 ? NULL : device;
        err.text[0] = '\0';
        ok (!comm_net_create (&config, &err) && strstr (err.text, nets[i].text),
            "no net: %s", err.text);
    }
    for (size_t i = 0; i < sizeof (comms) / sizeof (comms[0]); i++)
        ok (!comm_create (net, &comms[i], &err) && errno == EINVAL, "no communicator: %s",
            err.text);
    errno = 42;
    comm_destroy (NULL);
    comm_net_destroy (NULL);
    is_int (errno, 42, "destroy keeps errno, and takes NULL");
}

/* Streams and memory are of one device or of the other. */
static void kinds (void)
{
    struct mg_device *device = make_device (5);
    struct device_config shares = { .name = "cpu", .threads = 1, .share = device };
    struct mg_error err = { "" };
    struct mg_device *host = device_create (&shares, &err);
    struct comm_net_config config = {
        .device = device, .host = host, .size = 1, .abort = no_abort,
    };
    static const int task = 0;
    struct comm_config both[] = {
        { .name = "data", .size = 1, .tasks = &task },
        { .name = "control", .size = 1, .tasks = &task, .control = true },
    };
    struct comm_net *net = comm_net_create (&config, &err), *plain = make_net (device);
    struct mg_stream *stream[] = {
        mg_stream_create (device, MG_STREAM_COMPUTE, "main", &err),
        mg_stream_create (host, MG_STREAM_COMPUTE, "host", &err),
    };
    float x[2] = { 1, 2 }, y[2];

    for (int i = 0; i < 2; i++) {
        struct mg_comm *comm = comm_create (net, &both[i], &err);

        is_int (mg_comm_all_gather (comm, x, y, 2, MG_FLOAT32, stream[i], &err), 0,
                "%s takes its streams", both[i].name);
        is_int (mg_comm_all_gather (comm, x, y, 2, MG_FLOAT32, NULL, &err), 0, "or none");
        ok (mg_comm_all_gather (comm, x, y, 2, MG_FLOAT32, stream[1 - i], &err) < 0
                && errno == EINVAL && strstr (err.text, "the stream is another device's"),
            "but not the other's: %s", err.text);
        ok (strstr (err.text, i ? "host memory" : "device memory"), "and says which");
        comm_destroy (comm);
    }
    ok (!comm_create (plain, &both[1], &err) && errno == EINVAL,
        "no control communicator without a host device: %s", err.text);
    mg_stream_destroy (stream[0]);
    mg_stream_destroy (stream[1]);
    comm_net_destroy (net);
    comm_net_destroy (plain);
    device_destroy (host);
    device_destroy (device);
}

static void never_matched (void)
{
    struct mg_device *device = make_device (0.2);
    struct comm_net *net = make_net (device);
    struct mg_comm *comm = make_comm (net);
    struct mg_error err;
    float x = 0;
    struct mg_p2p send = { MG_SEND, 0, &x, 1, MG_FLOAT32 };

    is_int (mg_comm_p2p (comm, &send, 1, NULL, &err), -1, "a send that nobody receives");
    is_str (err.text, "send to 0 of 1 float32 on tp waited 0.2 s",
            "ends at the deadline");
    is_int (mg_comm_barrier (comm, NULL, &err), -1, "after which nothing works");
    is_str (err.text, "send to 0 of 1 float32 on tp waited 0.2 s", "with the same text");
    comm_destroy (comm);
    comm_net_destroy (net);
    device_destroy (device);
}

/* The linker makes communicators ask here for host work. */
static bool bare;
int __real_stream_submit (struct mg_stream *stream, struct work *work, struct mg_error *err);
int __wrap_stream_submit (struct mg_stream *stream, struct work *work, struct mg_error *err);

int __wrap_stream_submit (struct mg_stream *stream, struct work *work, struct mg_error *err)
{
    if (bare)
        return mg_error_set (err, ENOTSUP, "stream x: bare devices take no host work");
    return __real_stream_submit (stream, work, err);
}

/* A device without host work: a transfer without its other end is refused, and changes nothing. */
static void no_host_work (void)
{
    struct mg_device *device = make_device (10);
    struct comm_net *net = make_net (device);
    struct mg_comm *comm = make_comm (net);
    struct mg_error err = { "" };
    struct mg_stream *stream = mg_stream_create (device, MG_STREAM_COMPUTE, "x", &err);
    struct mg_stream *side = mg_stream_create (device, MG_STREAM_COMM, "y", &err);
    float x[3] = { 1, 2, 3 }, y[3] = { 0 };
    struct mg_p2p list[] = { { MG_SEND, 0, &x[0], 1, MG_FLOAT32 },
                             { MG_RECV, 0, &y[0], 1, MG_FLOAT32 },
                             { MG_SEND, 0, &x[1], 1, MG_FLOAT32 } };

    bare = true;
    for (int i = 0; i < 2; i++) {
        errno = 0;
        ok (mg_comm_p2p (comm, list, i ? 3 : 1, stream, &err) < 0
                && errno == ENOTSUP, "transfers without their other ends");
        is_str (err.text, i ? "send to 0 of 1 float32 and 2 other transfers on tp: its other end "
                              "must be in the same list; stream x: bare devices take no host work"
                            : "send to 0 of 1 float32 on tp: its other end must be in the same "
                              "list; stream x: bare devices take no host work",
                "are refused, by name");
    }
    is_int (mg_comm_p2p (comm, list, 2, stream, &err), 0, "pairs need no host work");
    is_int (mg_stream_synchronize (stream, &err), 0, "and are done");
    is_near (y[0], 1, 0, "as if nothing had been refused");
    bare = false;
    is_int (mg_comm_p2p (comm, &list[2], 1, side, &err)
                | mg_comm_p2p (comm, &list[1], 1, stream, &err), 0, "a send and a receive");
    is_int (mg_stream_synchronize (stream, &err), 0, "meet");
    is_near (y[0], 2, 0, "under the numbers that they would have had");
    mg_stream_destroy (side);
    mg_stream_destroy (stream);
    comm_destroy (comm);
    comm_net_destroy (net);
    device_destroy (device);
}

int main (void)
{
    struct mg_device *device = make_device (10);
    struct comm_net *net = make_net (device);
    struct mg_comm *comm = make_comm (net);
    struct mg_error err = { "" };
    struct mg_stream *main_stream
        = mg_stream_create (device, MG_STREAM_COMPUTE, "m", &err);
    struct mg_stream *comm_stream = mg_stream_create (device, MG_STREAM_COMM, "c", &err);

    is_str (comm_net_backend (net), "self", "one rank is served by self");
    is_str (mg_comm_name (comm), "tp", "a communicator has a name");
    ok (mg_comm_size (comm) == 1 && mg_comm_rank (comm) == 0, "and one rank");
    for (size_t n = 0; n < 3; n++) {
        all_calls (comm, NULL, n * n);
        all_calls (comm, main_stream, n * n);
        all_calls (comm, comm_stream, n * n);
    }
    behind_other_work (device, comm);
    crossed_transfers (device, comm);
    statistics (net);
    test_badparam (comm);
    bad_creation (device, net);
    mg_stream_destroy (main_stream);
    mg_stream_destroy (comm_stream);
    comm_destroy (comm);
    comm_net_destroy (net);
    device_destroy (device);
    test_graph ();
    kinds ();
    no_host_work ();
    never_matched ();
    return done_testing ();
}
