/* call.c - kernel calls as data: what is known of every op, and the one way of a call */

#include <errno.h>

#include "kernels/tape.h"

static const struct {
    const char *name;
    size_t size;
} known[KERN_NUM_OPS] = {
#define KNOWN(OP, op) [KERN_##OP] = { #op, sizeof (struct kern_##op) },
    KERN_OPS (KNOWN)
#undef KNOWN
};

const char *kern_op_name (enum kern_op op)
{
    return known[op].name;
}

size_t kern_op_size (enum kern_op op)
{
    return known[op].size;
}

int kern_run (const struct kernels *k, const struct kern_call *call, struct mg_error *err)
{
    if (k->taker)
        return k->taker->take (k->taker->arg, k, call, err);
    if (k->tape)
        return kern_tape_add (k->tape, k, call, err);
    if (!k->ops->run[call->op])
        return mg_error_set (err, ENOTSUP, "kernel %s: the %s device has none, or is only planned",
                             kern_op_name (call->op), k->ops->name);
    return k->ops->run[call->op](k, call->args, call->stream, err);
}

int kern_scratch (const struct kernels *k, const struct kern_call *call, size_t *bytes,
                  struct mg_error *err)
{
    *bytes = 0;
    if (!k->ops->scratch[call->op])
        return 0;
    return k->ops->scratch[call->op](k, call->args, bytes, err);
}
