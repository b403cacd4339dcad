/* check.c - look at tensors, keep the first bad one */

#include <math.h>
#include <stdio.h>

#include "libcore/device/device.h"
#include "libcore/device/stream.h"
#include "libcore/nn/check.h"

/* Bits of the order, from the top: pass, microbatch, step, phase. */
enum { PHASE_BITS = 6, STEP_BITS = 27, MICROBATCH_BITS = 28 };

int check_init (struct check *c, const struct kernels *kern, struct mg_stream *stream,
                struct mg_error *err)
{
    *c = (struct check){ .kern = kern, .stream = stream, .first = CHECK_NOWHERE };
    if (!(c->sum = device_alloc_apart (stream_device (stream), sizeof (*c->sum), err))
        || !(c->found = device_host_alloc (stream_device (stream), sizeof (*c->found), err)))
        return -1;
    return 0;
}

void check_clear (struct check *c)
{
    device_free (stream_device (c->stream), c->sum);
    device_host_free (stream_device (c->stream), c->found);
    c->sum = c->found = NULL;
}

/* Name the microbatch only if there are several. */
static int64_t order_of (const struct check *c, const struct check_place *place)
{
    int64_t order = place->pass;
    bool whole = place->pass == CHECK_WEIGHT || place->pass == CHECK_SUM;

    order = order << MICROBATCH_BITS | (whole ? 0 : c->microbatch);
    order = order << STEP_BITS | place->step;
    return order << PHASE_BITS | place->phase;
}

static void note (struct check *c, const struct check_place *place, const char *what,
                  const char *name, double sum, int64_t order)
{
    const char *value = isnan (sum) ? "NaN" : "infinite";

    c->first = order;
    if (place->pass == CHECK_WEIGHT)
        snprintf (c->text, sizeof (c->text), "%s %s is %s before the step", what, name,
                  value);
    else if (place->pass == CHECK_SUM)
        snprintf (c->text, sizeof (c->text),
                  "%s %s is %s in the sum over microbatches and ranks", what, name, value);
    else
        snprintf (c->text, sizeof (c->text), "%s, %s of microbatch %d: %s %s is %s",
                  place->where, place->pass == CHECK_FORWARD ? "forward" : "backward",
                  c->microbatch, what, name, value);
}

int check_tensor (struct check *c, const struct check_place *place, const char *what,
                  const char *name, int64_t n, const void *x, enum mg_dtype dtype,
                  struct mg_error *err)
{
    int64_t order = order_of (c, place);

    if (n == 0 || (c->first != CHECK_NOWHERE && c->first <= order))
        return 0;
    if (kern_sum_sq (c->kern,
                     &(struct kern_sum_sq){ .n = n, .x = x, .dtype = dtype, .out = c->sum },
                     c->stream, err) < 0
        || device_fetch (c->stream, c->found, c->sum, sizeof (*c->found), err) < 0)
        return -1;
    if (!isfinite (*c->found))
        note (c, place, what, name, *c->found, order);
    return 0;
}

int check_param (struct check *c, const struct check_place *place, const char *what,
                 const struct param *p, int64_t from, int64_t to, const void *x,
                 enum mg_dtype dtype, struct mg_error *err)
{
    int64_t each = p->numel / (int64_t)param_num_tensors (p);
    const char *at = x;

    for (int64_t end; from < to; from = end) {
        char name[PIECE_NAME_MAX];

        end = (from / each + 1) * each;
        end = end < to ? end : to;
        param_format_name (p, "", param_expert (p, from), name);
        if (check_tensor (c, place, what, name, end - from, at, dtype, err) < 0)
            return -1;
        at += (size_t)(end - from) * mg_dtype_size (dtype);
    }
    return 0;
}

int check_params (struct check *c, enum check_pass pass, const struct param *params, size_t n,
                  struct mg_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct check_place place = { .pass = pass, .step = params[i].order };
        bool weight = pass == CHECK_WEIGHT;

        if (check_param (c, &place, weight ? "weight" : "gradient of", &params[i], 0,
                         params[i].numel, weight ? params[i].data : params[i].grad,
                         weight ? params[i].storage : params[i].grad_dtype, err) < 0)
            return -1;
    }
    return 0;
}
