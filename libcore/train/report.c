/* report.c - log lines of a run, from the last rank
 *
 * Every rank takes part in the gatherings, and the last rank prints.  Times are those since the
 * last line; memory is that of the plan and that of the system.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "libcore/base/multiple.h"
#include "libcore/train/report.h"
#include "libcore/train/tensorboard.h"
#include "libcore/train/train_private.h"

/* Kinds of memory of a rank, in bytes. */
enum use {
    USE_PARAMETERS,  /* with gradients and moments, as planned */
    USE_ACTIVATIONS, /* as planned */
    USE_PLANNED,        /* both, and for communication */
    USE_RESIDENT, /* of the process: code, libraries, data too */
    USE_MAX_RESIDENT,
    NUM_USES
};

static const char *const use_names[NUM_USES] = {
    [USE_PARAMETERS] = "parameters and optimizer",
    [USE_ACTIVATIONS] = "activations",
    [USE_PLANNED] = "planned",
    [USE_RESIDENT] = "resident",
    [USE_MAX_RESIDENT] = "max resident",
};

/* Of a plan: its kinds, their sum, what was allocated; what bytes a parameter follow from. */
enum {
    PLAN_TOTAL = NUM_MEMORY_KINDS, PLAN_ALLOCATED,
    PLAN_ELEMENTS, PLAN_PADDING, PLAN_SHARDS,
    NUM_PLAN
};

enum { MAX_LINES = 16 };

enum { REPORT_MAX = (int)NUM_TIMERS > (int)NUM_PLAN ? (int)NUM_TIMERS : (int)NUM_PLAN };
_Static_assert ((int)NUM_USES <= (int)REPORT_MAX, "room for a line of memory");

int report_check (const struct train_args *args, struct mg_error *err)
{
    enum timers_option option;
    char of[40];

    snprintf (of, sizeof (of), "--log-interval %" PRId64, args->log_interval);
    if (args->log_memory_interval != TRAIN_UNSET
        && multiple_check ("--log-memory-interval", args->log_memory_interval, args->log_interval,
                           of, "", err) < 0)
        return -1;
    if (tensorboard_check (args, err) < 0)
        return -1;
    return timers_option_parse (args->timing_log_option, &option, err);
}

int report_create (struct train *t, struct mg_error *err)
{
    struct report *r = &t->report;

    r->flops = model_flops (t->model);
    r->timers.level = t->args.timing_log_level;
    r->timers.stream = model_stream (t->model);
    r->timers.trace = t->trace;
    if (!(r->gathered = calloc ((size_t)job_world (t->job) * REPORT_MAX,
                                sizeof (*r->gathered))))
        return mg_error_set (err, ENOMEM, "report: out of memory");
    return timers_option_parse (t->args.timing_log_option, &r->option, err);
}

void report_clear (struct report *r)
{
    free (r->gathered);
    *r = (struct report){ 0 };
}

static bool is_speaker (const struct train *t)
{
    return job_rank (t->job) == job_world (t->job) - 1;
}

/* Every rank's 'n' numbers to all: the speaker is one of them. */
static int gather (struct train *t, const double *own, int n, struct mg_error *err)
{
    if (mg_comm_all_gather (job_control (t->job), own, t->report.gathered, (size_t)n,
                            MG_FLOAT64, NULL, err) < 0)
        return mg_error_prefix (err, "log line");
    return 0;
}

/* --- memory --- */

