/* trace.c - write three lists as one file
 *
 * The run's thread keeps its intervals, and the calls that it makes with the place of each
 * on its lane; the communication thread keeps the times at which it reached each place of
 * each lane.  Calls and places are put together at the end, so that neither thread waits
 * for the other.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcore/base/parse.h"
#include "libcore/comm/recorder.h"
#include "libcore/device/device.h"
#include "libcore/device/queue.h"
#include "libcore/train/output.h"
#include "libcore/train/trace.h"

enum { LIST_START = 1024, LIST_MAX = 1 << 22, LANES_MAX = 64 };

enum { ITERATION = NUM_TIMERS, WRITING, REPLAY, NUM_INTERVALS };

/* Times are microseconds of the monotonic clock. */
struct interval {
    int which; /* enum timer, or one of these */
    int microbatch, chunk; /* -1: of none */
    int layer;             /* of a replay, -1: of none */
    size_t nodes;
    int64_t iteration;
    double begin, end;
};

struct call {
    struct record record;
    const struct queue_lane *lane;
    uint64_t mark;
    double time;
};

struct turn {
    const struct queue_lane *lane;
    uint64_t mark;
    double begin, end;
};

struct list {
    void *item;
    size_t count, capacity;
    uint64_t lost; /* there was no room */
};

struct trace {
    const struct job *job;
    char *path;
    FILE *file;
    int64_t first, last, iteration;
    bool active, written;
    size_t open[NUM_INTERVALS]; /* 1 + its interval, 0: none */
    bool aside;                 /* there are some of WRITING */
    struct list intervals, calls;
    struct list turns; /* the communication thread's until it is told to stop */
};

static double now (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* The difference between a time since 1970 and a monotonic time. */
static double epoch (void)
{
    struct timespec t;

    clock_gettime (CLOCK_REALTIME, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3 - now ();
}

/* Room for another item, NULL: there is none, which is counted. */
static void *add (struct list *list, size_t size)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : LIST_START;
        void *item = capacity <= LIST_MAX ? realloc (list->item, capacity * size) : NULL;

        if (!item) {
            list->lost++;
            return NULL;
        }
        list->item = item;
        list->capacity = capacity;
    }
    return (char *)list->item + list->count++ * size;
}

int trace_iterations_parse (const char *text, int64_t range[2], struct mg_error *err)
{
    const char *dash = strchr (text, '-');
    char first[32];
    size_t len = dash ? (size_t)(dash - text) : strlen (text);

    snprintf (first, sizeof (first), "%.*s", len < sizeof (first) ? (int)len : 31, text);
    if (len >= sizeof (first)
        || parse_int64 ("--trace-iterations", first, 1, INT64_MAX, &range[0], err) < 0
        || parse_int64 ("--trace-iterations", dash ? dash + 1 : first, 1, INT64_MAX, &range[1],
                        err) < 0
        || range[1] < range[0])
        return mg_error_set (err, EINVAL, "--trace-iterations: \"%.40s\" is not a number from "
                             "1 or a range such as 2-4", text);
    return 0;
}

char *trace_path (const char *file, int rank)
{
    const char *slash = strrchr (file, '/'), *name = slash ? slash + 1 : file;
    const char *dot = strrchr (name, '.');
    int stem = dot && dot > name ? (int)(dot - file) : (int)strlen (file);
    char *path;

    if (asprintf (&path, "%.*s-%d%s", stem, file, rank, file + stem) < 0)
        return NULL;
    return path;
}

/* No rank writes to the name itself, so its kind is checked here. */
static int check_name (const char *file, struct mg_error *err)
{
    return output_check_file ("--trace-file", file, err);
}

struct trace *trace_create (const char *file, const int64_t range[2], const struct job *job,
                            struct mg_error *err)
{
    struct trace *t = calloc (1, sizeof (*t));

    if (check_name (file, err) < 0)
        goto error;
    if (!t || !(t->path = trace_path (file, job_rank (job)))) {
        mg_error_set (err, ENOMEM, "trace: out of memory");
        goto error;
    }
    t->job = job;
    t->first = range[0];
    t->last = range[1];
    if (!(t->file = output_open ("--trace-file", t->path, OUTFILE_WHOLE, err)))
        goto error;
    return t;
error:
    trace_destroy (t);
    return NULL;
}

/* --- recording --- */

static void watch_call (void *arg, const struct record *record, const struct queue_lane *lane,
                        uint64_t mark)
{
    struct trace *t = arg;
    struct call *call = lane ? add (&t->calls, sizeof (*call)) : NULL;

    if (call)
        *call = (struct call){ *record, lane, mark, now () };
}

