/* job.c - a job as a program sees it: one rank here, more in t2003-library.t */

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "megatron/megatron.h"
#include "tests/tap/tap.h"

static void one_rank (void)
{
    struct mg_error err = { "" };
    struct mg_job *job = mg_job_create (NULL, NULL, &err);
    float x = 3, y = 0;
    struct mg_event *event;
    struct mg_stream *stream;
    int missing = 0;

    if (!job)
        bail_out ("%s", err.text);
    is_int (mg_job_rank (job), 0, "rank 0");
    is_int (mg_job_world (job), 1, "of 1");
    is_int (mg_job_node (job), 0, "on node 0");
    is_int (mg_job_num_nodes (job), 1, "of 1");
    is_int (mg_job_local_rank (job), 0, "its first");
    is_int (mg_job_local_size (job), 1, "and only rank");
    is_int (mg_job_coord (job, MG_DENSE, MG_AXIS_TP), 0, "a coordinate");
    is_int (mg_job_coord (job, MG_DENSE, MG_NUM_AXES), -1, "of an axis that is none");
    is_int (mg_grid_world (mg_job_grid (job)), 1, "the grid");
    for (int kind = 0; kind < MG_NUM_GROUP_KINDS; kind++) {
        struct mg_comm *comm = mg_job_comm (job, (enum mg_group_kind)kind);

        missing += !comm || mg_comm_size (comm) != 1
                   || strcmp (mg_comm_name (comm),
                              mg_group_kind_name ((enum mg_group_kind)kind)) != 0;
    }
    is_int (missing, 0, "every kind has its communicator");
    ok (!mg_job_comm (job, MG_NUM_GROUP_KINDS) && errno == ENOENT, "but no other");
    is_int (mg_comm_all_reduce (mg_job_comm (job, MG_GROUP_TP), &x, 1, MG_FLOAT32, MG_SUM,
                                NULL, &err), 0, "all-reduce %s", err.text);
    ok (x == 3, "over one rank");
    stream = mg_stream_create (mg_job_device (job), MG_STREAM_COMM, "mine", &err);
    event = mg_event_create (mg_job_device (job), &err);
    is_int (mg_comm_send (mg_job_comm (job, MG_GROUP_PP), &x, 1, MG_FLOAT32, 0, stream,
                          &err), 0, "send to oneself %s", err.text);
    is_int (mg_comm_recv (mg_job_comm (job, MG_GROUP_PP), &y, 1, MG_FLOAT32, 0, NULL,
                          &err), 0, "receive from oneself %s", err.text);
    mg_event_record (event, stream);
    is_int (mg_event_synchronize (event, &err), 0, "wait %s", err.text);
    ok (y == 3, "it has come");
    is_int (mg_comm_send (NULL, &x, 1, MG_FLOAT32, 0, NULL, &err), -1, "no communicator");
    is_int (mg_comm_recv (mg_job_comm (job, MG_GROUP_PP), &y, 1, MG_FLOAT32, 1, NULL, &err),
            -1, "no such peer");
    mg_event_destroy (event);
    mg_stream_destroy (stream);
    mg_job_destroy (job);
}

/* Only the communicators that the options name. */
static void test_groups (void)
{
    struct mg_job_options options = MG_JOB_OPTIONS_INIT;
    struct mg_error err = { "" };
    struct mg_job *job;

    options.groups = MG_GROUP_BIT (MG_GROUP_WORLD) | MG_GROUP_BIT (MG_GROUP_EP);
    options.flags = MG_JOB_ORDERED_SUMS;
    if (!(job = mg_job_create (NULL, &options, &err)))
        bail_out ("%s", err.text);
    for (int kind = 0; kind < MG_NUM_GROUP_KINDS; kind++) {
        struct mg_comm *comm = mg_job_comm (job, (enum mg_group_kind)kind);

        is_int (comm != NULL, kind == MG_GROUP_WORLD || kind == MG_GROUP_EP, "group %s%s",
                mg_group_kind_name ((enum mg_group_kind)kind), comm ? "" : " was not named");
    }
    mg_job_destroy (job);
}

static void test_badparam (void)
{
    struct mg_job_options options = MG_JOB_OPTIONS_INIT, wrong;
    struct mg_geometry *g = mg_geometry_create (NULL);
    struct mg_error err = { "" };

    wrong = options;
    wrong.threads = -1;
    ok (!mg_job_create (NULL, &wrong, &err) && errno == EINVAL, "threads: %s", err.text);
    wrong = options;
    wrong.timeout = 0;
    ok (!mg_job_create (NULL, &wrong, &err) && errno == EINVAL, "timeout: %s", err.text);
    wrong.timeout = NAN;
    ok (!mg_job_create (NULL, &wrong, &err) && errno == EINVAL, "timeout: %s", err.text);
    wrong = options;
    wrong.stall_warning = -1;
    ok (!mg_job_create (NULL, &wrong, &err) && errno == EINVAL, "stall warning: %s", err.text);
    wrong = options;
    wrong.device = "abacus";
    ok (!mg_job_create (NULL, &wrong, &err) && errno == ENODEV, "device: %s", err.text);
    wrong.device = "cpu:1";
    ok (!mg_job_create (NULL, &wrong, &err) && errno == ENODEV, "device: %s", err.text);
    wrong = options;
    wrong.groups = MG_GROUP_BIT (MG_NUM_GROUP_KINDS);
    ok (!mg_job_create (NULL, &wrong, &err) && errno == EINVAL, "groups: %s", err.text);
    wrong = options;
    wrong.flags = MG_JOB_ORDERED_SUMS | 4;
    ok (!mg_job_create (NULL, &wrong, &err) && errno == EINVAL, "flags: %s", err.text);
    wrong = options;
    wrong.size = 0;
    ok (!mg_job_create (NULL, &wrong, &err) && errno == EINVAL, "size: %s", err.text);
    wrong.size = sizeof (wrong) + 8;
    ok (!mg_job_create (NULL, &wrong, &err) && errno == EINVAL, "size: %s", err.text);
    wrong = options;
    wrong.backend = "bogus";
    ok (!mg_job_create (NULL, &wrong, &err), "backend: %s", err.text);
    wrong = options;
    wrong.size = offsetof (struct mg_job_options, errors);
    wrong.stall_warning = -1;
    mg_geometry_set_size (g, "tp", 2, NULL);
    ok (!mg_job_create (g, &wrong, &err) && errno == EINVAL && strstr (err.text, "tp 2"),
        "an older program's options end before it: %s", err.text);
    ok (!mg_job_create (g, &options, &err) && errno == EINVAL, "sizes: %s", err.text);
    mg_geometry_set_size (g, "world", 2, NULL);
    ok (!mg_job_create (g, NULL, &err) && errno == EINVAL, "world: %s", err.text);
    setenv ("MEGATRON_TP_SIZE", "zwei", 1);
    ok (!mg_job_create (NULL, NULL, &err) && errno == EINVAL, "environment: %s", err.text);
    unsetenv ("MEGATRON_TP_SIZE");
    errno = 77;
    mg_job_destroy (NULL);
    is_int (errno, 77, "destroy takes NULL and keeps errno");
    mg_geometry_destroy (g);
    is_str (mg_version (), MG_VERSION, "the library's version is the headers'");
}

int main (void)
{
    unsetenv ("PMIX_NAMESPACE");
    unsetenv ("SLURM_PROCID");
    test_badparam ();
    one_rank ();
    test_groups ();
    return done_testing ();
}
