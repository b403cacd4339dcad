/* norm.c - the table of the kinds of norms */

#include "kernels/norm.h"

#define KIND(kind, ...) [KERN_##kind] = { __VA_ARGS__ },

const struct kern_norm_kind kern_norm_kinds[KERN_NUM_NORMS] = { KERN_NORMS (KIND) };
