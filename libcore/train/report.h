/* report - the output of a run: iteration lines, timers, memory, metrics. */
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
    const char *timing_option; /* in the form of timers_option_parse() */
    const char *metrics_file;  /* NULL: there is none */
};

/* The objects that a report uses.  The run owns all of them. */
struct report_use {
    const struct report_config *config;
    struct job *job;
    struct accord *accord; /* has 'out', and notes that a file cannot be written */
    const struct memory_plan *memory; /* of this rank */
};

/* The report of a run.  All zero before report_open().  A metrics file or event file that cannot be
 * written is closed, and is a reason to stop (accord_note_output()): such a file never
 * makes the functions below fail.
 */
struct report {
    struct report_use use;
    FILE *metrics; /* on the last rank, if a file is given */
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

/* Check that the members of the configuration agree.  -1, EINVAL and a text if not. */
int report_check (const struct report_config *config, struct mg_error *err);

/* Open the files that the last rank writes, the metrics file and the directory of event files;
 * nothing is written yet.
 */
int report_open (struct report *r, const struct report_use *use,
                 const struct tensorboard_config *tensorboard, struct mg_error *err);

/* Allocate memory and start the timers.  The end of an interval waits for the model's
 * stream.  The intervals are added to 'trace', which may be NULL.
 */
int report_create (struct report *r, struct model *model, int seq_length,
                   struct trace *trace, struct mg_error *err);

/* Empty the metrics file at the beginning of a new run.  A resumed run appends to its
 * metrics file. */
int report_restart (struct report *r, struct mg_error *err);

/* Close the metrics file.  If output is lost, this is noted in the accord (accord.h). */
void report_close (struct report *r);

/* Close all files, and ignore lost output.  The timers stay. */
void report_drop (struct report *r);
void report_clear (struct report *r);

/* Report an iteration.  The caller fills in all of 'm' except rates and means.  This
 * writes the metrics and, every --log-interval iterations and after the first of the run,
 * the log line with timers and memory.  Collective.
 */
int report_iteration (struct report *r, struct metrics *m, struct mg_error *err);

/* Print the lines of an evaluation on the last rank. */
void report_evaluation (struct report *r, const struct metrics_evaluation *m);

/* After a checkpoint, with --timing-log-level, print the milliseconds for which it has
 * blocked each rank.  Collective.
 */
int report_save (struct report *r, double milliseconds, struct mg_error *err);

/* Print the bytes that ranks have planned, by kind, and allocated, and the bytes for each
 * parameter: two lines for neighbouring ranks that are alike, for at most 16 groups of
 * ranks.  Collective.
 */
int report_plan (struct report *r, struct mg_error *err);

/* Print the graphs that ranks have captured, and the time of the capture: one line for
 * neighbouring ranks that are alike, at most 16 lines.  Collective.
 */
int report_graphs (struct report *r, const struct model_graphs *graphs, double milliseconds,
                   struct mg_error *err);

/* Returns the resident set of this process in bytes, or 0 if the system does not report
 * it.  The function allocates nothing.
 */
double report_resident (void);

/* Returns the bytes that this rank has allocated: memory of the device, and pinned host memory. */
double report_allocated (const struct job *job);

/* A line of the memory of all ranks; 'when' tells of which moment. Collective. */
int report_memory (struct report *r, const char *when, struct mg_error *err);

#endif /* LIBCORE_TRAIN_REPORT_H */
