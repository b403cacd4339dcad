/* Log lines: when they are due, what they add up, where else they go. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/train/events.h"
#include "libcore/train/report.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"
#include "tests/unit/train/run.h"

static int count (const char *text, const char *what)
{
    int n = 0;

    for (; (text = strstr (text, what)); text += strlen (what))
        n++;
    return n;
}

/* Iteration i took 100 milliseconds and has the loss i. */
static void report (struct run *r, int i)
{
    struct metrics m = { .iteration = i, .train_iters = 9, .global_batch_size = 2,
                         .lm_loss = i, .grad_norm = 1, .num_zeros = -1, .params_norm = -1,
                         .milliseconds = 100 };
    struct mg_error err = { "" };

    ok (report_iteration (&r->report, &m, &err) == 0, "iteration %d %s", i, err.text);
}

static void test_lines (void)
{
    static const char *const more[] = { "--log-interval=3", "--log-memory-interval=6", NULL };
    struct run r;

    run_create (&r, more);
    r.report.first_iteration = 2; // of a run that goes on
    report (&r, 2);
    ok (count (run_log (&r), "lm loss: 2.000000E+00") == 1, "the first one has a line");
    report (&r, 3);
    ok (count (run_log (&r), "lm loss: 2.500000E+00") == 1, "which resets nothing");
    report (&r, 4);
    report (&r, 5);
    is_str (run_log (&r), "", "no line is due");
    report (&r, 6);
    ok (count (run_log (&r), "lm loss: 5.000000E+00") == 1, "the mean since the last line");
    run_destroy (&r);
}

/* A line whose iterations were all skipped has no loss, and the next one counts no zeros. */
static void test_skipped (void)
{
    static const char *const more[] = { "--log-interval=2", NULL };
    struct metrics m = { .train_iters = 9, .global_batch_size = 2, .lm_loss = 5, .grad_norm = 1,
                         .num_zeros = -1, .params_norm = -1, .milliseconds = 100 };
    struct mg_error err = { "" };
    const char *log;
    struct run r;

    run_create (&r, more);
    r.report.first_iteration = 1;
    for (m.iteration = 1; m.iteration <= 2; m.iteration++) {
        m.skipped = true;
        is_int (report_iteration (&r.report, &m, &err), 0, "skipped %s", err.text);
    }
    log = run_log (&r);
    ok (count (log, " | loss scale: ") == 2 && count (log, "lm loss") == 0, "no loss: %s", log);
    for (; m.iteration <= 4; m.iteration++) {
        m.skipped = m.iteration == 3;
        is_int (report_iteration (&r.report, &m, &err), 0, "one of two %s", err.text);
    }
    log = run_log (&r);
    ok (count (log, "lm loss: 5.000000E+00") == 1, "the loss of the other one: %s", log);
    run_destroy (&r);
}

static void test_memory (void)
{
    static const char *const more[] = { "--log-memory-interval=2", NULL };
    struct mg_error err = { "" };
    const char *log;
    struct run r;

    run_create (&r, more);
    r.report.first_iteration = 1;
    report (&r, 1);
    ok (count (run_log (&r), "(after 1 iterations) memory") == 1, "memory after the first one");
    report (&r, 2);
    ok (count (run_log (&r), "(after 2 iterations) memory") == 1, "and where it is asked for");
    report (&r, 3);
    ok (count (run_log (&r), "memory") == 0, "not otherwise");
    is_int (report_plan (&r.report, &err), 0, "the plan");
    log = run_log (&r);
    ok (count (log, "memory plan (bytes) of rank 0 | parameters: ") == 1
            && count (log, "bytes per parameter of rank 0: ") == 1, "%s", log);
    run_destroy (&r);
}

