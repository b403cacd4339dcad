/* gpt_private - the parts of which the specifications of a GPT's layers are made, for their files.
 *
 * A struct gpt_maker is a layer that is being specified.  Functions that add a parameter or a
 * tensor return its index.
 */
#ifndef LIBCORE_MODEL_GPT_PRIVATE_H
#define LIBCORE_MODEL_GPT_PRIVATE_H

#include "libcore/model/gpt.h"
#include "libcore/ops/ops.h"

/* Kinds of the parameters: a coordinate of their initial values.  The meaning of a number
 * never changes.
 */
enum {
    KIND_NORM1_WEIGHT, KIND_NORM1_BIAS, KIND_PROJ_WEIGHT, KIND_PROJ_BIAS, KIND_QKV_WEIGHT,
    KIND_QKV_BIAS, KIND_NORM2_WEIGHT, KIND_NORM2_BIAS, KIND_FC1_WEIGHT, KIND_FC1_BIAS,
    KIND_FC2_WEIGHT, KIND_FC2_BIAS, KIND_Q_NORM_WEIGHT, KIND_Q_NORM_BIAS, KIND_K_NORM_WEIGHT,
    KIND_K_NORM_BIAS, KIND_SINK, KIND_Q_PROJ, KIND_Q_DOWN, KIND_Q_UP, KIND_KV_DOWN, KIND_KV_UP,
    KIND_Q_LATENT_WEIGHT, KIND_Q_LATENT_BIAS, KIND_KV_LATENT_WEIGHT, KIND_KV_LATENT_BIAS,
    KIND_ROUTER, KIND_ROUTER_BIAS, KIND_LATENT_IN, KIND_LATENT_OUT, KIND_EXPERT_FC1,
    KIND_EXPERT_FC1_BIAS, KIND_EXPERT_FC2, KIND_EXPERT_FC2_BIAS, KIND_SHARED_FC1, KIND_SHARED_FC2,
    KIND_SHARED_GATE,
    KIND_WORD = 100, KIND_POSITION, KIND_OUTPUT, KIND_FINAL_WEIGHT, KIND_FINAL_BIAS,
    KIND_MTP_ENORM_WEIGHT, KIND_MTP_ENORM_BIAS, KIND_MTP_HNORM_WEIGHT, KIND_MTP_HNORM_BIAS,
    KIND_MTP_PROJ,
};

/* A layer that is being specified. */
struct gpt_maker {
    const struct nn *nn;
    const struct nn_shape *shape; /* the planned one */
    struct layer_spec *spec;
    struct nn_exchange exchange; /* of a transformer layer */
    bool experts;                /* of a transformer layer: it has some */
    bool window;                 /* of a transformer layer with a cache: its attention has one */
    int gradient; /* of the hidden state */
    int samples;  /* of gpt_samples(); LAYER_NONE: not yet */
    int positions; /* of gpt_positions() */
    int all_rows, converted; /* scratch of gpt_phase(); LAYER_NONE: not yet */
    unsigned scopes; /* of the phases that are added next: GRAPH_BIT() */
    bool fixed;      /* the phases that are added next have known counts */
};

/* The parameters of a norm. */
struct gpt_norm {
    int weight, bias;
};

/* The sum that a half adds to the residual, and its gradient. */
struct gpt_sum {
    int branch, dbranch;
};


/* Parameters of the given shape. */
int gpt_vector (struct gpt_maker *m, const char *name, enum param_split split, int64_t n,
                enum init init, int kind);
int gpt_matrix (struct gpt_maker *m, const char *name, enum param_split split, int64_t rows,
                int64_t cols, enum init init, int kind);

/* Add a parameter of the first product of a feed-forward half: 'ffn' rows, or twice as
 * many with a gate.  A vector if 'cols' is 0.
 */
int gpt_gated (struct gpt_maker *m, const char *name, int64_t ffn, int64_t cols, enum init init,
               int kind);

/* A number of rows that every pass has; this rank's rows, those of all tokens. */
static inline struct nn_extent gpt_fixed (int64_t n)
{
    return nn_extent (NN_ONE, n);
}

