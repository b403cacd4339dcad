/* state_private - a state's lists, and what a manifest has besides tensors, for its files. */
#ifndef LIBCORE_TRAIN_STATE_PRIVATE_H
#define LIBCORE_TRAIN_STATE_PRIVATE_H

#include "libcore/checkpoint/checkpoint.h"
#include "libcore/train/state.h"

/* A list that grows up to its capacity. */
struct list {
    struct piece *piece;
    size_t n;
};

/* Where the elements of a piece are: plainly in the device's memory, or as main parameters or the
 * optimizer store them.
 */
struct kept {
    struct state *state;
    char *plain; /* the first element; NULL: stored in another way */
    size_t range;
    enum optimizer_value value;
    int64_t first; /* of the range */
    bool copied;   /* as the optimizer's copy has it */
};

struct state {
    const struct job *job;
    struct buffers *buffers;
    struct main_params *main;
    struct optimizer *optimizer; /* NULL: none */
    struct mg_stream *stream;    /* for copies */
    int heads; /* of attention, in the whole model */
    struct model *model;
    const struct model_config *config;
    struct notes notes; /* arguments that describe the model */
    struct checkpoint_value *values; /* room for those of a checkpoint and their end */
    struct list weight;   /* named as the parameters, whole, or main parameters' ranges */
    struct list gradient; /* the same names, what this rank has the sums of */
    struct list saved;    /* parameters and both moments that this rank updates */
    struct list copied;   /* the same in the optimizer's copy, where it has one */
    struct list loaded;   /* parameters as in 'weight', then the same moments */
    size_t loaded_params; /* so many of them are of parameters */
    struct kept *kept;
    size_t num_kept;
    char (*names)[PIECE_NAME_MAX]; /* of state_tensor.h, NULL: not listed yet */
    int num_names;
};

/* Values of the manifest, by place. */
enum {
    VALUE_ITERATION, VALUE_SAMPLES, VALUE_VALID_SAMPLES, VALUE_SKIPPED_SAMPLES, VALUE_STEPS,
    VALUE_LOSS_SCALE, VALUE_GROWTH, VALUE_HYSTERESIS,
    VALUE_HEADS, /* this and the schedule are compared by a load, where they are there */
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
int state_give_params (struct state *s, struct mg_error *err);

/* Names and types of the first 'n' values in values[], of n + 1, whose last has no name. */
void state_name_values (struct checkpoint_value *values, int n);

#endif /* LIBCORE_TRAIN_STATE_PRIVATE_H */
