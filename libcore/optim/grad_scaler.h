/* grad_scaler - what the loss is multiplied by so that small gradients survive float16.
 *
 * Pure state: one update after every iteration, whose gradients, on whatever rank, were all
 * finite or not (Micikevicius et al. 2018, section 3.2).  As Megatron-LM's
 * DynamicGradScaler (core/optimizer/grad_scaler.py): the scale backs off when overflows
 * have used up the hysteresis, which only a growth restores, and grows after so many good
 * iterations in a row.  Scales are float32, as there.
 */
#ifndef LIBCORE_OPTIM_GRAD_SCALER_H
#define LIBCORE_OPTIM_GRAD_SCALER_H

#include <stdbool.h>
#include <stdint.h>

#include "megatron/error.h"

struct grad_scaler_config {
    bool constant;           /* the initial scale stays; the rest is not read */
    double initial;          /* above 0 */
    double min;              /* above 0, at most initial */
    double growth, backoff;  /* factors: above 1; between 0 and 1 */
    int64_t growth_interval; /* good iterations in a row before it grows, at least 1 */
    int64_t hysteresis;      /* overflows before it backs off, at least 1 */
};

struct grad_scaler {
    struct grad_scaler_config config;
    float scale;
    int64_t growth_tracker;     /* good iterations since the last overflow or growth */
    int64_t hysteresis_tracker; /* overflows that are left, 0 or less: every one counts */
};

/* -1, EINVAL and a text that names the value if the configuration is none. */
int grad_scaler_init (struct grad_scaler *s, const struct grad_scaler_config *config,
                      struct mg_error *err);

/* What unscales gradients: 1 / scale, rounded once. */
float grad_scaler_inverse (const struct grad_scaler *s);

void grad_scaler_update (struct grad_scaler *s, bool overflow);

/* Would an overflow now be one that no smaller scale can help: at the least scale, and right
 * after one that had no hysteresis left?  False of a constant scaler.
 */
bool grad_scaler_is_at_end (const struct grad_scaler *s);

/* Go on from a checkpoint.  -1, EINVAL and a text if the values make no sense; of a
 * constant scaler nothing changes.
 */
int grad_scaler_restore (struct grad_scaler *s, double scale, int64_t growth_tracker,
                         int64_t hysteresis_tracker, struct mg_error *err);

#endif /* LIBCORE_OPTIM_GRAD_SCALER_H */