static inline struct nn_extent gpt_rows (void)
{
    return nn_extent (NN_ROWS, 1);
}

static inline struct nn_extent gpt_tokens (void)
{
    return nn_extent (NN_TOKENS, 1);
}

/* Tensors: of a type, of the model's.  The shape of the maker is the planned one, and passes have
 * as many rows as their own shapes say.
 */
int gpt_typed (struct gpt_maker *m, const char *name, enum layer_type type, enum layer_life life,
               struct nn_extent rows, int64_t cols);
int gpt_tensor (struct gpt_maker *m, const char *name, enum layer_life life, struct nn_extent rows,
                int64_t cols);

/* A module that can be recomputed makes tensor 't'. */
void gpt_made_by (struct gpt_maker *m, int t, enum recompute_module module);

/* A tensor that is float32 for every type of the model, and is kept. */
int gpt_statistics (struct gpt_maker *m, const char *name, struct nn_extent rows, int64_t cols);

/* Made by backward passes, of no use between layers. */
int gpt_gradient (struct gpt_maker *m, const char *name, struct nn_extent rows, int64_t cols);

/* [rows, hidden] of this rank. */
int gpt_hidden (struct gpt_maker *m, const char *name, enum layer_life life);

/* Summands of all tokens, before they leave a tensor-parallel region. */
int gpt_branch (struct gpt_maker *m);

/* An input (inputs.h) of 'n' elements; 'mtp': of parts of 'n' elements, of which each layer for
 * multi-token prediction reads its own.  gpt_samples() is the one of all phases that draw.
 */
int gpt_input (struct gpt_maker *m, const char *name, enum layer_type type, struct nn_extent n,
               bool mtp);
int gpt_samples (struct gpt_maker *m);

/* The input of the positions of all tokens, of a model with caches; LAYER_NONE without caches. */
int gpt_positions (struct gpt_maker *m);

/* Add a phase.  OPS_ALL_ROWS and OPS_CONVERTED are added to its operands. */
void gpt_phase (struct gpt_maker *m, const struct phase *p);

/* The parameters of a norm; what the backward pass of a norm of 'rows' rows needs. */
struct gpt_norm gpt_norm_params (struct gpt_maker *m, const char *weight, const char *bias,
                                 int64_t n, int kind, bool partial);
int gpt_norm_statistics (struct gpt_maker *m, const char *name, struct nn_extent rows);

/* A norm of hidden states: its result.  'dy' is what the linear layer behind it starts to reduce.
 * 'adds': the gradient of x is added to.
 */
int gpt_add_norm (struct gpt_maker *m, const char *name, const char *y_name,
                  const char *stat_name, bool adds, int x, struct gpt_norm norm, int dy);

/* The end of a half: the sum over the tensor-parallel group, then the residual. */
void gpt_add_reduce (struct gpt_maker *m, const char *name, int x);
void gpt_add_residual (struct gpt_maker *m, const char *name, const struct gpt_sum *sum, int in,
                       int out, int bias, int which);

/* Memory of no use between phases. */
int gpt_scratch (struct gpt_maker *m, const char *name, struct nn_extent rows, int64_t cols);

/* A word embedding or the weight of an output layer; the weight of a head, which may be either. */
int gpt_vocabulary (struct gpt_maker *m, const char *name, int kind, bool whole_name);
int gpt_head_weight (struct gpt_maker *m);

/* The heads of the model and of layers for multi-token prediction (gpt_head.c), and what is before
 * such a layer.
 */
void gpt_make_head (struct gpt_maker *m);
void gpt_make_mtp_head (struct gpt_maker *m);
void gpt_make_last_mtp_head (struct gpt_maker *m);
void gpt_make_mtp_input (struct gpt_maker *m);

/* The two halves of a transformer layer: 'out' = 'in' + ... */
void gpt_add_attention (struct gpt_maker *m, int in, int out);
void gpt_add_experts (struct gpt_maker *m, int in, int out);

#endif /* LIBCORE_MODEL_GPT_PRIVATE_H */
