/* recompute - the activations that are not kept for the backward pass, which computes
 * them again (Chen et al. 2016; Korthikanti et al. 2022).
 *
 * Selective: tensors that some modules of a layer make are not kept.  Before the backward pass
 * reads one, it runs those phases of the module again that write it.
 *
 * Full: a unit of layers only keeps its input.  Before its backward pass it runs forward again.
 *
 * Dropout has coordinates, so the same elements are dropped again, and results are the
 * same bit for bit as without recomputation.
 */
#ifndef LIBCORE_NN_RECOMPUTE_H
#define LIBCORE_NN_RECOMPUTE_H

#include <stdbool.h>

enum recompute_granularity { RECOMPUTE_NOTHING, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };

/* Modules that can be recomputed.  RECOMPUTE_LAYERNORM: the norms at the start of both halves;
 * RECOMPUTE_MLP: the feed-forward half from its first matrix to its activation;
 * RECOMPUTE_MLA_UP_PROJ: queries, keys and values of multi-latent attention, from the latents;
 * RECOMPUTE_MOE: the half with experts, with router and shared experts; RECOMPUTE_MOE_ACT: the
 * activations of experts; RECOMPUTE_SHARED_EXPERTS: the shared experts.
 */
enum recompute_module {
    RECOMPUTE_CORE_ATTN,
    RECOMPUTE_LAYERNORM,
    RECOMPUTE_MLP,
    RECOMPUTE_MLA_UP_PROJ,
    RECOMPUTE_MOE,
    RECOMPUTE_MOE_ACT,
    RECOMPUTE_SHARED_EXPERTS,
    RECOMPUTE_NUM_MODULES
};
#define RECOMPUTE_BIT(module) (1u << (module))
#define RECOMPUTE_ALL (~0u) /* everything that a layer saves */

enum recompute_method {
    RECOMPUTE_UNIFORM, /* all layers of a virtual stage, in units of num_layers */
    RECOMPUTE_BLOCK,   /* the first num_layers of a virtual stage, each a unit */
};

struct recompute {
    enum recompute_granularity granularity;
    unsigned modules; /* selective: RECOMPUTE_BIT() of each */
    enum recompute_method method; /* for full recomputation, as the members below */
    int num_layers;   /* uniform: 1 or more; block: 0 or more */
    bool split_saved; /* each tensor-parallel rank keeps a part of the inputs of units */
};

/* A unit: 'size' layers from layer 'first' of a virtual stage on. size 0: no unit. */
struct recompute_unit {
    int first, size;
};

/* Returns the unit of layer 'i' of the 'n' layers of a virtual stage. */
struct recompute_unit recompute_unit_of (const struct recompute *r, int n, int i);

/* The name of a module for --recompute-modules: "core_attn". */
extern const char *const recompute_module_names[RECOMPUTE_NUM_MODULES];

#endif /* LIBCORE_NN_RECOMPUTE_H */
