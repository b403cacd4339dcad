/* Graphs: what they repeat, and what a capture refuses.  On the CPU, or on MG_TEST_DEVICE. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/device_ops.h"
#include "libcore/device/graph.h"
#include "libcore/device/stream.h"
#include "tests/tap/tap.h"

enum { N = 8 };

/* A device with two streams and some memory of each kind. */
struct rig {
    struct mg_device *device;
    struct mg_stream *compute, *side;
    struct mg_event *fork, *join, *outside;
    float *memory;     /* [N] of the device */
    float *pinned;     /* [N] */
    float pageable[N];
    struct device_graph *other;
};

static struct mg_error err;

static void setup (struct rig *r)
{
    const struct device_config config = { .name = getenv ("MG_TEST_DEVICE"), .threads = 1,
                                          .timeout = 10 };

    *r = (struct rig){ .device = device_create (&config, &err) };
    if (!r->device || !(r->compute = mg_stream_create (r->device, MG_STREAM_COMPUTE, "main", &err))
        || !(r->side = mg_stream_create (r->device, MG_STREAM_COMM, "side", &err))
        || !(r->fork = mg_event_create (r->device, &err))
        || !(r->join = mg_event_create (r->device, &err))
        || !(r->outside = mg_event_create (r->device, &err))
        || !(r->memory = device_alloc (r->device, N * sizeof (float), &err))
        || !(r->pinned = device_host_alloc (r->device, N * sizeof (float), &err)))
        bail_out ("%s", err.text);
}

static void teardown (struct rig *r)
{
    mg_event_destroy (r->fork);
    mg_event_destroy (r->join);
    mg_event_destroy (r->outside);
    mg_stream_destroy (r->compute);
    mg_stream_destroy (r->side);
    device_free (r->device, r->memory);
    device_host_free (r->device, r->pinned);
    device_destroy (r->device);
}

static int set (const struct rig *r, struct mg_stream *stream, int at, float value)
{
    const struct kern_fill k = { .n = 1, .value = value, .out = r->memory + at,
                                 .dtype = MG_FLOAT32 };

    return kern_fill (device_kernels (r->device), &k, stream, &err);
}

static float get (const struct rig *r, int at)
{
    if (device_fetch (r->compute, r->pinned + N - 1, r->memory + at, sizeof (float), &err) < 0)
        bail_out ("%s", err.text);
    return r->pinned[N - 1];
}

static void begin (const struct rig *r)
{
    if (graph_begin (r->compute, &err) < 0)
        bail_out ("%s", err.text);
}

/* Nothing runs while it is captured; a replay does all of it, with the numbers of then. */
static void test_repeats (void)
{
    struct rig r;
    struct device_graph *graph;

    setup (&r);
    ok (!graph_capturing (), "no capture");
    begin (&r);
    ok (graph_capturing (), "a capture");
    r.pinned[0] = 7;
    is_int (set (&r, r.compute, 0, 3), 0, "a kernel");
    is_int (device_upload (r.compute, r.memory + 1, r.pinned, sizeof (float), &err), 0, "a copy");
    is_int (device_copy (r.compute, r.memory + 2, r.memory, sizeof (float), &err), 0, "another");
    is_int (device_set (r.compute, r.memory + 3, 0, sizeof (float), &err), 0, "a set");
    is_int (device_download (r.compute, r.pinned + 1, r.memory + 2, sizeof (float), &err), 0,
            "a copy to the host");
    graph = graph_end (&err);
    ok (graph && !graph_capturing (), "a graph %s", err.text);
    is_int ((int64_t)graph_nodes (graph), 5, "its nodes");
    if (device_is_apart (r.device))
        ok (graph_bytes (graph) > 0 && graph_device_bytes (graph) > 0, "its memory");
    else
        ok (graph_bytes (graph) > 5 * sizeof (struct kern_fill)
                && graph_device_bytes (graph) == 0, "its memory");
    ok (get (&r, 0) == 0 && get (&r, 2) == 0, "nothing has run");
    is_int (set (&r, r.compute, 3, 9), 0, "a call outside runs");
    is_int (graph_replay (graph, &err), 0, "a replay");
    ok (get (&r, 0) == 3 && get (&r, 1) == 7 && get (&r, 2) == 3 && get (&r, 3) == 0
            && r.pinned[1] == 3, "does everything");
    r.pinned[0] = 8;
    is_int (graph_replay (graph, &err), 0, "and again");
    ok (get (&r, 1) == 8, "with what memory has then");
    graph_destroy (graph);
    graph_destroy (NULL);
    begin (&r);
    graph = graph_end (&err);
    ok (graph && graph_nodes (graph) == 0 && graph_replay (graph, &err) == 0, "an empty graph");
    graph_destroy (graph);
    teardown (&r);
}

