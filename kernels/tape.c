/* tape.c - the largest scratch memory of the calls so far */

#include "kernels/tape.h"

int kern_tape_add (struct kern_tape *tape, const struct kernels *k, const struct kern_call *call,
                   struct mg_error *err)
{
    size_t bytes;

    if (kern_scratch (k, call, &bytes, err) < 0)
        return -1;
    tape->count++;
    tape->scratch = bytes > tape->scratch ? bytes : tape->scratch;
    return 0;
}
