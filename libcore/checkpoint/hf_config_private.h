/* hf_config_private - kinds of models, and fields of config.json, for the parser and the writer. */
#ifndef LIBCORE_CHECKPOINT_HF_CONFIG_PRIVATE_H
#define LIBCORE_CHECKPOINT_HF_CONFIG_PRIVATE_H

#include <stdbool.h>

#include <jansson.h>

#include "libcore/checkpoint/hf_config.h"

/* A kind of model, and the defaults of transformers for fields that config.json does not
 * have. */
struct hf_kind {
    const char *type, *architecture; /* NULL ends the table */
    const struct names_scheme *scheme;
    int groups;          /* num_key_value_heads, 0: as many as heads */
    int head_dim;        /* 0: hidden size / heads */
    int positions;       /* max_position_embeddings */
    double epsilon;      /* rms_norm_eps, 0: 1e-6 */
    double theta;        /* rope_theta, 0: 10000 */
    bool window;         /* has sliding_window ... */
    int window_preset;   /* ... 0: none */
    bool window_switch;  /* has use_sliding_window */
    bool window_by_layer; /* has max_window_layers and layer_types */
    bool qkv_bias, qk_norm;
    bool attention_bias, mlp_bias; /* config.json has this field */
    bool latent;         /* multi-latent attention */
    bool interleave;     /* has rope_interleave; head_dim is the size of the rotary part */
    int dense;           /* first_k_dense_replace */
    int experts;         /* the number of experts, 0: no layer has experts */
    int topk;            /* num_experts_per_tok */
    int expert_ffn;      /* moe_intermediate_size, 0: experts have intermediate_size */
    bool mlp_only_layers; /* has mlp_only_layers, decoder_sparse_step and norm_topk_prob */
};

extern const struct hf_kind hf_kinds[];

/* The kinds' names, for texts that begin with "want" and "is none of". */
#define HF_KIND_NAMES "gpt2, llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, deepseek_v3"
#define HF_LAST_KIND "deepseek_v2"

/* Returns the kind of a name, or NULL. */
const struct hf_kind *hf_kind_find (const char *type);

/* Names of functions of a feed-forward half, and the argument for each. */
struct hf_function {
    const char *name;    /* NULL ends the table */
    bool gated;
    const char *arg[2];  /* arguments, all flags; NULL: none */
};

extern const struct hf_function hf_functions[];

/* Returns a value as text, which the caller frees, with jansson's flags.  Reals have the
 * fewest digits that are read back as the same numbers.  NULL if out of memory.
 */
char *hf_dump (const json_t *value, size_t flags);

/* --- reading --- */

/* The fields that are read, and the arguments made of them.  After a failure, rc is -1
 * and further calls do nothing. */
struct hf_reader {
    json_t *root; /* the fields */
    const struct hf_kind *kind;
    struct notes *args;
    struct mg_error *err;
    int rc;
};

enum { HF_REQUIRED = -1 }; /* used as a default value: the field must exist */

/* Fail because the field's value is not accepted. */
void hf_refuse (struct hf_reader *r, const char *key, const char *why);

/* Returns a field, NULL if it is missing or null. */
json_t *hf_field (const struct hf_reader *r, const char *key);

/* Returns the value of a field, 'preset' if the field is missing or null.  An integer is
 * 1 or more, a count 0 or more.
 */
int hf_get_int (struct hf_reader *r, const char *key, int preset);
int hf_get_count (struct hf_reader *r, const char *key, int preset);
double hf_get_real (struct hf_reader *r, const char *key, double preset);
bool hf_get_bool (struct hf_reader *r, const char *key, bool preset);

/* Refuse any value of a field but 'value'.  The field may be missing. */
void hf_want (struct hf_reader *r, const char *key, bool value);

/* Add an argument. */
void hf_set_int (struct hf_reader *r, const char *name, int value);
void hf_set_real (struct hf_reader *r, const char *name, double value);
void hf_set_text (struct hf_reader *r, const char *name, const char *value);
void hf_set_flag (struct hf_reader *r, const char *name, bool on);

/* --- writing --- */

/* The fields that are written, and the arguments that they are made of.  If a field
 * cannot be set, it is missing in the text; the caller finds this at the end. */
struct hf_writer {
    const struct notes *args;
    const struct hf_kind *kind;
    json_t *root;
    bool failed;
};

/* True if an argument exists; true if it has this value. */
bool hf_has (const struct notes *args, const char *name);
bool hf_is (const struct notes *args, const char *name, const char *value);

/* Set a field.  Steals 'value'. */
void hf_put (struct hf_writer *w, const char *key, json_t *value);

/* Returns an argument as an integer, or as a real; 'preset' if there is no such argument. */
json_t *hf_integer (const struct hf_writer *w, const char *name, json_int_t preset);
json_t *hf_real (const struct hf_writer *w, const char *name, double preset);

/* --- parts of both --- */

/* Rotary positions (hf_config_rope.c).  'positions' is max_position_embeddings. */
void hf_read_rope (struct hf_reader *r, int positions);
void hf_put_rope (struct hf_writer *w);

/* Multi-latent attention of 'heads' heads (hf_config_latent.c). */
void hf_read_latent (struct hf_reader *r, int hidden, int heads);
void hf_put_latent (struct hf_writer *w);

/* The experts, and which of 'layers' layers have experts (hf_config_moe.c). */
void hf_read_moe (struct hf_reader *r, int layers);
void hf_put_moe (struct hf_writer *w);

#endif /* LIBCORE_CHECKPOINT_HF_CONFIG_PRIVATE_H */
