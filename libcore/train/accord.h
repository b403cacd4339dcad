/* accord - agreements of the ranks of a run on failures, and on the end of the run.
 *
 * If one rank failed while the others go on, these would wait for it.  If all ranks
 * failed in the same way, each would print the same text.  So ranks agree on the result
 * if one rank may fail alone, and record that all ranks have failed.  Signals, clocks and
 * full disks reach ranks at different steps, so a rank stops only when all ranks know the
 * reason.
 */
#ifndef LIBCORE_TRAIN_ACCORD_H
#define LIBCORE_TRAIN_ACCORD_H

#include <stdbool.h>
#include <stdio.h>

#include "libcore/job/job.h"
#include "libcore/train/stop.h"
#include "megatron/error.h"

/* 'job', 'out' and 'stop' belong to the run.  The other members are zeros at first. */
struct accord {
    struct job *job;   /* NULL before there is one */
    FILE *out;         /* log lines */
    struct stop *stop;
    double minutes;    /* time limit of the run, for a line of the log */
    bool common_error; /* every rank has failed, and with the same text */
    bool asked;        /* by the program on this rank: ACCORD_ASKED */
    bool stopping;     /* all ranks know of a reason to stop after this iteration */
    int output_errno;  /* of the first output that this rank could not write; 0: none */
    struct mg_error output_error; /* the text of that failure */
    bool output_lost;  /* all ranks know that an output was lost; 'stopping' is true */
};

/* Note in 'common_error' whether all ranks have failed: call this with the result 'rc' of a call
 * that gave every rank the same result, or if it is known that all fail here.  Returns rc.
 */
int accord_common (struct accord *a, int rc);

/* Agree on a result.  Collective.  -1 on all ranks, with the text of the failed rank, if
 * 'rc' is -1 on one.
 */
int accord_agree (struct accord *a, int rc, struct mg_error *err);

/* Reasons to stop the run. */
enum accord_reason {
    ACCORD_SIGNAL,  /* a signal has come */
    ACCORD_EXPIRED, /* the time is up by the rank's clock */
    ACCORD_ASKED,   /* the program asks for it */
    ACCORD_OUTPUT,  /* the rank cannot write its log lines, or a file of accord_note_output() */
    ACCORD_NUM_REASONS
};

/* Fill in, for each reason, 1 if it holds on this rank, else 0. */
void accord_ask_to_stop (struct accord *a, double reasons[ACCORD_NUM_REASONS]);

/* Set 'stopping' if a reason holds on some rank; rank 0 prints the reason once.  'reasons' are sums
 * over all ranks, so every rank decides the same.
 */
void accord_decide_to_stop (struct accord *a, const double reasons[ACCORD_NUM_REASONS]);

/* Note that this rank could not write an output of the run (metrics, events, a trace), with the
 * text and the errno of the failure.  The run then stops as if its log could not be written.
 */
void accord_note_output (struct accord *a, int errnum, const struct mg_error *why);

/* Fail if 'out' cannot be written.  Not collective. */
int accord_check_output (struct accord *a, struct mg_error *err);

#endif /* LIBCORE_TRAIN_ACCORD_H */
