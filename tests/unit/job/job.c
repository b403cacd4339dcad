/* job.c - test a job of one rank, which needs neither launcher nor MPI */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/device.h"
#include "libcore/job/job.h"
#include "tests/tap/tap.h"

static void one_rank (void)
{
    struct job_config config = { .timeout = 5, .fingerprint = 7 };
    struct mg_error err = { "" };
    struct job *job;
    float x = 3.0f;

    geometry_init (&config.geometry);
    if (!ok ((job = job_create (&config, &err)) != NULL, "one rank is a job"))
        bail_out ("%s", err.text);
    is_int (job_rank (job), 0, "its rank is 0");
    is_int (job_world (job), 1, "of 1");
    is_int (grid_world (job_grid (job)), 1, "the grid has it");
    is_str (device_name (job_device (job)), "cpu", "it has a device");
    ok (device_threads (job_device (job)) >= 1, "with a thread");
    for (int kind = 0; kind < GROUP_NUM_KINDS; kind++) {
        struct mg_comm *comm = job_comm (job, kind);

        if (ok (comm != NULL, "it is in a group %s", group_kinds[kind].name)) {
            is_str (mg_comm_name (comm), group_kinds[kind].name, "of that name");
            is_int (mg_comm_size (comm), 1, "of one rank");
        }
    }
    for (int backward = 0; backward <= 1; backward++)
        ok (job_comm_lane (job, backward, 0, 0) == job_comm (job, GROUP_PP),
            "lanes need no communicator of their own");
    ok (job_host (job) != job_device (job), "the host is another device");
    is_str (mg_comm_name (job_control (job)), "control", "with a communicator of its memory");
    is_int (mg_comm_all_reduce (job_control (job), &x, 1, MG_FLOAT32, MG_SUM, NULL, &err), 0,
            "that works");
    is_int (mg_comm_all_reduce (job_comm (job, GROUP_TP), &x, 1, MG_FLOAT32, MG_SUM, NULL,
                                &err), 0, "an all-reduce works");
    is_near (x, 3.0, 0.0, "and changes nothing");
    job_destroy (job);
    errno = 42;
    job_destroy (NULL);
    is_int (errno, 42, "destroy keeps errno, and takes NULL");
}

/* A planned rank's job with these groups, two instances and levels of the cp group. */
static struct job *plan_transfers (uint32_t groups, enum job_transfers transfers,
                                   const char *device)
{
    struct job_config config = { .timeout = 5, .threads = 1, .groups = groups, .comm = "plan",
                                 .transfers = transfers, .device = device,
                                 .optimizer_instances = 2, .context_inner = 2 };
    struct mg_error err = { "" };
    struct job *job;

    geometry_init (&config.geometry);
    config.geometry.tp = config.geometry.pp = config.geometry.cp = 2;
    if (!(config.bootstrap = bootstrap_create_planned (1, 32, &err))
        || !(job = job_create (&config, &err)))
        bail_out ("%s", err.text);
    return job;
}

static struct job *plan_groups (uint32_t groups)
{
    return plan_transfers (groups, JOB_TRANSFERS_BY_DEVICE, NULL);
}

/* Transfers are grouped if the caller says so; if not, the device's name decides.  Lanes of GPUs
 * have communicators of their own.
 */
static void grouped_transfers (void)
{
    static const struct {
        enum job_transfers transfers;
        const char *device;
        bool grouped;
    } rows[] = {
        { JOB_TRANSFERS_BY_DEVICE, NULL, false },   { JOB_TRANSFERS_BY_DEVICE, "cpu", false },
        { JOB_TRANSFERS_BY_DEVICE, "cuda", true },  { JOB_TRANSFERS_BY_DEVICE, "cuda:1", true },
        { JOB_TRANSFERS_GROUPED, NULL, true },      { JOB_TRANSFERS_GROUPED, "cuda", true },
        { JOB_TRANSFERS_LANES, NULL, false },       { JOB_TRANSFERS_LANES, "cuda", false },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct job *job = plan_transfers (JOB_GROUP (GROUP_PP), rows[i].transfers,
                                          rows[i].device);
        bool lanes;

        is_int (job_groups_transfers (job), rows[i].grouped, "transfers %d, device %s",
                (int)rows[i].transfers, rows[i].device ? rows[i].device : "of the default");
        lanes = rows[i].device && !rows[i].grouped && strcmp (rows[i].device, "cpu") != 0;
        is_int (job_comm_lane (job, true, 1, 0) == job_comm (job, GROUP_PP), !lanes,
                "on %s", lanes ? "a communicator a lane" : "one communicator");
        is_int (job_connections (job), lanes ? 3 : 1, "which the job counts");
        job_destroy (job);
    }
}

