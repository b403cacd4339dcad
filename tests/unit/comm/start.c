/* start.c - test the start of backends that have no library, and of those that fail */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/comm/start.h"
#include "libcore/job/job.h"
#include "tests/tap/tap.h"

static void without_library (void)
{
    static const char *const names[] = { "self", "plan", "smoke" };

    for (size_t i = 0; i < sizeof (names) / sizeof (names[0]); i++) {
        struct mg_error err = { "" };
        struct comm_start *start = comm_start_create (names[i], 5, &err);

        ok (start != NULL, "%s starts nothing: %s", names[i], err.text);
        comm_start_destroy (start, true);
    }
    errno = 42;
    comm_start_destroy (NULL, true);
    is_int (errno, 42, "destroy keeps errno, and takes NULL");
}

/* The process is alone here, so it has a bootstrap, which hands on why it must not start. */
static void without_module (void)
{
    struct mg_error err = { "" };
    struct bootstrap *b;

    setenv ("MEGATRON_MODULE_DIR", "/nonexistent", 1);
    ok (!comm_start_create (NULL, 5, &err) && errno == ENOENT, "no module: %s", err.text);
    ok (strstr (err.text, "no /nonexistent/comm_mpi.so; ranks talk through MPI") != NULL,
        "it says which");
    if (!(b = job_meet ("mpi", NULL, 5, &err)))
        bail_out ("%s", err.text);
    err.text[0] = '\0';
    ok (bootstrap_exchange (b, "x", 1, &err) < 0 && errno == ENOENT
        && strstr (err.text, "comm_mpi.so"), "the first exchange says it: %s", err.text);
    ok (bootstrap_barrier (b, &err) < 0 && errno == ENOENT, "and the barrier");
    bootstrap_destroy (b);
    ok (!job_meet (NULL, NULL, 0, &err) && errno == EINVAL, "no timeout: %s", err.text);
    unsetenv ("MEGATRON_MODULE_DIR");
}

int main (void)
{
    unsetenv ("PMIX_NAMESPACE");
    unsetenv ("SLURM_STEP_ID");
    without_library ();
    without_module ();
    return done_testing ();
}
