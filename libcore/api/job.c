/* job.c - jobs for programs
 *
 * Options are read up to the size with which the program was compiled, so that newer options have
 * their defaults in older programs.  If the program names no file for reports, they go to a
 * stream of the library to standard error.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/api/geometry.h"
#include "libcore/api/grid.h"
#include "libcore/base/c_locale.h"
#include "libcore/device/device.h"
#include "libcore/job/job.h"
#include "megatron/job.h"

struct mg_job {
    struct job *job;
    FILE *errors, *own_errors; /* the latter is the library's way to standard error; may be NULL */
    const struct bootstrap_info *info;
    struct mg_grid grid;
};

static void print_report (void *arg, const char *text)
{
    const struct mg_job *job = arg;

    fprintf (job->errors, "megatron: %s\n", text);
    fflush (job->errors);
}

/* A stream of the library's own to standard error, so that each line is written at once, whatever
 * the program does with its stream.
 */
static int open_errors (struct mg_job *job, struct mg_error *err)
{
    int fd = fcntl (STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

    if (fd < 0) // a closed standard error takes no report
        fd = open ("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || !(job->own_errors = fdopen (fd, "w"))) {
        mg_error_set (err, errno, "job: no stream for reports: %s", strerror (errno));
        if (fd >= 0)
            close (fd);
        return -1;
    }
    job->errors = job->own_errors;
    return 0;
}

/* The groups of the options, with the numbers that the library gives their kinds. */
static int read_groups (uint64_t given, uint32_t *groups, struct mg_error *err)
{
    if (given >> MG_NUM_GROUP_KINDS)
        return mg_error_set (err, EINVAL, "job: groups 0x%" PRIx64 ", want bits below 0x%" PRIx64,
                             given, MG_GROUP_BIT (MG_NUM_GROUP_KINDS));
    *groups = 0;
    for (int kind = 0; kind < MG_NUM_GROUP_KINDS; kind++) {
        if (given & MG_GROUP_BIT (kind))
            *groups |= JOB_GROUP (api_group_kind ((enum mg_group_kind)kind));
    }
    return 0;
}

/* Options that an older program does not know keep their defaults. */
static int read_options (const struct mg_job_options *given, struct mg_job *job,
                         struct job_config *config, struct mg_error *err)
{
    struct mg_job_options options = MG_JOB_OPTIONS_INIT;
    struct device_choice device;

    if (given) {
        if (given->size < sizeof (options.size) + sizeof (options.timeout)
            || given->size > sizeof (options))
            return mg_error_set (err, EINVAL, "job: options of %zu bytes, want %zu; begin "
                                 "with MG_JOB_OPTIONS_INIT", given->size, sizeof (options));
        memcpy (&options, given, given->size);
    }
    if (options.threads < 0)
        return mg_error_set (err, EINVAL, "job: %d threads, want 0 or more",
                             options.threads);
    if (!(options.timeout > 0) || !isfinite (options.timeout))
        return mg_error_set (err, EINVAL, "job: a timeout of %g s, want more than 0",
                             options.timeout);
    if (!(options.stall_warning >= 0) || !isfinite (options.stall_warning))
        return mg_error_set (err, EINVAL, "job: a stall warning after %g s, want 0 or more",
                             options.stall_warning);
    if (options.device && device_choose (options.device, false, &device, err) < 0)
        return mg_error_prefix (err, "job");
    if (options.flags & ~MG_JOB_ORDERED_SUMS)
        return mg_error_set (err, EINVAL, "job: flags 0x%" PRIx64 ", want 0 or "
                             "MG_JOB_ORDERED_SUMS, 0x%" PRIx64, options.flags,
                             MG_JOB_ORDERED_SUMS);
    if (read_groups (options.groups, &config->groups, err) < 0)
        return -1;
    job->errors = options.errors;
    if (!options.errors && open_errors (job, err) < 0)
        return -1;
    config->watch = (struct job_watch){ options.stall_warning, print_report, job };
    config->timeout = options.timeout;
    config->threads = options.threads;
    config->comm = options.backend;
    config->device = options.device;
    config->ordered_sums = options.flags & MG_JOB_ORDERED_SUMS;
    config->fingerprint = options.fingerprint;
    return 0;
}

static int read_geometry (const struct mg_geometry *given, struct job_config *config,
                          struct mg_error *err)
{
    struct mg_geometry geometry;

    if (given) {
        config->geometry = given->sizes;
        return 0;
    }
    geometry_init (&geometry.sizes);
    config->geometry = geometry.sizes;
    if (mg_geometry_set_environment (&geometry, err) < 0)
        return -1;
    config->geometry = geometry.sizes;
    return 0;
}

static struct mg_job *create (const struct mg_geometry *geometry,
                              const struct mg_job_options *options, struct mg_error *err)
{
    struct mg_job *job = calloc (1, sizeof (*job));
    struct mg_error wrong = { "" };
    bool all_failed = false;
    struct job_config config = { .all_failed = &all_failed };

    if (!job) {
        mg_error_set (err, ENOMEM, "job: out of memory");
        return NULL;
    }
    if (read_options (options, job, &config, err) < 0)
        goto error;
    if (read_geometry (geometry, &config, &wrong) < 0) // which the other ranks should learn
        config.refusal = wrong.text;
    if (!(config.bootstrap = job_meet (config.comm, config.device, config.timeout, err)))
        goto error;
    if (!(job->job = job_create (&config, err))) {
        if (all_failed) // so that all leave in order
            bootstrap_barrier (config.bootstrap, NULL);
        bootstrap_destroy (config.bootstrap);
        goto error;
    }
    job->info = bootstrap_info (config.bootstrap);
    job->grid.grid = job_grid (job->job);
    return job;
error:
    mg_job_destroy (job);
    return NULL;
}

struct mg_job *mg_job_create (const struct mg_geometry *geometry,
                              const struct mg_job_options *options, struct mg_error *err)
{
    locale_t before = c_locale_enter ();
    struct mg_job *job = create (geometry, options, err);

    c_locale_leave (before);
    return job;
}

void mg_job_destroy (struct mg_job *job)
{
    int saved_errno = errno;
    locale_t before = c_locale_enter ();

    if (job) {
        job_destroy (job->job);
        if (job->own_errors)
            fclose (job->own_errors);
        free (job);
    }
    c_locale_leave (before);
    errno = saved_errno;
}

int mg_job_rank (const struct mg_job *job)
{
    return job->info->rank;
}

int mg_job_world (const struct mg_job *job)
{
    return job->info->size;
}

int mg_job_node (const struct mg_job *job)
{
    return job->info->node;
}

int mg_job_num_nodes (const struct mg_job *job)
{
    return job->info->num_nodes;
}

int mg_job_local_rank (const struct mg_job *job)
{
    return job->info->local_rank;
}

int mg_job_local_size (const struct mg_job *job)
{
    return job->info->local_size;
}

int mg_job_coord (const struct mg_job *job, enum mg_layout layout, enum mg_axis axis)
{
    return mg_grid_coord (&job->grid, layout, axis, job->info->rank);
}

const struct mg_grid *mg_job_grid (const struct mg_job *job)
{
    return &job->grid;
}

struct mg_comm *mg_job_comm (const struct mg_job *job, enum mg_group_kind kind)
{
    int own = api_group_kind (kind);
    struct mg_comm *comm = own < 0 ? NULL : job_comm (job->job, (enum group_kind)own);

    if (!comm)
        errno = ENOENT;
    return comm;
}

struct mg_device *mg_job_device (const struct mg_job *job)
{
    return job_device (job->job);
}

void mg_job_abort (struct mg_job *job, int code)
{
    c_locale_enter (); // for good: the job ends
    job_fail (job->job, NULL);
    job_abort (job->job, code < 1 || code > 255 ? 1 : code);
}
