/* timers.c - sums of intervals, and their lines
 *
 * A timer that is below the chosen level does nothing.  Sums are per rank; ranks are only brought
 * together when a line is due.
 */

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "libcore/train/timers.h"
#include "libcore/train/trace.h"

static const struct {
    const char *name; // Megatron-LM's
    int level;
} rows[NUM_TIMERS] = {
    [TIMER_FORWARD_BACKWARD] = { "forward-backward", 1 },
    [TIMER_LAYERNORM_GRADS] = { "layernorm-grads-all-reduce", 1 },
    [TIMER_EMBEDDING_GRADS] = { "embedding-grads-all-reduce", 1 },
    [TIMER_DATA_GRADS] = { "all-grads-sync", 1 },
    [TIMER_CLIP_GRADS] = { "optimizer-clip-main-grad", 1 },
    [TIMER_INNER_STEP] = { "optimizer-inner-step", 1 },
    [TIMER_PARAMS_GATHER] = { "params-all-gather", 1 },
    [TIMER_OPTIMIZER] = { "optimizer", 1 },
    [TIMER_SAVE_CHECKPOINT] = { "save-checkpoint", 1 },
    [TIMER_BATCH_GENERATOR] = { "batch-generator", 2 },
    [TIMER_FORWARD_COMPUTE] = { "forward-compute", 2 },
    [TIMER_BACKWARD_COMPUTE] = { "backward-compute", 2 },
    [TIMER_FORWARD_RECV] = { "forward-recv", 2 },
    [TIMER_FORWARD_SEND] = { "forward-send", 2 },
    [TIMER_BACKWARD_RECV] = { "backward-recv", 2 },
    [TIMER_BACKWARD_SEND] = { "backward-send", 2 },
};

/* The time of a timer that ran is above 0, however coarse the clock is. */
static const double shortest = 1e-6;

static const char *const options[] = {
    [TIMERS_MAX] = "max",
    [TIMERS_MINMAX] = "minmax",
    [TIMERS_ALL] = "all",
};

int timers_option_parse (const char *text, enum timers_option *option, struct mg_error *err)
{
    for (size_t i = 0; i < sizeof (options) / sizeof (options[0]); i++) {
        if (strcmp (text, options[i]) == 0) {
            *option = (enum timers_option)i;
            return 0;
        }
    }
    return mg_error_set (err, EINVAL, "--timing-log-option: \"%.40s\" is not max, minmax or all",
                         text);
}

double timers_now (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* The time when all is done that was enqueued. The next wait reports a failure. */
static double settled (const struct timers *t)
{
    if (t->stream)
        mg_stream_synchronize (t->stream, NULL);
    return timers_now ();
}

const char *timer_name (enum timer which)
{
    return rows[which].name;
}

void timers_start (struct timers *t, enum timer which)
{
    trace_begin (t->trace, which);
    if (t->level >= rows[which].level)
        t->begun[which] = settled (t);
}

void timers_stop (struct timers *t, enum timer which)
{
    trace_end (t->trace, which);
    if (t->level >= rows[which].level)
        t->sum[which] += fmax (settled (t) - t->begun[which], shortest);
}

/* --- lines --- */

/* "    NAME ........: ", 48 columns wide. */
static void print_name (FILE *out, const char *name)
{
    static const char dots[] = "................................................";
    int len = (int)strlen (name) + 1;

    fprintf (out, "\n    %s %s: ", name, dots + (len < 48 ? len : 48));
}

/* The least and the most of the ranks on which a timer ran; false if there are none. */
static bool find_range (const double *times, int ranks, double *min, double *max)
{
    *min = *max = 0;
    for (int r = 0; r < ranks; r++) {
        double time = times[(size_t)r * NUM_TIMERS];

        if (time > 0 && (*max == 0 || time < *min))
            *min = time;
        if (time > *max)
            *max = time;
    }
    return *max > 0;
}

double timers_longest (const double *times, int ranks, enum timer which)
{
    double min, max;

    find_range (times + which, ranks, &min, &max);
    return max;
}

static void print_ranks (FILE *out, const char *name, const double *times, int ranks,
                         double iterations)
{
    fprintf (out, "\n  %s:", name);
    for (int r = 0; r < ranks; r++) {
        if (times[(size_t)r * NUM_TIMERS] > 0)
            fprintf (out, "\n     rank %2d: %.2f", r,
                     times[(size_t)r * NUM_TIMERS] / iterations);
    }
}

void timers_print (FILE *out, enum timers_option option, const double *times, int ranks,
                   double iterations)
{
    static const char *const titles[] = {
        [TIMERS_MAX] = "max time across ranks (ms):",
        [TIMERS_MINMAX] = "(min, max) time across ranks (ms):",
        [TIMERS_ALL] = "times across ranks (ms):",
    };
    bool any = false;

    for (int i = 0; i < NUM_TIMERS; i++) {
        double min, max;

        if (!find_range (times + i, ranks, &min, &max))
            continue;
        fputs (any ? "" : titles[option], out);
        any = true;
        if (option == TIMERS_ALL) {
            print_ranks (out, rows[i].name, times + i, ranks, iterations);
            continue;
        }
        print_name (out, rows[i].name);
        if (option == TIMERS_MAX)
            fprintf (out, "%.2f", max / iterations);
        else
            fprintf (out, "(%.2f, %.2f)", min / iterations, max / iterations);
    }
    fputs (any ? "\n" : "", out);
    fflush (out);
}
