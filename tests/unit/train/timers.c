/* Timers: sums, levels, and Megatron-LM's lines. */

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcore/device/device.h"
#include "libcore/device/stream.h"
#include "libcore/train/timers.h"
#include "tests/tap/tap.h"

static void pause_ms (int ms)
{
    struct timespec t = { .tv_nsec = ms * 1000000L };

    nanosleep (&t, NULL);
}

static void test_sums (void)
{
    struct timers t = { .level = 1 };

    for (int i = 0; i < 2; i++) {
        timers_start (&t, TIMER_OPTIMIZER);
        timers_start (&t, TIMER_INNER_STEP);
        timers_start (&t, TIMER_BATCH_GENERATOR);
        pause_ms (5);
        timers_stop (&t, TIMER_BATCH_GENERATOR);
        timers_stop (&t, TIMER_INNER_STEP);
        pause_ms (5);
        timers_stop (&t, TIMER_OPTIMIZER);
    }
    ok (t.sum[TIMER_OPTIMIZER] >= 20 && t.sum[TIMER_OPTIMIZER] < 60000, "a sum of two: %g",
        t.sum[TIMER_OPTIMIZER]);
    ok (t.sum[TIMER_INNER_STEP] >= 10
            && t.sum[TIMER_INNER_STEP] <= t.sum[TIMER_OPTIMIZER] - 10,
        "a part of it: %g", t.sum[TIMER_INNER_STEP]);
    ok (t.sum[TIMER_BATCH_GENERATOR] == 0, "level 2 does not run at level 1");
    t.level = 0;
    memset (t.sum, 0, sizeof (t.sum));
    timers_start (&t, TIMER_OPTIMIZER);
    pause_ms (1);
    timers_stop (&t, TIMER_OPTIMIZER);
    ok (t.sum[TIMER_OPTIMIZER] == 0, "nothing runs at level 0");
    t.level = 2;
    timers_start (&t, TIMER_BACKWARD_SEND);
    pause_ms (1);
    timers_stop (&t, TIMER_BACKWARD_SEND);
    ok (t.sum[TIMER_BACKWARD_SEND] >= 1, "level 2 runs at level 2");
}

/* Work that ends when its gate opens. */
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

/* Let the stream come to the step, and stay there for some time. */
static void pass_gate (struct step *step, int ms)
{
    while (step->polls == 0)
        pause_ms (1);
    pause_ms (ms);
    step->gate = 1;
}

/* The host is through with many intervals before the stream comes to the first one. */
static void fill (struct timers *t, struct mg_stream *stream, struct step *first,
                  struct step *second)
{
    *first = *second = (struct step){ .work = { .poll = step_poll, .describe = step_describe } };
    timers_start (t, TIMER_FORWARD_BACKWARD);
    timers_start (t, TIMER_FORWARD_COMPUTE);
    stream_submit (stream, &first->work, NULL);
    timers_stop (t, TIMER_FORWARD_COMPUTE);
    timers_start (t, TIMER_BACKWARD_COMPUTE);
    stream_submit (stream, &second->work, NULL);
    timers_stop (t, TIMER_BACKWARD_COMPUTE);
    timers_stop (t, TIMER_FORWARD_BACKWARD);
    for (int i = 0; i < 200; i++) {
        timers_start (t, TIMER_OPTIMIZER);
        timers_stop (t, TIMER_OPTIMIZER);
    }
}

