/* trace.c - two lists, written as one
 *
 * The run's thread keeps its intervals and the calls that it makes, each with two events.  When an
 * iteration begins, the events that are reached become times and are used again.
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
#include "libcore/device/event_pool.h"
#include "libcore/device/stream.h"
#include "libcore/train/output.h"
#include "libcore/train/trace.h"

enum { LIST_START = 1024, LIST_MAX = 1 << 22, STREAMS_MAX = 64 };

enum { ITERATION = NUM_TIMERS, WRITING, REPLAY, NUM_INTERVALS };

/* The clock of a device's events. */
struct clock {
    struct mg_device *device;
    struct mg_stream *stream; /* the clock's own */
    struct event_pool *events;
    struct mg_event *zero; /* NULL: not set yet */
    double at;             /* the host's time at 'zero' */
};

enum { CLOCK_DEVICE, CLOCK_HOST, NUM_CLOCKS }; /* of the job's two devices */

/* When something was: microseconds of the monotonic clock. */
struct span {
    struct mg_event *from, *to; /* of a clock; NULL: not yet, or the times are known */
    double begin, end;          /* end 0: not known yet */
};

struct interval {
    int which; /* enum timer, or one of these */
    int microbatch, chunk; /* -1: of none */
    int layer;             /* of a replay, -1: of none */
    size_t nodes;
    int64_t iteration;
    struct span span;
};

struct call {
    struct record record;
    uint64_t stream; /* its number ... */
    char name[PROGRESS_NAME_MAX]; /* ... and its name */
    int clock;
    double time; /* when it was enqueued */
    struct span span;
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
    bool call_open; /* the last call is being enqueued */
    size_t known_intervals, known_calls; /* of the first ones all times are known */
    struct mg_stream *stream; /* the compute stream */
    struct clock clock[NUM_CLOCKS];
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

/* --- clocks --- */

static int open_clock (struct clock *c, struct mg_device *device, struct mg_error *err)
{
    c->device = device;
    c->stream = mg_stream_create (device, MG_STREAM_COMPUTE, "trace", err);
    return c->stream && (c->events = event_pool_create (device, err)) ? 0 : -1;
}

static void close_clock (struct clock *c)
{
    event_pool_put (c->events, c->zero);
    event_pool_destroy (c->events);
    mg_stream_destroy (c->stream);
    *c = (struct clock){ NULL };
}

int trace_bind (struct trace *t, struct mg_stream *stream, struct mg_error *err)
{
    if (!t)
        return 0;
    t->stream = stream;
    if (open_clock (&t->clock[CLOCK_DEVICE], job_device (t->job), err) < 0
        || open_clock (&t->clock[CLOCK_HOST], job_host (t->job), err) < 0)
        return mg_error_prefix (err, "trace");
    return 0;
}

/* The stream is empty: its event is reached between two readings of the host's clock. */
static void set_clock (struct clock *c)
{
    double before = now ();

    if (c->zero || !(c->zero = event_pool_record (c->events, c->stream)))
        return;
    mg_event_synchronize (c->zero, NULL);
    c->at = (before + now ()) / 2;
}

/* Begin the span of an item of 'list'.  The item is left out if there is no memory for its event.
 */
static void span_begin (struct clock *c, struct list *list, struct span *span,
                        struct mg_stream *stream)
{
    *span = (struct span){ .from = event_pool_record (c->events, stream) };
    list->lost += !span->from;
}

static void span_end (struct clock *c, struct span *span, struct mg_stream *stream)
{
    if (span->from)
        span->to = event_pool_record (c->events, stream);
}

/* Times instead of events, if these are reached. */
static void settle (struct clock *c, struct span *span)
{
    double begin, end;

    if (!span->to || !event_reached (span->to)
        || event_seconds (c->zero, span->from, &begin, NULL) < 0
        || event_seconds (c->zero, span->to, &end, NULL) < 0)
        return;
    event_pool_put (c->events, span->from);
    event_pool_put (c->events, span->to);
    *span = (struct span){ .begin = c->at + begin * 1e6, .end = c->at + end * 1e6 };
}

static void settle_all (struct trace *t)
{
    struct interval *interval = t->intervals.item;
    struct call *call = t->calls.item;
    bool known = true;

    for (size_t i = t->known_intervals; i < t->intervals.count; i++) {
        settle (&t->clock[CLOCK_DEVICE], &interval[i].span);
        known &= interval[i].span.end > 0;
        t->known_intervals += known;
    }
    known = true;
    for (size_t i = t->known_calls; i < t->calls.count; i++) {
        settle (&t->clock[call[i].clock], &call[i].span);
        known &= call[i].span.end > 0;
        t->known_calls += known;
    }
}

static void drop_span (struct clock *c, struct span *span)
{
    event_pool_drop (c->events, span->from);
    event_pool_drop (c->events, span->to);
}

/* --- recording --- */

/* A recorder_watch_f.  The end of a call is told before the next call begins. */
static void watch_call (void *arg, const struct record *record, struct mg_stream *stream,
                        bool begins)
{
    struct trace *t = arg;
    int clock = stream_device (stream) == t->clock[CLOCK_HOST].device ? CLOCK_HOST : CLOCK_DEVICE;
    struct call *call;

    if (begins) {
        t->call_open = (call = add (&t->calls, sizeof (*call))) != NULL;
        if (!call)
            return;
        *call = (struct call){ .record = *record, .stream = stream_place (stream).stream,
                               .clock = clock, .time = now () };
        snprintf (call->name, sizeof (call->name), "%s", stream_name (stream));
        span_begin (&t->clock[clock], &t->calls, &call->span, stream);
    } else if (t->call_open) {
        call = (struct call *)t->calls.item + t->calls.count - 1;
        span_end (&t->clock[clock], &call->span, stream);
        t->call_open = false;
    }
}

static void watch (struct trace *t, bool on)
{
    struct recorder *recorder = job_recorder (t->job);

    for (int i = 0; i < NUM_CLOCKS && on; i++)
        set_clock (&t->clock[i]);
    if (recorder)
        recorder_set_watch (recorder, on ? watch_call : NULL, t);
}

static bool is_host (int which)
{
    return which < NUM_TIMERS ? timer_is_host ((enum timer)which) : which == WRITING;
}

static void begin (struct trace *t, int which)
{
    struct interval *i = add (&t->intervals, sizeof (*i));

    t->open[which] = i ? t->intervals.count : 0;
    if (!i)
        return;
    *i = (struct interval){ .which = which, .microbatch = -1, .chunk = -1, .layer = -1,
                            .iteration = t->iteration };
    if (is_host (which))
        i->span.begin = now ();
    else
        span_begin (&t->clock[CLOCK_DEVICE], &t->intervals, &i->span, t->stream);
}

static struct interval *find_open (struct trace *t, int which)
{
    return t && t->open[which] ? (struct interval *)t->intervals.item + t->open[which] - 1
                               : NULL;
}

static void end (struct trace *t, int which)
{
    struct interval *i = find_open (t, which);

    if (!i)
        return;
    if (is_host (which))
        i->span.end = now ();
    else
        span_end (&t->clock[CLOCK_DEVICE], &i->span, t->stream);
    t->open[which] = 0;
}

void trace_iteration (struct trace *t, int64_t iteration, int64_t number)
{
    bool active;

    if (!t || t->written)
        return;
    end (t, ITERATION);
    settle_all (t);
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
                            .iteration = iteration,
                            .span = { .begin = begin * 1e3, .end = end * 1e3 } };
    t->aside = true;
}

