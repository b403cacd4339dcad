/* timers.c - sums of intervals, and their lines
 *
 * A timer that is below the chosen level does nothing.  Sums are per rank; ranks are only brought
 * together when a line is due.  The host enqueues the end of an interval long before a device may
 * come to it: such intervals stand in a queue.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcore/device/event_pool.h"
#include "libcore/device/stream.h"
#include "libcore/train/timers.h"
#include "libcore/train/trace.h"

static const struct {
    const char *name; // Megatron-LM's
    int level;
    bool host;
} rows[NUM_TIMERS] = {
    [TIMER_FORWARD_BACKWARD] = { "forward-backward", 1 },
    [TIMER_LAYERNORM_GRADS] = { "layernorm-grads-all-reduce", 1 },
    [TIMER_EMBEDDING_GRADS] = { "embedding-grads-all-reduce", 1 },
    [TIMER_DATA_GRADS] = { "all-grads-sync", 1 },
    [TIMER_CLIP_GRADS] = { "optimizer-clip-main-grad", 1 },
    [TIMER_INNER_STEP] = { "optimizer-inner-step", 1 },
    [TIMER_PARAMS_GATHER] = { "params-all-gather", 1 },
    [TIMER_OPTIMIZER] = { "optimizer", 1 },
    [TIMER_SAVE_CHECKPOINT] = { "save-checkpoint", 1, true },
    [TIMER_BATCH_GENERATOR] = { "batch-generator", 2, true },
    [TIMER_FORWARD_COMPUTE] = { "forward-compute", 2 },
    [TIMER_BACKWARD_COMPUTE] = { "backward-compute", 2 },
    [TIMER_FORWARD_RECV] = { "forward-recv", 2 },
    [TIMER_FORWARD_SEND] = { "forward-send", 2 },
    [TIMER_BACKWARD_RECV] = { "backward-recv", 2 },
    [TIMER_BACKWARD_SEND] = { "backward-send", 2 },
};

struct timer_span {
    enum timer which;
    struct mg_event *begin, *end;
};

/* The least time of an interval, so that a coarse clock does not make it 0. */
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

int timers_init (struct timers *t, int level, struct mg_stream *stream, struct trace *trace,
                 struct mg_error *err)
{
    *t = (struct timers){ .level = level, .stream = stream, .trace = trace };
    if (level > 0 && stream && !(t->events = event_pool_create (stream_device (stream), err)))
        return -1;
    return 0;
}

void timers_clear (struct timers *t)
{
    int saved_errno = errno;

    if (t->events)
        mg_stream_synchronize (t->stream, NULL); // also on failure: the events may then be freed
    for (size_t i = t->first; i < t->end; i++) {
        event_pool_put (t->events, t->span[i].begin);
        event_pool_put (t->events, t->span[i].end);
    }
    for (int i = 0; i < NUM_TIMERS && t->events; i++)
        event_pool_put (t->events, t->begin[i]);
    event_pool_destroy (t->events);
    free (t->span);
    *t = (struct timers){ .level = 0 };
    errno = saved_errno;
}

const char *timer_name (enum timer which)
{
    return rows[which].name;
}

bool timer_is_host (enum timer which)
{
    return rows[which].host;
}

void timers_start (struct timers *t, enum timer which)
{
    trace_begin (t->trace, which);
    if (t->level < rows[which].level)
        return;
    if (rows[which].host || !t->events) {
        t->begun[which] = timers_now ();
        return;
    }
    // the event of an interval that has not ended, as after a failure
    event_pool_drop (t->events, t->begin[which]);
    t->begin[which] = event_pool_record (t->events, t->stream);
}

/* Room for a span at the end; false if out of memory. */
static bool make_room (struct timers *t)
{
    size_t n = t->end - t->first, room = t->room ? 2 * t->room : 64;
    struct timer_span *more;

    if (t->end < t->room)
        return true;
    if (n < t->room / 2 + 1 && t->first > 0) {
        memmove (t->span, t->span + t->first, n * sizeof (*t->span));
    } else {
        if (!(more = malloc (room * sizeof (*more))))
            return false;
        if (n > 0)
            memcpy (more, t->span + t->first, n * sizeof (*more));
        free (t->span);
        t->span = more;
        t->room = room;
    }
    t->first = 0;
    t->end = n;
    return true;
}

void timers_stop (struct timers *t, enum timer which)
{
    struct mg_event *begin = t->begin[which], *end;

    trace_end (t->trace, which);
    if (t->level < rows[which].level)
        return;
    if (rows[which].host || !t->events) {
        t->sum[which] += fmax (timers_now () - t->begun[which], shortest);
        return;
    }
    t->begin[which] = NULL;
    end = event_pool_record (t->events, t->stream);
    if (begin && end && make_room (t)) {
        t->span[t->end++] = (struct timer_span){ which, begin, end };
    } else { // without memory, the interval is left out
        event_pool_drop (t->events, begin);
        event_pool_drop (t->events, end);
    }
    timers_collect (t);
}

/* Intervals end in the order of the stream. */
void timers_collect (struct timers *t)
{
    for (; t->first < t->end && event_reached (t->span[t->first].end); t->first++) {
        const struct timer_span *span = &t->span[t->first];
        double seconds;

        if (event_seconds (span->begin, span->end, &seconds, NULL) == 0)
            t->sum[span->which] += fmax (seconds * 1e3, shortest);
        event_pool_put (t->events, span->begin);
        event_pool_put (t->events, span->end);
    }
    if (t->first == t->end)
        t->first = t->end = 0;
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
