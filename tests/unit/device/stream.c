/* stream.c - test streams and events on the CPU device */

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libcore/device/device.h"
#include "libcore/device/stream.h"
#include "tests/tap/tap.h"

/* Work that ends when its gate opens. */
struct step {
    struct work work;
    _Atomic int *gate;
    _Atomic int done;
    const char *name;
};

static int step_poll (struct work *work, struct mg_error *err)
{
    struct step *step = (struct step *)work;

    (void)err;
    if (step->gate && !*step->gate)
        return 0;
    step->done = 1;
    return 1;
}

static void step_describe (const struct work *work, char *text, size_t max)
{
    snprintf (text, max, "%s", ((const struct step *)work)->name);
}

static struct step step_of (const char *name, _Atomic int *gate)
{
    return (struct step){ .work = { .poll = step_poll, .describe = step_describe },
                          .gate = gate, .name = name };
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

static void kinds (void)
{
    struct mg_device *device = make_device (10);
    struct mg_error err = { "" };
    struct mg_stream *comm = mg_stream_create (device, MG_STREAM_COMM, "comm", &err);
    struct mg_stream *compute
        = mg_stream_create (device, MG_STREAM_COMPUTE, "main", &err);
    _Atomic int gate = 0;
    struct step slow = step_of ("slow", &gate), quick = step_of ("quick", NULL);

    ok (comm && compute, "two streams");
    ok (stream_idle (comm) && stream_idle (compute), "with nothing to do");
    ok (stream_device (comm) == device, "of the device");
    is_int (stream_submit (comm, &slow.work, &err), 0, "work on a comm stream");
    ok (!slow.done && !stream_idle (comm), "returns before it is done");
    is_int (stream_submit (compute, &quick.work, &err), 0, "work on a compute stream");
    ok (quick.done && stream_idle (compute), "is done when the call returns");
    gate = 1;
    is_int (mg_stream_synchronize (comm, &err), 0, "synchronize");
    ok (slow.done && stream_idle (comm), "waits for the rest");
    mg_stream_destroy (comm);
    mg_stream_destroy (compute);
    device_destroy (device);
}

static void events (void)
{
    struct mg_device *device = make_device (10);
    struct mg_error err = { "" };
    struct mg_stream *a = mg_stream_create (device, MG_STREAM_COMM, "a", &err);
    struct mg_stream *b = mg_stream_create (device, MG_STREAM_COMM, "b", &err);
    struct mg_stream *compute
        = mg_stream_create (device, MG_STREAM_COMPUTE, "main", &err);
    struct mg_event *event = mg_event_create (device, &err);
    _Atomic int gate = 0, gate2 = 0;
    struct step first = step_of ("first", &gate), behind = step_of ("behind", &gate2);
    struct step on_b = step_of ("on b", NULL);

    is_int (mg_event_synchronize (event, &err), 0, "a new event is complete");
    is_int (mg_stream_wait_event (a, event, &err), 0, "also for a stream");
    ok (stream_idle (a), "which need not wait");
    stream_submit (a, &first.work, &err);
    mg_event_record (event, a);
    stream_submit (a, &behind.work, &err);
    is_int (mg_stream_wait_event (b, event, &err), 0, "b waits for the event");
    is_int (mg_stream_wait_event (a, event, &err), 0, "a's own event is in order anyway");
    stream_submit (b, &on_b.work, &err);
    usleep (20000);
    ok (!on_b.done, "b has not gone on");
    gate = 1;
    is_int (mg_stream_synchronize (b, &err), 0, "b is done after the event's mark");
    ok (first.done && on_b.done && !behind.done, "and before what follows on a");
    is_int (mg_event_synchronize (event, &err), 0, "the mark is reached");
    is_int (mg_stream_wait_event (compute, event, &err), 0, "for a compute stream too");
    mg_event_record (event, compute);
    is_int (mg_event_synchronize (event, &err), 0, "a compute stream's mark is reached");
    gate2 = 1;
    mg_stream_destroy (a);
    ok (behind.done, "destroy waits for the work");
    mg_stream_destroy (b);
    mg_stream_destroy (compute);
    mg_event_destroy (event);
    device_destroy (device);
}

static void times (void)
{
    struct mg_device *device = make_device (10), *other = make_device (10);
    struct mg_error err = { "" };
    struct mg_stream *comm = stream_create (device, MG_STREAM_COMM, STREAM_HIGH, "comm", &err);
    struct mg_stream *compute = mg_stream_create (device, MG_STREAM_COMPUTE, "main", &err);
    struct mg_event *before = event_create_timed (device, &err);
    struct mg_event *behind = event_create_timed (device, &err);
    struct mg_event *plain = mg_event_create (device, &err);
    struct mg_event *foreign = event_create_timed (other, &err);
    _Atomic int gate = 0;
    struct step slow = step_of ("slow", &gate);
    double seconds = -1;

    ok (event_reached (before), "a new event is complete");
    is_int (event_seconds (before, behind, &seconds, &err), -1, "but has no time");
    ok (errno == EINVAL && strstr (err.text, "first was not recorded"), "%s", err.text);
    mg_event_record (before, compute);
    stream_submit (comm, &slow.work, &err);
    mg_event_record (behind, comm);
    ok (event_reached (before) && !event_reached (behind), "one of two marks is reached");
    is_int (event_seconds (before, behind, &seconds, &err), -1, "no time yet");
    ok (errno == EINVAL && strstr (err.text, "second is not reached"), "%s", err.text);
    usleep (20000);
    gate = 1;
    is_int (mg_event_synchronize (behind, &err), 0, "both are reached");
    ok (event_reached (behind), "as the event says");
    is_int (event_seconds (before, behind, &seconds, &err), 0, "seconds between them");
    ok (seconds >= 0.02, "from when the work before was done to when the other was: %g", seconds);
    is_int (event_seconds (behind, before, &seconds, &err), 0, "the other way round");
    ok (seconds <= -0.02, "is less than 0");
    mg_event_record (behind, comm);
    ok (event_reached (behind) && event_seconds (behind, behind, &seconds, &err) == 0
            && seconds == 0, "recorded again, on an idle stream");
    mg_event_record (plain, compute);
    is_int (event_seconds (before, plain, &seconds, &err), -1, "an event without times");
    ok (strstr (err.text, "second has no time") != NULL, "%s", err.text);
    mg_event_record (foreign, compute);
    is_int (event_seconds (before, foreign, &seconds, &err), -1, "another device's");
    mg_stream_destroy (comm);
    mg_stream_destroy (compute);
    mg_event_destroy (before);
    mg_event_destroy (behind);
    mg_event_destroy (plain);
    mg_event_destroy (foreign);
    device_destroy (device);
    device_destroy (other);
}

/* Copies and sets: at once on a compute stream, in their turn on a comm stream. */
static void copies (void)
{
    enum { N = 20 };
    struct mg_device *device = make_device (10);
    struct mg_error err = { "" };
    struct mg_stream *comm = mg_stream_create (device, MG_STREAM_COMM, "comm", &err);
    struct mg_stream *compute
        = mg_stream_create (device, MG_STREAM_COMPUTE, "main", &err);
    int32_t host[N], back[N] = { 0 }, *a, *b;
    _Atomic int gate = 0;
    struct step slow = step_of ("slow", &gate);

    for (int i = 0; i < N; i++)
        host[i] = i + 1;
    a = device_alloc (device, sizeof (host), &err);
    b = device_alloc (device, sizeof (host), &err);
    is_int (device_upload (compute, a, host, sizeof (host), &err), 0, "host to device");
    is_int (device_copy (compute, b, a, sizeof (host), &err), 0, "device to device");
    is_int (device_fetch (compute, back, b, sizeof (host), &err), 0, "device to host");
    ok (memcmp (host, back, sizeof (host)) == 0, "are copies");
    is_int (device_set (compute, b, 0, sizeof (host), &err), 0, "a set");
    device_fetch (compute, back, b, sizeof (host), &err);
    ok (back[0] == 0 && back[N - 1] == 0, "sets");
    is_int (device_copy (compute, NULL, NULL, 0, &err), 0, "nothing can be copied");
    stream_submit (comm, &slow.work, &err);
    for (int i = 0; i < N; i++) // more than the stream keeps places for
        device_copy (comm, &b[i], &a[i], sizeof (*a), &err);
    device_set (comm, a, 0xff, sizeof (*a), &err);
    device_download (comm, back, b, sizeof (host), &err);
    ok (back[0] == 0, "a copy behind other work waits");
    gate = 1;
    is_int (mg_stream_synchronize (comm, &err), 0, "for its turn");
    ok (memcmp (host, back, sizeof (host)) == 0, "and all copies are in order");
    device_fetch (comm, back, a, sizeof (host), &err);
    is_int (back[0], -1, "so are sets");
    ok (stream_native (compute) == NULL, "the CPU has no other name for a stream");
    device_fail (device, "gone");
    ok (device_copy (compute, b, a, 4, &err) < 0 && strcmp (err.text, "gone") == 0,
        "a device that has failed copies nothing");
    mg_stream_destroy (comm);
    mg_stream_destroy (compute);
    device_free (device, a);
    device_free (device, b);
    device_destroy (device);
}

/* A device that shares another's thread: its streams are its own, a failure is both's. */
static void shared (void)
{
    struct mg_device *device = make_device (10);
    struct device_config config = { .name = "cpu", .threads = 1, .share = device };
    struct mg_error err = { "" };
    struct mg_device *host = device_create (&config, &err);
    struct mg_stream *stream = mg_stream_create (host, MG_STREAM_COMM, "host", &err);
    struct mg_event *event = mg_event_create (device, &err);
    struct step step = step_of ("work", NULL);

    ok (device_kernels (host) && device_kernels (host) != device_kernels (device),
        "a device that shares has kernels of its own");
    is_int (stream_submit (stream, &step.work, &err), 0, "it takes work");
    is_int (mg_stream_synchronize (stream, &err), 0, "that is done");
    is_int (mg_stream_wait_event (stream, event, &err), -1, "its streams are not the other's");
    device_fail (device, "gone");
    ok (device_check (host, &err) < 0 && strcmp (err.text, "gone") == 0,
        "both have failed when one has");
    mg_event_destroy (event);
    mg_stream_destroy (stream);
    device_destroy (host);
    device_destroy (device);
}

/* More waits than the stream keeps places for. */
static void many_waits (void)
{
    enum { N = 40 };
    struct mg_device *device = make_device (10);
    struct mg_error err = { "" };
    struct mg_stream *a = mg_stream_create (device, MG_STREAM_COMM, "a", &err);
    struct mg_stream *b = mg_stream_create (device, MG_STREAM_COMM, "b", &err);
    struct mg_event *event[N];
    struct step work[N];
    _Atomic int gate = 0;
    int done = 0;

    for (int i = 0; i < N; i++) {
        work[i] = step_of ("piece", &gate);
        stream_submit (a, &work[i].work, &err);
        event[i] = mg_event_create (device, &err);
        mg_event_record (event[i], a);
        if (mg_stream_wait_event (b, event[i], &err) < 0)
            break;
    }
    gate = 1;
    is_int (mg_stream_synchronize (b, &err), 0, "%d waits in a row", N);
    for (int i = 0; i < N; i++) {
        done += work[i].done;
        mg_event_destroy (event[i]);
    }
    is_int (done, N, "all are kept");
    mg_stream_destroy (a);
    mg_stream_destroy (b);
    device_destroy (device);
}

static void deadline_names_the_cause (void)
{
    struct mg_device *device = make_device (0.2);
    struct mg_error err = { "" };
    struct mg_stream *a = mg_stream_create (device, MG_STREAM_COMM, "a", &err);
    struct mg_stream *b = mg_stream_create (device, MG_STREAM_COMM, "b", &err);
    struct mg_event *event = mg_event_create (device, &err);
    _Atomic int gate = 0;
    struct step stuck = step_of ("receive from 3", &gate);

    stream_submit (a, &stuck.work, &err);
    mg_event_record (event, a);
    mg_stream_wait_event (b, event, &err);
    is_int (mg_stream_synchronize (b, &err), -1, "b's wait ends at the deadline");
    is_int (errno, ETIMEDOUT, "ETIMEDOUT");
    is_str (err.text, "receive from 3 waited 0.2 s", "and names what a is at");
    is_int (mg_event_synchronize (event, &err), -1, "the device has failed");
    is_int (mg_stream_wait_event (b, event, &err), -1, "for everybody");
    is_int (stream_check (b, &err), -1, "on all streams");
    mg_stream_destroy (a);
    mg_stream_destroy (b);
    mg_event_destroy (event);
    device_destroy (device);
}

static void test_badparam (void)
{
    struct mg_device *device = make_device (1), *other = make_device (1);
    struct mg_error err;
    struct mg_stream *stream = mg_stream_create (device, MG_STREAM_COMM, "s", &err);
    struct mg_event *event = mg_event_create (other, &err);

    ok (!mg_stream_create (NULL, MG_STREAM_COMM, "s", &err) && errno == EINVAL,
        "no device");
    ok (!mg_stream_create (device, MG_STREAM_COMM, NULL, &err) && errno == EINVAL,
        "no name");
    ok (!mg_stream_create (device, 7, "s", &err) && errno == EINVAL, "no such kind");
    ok (!mg_event_create (NULL, &err) && errno == EINVAL, "event without a device");
    ok (mg_stream_synchronize (NULL, &err) < 0 && errno == EINVAL, "synchronize nothing");
    ok (mg_event_synchronize (NULL, &err) < 0 && errno == EINVAL, "nor an event");
    ok (mg_stream_wait_event (stream, NULL, &err) < 0 && errno == EINVAL,
        "wait for nothing");
    ok (mg_stream_wait_event (stream, event, &err) < 0 && errno == EINVAL,
        "or for another device's event");
    errno = 42;
    mg_stream_destroy (NULL);
    mg_event_destroy (NULL);
    is_int (errno, 42, "destroy keeps errno, and takes NULL");
    mg_stream_destroy (stream);
    mg_event_destroy (event);
    device_destroy (device);
    device_destroy (other);
}

int main (void)
{
    kinds ();
    events ();
    times ();
    copies ();
    shared ();
    many_waits ();
    deadline_names_the_cause ();
    test_badparam ();
    return done_testing ();
}