/* On the communication thread.  A lane does one work at a time, so that the end belongs to
 * the lane's last beginning.
 */
static void watch_work (void *arg, const struct queue_lane *lane, uint64_t mark, bool begins)
{
    struct trace *t = arg;
    struct turn *turn;

    if (begins) {
        if ((turn = add (&t->turns, sizeof (*turn))))
            *turn = (struct turn){ lane, mark, now (), 0 };
        return;
    }
    for (size_t i = t->turns.count; i-- > 0;) {
        turn = (struct turn *)t->turns.item + i;
        if (turn->lane != lane)
            continue;
        if (turn->mark == mark)
            turn->end = now ();
        return;
    }
}

static void watch (struct trace *t, bool on)
{
    struct recorder *recorder = job_recorder (t->job);
    const struct queue_watch queue = { watch_work, t };

    if (recorder) {
        device_set_watch (job_device (t->job), on ? &queue : NULL);
        recorder_set_watch (recorder, on ? watch_call : NULL, t);
    }
}

static void begin (struct trace *t, int which)
{
    struct interval *i = add (&t->intervals, sizeof (*i));

    if (i)
        *i = (struct interval){ .which = which, .microbatch = -1, .chunk = -1, .layer = -1,
                                .iteration = t->iteration, .begin = now () };
    t->open[which] = i ? t->intervals.count : 0;
}

static struct interval *find_open (struct trace *t, int which)
{
    return t && t->open[which] ? (struct interval *)t->intervals.item + t->open[which] - 1
                               : NULL;
}

static void end (struct trace *t, int which)
{
    struct interval *i = find_open (t, which);

    if (i) {
        i->end = now ();
        t->open[which] = 0;
    }
}

void trace_iteration (struct trace *t, int64_t iteration, int64_t number)
{
    bool active;

    if (!t || t->written)
        return;
    end (t, ITERATION);
    active = number >= t->first && number <= t->last;
    if (active != t->active)
        watch (t, active);
    t->active = active;
    t->iteration = iteration;
    if (active)
        begin (t, ITERATION);
}

bool trace_is_full (const struct trace *t, int64_t number)
{
    return t && !t->written && number >= t->last;
}

void trace_begin (struct trace *t, enum timer which)
{
    if (t && t->active)
        begin (t, which);
}

void trace_end (struct trace *t, enum timer which)
{
    if (t && t->active)
        end (t, which);
}

void trace_detail (struct trace *t, enum timer which, int microbatch, int chunk)
{
    struct interval *i = find_open (t, which);

    if (i) {
        i->microbatch = microbatch;
        i->chunk = chunk;
    }
}

void trace_replay (struct trace *t, int layer, size_t nodes, bool begins)
{
    struct interval *i;

    if (!t || !t->active)
        return;
    if (!begins) {
        end (t, REPLAY);
        return;
    }
    begin (t, REPLAY);
    if ((i = find_open (t, REPLAY))) {
        i->layer = layer;
        i->nodes = nodes;
    }
}

void trace_written (struct trace *t, int64_t iteration, double begin, double end)
{
    struct interval *i = t && t->active ? add (&t->intervals, sizeof (*i)) : NULL;

    if (!i)
        return;
    *i = (struct interval){ .which = WRITING, .microbatch = -1, .chunk = -1, .layer = -1,
                            .iteration = iteration, .begin = begin * 1e3, .end = end * 1e3 };
    t->aside = true;
}

/* --- writing --- */

