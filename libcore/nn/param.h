/* param - the description of one parameter tensor of this rank.
 *
 * A record, not a class: the model describes its parameters, the gradient-buffer layout
 * gives them memory, and optimizer, norm, checkpoint and weight files read the record.
 */
#ifndef LIBCORE_NN_PARAM_H
#define LIBCORE_NN_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libcore/device/device.h"
#include "libcore/tensor/piece.h"

/* The rows of a global tensor that a rank's part has: 'count' runs of 'rows' rows.  The
 * first run begins at 'offset', and each further run 'stride' rows after the one before.
 * The extent of the part is its number of columns of each row.  The rows of a vector are
 * its elements.
 */
struct param_runs {
    int64_t offset[PIECE_MAX_DIMS];
    int64_t rows, count, stride; /* stride: not read if there is one run */
};

struct param {
    char name[PIECE_NAME_MAX]; /* Megatron-core's, with the global layer number; of 'expert', %d
                                  stands for the expert */
    enum mg_dtype dtype;       /* that computations see */
    enum mg_dtype storage;     /* of data: the same, or float8 */
    int ndims;
    int64_t global[PIECE_MAX_DIMS]; /* whole tensor, without vocabulary padding; of 'expert', one
                                       expert's: expert e has rows e global[0] ... of the runs */
    int64_t extent[PIECE_MAX_DIMS]; /* shape of this rank's part, padding included: the rows of
                                       the runs, one below the other */
    int64_t numel;                  /* product of extent */
    struct param_runs runs;

    bool expert;      /* the parameter belongs to experts: every expert-parallel rank has
                         other experts, and the ranks of the expert-data-parallel group
                         have the same ones; its tensor-parallel ranks are those of the
                         expert-tensor-parallel group */
    bool tp_sharded;  /* every tensor-parallel rank has another part; otherwise all have
                         the same values */
    bool sequence_parallel; /* each tensor-parallel rank has the gradient of its own rows
                               or heads, and these gradients must be summed */
    bool shared_copy; /* the last stage's copy of the word embedding, for a tied output layer or
                         for multi-token prediction: the first stage's counts in norms and is
                         written to files */
    bool shared_embedding; /* a word embedding that two stages have, original or copy */
    bool product;     /* in a microbatch, one product of matrices makes all of its gradient */
    bool decay;            /* weight decay applies (not on biases and norms) */
    bool qk_norm;          /* of a norm of queries or keys */
    bool vocabulary;       /* the word embedding or the output layer */
    int chunk;             /* model chunk of this rank that it belongs to */
    int order;             /* place among all parameters of the whole model, from 0 */

    double init_std;   /* N(0, init_std) by coordinates if positive ... */
    float init_value;  /* ... else this constant */
    uint64_t init_key; /* rng_key() of the tensor */
    int init_repeat;   /* above 1: row r of a matrix of one run has the values of row
                          r / init_repeat */

    void *data; /* set when the buffers are allocated, as the members below */
    float scale; /* float8: an element is its code's value times this; every update of the
                    optimizer sets it */
    const float *scale_at; /* float8: device memory of the model, from which passes read
                              the scale; model_begin() copies it there */
    void *grad; /* gradient that passes add to, same shape */
    enum mg_dtype grad_dtype;
    bool fresh; /* for a 'product': the values of grad are undefined, and the next product
                 * overwrites them */
};

/* True if the product that is computed next must add to the gradient.  If false, the
 * products after it must add. */
static inline bool param_adds (struct param *p)
{
    bool adds = !p->fresh;

    p->fresh = false;
    return adds;
}

/* The values of a parameter that recorded calls use (device/graph.h). */
struct param_seen {
    void *data, *grad;
    bool fresh;
};

static inline struct param_seen param_record (const struct param *p)
{
    return (struct param_seen){ p->data, p->grad, p->fresh };
}

/* param_differs() is not 0 if the parameter has changed since it was recorded.  The other
 * function returns a text about the change, NULL if there is none. */
static inline uintptr_t param_differs (const struct param *p, const struct param_seen *was)
{
    return ((uintptr_t)p->data ^ (uintptr_t)was->data) | ((uintptr_t)p->grad ^ (uintptr_t)was->grad)
           | (uintptr_t)(p->fresh ^ was->fresh);
}
const char *param_difference (const struct param *p, const struct param_seen *was);

/* Write initial values of 'p' (its data must be set, and zero): the same global numbers under
 * every layout, rounded to its type.  Padding rows stay zero, as their gradients do, also
 * after every update, so largest magnitudes do not depend on the number of padding rows.
 * If the storage has another type, the values are written to the memory of the gradient,
 * for main_params_init().
 */
int param_init (const struct param *p, const struct kernels *kern,
                struct mg_stream *stream, struct mg_error *err);

/* Elements [from, to) of this rank's row-major part are pieces of the tensor "PREFIX" + name.  Of
 * each run there are at most three: the rest of a row, whole rows, the start of a row.
 *
 * param_piece() describes the first of them, without data, and returns where it ends: the 'from' of
 * the next one.  'writer': this rank may write for the ranks that have the same part.
 * 'tp_rank': rank in the group over which tp_sharded parameters are split.
 * param_num_pieces() returns how many there are.
 */
int64_t param_piece (const struct param *p, const char *prefix, int64_t from, int64_t to,
                     bool writer, int tp_rank, struct piece *piece);
size_t param_num_pieces (const struct param *p, int64_t from, int64_t to);

/* The name of the tensor of an expert, behind 'prefix'. */
void param_format_name (const struct param *p, const char *prefix, int64_t expert,
                        char name[PIECE_NAME_MAX]);

/* The name for texts: the experts of the part are "4-7" in it. */
void param_text (const struct param *p, char text[PIECE_NAME_MAX]);

/* The number of the expert that has element 'i' of the part; 0 if the parameter is not of
 * experts.
 */
int64_t param_expert (const struct param *p, int64_t i);

/* A piece without elements, which only names tensor 'i' of the part's tensors: one, or one of each
 * of its experts.
 */
size_t param_num_tensors (const struct param *p);
void param_name_piece (const struct param *p, size_t i, struct piece *piece);

/* Returns the number of elements of [from, to) of this rank's part that are no padding.
 * Padding comes after all other elements. */
int64_t param_true_elements (const struct param *p, int64_t from, int64_t to);

/* True on the one rank of a model-parallel group that counts (a part of) this parameter
 * in norms and writes it to files.
 */
bool param_is_counted (const struct param *p, int tp_rank);

#endif /* LIBCORE_NN_PARAM_H */
