/* grad_scaler - the factor of the loss that keeps small gradients from becoming 0 in float16.
 *
 * The scaler is updated once after every iteration, with one fact: whether the gradients
 * of all ranks were finite (Micikevicius et al. 2018, section 3.2).  The rules are those
 * of Megatron-LM's DynamicGradScaler (core/optimizer/grad_scaler.py).  The scale becomes
 * smaller when overflows have used up the hysteresis.  The scale grows after
 * 'growth_interval' good iterations in a row, and only then is the hysteresis restored.
 * Scales are float32, as in Megatron-LM.
 */
#ifndef LIBCORE_OPTIM_GRAD_SCALER_H
#define LIBCORE_OPTIM_GRAD_SCALER_H

#include <stdbool.h>
#include <stdint.h>

#include "megatron/error.h"

struct grad_scaler_config {
    bool constant;           /* the scale stays 'initial'; the other members are not read */
    double initial;          /* above 0 */
    double min;              /* above 0, at most initial */
    double growth, backoff;  /* factors: above 1; between 0 and 1 */
    int64_t growth_interval; /* good iterations in a row before the scale grows, at least 1 */
    int64_t hysteresis;      /* overflows before the scale becomes smaller, at least 1 */
};

struct grad_scaler {
    struct grad_scaler_config config;
    float scale;
    int64_t growth_tracker;     /* good iterations since the last overflow or growth */
    int64_t hysteresis_tracker; /* overflows that are left; at 0 or less, every overflow
                                 * makes the scale smaller */
};

/* Begin with the initial scale.  -1, EINVAL and a text that names the value if the
 * configuration is wrong. */
int grad_scaler_init (struct grad_scaler *s, const struct grad_scaler_config *config,
                      struct mg_error *err);

/* Returns the factor that unscales gradients: 1 / scale, rounded once. */
float grad_scaler_inverse (const struct grad_scaler *s);

void grad_scaler_update (struct grad_scaler *s, bool overflow);

/* True if no smaller scale could help after an overflow now: the scale is the least one,
 * and the last update was an overflow without hysteresis left.  False for a constant
 * scaler.
 */
bool grad_scaler_is_at_end (const struct grad_scaler *s);

/* Set the state that a checkpoint holds.  -1, EINVAL and a text if the values are out of
 * range.  A constant scaler does not change.
 */
int grad_scaler_restore (struct grad_scaler *s, double scale, int64_t growth_tracker,
                         int64_t hysteresis_tracker, struct mg_error *err);

#endif /* LIBCORE_OPTIM_GRAD_SCALER_H */
