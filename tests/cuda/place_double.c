/* place_double.c - the kernels of the double, which run in the call */

#include <string.h>

#include "tests/cuda/direct.h"
#include "tests/cuda/kernels.h"
#include "tests/cuda/launch.h"
#include "tests/cuda/place.h"
#include "tests/tap/tap.h"

void place_open (size_t size)
{
    (void)size;
}

void place_close (void)
{
}

void *place_alloc (size_t size, size_t offset)
{
    return direct_alloc (size, offset);
}

void place_free (void *p)
{
    direct_free (p);
}

void place_write (void *to, const void *from, size_t size)
{
    memcpy (to, from, size);
}

void place_read (void *to, const void *from, size_t size)
{
    memcpy (to, from, size);
}

int place_run (enum kern_op op, const void *args, struct mg_error *err)
{
    struct kern_call call = { op, args, NULL };

    return kern_run (cuda_double_kernels (), &call, err);
}

void place_count_begin (void)
{
    launch_count_reset ();
}

void place_count (struct launch_counts *counts)
{
    launch_count (counts);
}

double place_time (enum kern_op op, const void *args, int count)
{
    struct mg_error err = { "" };

    for (int i = 0; i < count; i++)
        if (place_run (op, args, &err) < 0)
            bail_out ("%s: %s", kern_op_name (op), err.text);
    return 0;
}
