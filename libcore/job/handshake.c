/* handshake.c - greetings: short ones, and whole ones of the hubs */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libcore/job/handshake.h"

/* What every rank gives. */
struct hello {
    cpu_set_t cpus;
};

/* What a hub gives. */
struct greeting {
    struct hello hello;
    uint64_t fingerprint;
    char refusal[MG_ERROR_MAX]; /* empty: it can go on */
    struct handshake_groups groups;
    struct endpoint hub;
};

/* A planned rank hears the others say what it says itself. */
static bool gives_greeting (const struct bootstrap *b)
{
    const struct bootstrap_info *info = bootstrap_info (b);

    for (int h = 0; h < MONITOR_HUBS; h++) {
        if (info->rank == monitor_hub (h, info->size))
            return true;
    }
    return bootstrap_is_planned (b);
}

/* What rank 'rank' gave, of one of the two lengths; whole: it has to be a greeting. */
static int hear (struct bootstrap *b, int rank, bool whole, struct greeting *g,
                 struct mg_error *err)
{
    size_t len;

    if (bootstrap_peer_data (b, rank, g, sizeof (*g), &len, err) < 0)
        return -1;
    if (len == sizeof (*g) || (!whole && len == sizeof (g->hello)))
        return 0;
    return mg_error_set (err, EPROTO, "rank %d says %zu bytes at the start, this rank wants %zu: "
                         "they run different versions", rank, len,
                         whole ? sizeof (*g) : sizeof (g->hello));
}

static void fill (struct greeting *own, const struct handshake_config *config)
{
    memset (own, 0, sizeof (*own)); // padding travels too
    CPU_ZERO (&own->hello.cpus);
    sched_getaffinity (0, sizeof (own->hello.cpus), &own->hello.cpus); // left empty if it fails
    own->fingerprint = config->fingerprint;
    own->groups = config->groups;
    if (config->refusal)
        snprintf (own->refusal, sizeof (own->refusal), "%s", config->refusal);
    if (config->monitor)
        own->hub = *monitor_endpoint (config->monitor);
}

int handshake_run (struct bootstrap *b, const struct handshake_config *config,
                   struct handshake *result, struct mg_error *err)
{
    const struct bootstrap_info *info = bootstrap_info (b);
    struct greeting own, theirs;

    memset (result, 0, sizeof (*result));
    fill (&own, config);
    if (bootstrap_exchange (b, &own, gives_greeting (b) ? sizeof (own) : sizeof (own.hello),
                            err) < 0
        || hear (b, 0, true, &theirs, err) < 0)
        return -1;
    result->refused = theirs.refusal[0] != '\0';
    mg_error_set (&result->refusal, EINVAL, "%.*s", (int)sizeof (theirs.refusal) - 1,
                  theirs.refusal);
    result->differs = theirs.fingerprint != own.fingerprint;
    result->groups = theirs.groups;
    for (int h = 0; h < MONITOR_HUBS; h++) { // a hub without an address is left out
        if (hear (b, monitor_hub (h, info->size), true, &theirs, NULL) == 0)
            result->hub[h] = theirs.hub;
    }
    return 0;
}

int handshake_cpus (struct bootstrap *b, int rank, cpu_set_t *cpus, struct mg_error *err)
{
    struct greeting theirs;

    if (hear (b, rank, false, &theirs, err) < 0)
        return -1;
    *cpus = theirs.hello.cpus;
    return 0;
}
