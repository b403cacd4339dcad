/* gpt2 - the tensors of a GPT by our names and by those of Hugging Face's GPT-2.
 *
 * Ours are Megatron-core's: a linear layer's weight is [output, input], and the rows of
 * linear_qkv are for each head its query, key and value.  In Hugging Face's GPT2LMHeadModel
 * (transformers, models/gpt2) a weight of attn and mlp is a Conv1D's, [input, output], and
 * the columns of c_attn are the queries of all heads, then the keys, then the values
 * (Megatron-LM converts the same way: tools/checkpoint, qkv by heads).  All other tensors
 * are the same.  The vocabulary is without padding in both.
 */
#ifndef LIBCORE_CHECKPOINT_GPT2_H
#define LIBCORE_CHECKPOINT_GPT2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libcore/checkpoint/roster.h"
#include "libcore/checkpoint/safetensors.h"
#include "libcore/tensor/piece.h"

struct gpt2_shape {
    int layers;
    int64_t hidden;
    int64_t attention; /* heads x size of a head */
    int64_t ffn;
    int64_t vocab, positions;
    int64_t parameters;
    bool tied; /* no output layer of its own */
};

/* Whole tensors in memory, of one list. */
struct gpt2_tensors {
    struct piece *piece; /* each with its data, by malloc */
    size_t n;
};

void gpt2_clear (struct gpt2_tensors *tensors);

/* Room for 'n' tensors, none there yet: -1 and ENOMEM. */
int gpt2_allocate (struct gpt2_tensors *tensors, size_t n, struct mg_error *err);

/* Add one with memory for its data, zeroed. NULL and a text if out of memory. */
struct piece *gpt2_add (struct gpt2_tensors *tensors, const char *name,
                        enum mg_dtype dtype, int ndims, const int64_t *shape,
                        struct mg_error *err);

/* The shape of a GPT whose tensors are named PREFIX + ours: EINVAL and a text if one is
 * missing, of another shape, or none of a GPT's.
 */
int gpt2_shape_of_roster (const struct roster *roster, const char *prefix,
                          struct gpt2_shape *shape, struct mg_error *err);
int gpt2_shape_of_tensors (const struct gpt2_tensors *tensors, struct gpt2_shape *shape,
                           struct mg_error *err);

/* Put the tensors of a GPT into the order of its layers, as a file of weights has them: that
 * of a checkpoint is that of the ranks that wrote it.
 */
int gpt2_sort (struct gpt2_tensors *tensors, struct mg_error *err);

/* Does a file have Hugging Face's names? */
bool gpt2_is_hf (const struct safetensors *st);

/* Our tensors by Hugging Face's names and layouts, of the same data type: EINVAL and a text
 * if they are not those of a GPT, or heads x size of a head is not the hidden size, as it
 * is in every GPT-2.
 */
int gpt2_to_hf (const struct gpt2_tensors *ours, int heads, struct gpt2_tensors *hf,
                struct mg_error *err);

/* The way back, to float32.  Names may begin with "transformer." or not; an lm_head that
 * equals the word embedding bit for bit is tied.  Masks (attn.bias, attn.masked_bias) are
 * passed over, any other unknown name is refused.  Weights that are [output, input] throughout
 * are taken too, as minGPT writes them.
 */
int gpt2_from_hf (const struct safetensors *st, int heads, struct gpt2_tensors *ours,
                  struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_GPT2_H */