/* Work of another stream, between a fork and a join. */
static void test_fork (void)
{
    struct rig r;
    struct device_graph *graph;

    setup (&r);
    begin (&r);
    is_int (set (&r, r.compute, 0, 5), 0, "work");
    mg_event_record (r.fork, r.compute);
    is_int (mg_stream_wait_event (r.side, r.fork, &err), 0, "a fork");
    is_int (device_copy (r.side, r.memory + 1, r.memory, sizeof (float), &err), 0, "its work");
    mg_event_record (r.join, r.side);
    is_int (mg_stream_wait_event (r.compute, r.join, &err), 0, "a join");
    is_int (device_copy (r.compute, r.memory + 2, r.memory + 1, sizeof (float), &err), 0,
            "what follows it");
    graph = graph_end (&err);
    ok (graph != NULL, "a graph %s", err.text);
    is_int ((int64_t)graph_nodes (graph), 3, "events are no nodes");
    is_int (graph_replay (graph, &err), 0, "a replay");
    ok (get (&r, 2) == 5, "goes through both streams");
    ok (mg_stream_wait_event (r.compute, r.join, &err) < 0 && errno == EPERM
            && mg_event_synchronize (r.join, &err) < 0, "nobody else waits for its events: %s",
        err.text);
    mg_event_record (r.join, r.side);
    is_int (mg_stream_wait_event (r.compute, r.join, &err), 0, "until they are recorded again");
    graph_destroy (graph);
    teardown (&r);
}

/* A replay comes after the earlier work of each of its streams, and before the later one. */
static void test_side_order (void)
{
    struct rig r;
    struct device_graph *graph;

    setup (&r);
    begin (&r);
    mg_event_record (r.fork, r.compute);
    mg_stream_wait_event (r.side, r.fork, &err);
    device_copy (r.side, r.memory + 1, r.memory, sizeof (float), &err);
    mg_event_record (r.join, r.side);
    mg_stream_wait_event (r.compute, r.join, &err);
    if (!(graph = graph_end (&err)))
        bail_out ("%s", err.text);
    for (int round = 1; round <= 3; round++) {
        r.pinned[0] = (float)round;
        device_upload (r.side, r.memory, r.pinned, sizeof (float), &err);
        is_int (graph_replay (graph, &err), 0, "a replay");
        device_download (r.side, r.pinned + 1, r.memory + 1, sizeof (float), &err);
        is_int (mg_stream_synchronize (r.side, &err), 0, "between work of its second stream");
        ok (r.pinned[1] == (float)round, "has the order of that stream");
    }
    graph_destroy (graph);
    teardown (&r);
}

/* --- what is refused --- */

static int plant_stream_wait (struct rig *r)
{
    return mg_stream_synchronize (r->compute, &err);
}

static int plant_event_wait (struct rig *r)
{
    return mg_event_synchronize (r->outside, &err);
}

static int plant_fetch (struct rig *r)
{
    return device_fetch (r->compute, r->pinned, r->memory, sizeof (float), &err);
}

static int plant_alloc (struct rig *r)
{
    return device_alloc (r->device, 64, &err) ? 0 : -1;
}

static int plant_host_alloc (struct rig *r)
{
    return device_host_alloc (r->device, 64, &err) ? 0 : -1;
}

static int plant_pageable_upload (struct rig *r)
{
    return device_upload (r->compute, r->memory, r->pageable, sizeof (float), &err);
}

static int plant_pageable_download (struct rig *r)
{
    return device_download (r->compute, r->pageable, r->memory, sizeof (float), &err);
}

/* The end of pinned memory counts, too. */
static int plant_long_upload (struct rig *r)
{
    return device_upload (r->compute, r->memory, r->pinned + 1, N * sizeof (float), &err);
}

static int plant_other_stream (struct rig *r)
{
    return device_copy (r->side, r->memory, r->memory + 1, sizeof (float), &err);
}

static int plant_kernel_elsewhere (struct rig *r)
{
    return set (r, r->side, 0, 1);
}

/* Has no result: the end of the capture tells. */
static int plant_record_elsewhere (struct rig *r)
{
    mg_event_record (r->fork, r->side);
    return 0;
}

static int plant_outside_event (struct rig *r)
{
    return mg_stream_wait_event (r->compute, r->outside, &err);
}

