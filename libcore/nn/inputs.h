/* inputs - the inputs of the passes over a microbatch, which no layer makes: a list of
 * tensors by name.
 *
 * A specification lists the inputs of its layer as tensors of life LIFE_BATCH (layer.h), and phases
 * have them as operands.  The inputs of a chunk are those of its layers, each name once.  A source
 * (train/input.h) fills them by name in host memory, and passes_upload() copies them into a slot.
 * So a new input is a tensor of a specification, an operand and a row of the source.
 *
 * Inputs of a GPT, rows in [s, b] order:
 *
 *   samples     [batch] int64: consumed-sample indices, coordinates of randomness
 *   tokens      [tokens] int32
 *   labels      [tokens] int32
 *   loss_mask   [tokens] float32: weight of a token in the loss
 *   loss_count  [1] float64: sum of the mask over the whole sequences; only with context
 *               parallelism or multi-token prediction
 *   starts      [whole_seq * batch] int32: position at which the document of a token begins, of the
 *               rows of all context-parallel ranks, rank after rank; only if attention is reset
 *   positions   [tokens] int32: position in the document; only if positions are reset, or with
 *               caches (struct nn_sequence)
 *   wanted      [wanted] int32: rows, among those of all tokens, of which there are logits; only
 *               with caches, which need no labels, loss_mask and loss_count
 *
 * With multi-token prediction, tokens, labels, loss_mask and loss_count have several parts, one
 * behind the other, without a gap between their live elements.  Part d has at every position what
 * part 0 has d positions later in the sequence, and zeros at the last d positions; its count is the
 * sum of its mask.
 */
#ifndef LIBCORE_NN_INPUTS_H
#define LIBCORE_NN_INPUTS_H

#include "libcore/nn/nn.h"
#include "libcore/tensor/tensor.h"
#include "megatron/error.h"

enum { NN_MAX_INPUTS = 16 };

struct nn_input {
    const char *name;
    int parts;            /* at least 1 */
    struct tensor tensor; /* of all parts, which follow each other; one dimension */
    struct nn_extent rows; /* live elements of a part; times 0: all */
};

struct nn_inputs {
    int n;
    struct nn_input input[NN_MAX_INPUTS];
};

/* Returns the input of a name, or NULL if the list does not have it. */
const struct nn_input *nn_inputs_find (const struct nn_inputs *in, const char *name);

/* Returns the memory of an input, or NULL if the list does not have it. */
void *nn_inputs_data (const struct nn_inputs *in, const char *name);

/* Add an input.  If the list has the name, the input gets the larger number of parts.  -1 with
 * EINVAL and a text if types or extents of a part differ, or if the list is full.
 */
int nn_inputs_add (struct nn_inputs *in, const struct nn_input *input, struct mg_error *err);

/* Make as many elements live as there are in passes of a shape. */
void nn_inputs_shape (struct nn_inputs *in, const struct nn_shape *shape);

/* Returns those inputs of 'all' whose names 'which' has, too. */
struct nn_inputs nn_inputs_of (const struct nn_inputs *all, const struct nn_inputs *which);

#endif /* LIBCORE_NN_INPUTS_H */
