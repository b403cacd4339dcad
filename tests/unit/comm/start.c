/* start.c - test the start of backends that have no library, and of those that fail */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/comm/net.h"
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

/* --- offers --- */

static size_t gives; /* bytes of what offer_some() writes */

static int offer_some (const struct comm_host *host, void *library, const struct comm_job *job,
                       const struct comm_group *group, int n, void *data, size_t *len,
                       struct mg_error *err)
{
    (void)host, (void)library, (void)job, (void)group, (void)n, (void)err;
    memset (data, 'm', *len = gives);
    return 0;
}

static int offer_control (const struct comm_host *host, void *library, const struct comm_job *job,
                          const struct comm_group *group, int n, void *data, size_t *len,
                          struct mg_error *err)
{
    (void)host, (void)library, (void)job, (void)group, (void)err;
    memset (data, 'c', *len = n == 0 ? 5 : 9);
    return 0;
}

static void stop_library (void *library)
{
    ++*(int *)library;
}

static const struct comm_ops some_ops = { .name = "some", .stop = stop_library,
                                          .offer = offer_some };
static const struct comm_ops control_ops = { .name = "control", .offer = offer_control };

static bool is_all (const char *data, size_t len, char c, size_t want)
{
    for (size_t i = 0; i < len; i++) {
        if (data[i] != c)
            return false;
    }
    return len == want;
}

/* What a rank with both backends offers, as ranks with both, and with the second one alone, read
 * it.
 */
static void two_offers (void)
{
    int stopped = 0;
    struct comm_start control = { .ops = &control_ops, .timeout = 5 };
    struct comm_start both = { .ops = &some_ops, .library = &stopped, .control = &control,
                               .timeout = 5 };
    const struct comm_job job = { 2, 1 };
    char all[COMM_OFFER_MAX], got[COMM_OFFER_MAX];
    struct mg_error err = { "" };
    size_t size, len;

    gives = 7;
    is_int (comm_start_offer (&both, &job, NULL, 0, all, &size, &err), 0, "two offers %s",
            err.text);
    is_int (size, 4 + 7 + 5, "stand one behind the other");
    ok (comm_start_offered (&both, false, all, size, got, sizeof (got), &len, &err) == 0
            && is_all (got, len, 'm', 7), "the first comes %s", err.text);
    ok (comm_start_offered (&both, true, all, size, got, sizeof (got), &len, &err) == 0
            && is_all (got, len, 'c', 5), "and the second %s", err.text);
    ok (comm_start_offered (&both, false, all, size, got, 6, &len, &err) < 0 && errno == EMSGSIZE,
        "no room: %s", err.text);
    gives = COMM_OFFER_MAX - 8;
    ok (comm_start_offer (&both, &job, NULL, 0, got, &len, &err) < 0 && errno == EMSGSIZE,
        "too many bytes for both: %s", err.text);
    is_str (err.text, "some and control offer 4097 bytes, want 4096 at most", "are refused");
    comm_start_drop (&both);
    is_int (stopped, 1, "one of the two is dropped, and stopped");
    ok (!comm_start_backend (&both) && comm_start_control (&both) == &control, "the other is left");
    ok (comm_start_offered (&both, false, all, size, got, sizeof (got), &len, &err) == 0
            && is_all (got, len, 'c', 5), "whose part is all that is read %s", err.text);
    is_int (comm_start_offer (&both, &job, NULL, 0, all, &size, &err), 0, "it offers alone %s",
            err.text);
    ok (size == 4 + 5
            && comm_start_offered (&both, true, all, size, got, sizeof (got), &len, &err) == 0
            && is_all (got, len, 'c', 5), "in the same form %s", err.text);
}

/* Every length of the head that does not fit, and every cut. */
static void damaged_offers (void)
{
    struct comm_start control = { .ops = &control_ops };
    struct comm_start both = { .ops = &some_ops, .control = &control };
    struct mg_error err = { "" };
    char all[16], got[16];
    uint32_t head;
    size_t len;

    memset (all, 0, sizeof (all));
    for (size_t size = 1; size <= sizeof (all); size++) {
        for (int more = 0; more < 2; more++) {
            head = size < sizeof (head) ? 0 : (uint32_t)(size - sizeof (head)) + (uint32_t)more;
            memcpy (all, &head, sizeof (head));
            if (size >= sizeof (head) && !more)
                continue;
            ok (comm_start_offered (&both, false, all, size, got, sizeof (got), &len, &err) < 0
                    && errno == EPROTO, "%zu bytes, of which %u are the first: %s", size,
                (unsigned)head, err.text);
        }
    }
    head = UINT32_MAX;
    memcpy (all, &head, sizeof (head));
    ok (comm_start_offered (&both, true, all, sizeof (all), got, sizeof (got), &len, &err) < 0,
        "the longest of all");
    is_str (err.text, "comm: an offer of 16 bytes is damaged", "in one line");
    ok (comm_start_offered (&both, true, all, 0, got, sizeof (got), &len, &err) == 0 && len == 0,
        "no bytes are no offer");
}

int main (void)
{
    unsetenv ("PMIX_NAMESPACE");
    unsetenv ("SLURM_STEP_ID");
    without_library ();
    without_module ();
    two_offers ();
    damaged_offers ();
    return done_testing ();
}
