/* norm - the kinds of norms, one row each.
 *
 * A norm makes y = xhat weight + bias of each row x.  Kinds differ in xhat, in the statistics that
 * the forward pass saves of each row for the backward pass, and in their parameters.
 *
 * LayerNorm (Ba, Kiros, Hinton 2016): xhat = (x - mean) rstd, rstd = 1 / sqrt (var + eps), var the
 *   biased variance.  Statistics: mean, rstd.
 * RMSNorm (Zhang, Sennrich 2019): xhat = x rstd, rstd = 1 / sqrt (mean of x^2 + eps).
 *   Statistics: rstd.
 *
 * HACKING.md says how to add a kind.
 */
#ifndef KERNELS_NORM_H
#define KERNELS_NORM_H

#include <stdbool.h>

/* KIND (enumerator behind KERN_, name that --normalization takes, statistics of a row, weight,
 * bias): true if norms of the kind have the parameter.
 */
#define KERN_NORMS(KIND)                          \
    KIND (LAYER_NORM, "LayerNorm", 2, true, true) \
    KIND (RMS_NORM, "RMSNorm", 1, true, false)

enum kern_norm {
#define KERN_NORM_ENUM(kind, ...) KERN_##kind,
    KERN_NORMS (KERN_NORM_ENUM)
#undef KERN_NORM_ENUM
    KERN_NUM_NORMS
};

struct kern_norm_kind {
    const char *name;
    int stats; /* 1 at least */
    bool weight, bias;
};

extern const struct kern_norm_kind kern_norm_kinds[KERN_NUM_NORMS];

#endif /* KERNELS_NORM_H */
