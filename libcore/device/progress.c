/* progress.c - a ring of waits, and the host's wait
 *
 * One lock guards both.  An object that the host waits for stays valid as long as the wait is
 * noted.  So another thread that holds the lock may ask the device about the object.
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcore/base/timed.h"
#include "libcore/device/device_ops.h"
#include "libcore/device/progress.h"

_Static_assert ((int)PROGRESS_NAME_MAX == (int)STREAM_NAME_MAX, "names are copied whole");

struct wait {
    struct stream_place at, on;
};

struct progress {
    pthread_mutex_t lock;
    uint64_t streams, hosts; /* numbers given so far */
    uint64_t waiting;        /* number of the host's wait, 0: it does not wait */
    struct progress_host host;
    struct timespec since;
    bool failed; /* the wait has ended with the device, and what it was for may be gone */
    char name[PROGRESS_NAME_MAX];
    uint64_t num_waits; /* so far */
    struct wait wait[PROGRESS_WAITS];
};

struct progress *progress_create (struct mg_error *err)
{
    struct progress *p = calloc (1, sizeof (*p));

    if (!p) {
        mg_error_set (err, ENOMEM, "device: out of memory");
        return NULL;
    }
    pthread_mutex_init (&p->lock, NULL);
    return p;
}

void progress_destroy (struct progress *p)
{
    int saved_errno = errno;

    if (p)
        pthread_mutex_destroy (&p->lock);
    free (p);
    errno = saved_errno;
}

struct stream_place progress_add_stream (struct progress *p)
{
    struct stream_place place = { .calls = 0 };

    pthread_mutex_lock (&p->lock);
    place.stream = ++p->streams;
    pthread_mutex_unlock (&p->lock);
    return place;
}

void progress_add_wait (struct progress *p, struct stream_place at, struct stream_place on)
{
    if (on.stream == 0 || on.stream == at.stream)
        return; // never recorded, or in order anyway
    pthread_mutex_lock (&p->lock);
    p->wait[p->num_waits++ % PROGRESS_WAITS] = (struct wait){ at, on };
    pthread_mutex_unlock (&p->lock);
}

int progress_waits (struct progress *p, struct stream_place at, struct stream_place *on, int max)
{
    uint64_t first, end;
    int n = 0;

    pthread_mutex_lock (&p->lock);
    end = p->num_waits;
    first = end > PROGRESS_WAITS ? end - PROGRESS_WAITS : 0;
    for (uint64_t i = end; i > first && n < max; i--) {
        const struct wait *w = &p->wait[(i - 1) % PROGRESS_WAITS];

        if (w->at.stream == at.stream && w->at.calls <= at.calls)
            on[n++] = w->on;
    }
    pthread_mutex_unlock (&p->lock);
    for (int i = 0; i < n / 2; i++) {
        struct stream_place last = on[n - 1 - i];

        on[n - 1 - i] = on[i];
        on[i] = last;
    }
    return n;
}

uint64_t progress_host_begins (struct progress *p, const struct progress_host *host)
{
    uint64_t number;

    pthread_mutex_lock (&p->lock);
    number = ++p->hosts;
    if (!p->failed) {
        p->waiting = number;
        p->host = *host;
        clock_gettime (CLOCK_MONOTONIC, &p->since);
        p->name[0] = '\0';
        if (!host->event) // the call is in every transfer's way: no formatting
            memcpy (p->name, host->stream->name, sizeof (p->name));
    }
    pthread_mutex_unlock (&p->lock);
    return number;
}

void progress_host_ends (struct progress *p, uint64_t number, bool failed)
{
    pthread_mutex_lock (&p->lock);
    if (p->waiting == number && failed)
        p->failed = true;
    else if (p->waiting == number)
        p->waiting = 0;
    pthread_mutex_unlock (&p->lock);
}

/* The lock is held. */
static bool is_reached (const struct progress_host *host)
{
    return host->event ? host->event->device->ops->event_reached (host->event)
                       : host->stream->device->ops->stream_idle (host->stream);
}

bool progress_host (struct progress *p, struct stream_place *place, double *seconds,
                    char name[PROGRESS_NAME_MAX])
{
    bool waits;

    pthread_mutex_lock (&p->lock);
    waits = p->waiting > 0 && (p->failed || !is_reached (&p->host));
    if (waits) {
        *place = p->host.place;
        *seconds = timed_since (&p->since);
        snprintf (name, PROGRESS_NAME_MAX, "%s", p->name);
    }
    pthread_mutex_unlock (&p->lock);
    return waits;
}