static void test_metrics (void)
{
    char argument[300];
    const char *const more[] = { argument, NULL };
    const struct metrics_evaluation m = { .part = "validation", .set = "", .iteration = 1,
                                          .samples = 4, .lm_loss = 2 };
    char *text;
    size_t len;
    struct run r;

    snprintf (argument, sizeof (argument), "--metrics-file=%s", scratch_path ("metrics"));
    run_create (&r, more);
    r.report.first_iteration = 1;
    report (&r, 1);
    report_evaluation (&r.report, &m);
    ok (strstr (run_log (&r), "validation loss at iteration 1 | lm loss value: 2.000000E+00"),
        "has a line");
    report_close (&r.report);
    report_close (&r.report);
    is_int (r.accord.output_errno, 0, "nothing is lost: %s", r.accord.output_error.text);
    text = scratch_read (scratch_path ("metrics"), &len);
    ok (memchr (text, '\n', len) && memchr (text, '{', len), "metrics are in the file");
    free (text);
    run_destroy (&r);
}

/* Let every open file whose name has 'what' in it lead to /dev/full. */
static void fill_up (const char *what)
{
    int full = open ("/dev/full", O_WRONLY);

    for (int fd = 3; full >= 0 && fd < 200; fd++) {
        char link[40], name[300] = "";

        snprintf (link, sizeof (link), "/proc/self/fd/%d", fd);
        if (readlink (link, name, sizeof (name) - 1) > 0 && strstr (name, what))
            dup2 (full, fd);
    }
    if (full >= 0)
        close (full);
}

/* A metrics or event file that cannot be written is a reason to stop, and no failure. */
static void test_full (const char *argument, const char *file, bool events)
{
    const char *const more[] = { argument, NULL };
    const struct metrics_evaluation m = { .part = "test", .set = "", .iteration = 1 };
    struct mg_error err = { "" };
    struct run r;

    run_create (&r, more);
    r.report.first_iteration = 1;
    if (tensorboard_begin (&r.report.tensorboard, &r.args, 0, &err) < 0 && events)
        bail_out ("%s", err.text);
    report (&r, 1);
    is_int (r.accord.output_errno, 0, "written");
    fill_up (file);
    report (&r, 2);
    ok (r.accord.output_errno == ENOSPC && strstr (r.accord.output_error.text, file)
            && strstr (r.accord.output_error.text, "No space left on device"), "%s",
        r.accord.output_error.text);
    report (&r, 3);
    report_evaluation (&r.report, &m);
    report_close (&r.report);
    ok (count (run_log (&r), "] iteration ") == 3, "the log goes on");
    run_destroy (&r);
}

static void test_lost (void)
{
    char metrics[300], events[300];
    struct mg_error err;

    if (access ("/dev/full", W_OK) < 0) {
        skip (12, "no /dev/full");
        return;
    }
    snprintf (metrics, sizeof (metrics), "--metrics-file=%s", scratch_path ("m.json"));
    test_full (metrics, "m.json", false);
    if (events_check (&err) < 0) {
        skip (6, "%s", err.text);
        return;
    }
    snprintf (events, sizeof (events), "--tensorboard-dir=%s", scratch_path ("events"));
    test_full (events, "tfevents", true);
}

static void test_check (void)
{
    struct report_config config = { .interval = 2, .memory_interval = 4,
                                    .timing_option = "minmax" };
    struct mg_error err = { "" };

    is_int (report_check (&config, &err), 0, "goes together");
    config.memory_interval = 3;
    ok (report_check (&config, &err) < 0 && errno == EINVAL
            && strstr (err.text, "--log-memory-interval 3"), "%s", err.text);
    config.memory_interval = 0;
    is_int (report_check (&config, &err), 0, "no interval");
    config.timing_option = "min";
    ok (report_check (&config, &err) < 0 && strstr (err.text, "\"min\""), "%s", err.text);
}

int main (void)
{
    scratch_create ();
    test_check ();
    test_lines ();
    test_skipped ();
    test_memory ();
    test_metrics ();
    test_lost ();
    return done_testing ();
}
