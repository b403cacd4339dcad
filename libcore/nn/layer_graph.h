/* layer_graph - the captured phases of a layer, for one slot and one direction.
 *
 * A graph repeats kernel calls with the addresses and numbers of the capture.  So
 * layer_graph has a copy of the values that the calls were made of: the address and the
 * rows in use of each tensor, the addresses of each parameter and of its gradient, and
 * whether products add to the gradient.  A replay first compares these, and refuses a
 * pass with other values.  Numbers that change between iterations are in device memory
 * (model_begin()).
 */
#ifndef LIBCORE_NN_LAYER_GRAPH_H
#define LIBCORE_NN_LAYER_GRAPH_H

#include "libcore/nn/layer.h"

/* Capture the phases spec->graph_begin, ... of the pass's layer, which are at least one.  Nothing
 * of the pass runs.  NULL and a text that names layer, phase and operation if they cannot be
 * captured.
 */
struct layer_graph *layer_graph_create (const struct pass *pass, bool backward,
                                        struct mg_error *err);
void layer_graph_destroy (struct layer_graph *g); /* NULL is allowed; keeps errno */

/* Run the captured phases, for a pass with the tensors of the capture.  -1 and a text
 * that names the layer: EPERM, with the phase and the operand, if something has changed;
 * or the error of a call.
 */
int layer_graph_replay (const struct layer_graph *g, const struct pass *pass,
                        struct mg_error *err);

/* graph_nodes(), graph_bytes() and graph_device_bytes() */
size_t layer_graph_nodes (const struct layer_graph *g);
size_t layer_graph_bytes (const struct layer_graph *g);
size_t layer_graph_device_bytes (const struct layer_graph *g);

/* The bytes, for one slot and layer, that the captured phases of a specification read and
 * write. */
struct layer_graph_memory {
    size_t input;        /* tensors that the forward graph reads and other phases have
                          * written */
    size_t intermediate; /* tensors that graphs write, and only graphs read */
    size_t handover;     /* tensors that graphs write, and eager phases of the layer read */
    size_t shared;       /* the same, in memory that all layers and slots share */
};
struct layer_graph_memory layer_graph_memory (const struct layer_spec *spec,
                                              const struct nn *nn);

#endif /* LIBCORE_NN_LAYER_GRAPH_H */
