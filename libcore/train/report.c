/* report.c - log lines of a run, from the last rank
 *
 * Every rank takes part in the gatherings, and the last rank prints.  Times are those since the
 * last line; memory is that of the plan and that of the system.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "libcore/base/multiple.h"
#include "libcore/train/memory.h"
#include "libcore/train/output.h"
#include "libcore/train/report.h"

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

/* The numbers of a plan: bytes of each kind, their sum, allocated bytes, and the three numbers from
 * which the bytes of a parameter follow.
 */
enum {
    PLAN_TOTAL = NUM_MEMORY_KINDS, PLAN_ALLOCATED,
    PLAN_ELEMENTS, PLAN_PADDING, PLAN_SHARDS,
    NUM_PLAN
};

enum { MAX_LINES = 16 };

enum { REPORT_MAX = (int)NUM_TIMERS > (int)NUM_PLAN ? (int)NUM_TIMERS : (int)NUM_PLAN };
_Static_assert ((int)NUM_USES <= (int)REPORT_MAX, "room for a line of memory");

int report_check (const struct report_config *config, struct mg_error *err)
{
    enum timers_option option;
    char of[40];

    snprintf (of, sizeof (of), "--log-interval %" PRId64, config->interval);
    if (config->memory_interval
        && multiple_check ("--log-memory-interval", config->memory_interval, config->interval,
                           of, "", err) < 0)
        return -1;
    return timers_option_parse (config->timing_option, &option, err);
}

static bool is_speaker (const struct report *r)
{
    return job_rank (r->use.job) == job_world (r->use.job) - 1;
}

int report_open (struct report *r, const struct report_use *use,
                 const struct tensorboard_config *tensorboard, struct mg_error *err)
{
    const char *metrics = use->config->metrics_file;

    r->use = *use;
    if (metrics && is_speaker (r)
        && !(r->metrics = output_open ("--metrics-file", metrics, OUTFILE_STREAM, err)))
        return -1;
    return tensorboard_init (&r->tensorboard, tensorboard, use->job, err);
}

int report_create (struct report *r, struct model *model, int seq_length,
                   struct trace *trace, struct mg_error *err)
{
    const struct report_config *config = r->use.config;

    r->flops = model_sizes_of (model)->flops;
    r->seq_length = seq_length;
    if (timers_init (&r->timers, config->timing_level, model_stream (model), trace, err) < 0)
        return -1;
    if (!(r->gathered = calloc ((size_t)job_world (r->use.job) * REPORT_MAX,
                                sizeof (*r->gathered))))
        return mg_error_set (err, ENOMEM, "report: out of memory");
    return timers_option_parse (config->timing_option, &r->option, err);
}

int report_restart (struct report *r, struct mg_error *err)
{
    if (!r->metrics)
        return 0;
    return output_restart (r->metrics, "--metrics-file", r->use.config->metrics_file, err);
}

/* --- files that cannot be written --- */

/* Call this after a write of metrics.  After a failure, none is written any more. */
static void keep_metrics (struct report *r, int rc, const struct mg_error *why)
{
    if (rc == 0)
        return;
    accord_note_output (r->use.accord, errno, why);
    if (r->metrics)
        fclose (r->metrics);
    r->metrics = NULL;
}

/* The same of events. */
static void keep_events (struct report *r, int rc, const struct mg_error *why)
{
    if (rc == 0)
        return;
    accord_note_output (r->use.accord, errno, why);
    tensorboard_clear (&r->tensorboard);
}

void report_close (struct report *r)
{
    struct mg_error why = { "" };

    keep_metrics (r, output_close (&r->metrics, "--metrics-file", r->use.config->metrics_file,
                                   &why), &why);
}

void report_drop (struct report *r)
{
    if (r->metrics)
        fclose (r->metrics);
    r->metrics = NULL;
    tensorboard_clear (&r->tensorboard);
}

void report_clear (struct report *r)
{
    report_drop (r);
    free (r->gathered);
    *r = (struct report){ 0 };
}

