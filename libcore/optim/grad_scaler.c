/* grad_scaler.c - constant and dynamic loss scales
 *
 * Every rank makes the same update from the same facts, so that scales never differ.  The state
 * can be saved and restored exactly.
 */

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "libcore/optim/grad_scaler.h"

/* True if 'x', rounded to float32, is a number above 0. */
static bool is_scale (double x)
{
    return isfinite (x) && x <= FLT_MAX && (float)x > 0;
}

static int check (const struct grad_scaler_config *c, struct mg_error *err)
{
    if (!is_scale (c->initial))
        return mg_error_set (err, EINVAL, "loss scale: initial scale %g, want above 0",
                             c->initial);
    if (c->constant)
        return 0;
    if (!is_scale (c->min) || c->min > c->initial)
        return mg_error_set (err, EINVAL, "loss scale: least scale %g, want above 0 and at most "
                             "the initial %g", c->min, c->initial);
    if (!(c->growth > 1) || !isfinite (c->growth))
        return mg_error_set (err, EINVAL, "loss scale: growth factor %g, want above 1",
                             c->growth);
    if (!(c->backoff > 0 && c->backoff < 1))
        return mg_error_set (err, EINVAL,
                             "loss scale: back-off factor %g, want between 0 and 1",
                             c->backoff);
    if (c->growth_interval < 1 || c->hysteresis < 1)
        return mg_error_set (err, EINVAL, "loss scale: window %" PRId64 ", hysteresis %" PRId64
                             ", want at least 1", c->growth_interval, c->hysteresis);
    return 0;
}

int grad_scaler_init (struct grad_scaler *s, const struct grad_scaler_config *config,
                      struct mg_error *err)
{
    if (check (config, err) < 0)
        return -1;
    *s = (struct grad_scaler){
        .config = *config,
        .scale = (float)config->initial,
        .hysteresis_tracker = config->constant ? 0 : config->hysteresis,
    };
    return 0;
}

float grad_scaler_inverse (const struct grad_scaler *s)
{
    return (float)(1.0 / (double)s->scale);
}

void grad_scaler_update (struct grad_scaler *s, bool overflow)
{
    const struct grad_scaler_config *c = &s->config;

    if (c->constant)
        return;
    if (overflow) {
        s->growth_tracker = 0;
        if (--s->hysteresis_tracker <= 0)
            s->scale = fmaxf (s->scale * (float)c->backoff, (float)c->min);
    }
    else if (++s->growth_tracker == c->growth_interval) {
        s->growth_tracker = 0;
        s->hysteresis_tracker = c->hysteresis;
        s->scale *= (float)c->growth;
    }
}

/* The scale is at its end if the last update was an overflow at the least scale.  If no good
 * iteration is counted and no hysteresis is left, the last update was an overflow.
 */
bool grad_scaler_is_at_end (const struct grad_scaler *s)
{
    const struct grad_scaler_config *c = &s->config;

    return !c->constant && s->hysteresis_tracker <= 0 && s->growth_tracker == 0
           && s->scale <= (float)c->min;
}

int grad_scaler_restore (struct grad_scaler *s, double scale, int64_t growth_tracker,
                         int64_t hysteresis_tracker, struct mg_error *err)
{
    if (s->config.constant)
        return 0;
    if (!is_scale (scale) || growth_tracker < 0)
        return mg_error_set (err, EINVAL, "loss scale: %g after %" PRId64 " good iterations "
                             "makes no sense", scale, growth_tracker);
    s->scale = (float)scale;
    /* the window may be shorter than that of the checkpoint */
    s->growth_tracker = growth_tracker < s->config.growth_interval
                            ? growth_tracker
                            : s->config.growth_interval - 1;
    s->hysteresis_tracker = hysteresis_tracker < s->config.hysteresis
                                ? hysteresis_tracker
                                : s->config.hysteresis;
    return 0;
}
