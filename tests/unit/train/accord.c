/* Reasons to stop, and what is noted of failures. */

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "libcore/train/accord.h"
#include "tests/tap/tap.h"

static struct job *job;

/* What 'out' has, from its beginning. */
static const char *text_of (FILE *out)
{
    static char text[400];
    size_t n;

    rewind (out);
    n = fread (text, 1, sizeof (text) - 1, out);
    text[n] = '\0';
    return text;
}

static struct accord make (const char *signals, double minutes)
{
    struct accord a = { .job = job, .out = tmpfile (), .minutes = minutes };
    struct mg_error err;

    if (!(a.stop = stop_create (signals, minutes, &err)))
        bail_out ("%s", err.text);
    return a;
}

static void clear (struct accord *a)
{
    stop_destroy (a->stop);
    fclose (a->out);
}

static void test_nothing (void)
{
    struct accord a = make (NULL, -1);
    double reasons[ACCORD_NUM_REASONS];

    accord_ask_to_stop (&a, reasons);
    ok (reasons[ACCORD_SIGNAL] == 0 && reasons[ACCORD_EXPIRED] == 0
            && reasons[ACCORD_ASKED] == 0 && reasons[ACCORD_OUTPUT] == 0,
        "there is no reason to stop");
    accord_decide_to_stop (&a, reasons);
    ok (!a.stopping, "and the run goes on");
    clear (&a);
}

static void test_signal (void)
{
    struct accord a = make ("USR1", -1);
    double reasons[ACCORD_NUM_REASONS];

    raise (SIGUSR1);
    accord_ask_to_stop (&a, reasons);
    ok (reasons[ACCORD_SIGNAL] == 1 && !a.stopping, "a signal is a reason, and nothing more");
    accord_decide_to_stop (&a, reasons);
    accord_decide_to_stop (&a, reasons);
    ok (a.stopping && !a.output_lost, "the run stops");
    is_str (text_of (a.out), "stopping: SIGUSR1 has come\n", "one line says why");
    clear (&a);
}

static void test_others (void)
{
    const double signal[ACCORD_NUM_REASONS] = { [ACCORD_SIGNAL] = 3 };
    const double output[ACCORD_NUM_REASONS] = { [ACCORD_OUTPUT] = 1 };
    struct accord a = make (NULL, -1), b = make (NULL, -1);

    accord_decide_to_stop (&a, signal);
    is_str (text_of (a.out), "stopping: a signal has come to another rank\n", "another rank's");
    accord_decide_to_stop (&b, output);
    ok (b.stopping && b.output_lost, "another rank cannot write its log");
    is_str (text_of (b.out), "", "which no log says");
    clear (&a);
    clear (&b);
}

static void test_asked (void)
{
    struct accord a = make (NULL, -1);
    double reasons[ACCORD_NUM_REASONS];

    a.asked = true;
    accord_ask_to_stop (&a, reasons);
    ok (reasons[ACCORD_ASKED] == 1 && !a.stopping, "the program of this rank asks");
    accord_decide_to_stop (&a, reasons);
    ok (a.stopping, "the run stops");
    is_str (text_of (a.out), "stopping: the program asks for it\n", "as a line says");
    clear (&a);
}

static void test_clock (void)
{
    struct accord a = make (NULL, 0);
    double reasons[ACCORD_NUM_REASONS];

    accord_ask_to_stop (&a, reasons);
    is_int (reasons[ACCORD_EXPIRED], 1, "the time is up");
    accord_decide_to_stop (&a, reasons);
    is_str (text_of (a.out), "stopping: --exit-duration-in-mins 0 is over\n", "as a line says");
    clear (&a);
}

static void test_output (void)
{
    struct accord a = { .job = job, .out = fopen ("/dev/full", "w") };
    struct mg_error err = { "" };
    double reasons[ACCORD_NUM_REASONS];

    if (!a.out || !(a.stop = stop_create (NULL, -1, &err)))
        bail_out ("no /dev/full %s", err.text);
    fprintf (a.out, "a line\n");
    ok (accord_check_output (&a, &err) < 0 && errno == ENOSPC
            && strstr (err.text, "standard output cannot be written"), "%s", err.text);
    accord_ask_to_stop (&a, reasons);
    is_int (reasons[ACCORD_OUTPUT], 1, "a log that is full is a reason to stop");
    clear (&a);
}

static void test_failures (void)
{
    struct accord a = make (NULL, -1), before = { .job = NULL };
    struct mg_error err = { "why" };

    ok (accord_common (&a, 0) == 0 && !a.common_error, "success");
    ok (accord_common (&a, 1) == 1 && !a.common_error, "of whatever kind");
    ok (accord_common (&a, -1) == -1 && a.common_error, "all have failed");
    ok (accord_agree (&a, 0, &err) == 0 && !a.common_error, "no rank has failed");
    ok (accord_agree (&a, -1, &err) == -1 && a.common_error, "the one rank has failed");
    ok (accord_common (&before, -1) == -1 && before.common_error, "before there is a job");
    clear (&a);
}

int main (void)
{
    struct job_config config = { .timeout = 60, .threads = 1 };
    struct mg_error err;

    geometry_init (&config.geometry);
    if (!(job = job_create (&config, &err)))
        bail_out ("%s", err.text);
    test_nothing ();
    test_signal ();
    test_others ();
    test_asked ();
    test_clock ();
    test_output ();
    test_failures ();
    job_destroy (job);
    return done_testing ();
}