/* Gather 'n' numbers of every rank on all ranks, one of which prints. */
static int gather (struct report *r, const double *own, int n, struct mg_error *err)
{
    if (mg_comm_all_gather (job_control (r->use.job), own, r->gathered, (size_t)n,
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

double report_allocated (const struct job *job)
{
    struct mg_device *device = job_device (job);

    return (double)(device_allocated (device) + device_host_allocated (device));
}

static void print_memory (const struct report *r, const char *when)
{
    const double mib = 1 << 20;
    int world = job_world (r->use.job);
    FILE *out = r->use.accord->out;

    fprintf (out, " (%s) memory (MB)", when);
    for (int kind = 0; kind < NUM_USES; kind++) {
        int most = 0;

        for (int rank = 1; rank < world; rank++) {
            if (r->gathered[rank * NUM_USES + kind] > r->gathered[most * NUM_USES + kind])
                most = rank;
        }
        fprintf (out, " | %s: %.2f", use_names[kind],
                 r->gathered[most * NUM_USES + kind] / mib);
        if (world > 1)
            fprintf (out, " (rank %d)", most);
    }
    fputs (" |\n", out);
    fflush (out);
}

int report_memory (struct report *r, const char *when, struct mg_error *err)
{
    struct rusage usage;
    double own[NUM_USES];

    own[USE_PARAMETERS] = (double)memory_state (r->use.memory);
    own[USE_ACTIVATIONS] = (double)memory_activations (r->use.memory);
    own[USE_PLANNED] = (double)memory_total (r->use.memory);
    own[USE_RESIDENT] = report_resident ();
    getrusage (RUSAGE_SELF, &usage);
    own[USE_MAX_RESIDENT] = (double)usage.ru_maxrss * 1024; // Linux counts it in KiB
    if (own[USE_MAX_RESIDENT] < own[USE_RESIDENT])       // and a little late
        own[USE_MAX_RESIDENT] = own[USE_RESIDENT];
    if (gather (r, own, NUM_USES, err) < 0)
        return -1;
    if (is_speaker (r))
        print_memory (r, when);
    return 0;
}

static void print_plan (const struct report *r, int first, int last)
{
    const double *row = r->gathered + first * NUM_PLAN;
    struct memory_plan plan = { .elements = (int64_t)row[PLAN_ELEMENTS],
                                .padding = (int64_t)row[PLAN_PADDING],
                                .shards = (int)row[PLAN_SHARDS] };
    char ranks[32], each[MEMORY_EACH_TEXT];
    FILE *out = r->use.accord->out;
    int n = snprintf (ranks, sizeof (ranks), "rank %d", first);

    if (last > first)
        snprintf (ranks + n, sizeof (ranks) - (size_t)n, "-%d", last);
    for (int k = 0; k < NUM_MEMORY_KINDS; k++)
        plan.bytes[k] = (int64_t)row[k];
    memory_each_describe (&plan, each);
    fprintf (out, " memory plan (bytes) of %s", ranks);
    for (int k = 0; k < NUM_MEMORY_KINDS; k++)
        fprintf (out, " | %s: %.0f", memory_kind_names[k], row[k]);
    fprintf (out, " | planned: %.0f | allocated: %.0f |\n", row[PLAN_TOTAL],
             row[PLAN_ALLOCATED]);
    fprintf (out, " bytes per parameter of %s: %s | parameters: %.0f | padding: %.0f |\n",
             ranks, each, row[PLAN_ELEMENTS], row[PLAN_PADDING]);
}

int report_plan (struct report *r, struct mg_error *err)
{
    const double *all = r->gathered;
    int world = job_world (r->use.job), lines = 0;
    double own[NUM_PLAN];

    for (int k = 0; k < NUM_MEMORY_KINDS; k++)
        own[k] = (double)r->use.memory->bytes[k];
    own[PLAN_TOTAL] = (double)memory_total (r->use.memory);
    own[PLAN_ALLOCATED] = report_allocated (r->use.job);
    own[PLAN_ELEMENTS] = (double)r->use.memory->elements;
    own[PLAN_PADDING] = (double)r->use.memory->padding;
    own[PLAN_SHARDS] = r->use.memory->shards;
    if (gather (r, own, NUM_PLAN, err) < 0)
        return -1;
    for (int first = 0, next; is_speaker (r) && first < world; first = next) {
        next = first + 1;
        while (next < world
               && memcmp (all + first * NUM_PLAN, all + next * NUM_PLAN, sizeof (own)) == 0)
            next++;
        if (lines++ < MAX_LINES)
            print_plan (r, first, next - 1);
    }
    if (is_speaker (r))
        fflush (r->use.accord->out);
    return 0;
}

/* In the order of model_graphs. */
enum { GRAPHS_COUNT, GRAPHS_NODES, GRAPHS_INPUT, GRAPHS_INTERMEDIATE, GRAPHS_HANDOVER,
       GRAPHS_MEMORY, GRAPHS_DEVICE, GRAPHS_TIME, NUM_GRAPHS };
_Static_assert ((int)NUM_GRAPHS <= (int)REPORT_MAX, "numbers of a rank");

static void print_graphs (const struct report *r, int first, int last)
{
    const double *row = r->gathered + first * NUM_GRAPHS;
    double longest = 0, most = 0;
    char ranks[32], reserve[48] = "";
    FILE *out = r->use.accord->out;
    int n = snprintf (ranks, sizeof (ranks), "rank %d", first);

    if (last > first)
        snprintf (ranks + n, sizeof (ranks) - (size_t)n, "-%d", last);
    for (int i = first; i <= last; i++) {
        longest = fmax (longest, r->gathered[i * NUM_GRAPHS + GRAPHS_TIME]);
        most = fmax (most, r->gathered[i * NUM_GRAPHS + GRAPHS_DEVICE]);
    }
    if (most > 0)
        snprintf (reserve, sizeof (reserve), " (a plan reserves %.0f)",
                  row[GRAPHS_NODES] * MEMORY_GRAPH_NODE);
    fprintf (out, " graphs of %s | graphs: %.0f | nodes: %.0f | static input bytes: %.0f | "
             "intermediate bytes: %.0f | hand-over bytes: %.0f | host bytes: %.0f | device "
             "bytes: %.0f%s | captured in %.1f ms |\n", ranks, row[GRAPHS_COUNT],
             row[GRAPHS_NODES], row[GRAPHS_INPUT], row[GRAPHS_INTERMEDIATE], row[GRAPHS_HANDOVER],
             row[GRAPHS_MEMORY], most, reserve, longest);
}

int report_graphs (struct report *r, const struct model_graphs *graphs, double milliseconds,
                   struct mg_error *err)
{
    const double own[NUM_GRAPHS] = {
        [GRAPHS_COUNT] = (double)graphs->graphs,
        [GRAPHS_NODES] = (double)graphs->nodes,
        [GRAPHS_INPUT] = (double)graphs->static_input_bytes,
        [GRAPHS_INTERMEDIATE] = (double)graphs->intermediate_bytes,
        [GRAPHS_HANDOVER] = (double)graphs->handover_bytes,
        [GRAPHS_MEMORY] = (double)graphs->host_bytes,
        [GRAPHS_DEVICE] = (double)graphs->device_bytes,
        [GRAPHS_TIME] = milliseconds,
    };
    const double *all = r->gathered;
    int world = job_world (r->use.job), lines = 0;

    if (gather (r, own, NUM_GRAPHS, err) < 0)
        return -1;
    for (int first = 0, next; is_speaker (r) && first < world; first = next) {
        next = first + 1;
        while (next < world && memcmp (all + first * NUM_GRAPHS, all + next * NUM_GRAPHS,
                                       GRAPHS_DEVICE * sizeof (own[0])) == 0)
            next++;
        if (lines++ < MAX_LINES)
            print_graphs (r, first, next - 1);
    }
    if (is_speaker (r))
        fflush (r->use.accord->out);
    return 0;
}

/* --- iterations --- */

static struct metrics_rate rate (const struct report *r, int64_t samples, double milliseconds)
{
    double seconds = milliseconds > 0 ? milliseconds / 1e3 : 1e-9, n = (double)samples;

    return (struct metrics_rate){
        .tokens_per_second = n * (double)r->seq_length / seconds,
        .tflops = n * r->flops / seconds / 1e12 / job_world (r->use.job),
    };
}

/* Times of all ranks, per iteration since the last line. */
static int report_timers (struct report *r, int64_t iteration, bool reset,
                          struct mg_error *err)
{
    struct mg_error why = { "" };

    if (r->timers.level == 0)
        return 0;
    timers_collect (&r->timers);
    if (gather (r, r->timers.sum, NUM_TIMERS, err) < 0)
        return -1;
    if (is_speaker (r))
        timers_print (r->use.accord->out, r->option, r->gathered, job_world (r->use.job),
                      (double)r->iterations);
    if (reset)
        memset (r->timers.sum, 0, sizeof (r->timers.sum));
    keep_events (r, tensorboard_timers (&r->tensorboard, r->gathered, r->iterations, iteration,
                                        &why), &why);
    return 0;
}

int report_save (struct report *r, double milliseconds, struct mg_error *err)
{
    double own[NUM_TIMERS] = { [TIMER_SAVE_CHECKPOINT] = milliseconds };

    if (r->timers.level == 0)
        return 0;
    if (gather (r, own, NUM_TIMERS, err) < 0)
        return -1;
    if (is_speaker (r))
        timers_print (r->use.accord->out, r->option, r->gathered, job_world (r->use.job), 1);
    return 0;
}

static bool memory_is_due (const struct report *r, int64_t iteration)
{
    int64_t interval = r->use.config->memory_interval;

    return iteration == r->first_iteration
           || (interval != 0 && iteration % interval == 0);
}

/* As Megatron-LM the first iteration of a run has a line out of turn, which resets nothing. */
static int report_line (struct report *r, struct metrics *m, struct mg_error *err)
{
    bool due = m->iteration % r->use.config->interval == 0;
    struct mg_error why = { "" };
    char when[64];

    if (!due && m->iteration != r->first_iteration)
        return 0;
    m->mean_milliseconds = r->milliseconds / (double)r->iterations;
    m->num_updates = r->iterations - r->skipped;
    m->mean_lm_loss = m->num_updates > 0 ? r->loss / (double)m->num_updates : NAN;
    for (int i = 0; i < ROUTER_NUM_LOSSES; i++)
        m->mean_router_loss[i] = r->router_loss[i] / (double)r->iterations;
    if (m->losses)
        losses_average (m->losses, (double)m->num_updates);
    m->num_not_finite = r->not_finite;
    m->num_skipped = r->skipped;
    m->mean = rate (r, r->samples, r->milliseconds);
    if (is_speaker (r))
        metrics_print (r->use.accord->out, m, r->use.config->throughput);
    keep_events (r, tensorboard_line (&r->tensorboard, m, m->iteration == r->first_iteration,
                                      &why), &why);
    snprintf (when, sizeof (when), "after %" PRId64 " iterations", m->iteration);
    if (memory_is_due (r, m->iteration) && report_memory (r, when, err) < 0)
        return -1;
    if (report_timers (r, m->iteration, due, err) < 0)
        return -1;
    if (due) {
        r->iterations = r->samples = r->not_finite = r->skipped = 0;
        r->milliseconds = r->loss = 0;
        memset (r->router_loss, 0, sizeof (r->router_loss));
        if (m->losses)
            losses_restart (m->losses);
    }
    return 0;
}

int report_iteration (struct report *r, struct metrics *m, struct mg_error *err)
{
    const char *path = r->use.config->metrics_file;
    struct mg_error why = { "" };

    r->iterations++;
    r->samples += m->global_batch_size;
    r->milliseconds += m->milliseconds;
    r->loss += m->skipped ? 0 : m->lm_loss;
    r->not_finite += m->not_finite;
    r->skipped += m->skipped;
    for (int i = 0; m->routing && i < ROUTER_NUM_LOSSES; i++)
        r->router_loss[i] += m->routing->loss[i];
    if (m->losses && !m->skipped)
        losses_add (m->losses);
    m->rate = rate (r, m->global_batch_size, m->milliseconds);
    if (report_line (r, m, err) < 0)
        return -1;
    keep_events (r, tensorboard_iteration (&r->tensorboard, m, &why), &why);
    if (r->metrics)
        keep_metrics (r, metrics_write_json (r->metrics, path, m, &why), &why);
    return 0;
}

void report_evaluation (struct report *r, const struct metrics_evaluation *m)
{
    const char *path = r->use.config->metrics_file;
    struct mg_error why = { "" };

    if (is_speaker (r))
        metrics_print_evaluation (r->use.accord->out, m);
    keep_events (r, tensorboard_evaluation (&r->tensorboard, m, &why), &why);
    if (r->metrics)
        keep_metrics (r, metrics_write_evaluation (r->metrics, path, m, &why), &why);
}
