/* config.c - what follows from the arguments: the geometry, the model */

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/data/tokenizer.h"
#include "libcore/train/config.h"

/* One parallel size: the argument, the job's, or 1. */
static int merge_size (const char *name, int given, const char *variable, int fallback,
                       int *size, struct mg_error *err)
{
    const char *text = getenv (variable);
    int from_job;

    *size = given != TRAIN_UNSET ? given : fallback;
    if (!text)
        return 0;
    if (parse_int (variable, text, 1, GEOMETRY_SIZE_MAX, &from_job, err) < 0)
        return -1;
    if (given != TRAIN_UNSET && given != from_job)
        return mg_error_set (err, EINVAL, "--%s %d contradicts the job's %s=%d; give one of "
                             "them", name, given, variable, from_job);
    *size = from_job;
    return 0;
}

/* The job says 1 where nobody asked for virtual stages: then the arguments may. */
static int merge_vpp (const struct train_args *args, int *vpp, struct mg_error *err)
{
    const char *text = getenv ("MEGATRON_VPP_SIZE");

    if (text && strcmp (text, "1") == 0) {
        *vpp = args->vpp != TRAIN_UNSET ? args->vpp : 0;
        return 0;
    }
    return merge_size ("num-virtual-stages-per-pipeline-rank", args->vpp, "MEGATRON_VPP_SIZE",
                       0, vpp, err);
}

int train_geometry (const struct train_args *args, struct geometry *geometry,
                    struct mg_error *err)
{
    const char *order = getenv ("MEGATRON_RANK_ORDER");
    static const char tp_pp_dp[] = "tp-cp-ep-pp-dp";

    geometry_init (geometry);
    if (merge_size ("tensor-model-parallel-size", args->tp, "MEGATRON_TP_SIZE", 1,
                    &geometry->tp, err) < 0
        || merge_size ("pipeline-model-parallel-size", args->pp, "MEGATRON_PP_SIZE", 1,
                       &geometry->pp, err) < 0
        || merge_size ("context-parallel-size", args->cp, "MEGATRON_CP_SIZE", 1,
                       &geometry->cp, err) < 0
        || merge_size ("expert-model-parallel-size", args->ep, "MEGATRON_EP_SIZE", 1,
                       &geometry->ep, err) < 0
        || merge_size ("expert-tensor-parallel-size", args->etp, "MEGATRON_ETP_SIZE", 0,
                       &geometry->etp, err) < 0
        || merge_vpp (args, &geometry->vpp, err) < 0)
        return -1;
    if (geometry->cp > 1 || geometry->ep > 1)
        return mg_error_set (err, ENOTSUP, "the job asks for cp %d, ep %d; this version trains "
                             "with 1 of both", geometry->cp, geometry->ep);
    if (args->tp_pp_dp && order && strcmp (order, tp_pp_dp) != 0)
        return mg_error_set (err, EINVAL, "--use-tp-pp-dp-mapping contradicts the job's "
                             "MEGATRON_RANK_ORDER=%.32s", order);
    if (args->tp_pp_dp)
        order = tp_pp_dp;
    if (order) {
        if (strlen (order) >= sizeof (geometry->order))
            return mg_error_set (err, EINVAL, "MEGATRON_RANK_ORDER=%.40s is too long", order);
        snprintf (geometry->order, sizeof (geometry->order), "%s", order);
    }
    return geometry_validate (geometry, err);
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
    int64_t ffn = args->ffn_hidden_size != TRAIN_UNSET ? args->ffn_hidden_size
                                                       : 4LL * args->hidden_size;

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
    if (m->kv_channels == TRAIN_UNSET) {
        if (m->hidden_size % m->num_heads != 0)
            return mg_error_set (err, EINVAL, "hidden-size %d is not a multiple of "
                                 "num-attention-heads %d; give --kv-channels",
                                 m->hidden_size, m->num_heads);
        m->kv_channels = m->hidden_size / m->num_heads;
    }
    m->max_positions = args->max_positions != TRAIN_UNSET ? args->max_positions
                                                          : m->seq_length;
    return vocabulary (args, tp, tokenizer_size, m, err);
}
