/* names - the parameters of a model by the names and in the layouts of another program.
 *
 * A scheme is a table over the specifications of layers (layer.h).  A row says which tensor of the
 * other program, a foreign tensor, holds a parameter of ours, or some of its rows, as they are or
 * transposed.  Sizes and the parts of fused parameters come from the specification: a scheme has
 * none.  Elements are copied and never changed, whatever their type.
 *
 * A fused parameter has parts (struct layer_param): each of its groups of rows has some rows of the
 * first part, then some of the second, and so on.  A foreign tensor has one part of all groups, one
 * group behind the other (Llama's q_proj, its gate_proj), or all parts in turn: the first of all
 * groups, then the second of all groups (GPT-2's c_attn).
 */
#ifndef LIBCORE_MODEL_NAMES_H
#define LIBCORE_MODEL_NAMES_H

#include <stddef.h>

#include "libcore/nn/config.h"
#include "libcore/nn/layer.h"

/* The rows of a parameter that a foreign tensor has: all in our order, all parts in turn,
 * or those of part i (NAMES_PART + i).
 */
enum { NAMES_WHOLE, NAMES_IN_TURN, NAMES_PART };

struct names_row {
    const char *ours;   /* with the prefix of the layer's specification, "%d" for the numbers of
                           layer and expert; NULL ends the table */
    const char *theirs; /* the first "%d" is the number of the layer, the second the expert's; if an
                           expert's parameter has no second one, the foreign tensor has those of all
                           experts, one behind the other */
    int part;
    bool transposed;    /* the foreign matrix is [columns, rows] */
};

struct names_scheme {
    const char *name;            /* for texts */
    const struct names_row *row; /* NULL: the foreign tensors are ours */
    const struct names_row *more; /* further rows; NULL: none */
    const char *prefix;          /* of foreign names; files may leave it out; NULL: none */
    const char *const *ignored;  /* ends of the names of tensors without parameters, up to NULL;
                                    NULL: none */
    bool as_is;                  /* no matrix is transposed, whatever the rows say */
    /* Parameters of which each layer for multi-token prediction has a copy; a file may lack the
     * copies.  These layers then are numbered behind the others, and the rows of transformer
     * layers hold for theirs.  NULL: all names of such layers are in the tables, with numbers of
     * their own.
     */
    const struct names_row *copy;
    const struct names_scheme *fused; /* the same scheme, but with the experts of a layer
                                         in one tensor; only for reading.  NULL: there is
                                         none */
    const struct names_scheme *other; /* scheme of a file whose linear_qkv.weight does not
                                         fit this scheme; NULL: none */
    /* Refuse a model that the other program cannot have: -1, EINVAL and a text.  NULL: it can have
     * any.
     */
    int (*check) (const struct model_config *c, struct mg_error *err);
};

/* Our own names; those of Hugging Face's GPT2LMHeadModel; those of its LlamaForCausalLM, which
 * Mistral, Qwen2, Qwen3 and Qwen3-MoE have too; those of its MixtralForCausalLM; those of its
 * DeepseekV3ForCausalLM.  Fused: as transformers 5 has experts in memory.
 */
extern const struct names_scheme names_own, names_gpt2, names_llama, names_mixtral,
    names_deepseek, names_llama_fused, names_deepseek_fused;

/* Runs of rows of a parameter: 'count' runs of 'rows' rows, whose first rows are 'stride' apart,
 * beginning with row 'first'.
 */
struct names_runs {
    int64_t first, rows, stride, count;
};

/* A foreign tensor of a model. */
struct names_tensor {
    char name[PIECE_NAME_MAX];
    int ndims;
    int64_t shape[PIECE_MAX_DIMS]; /* of a vector: shape[1] is 1 */
    size_t param;                  /* whose rows it has */
    int slice, slices; /* if slices is not 0: this is slice 'slice' of a tensor of this name, whose
                          first dimension is 'slices', before those here */
    bool transposed;
    struct names_runs runs[LAYER_MAX_PARTS]; /* one behind the other, in the foreign order */
    int num_runs;
};

/* A parameter of a model, and the foreign tensors that hold it: 'num' from 'first' on.  Each expert
 * has parameters of its own.
 */
struct names_param {
    char name[PIECE_NAME_MAX];
    int ndims;
    int64_t shape[PIECE_MAX_DIMS];
    size_t first, num;
    bool state; /* no parameter, but state of a router: it stays float32 if parameters become
                   another type, and sources of our own names may lack it */
};

struct names {
    struct names_param *param; /* in the order of the model */
    size_t num_params, max_params;
    struct names_tensor *tensor; /* in the order of the parameters */
    size_t num_tensors, max_tensors;
    size_t num_copies; /* of the tensors, the last, which files may lack.  No parameter is read from
                          one: 'param' is that which it is a copy of */
    int first_mtp;     /* number of the first layer for multi-token prediction in foreign names */
    char tied[PIECE_NAME_MAX]; /* if the output layer is the word embedding: the foreign name that
                                  another output layer would have; a file may have a copy of the
                                  word embedding under this name.  Else "" */
};

/* All foreign tensors of a model.  NULL and a text if out of memory, or with EINVAL if the scheme
 * cannot have such a model, or does not hold each parameter exactly once.
 */
struct names *names_create (const struct names_scheme *scheme, const struct model_config *c,
                            struct mg_error *err);
void names_destroy (struct names *names);

/* Add the parameters of a layer, and the foreign tensors that hold them, to a list that begins as
 * zeros.  'number' is that of the layer.  -1 and a text as names_create().
 */
int names_add_layer (struct names *names, const struct names_scheme *scheme,
                     const struct layer_spec *spec, int number, struct mg_error *err);

/* The foreign tensor that holds a parameter, or the first of them. */
const struct names_tensor *names_first_of (const struct names *names, size_t param);

/* The name in tables of the first product of an expert. */
extern const char names_expert_fc1[];

/* True if the scheme has the experts of a layer in one tensor. */
bool names_are_fused (const struct names_scheme *scheme);

/* The first row for a parameter by its name in tables; NULL: none.  names_own has no rows. */
const struct names_row *names_row_of (const struct names_scheme *scheme, const char *ours);

/* A name in tables with the numbers of a layer and of an expert. */
void names_format (char name[PIECE_NAME_MAX], const char *pattern, int number, int expert);

/* Elements [from, from + n) of a foreign tensor, out of the whole parameter at 'ours'.  Both are
 * row-major, of elements of 'size' bytes (1, 2, 4 or 8) and of any alignment.
 */
void names_export (const struct names_tensor *tensor, const void *ours, size_t size,
                   int64_t from, int64_t n, void *out);

/* Elements [from, from + n) of a parameter, out of the whole foreign tensors that hold it:
 * theirs[i] is the one after 'first' by i.
 */
void names_import (const struct names *names, size_t param, const void *const *theirs,
                   size_t size, int64_t from, int64_t n, void *out);

/* Find element 'from' of a parameter: it is element '*at' of the foreign tensor after 'first' by
 * '*part'.  Returns how many elements of the parameter follow there, each '*stride' further.
 */
int64_t names_locate (const struct names *names, size_t param, int64_t from, size_t *part,
                      int64_t *at, int64_t *stride);

#endif /* LIBCORE_MODEL_NAMES_H */
