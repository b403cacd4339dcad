/* tape.c - a list of calls whose arguments lie one behind the other
 *
 * Arguments are copied into one block of memory, and a call remembers their offset, so that the
 * block may move when it grows.  A tape that keeps no calls only updates the largest scratch
 * size.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/tape.h"

struct taken {
    enum kern_op op;
    struct mg_stream *stream;
    size_t at; /* of the arguments in tape->args */
};

struct kern_tape {
    bool keep;
    size_t scratch, count;
    struct taken *call; /* [room] */
    size_t room;
    char *args; /* each call's begin at a multiple of ALIGNMENT */
    size_t used, size;
};

enum { ALIGNMENT = _Alignof (max_align_t) };

struct kern_tape *kern_tape_create (bool keep, struct mg_error *err)
{
    struct kern_tape *tape = calloc (1, sizeof (*tape));

    if (!tape)
        mg_error_set (err, ENOMEM, "tape of kernel calls: out of memory");
    else
        tape->keep = keep;
    return tape;
}

void kern_tape_destroy (struct kern_tape *tape)
{
    if (tape) {
        int saved_errno = errno;
        free (tape->call);
        free (tape->args);
        free (tape);
        errno = saved_errno;
    }
}

/* Room for one more call with so many bytes of arguments. */
static int grow (struct kern_tape *tape, size_t bytes, struct mg_error *err)
{
    void *larger;

    if (tape->count == tape->room) {
        size_t room = tape->room ? 2 * tape->room : 64;

        if (!(larger = realloc (tape->call, room * sizeof (*tape->call))))
            return mg_error_set (err, ENOMEM, "tape of %zu kernel calls: out of memory", room);
        tape->call = larger;
        tape->room = room;
    }
    if (bytes > tape->size - tape->used) {
        size_t size = 2 * (tape->size + bytes);

        if (!(larger = realloc (tape->args, size)))
            return mg_error_set (err, ENOMEM, "tape of kernel calls: no memory for %zu bytes",
                                 size);
        tape->args = larger;
        tape->size = size;
    }
    return 0;
}

int kern_tape_take (struct kern_tape *tape, const struct kernels *k,
                    const struct kern_call *call, struct mg_error *err)
{
    size_t size = kern_op_size (call->op), bytes;

    if (kern_scratch (k, call, &bytes, err) < 0)
        return -1;
    if (tape->keep) {
        size_t padded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

        if (grow (tape, padded, err) < 0)
            return -1;
        memcpy (tape->args + tape->used, call->args, size);
        tape->call[tape->count] = (struct taken){ call->op, call->stream, tape->used };
        tape->used += padded;
    }
    tape->count++;
    tape->scratch = bytes > tape->scratch ? bytes : tape->scratch;
    return 0;
}

size_t kern_tape_scratch (const struct kern_tape *tape)
{
    return tape->scratch;
}

size_t kern_tape_count (const struct kern_tape *tape)
{
    return tape->count;
}

struct kern_call kern_tape_get (const struct kern_tape *tape, size_t i)
{
    const struct taken *taken = &tape->call[i];

    return (struct kern_call){ taken->op, tape->args + taken->at, taken->stream };
}

int kern_tape_replay (const struct kern_tape *tape, const struct kernels *k,
                      struct mg_error *err)
{
    for (size_t i = 0; tape->keep && i < tape->count; i++) {
        const struct kern_call call = kern_tape_get (tape, i);

        if (kern_run (k, &call, err) < 0)
            return -1;
    }
    return 0;
}
