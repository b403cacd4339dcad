/* model - tensors of a test, cut into pieces in several ways.
 *
 * Every byte of a tensor follows from its name and its place in the global tensor, so
 * that what any layout wrote can be checked under any other.
 */
#ifndef TESTS_UNIT_CHECKPOINT_MODEL_H
#define TESTS_UNIT_CHECKPOINT_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/tensor/piece.h"

enum model_cut {
    MODEL_WHOLE, /* all on every rank, rank 0 owns */
    MODEL_ROWS,  /* equal rows, the last ranks' reach beyond the tensor */
    MODEL_COLS,  /* the same with columns; 1-dimensional tensors like MODEL_ROWS */
    MODEL_GRID,  /* boxes: half of the columns each, rows among rank / 2 */
    MODEL_STAGE, /* tensor t whole on rank t modulo ranks, nowhere else */
    MODEL_NUM_CUTS
};

struct model_tensor {
    const char *name;
    enum mg_dtype dtype;
    int ndims;
    int64_t shape[2];
};

struct model {
    struct piece *pieces;
    size_t n;
};

/* A few tensors of odd sizes and several types, and one list with a large tensor. */
extern const struct model_tensor model_small[];
extern const size_t model_small_count;
extern const struct model_tensor model_large[];
extern const size_t model_large_count;

/* The pieces of one rank, filled with bytes 0xee; model_fill() gives them their values,
 * others for every seed.
 */
void model_create (struct model *m, const struct model_tensor *tensors, size_t n,
                   enum model_cut cut, int rank, int ranks);
void model_fill (struct model *m, unsigned int seed);
void model_destroy (struct model *m);

/* Bytes that are wrong: not the tensor's inside it, not 0xee outside. */
size_t model_check (const struct model *m, unsigned int seed);

#endif /* TESTS_UNIT_CHECKPOINT_MODEL_H */
