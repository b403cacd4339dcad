/* The flight recorder: the ring of calls, their states, and which call holds up a stream. */

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/comm/recorder.h"
#include "libcore/device/device.h"
#include "libcore/device/graph.h"
#include "libcore/device/queue.h"
#include "libcore/device/stream.h"
#include "tests/tap/tap.h"

/* A call's work, which ends when its gate opens. */
struct step {
    struct work work;
    _Atomic int gate;
};

static int step_poll (struct work *work, struct mg_error *err)
{
    (void)err;
    return ((struct step *)work)->gate;
}

static void step_describe (const struct work *work, char *text, size_t max)
{
    (void)work;
    if (max > 0)
        text[0] = '\0';
}

static struct mg_device *make_device (void)
{
    const struct device_config config = { .threads = 1, .timeout = 10 };
    struct mg_error err = { "" };
    struct mg_device *device = device_create (&config, &err);

    if (!device)
        bail_out ("%s", err.text);
    return device;
}

/* 'step': the call's work, NULL: it has none and is done where its stream is. */
static void add (struct recorder *r, int place, enum mg_comm_call call, size_t count,
                 struct mg_stream *stream, struct step *step)
{
    struct mg_p2p p = { .kind = MG_RECV, .peer = 3, .count = count, .dtype = MG_BFLOAT16 };
    struct comm_request req = { .call = call, .count = count, .dtype = MG_FLOAT32 };

    if (call == MG_CALL_P2P) {
        req.list = &p;
        req.n = 1;
    }
    recorder_begin (r, place, &req, 64, stream);
    if (step) {
        *step = (struct step){ .work = { .poll = step_poll, .describe = step_describe } };
        stream_submit (stream, &step->work, NULL);
    }
    recorder_end (r, stream);
}

static void test_ring (void)
{
    struct mg_device *device = make_device ();
    struct mg_stream *stream = mg_stream_create (device, MG_STREAM_COMPUTE, "main", NULL);
    struct recorder *r = recorder_create (device, NULL, NULL);
    struct record last[RECORDER_SIZE + 1], newest;
    struct record_count count[RECORDER_COMMS];
    char text[128];
    int tp, pp;

    ok (r != NULL, "a recorder");
    is_int (recorder_last (r, last, 5), 0, "which is empty");
    ok (!recorder_newest (r, &newest), "nothing has begun");
    tp = recorder_place (r, "tp");
    pp = recorder_place (r, "a name that is too long");
    ok (tp == 0 && pp == 1, "two places");
    graph_begin (stream, NULL);
    add (r, tp, MG_CALL_BROADCAST, 9, stream, NULL);
    graph_cancel ();
    is_int (recorder_last (r, last, 5), 0, "what a graph takes does not run now");
    add (r, tp, MG_CALL_ALL_REDUCE, 64, stream, NULL);
    add (r, pp, MG_CALL_P2P, 7, stream, NULL);
    add (r, tp, MG_CALL_BARRIER, 0, stream, NULL);
    is_int (recorder_last (r, last, 5), 3, "three calls");
    record_describe (&last[0], text, sizeof (text));
    is_str (text, "barrier #2 on tp", "the newest first");
    record_describe (&last[1], text, sizeof (text));
    is_str (text, "receive from 3 of 7 bfloat16 on a name that is ", "a transfer");
    record_describe (&last[2], text, sizeof (text));
    is_str (text, "all-reduce #1 of 64 float32 on tp", "a collective");
    ok (last[0].state == RECORD_DONE && last[0].seconds >= 0, "all are done");
    ok (recorder_newest (r, &newest) && newest.call == MG_CALL_BARRIER, "the newest");
    is_int (recorder_last (r, last, 2), 2, "no more than are asked for");
    is_int (recorder_counts (r, count), 2, "two communicators");
    ok (count[0].collectives == 2 && count[1].collectives == 0 && strcmp (count[0].name, "tp") == 0,
        "collectives are counted");
    for (int i = 0; i < 3 * RECORDER_SIZE; i++)
        add (r, tp, MG_CALL_ALL_GATHER, (size_t)i, stream, NULL);
    is_int (recorder_last (r, last, RECORDER_SIZE + 1), RECORDER_SIZE, "the ring is full");
    ok (last[0].count == 3 * RECORDER_SIZE - 1
            && last[RECORDER_SIZE - 1].count == 2 * RECORDER_SIZE, "with the last calls");
    for (int i = 2; i < RECORDER_COMMS; i++)
        recorder_place (r, "x");
    is_int (recorder_place (r, "y"), -1, "no room for another communicator");
    last[0].call = 99;
    record_describe (&last[0], text, sizeof (text));
    is_str (text, "call 99 on tp", "no call");
    recorder_destroy (r);
    recorder_destroy (NULL);
    mg_stream_destroy (stream);
    device_destroy (device);
}