static void test_late_stream (void)
{
    const struct device_config config = { .name = "late", .threads = 1, .timeout = 60 };
    const char *build = getenv ("MG_BUILDDIR");
    struct mg_error err = { "" };
    struct mg_device *device;
    struct mg_stream *stream;
    struct device_waits waits;
    struct timers t;
    struct step first, second;
    char dir[4096];

    snprintf (dir, sizeof (dir), "%s/tests/lib/.libs", build ? build : ".");
    setenv ("MEGATRON_MODULE_DIR", dir, 1);
    if (!(device = device_create (&config, &err)))
        bail_out ("%s", err.text);
    stream = mg_stream_create (device, MG_STREAM_COMPUTE, "compute", &err);
    is_int (timers_init (&t, 2, stream, NULL, &err), 0, "timers of a stream");
    fill (&t, stream, &first, &second);
    waits = device_waits (device);
    ok (waits.streams == 0 && waits.events == 0, "the host has waited for nothing");
    timers_collect (&t);
    ok (t.sum[TIMER_FORWARD_COMPUTE] == 0 && t.sum[TIMER_OPTIMIZER] == 0, "nothing has ended yet");
    pass_gate (&first, 10);
    pass_gate (&second, 40);
    mg_stream_synchronize (stream, &err);
    timers_collect (&t);
    ok (t.sum[TIMER_FORWARD_COMPUTE] >= 10 && t.sum[TIMER_BACKWARD_COMPUTE] >= 40,
        "as long as on the stream: %g and %g", t.sum[TIMER_FORWARD_COMPUTE],
        t.sum[TIMER_BACKWARD_COMPUTE]);
    ok (t.sum[TIMER_FORWARD_BACKWARD] >= 50, "and the whole of it");
    ok (t.sum[TIMER_OPTIMIZER] > 0, "what was behind has run, too");
    timers_start (&t, TIMER_OPTIMIZER);
    timers_clear (&t);
    ok (t.level == 0 && !t.events, "cleared while one runs");
    mg_stream_destroy (stream);
    device_destroy (device);
}

/* What is printed of three ranks; free it. */
static char *print (enum timers_option option, const double *times)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream (&text, &size);

    timers_print (f, option, times, 3, 2);
    fclose (f);
    return text;
}

static void test_lines (void)
{
    static const char *const want[] = {
        [TIMERS_MAX] = "max time across ranks (ms):\n"
                       "    forward-backward ...............................: 20.00\n"
                       "    forward-recv ...................................: 1.50\n",
        [TIMERS_MINMAX] = "(min, max) time across ranks (ms):\n"
                          "    forward-backward ...............................: (5.25, 20.00)\n"
                          "    forward-recv ...................................: (1.50, 1.50)\n",
        [TIMERS_ALL] = "times across ranks (ms):\n"
                       "  forward-backward:\n"
                       "     rank  0: 10.00\n"
                       "     rank  1: 20.00\n"
                       "     rank  2: 5.25\n"
                       "  forward-recv:\n"
                       "     rank  1: 1.50\n",
    };
    double times[3 * NUM_TIMERS] = { 0 };

    for (int option = TIMERS_MAX; option <= TIMERS_ALL; option++) {
        char *text = print ((enum timers_option)option, times);

        is_str (text, "", "nothing ran: nothing is printed");
        free (text);
    }
    times[0 * NUM_TIMERS + TIMER_FORWARD_BACKWARD] = 20;
    times[1 * NUM_TIMERS + TIMER_FORWARD_BACKWARD] = 40;
    times[2 * NUM_TIMERS + TIMER_FORWARD_BACKWARD] = 10.5;
    times[1 * NUM_TIMERS + TIMER_FORWARD_RECV] = 3;
    for (int option = TIMERS_MAX; option <= TIMERS_ALL; option++) {
        char *text = print ((enum timers_option)option, times);

        is_str (text, want[option], "option %d", option);
        free (text);
    }
}

static void test_badparam (void)
{
    static const char *const words[] = { "max", "minmax", "all" };
    enum timers_option option = TIMERS_ALL;
    struct mg_error err = { "" };

    for (int i = 0; i < 3; i++)
        ok (timers_option_parse (words[i], &option, &err) == 0 && (int)option == i, "%s",
            words[i]);
    ok (timers_option_parse ("min", &option, &err) == -1 && errno == EINVAL, "min");
    is_str (err.text, "--timing-log-option: \"min\" is not max, minmax or all", "says why");
    ok (timers_option_parse ("", &option, &err) == -1, "nothing");
}

int main (void)
{
    test_sums ();
    test_late_stream ();
    test_lines ();
    test_badparam ();
    return done_testing ();
}
