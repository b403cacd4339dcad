/* tape.c - the tape of a thread */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/device_ops.h"
#include "libcore/device/tape.h"

/* The thread's tape, while it records. */
static _Thread_local struct tape *current;

bool tape_recording (void)
{
    return current != NULL;
}

int tape_begin (struct tape *tape, struct mg_device *device, struct mg_error *err)
{
    if (current || device->kernels->tape)
        return mg_error_set (err, EBUSY, "tape: %s records already",
                             current ? "this thread" : "another thread");
    tape->device = device;
    device->kernels->tape = &tape->kernels;
    current = tape;
    return 0;
}

void tape_end (struct tape *tape)
{
    if (tape->device)
        tape->device->kernels->tape = NULL;
    tape->device = NULL;
    current = NULL;
}

void tape_clear (struct tape *tape)
{
    int saved_errno = errno;

    free (tape->collective);
    *tape = (struct tape){ .num_collectives = 0 };
    errno = saved_errno;
}

void tape_add_copy (size_t bytes)
{
    current->copies++;
    current->copied_bytes += bytes;
}

static struct tape_collective *find (const struct tape *tape, const char *group, const char *call)
{
    for (int i = 0; i < tape->num_collectives; i++) {
        if (strcmp (tape->collective[i].group, group) == 0
            && strcmp (tape->collective[i].call, call) == 0)
            return &tape->collective[i];
    }
    return NULL;
}

int tape_add_collective (const char *group, int ranks, const char *call, size_t bytes,
                         struct mg_error *err)
{
    struct tape *tape = current;
    struct tape_collective *row = find (tape, group, call);

    if (!row) {
        struct tape_collective *more
            = realloc (tape->collective, ((size_t)tape->num_collectives + 1) * sizeof (*more));

        if (!more)
            return mg_error_set (err, ENOMEM, "tape: out of memory");
        tape->collective = more;
        row = &more[tape->num_collectives++];
        *row = (struct tape_collective){ .call = call, .ranks = ranks };
        snprintf (row->group, sizeof (row->group), "%s", group);
    }
    row->count++;
    row->bytes += bytes;
    return 0;
}