/* Stream "c" waits for "b", and "b" for "a": what holds up c is the call on a. */
static void test_blocking (void)
{
    struct mg_device *device = make_device ();
    struct mg_stream *a = mg_stream_create (device, MG_STREAM_COMM, "a", NULL);
    struct mg_stream *b = mg_stream_create (device, MG_STREAM_COMM, "b", NULL);
    struct mg_stream *c = mg_stream_create (device, MG_STREAM_COMM, "c", NULL);
    struct mg_event *event = mg_event_create (device, NULL);
    struct recorder *r = recorder_create (device, NULL, NULL);
    int dp = recorder_place (r, "dp"), tp = recorder_place (r, "tp");
    struct step first, second, later, ahead, on_b;
    struct record_count count[RECORDER_COMMS];
    struct record found;
    struct stream_place place;

    add (r, tp, MG_CALL_P2P, 5, c, &ahead); // posted ahead, and nobody waits for it
    add (r, dp, MG_CALL_ALL_REDUCE, 1, a, &first);
    add (r, dp, MG_CALL_ALL_REDUCE, 2, a, &second);
    mg_event_record (event, a);
    add (r, dp, MG_CALL_BARRIER, 0, a, &later);
    mg_stream_wait_event (b, event, NULL);
    place = stream_place (b);
    ok (recorder_blocking (r, place, &found) && found.count == 1, "the first call on a holds up b");
    add (r, tp, MG_CALL_ALL_GATHER, 3, b, &on_b);
    ok (recorder_blocking (r, stream_place (b), &found) && found.count == 1,
        "also a call of b that has not begun");
    recorder_counts (r, count);
    ok (count[0].collectives == 1 && count[1].collectives == 0, "collectives that have begun");
    ok (recorder_newest (r, &found) && found.count == 1, "the newest call that has begun");
    first.gate = 1;
    while (!recorder_blocking (r, stream_place (b), &found) || found.count == 1)
        sched_yield ();
    is_int ((long long)found.count, 2, "then the second one");
    second.gate = 1;
    while (!recorder_blocking (r, stream_place (b), &found) || found.count == 2)
        sched_yield ();
    is_int ((long long)found.count, 3, "then b's own call");
    ok (!recorder_blocking (r, place, &found), "what b waited for is over");
    on_b.gate = 1;
    mg_stream_synchronize (b, NULL);
    ok (!recorder_blocking (r, stream_place (b), &found), "nothing holds up b any more");
    ok (recorder_blocking (r, stream_place (a), &found) && found.call == MG_CALL_BARRIER
            && recorder_blocking (r, stream_place (c), &found) && found.call == MG_CALL_P2P,
        "but a and c have calls of their own");
    later.gate = ahead.gate = 1;
    mg_stream_destroy (a);
    mg_stream_destroy (b);
    mg_stream_destroy (c);
    mg_event_destroy (event);
    recorder_destroy (r);
    device_destroy (device);
}

/* A device whose streams run behind the host (tests/lib/device_late.c): a wait that has reached its
 * deadline ends with one line, which names the call that holds it up.
 */
