/* optimizer_scale.c - one scale for a tensor, wherever its parts are
 *
 * The scale follows from the largest magnitude, and that is the same whatever the parts: so
 * neither layout nor buckets change what is stored.
 */

#include <string.h>

#include "libcore/optim/optimizer_private.h"

static float larger (float a, float b)
{
    return a > b ? a : b;
}

int optimizer_find_scales (struct optimizer *o, struct mg_error *err)
{
    struct buffers *b = o->buffers;

    if (buffers_fetch_findings (b, err) < 0)
        return -1;
    memset (o->agreed, 0, (size_t)b->num_tensors * sizeof (*o->agreed));
    for (size_t i = 0; i < b->num_ranges; i++) {
        struct kern_three *all = &o->agreed[buffers_param (b, i)->order];
        const struct kern_three *part = &b->found[i].three;

        all->param = larger (all->param, part->param);
        all->m = larger (all->m, part->m);
        all->v = larger (all->v, part->v);
    }
    if (buffers_agree_largest (b, (float *)o->agreed,
                               (size_t)b->num_tensors * sizeof (*o->agreed) / sizeof (float),
                               err) < 0)
        return mg_error_prefix (err, "scales of the optimizer's state");
    return 0;
}

struct kern_three optimizer_scales (const struct optimizer *o, size_t range)
{
    const struct kern_three *largest = &o->agreed[buffers_param (o->buffers, range)->order];

    return (struct kern_three){
        .param = kern_scale (owned_dtype (&o->main->value, range), largest->param),
        .m = kern_scale (owned_dtype (&o->value[OPTIMIZER_EXP_AVG], range), largest->m),
        .v = kern_scale (owned_dtype (&o->value[OPTIMIZER_EXP_AVG_SQ], range), largest->v),
    };
}
