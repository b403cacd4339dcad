/* config.c - what follows from the arguments: the geometry, the rules, the stages, the model */

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/data/tokenizer.h"
#include "libcore/topo/environment.h"
#include "libcore/topo/margs.h"
#include "libcore/topo/rule.h"
#include "libcore/train/config.h"
#include "libcore/train/config_model.h"

/* The value of an argument as struct margs has it: 0 if it is not given. */
static int value_of (const struct train_args *args, const struct train_arg *row)
{
    const void *field = (const char *)args + row->offset;

    switch (row->type) {
    case TRAIN_INT:
        return *(const int *)field > 0 ? *(const int *)field : 0;
    case TRAIN_FLAG:
        return *(const bool *)field;
    case TRAIN_TEXT:
        return *(const char *const *)field != NULL;
    case TRAIN_TRIPLE:
        return *(const int64_t *)field > 0;
    case TRAIN_INT64: // no rule knows such an argument
    case TRAIN_REAL:
    case TRAIN_LIST:
        break;
    }
    return 0;
}

static void fill_margs (const struct train_args *args, struct margs *margs)
{
    margs_init (margs);
    for (int id = 0; id < MARG_NUM; id++) {
        const struct train_arg *row = train_arg_find (margs_table[id].name);

        if (row)
            margs->value[id] = value_of (args, row);
    }
    margs->layout = args->layout;
}

int train_geometry (const struct train_args *args, struct geometry *geometry,
                    struct mg_error *err)
{
    struct margs_job job = { .by_variables = true };
    struct mg_error first = { "" };
    struct margs margs;

    fill_margs (args, &margs);
    geometry_init (geometry);
    if (environment_read (getenv, geometry, &job.fixed, err) < 0)
        return -1;
    if (margs_merge (&margs, geometry, &job, rule_keep_first, &first) > 0)
        return mg_error_set (err, EINVAL, "%s", first.text);
    if (geometry->cp > 1 || geometry->ep > 1)
        return mg_error_set (err, ENOTSUP, "the job asks for cp %d, ep %d; this version trains "
                             "with 1 of both", geometry->cp, geometry->ep);
    return geometry_validate (geometry, err);
}

int train_check_rules (const struct train_args *args, const struct geometry *geometry,
                       int data_seq_length, int64_t rows, struct mg_error *err)
{
    struct margs margs;

    fill_margs (args, &margs);
    if (!margs.value[MARG_SEQ_LENGTH])
        margs.value[MARG_SEQ_LENGTH] = data_seq_length;
    margs.value[MARG_MICRO_BATCH] = train_micro_batch (args);
    if (rows > 0 && rows <= INT_MAX && !margs.value[MARG_GLOBAL_BATCH])
        margs.value[MARG_GLOBAL_BATCH] = (int)rows;
    return margs_validate (&margs, geometry, err);
}

struct stages *train_stages (const struct train_args *args, struct geometry *geometry,
                             struct mg_error *err)
{
    struct stages *stages;
    struct margs margs;

    fill_margs (args, &margs);
    if (!(stages = margs_stages (&margs, geometry, err)))
        return NULL;
    geometry->vpp = stages->vpp > 1 ? stages->vpp : 0;
    return stages;
}

int train_tokenizer_size (const struct train_args *args, int *size, struct mg_error *err)
{
    const struct tokenizer_files files = { args->vocab_file, args->merge_file };
    struct tokenizer *tokenizer;

    *size = 0;
    if (!args->tokenizer || args->vocab_size != TRAIN_UNSET)
        return 0;
    if (!(tokenizer = tokenizer_create (args->tokenizer, &files, err)))
        return mg_error_prefix (err, "--tokenizer-type, for which --vocab-size would do");
    *size = tokenizer_vocab_size (tokenizer);
    tokenizer_destroy (tokenizer);
    return 0;
}

static int vocabulary (const struct train_args *args, int tp, int tokenizer_size,
                       struct model_config *m, struct mg_error *err)
{
    m->vocab_size = args->padded_vocab_size;
    if (args->vocab_size != TRAIN_UNSET)
        m->vocab_size = args->vocab_size;
    else if (tokenizer_size > 0)
        m->vocab_size = tokenizer_size;
    m->padded_vocab_size = args->padded_vocab_size != TRAIN_UNSET
                               ? args->padded_vocab_size
                               : model_padded_vocab (m->vocab_size, args->vocab_divisor, tp);
    if (m->padded_vocab_size == 0)
        return mg_error_set (err, ERANGE, "--vocab-size %d padded to a multiple of %d x tp %d "
                             "is too large", m->vocab_size, args->vocab_divisor, tp);
    return 0;
}

int train_model (const struct train_args *args, int tp, int data_seq_length, int tokenizer_size,
                 struct model_config *m, struct mg_error *err)
{
    int64_t ffn = args->swiglu ? args->hidden_size * 8LL / 3 / 64 * 64 // as Megatron-LM
                               : 4LL * args->hidden_size;

    if (args->ffn_hidden_size != TRAIN_UNSET)
        ffn = args->ffn_hidden_size;
    *m = (struct model_config){
        .num_layers = args->num_layers,
        .hidden_size = args->hidden_size,
        .ffn_hidden_size = ffn > INT_MAX ? INT_MAX : (int)ffn,
        .num_heads = args->num_heads,
        .kv_channels = args->kv_channels,
        .seq_length = args->seq_length != TRAIN_UNSET ? args->seq_length : data_seq_length,
        .norm_epsilon = args->norm_epsilon,
        .init_std = args->init_std,
        .hidden_dropout = args->hidden_dropout,
        .attention_dropout = args->attention_dropout,
        .tied_embeddings = !args->untied,
        .seed = (uint64_t)args->seed,
    };
    if (args->seq_length != TRAIN_UNSET && data_seq_length > 0
        && args->seq_length != data_seq_length)
        return mg_error_set (err, EINVAL, "--seq-length %d, but the samples have %d tokens",
                             args->seq_length, data_seq_length);
    if (m->kv_channels == TRAIN_UNSET) // "hidden-heads" is one of train_check_rules()
        m->kv_channels = args->latent ? 1 : m->hidden_size / m->num_heads;
    m->max_positions = args->max_positions != TRAIN_UNSET ? args->max_positions
                                                          : m->seq_length;
    if (train_model_variants (args, m, err) < 0)
        return -1;
    return vocabulary (args, tp, tokenizer_size, m, err);
}