static void test_deadline (void)
{
    const struct device_config config = { .name = "late", .threads = 1, .timeout = 0.2 };
    const char *build = getenv ("MG_BUILDDIR");
    struct mg_error err = { "" };
    struct mg_device *device;
    struct mg_stream *compute, *comm;
    struct mg_event *event;
    struct recorder *r;
    struct step step;
    char dir[4096], text[128];

    snprintf (dir, sizeof (dir), "%s/tests/lib/.libs", build ? build : ".");
    setenv ("MEGATRON_MODULE_DIR", dir, 1);
    if (!(device = device_create (&config, &err)))
        bail_out ("%s", err.text);
    compute = mg_stream_create (device, MG_STREAM_COMPUTE, "compute", &err);
    comm = mg_stream_create (device, MG_STREAM_COMM, "dp", &err);
    event = mg_event_create (device, &err);
    r = recorder_create (device, NULL, &err);
    device_set_explain (device, &(struct queue_explain){ recorder_explain, r });
    add (r, recorder_place (r, "dp"), MG_CALL_ALL_REDUCE, 6, comm, &step);
    mg_event_record (event, comm);
    is_int (mg_stream_wait_event (compute, event, &err), 0, "a stream waits, and the host goes on");
    recorder_explain (r, text, sizeof (text));
    is_str (text, "", "the host waits for nothing");
    is_int (mg_stream_synchronize (compute, &err), -1, "a wait that does not end");
    is_str (err.text, "stream compute waited 0.2 s for all-reduce #1 of 6 float32 on dp",
            "names the call on the other stream");
    recorder_explain (r, text, sizeof (text));
    is_str (text, "all-reduce #1 of 6 float32 on dp", "which stays to be seen");
    device_set_explain (device, NULL);
    recorder_destroy (r);
    mg_event_destroy (event);
    mg_stream_destroy (compute);
    mg_stream_destroy (comm);
    device_destroy (device);
}

/* Streams that wait for each other many times: no place is looked at twice. */
static void test_many_waits (void)
{
    struct mg_device *device = make_device ();
    struct mg_stream *a = mg_stream_create (device, MG_STREAM_COMM, "a", NULL);
    struct mg_stream *b = mg_stream_create (device, MG_STREAM_COMM, "b", NULL);
    struct mg_event *event = mg_event_create (device, NULL);
    struct recorder *r = recorder_create (device, NULL, NULL);
    int place = recorder_place (r, "dp");
    struct record found;
    struct step step;

    for (int i = 0; i < 200; i++) {
        add (r, place, MG_CALL_BARRIER, 0, a, NULL);
        mg_event_record (event, a);
        mg_stream_wait_event (b, event, NULL);
        add (r, place, MG_CALL_BARRIER, 0, b, NULL);
        mg_event_record (event, b);
        mg_stream_wait_event (a, event, NULL);
    }
    ok (!recorder_blocking (r, stream_place (b), &found), "nothing holds up either");
    add (r, place, MG_CALL_ALL_REDUCE, 8, a, &step);
    mg_event_record (event, a);
    mg_stream_wait_event (b, event, NULL);
    ok (recorder_blocking (r, stream_place (b), &found) && found.count == 8, "the last call does");
    step.gate = 1;
    mg_stream_destroy (a);
    mg_stream_destroy (b);
    mg_event_destroy (event);
    recorder_destroy (r);
    device_destroy (device);
}

static void count_calls (void *arg, const struct record *record, struct mg_stream *stream,
                         bool begins)
{
    int *calls = arg;

    (void)record;
    (void)stream;
    calls[begins]++;
}

/* Two devices, and somebody who watches. */
static void test_devices (void)
{
    struct mg_device *device = make_device (), *host;
    const struct device_config config = { .name = "cpu", .threads = 1, .share = device };
    struct mg_stream *control;
    struct recorder *r;
    struct record last;
    struct step step;
    int calls[2] = { 0, 0 }, place;

    host = device_create (&config, NULL);
    control = mg_stream_create (host, MG_STREAM_COMM, "control", NULL);
    r = recorder_create (device, host, NULL);
    place = recorder_place (r, "control");
    recorder_set_watch (r, count_calls, calls);
    add (r, place, MG_CALL_BARRIER, 0, control, &step);
    ok (calls[0] == 1 && calls[1] == 1, "the begin and the end of the call are told");
    recorder_last (r, &last, 1);
    ok (last.state != RECORD_DONE, "a call on the host device is not done");
    step.gate = 1;
    mg_stream_synchronize (control, NULL);
    recorder_last (r, &last, 1);
    is_int (last.state, RECORD_DONE, "is done");
    mg_stream_destroy (control);
    recorder_destroy (r);
    device_destroy (host);
    device_destroy (device);
}

int main (void)
{
    test_ring ();
    test_blocking ();
    test_many_waits ();
    test_deadline ();
    test_devices ();
    return done_testing ();
}
