/* bootstrap.c - test the choice of a backend and the one for a process alone */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libcore/bootstrap/bootstrap.h"
#include "tests/tap/tap.h"

static const char *const variables[] = {
    "PMIX_NAMESPACE", "SLURM_PROCID", "SLURM_STEP_ID", "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "MEGATRON_MODULE_DIR",
};

static void clear_environment (void)
{
    for (size_t i = 0; i < sizeof (variables) / sizeof (variables[0]); i++)
        unsetenv (variables[i]);
}

static void alone (void)
{
    struct mg_error err = { "" };
    struct bootstrap *b = bootstrap_create (5, &err);
    const struct bootstrap_info *info;
    char text[8] = "";
    size_t len = 0;

    if (!ok (b != NULL, "a process alone"))
        bail_out ("%s", err.text);
    info = bootstrap_info (b);
    is_str (info->backend, "self", "is served by self");
    ok (info->size == 1 && info->rank == 0 && info->task == 0, "rank 0 of 1");
    ok (info->node == 0 && info->num_nodes == 1, "on the one node");
    ok (info->local_rank == 0 && info->local_size == 1, "alone there");
    is_int (bootstrap_task_of (b, 0), 0, "rank 0 is task 0");
    is_int (bootstrap_task_of (b, 1), -1, "there is no rank 1");
    is_int (bootstrap_task_of (b, -1), -1, "nor -1");
    ok (bootstrap_peer_data (b, 0, text, 8, &len, &err) < 0 && errno == EINVAL,
        "nothing was exchanged");
    is_int (bootstrap_exchange (b, "first", 6, &err), 0, "exchange");
    is_int (bootstrap_exchange (b, "second", 7, &err), 0, "and again");
    is_int (bootstrap_peer_data (b, 0, text, 7, &len, &err), 0, "look at it");
    ok (len == 7 && strcmp (text, "second") == 0, "it is the last");
    ok (bootstrap_peer_data (b, 0, text, 6, &len, &err) < 0 && errno == EMSGSIZE
        && len == 7, "room for one byte less is EMSGSIZE: %s", err.text);
    ok (bootstrap_peer_data (b, 1, text, 8, &len, &err) < 0 && errno == EINVAL,
        "no rank 1");
    ok (bootstrap_exchange (b, NULL, 3, &err) < 0 && errno == EINVAL, "no data");
    ok (bootstrap_exchange (b, "", 0, &err) < 0 && errno == EINVAL, "no bytes");
    is_int (bootstrap_barrier (b, &err), 0, "barrier");
    bootstrap_destroy (b);
    errno = 42;
    bootstrap_destroy (NULL);
    is_int (errno, 42, "destroy keeps errno, and takes NULL");
}

