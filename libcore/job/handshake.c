/* handshake.c - greetings: short ones, and whole ones of the hubs */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libcore/job/handshake.h"

/* The data that every rank sends. */
struct hello {
    cpu_set_t cpus;
    struct handshake_device device;
    uint64_t offered; /* bytes behind this struct, or behind that of a hub */
};

/* The data that a hub also sends. */
struct greeting {
    struct hello hello;
    uint64_t fingerprint;
    char refusal[MG_ERROR_MAX]; /* empty: it can go on */
    struct handshake_groups groups;
    struct endpoint hub;
};

/* As it travels. */
struct message {
    char bytes[sizeof (struct greeting) + COMM_OFFER_MAX];
    size_t len;
};

/* A planned rank receives its own data from all others. */
static bool gives_greeting (const struct bootstrap *b)
{
    const struct bootstrap_info *info = bootstrap_info (b);

    for (int h = 0; h < MONITOR_HUBS; h++) {
        if (info->rank == monitor_hub (h, info->size))
            return true;
    }
    return bootstrap_is_planned (b);
}

static int refuse_length (int rank, size_t len, size_t want, struct mg_error *err)
{
    return mg_error_set (err, EPROTO, "rank %d says %zu bytes at the start, this rank wants %zu: "
                         "they run different versions", rank, len, want);
}

/* Read the data of rank 'rank'.  Returns the beginning of its offer, or 0 and a text on
 * failure. */
static size_t fetch (struct bootstrap *b, int rank, struct message *m, struct hello *hello,
                     struct mg_error *err)
{
    if (bootstrap_peer_data (b, rank, m->bytes, sizeof (m->bytes), &m->len, err) < 0)
        return 0;
    memset (hello, 0, sizeof (*hello));
    memcpy (hello, m->bytes, m->len < sizeof (*hello) ? m->len : sizeof (*hello));
    if (m->len >= sizeof (*hello) && m->len - sizeof (*hello) == hello->offered)
        return sizeof (*hello);
    if (m->len >= sizeof (struct greeting)
        && m->len - sizeof (struct greeting) == hello->offered)
        return sizeof (struct greeting);
    refuse_length (rank, m->len, sizeof (*hello), err);
    return 0;
}

/* Read the data of rank 'rank', which must be a greeting. */
static int hear (struct bootstrap *b, int rank, struct greeting *g, struct mg_error *err)
{
    struct message m;
    struct hello hello;
    size_t size = fetch (b, rank, &m, &hello, err);

    if (size == 0)
        return -1;
    if (size != sizeof (*g))
        return refuse_length (rank, m.len, sizeof (*g), err);
    memcpy (g, m.bytes, sizeof (*g));
    return 0;
}

static void fill (struct greeting *own, const struct handshake_config *config)
{
    memset (own, 0, sizeof (*own)); // padding is sent, too
    CPU_ZERO (&own->hello.cpus);
    sched_getaffinity (0, sizeof (own->hello.cpus), &own->hello.cpus); // left empty if it fails
    own->fingerprint = config->fingerprint;
    own->groups = config->groups;
    own->hello.device = config->device;
    own->hello.offered = config->offered;
    if (config->refusal)
        snprintf (own->refusal, sizeof (own->refusal), "%s", config->refusal);
    if (config->monitor)
        own->hub = *monitor_endpoint (config->monitor);
}

/* Send the data of this rank. */
static int send_own (struct bootstrap *b, const struct handshake_config *config,
                     const struct greeting *own, struct mg_error *err)
{
    size_t size = gives_greeting (b) ? sizeof (*own) : sizeof (own->hello);
    struct message m;

    if (config->offered > COMM_OFFER_MAX)
        return mg_error_set (err, EMSGSIZE, "the communicators' backend offers %zu bytes, want %d "
                             "at most", config->offered, COMM_OFFER_MAX);
    memcpy (m.bytes, own, size);
    if (config->offered > 0)
        memcpy (m.bytes + size, config->offer, config->offered);
    return bootstrap_exchange (b, m.bytes, size + config->offered, err);
}

int handshake_run (struct bootstrap *b, const struct handshake_config *config,
                   struct handshake *result, struct mg_error *err)
{
    const struct bootstrap_info *info = bootstrap_info (b);
    struct greeting own, theirs;

    memset (result, 0, sizeof (*result));
    fill (&own, config);
    if (send_own (b, config, &own, err) < 0 || hear (b, 0, &theirs, err) < 0)
        return -1;
    result->refused = theirs.refusal[0] != '\0';
    mg_error_set (&result->refusal, EINVAL, "%.*s", (int)sizeof (theirs.refusal) - 1,
                  theirs.refusal);
    result->differs = theirs.fingerprint != own.fingerprint;
    result->groups = theirs.groups;
    for (int h = 0; h < MONITOR_HUBS; h++) { // a hub without an address is left out
        if (hear (b, monitor_hub (h, info->size), &theirs, NULL) == 0)
            result->hub[h] = theirs.hub;
    }
    return 0;
}

int handshake_cpus (struct bootstrap *b, int rank, cpu_set_t *cpus, struct mg_error *err)
{
    struct message m;
    struct hello hello;

    if (fetch (b, rank, &m, &hello, err) == 0)
        return -1;
    *cpus = hello.cpus;
    return 0;
}

int handshake_device (struct bootstrap *b, int rank, struct handshake_device *device,
                      struct mg_error *err)
{
    struct message m;
    struct hello hello;

    if (fetch (b, rank, &m, &hello, err) == 0)
        return -1;
    *device = hello.device;
    device->identity.place[DEVICE_PLACE_MAX - 1] = '\0';
    return 0;
}

int handshake_offer (struct bootstrap *b, int rank, void *data, size_t max, size_t *len,
                     struct mg_error *err)
{
    struct message m;
    struct hello hello;
    size_t at = fetch (b, rank, &m, &hello, err);

    if (at == 0)
        return -1;
    *len = (size_t)hello.offered;
    if (*len > max)
        return mg_error_set (err, EMSGSIZE, "rank %d offers %zu bytes, want %zu at most", rank,
                             *len, max);
    memcpy (data, m.bytes + at, *len);
    return 0;
}
