/* bootstrap.c - find the launcher, and check that its variables are consistent
 *
 * Chooses the backend from the environment, and refuses a process that was started as one of
 * several without PMIx.  After a failed exchange it explains which ranks of the node are missing,
 * and lets ranks that know more report first.
 */

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libcore/base/module.h"
#include "libcore/base/parse.h"
#include "libcore/bootstrap/arrival.h"
#include "libcore/bootstrap/bootstrap_ops.h"

enum {
    ENDING_TRIES = 50, ENDING_MS = 10, /* looks, and the time between them, until a process
                                          * that is ending has ended */
    OTHERS_SECONDS = 3, /* on a node where no rank is missing: until nodes where ranks are
                         * missing have reported */
    FIRST_SECONDS = 10, /* for the first rank of this node to report */
    END_SECONDS = 5,    /* from a report that names no rank to the end of the job */
};

static const int64_t STEP_MAX = 0xffffffef; /* Slurm's special steps are above */

struct bootstrap {
    const struct bootstrap_ops *ops;
    void *impl;
    struct bootstrap_info info;
    bool exchanged;
    bool together; /* the last collective call was a barrier that succeeded */
    void *kept;    /* NULL: nothing */
    void (*destroy_kept) (void *object, bool together);
    struct arrival *come; /* NULL: unknown */
    bool linger;   /* other nodes may have more to report */
    int failed;    /* 0, or errno of `why` */
    struct mg_error why;
};

static const struct bootstrap_host host = { .error_set = mg_error_set };

/* Value of a count in the environment, 0 where it is missing or no number: these are the
 * launchers' variables, not the user's.
 */
static int env_count (const char *name)
{
    const char *text = getenv (name);
    int value = 0;

    if (text && parse_int (name, text, 0, INT_MAX, &value, NULL) < 0)
        return 0;
    return value;
}

/* True if this process is a task of an srun.  The batch script has no SLURM_STEP_ID up to Slurm
 * 25.11 and a negative one from 26.05 on; the shell of salloc has a negative one from 26.05 on, and
 * before that the same number without its sign, 4294967290.
 */
static bool in_step (void)
{
    const char *text = getenv ("SLURM_STEP_ID");
    int64_t step;

    return getenv ("SLURM_PROCID") && text
           && parse_int64 ("SLURM_STEP_ID", text, 0, STEP_MAX, &step, NULL) == 0;
}

/* Refuse a process that a launcher without PMIx started as one of several: its peers cannot be
 * found, and a rank alone is not what the user meant.
 */
static int check_alone (struct mg_error *err)
{
    int tasks = env_count ("SLURM_STEP_NUM_TASKS");

    if (tasks == 0)
        tasks = env_count ("SLURM_NTASKS");
    if (env_count ("OMPI_COMM_WORLD_SIZE") > 1)
        return mg_error_set (err, ENOTCONN,
                             "this is one of %d processes of mpirun, but it"
                             " offers no PMIx; want an Open MPI with PMIx",
                             env_count ("OMPI_COMM_WORLD_SIZE"));
    // a batch script and salloc's shell have the SLURM_NTASKS of the job
    if (in_step () && tasks > 1)
        return mg_error_set (err, ENOTCONN, "this is one of %d tasks, but srun offers no"
                             " PMIx; start them with srun --mpi=pmix", tasks);
    return 0;
}

static const char variable[] = "MEGATRON_BOOTSTRAP";

bool bootstrap_is_env (void)
{
    const char *name = getenv (variable);

    return name && strcmp (name, "env") == 0;
}

static const struct bootstrap_ops *choose (struct mg_error *err)
{
    const char *name = getenv (variable);

    if (bootstrap_is_env ())
        return &boot_env_ops;
    if (name && *name) {
        mg_error_set (err, EINVAL, "%s is \"%.40s\", want env; without it PMIx is used where a "
                      "launcher offers it", variable, name);
        return NULL;
    }
    if (getenv ("PMIX_NAMESPACE"))
        return module_load ("boot_pmix", "ranks find each other through PMIx: install"
                            " libpmix-dev and configure --with-pmix=yes", err);
    if (check_alone (err) < 0)
        return NULL;
    return &boot_self_ops;
}

struct bootstrap *bootstrap_create (double timeout, struct mg_error *err)
{
    struct bootstrap *b;

    if (!(timeout > 0 && timeout < 1e9)) {
        mg_error_set (err, EINVAL, "bootstrap: timeout of %g s, want more than 0 and less"
                      " than 1e9", timeout);
        return NULL;
    }
    if (!(b = calloc (1, sizeof (*b)))) {
        mg_error_set (err, ENOMEM, "bootstrap: out of memory");
        return NULL;
    }
    if (!(b->ops = choose (err)))
        goto error;
    if (!(b->impl = b->ops->create (&host, timeout, &b->info, err)))
        goto error;
    b->info.backend = b->ops->name;
    return b;
error:
    bootstrap_destroy (b);
    return NULL;
}

struct bootstrap *bootstrap_create_planned (int rank, int size, struct mg_error *err)
{
    struct bootstrap *b;

