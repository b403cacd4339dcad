/* graph.c - captures: which streams belong to one, what they refuse
 *
 * Each stream of a capture has a clock: for every stream of the capture, how much of its work comes
 * before what is enqueued next.  An event keeps the clock of its stream, and a wait takes the
 * maximum of both.  So at the end the clock of the first stream tells whether it has waited for
 * everything.  The backend keeps the work itself (struct graph_ops).
 */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/device_ops.h"
#include "libcore/device/graph.h"

struct device_graph {
    const struct graph_ops *ops;
    void *impl;
    size_t nodes;
};

enum { PLACE_MAX = 64 };

struct capture {
    uint64_t id; /* number among the device's captures, by which an event knows whether its mark
                  * is of this one */
    const struct graph_ops *ops;
    struct kernels *kernels; /* whose calls come here ... */
    struct kern_taker taker; /* ... by this */
    void *impl;
    struct mg_stream *stream[GRAPH_MAX_STREAMS]; /* the first one began */
    char name[GRAPH_MAX_STREAMS][STREAM_NAME_MAX]; /* of each, which may be gone */
    uint32_t clock[GRAPH_MAX_STREAMS][GRAPH_MAX_STREAMS];
    char last[GRAPH_MAX_STREAMS][2 * PLACE_MAX]; /* the place of a stream's last work */
    int num_streams;
    size_t nodes;
    bool inside; /* a piece of work is running; what it enqueues is part of its node */
    char layer[PLACE_MAX], phase[PLACE_MAX]; /* what is captured, for texts */
    struct mg_error refused; /* the first thing that was refused; empty: nothing */
};

/* The thread's capture. */
static _Thread_local struct capture *current;

bool graph_capturing (void)
{
    return current != NULL;
}

void graph_place (const char *layer, const char *phase)
{
    if (current) {
        snprintf (current->layer, PLACE_MAX, "%s", layer);
        snprintf (current->phase, PLACE_MAX, "%s", phase);
    }
}

/* "layer 3: router: ", as far as it is known. */
static void format_place (const struct capture *c, char text[2 * PLACE_MAX])
{
    snprintf (text, (size_t)2 * PLACE_MAX, "%.60s%s%.60s%s", c->layer, c->layer[0] ? ": " : "",
              c->phase, c->phase[0] ? ": " : "");
}

/* Remember the first refusal, with its place. */
static void note_refusal (struct capture *c, const char *place, const char *what)
{
    if (!c->refused.text[0])
        mg_error_set (&c->refused, EPERM, "%sa graph cannot have %s", place, what);
}

int graph_refuse (struct mg_error *err, const char *fmt, ...)
{
    char what[MG_ERROR_MAX], place[2 * PLACE_MAX];
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (what, sizeof (what), fmt, ap);
    va_end (ap);
    if (current) {
        format_place (current, place);
        note_refusal (current, place, what);
    }
    return mg_error_set (err, EPERM, "a graph cannot have %s", what);
}

int graph_refuse_event (struct mg_error *err)
{
    return mg_error_set (err, EPERM, "an event was last recorded in the capture of a graph: "
                         "nothing outside of it can wait for the event");
}

/* --- streams --- */

/* The place of a stream in the capture; -1: it is not in it. */
static int place_of (const struct capture *c, const struct mg_stream *stream)
{
    for (int i = 0; i < c->num_streams; i++) {
        if (c->stream[i] == stream)
            return i;
    }
    return -1;
}

/* The place of a stream that is given work. */
static int enter (struct capture *c, const struct mg_stream *stream, const char *what,
                  struct mg_error *err)
{
    int at = place_of (c, stream);

    if (at < 0)
        return graph_refuse (err, "%s on stream %s, which was not forked into the capture", what,
                             stream->name);
    c->clock[at][at]++;
    format_place (c, c->last[at]);
    return at;
}

static int add_stream (struct capture *c, struct mg_stream *stream, struct mg_error *err)
{
    int at = c->num_streams;

    if (at == GRAPH_MAX_STREAMS)
        return graph_refuse (err, "more than %d streams", GRAPH_MAX_STREAMS);
    c->stream[at] = stream;
    memcpy (c->name[at], stream->name, STREAM_NAME_MAX);
    return c->num_streams++;
}

/* --- work --- */

/* Hand work over, or enqueue it where the backend's libraries capture what is enqueued. */
static int hand_over (struct capture *c, struct mg_stream *stream, const struct graph_work *work,
                      struct mg_error *err)
{
    bool before = c->inside;
    int rc;

    if (c->ops->work)
        return c->ops->work (c->impl, stream, work, err);
    c->inside = true;
    rc = work->run (work->args, stream, err);
    c->inside = before;
    return rc;
}

int graph_add (struct mg_stream *stream, const struct graph_work *work, struct mg_error *err)
{
    struct capture *c = current;

    if (enter (c, stream, work->name, err) < 0)
        return -1;
    c->nodes += !c->inside;
    return hand_over (c, stream, work, err);
}

/* A kern_taker. */
static int add_kernel (void *arg, const struct kernels *k, const struct kern_call *call,
                       struct mg_error *err)
{
    struct capture *c = arg;

    if (enter (c, call->stream, kern_op_name (call->op), err) < 0)
        return -1;
    c->nodes += !c->inside;
    return c->ops->kernel ? c->ops->kernel (c->impl, k, call, err)
                          : k->ops->run[call->op](k, call->args, call->stream, err);
}

/* --- events --- */

struct event_args {
    struct mg_event *event;
};

static int replay_record (const void *args, struct mg_stream *stream, struct mg_error *err)
{
    struct mg_event *event = ((const struct event_args *)args)->event;

    (void)err;
    event_record (event, stream);
    return 0;
}

