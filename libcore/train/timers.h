/* timers - the times of the parts of an iteration, on every rank: Megatron-LM's timers,
 * with its names, levels and lines (core/timers.py).
 *
 * A timer is a sum of intervals between two readings of a clock; nothing is allocated, and
 * below its level a timer costs a comparison.  The host waits for the compute stream at
 * both ends of an interval, so the interval contains the work that was enqueued in it.
 * There are no barriers: the time that one rank waits for another is in the timer of the
 * operation that waits.
 */
#ifndef LIBCORE_TRAIN_TIMERS_H
#define LIBCORE_TRAIN_TIMERS_H

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
    TIMER_OPTIMIZER,        /* clip-grads, inner-step and params-gather together */
    TIMER_SAVE_CHECKPOINT,  /* the time for which checkpoints block the run */
    TIMER_BATCH_GENERATOR,  /* reading samples; part of forward-compute */
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

struct trace;

struct timers {
    int level;                /* 0: no timer runs */
    struct trace *trace;      /* records all intervals, whatever the level; NULL: none */
    struct mg_stream *stream; /* NULL: nothing to wait for */
    double begun[NUM_TIMERS], sum[NUM_TIMERS]; /* milliseconds */
};

/* Milliseconds of a monotonic clock. */
double timers_now (void);

/* Name of a timer. */
const char *timer_name (enum timer which);

void timers_start (struct timers *t, enum timer which);
void timers_stop (struct timers *t, enum timer which);

/* Returns the longest time of a timer among the ranks, 0 if it ran on none.  'times' are
 * those of timers_print(). */
double timers_longest (const double *times, int ranks, enum timer which);

/* Print lines of all timers that ran on some rank.  The sums of rank r begin at times[r
 * NUM_TIMERS], and are divided by 'iterations'.  A timer's line leaves out ranks on which
 * the timer did not run.  Prints nothing if none ran.
 */
void timers_print (FILE *out, enum timers_option option, const double *times, int ranks,
                   double iterations);

#endif /* LIBCORE_TRAIN_TIMERS_H */
