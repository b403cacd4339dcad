/* optimizer_float8.c - parameters in float8: their scales, which all ranks agree on, and
 * their codes
 *
 * A parameter is a number for each element times one scale for the tensor.  The scale follows
 * from the largest magnitude of the main parameters of all ranks, so a tensor has the same
 * codes however it is cut.
 */

#include <errno.h>
#include <string.h>

#include "libcore/base/float8.h"
#include "libcore/optim/optimizer_private.h"

static bool is_float8 (const struct range *r)
{
    return r->store->dtype[MEMORY_PARAM] == MG_FLOAT8_E4M3;
}

/* What stored main parameters have to be multiplied by. */
static float main_scale (const struct range *r)
{
    return optimizer_is_scaled (r->store, MEMORY_MAIN) ? r->scale[MEMORY_MAIN] : 1;
}

/* o->largest[order] of every tensor, of what this rank has. */
static int find_own_largest (struct optimizer *o, struct mg_error *err)
{
    memset (o->largest, 0, (size_t)o->num_tensors * sizeof (*o->largest));
    if (optimizer_clear_findings (o, err) < 0)
        return -1;
    for (size_t i = 0; i < o->num_ranges; i++) {
        const struct range *r = &o->range[i];
        const struct kern_max_abs max = {
            .n = r->at.to - r->at.from,
            .x = r->memory[MEMORY_MAIN],
            .dtype = r->store->dtype[MEMORY_MAIN],
            .out = &o->findings[i].largest,
        };

        if (is_float8 (r) && kern_max_abs (o->kern, &max, o->stream, err) < 0)
            return -1;
    }
    if (optimizer_fetch_findings (o, err) < 0)
        return -1;
    for (size_t i = 0; i < o->num_ranges; i++) {
        const struct range *r = &o->range[i];

        if (is_float8 (r))
            o->largest[o->params[r->at.param].order] = o->found[i].largest * main_scale (r);
    }
    return 0;
}

/* The same over all ranks, which wait for one that has failed, too. */
static int find_largest (struct optimizer *o, struct mg_error *err)
{
    struct mg_error later, *why;
    int rc = find_own_largest (o, err), errnum = errno;

    why = rc < 0 ? &later : err;
    if (mg_comm_all_reduce (o->control, o->largest, (size_t)o->num_tensors, MG_FLOAT32, MG_MAX,
                            NULL, why) < 0
        && rc == 0)
        return mg_error_prefix (err, "scales of float8 parameters");
    errno = errnum;
    return rc;
}

int optimizer_quantise (struct optimizer *o, struct mg_error *err)
{
    if (!o->config.float8)
        return 0;
    if (find_largest (o, err) < 0)
        return -1;
    for (size_t i = 0; i < o->n; i++) {
        struct param *p = &o->params[i];

        if (p->storage == MG_FLOAT8_E4M3)
            p->scale = float8_scale (o->largest[p->order]);
    }
    for (size_t i = 0; i < o->num_ranges; i++) {
        const struct range *r = &o->range[i];
        const struct kern_cast cast = {
            .n = r->at.to - r->at.from,
            .scale = main_scale (r) / o->params[r->at.param].scale,
            .x = r->memory[MEMORY_MAIN],
            .from = r->store->dtype[MEMORY_MAIN],
            .y = r->memory[MEMORY_PARAM],
            .to = MG_FLOAT8_E4M3,
        };

        if (is_float8 (r) && kern_cast (o->kern, &cast, o->stream, err) < 0)
            return -1;
    }
    return 0;
}

int optimizer_give_float8 (struct optimizer *o, struct mg_error *err)
{
    if (!o->config.float8)
        return 0;
    if (optimizer_zero_grad (o, err) < 0 || optimizer_quantise (o, err) < 0)
        return -1;
    return o->config.sharded ? optimizer_gather_params (o, err) : 0;
}
