/* tape.c - the largest scratch memory of the calls on each stream so far */

#include <errno.h>

#include "kernels/tape.h"

static int find (const struct kern_tape *tape, const struct mg_stream *stream)
{
    int i = 0;

    while (i < tape->num_streams && tape->scratch[i].stream != stream)
        i++;
    return i;
}

size_t kern_tape_scratch (const struct kern_tape *tape, const struct mg_stream *stream)
{
    int i = find (tape, stream);

    return i < tape->num_streams ? tape->scratch[i].bytes : 0;
}

int kern_tape_add (struct kern_tape *tape, const struct kernels *k, const struct kern_call *call,
                   struct mg_error *err)
{
    int i = find (tape, call->stream);
    size_t bytes;

    if (kern_scratch (k, call, &bytes, err) < 0)
        return -1;
    tape->count++;
    if (bytes == 0)
        return 0;
    if (i == KERN_SCRATCH_STREAMS)
        return mg_error_set (err, ENOSPC, "kernels on more than %d streams want scratch memory",
                             KERN_SCRATCH_STREAMS);
    if (i == tape->num_streams) {
        tape->scratch[i].stream = call->stream;
        tape->scratch[i].bytes = 0;
        tape->num_streams++;
    }
    if (bytes > tape->scratch[i].bytes)
        tape->scratch[i].bytes = bytes;
    return 0;
}
