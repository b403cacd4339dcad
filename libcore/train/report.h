/* report - what a run says while it goes: iteration lines, timers, memory, metrics. */
#ifndef LIBCORE_TRAIN_REPORT_H
#define LIBCORE_TRAIN_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "libcore/job/job.h"
#include "libcore/train/accord.h"
#include "libcore/train/memory.h"
#include "libcore/train/metrics.h"
#include "libcore/train/tensorboard.h"
#include "libcore/train/timers.h"
#include "megatron/error.h"

struct report_config {
    int64_t interval;          /* iterations between log lines */
    int64_t memory_interval;   /* between lines of memory, 0: only after the first iteration */
    bool throughput;           /* log lines have rates */
    int timing_level;          /* of timers.h */
    const char *timing_option; /* as timers_option_parse() takes it */
    const char *metrics_file;  /* NULL: there is none */
};

/* What a report is made of.  All of it belongs to the run. */
struct report_use {
    const struct report_config *config;
    struct job *job;
    struct accord *accord; /* with 'out'; a file that cannot be written is noted there */
    const struct memory_plan *memory; /* of this rank */
};

/* The report of a run.  All zero before report_open().  A metrics file or event file that cannot be
 * written is closed, and is a reason to stop (accord_note_output()): a failure of the functions
 * below is never about such a file.
 */
struct report {
    struct report_use use;
    FILE *metrics; /* on the last rank, if asked for */
    struct tensorboard tensorboard;
    int64_t first_iteration; /* of this run, from 1: set by the run */
    double flops;       /* floating-point operations of training on a sequence */
    int64_t seq_length; /* tokens of a sequence */
    struct timers timers;
    enum timers_option option;
    double *gathered; /* [world][REPORT_MAX] */
    /* since the last log line */
    int64_t iterations, samples, not_finite, skipped;
    double milliseconds, loss; /* sums */
    double router_loss[ROUTER_NUM_LOSSES];
};

/* Does the configuration go together?  -1, EINVAL and a text if not. */
int report_check (const struct report_config *config, struct mg_error *err);

/* Open the files that the last rank writes, the metrics file and the directory of event files;
 * nothing is written yet.
 */
int report_open (struct report *r, const struct report_use *use,
                 const struct tensorboard_config *tensorboard, struct mg_error *err);

/* Allocate, and let the timers run: intervals wait for the model's stream, and a trace, NULL if
 * there is none, gets them.
 */
int report_create (struct report *r, struct model *model, int seq_length,
                   struct trace *trace, struct mg_error *err);

/* A new run begins: empty the metrics file.  That of a run that goes on is appended to. */
int report_restart (struct report *r, struct mg_error *err);

/* Close the metrics file.  If anything that was written to it is lost, accord.h knows. */
void report_close (struct report *r);

/* Close all files, whatever was lost; the timers stay. */
void report_drop (struct report *r);
void report_clear (struct report *r);

/* After an iteration, of which m tells all but rates and means: the log line if it is due
 * (every --log-interval iterations, and after the first of the run), with timers and
 * memory, and the metrics. Collective.
 */
int report_iteration (struct report *r, struct metrics *m, struct mg_error *err);

/* After an evaluation: its lines, from the last rank. */
void report_evaluation (struct report *r, const struct metrics_evaluation *m);

/* After a checkpoint, with --timing-log-level: lines of the milliseconds for which it kept each
 * rank from going on.  Collective.
 */
int report_save (struct report *r, double milliseconds, struct mg_error *err);

/* Lines of what ranks have planned to allocate, by kind, and have allocated, in bytes, and
 * what a parameter takes: two for neighbours that are alike, 16 times at most.  Collective.
 */
int report_plan (struct report *r, struct mg_error *err);

/* Lines of what ranks have captured into graphs, and how long that took: one for neighbours that
 * are alike, 16 at most.  Collective.
 */
int report_graphs (struct report *r, const struct model_graphs *graphs, double milliseconds,
                   struct mg_error *err);

/* Returns the resident set of this process in bytes, or 0 where the system does not say.  The
 * function allocates nothing.
 */
double report_resident (void);

/* Returns the bytes that this rank has allocated: memory of the device, and pinned host memory. */
double report_allocated (const struct job *job);

/* A line of the memory of all ranks; 'when' tells of which moment. Collective. */
int report_memory (struct report *r, const char *when, struct mg_error *err);

#endif /* LIBCORE_TRAIN_REPORT_H */