double report_resident (void)
{
    char text[128];
    long long pages = 0;
    int fd = open ("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read (fd, text, sizeof (text) - 1) : -1;

    if (fd >= 0)
        close (fd);
    if (n > 0) {
        const char *second = memchr (text, ' ', (size_t)n);

        text[n] = '\0';
        pages = second ? strtoll (second, NULL, 10) : 0;
    }
    return (double)pages * (double)sysconf (_SC_PAGESIZE);
}

static void print_memory (const struct train *t, const char *when)
{
    const double mib = 1 << 20;
    int world = job_world (t->job);

    fprintf (t->out, " (%s) memory (MB)", when);
    for (int kind = 0; kind < NUM_USES; kind++) {
        int most = 0;

        for (int r = 1; r < world; r++) {
            if (t->report.gathered[r * NUM_USES + kind]
                > t->report.gathered[most * NUM_USES + kind])
                most = r;
        }
        fprintf (t->out, " | %s: %.2f", use_names[kind],
                 t->report.gathered[most * NUM_USES + kind] / mib);
        if (world > 1)
            fprintf (t->out, " (rank %d)", most);
    }
    fputs (" |\n", t->out);
    fflush (t->out);
}

int report_memory (struct train *t, const char *when, struct mg_error *err)
{
    struct rusage usage;
    double own[NUM_USES];

    own[USE_PARAMETERS] = (double)memory_state (&t->memory);
    own[USE_ACTIVATIONS] = (double)memory_activations (&t->memory);
    own[USE_PLANNED] = (double)memory_total (&t->memory);
    own[USE_RESIDENT] = report_resident ();
    getrusage (RUSAGE_SELF, &usage);
    own[USE_MAX_RESIDENT] = (double)usage.ru_maxrss * 1024; // Linux counts it in KiB
    if (own[USE_MAX_RESIDENT] < own[USE_RESIDENT])       // and a little late
        own[USE_MAX_RESIDENT] = own[USE_RESIDENT];
    if (gather (t, own, NUM_USES, err) < 0)
        return -1;
    if (is_speaker (t))
        print_memory (t, when);
    return 0;
}

static void print_plan (const struct train *t, int first, int last)
{
    const double *row = t->report.gathered + first * NUM_PLAN;
    struct memory_plan plan = { .elements = (int64_t)row[PLAN_ELEMENTS],
                                .padding = (int64_t)row[PLAN_PADDING],
                                .shards = (int)row[PLAN_SHARDS] };
    char ranks[32], each[MEMORY_EACH_TEXT];
    int n = snprintf (ranks, sizeof (ranks), "rank %d", first);

    if (last > first)
        snprintf (ranks + n, sizeof (ranks) - (size_t)n, "-%d", last);
    for (int k = 0; k < NUM_MEMORY_KINDS; k++)
        plan.bytes[k] = (int64_t)row[k];
    memory_each_describe (&plan, each);
    fprintf (t->out, " memory plan (bytes) of %s", ranks);
    for (int k = 0; k < NUM_MEMORY_KINDS; k++)
        fprintf (t->out, " | %s: %.0f", memory_kind_names[k], row[k]);
    fprintf (t->out, " | planned: %.0f | allocated: %.0f |\n", row[PLAN_TOTAL],
             row[PLAN_ALLOCATED]);
    fprintf (t->out, " bytes per parameter of %s: %s | parameters: %.0f | padding: %.0f |\n",
             ranks, each, row[PLAN_ELEMENTS], row[PLAN_PADDING]);
}

int report_plan (struct train *t, struct mg_error *err)
{
    const double *all = t->report.gathered;
    int world = job_world (t->job), lines = 0;
    double own[NUM_PLAN];

    for (int k = 0; k < NUM_MEMORY_KINDS; k++)
        own[k] = (double)t->memory.bytes[k];
    own[PLAN_TOTAL] = (double)memory_total (&t->memory);
    own[PLAN_ALLOCATED] = (double)device_allocated (job_device (t->job));
    own[PLAN_ELEMENTS] = (double)t->memory.elements;
    own[PLAN_PADDING] = (double)t->memory.padding;
    own[PLAN_SHARDS] = t->memory.shards;
    if (gather (t, own, NUM_PLAN, err) < 0)
        return -1;
    for (int first = 0, next; is_speaker (t) && first < world; first = next) {
        next = first + 1;
        while (next < world
               && memcmp (all + first * NUM_PLAN, all + next * NUM_PLAN, sizeof (own)) == 0)
            next++;
        if (lines++ < MAX_LINES)
            print_plan (t, first, next - 1);
    }
    if (is_speaker (t))
        fflush (t->out);
    return 0;
}

/* --- iterations --- */

static struct metrics_rate rate (const struct train *t, int64_t samples, double milliseconds)
{
    double seconds = milliseconds > 0 ? milliseconds / 1e3 : 1e-9, n = (double)samples;

    return (struct metrics_rate){
        .tokens_per_second = n * (double)t->config.seq_length / seconds,
        .tflops = n * t->report.flops / seconds / 1e12 / job_world (t->job),
    };
}

/* Times of all ranks, per iteration since the last line. */
static int report_timers (struct train *t, int64_t iteration, bool reset,
                          struct mg_error *err)
{
    struct report *r = &t->report;

    if (r->timers.level == 0)
        return 0;
    if (gather (t, r->timers.sum, NUM_TIMERS, err) < 0)
        return -1;
    if (is_speaker (t))
        timers_print (t->out, r->option, r->gathered, job_world (t->job),
                      (double)r->iterations);
    if (reset)
        memset (r->timers.sum, 0, sizeof (r->timers.sum));
    return tensorboard_timers (t, iteration, err);
}

int report_save (struct train *t, double milliseconds, struct mg_error *err)
{
    struct report *r = &t->report;
    double own[NUM_TIMERS] = { [TIMER_SAVE_CHECKPOINT] = milliseconds };

    if (r->timers.level == 0)
        return 0;
    if (gather (t, own, NUM_TIMERS, err) < 0)
        return -1;
    if (is_speaker (t))
        timers_print (t->out, r->option, r->gathered, job_world (t->job), 1);
    return 0;
}

static bool memory_is_due (const struct train *t, int64_t iteration)
{
    int64_t interval = t->args.log_memory_interval;

    return iteration == t->first_iteration
           || (interval != TRAIN_UNSET && iteration % interval == 0);
}

/* As Megatron-LM the first iteration of a run has a line out of turn, which resets nothing. */
static int report_line (struct train *t, struct metrics *m, struct mg_error *err)
{
    struct report *r = &t->report;
    bool due = m->iteration % t->args.log_interval == 0;
    int64_t updates = r->iterations - r->skipped;
    char when[64];

    if (!due && m->iteration != t->first_iteration)
        return 0;
    m->mean_milliseconds = r->milliseconds / (double)r->iterations;
    m->mean_lm_loss = r->loss / (double)(updates > 1 ? updates : 1);
    m->num_not_finite = r->not_finite;
    m->num_skipped = r->skipped;
    m->mean = rate (t, r->samples, r->milliseconds);
    if (is_speaker (t))
        metrics_print (t->out, m, t->args.log_throughput);
    if (tensorboard_line (t, m, err) < 0)
        return -1;
    snprintf (when, sizeof (when), "after %" PRId64 " iterations", m->iteration);
    if (memory_is_due (t, m->iteration) && report_memory (t, when, err) < 0)
        return -1;
    if (report_timers (t, m->iteration, due, err) < 0)
        return -1;
    if (due) {
        r->iterations = r->samples = r->not_finite = r->skipped = 0;
        r->milliseconds = r->loss = 0;
    }
    return 0;
}

int report_iteration (struct train *t, struct metrics *m, struct mg_error *err)
{
    struct report *r = &t->report;

    r->iterations++;
    r->samples += m->global_batch_size;
    r->milliseconds += m->milliseconds;
    r->loss += m->skipped ? 0 : m->lm_loss;
    r->not_finite += m->not_finite;
    r->skipped += m->skipped;
    m->rate = rate (t, m->global_batch_size, m->milliseconds);
    if (report_line (t, m, err) < 0 || tensorboard_iteration (t, m, err) < 0)
        return -1;
    if (t->metrics)
        return metrics_write_json (t->metrics, t->args.metrics_file, m, err);
    return 0;
}