static int plant_no_join (struct rig *r)
{
    mg_event_record (r->fork, r->compute);
    if (mg_stream_wait_event (r->side, r->fork, &err) < 0)
        return -1;
    return device_copy (r->side, r->memory, r->memory + 1, sizeof (float), &err);
}

/* The join is before the last work of the fork. */
static int plant_early_join (struct rig *r)
{
    mg_event_record (r->fork, r->compute);
    if (mg_stream_wait_event (r->side, r->fork, &err) < 0)
        return -1;
    mg_event_record (r->join, r->side);
    if (mg_stream_wait_event (r->compute, r->join, &err) < 0)
        return -1;
    return device_copy (r->side, r->memory, r->memory + 1, sizeof (float), &err);
}

static int poll_nothing (struct work *work, struct mg_error *e)
{
    (void)work;
    (void)e;
    return 1;
}

static int plant_host_work (struct rig *r)
{
    static struct work work = { .poll = poll_nothing };

    return stream_submit (r->compute, &work, &err);
}

static int plant_replay (struct rig *r)
{
    return graph_replay (r->other, &err);
}

/* One stream too many. */
static int plant_many_streams (struct rig *r)
{
    struct mg_stream *stream[GRAPH_MAX_STREAMS];
    int rc = 0;

    mg_event_record (r->fork, r->compute);
    for (int i = 0; i < GRAPH_MAX_STREAMS; i++) {
        stream[i] = mg_stream_create (r->device, MG_STREAM_COMM, "more", &err);
        rc = mg_stream_wait_event (stream[i], r->fork, &err);
    }
    for (int i = 0; i < GRAPH_MAX_STREAMS; i++)
        mg_stream_destroy (stream[i]);
    return rc;
}

static int plant_end (struct rig *r)
{
    mg_event_record (r->fork, r->compute);
    mg_stream_wait_event (r->side, r->fork, &err);
    mg_stream_destroy (r->side);
    r->side = NULL;
    return 0;
}

static void test_refused (void)
{
    static const struct {
        const char *name, *text;
        int (*plant) (struct rig *r);
        bool at_end; /* the call itself succeeds */
    } rows[] = {
        { "a wait for a stream", "a wait of the host for stream main", plant_stream_wait, false },
        { "a wait for an event", "a wait of the host for an event", plant_event_wait, false },
        { "a fetch", "a wait of the host for stream main", plant_fetch, false },
        { "an allocation", "an allocation of 64 bytes", plant_alloc, false },
        { "of host memory", "an allocation of 64 bytes", plant_host_alloc, false },
        { "a copy from pageable memory", "a copy from host memory", plant_pageable_upload, false },
        { "to pageable memory", "a copy to host memory", plant_pageable_download, false },
        { "beyond pinned memory", "a copy from host memory", plant_long_upload, false },
        { "another stream", "copy on stream side, which was not forked", plant_other_stream,
          false },
        { "a kernel there", "fill on stream side, which was not forked", plant_kernel_elsewhere,
          false },
        { "an event there", "an event's record on stream side", plant_record_elsewhere, true },
        { "an event from outside", "recorded outside of the capture", plant_outside_event, false },
        { "no join", "work on stream side that stream main does not wait for", plant_no_join,
          true },
        { "an early join", "work on stream side that stream main", plant_early_join, true },
        { "host work", "host work on stream main", plant_host_work, false },
        { "another graph", "a replay of another graph", plant_replay, false },
        { "the end of a stream", "the end of stream side", plant_end, true },
        { "many streams", "more than 16 streams", plant_many_streams, false },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct rig r;
        int rc;

        setup (&r);
        mg_event_record (r.outside, r.compute);
        begin (&r);
        r.other = graph_end (&err);
        begin (&r);
        graph_place ("layer 3", "router");
        rc = rows[i].plant (&r);
        ok (rc == (rows[i].at_end ? 0 : -1) && (rows[i].at_end || strstr (err.text, rows[i].text)),
            "%s is refused%s", rows[i].name, rows[i].at_end ? " at the end" : "");
        err.text[0] = '\0';
        ok (!graph_end (&err) && errno == EPERM && strstr (err.text, rows[i].text)
                && strncmp (err.text, "layer 3: router: a graph cannot have ", 37) == 0,
            "the end says where: %s", err.text);
        ok (!graph_capturing () && set (&r, r.compute, 4, 2) == 0 && get (&r, 4) == 2,
            "and calls run as before");
        graph_destroy (r.other);
        teardown (&r);
    }
}

