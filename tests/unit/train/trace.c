/* trace.c - test a trace on a device whose streams run behind the host: tests/lib/device_late.c */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libcore/device/device.h"
#include "libcore/device/stream.h"
#include "libcore/train/trace.h"
#include "tests/tap/tap.h"

/* Work that ends when its gate opens: what is behind it on the stream has to wait. */
struct step {
    struct work work;
    _Atomic int gate, polls;
};

static int step_poll (struct work *work, struct mg_error *err)
{
    struct step *step = (struct step *)work;

    (void)err;
    step->polls++;
    return step->gate;
}

static void step_describe (const struct work *work, char *text, size_t max)
{
    (void)work;
    snprintf (text, max, "a step");
}

static void pause_ms (int ms)
{
    struct timespec t = { .tv_nsec = ms * 1000000L };

    nanosleep (&t, NULL);
}

/* Let the stream come to the step, and stay there for some time. */
static void pass_gate (struct step *step, int ms)
{
    while (step->polls == 0)
        pause_ms (1);
    pause_ms (ms);
    step->gate = 1;
}

static struct job *make_job (void)
{
    const struct job_config config = {
        .geometry = { .tp = 1, .cp = 1, .pp = 1, .ep = 1, .vpp = 1, .order = "tp-cp-ep-dp-pp" },
        .timeout = 60, .threads = 1,
    };
    struct mg_error err = { "" };
    struct job *job = job_create (&config, &err);

    if (!job)
        bail_out ("%s", err.text);
    return job;
}

/* The file's text. */
static char *read_text (const char *path)
{
    static char text[1 << 14];
    FILE *f = fopen (path, "r");
    size_t n = f ? fread (text, 1, sizeof (text) - 1, f) : 0;

    text[n] = '\0';
    if (f)
        fclose (f);
    return text;
}

/* A number of the event of that name; -1: there is none. */
static double number_of (const char *text, const char *name, const char *key)
{
    char want[80];
    const char *at;

    snprintf (want, sizeof (want), "{\"name\":\"%s\"", name);
    if (!(at = strstr (text, want)))
        return -1;
    snprintf (want, sizeof (want), "\"%s\":", key);
    return (at = strstr (at, want)) ? atof (at + strlen (want)) : -1;
}

/* The host has enqueued all of it before the stream comes to any. */
static void record (struct trace *t, struct mg_stream *stream)
{
    struct step first = { .work = { .poll = step_poll, .describe = step_describe } };
    struct step second = first;
    struct mg_error err = { "" };

    trace_iteration (t, 1, 1);
    trace_begin (t, TIMER_FORWARD_COMPUTE);
    stream_submit (stream, &first.work, &err);
    trace_end (t, TIMER_FORWARD_COMPUTE);
    trace_begin (t, TIMER_BACKWARD_COMPUTE);
    stream_submit (stream, &second.work, &err);
    trace_end (t, TIMER_BACKWARD_COMPUTE);
    trace_begin (t, TIMER_BATCH_GENERATOR);
    pause_ms (10);
    trace_end (t, TIMER_BATCH_GENERATOR);
    pass_gate (&first, 10);
    pass_gate (&second, 40);
    is_int (mg_stream_synchronize (stream, &err), 0, "the stream comes to its end");
    trace_iteration (t, 2, 2);
}

static void check (const char *text, double before, double after)
{
    double forward = number_of (text, "forward-compute", "ts");
    double forward_long = number_of (text, "forward-compute", "dur");
    double backward = number_of (text, "backward-compute", "ts");

    ok (forward_long >= 10000, "a pass lasts as long as on its stream: %g us", forward_long);
    ok (number_of (text, "backward-compute", "dur") >= 40000, "so does the next one");
    ok (backward >= forward + forward_long - 1, "which begins when the stream comes to it");
    ok (forward >= before - 1e4 && backward < after + 1e4, "by the host's clock");
    ok (number_of (text, "batch-generator", "dur") >= 10000
            && number_of (text, "batch-generator", "tid") != number_of (text, "forward-compute",
                                                                        "tid"),
        "the host's work is on a thread of its own");
    ok (number_of (text, "iteration", "dur") >= 50000, "the iteration has all of it");
}

static double microseconds (void)
{
    struct timespec t;

    clock_gettime (CLOCK_REALTIME, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void *open_later (void *arg)
{
    pass_gate (arg, 50);
    return NULL;
}

/* A trace that is destroyed while its stream works: the stream still writes to its events. */
static void test_drop (struct trace *t, struct mg_stream *stream)
{
    struct step step = { .work = { .poll = step_poll, .describe = step_describe } };
    struct mg_error err = { "" };
    pthread_t thread;

    trace_iteration (t, 1, 1);
    trace_begin (t, TIMER_FORWARD_COMPUTE);
    stream_submit (stream, &step.work, &err);
    trace_end (t, TIMER_FORWARD_COMPUTE);
    if (pthread_create (&thread, NULL, open_later, &step) != 0)
        bail_out ("no thread");
    trace_destroy (t);
    is_int (step.gate, 1, "a trace waits for its events before it goes");
    pthread_join (thread, NULL);
    is_int (mg_stream_synchronize (stream, &err), 0, "the stream comes to its end");
}

int main (void)
{
    const int64_t range[2] = { 1, 1 };
    const char *build = getenv ("MG_BUILDDIR");
    char dir[4096], path[64] = "trace-XXXXXX", file[80];
    struct mg_error err = { "" };
    struct mg_stream *stream;
    struct trace *t;
    struct job *job;
    double before;

    snprintf (dir, sizeof (dir), "%s/tests/lib/.libs", build ? build : ".");
    setenv ("MEGATRON_MODULE_DIR", dir, 1);
    setenv ("MG_TEST_DEVICE", "late", 1);
    if (!mkdtemp (path))
        bail_out ("no folder %s", path);
    snprintf (file, sizeof (file), "%s/t.json", path);
    job = make_job ();
    is_str (device_name (job_device (job)), "late", "a device that runs behind the host");
    stream = mg_stream_create (job_device (job), MG_STREAM_COMPUTE, "compute", &err);
    t = trace_create (file, range, job, &err);
    is_int (trace_bind (t, stream, &err), 0, "a trace of a stream of it");
    is_int (trace_bind (NULL, stream, &err), 0, "no trace is none");
    before = microseconds ();
    record (t, stream);
    is_int (trace_write (t, &err), 0, "written");
    snprintf (file, sizeof (file), "%s/t-0.json", path);
    check (read_text (file), before, microseconds ());
    trace_destroy (t);
    snprintf (file, sizeof (file), "%s/t.json", path);
    t = trace_create (file, range, job, &err);
    is_int (trace_bind (t, stream, &err), 0, "another one, which is not written");
    test_drop (t, stream);
    mg_stream_destroy (stream);
    job_destroy (job);
    snprintf (file, sizeof (file), "%s/t-0.json", path);
    unlink (file);
    rmdir (path);
    return done_testing ();
}
