/* main_params_float8.c - parameters in float8: their scales, which all ranks agree on, and
 * their codes
 *
 * A parameter is a number for each element times one scale for the tensor.  The scale follows
 * from the largest magnitude of the main parameters of all ranks, so a tensor has the same
 * codes however it is cut.
 */

#include <errno.h>
#include <string.h>

#include "libcore/base/float8.h"
#include "libcore/optim/main_params_private.h"

int main_params_agree_largest (struct main_params *m, struct mg_error *err)
{
    struct buffers *b = m->buffers;

    memset (m->largest, 0, (size_t)b->num_tensors * sizeof (*m->largest));
    for (size_t i = 0; i < b->num_ranges; i++) {
        float *largest = &m->largest[buffers_param (b, i)->order];

        *largest = *largest > m->found[i] ? *largest : m->found[i]; // a NaN stays
    }
    return buffers_agree_largest (b, m->largest, (size_t)b->num_tensors, err);
}

static bool is_float8 (const struct main_params *m, size_t range)
{
    return buffers_param_dtype (m->buffers, range) == MG_FLOAT8_E4M3;
}

/* Returns the factor of stored main parameters. */
static float main_scale (const struct main_params *m, size_t range)
{
    return owned_is_scaled (&m->value, range) ? m->value.place[range].scale : 1;
}

/* Find the largest magnitude of each float8 range of this rank, m->found; 0 for other ranges. */
static int find_own_largest (struct main_params *m, struct mg_error *err)
{
    struct buffers *b = m->buffers;

    memset (m->found, 0, b->num_ranges * sizeof (*m->found));
    if (buffers_clear_findings (b, err) < 0)
        return -1;
    for (size_t i = 0; i < b->num_ranges; i++) {
        const struct kern_max_abs max = {
            .n = b->range[i].to - b->range[i].from,
            .x = m->value.place[i].data,
            .dtype = owned_dtype (&m->value, i),
            .out = &b->findings[i].largest,
        };

        if (is_float8 (m, i) && kern_max_abs (b->kern, &max, b->stream, err) < 0)
            return -1;
    }
    if (buffers_fetch_findings (b, err) < 0)
        return -1;
    for (size_t i = 0; i < b->num_ranges; i++) {
        if (is_float8 (m, i))
            m->found[i] = b->found[i].largest * main_scale (m, i);
    }
    return 0;
}

/* Find the largest magnitudes over all ranks.  A rank that has failed takes part, since the others
 * wait for it.
 */
static int find_largest (struct main_params *m, struct mg_error *err)
{
    struct mg_error later, *why;
    int rc = find_own_largest (m, err), errnum = errno;

    why = rc < 0 ? &later : err;
    if (main_params_agree_largest (m, why) < 0 && rc == 0)
        return mg_error_prefix (err, "scales of float8 parameters");
    errno = errnum;
    return rc;
}

int main_params_quantise (struct main_params *m, struct mg_error *err)
{
    struct buffers *b = m->buffers;

    if (!m->config.float8)
        return 0;
    if (find_largest (m, err) < 0)
        return -1;
    for (size_t i = 0; i < b->n; i++) {
        struct param *p = &b->params[i];

        if (p->storage == MG_FLOAT8_E4M3)
            p->scale = float8_scale (m->largest[p->order]);
    }
    for (size_t i = 0; i < b->num_ranges; i++) {
        const struct kern_cast cast = {
            .n = b->range[i].to - b->range[i].from,
            .scale = main_scale (m, i) / buffers_param (b, i)->scale,
            .x = m->value.place[i].data,
            .from = owned_dtype (&m->value, i),
            .y = b->range[i].data,
            .to = MG_FLOAT8_E4M3,
        };

        if (is_float8 (m, i) && kern_cast (b->kern, &cast, b->stream, err) < 0)
            return -1;
    }
    return 0;
}