static void choices (void)
{
    static const struct {
        const char *what;
        const char *env[8];
        const char *text; /* of the refusal; NULL: self */
    } rows[] = {
        { "a batch script of a job of 8",
          { "SLURM_PROCID=0", "SLURM_NTASKS=8" }, NULL },
        { "a batch script of a job of 8, Slurm 26.05",
          { "SLURM_PROCID=0", "SLURM_STEP_ID=-5", "SLURM_STEPID=-5", "SLURM_NTASKS=8" }, NULL },
        { "salloc's interactive step, Slurm 26.05",
          { "SLURM_PROCID=0", "SLURM_STEP_ID=-6", "SLURM_NTASKS=8" }, NULL },
        { "salloc's interactive step without a count",
          { "SLURM_PROCID=0", "SLURM_STEP_ID=4294967290", "SLURM_NTASKS=8" }, NULL },
        { "the highest step",
          { "SLURM_PROCID=0", "SLURM_STEP_ID=4294967279", "SLURM_NTASKS=8" },
          "one of 8 tasks" },
        { "salloc's interactive step",
          { "SLURM_PROCID=0", "SLURM_STEP_ID=4294967290", "SLURM_NTASKS=8",
            "SLURM_STEP_NUM_TASKS=1" }, NULL },
        { "srun of one task",
          { "SLURM_PROCID=0", "SLURM_STEP_ID=0", "SLURM_NTASKS=1",
            "SLURM_STEP_NUM_TASKS=1" }, NULL },
        { "srun of two tasks without PMIx",
          { "SLURM_PROCID=1", "SLURM_STEP_ID=0", "SLURM_NTASKS=2",
            "SLURM_STEP_NUM_TASKS=2" }, "one of 2 tasks, but srun offers no PMIx; start"
            " them with srun --mpi=pmix" },
        { "the same without the step's count",
          { "SLURM_PROCID=1", "SLURM_STEP_ID=0", "SLURM_NTASKS=3" },
          "one of 3 tasks" },
        { "mpirun without PMIx", { "OMPI_COMM_WORLD_SIZE=4" }, "one of 4 processes" },
        { "mpirun of one", { "OMPI_COMM_WORLD_SIZE=1" }, NULL },
        { "numbers that are none",
          { "OMPI_COMM_WORLD_SIZE=x", "SLURM_PROCID=0", "SLURM_STEP_ID=0",
            "SLURM_STEP_NUM_TASKS=" }, NULL },
        { "PMIx without its module",
          { "PMIX_NAMESPACE=x", "MEGATRON_MODULE_DIR=/nonexistent" },
          "there is no /nonexistent/boot_pmix.so; ranks find each other through PMIx:"
          " install libpmix-dev and configure --with-pmix=yes" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct mg_error err = { "" };
        struct bootstrap *b;

        clear_environment ();
        for (int j = 0; rows[i].env[j]; j++)
            putenv ((char *)rows[i].env[j]);
        b = bootstrap_create (5, &err);
        if (rows[i].text)
            ok (!b && strstr (err.text, rows[i].text), "%s: %s", rows[i].what, err.text);
        else
            ok (b && strcmp (bootstrap_info (b)->backend, "self") == 0, "%s: alone (%s)",
                rows[i].what, err.text);
        bootstrap_destroy (b);
    }
    clear_environment ();
}

static void sizes (void)
{
    static const struct {
        const char *env[4];
        int size;
    } rows[] = {
        { { "SLURM_NTASKS=8", "OMPI_COMM_WORLD_SIZE=4" }, 1 },
        { { "PMIX_NAMESPACE=slurm.pmix.7.0", "SLURM_NTASKS=8" }, 8 },
        { { "PMIX_NAMESPACE=slurm.pmix.7.0", "SLURM_NTASKS=1", "OMPI_COMM_WORLD_SIZE=4" }, 1 },
        { { "PMIX_NAMESPACE=prterun-n0-17@1", "SLURM_NTASKS=1", "OMPI_COMM_WORLD_SIZE=4" }, 4 },
        { { "PMIX_NAMESPACE=1234567", "SLURM_NTASKS=1" }, 0 },
        { { "PMIX_NAMESPACE=slurm.pmix.7.0", "SLURM_NTASKS=many" }, 0 },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        clear_environment ();
        for (int j = 0; rows[i].env[j]; j++)
            putenv ((char *)rows[i].env[j]);
        is_int (bootstrap_expected_size (), rows[i].size, "%s: expected size",
                rows[i].env[0]);
    }
    clear_environment ();
}

static void count_end (void *object, bool together)
{
    *(int *)object += together ? 1 : 10;
}

/* What a bootstrap keeps ends with it, together with the others or not. */
static void keeping (void)
{
    static const int want[] = { 10, 11, 21, 31 };
    struct mg_error err = { "" }, why = { "" };
    int ends = 0;

    for (int i = 0; i < 4; i++) {
        struct bootstrap *b = bootstrap_create (5, &err);

        if (!b)
            bail_out ("%s", err.text);
        ok (bootstrap_kept (b) == NULL, "nothing is kept");
        bootstrap_keep (b, &ends, count_end);
        ok (bootstrap_kept (b) == &ends, "an object is kept");
        if (i >= 1)
            bootstrap_barrier (b, &err);
        if (i == 2)
            bootstrap_exchange (b, "x", 1, &err);
        if (i == 3) {
            mg_error_set (&why, EIO, "it broke");
            bootstrap_fail (b, EIO, &why);
            ok (bootstrap_barrier (b, &err) < 0 && errno == EIO
                && strcmp (err.text, "it broke") == 0, "a failed one says why");
            ok (bootstrap_exchange (b, "x", 1, &err) < 0 && errno == EIO, "twice");
        }
        bootstrap_destroy (b);
        is_int (ends, want[i], "it ends (%d)", i);
    }
}

/* Exit code of a child that ends itself by bootstrap_abort (code). */
static int abort_code (int code)
{
    struct mg_error err = { "" };
    int status = 0;
    pid_t pid = fork ();

    if (pid == 0) {
        struct bootstrap *b = bootstrap_create (5, &err);

        if (b)
            bootstrap_abort (b, code);
        _exit (99);
    }
    waitpid (pid, &status, 0);
    return WIFEXITED (status) ? WEXITSTATUS (status) : -1;
}

int main (void)
{
    static const int codes[][2] = { { 1, 1 }, { 86, 86 }, { 255, 255 }, { 0, 1 },
                                    { 256, 1 }, { -1, 1 } };
    static const double bad[] = { 0.0, -1.0, 1e9, 0.0 / 0.0 };
    struct mg_error err;

    clear_environment ();
    alone ();
    choices ();
    sizes ();
    keeping ();
    for (size_t i = 0; i < sizeof (codes) / sizeof (codes[0]); i++)
        is_int (abort_code (codes[i][0]), codes[i][1], "abort with %d", codes[i][0]);
    for (size_t i = 0; i < sizeof (bad) / sizeof (bad[0]); i++)
        ok (!bootstrap_create (bad[i], &err) && errno == EINVAL, "no timeout of %g",
            bad[i]);
    return done_testing ();
}
