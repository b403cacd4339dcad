/* gpt_mtp.c - what is before a transformer layer for multi-token prediction */

#include "libcore/model/gpt_private.h"

/* Append the embedding of later tokens.  'demb' has its gradient. */
static int add_embedding (struct gpt_maker *m, int word, int demb)
{
    int sum = gpt_branch (m), emb = gpt_hidden (m, "embedding", LIFE_SAVED);
    int tokens = gpt_input (m, "tokens", LAYER_INT32, gpt_tokens (), true);
    bool detached = m->nn->config.mtp_detached;
    int back = detached ? LAYER_NONE : demb;

    gpt_phase (m, &(struct phase){ .name = "word_embeddings",
                                   .op = &op_word, .frozen = detached,
                                   .operand = { [WORD_OUT] = sum, [WORD_TABLE] = word,
                                                [WORD_DOUT] = back, [WORD_TOKENS] = tokens } });
    gpt_add_reduce (m, "reduce", sum);
    gpt_phase (m, &(struct phase){ .name = "dropout", .op = &op_embedding_dropout,
                                   .frozen = detached,
                                   .operand = { [DROPOUT_X] = sum, [DROPOUT_OUT] = emb,
                                                [DROPOUT_DOUT] = back,
                                                [DROPOUT_SAMPLES] = gpt_samples (m) } });
    return emb;
}

void gpt_make_mtp_input (struct gpt_maker *m)
{
    struct nn_extent tokens = gpt_tokens ();
    int64_t h = m->nn->hidden;
    int in = gpt_hidden (m, "input", LIFE_INPUT), out = gpt_hidden (m, "output", LIFE_OUTPUT);
    struct gpt_norm enorm = gpt_norm_params (m, "enorm.weight", "enorm.bias", h,
                                             KIND_MTP_ENORM_WEIGHT, false);
    struct gpt_norm hnorm = gpt_norm_params (m, "hnorm.weight", "hnorm.bias", h,
                                             KIND_MTP_HNORM_WEIGHT, false);
    int weight = gpt_matrix (m, "eh_proj.weight", SPLIT_ROWS, h, 2 * h, INIT_NORMAL,
                             KIND_MTP_PROJ);
    int word = gpt_vocabulary (m, "embedding.word_embeddings.weight", KIND_WORD, true);
    int demb = gpt_gradient (m, "branch", gpt_rows (), h);
    int da = gpt_gradient (m, "mtp_enorm", tokens, h), db = gpt_gradient (m, "norm", tokens, h);
    int emb = add_embedding (m, word, demb);
    int hidden = m->gradient, a, b, both;

    m->gradient = demb;
    a = gpt_add_norm (m, "enorm", "enorm", "estat", false, emb, enorm, da);
    m->gradient = hidden;
    b = gpt_add_norm (m, "hnorm", "hnorm", "hstat", false, in, hnorm, db);
    both = gpt_scratch (m, "mtp_pair", tokens, 2 * h);
    m->spec->name = "input";
    m->spec->prefix = m->spec->mtp_prefix = "mtp.layers.%d.";
    gpt_phase (m, &(struct phase){
        .name = "eh_proj", .op = &op_project_pair,
        .operand = { [PAIR_A] = a, [PAIR_B] = b, [PAIR_BOTH] = both, [PAIR_SUM] = gpt_branch (m),
                     [PAIR_OUT] = out, [PAIR_WEIGHT] = weight, [PAIR_DOUT] = m->gradient,
                     [PAIR_COLUMNS] = gpt_gradient (m, "mtp_columns", tokens, h / m->nn->tp_size),
                     [PAIR_DA] = da, [PAIR_DB] = db } });
}
