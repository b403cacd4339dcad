/* hf_config_private - kinds of models, for the parser of config.json and its writer. */
#ifndef LIBCORE_CHECKPOINT_HF_CONFIG_PRIVATE_H
#define LIBCORE_CHECKPOINT_HF_CONFIG_PRIVATE_H

#include <stdbool.h>

#include "libcore/checkpoint/hf_config.h"

/* A kind of model, and what transformers takes where config.json does not say. */
struct hf_kind {
    const char *type, *architecture; /* NULL ends the table */
    const struct names_scheme *scheme;
    int groups;          /* num_key_value_heads, 0: as many as heads */
    int head_dim;        /* 0: hidden size / heads */
    int positions;       /* max_position_embeddings */
    int window;          /* sliding_window, 0: none */
    bool window_by_layer; /* has use_sliding_window, max_window_layers and layer_types */
    bool qkv_bias, qk_norm;
    bool attention_bias, mlp_bias; /* has such a field */
};

extern const struct hf_kind hf_kinds[];

/* Text of a model's kind by its name; NULL: none. */
const struct hf_kind *hf_kind_find (const char *type);

/* Names of functions of a feed-forward half, and the argument for each. */
struct hf_function {
    const char *name;    /* NULL ends the table */
    bool gated;
    const char *arg[2];  /* arguments, all flags; NULL: none */
};

extern const struct hf_function hf_functions[];

#endif /* LIBCORE_CHECKPOINT_HF_CONFIG_PRIVATE_H */