static int replay_wait (const void *args, struct mg_stream *stream, struct mg_error *err)
{
    struct mg_event *event = ((const struct event_args *)args)->event;

    return stream_wait_event (stream, event, err);
}

static int add_event (struct capture *c, struct mg_stream *stream, struct mg_event *event,
                      bool record, struct mg_error *err)
{
    const struct event_args args = { event };
    const struct graph_work work = {
        .name = record ? "event record" : "event wait",
        .run = record ? replay_record : replay_wait,
        .args = &args,
        .size = sizeof (args),
    };

    return hand_over (c, stream, &work, err);
}

void graph_record_event (struct mg_event *event, struct mg_stream *stream)
{
    struct capture *c = current;
    int at = enter (c, stream, "an event's record", NULL);

    if (at < 0)
        return; // graph_end() will tell
    event->capture = c->id;
    memcpy (event->clock, c->clock[at], sizeof (event->clock));
    if (add_event (c, stream, event, true, NULL) < 0)
        graph_refuse (NULL, "more work: out of memory");
}

int graph_wait_event (struct mg_stream *stream, struct mg_event *event, struct mg_error *err)
{
    struct capture *c = current;
    int at = place_of (c, stream);

    if (event->capture != c->id)
        return graph_refuse (err, "a wait of stream %s for an event that was recorded outside of "
                             "the capture", stream->name);
    if (at < 0 && (at = add_stream (c, stream, err)) < 0)
        return -1;
    for (int i = 0; i < GRAPH_MAX_STREAMS; i++) {
        if (event->clock[i] > c->clock[at][i])
            c->clock[at][i] = event->clock[i];
    }
    if (at > 0) { // a fork without work has to be joined, too
        c->clock[at][at]++;
        format_place (c, c->last[at]);
    }
    return add_event (c, stream, event, false, err);
}

/* --- the capture --- */

static void forget (struct capture *c)
{
    c->kernels->taker = NULL;
    if (c->impl)
        c->ops->destroy (c->impl);
    free (c);
    current = NULL;
}

/* Kernels hand their calls to the capture of their device. */
static int start (struct capture *c, struct mg_stream *stream, struct mg_error *err)
{
    struct kernels *k = stream->device->kernels;

    if (k->taker)
        return mg_error_set (err, EBUSY, "graph: another thread captures on this device");
    c->id = ++stream->device->captures;
    c->ops = stream->device->ops->graph;
    c->kernels = k;
    add_stream (c, stream, err);
    c->taker = (struct kern_taker){ .take = add_kernel, .arg = c };
    if (!(c->impl = c->ops->begin (stream, err)))
        return -1;
    k->taker = &c->taker;
    return 0;
}

int graph_begin (struct mg_stream *stream, struct mg_error *err)
{
    if (current)
        return mg_error_set (err, EBUSY, "graph: this thread captures already");
    if (stream->kind != MG_STREAM_COMPUTE)
        return mg_error_set (err, EINVAL, "graph: a capture begins on a compute stream, not on %s",
                             stream->name);
    if (!stream->device->ops->graph)
        return mg_error_set (err, ENOTSUP, "graph: %s devices have none",
                             stream->device->ops->name);
    if (!(current = calloc (1, sizeof (*current))))
        return mg_error_set (err, ENOMEM, "graph: out of memory");
    if (start (current, stream, err) == 0)
        return 0;
    free (current);
    current = NULL;
    return -1;
}

static void check_joins (struct capture *c)
{
    for (int i = 1; i < c->num_streams; i++) {
        char what[MG_ERROR_MAX];

        if (c->clock[0][i] == c->clock[i][i])
            continue;
        snprintf (what, sizeof (what), "work on stream %s that stream %s does not wait for",
                  c->name[i], c->name[0]);
        note_refusal (c, c->last[i], what);
    }
}

struct device_graph *graph_end (struct mg_error *err)
{
    struct capture *c = current;
    struct device_graph *graph;

    if (!c) {
        mg_error_set (err, EINVAL, "graph: this thread captures nothing");
        return NULL;
    }
    check_joins (c);
    if (c->refused.text[0]) {
        mg_error_set (err, EPERM, "%s", c->refused.text);
        goto error;
    }
    if (!(graph = calloc (1, sizeof (*graph)))) {
        mg_error_set (err, ENOMEM, "graph: out of memory");
        goto error;
    }
    graph->ops = c->ops;
    graph->nodes = c->nodes;
    graph->impl = c->ops->instantiate (c->impl, c->stream, c->num_streams, err);
    if (!graph->impl) {
        free (graph);
        goto error;
    }
    forget (c);
    return graph;
error:
    forget (c);
    return NULL;
}

void graph_cancel (void)
{
    if (current) {
        int saved_errno = errno;
        forget (current);
        errno = saved_errno;
    }
}

/* --- graphs --- */

struct device_graph *graph_finish (int rc, struct mg_error *err)
{
    if (rc == 0)
        return graph_end (err);
    graph_cancel ();
    return NULL;
}

int graph_replay (const struct device_graph *graph, struct mg_error *err)
{
    if (current)
        return graph_refuse (err, "a replay of another graph");
    return graph->ops->replay (graph->impl, err);
}

void graph_destroy (struct device_graph *graph)
{
    if (graph) {
        int saved_errno = errno;
        graph->ops->destroy_graph (graph->impl);
        free (graph);
        errno = saved_errno;
    }
}

size_t graph_nodes (const struct device_graph *graph)
{
    return graph->nodes;
}

size_t graph_bytes (const struct device_graph *graph)
{
    return sizeof (*graph) + graph->ops->bytes (graph->impl);
}

size_t graph_device_bytes (const struct device_graph *graph)
{
    return graph->ops->device_bytes ? graph->ops->device_bytes (graph->impl) : 0;
}