/* A fork of a fork is joined by way of the fork, or not at all. */
static void test_nested_fork (void)
{
    struct rig r;
    struct mg_stream *inner;
    struct device_graph *graph;

    setup (&r);
    if (!(inner = mg_stream_create (r.device, MG_STREAM_COMM, "inner", &err)))
        bail_out ("%s", err.text);
    for (int joined = 0; joined < 2; joined++) {
        begin (&r);
        mg_event_record (r.fork, r.compute);
        mg_stream_wait_event (r.side, r.fork, &err);
        mg_event_record (r.fork, r.side);
        mg_stream_wait_event (inner, r.fork, &err);
        device_copy (inner, r.memory + 1, r.memory, sizeof (float), &err);
        mg_event_record (r.outside, inner);
        if (joined)
            mg_stream_wait_event (r.side, r.outside, &err);
        mg_event_record (r.join, r.side);
        mg_stream_wait_event (r.compute, r.join, &err);
        graph = graph_end (&err);
        ok (joined ? graph != NULL : !graph && strstr (err.text, "work on stream inner"),
            "a nested fork %s", joined ? "that is joined" : "that is not");
        graph_destroy (graph);
    }
    mg_stream_destroy (inner);
    teardown (&r);
}

/* Captures begin and end in the right order. */
static void test_order (void)
{
    struct rig r;

    setup (&r);
    ok (!graph_end (&err) && errno == EINVAL, "no end without a beginning: %s", err.text);
    ok (graph_begin (r.side, &err) < 0 && errno == EINVAL, "not on a comm stream: %s", err.text);
    begin (&r);
    ok (graph_begin (r.compute, &err) < 0 && errno == EBUSY, "not twice: %s", err.text);
    is_int (set (&r, r.compute, 0, 1), 0, "the first goes on");
    graph_cancel ();
    ok (!graph_capturing () && get (&r, 0) == 0, "until it is cancelled");
    graph_cancel ();
    teardown (&r);
}

/* Work of a caller of its own, with arguments that are copied. */
static int add_one (const void *args, struct mg_stream *stream, struct mg_error *e)
{
    int *to = *(int *const *)args;

    (void)stream;
    if (*to == 2)
        return mg_error_set (e, ERANGE, "two is enough");
    ++*to;
    return 0;
}

static void test_work (void)
{
    struct rig r;
    int count = 0, *args = &count;
    const struct graph_work work = { .name = "add", .run = add_one, .args = &args,
                                     .size = sizeof (args) };
    struct device_graph *graph;

    setup (&r);
    begin (&r);
    is_int (graph_add (r.compute, &work, &err), 0, "work");
    args = NULL;
    graph = graph_end (&err);
    ok (graph && count == 0 && graph_replay (graph, &err) == 0 && count == 1, "is repeated");
    ok (graph_replay (graph, &err) == 0 && graph_replay (graph, &err) < 0
            && strcmp (err.text, "two is enough") == 0, "and may fail");
    graph_destroy (graph);
    teardown (&r);
}

/* --- a device apart --- */

static int sum_columns (const struct rig *r, int cols)
{
    const struct kern_col_sum k = { .rows = 2, .cols = cols, .x = r->memory, .out = r->memory + 4,
                                    .dtype = MG_FLOAT32, .grad_dtype = MG_FLOAT32 };

    return kern_col_sum (device_kernels (r->device), &k, r->compute, &err);
}

/* A stream without reserved scratch memory grows it: not in a graph, and not under one. */
static void test_scratch (void)
{
    struct rig r;
    struct device_graph *graph;

    setup (&r);
    begin (&r);
    ok (sum_columns (&r, 2) < 0 && errno == EPERM
            && strstr (err.text, "a graph cannot have an allocation of 8 bytes, scratch memory of "
                       "stream main"),
        "scratch memory that is not there is refused: %s", err.text);
    ok (!graph_finish (-1, &err), "and ends the capture");
    is_int (sum_columns (&r, 1), 0, "outside it is found");
    is_int (sum_columns (&r, 2), 0, "and grows");
    begin (&r);
    graph = graph_finish (sum_columns (&r, 2), &err);
    ok (graph && graph_replay (graph, &err) == 0, "and then a graph has it");
    ok (sum_columns (&r, 3) < 0 && errno == EPERM
            && strstr (err.text, "stream main: a kernel needs ")
            && strstr (err.text, " cannot grow: a graph uses them"),
        "under a graph it does not grow: %s", err.text);
    ok (graph_replay (graph, &err) == 0 && sum_columns (&r, 2) == 0
            && mg_stream_synchronize (r.compute, &err) == 0, "what is there serves both");
    graph_destroy (graph);
    teardown (&r);
}

