/* stages - the layers of every stage of the pipeline.
 *
 * pp pipeline ranks with vpp virtual stages on each make pp x vpp stages, and the layers
 * go through them in order: stage s is virtual stage s / pp of rank s % pp.  The
 * embedding belongs to the first stage, the loss to the last.  Rules, names and results
 * are Megatron-LM's (validate_args, TransformerConfig, PipelineParallelLayerLayout). Pure
 * integer arithmetic, as geometry.h.
 */
#ifndef LIBCORE_TOPO_STAGES_H
#define LIBCORE_TOPO_STAGES_H

#include <stdbool.h>

#include "megatron/error.h"

/* The division that arguments ask for.  In a struct of zeros, only num_layers and pp must
 * still be set. */
struct stages_config {
    int num_layers;      /* at least 1 */
    int pp;              /* at least 1 */
    int vpp;             /* virtual stages on each rank, 0 or 1: none */
    int layers_per_vpp;  /* layers of a virtual stage, from which vpp follows; 0: not given */
    int first, last;     /* layers of the first and the last rank; 0: not given */
    bool with_embedding; /* the embedding takes the place of a layer */
    bool with_loss;      /* the loss takes the place of a layer */
    const char *layout;  /* stage by stage, see below; NULL: not given */
    int mtp_layers; /* layers for multi-token prediction, of the last stage unless a layout
                       places them */
};

struct stage {
    int offset;     /* first layer, from 0; if the stage has no layer, the next stage's */
    int num_layers; /* may be 0 */
    int mtp_layers;
};

struct stages {
    int pp, vpp;         /* vpp is at least 1 */
    struct stage *stage; /* [pp * vpp] */
};

/* Deal out the layers.  NULL, EINVAL and a text that names the options and, where it is
 * arithmetic, the nearest legal numbers, if a rule is broken:
 *
 *   - without 'first', 'last', 'layout': num_layers, plus one for each of with_embedding
 *     and with_loss, is a multiple of pp vpp (of pp layers_per_vpp);
 *   - 'first' and 'last' are multiples of vpp; the other layers are dealt out evenly to
 *     the other ranks, a multiple of vpp to each (with vpp > 1 there is another rank);
 *     they exclude with_embedding, with_loss and layers_per_vpp;
 *   - vpp > 1 needs pp > 1, unless there is a layout; vpp agrees with layers_per_vpp and
 *     with the layout;
 *   - 'layout' excludes all of the others.
 *
 * A layout is a text of stages, separated by "|", of E (embedding), t (layer), m
 * (multi-token prediction) and L (loss): "Et*3|(tt|)*29,m|L".  x*n and (...)*n repeat,
 * not nested; commas are ignored; a stage may be empty.  The number of stages is a
 * multiple of pp; the first item is E, the last L, each comes once; t comes num_layers
 * times, m mtp_layers times; no t after an m; all m are in one stage, the last one of its
 * rank.
 */
struct stages *stages_create (const struct stages_config *config, struct mg_error *err);
void stages_destroy (struct stages *stages);

/* Returns virtual stage 'vp_stage' of pipeline rank 'pp_rank'. */
const struct stage *stages_at (const struct stages *stages, int pp_rank, int vp_stage);

#endif /* LIBCORE_TOPO_STAGES_H */