/* --- writing --- */

/* The trace's threads: 0 is the compute stream, then come these. */
struct threads {
    const struct call *stream[STREAMS_MAX]; /* the first call of each stream */
    int num_streams;
    bool host;
};

static int host_thread (const struct threads *threads)
{
    return threads->num_streams + 1;
}

static int writing_thread (const struct threads *threads)
{
    return threads->num_streams + 1 + threads->host;
}

/* -1: there are too many streams. */
static int stream_thread (const struct threads *threads, uint64_t stream)
{
    for (int i = 0; i < threads->num_streams; i++) {
        if (threads->stream[i]->stream == stream)
            return i + 1;
    }
    return -1;
}

static void list_threads (const struct trace *t, struct threads *threads)
{
    const struct call *call = t->calls.item;
    const struct interval *interval = t->intervals.item;

    *threads = (struct threads){ .num_streams = 0 };
    for (size_t i = 0; i < t->calls.count; i++) {
        if (stream_thread (threads, call[i].stream) < 0 && threads->num_streams < STREAMS_MAX)
            threads->stream[threads->num_streams++] = &call[i];
    }
    for (size_t i = 0; i < t->intervals.count; i++)
        threads->host |= interval[i].which != WRITING && is_host (interval[i].which);
}

static void write_thread (const struct trace *t, int thread, const char *kind, const char *name)
{
    fprintf (t->file, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{"
             "\"name\":\"%s%s\"}}", job_rank (t->job), thread, kind, name);
}

/* Names of the rank's process and of its threads. */
static void write_names (const struct trace *t, const struct threads *threads)
{
    const struct grid *grid = job_grid (t->job);
    int rank = job_rank (t->job);

    fprintf (t->file, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":"
             "\"rank %d (tp %d, dp %d, pp %d)\"}},\n{\"name\":\"process_sort_index\",\"ph\":"
             "\"M\",\"pid\":%d,\"args\":{\"sort_index\":%d}}",
             rank, rank, grid_coord (grid, false, MG_AXIS_TP, rank),
             grid_coord (grid, false, MG_AXIS_DP, rank),
             grid_coord (grid, false, MG_AXIS_PP, rank), rank, rank);
    write_thread (t, 0, "compute", "");
    for (int i = 0; i < threads->num_streams; i++)
        write_thread (t, i + 1, "communication: ", threads->stream[i]->name);
    if (threads->host)
        write_thread (t, host_thread (threads), "host", "");
    if (t->aside)
        write_thread (t, writing_thread (threads), "checkpoint", "");
}

static const char *interval_name (const struct interval *i)
{
    return i->which == ITERATION ? "iteration"
           : i->which == WRITING ? "write-shard"
           : i->which == REPLAY  ? "graph-replay"
                                 : timer_name ((enum timer)i->which);
}

static void write_interval (const struct trace *t, const struct interval *i,
                            const struct threads *threads, double zero)
{
    const bool aside = i->which == WRITING;
    int thread = aside ? writing_thread (threads) : is_host (i->which) ? host_thread (threads) : 0;

    if (i->span.end == 0)
        return;
    fprintf (t->file, ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,"
             "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"iteration\":%" PRId64,
             interval_name (i), aside ? "checkpoint" : is_host (i->which) ? "host" : "compute",
             job_rank (t->job), thread, zero + i->span.begin, i->span.end - i->span.begin,
             i->iteration);
    if (i->microbatch >= 0)
        fprintf (t->file, ",\"microbatch\":%d,\"chunk\":%d", i->microbatch, i->chunk);
    if (i->layer >= 0)
        fprintf (t->file, ",\"layer\":%d", i->layer);
    if (i->which == REPLAY)
        fprintf (t->file, ",\"nodes\":%zu", i->nodes);
    fputs ("}}", t->file);
}

static void write_call (const struct trace *t, const struct call *call,
                        const struct threads *threads, double zero)
{
    int thread = stream_thread (threads, call->stream);
    char what[120];

    if (call->span.end == 0 || thread < 0)
        return;
    record_describe (&call->record, what, sizeof (what));
    fprintf (t->file, ",\n{\"name\":\"%s\",\"cat\":\"communication\",\"ph\":\"X\",\"pid\":%d,"
             "\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"group\":\"%s\",\"bytes\":%" PRIu64
             ",\"what\":\"%s\",\"enqueued\":%.3f}}",
             record_call_name (&call->record), job_rank (t->job), thread, zero + call->span.begin,
             call->span.end - call->span.begin, call->record.name, call->record.bytes, what,
             zero + call->time);
}

int trace_write (struct trace *t, struct mg_error *err)
{
    struct threads threads;
    double zero = epoch ();

    if (!t || t->written)
        return 0;
    t->written = true;
    end (t, ITERATION);
    watch (t, false);
    t->active = false;
    mg_stream_synchronize (t->stream, NULL); // a failure is seen by whoever waits next
    settle_all (t);
    if (output_restart (t->file, "--trace-file", t->path, err) < 0)
        return -1;
    list_threads (t, &threads);
    fprintf (t->file, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"left_out\":%" PRIu64 "},\n"
             "\"traceEvents\":[\n", t->intervals.lost + t->calls.lost);
    write_names (t, &threads);
    for (size_t i = 0; i < t->intervals.count; i++)
        write_interval (t, (struct interval *)t->intervals.item + i, &threads, zero);
    for (size_t i = 0; i < t->calls.count; i++)
        write_call (t, (struct call *)t->calls.item + i, &threads, zero);
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
    for (size_t i = t->known_intervals; i < t->intervals.count; i++)
        drop_span (&t->clock[CLOCK_DEVICE], &((struct interval *)t->intervals.item)[i].span);
    for (size_t i = t->known_calls; i < t->calls.count; i++) {
        struct call *call = (struct call *)t->calls.item + i;

        drop_span (&t->clock[call->clock], &call->span);
    }
    for (int i = 0; i < NUM_CLOCKS; i++)
        close_clock (&t->clock[i]);
    if (t->file)
        fclose (t->file);
    free (t->path);
    free (t->intervals.item);
    free (t->calls.item);
    free (t);
    errno = saved_errno;
}
