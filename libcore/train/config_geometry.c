/* config_geometry.c - the parts of a run's configuration that depend on the environment,
 * files and other sizes: the geometry, the rules, the stages, the model
 */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "libcore/base/parse.h"
#include "libcore/device/device.h"
#include "libcore/text/tokenizer.h"
#include "libcore/topo/environment.h"
#include "libcore/topo/graph_args.h"
#include "libcore/topo/rule.h"
#include "libcore/train/config.h"

/* The hierarchical sizes of the context-parallel group. */
static int set_levels (struct run_config *c, struct mg_error *err)
{
    const struct arg_list *list = &c->args->cp_levels;
    struct context_config *context = &c->model.context;
    int *const size[] = { &context->inner, &context->outer };

    if (!list->first)
        return 0;
    if (list->count != 2)
        return mg_error_set (err, EINVAL, "--hierarchical-context-parallel-sizes has %d words, "
                             "want two sizes", list->count);
    for (int i = 0; i < 2; i++) {
        if (parse_int ("--hierarchical-context-parallel-sizes", arg_list_word (list, i), 1,
                       GEOMETRY_SIZE_MAX, size[i], err) < 0)
            return -1;
    }
    c->margs.value[MARG_CP_INNER] = context->inner;
    return 0;
}

int run_config_geometry (struct run_config *c, struct mg_error *err)
{
    struct margs_job job = { .by_variables = true };
    struct mg_error first = { "" };
    struct geometry *g = &c->geometry;

    geometry_init (g);
    if (environment_read (getenv, g, &job.fixed, err) < 0)
        return -1;
    if (margs_merge (&c->margs, g, &job, rule_keep_first, &first) > 0)
        return mg_error_set (err, EINVAL, "%s", first.text);
    if (set_levels (c, err) < 0 || context_check_words (&c->model.context, err) < 0)
        return -1;
    c->job.context_inner = context_levels (&c->model.context, g->cp);
    return geometry_validate (g, err);
}

/* CUDA runs parts of a graph that do not wait for each other in any order.  A rank of a pipeline
 * waits inside its graph for what another rank sends in a graph of its own.
 */
int run_config_check_graph (const struct run_config *c, const char *device, struct mg_error *err)
{
    struct graph_args graphs;

    if (c->geometry.pp <= 1 || !device_is_named (device, "cuda")
        || graph_args_read (&c->margs, &graphs, NULL) < 0 || graphs.impl != GRAPH_ARGS_ITERATION)
        return 0;
    return mg_error_set (err, EINVAL, "--cuda-graph-impl full_iteration with --device cuda needs "
                         "--pipeline-model-parallel-size 1, not %d: ranks of a pipeline would wait "
                         "for each other inside of graphs; give --cuda-graph-impl local",
                         c->geometry.pp);
}

int run_config_check_rules (const struct run_config *c, struct mg_error *err)
{
    struct margs margs = c->margs;
    int64_t rows = c->file_rows;

    if (run_config_check_graph (c, c->job.device, err) < 0)
        return -1;
    if (!margs.value[MARG_SEQ_LENGTH])
        margs.value[MARG_SEQ_LENGTH] = c->file_seq_length;
    margs.value[MARG_MICRO_BATCH] = c->model.micro_batch_size;
    if (rows > 0 && rows <= INT_MAX && !margs.value[MARG_GLOBAL_BATCH])
        margs.value[MARG_GLOBAL_BATCH] = (int)rows;
    return margs_validate (&margs, &c->geometry, err);
}

int run_config_stages (struct run_config *c, struct mg_error *err)
{
    struct stages *stages = margs_stages (&c->margs, &c->geometry, err);

    if (!stages)
        return -1;
    stages_destroy (c->stages);
    c->stages = stages;
    c->model.stages = stages;
    c->geometry.vpp = stages->vpp > 1 ? stages->vpp : 0;
    return 0;
}

int run_config_tokenizer (struct run_config *c, struct mg_error *err)
{
    const struct data_config *data = &c->data;
    struct tokenizer *tokenizer;

    c->tokenizer_size = 0;
    if (!data->tokenizer || c->model.config.vocab_size != TRAIN_UNSET)
        return 0;
    if (!(tokenizer = tokenizer_create (data->tokenizer, &data->tokenizer_files, err)))
        return mg_error_prefix (err, "--tokenizer-type, for which --vocab-size would do");
    c->tokenizer_size = tokenizer_vocab_size (tokenizer);
    tokenizer_destroy (tokenizer);
    return 0;
}

bool run_config_vocab_note (const struct run_config *c, char *note, size_t size)
{
    const struct data_config *data = &c->data;
    const int vocab = c->model.config.vocab_size;
    struct tokenizer *tokenizer = NULL;
    int tokens = c->tokenizer_size;

    if (tokens == 0 && data->tokenizer
        && (tokenizer = tokenizer_create (data->tokenizer, &data->tokenizer_files, NULL)))
        tokens = tokenizer_vocab_size (tokenizer);
    tokenizer_destroy (tokenizer);
    if (tokens <= vocab)
        return false;
    snprintf (note, size, "the tokenizer of --tokenizer-type has %d tokens, the model's vocabulary "
              "%d: a sample with a token from %d on ends the run", tokens, vocab, vocab);
    return true;
}

void run_config_print_notes (const struct run_config *c, FILE *out)
{
    char vocab[200];
    const char *notes[] = {
        train_graphs_note (&c->margs),
        train_dispatcher_note (c->args),
        train_recompute_note (c->args, &c->model.recompute),
        c->optimizer.decay_qk_norm && !c->model.config.qk_norm
            ? "--apply-wd-to-qk-layernorm has no effect without --qk-layernorm"
            : NULL,
        run_config_vocab_note (c, vocab, sizeof (vocab)) ? vocab : NULL,
    };

    for (size_t i = 0; i < sizeof (notes) / sizeof (notes[0]); i++) {
        if (notes[i])
            fprintf (out, "%s\n", notes[i]);
    }
}

int run_config_model (struct run_config *c, struct mg_error *err)
{
    const struct model_known known = {
        .tp = c->geometry.tp,
        .vocab_divisor = c->vocab_divisor,
        .tokenizer_size = c->tokenizer_size,
        .file_seq_length = c->file_seq_length,
    };

    return train_model_complete (c->args, &c->margs, &known, &c->model, err);
}

int run_config_check_model (const struct run_config *c, struct mg_error *err)
{
    const struct model_layout layout = {
        .tp = c->geometry.tp,
        .cp = c->geometry.cp,
        .ep = c->geometry.ep,
        .etp = geometry_etp (&c->geometry),
        .sequence_parallel = c->model.sequence_parallel,
        .context = c->model.context,
    };

    return model_config_validate (&c->model.config, &layout, err);
}
