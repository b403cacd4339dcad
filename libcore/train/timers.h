/* timers - the times of the parts of an iteration, on every rank: Megatron-LM's timers,
 * with its names, levels and lines (core/timers.py).
 *
 * A timer is a sum of intervals.  An interval lies between two timed events on the compute stream,
 * so that it is the device's time for what was enqueued in between, and the host does not wait for
 * it; only work of the host is timed by the host's clock.  Below its level a timer costs a
 * comparison.  No barrier is made: what one rank waits for another shows in the timer of the
 * operation that it waits in.
 */
#ifndef LIBCORE_TRAIN_TIMERS_H
#define LIBCORE_TRAIN_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "megatron/error.h"
#include "megatron/stream.h"

enum timer {
    TIMER_FORWARD_BACKWARD, /* all passes and transfers of an iteration */
    TIMER_LAYERNORM_GRADS,  /* reduction of the gradients of sequence parallelism */
    TIMER_EMBEDDING_GRADS,  /* reduction of the gradients of tied embeddings */
    TIMER_DATA_GRADS,       /* reduction of gradients over the data-parallel group */
    TIMER_CLIP_GRADS,       /* the norm, and the division by tokens */
    TIMER_INNER_STEP,       /* AdamW */
    TIMER_PARAMS_GATHER,    /* parameters of a distributed optimizer; overlapped: its start */
    TIMER_OPTIMIZER,        /* the three */
    TIMER_SAVE_CHECKPOINT,  /* what checkpoints keep the run from going on; of the host */
    TIMER_BATCH_GENERATOR,  /* reading samples; of the host */
    TIMER_FORWARD_COMPUTE,  /* passes, with their tensor-parallel collectives */
    TIMER_BACKWARD_COMPUTE,
    TIMER_FORWARD_RECV,     /* waits for transfers between pipeline stages */
    TIMER_FORWARD_SEND,
    TIMER_BACKWARD_RECV,
    TIMER_BACKWARD_SEND,
    NUM_TIMERS
};

enum timers_option { TIMERS_MAX, TIMERS_MINMAX, TIMERS_ALL };

/* Parse a word of --timing-log-option.  -1, EINVAL and a text that lists the words. */
int timers_option_parse (const char *text, enum timers_option *option, struct mg_error *err);

struct event_pool;
struct timer_span;
struct trace;

/* All zero, or made by timers_init(). */
struct timers {
    int level;                /* 0: none runs */
    struct trace *trace;      /* gets all intervals, whatever the level; NULL: none */
    struct mg_stream *stream; /* NULL: all timers are the host's */
    double begun[NUM_TIMERS], sum[NUM_TIMERS]; /* milliseconds */
    struct event_pool *events;          /* of the stream's device */
    struct mg_event *begin[NUM_TIMERS]; /* of intervals that the host has not ended */
    struct timer_span *span;            /* [room] intervals that only the stream has not ended: */
    size_t first, end, room;            /* those from 'first' on, before 'end' */
};

/* -1 and a text if out of memory. */
int timers_init (struct timers *t, int level, struct mg_stream *stream, struct trace *trace,
                 struct mg_error *err);

/* Before the stream's device goes.  Waits for the stream. */
void timers_clear (struct timers *t);

/* Milliseconds of a clock that only goes on. */
double timers_now (void);

/* Name of a timer. */
const char *timer_name (enum timer which);

/* True if a timer measures the host's work, whatever the stream does. */
bool timer_is_host (enum timer which);

void timers_start (struct timers *t, enum timer which);
void timers_stop (struct timers *t, enum timer which);

/* Add the intervals that have ended on the stream to the sums.  Never blocks. */
void timers_collect (struct timers *t);

/* The longest time of a timer among the ranks, 0 if it ran on none; times as below. */
double timers_longest (const double *times, int ranks, enum timer which);

/* Print lines of all timers that ran on some rank.  The sums of rank r begin at times[r
 * NUM_TIMERS], and are divided by 'iterations'.  A timer's line leaves out ranks on which
 * the timer did not run.  Prints nothing if none ran.
 */
void timers_print (FILE *out, enum timers_option option, const double *times, int ranks,
                   double iterations);

#endif /* LIBCORE_TRAIN_TIMERS_H */