    if (rank < 0 || rank >= size) {
        mg_error_set (err, EINVAL, "bootstrap: there is no rank %d of %d", rank, size);
        return NULL;
    }
    if (!(b = calloc (1, sizeof (*b)))) {
        mg_error_set (err, ENOMEM, "bootstrap: out of memory");
        return NULL;
    }
    b->ops = &boot_plan_ops;
    b->info = (struct bootstrap_info){
        .backend = b->ops->name, .size = size, .task = rank, .rank = rank, .num_nodes = 1,
        .local_rank = rank, .local_size = size,
    };
    if ((b->impl = b->ops->create (&host, 1, &b->info, err)))
        return b;
    bootstrap_destroy (b);
    return NULL;
}

bool bootstrap_is_planned (const struct bootstrap *b)
{
    return b->ops == &boot_plan_ops;
}

void bootstrap_destroy (struct bootstrap *b)
{
    if (b) {
        int saved_errno = errno;

        bootstrap_release (b);
        if (b->impl)
            b->ops->destroy (b->impl);
        arrival_destroy (b->come);
        free (b);
        errno = saved_errno;
    }
}

int bootstrap_expected_size (void)
{
    const char *job = getenv ("PMIX_NAMESPACE");

    if (bootstrap_is_env ())
        return env_count ("WORLD_SIZE");
    if (!job)
        return 1;
    // mpirun's processes inherit the variables of the Slurm step that mpirun runs in
    return env_count (strncmp (job, "slurm.", 6) == 0 ? "SLURM_NTASKS"
                                                       : "OMPI_COMM_WORLD_SIZE");
}

void bootstrap_keep (struct bootstrap *b, void *object,
                     void (*destroy) (void *object, bool together))
{
    b->kept = object;
    b->destroy_kept = destroy;
}

void bootstrap_release (struct bootstrap *b)
{
    if (b->kept)
        b->destroy_kept (b->kept, b->together);
    b->kept = NULL;
}

void *bootstrap_kept (const struct bootstrap *b)
{
    return b->kept;
}

void bootstrap_arrive (struct bootstrap *b, struct arrival *come)
{
    b->come = come;
}

static void wait_ms (long ms)
{
    struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

    while (nanosleep (&left, &left) < 0 && errno == EINTR)
        continue;
}

void bootstrap_explain (struct bootstrap *b, struct mg_error *err)
{
    int saved_errno = errno, found;
    bool late = errno == ETIMEDOUT;

    if (!b->come || !err || (!late && errno != ECONNRESET))
        return;
    found = arrival_explain (b->come, b, late, err);
    // a process that ends loses its connections one after the other
    for (int i = 0; !late && found == 0 && i < ENDING_TRIES; i++) {
        wait_ms (ENDING_MS);
        errno = saved_errno;
        found = arrival_explain (b->come, b, late, err);
    }
    if (found == 0 && late && b->info.num_nodes > 1) {
        b->linger = true;
        wait_ms (1000L * (OTHERS_SECONDS + (b->info.local_rank > 0 ? FIRST_SECONDS : 0)));
    }
    errno = saved_errno;
}

void bootstrap_fail (struct bootstrap *b, int errnum, const struct mg_error *why)
{
    b->failed = errnum;
    b->why = *why;
}

const struct bootstrap_info *bootstrap_info (const struct bootstrap *b)
{
    return &b->info;
}

int bootstrap_exchange (struct bootstrap *b, const void *data, size_t len,
                        struct mg_error *err)
{
    if (!data || len == 0 || len > INT_MAX)
        return mg_error_set (err, EINVAL,
                             "bootstrap: exchange of %zu bytes, want 1 to %d",
                             data ? len : 0, INT_MAX);
    b->exchanged = b->together = false;
    if (b->failed)
        return mg_error_set (err, b->failed, "%s", b->why.text);
    arrival_next (b->come);
    if (b->ops->exchange (b->impl, data, len, err) < 0) {
        bootstrap_explain (b, err);
        return -1;
    }
    b->exchanged = true;
    return 0;
}

int bootstrap_peer_data (struct bootstrap *b, int rank, void *data, size_t max,
                         size_t *len, struct mg_error *err)
{
    if (rank < 0 || rank >= b->info.size)
        return mg_error_set (err, EINVAL, "bootstrap: there is no rank %d, want 0 to %d",
                             rank, b->info.size - 1);
    if (!b->exchanged)
        return mg_error_set (err, EINVAL, "bootstrap: nothing was exchanged");
    return b->ops->peer_data (b->impl, rank, data, max, len, err);
}

int bootstrap_task_of (const struct bootstrap *b, int rank)
{
    return rank < 0 || rank >= b->info.size ? -1 : b->ops->task_of (b->impl, rank);
}

int bootstrap_barrier (struct bootstrap *b, struct mg_error *err)
{
    b->together = false;
    if (b->failed)
        return mg_error_set (err, b->failed, "%s", b->why.text);
    arrival_next (b->come);
    b->together = b->ops->barrier (b->impl, err) == 0;
    if (!b->together)
        bootstrap_explain (b, err);
    return b->together ? 0 : -1;
}

void bootstrap_abort (struct bootstrap *b, int code)
{
    if (b->linger)
        wait_ms (1000L * END_SECONDS);
    b->ops->abort (b->impl, code >= 1 && code <= 255 ? code : 1);
}