/* Names of the rank's process and of its threads. */
static void write_names (const struct trace *t, const struct queue_lane *const *lane,
                         int num_lanes)
{
    const struct grid *grid = job_grid (t->job);
    int rank = job_rank (t->job);
    FILE *f = t->file;

    fprintf (f, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank %d "
             "(tp %d, dp %d, pp %d)\"}},\n{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%d,"
             "\"args\":{\"sort_index\":%d}},\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,"
             "\"tid\":0,\"args\":{\"name\":\"compute\"}}",
             rank, rank, grid_coord (grid, false, MG_AXIS_TP, rank),
             grid_coord (grid, false, MG_AXIS_DP, rank),
             grid_coord (grid, false, MG_AXIS_PP, rank), rank, rank, rank);
    for (int i = 0; i < num_lanes; i++)
        fprintf (f, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{"
                 "\"name\":\"communication: %s\"}}", rank, i + 1, queue_lane_name (lane[i]));
    if (t->aside)
        fprintf (f, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{"
                 "\"name\":\"checkpoint\"}}", rank, num_lanes + 1);
}

static const char *interval_name (const struct interval *i)
{
    return i->which == ITERATION ? "iteration"
           : i->which == WRITING ? "write-shard"
           : i->which == REPLAY  ? "graph-replay"
                                 : timer_name ((enum timer)i->which);
}

static void write_interval (const struct trace *t, const struct interval *i, int num_lanes,
                            double zero)
{
    const bool aside = i->which == WRITING;

    if (i->end == 0)
        return;
    fprintf (t->file, ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,"
             "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"iteration\":%" PRId64,
             interval_name (i), aside ? "checkpoint" : "compute", job_rank (t->job),
             aside ? num_lanes + 1 : 0, zero + i->begin, i->end - i->begin, i->iteration);
    if (i->microbatch >= 0)
        fprintf (t->file, ",\"microbatch\":%d,\"chunk\":%d", i->microbatch, i->chunk);
    if (i->layer >= 0)
        fprintf (t->file, ",\"layer\":%d", i->layer);
    if (i->which == REPLAY)
        fprintf (t->file, ",\"nodes\":%zu", i->nodes);
    fputs ("}}", t->file);
}

static void write_call (const struct trace *t, const struct call *call, const struct turn *turn,
                        int thread, double zero)
{
    char what[120];

    record_describe (&call->record, what, sizeof (what));
    fprintf (t->file, ",\n{\"name\":\"%s\",\"cat\":\"communication\",\"ph\":\"X\",\"pid\":%d,"
             "\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"group\":\"%s\",\"bytes\":%" PRIu64
             ",\"what\":\"%s\",\"enqueued\":%.3f}}",
             record_call_name (&call->record), job_rank (t->job), thread, zero + turn->begin,
             turn->end - turn->begin, call->record.name, call->record.bytes, what,
             zero + call->time);
}

static int compare_turns (const void *a, const void *b)
{
    const struct turn *x = a, *y = b;

    if (x->lane != y->lane)
        return (uintptr_t)x->lane < (uintptr_t)y->lane ? -1 : 1;
    return x->mark < y->mark ? -1 : x->mark > y->mark;
}

/* Threads: the lanes that calls were made on, in the order of their first ones. */
static int list_lanes (const struct trace *t, const struct queue_lane *lane[LANES_MAX])
{
    const struct call *call = t->calls.item;
    int n = 0;

    for (size_t i = 0; i < t->calls.count; i++) {
        int k = 0;

        while (k < n && lane[k] != call[i].lane)
            k++;
        if (k == n && n < LANES_MAX)
            lane[n++] = call[i].lane;
    }
    return n;
}

static void write_calls (const struct trace *t, const struct queue_lane *const *lane,
                         int num_lanes, double zero)
{
    const struct call *call = t->calls.item;

    if (t->turns.count > 0)
        qsort (t->turns.item, t->turns.count, sizeof (struct turn), compare_turns);
    for (size_t i = 0; i < t->calls.count && t->turns.count > 0; i++) {
        const struct turn key = { .lane = call[i].lane, .mark = call[i].mark };
        const struct turn *turn = bsearch (&key, t->turns.item, t->turns.count, sizeof (key),
                                           compare_turns);
        int k = 0;

        while (k < num_lanes && lane[k] != call[i].lane)
            k++;
        if (turn && turn->end > 0 && k < num_lanes)
            write_call (t, &call[i], turn, k + 1, zero);
    }
}

int trace_write (struct trace *t, struct mg_error *err)
{
    const struct queue_lane *lane[LANES_MAX];
    double zero = epoch ();
    int num_lanes;

    if (!t || t->written)
        return 0;
    t->written = true;
    end (t, ITERATION);
    watch (t, false);
    t->active = false;
    if (output_restart (t->file, "--trace-file", t->path, err) < 0)
        return -1;
    num_lanes = list_lanes (t, lane);
    fprintf (t->file, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"left_out\":%" PRIu64 "},\n"
             "\"traceEvents\":[\n", t->intervals.lost + t->calls.lost + t->turns.lost);
    write_names (t, lane, num_lanes);
    for (size_t i = 0; i < t->intervals.count; i++)
        write_interval (t, (struct interval *)t->intervals.item + i, num_lanes, zero);
    write_calls (t, lane, num_lanes, zero);
    fputs ("\n]}\n", t->file);
    return output_close (&t->file, "--trace-file", t->path, err);
}

void trace_destroy (struct trace *t)
{
    int saved_errno = errno;

    if (!t)
        return;
    if (t->active)
        watch (t, false);
    if (t->file)
        fclose (t->file);
    free (t->path);
    free (t->intervals.item);
    free (t->calls.item);
    free (t->turns.item);
    free (t);
    errno = saved_errno;
}