/* No memory of the device for a graph. */
static void test_no_memory (void)
{
    enum { MOST = 64 };
    struct rig r;
    struct device_graph *graph;
    void *all[MOST];
    int n = 0;

    setup (&r);
    for (size_t size = (size_t)1 << 40; size >= 4096 && n < MOST; size /= 2) {
        while (n < MOST && (all[n] = device_alloc (r.device, size, &err)))
            n++;
    }
    begin (&r);
    set (&r, r.compute, 0, 3);
    graph = graph_end (&err);
    ok (!graph && errno == ENOMEM && strstr (err.text, "a graph: ")
            && strstr (err.text, "(cudaErrorMemoryAllocation)"),
        "a graph without memory: %s", err.text);
    ok (!graph_capturing () && set (&r, r.compute, 4, 2) == 0 && get (&r, 4) == 2,
        "leaves nothing behind");
    while (n > 0)
        device_free (r.device, all[--n]);
    begin (&r);
    set (&r, r.compute, 0, 3);
    graph = graph_end (&err);
    ok (graph && graph_replay (graph, &err) == 0 && get (&r, 0) == 3, "with memory it runs");
    graph_destroy (graph);
    teardown (&r);
}

/* --- a backend whose libraries capture what is enqueued --- */

static int native_state, native_streams;
static const struct mg_stream *native_first;

static void *native_begin (struct mg_stream *stream, struct mg_error *e)
{
    (void)stream;
    (void)e;
    return &native_state;
}

static void *native_instantiate (void *capture, struct mg_stream *const *streams, int num_streams,
                                 struct mg_error *e)
{
    (void)e;
    native_streams = num_streams;
    native_first = streams[0];
    return capture;
}

static void native_destroy (void *impl)
{
    (void)impl;
}

static int native_replay (const void *graph, struct mg_error *e)
{
    (void)graph;
    (void)e;
    native_state++;
    return 0;
}

static size_t native_bytes (const void *graph)
{
    (void)graph;
    return 0;
}

static size_t native_device_bytes (const void *graph)
{
    (void)graph;
    return 12345;
}

static const struct graph_ops native = {
    .begin = native_begin, .instantiate = native_instantiate, .destroy = native_destroy,
    .replay = native_replay, .destroy_graph = native_destroy, .bytes = native_bytes,
    .device_bytes = native_device_bytes,
};

static int copy_twice (const void *args, struct mg_stream *stream, struct mg_error *e)
{
    float *memory = *(float *const *)args;

    for (int i = 1; i <= 2; i++) {
        if (device_copy (stream, memory + i, memory, sizeof (float), e) < 0)
            return -1;
    }
    return 0;
}

static void test_native (void)
{
    struct rig r;
    struct device_ops ops;
    struct device_graph *graph;
    float **args = &r.memory;
    const struct graph_work nested = { .name = "copies", .run = copy_twice, .args = args,
                                       .size = sizeof (*args) };

    setup (&r);
    ops = *r.device->ops;
    ops.graph = &native;
    r.device->ops = &ops;
    begin (&r);
    ok (set (&r, r.compute, 0, 3) == 0
            && device_copy (r.compute, r.memory + 1, r.memory, sizeof (float), &err) == 0,
        "work is enqueued");
    ok (r.memory[1] == 3, "for its libraries to take");
    ok (plant_other_stream (&r) < 0, "what is refused still is: %s", err.text);
    ok (!graph_end (&err), "and ends the capture without a graph");
    begin (&r);
    is_int (set (&r, r.compute, 0, 4), 0, "work");
    graph = graph_end (&err);
    ok (graph && graph_nodes (graph) == 1 && graph_replay (graph, &err) == 0 && native_state == 1,
        "a graph of its own");
    ok (native_streams == 1 && native_first == r.compute, "its stream");
    ok (graph_device_bytes (graph) == 12345, "its memory of the device");
    graph_destroy (graph);
    begin (&r);
    is_int (graph_add (r.compute, &nested, &err), 0, "work that makes two copies");
    graph = graph_end (&err);
    ok (graph && graph_nodes (graph) == 1, "is one node");
    graph_destroy (graph);
    teardown (&r);
}

int main (void)
{
    const char *device = getenv ("MG_TEST_DEVICE");

    test_repeats ();
    test_fork ();
    test_side_order ();
    test_nested_fork ();
    test_refused ();
    test_order ();
    if (device && strcmp (device, "cuda") == 0) {
        test_scratch ();
        test_no_memory ();
        return done_testing ();
    }
    test_work ();
    test_native ();
    return done_testing ();
}
