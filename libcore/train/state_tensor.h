/* state_tensor - one parameter of a run by its name: read or written whole, or in the parts that
 * ranks have.
 *
 * A tensor goes through pieces of a fixed number of elements: the ranks that have them bring a
 * piece together on all ranks, and each takes what it needs.  So a rank needs no memory for a
 * tensor that it does not have.  Values are those of files of weights: the optimizer's, in float32.
 */
#ifndef LIBCORE_TRAIN_STATE_TENSOR_H
#define LIBCORE_TRAIN_STATE_TENSOR_H

#include "libcore/train/state.h"

/* Elements of a piece. */
enum { STATE_TENSOR_CHUNK = 1 << 20 };

/* A tensor, and the part that this rank's model has of it: element (i, j) of the part is element
 * (first_row + i / run_rows run_stride + i % run_rows, first_column + j).  A vector has one column.
 */
struct state_tensor {
    const char *name;
    int64_t rows, columns;           /* of the whole tensor */
    int64_t part_rows, part_columns; /* 0: none */
    int64_t first_row, first_column;
    int64_t run_rows, run_stride;    /* 1 at least */
    bool owner;                      /* this rank's part counts among equal ones */
};

/* The tensors of which this rank has a part: how many, and the name of one.  -1 and NULL if out of
 * memory.  Not collective.
 */
int state_num_tensors (struct state *s);
const char *state_tensor_name (struct state *s, int i);

/* Describe the tensor 'name', which has to stay.  Collective: -1 on all ranks, ENOENT and a text
 * if no rank has it.
 */
int state_find_tensor (struct state *s, const char *name, struct state_tensor *t,
                       struct mg_error *err);

/* Read the whole tensor into 'out' of rank 'root', or, with 'root' -1, each rank's part into its
 * 'out'.  Collective.  -1 and a text on all ranks if one of them fails.
 */
int state_read_tensor (struct state *s, const struct state_tensor *t, int root, float *out,
                       struct mg_error *err);

/* Write it from 'in' of rank 'root', or each rank's part, of which that of the owner counts.  Then
 * make the model's parameters of it.  Collective as the above.
 */
int state_write_tensor (struct state *s, const struct state_tensor *t, int root, const float *in,
                        struct mg_error *err);

#endif /* LIBCORE_TRAIN_STATE_TENSOR_H */
