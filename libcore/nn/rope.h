/* rope - the angles of rotary position embeddings.
 *
 * D = int (percent x elements) elements of a head are rotated.  They are ceil (D / 2)
 * pairs, so that an odd D rotates D + 1 elements, as in Megatron-LM.  Pair i turns by
 * position x f_i, f_i = base^(-2 i / D) (Su et al. 2021).  There are three ways to
 * stretch the angles for sequences that are longer than those of the first training:
 * - linear: positions are divided by 'interpolation' (Chen et al. 2023);
 * - Llama 3: f_i is divided by a factor if the wavelength 2 pi / f_i is above original /
 *   low, unchanged if it is below original / high, and blended in between (Llama 3.1's
 *   apply_scaling());
 * - YaRN (Peng et al. 2023): f_i is divided by a factor if a pair turns fewer than
 *   beta_slow times over the original length, unchanged if it turns more than beta_fast
 *   times, and blended in between by i; cosines and sines are multiplied by a
 *   concentration factor.
 */
#ifndef LIBCORE_NN_ROPE_H
#define LIBCORE_NN_ROPE_H

#include <stdbool.h>
#include <stdint.h>

#include "megatron/error.h"

enum rope_scaling { ROPE_PLAIN, ROPE_LLAMA3, ROPE_YARN };

struct rope_config {
    double base;          /* 10000 */
    double percent;       /* of a head's elements that are rotated, 0 < percent <= 1 */
    double interpolation; /* 1 or more */
    bool interleaved;     /* pairs are neighbours, not halves */
    enum rope_scaling scaling;
    double factor;        /* of the scaling, 1 or more */
    double original;      /* positions of the first training */
    double low, high;     /* Llama 3's: 1 and 4 */
    double beta_fast, beta_slow;    /* YaRN's: 32 and 1 */
    double mscale, mscale_all_dim;  /* YaRN's: 1 and 0 */
    bool exact_range;     /* YaRN's corners are not rounded to whole pairs */
};

/* Set the defaults. */
void rope_config_init (struct rope_config *c);

/* Check that the values are in their ranges.  -1, EINVAL and a text that names
 * Megatron-LM's argument. */
int rope_config_check (const struct rope_config *c, int head_dim, struct mg_error *err);

/* D of a head of 'head_dim' elements; the pairs that are rotated. */
int rope_elements (const struct rope_config *c, int head_dim);
int rope_pairs (const struct rope_config *c, int head_dim);

/* f_i of all pairs of such a head, in double. */
void rope_frequencies (const struct rope_config *c, int head_dim, double *frequency);

/* Returns the factor of cosines and sines. */
double rope_concentration (const struct rope_config *c);

/* Find YaRN's mscale for which rope_concentration() returns 'concentration' with this factor and
 * mscale_all_dim.  If several do, 1 is preferred.  False if no mscale of 0 or more does; mscale is
 * undefined then.
 */
bool rope_set_concentration (struct rope_config *c, double concentration);

/* The factor of the softmax scale of multi-latent attention (DeepSeek-AI 2024), by 'factor' and
 * mscale_all_dim, whatever the scaling is: as Megatron-LM.
 */
double rope_softmax_factor (const struct rope_config *c);

/* A row of struct kern_rope's table: 'pairs' cosines, then as many sines, of a position.  Angles
 * are formed in double.
 */
void rope_row (const struct rope_config *c, const double *frequency, int pairs, int64_t position,
               float *row);

#endif /* LIBCORE_NN_ROPE_H */
