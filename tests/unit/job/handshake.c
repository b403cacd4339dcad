/* handshake.c - what one rank hears of itself; several ranks: t2005-library-job.t, t3006 */

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/job/handshake.h"
#include "tests/tap/tap.h"

static void test_alone (void)
{
    struct handshake_config say = { .groups = { .kinds = 6 }, .fingerprint = 7 };
    struct geometry *g = &say.groups.geometry;
    struct handshake heard;
    struct mg_error err = { "" };
    struct bootstrap *b = bootstrap_create (5, &err);
    cpu_set_t own, cpus;

    if (!b)
        bail_out ("%s", err.text);
    geometry_init (g);
    g->world = 1;
    sched_getaffinity (0, sizeof (own), &own);
    is_int (handshake_run (b, &say, &heard, &err), 0, "one rank shakes hands %s", err.text);
    ok (!heard.refused && !heard.differs, "with itself it agrees");
    ok (heard.groups.geometry.world == 1
            && strcmp (heard.groups.geometry.order, g->order) == 0 && heard.groups.kinds == 6,
        "geometry and groups are those of rank 0");
    ok (heard.hub[0].port == 0 && heard.hub[1].port == 0, "without a monitor there is no hub");
    ok (handshake_cpus (b, 0, &cpus, &err) == 0 && CPU_EQUAL (&cpus, &own), "it said its CPUs");
    ok (handshake_cpus (b, 1, &cpus, &err) < 0 && errno == EINVAL, "there is no rank 1: %s",
        err.text);
    say.refusal = "rank 0 has had enough";
    is_int (handshake_run (b, &say, &heard, &err), 0, "a refusal is heard %s", err.text);
    ok (heard.refused, "as one");
    is_str (heard.refusal.text, "rank 0 has had enough", "with its text");
    bootstrap_destroy (b);
}

static void test_planned (void)
{
    struct handshake_config say = { .groups = { .kinds = 6 } };
    struct geometry *g = &say.groups.geometry;
    struct handshake heard;
    struct mg_error err = { "" };
    struct bootstrap *b = bootstrap_create_planned (2, 5, &err);
    cpu_set_t cpus;

    if (!b)
        bail_out ("%s", err.text);
    geometry_init (g);
    g->tp = 5;
    is_int (handshake_run (b, &say, &heard, &err), 0, "a planned rank hears itself %s", err.text);
    ok (!heard.differs && heard.groups.geometry.tp == 5, "as if the others said the same");
    is_int (handshake_cpus (b, 4, &cpus, &err), 0, "and had the same CPUs %s", err.text);
    bootstrap_destroy (b);
}

/* What the communicators' backend offers: none, the most, and too much. */
static void test_offer (void)
{
    static const size_t sizes[] = { 0, 1, COMM_OFFER_MAX };
    char given[COMM_OFFER_MAX], got[COMM_OFFER_MAX];
    struct handshake_config say = { .offer = given };
    struct handshake heard;
    struct mg_error err = { "" };
    struct bootstrap *b = bootstrap_create (5, &err);
    size_t len;

    if (!b)
        bail_out ("%s", err.text);
    geometry_init (&say.groups.geometry);
    memset (given, 'x', sizeof (given));
    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++) {
        say.offered = sizes[i];
        memset (got, 0, sizeof (got));
        is_int (handshake_run (b, &say, &heard, &err), 0, "an offer of %zu bytes %s", sizes[i],
                err.text);
        ok (handshake_offer (b, 0, got, sizeof (got), &len, &err) == 0 && len == sizes[i]
                && memcmp (got, given, len) == 0, "comes %s", err.text);
    }
    ok (handshake_offer (b, 0, got, 8, &len, &err) < 0 && errno == EMSGSIZE, "no room: %s",
        err.text);
    ok (handshake_offer (b, 1, got, sizeof (got), &len, &err) < 0, "no rank 1: %s", err.text);
    say.offered = COMM_OFFER_MAX + 1;
    ok (handshake_run (b, &say, &heard, &err) < 0 && errno == EMSGSIZE, "%s", err.text);
    bootstrap_destroy (b);
}

/* Bytes that are no greeting: those of a program with another version of the library. */
static void test_version (void)
{
    struct mg_error err = { "" };
    struct bootstrap *b = bootstrap_create (5, &err);
    cpu_set_t cpus;

    if (!b)
        bail_out ("%s", err.text);
    is_int (bootstrap_exchange (b, "hello", 5, &err), 0, "five bytes %s", err.text);
    ok (handshake_cpus (b, 0, &cpus, &err) < 0 && errno == EPROTO
            && strstr (err.text, "rank 0 says 5 bytes at the start"), "%s", err.text);
    bootstrap_destroy (b);
}

int main (void)
{
    unsetenv ("PMIX_NAMESPACE");
    unsetenv ("SLURM_PROCID");
    test_alone ();
    test_planned ();
    test_offer ();
    test_version ();
    return done_testing ();
}
