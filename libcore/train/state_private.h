/* state_private - the lists of a state, and the values of a manifest besides tensors, for
 * the files that implement the state. */
#ifndef LIBCORE_TRAIN_STATE_PRIVATE_H
#define LIBCORE_TRAIN_STATE_PRIVATE_H

#include "libcore/checkpoint/checkpoint.h"
#include "libcore/train/state.h"

/* A list that grows up to its capacity. */
struct list {
    struct piece *piece;
    size_t n;
};

/* The place of the elements of a piece: either an array in device memory, or a range that
 * main parameters or the optimizer store.
 */
struct kept {
    struct state *state;
    char *plain; /* the first element of the array; NULL: a stored range */
    size_t range;
    enum optimizer_value value;
    int64_t first; /* first element of the range */
    bool copied;   /* the range of the optimizer's copy */
};

struct state {
    const struct job *job;
    struct buffers *buffers;
    struct main_params *main;
    struct optimizer *optimizer; /* NULL: none */
    struct mg_stream *stream;    /* stream of the copies */
    int heads; /* attention heads of the whole model */
    struct model *model;
    const struct model_config *config;
    struct notes notes; /* arguments that describe the model */
    struct checkpoint_value *values; /* room for the values of a checkpoint, and the end
                                      * of the list */
    struct list weight;   /* whole parameters, or ranges of main parameters, with the
                           * names of the parameters */
    struct list gradient; /* gradients that this rank has summed, with the same names */
    struct list saved;    /* parameters, and both moments, that this rank updates */
    struct list copied;   /* the same in the optimizer's copy, if there is a copy */
    struct list loaded;   /* parameters as in 'weight', then the same moments */
    size_t loaded_params; /* number of entries for parameters */
    struct kept *kept;
    size_t num_kept;
    char (*names)[PIECE_NAME_MAX]; /* of state_tensor.h, NULL: not listed yet */
    int num_names;
};

/* Values of the manifest, by place. */
enum {
    VALUE_ITERATION, VALUE_SAMPLES, VALUE_VALID_SAMPLES, VALUE_SKIPPED_SAMPLES, VALUE_STEPS,
    VALUE_LOSS_SCALE, VALUE_GROWTH, VALUE_HYSTERESIS,
    VALUE_HEADS, /* a load compares this value and the schedule, if the checkpoint has them */
    VALUE_LR, VALUE_MIN_LR, VALUE_WARMUP, VALUE_DECAY, VALUE_STYLE,
    VALUE_WD_START, VALUE_WD_END, VALUE_WD_INCR, VALUE_WD_STYLE,
    VALUE_DECOUPLED_LR, VALUE_DECOUPLED_MIN_LR, NUM_LOADED,
    /* for people, tools and parallel_args.h: no load needs them */
    VALUE_WORLD = NUM_LOADED, VALUE_TP, VALUE_PP, VALUE_VPP, VALUE_DP, VALUE_CP, VALUE_EP,
    VALUE_ETP, NUM_VALUES
};

enum { MAX_NOTES = 200 };

/* Give pieces that are not plain float32 memory to be loaded into, which holds what is there now
 * (padding stays as it is).
 */
int state_stage (struct list *list, struct mg_error *err);

/* Take that memory back, also after a failure.  If 'rc' is 0, store what was loaded there.  Returns
 * rc, or -1.
 */
int state_unstage (struct list *list, int rc, struct mg_error *err);

/* Make the model's parameters of what was stored; on all ranks or on none.  Collective. */
int state_make_params (struct state *s, struct mg_error *err);

/* Names and types of the first 'n' values in values[], of n + 1, whose last has no name. */
void state_name_values (struct checkpoint_value *values, int n);

#endif /* LIBCORE_TRAIN_STATE_PRIVATE_H */
