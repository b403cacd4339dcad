/* optimizer_scale.c - one scale for a tensor, wherever its parts are
 *
 * The scale follows from the largest magnitude, and that is the same whatever the parts: so
 * neither layout nor buckets change what is stored.
 */

#include <string.h>

#include "libcore/optim/optimizer_private.h"

bool optimizer_is_scaled (const struct store *s, int memory)
{
    return memory >= MEMORY_MAIN && kern_has_scale (s->dtype[memory]);
}

static float larger (float a, float b)
{
    return a > b ? a : b;
}

int optimizer_find_scales (struct optimizer *o, struct mg_error *err)
{
    if (optimizer_fetch_findings (o, err) < 0)
        return -1;
    memset (o->agreed, 0, (size_t)o->num_tensors * sizeof (*o->agreed));
    for (size_t i = 0; i < o->num_ranges; i++) {
        struct kern_three *all = &o->agreed[o->params[o->range[i].at.param].order];
        const struct kern_three *part = &o->found[i].three;

        all->param = larger (all->param, part->param);
        all->m = larger (all->m, part->m);
        all->v = larger (all->v, part->v);
    }
    if (mg_comm_all_reduce (o->control, o->agreed,
                            (size_t)o->num_tensors * sizeof (*o->agreed) / sizeof (float),
                            MG_FLOAT32, MG_MAX, NULL, err) < 0)
        return mg_error_prefix (err, "scales of the optimizer's state");
    return 0;
}

struct kern_three optimizer_scales (const struct optimizer *o, const struct range *r)
{
    const struct kern_three *largest = &o->agreed[o->params[r->at.param].order];
    const enum mg_dtype *dtype = r->store->dtype;

    return (struct kern_three){
        .param = kern_scale (dtype[MEMORY_MAIN], largest->param),
        .m = kern_scale (dtype[MEMORY_EXP_AVG], largest->m),
        .v = kern_scale (dtype[MEMORY_EXP_AVG_SQ], largest->v),
    };
}