/* The job makes communicators of the groups that are named, and no other. */
static void named_groups (void)
{
    const size_t each = 4 << 20;
    struct job *job = plan_groups (JOB_GROUP (GROUP_TP) | JOB_GROUP (GROUP_PP)
                                   | JOB_GROUP (GROUP_ETP));
    int wrong = 0;

    for (int kind = 0; kind < GROUP_NUM_KINDS; kind++)
        wrong += (job_comm (job, kind) != NULL)
                 != (kind == GROUP_TP || kind == GROUP_PP || kind == GROUP_ETP);
    is_int (wrong, 0, "communicators of three groups");
    ok (!job_comm_shard (job, false) && !job_comm_shard (job, true)
            && !job_comm_instances (job, false), "no part of the data-parallel group");
    ok (!job_comm_context (job, true) && !job_comm_context (job, false),
        "no part of the context-parallel group");
    ok (job_comm_lane (job, false, 0, 1) == job_comm (job, GROUP_PP), "lanes of the pipeline");
    is_int (job_comm_bytes (job), 2 * each, "two have scratch memory: tp's is etp's");
    is_int (job_group_size (job, GROUP_DP), 4, "a group's size is known without a communicator");
    is_int (job_group_rank (job, GROUP_TP), 1, "so is the rank's place");
    ok (job_control (job) && mg_comm_size (job_control (job)) == 32, "the control communicator");
    job_destroy (job);
    job = plan_groups (JOB_GROUP (GROUP_TP));
    ok (!job_comm_lane (job, false, 0, 1), "without the pipeline's group there is no lane");
    job_destroy (job);
    job = plan_groups (0);
    for (int kind = 0; kind < GROUP_NUM_KINDS; kind++)
        wrong += !job_comm (job, kind);
    is_int (wrong, 0, "no name: all communicators");
    ok (job_comm_shard (job, false) && job_comm_context (job, true), "and all parts");
    job_destroy (job);
}

/* Neighbours that do not divide the context-parallel ranks. */
static void levels (void)
{
    struct job_config config = { .timeout = 5, .context_inner = 3 };
    struct mg_error err = { "" };
    struct job *job;

    geometry_init (&config.geometry);
    ok (!job_create (&config, &err)
            && strstr (err.text, "3 neighbours do not divide the 1 context-parallel ranks"),
        "%s", err.text);
    config.context_inner = 1;
    job = job_create (&config, &err);
    ok (job && mg_comm_size (job_comm_context (job, true)) == 1
            && mg_comm_size (job_comm_context (job, false)) == 1,
        "levels of one rank %s", err.text);
    job_destroy (job);
}

static void borrowed_bootstrap (void)
{
    struct job_config config = { .timeout = 5 };
    struct mg_error err = { "" };
    bool all_failed = false;

    geometry_init (&config.geometry);
    config.geometry.tp = 2;
    config.bootstrap = bootstrap_create (5, &err);
    config.all_failed = &all_failed;
    ok (!job_create (&config, &err), "tp 2 on one rank is refused");
    ok (strstr (err.text, "tp 2") != NULL, "with a text: %s", err.text);
    ok (all_failed, "by all ranks that there are");
    is_int (bootstrap_info (config.bootstrap)->size, 1, "the bootstrap is still there");
    config.geometry.tp = 1;
    config.geometry.world = 2;
    ok (!job_create (&config, &err) && errno == EINVAL, "so is a wrong world size");
    is_str (err.text, "the job has 1 ranks, but was configured for 2", "with a text");
    config.geometry.world = 0;
    config.refusal = "no wish to go on";
    ok (!job_create (&config, &err) && all_failed, "so is a rank that cannot go on");
    is_str (err.text, "no wish to go on", "with its own text");
    config.refusal = NULL;
    config.threads = -1;
    ok (!job_create (&config, &err) && !all_failed, "what fails later is the rank's own failure");
    bootstrap_destroy (config.bootstrap);
}

static void test_badparam (void)
{
    static const struct {
        const char *what;
        double timeout;
        int threads;
        const char *comm, *omp;
        const char *text;
    } rows[] = {
        { "no timeout", 0, 0, NULL, NULL, "bootstrap: timeout of 0 s" },
        { "a negative timeout", -1, 0, NULL, NULL, "bootstrap: timeout of -1 s" },
        { "negative threads", 5, -1, NULL, NULL, "device: -1 threads" },
        { "an unknown backend", 5, 0, "carrier", NULL, "backend \"carrier\"" },
        { "OMP_NUM_THREADS=0", 5, 0, NULL, "0", "OMP_NUM_THREADS" },
        { "OMP_NUM_THREADS=many", 5, 0, NULL, "many", "OMP_NUM_THREADS" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct job_config config = { .timeout = rows[i].timeout,
                                     .threads = rows[i].threads, .comm = rows[i].comm };
        struct mg_error err = { "" };

        geometry_init (&config.geometry);
        if (rows[i].omp)
            setenv ("OMP_NUM_THREADS", rows[i].omp, 1);
        ok (!job_create (&config, &err), "%s is refused", rows[i].what);
        ok (strstr (err.text, rows[i].text) != NULL, "with a text: %s", err.text);
        unsetenv ("OMP_NUM_THREADS");
    }
}

int main (void)
{
    unsetenv ("OMP_NUM_THREADS");
    unsetenv ("PMIX_NAMESPACE");
    unsetenv ("SLURM_PROCID");
    one_rank ();
    levels ();
    named_groups ();
    grouped_transfers ();
    borrowed_bootstrap ();
    test_badparam ();
    return done_testing ();
}
