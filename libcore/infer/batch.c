/* batch.c - places, and the rows of a pass */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "libcore/infer/batch.h"

int batch_init (struct batch *b, int places, int64_t rows, struct mg_error *err)
{
    *b = (struct batch){ .places = places, .rows = rows };
    if (rows < places)
        return mg_error_set (err, EINVAL, "%" PRId64 " rows of a pass, want at least one for each "
                             "of %d requests", rows, places);
    if (!(b->place = calloc ((size_t)places, sizeof (*b->place)))
        || !(b->part = calloc ((size_t)places, sizeof (*b->part)))) {
        batch_clear (b);
        return mg_error_set (err, ENOMEM, "out of memory for %d requests", places);
    }
    return 0;
}

void batch_clear (struct batch *b)
{
    free (b->place);
    free (b->part);
    *b = (struct batch){ .places = 0 };
}

int batch_enter (struct batch *b, int64_t known)
{
    for (int i = 0; i < b->places; i++) {
        if (!b->place[i].used) {
            b->place[i] = (struct batch_place){ true, b->arrivals++, 0, known };
            return i;
        }
    }
    return -1;
}

void batch_leave (struct batch *b, int place)
{
    b->place[place].used = false;
}

/* The prompt that came first of those that have no rows yet in this pass; -1: none. */
static int next_prompt (const struct batch *b)
{
    int best = -1;

    for (int i = 0; i < b->places; i++) {
        const struct batch_place *p = &b->place[i];

        if (p->used && p->known - p->done > 1 && b->part[i].rows == 0
            && (best < 0 || p->arrival < b->place[best].arrival))
            best = i;
    }
    return best;
}

int64_t batch_plan (struct batch *b)
{
    int64_t left = b->rows;
    int n = 0, i;

    for (i = 0; i < b->places; i++) {
        const struct batch_place *p = &b->place[i];

        b->part[i] = (struct nn_sequence){ i, p->done, p->used && p->known - p->done == 1 };
        left -= b->part[i].rows;
    }
    while (left > 0 && (i = next_prompt (b)) >= 0) {
        int64_t rows = b->place[i].known - b->place[i].done;

        b->part[i].rows = rows < left ? rows : left;
        left -= b->part[i].rows;
    }
    for (i = 0; i < b->places; i++) {
        if (b->part[i].rows > 0)
            b->part[n++] = b->part[i];
    }
    b->num_parts = n;
    return b->rows - left;
}

void batch_done (struct batch *b)
{
    for (int i = 0; i < b->num_parts; i++)
        b->place[b->part[i].place].done += b->part[i].rows;
    b->num_parts = 0;
}
