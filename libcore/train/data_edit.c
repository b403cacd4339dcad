/* data_edit.c - samples of a run as its arguments change them */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/data/sample_edit.h"
#include "libcore/text/tokenizer.h"
#include "libcore/train/data.h"

/* Code that searches the ends of documents needs the token that ends one. */
static int check_eod (const struct data_config *c, struct mg_error *err)
{
    const struct train_edit *edit = &c->edit;
    const struct {
        const char *name;
        bool given;
    } rows[] = {
        { "--eod-mask-loss", edit->mask_eod },
        { "--reset-attention-mask", edit->reset_attention },
        { "--reset-position-ids", edit->reset_positions },
        { "--fim-data", edit->fim && !edit->fim_eod },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        if (rows[i].given && edit->eod == TRAIN_UNSET && !c->tokenizer)
            return mg_error_set (err, EINVAL, "%s wants --eod-token-id or --tokenizer-type",
                                 rows[i].name);
    }
    return 0;
}

int train_edit_check (const struct data_config *c, struct mg_error *err)
{
    const struct train_edit *edit = &c->edit;
    const struct {
        const char *name;
        bool given;
    } of_fim[] = {
        { "--fim-rate", edit->fim_rate != TRAIN_UNSET },
        { "--fim-spm-rate", edit->fim_spm_rate != TRAIN_UNSET },
        { "--fim-split-sample", edit->fim_split != NULL },
        { "--fim-fragment-rate", edit->fim_fragment_rate != TRAIN_UNSET },
        { "--fim-no-prefix", edit->fim_no_prefix != NULL },
        { "--fim-prefix-token", edit->fim_prefix != NULL },
        { "--fim-middle-token", edit->fim_middle != NULL },
        { "--fim-suffix-token", edit->fim_suffix != NULL },
        { "--fim-pad-token", edit->fim_pad != NULL },
        { "--fim-eod-token", edit->fim_eod != NULL },
    };

    for (size_t i = 0; i < sizeof (of_fim) / sizeof (of_fim[0]); i++) {
        if (of_fim[i].given && !edit->fim)
            return mg_error_set (err, EINVAL, "%s wants --fim-data", of_fim[i].name);
    }
    if (!edit->fim_split != (edit->fim_fragment_rate == TRAIN_UNSET))
        return mg_error_set (err, EINVAL, "--fim-split-sample and --fim-fragment-rate want each "
                             "other");
    if (edit->fim_no_prefix && !c->tokenizer)
        return mg_error_set (err, EINVAL, "--fim-no-prefix wants --tokenizer-type");
    if (edit->fim && c->mock)
        return mg_error_set (err, EINVAL, "--fim-data and --mock-data exclude each other");
    if (edit->fim && c->from_program[SPLIT_TRAIN])
        return mg_error_set (err, EINVAL, "--fim-data and samples that the program makes exclude "
                             "each other");
    if ((edit->mask_eod || edit->fim) && c->batches)
        return mg_error_set (err, EINVAL, "%s and --batches exclude each other: the file has the "
                             "samples and their weights",
                             edit->fim ? "--fim-data" : "--eod-mask-loss");
    return check_eod (c, err);
}

static struct tokenizer *open_tokenizer (const struct data_config *c, struct mg_error *err)
{
    struct tokenizer_files files = c->tokenizer_files;
    struct tokenizer *tokenizer;

    files.no_special_tokens = files.model != NULL; // parts of a document begin no text
    tokenizer = tokenizer_create (c->tokenizer, &files, err);

    if (!tokenizer)
        mg_error_prefix (err, "--tokenizer-type");
    return tokenizer;
}

/* The number of tokens of the vocabulary, as far as it is known. */
static int32_t vocabulary (const struct data_config *c, const struct tokenizer *tokenizer)
{
    if (c->vocab_size != TRAIN_UNSET)
        return c->vocab_size;
    if (tokenizer)
        return tokenizer_vocab_size (tokenizer);
    return c->padded_vocab_size != TRAIN_UNSET ? c->padded_vocab_size : INT32_MAX;
}

/* 'tokenizer' may be NULL. */
static int find_eod (const struct data_config *c, const struct tokenizer *tokenizer,
                     int32_t *eod, struct mg_error *err)
{
    *eod = c->edit.eod;
    if (c->edit.eod == TRAIN_UNSET && !tokenizer)
        return mg_error_set (err, EINVAL, "no token ends a document: want --eod-token-id or "
                             "--tokenizer-type");
    if (c->edit.eod == TRAIN_UNSET)
        *eod = tokenizer_eod (tokenizer);
    if (*eod >= vocabulary (c, tokenizer))
        return mg_error_set (err, EINVAL, "%s: token %d is outside the vocabulary, want 0 to %d",
                             c->edit.eod != TRAIN_UNSET ? "--eod-token-id"
                                                           : "end of document", (int)*eod,
                             (int)vocabulary (c, tokenizer) - 1);
    return 0;
}

int train_data_eod (const struct data_config *c, int32_t *eod, struct mg_error *err)
{
    struct tokenizer *tokenizer = NULL;
    int rc;

    if (c->edit.eod == TRAIN_UNSET && c->tokenizer
        && !(tokenizer = open_tokenizer (c, err)))
        return -1;
    rc = find_eod (c, tokenizer, eod, err);
    tokenizer_destroy (tokenizer);
    return rc;
}

int train_data_mock (const struct data_config *c, int32_t *vocab_size, int32_t *eod,
                     struct mg_error *err)
{
    struct tokenizer *tokenizer = NULL;
    int rc = 0;

    if (c->tokenizer && !(tokenizer = open_tokenizer (c, err)))
        return -1;
    *vocab_size = tokenizer ? tokenizer_vocab_size (tokenizer) : vocabulary (c, NULL);
    *eod = *vocab_size - 1;
    if (tokenizer || c->edit.eod != TRAIN_UNSET)
        rc = find_eod (c, tokenizer, eod, err);
    tokenizer_destroy (tokenizer);
    return rc;
}

/* The only token whose text is 'text', -1 if there is none. */
static int32_t token_by_text (const struct tokenizer *tokenizer, const char *text)
{
    const int32_t vocab = tokenizer ? tokenizer_vocab_size (tokenizer) : 0;
    const size_t len = strlen (text);

    for (int32_t id = 0; id < vocab; id++) {
        size_t size;
        const char *bytes = tokenizer_token (tokenizer, id, &size);

        if (size == len && memcmp (bytes, text, len) == 0)
            return id;
    }
    return -1;
}

/* A token that an argument gives as a number, its id, or as its text. */
static int find_token (const struct data_config *c, const struct tokenizer *tokenizer,
                       const char *name, const char *value, int32_t *id, struct mg_error *err)
{
    const int32_t vocab = vocabulary (c, tokenizer);

    if (value[strspn (value, "0123456789")] == '\0') {
        int number;

        if (parse_int (name, value, 0, vocab - 1, &number, err) < 0)
            return -1;
        *id = number;
        return 0;
    }
    *id = token_by_text (tokenizer, value);
    if (*id >= 0 && *id < vocab)
        return 0;
    if (!tokenizer)
        return mg_error_set (err, EINVAL, "%s: \"%.80s\" is no id; its id, or --tokenizer-type "
                             "that has it, is required", name, value);
    return mg_error_set (err, EINVAL, "%s: tokenizer %s has no token \"%.80s\", want one that it "
                         "has, or an id from 0 to %d", name, tokenizer->ops->name, value,
                         (int)vocab - 1);
}

static int find_fim_tokens (const struct data_config *c, const struct tokenizer *tokenizer,
                            struct fim_config *fim, struct mg_error *err)
{
    const struct train_edit *edit = &c->edit;
    const struct {
        const char *name, *value, *preset;
        int32_t *id;
    } rows[] = {
        { "--fim-prefix-token", edit->fim_prefix, "<fim_prefix>", &fim->prefix },
        { "--fim-middle-token", edit->fim_middle, "<fim_middle>", &fim->middle },
        { "--fim-suffix-token", edit->fim_suffix, "<fim_suffix>", &fim->suffix },
        { "--fim-pad-token", edit->fim_pad, "<fim_pad>", &fim->pad },
        { "--fim-eod-token", edit->fim_eod, NULL, &fim->eod },
        { "--fim-split-sample", edit->fim_split, NULL, &fim->split },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        const char *value = rows[i].value ? rows[i].value : rows[i].preset;

        if (value && find_token (c, tokenizer, rows[i].name, value, rows[i].id, err) < 0)
            return -1;
    }
    if (!edit->fim_eod)
        return find_eod (c, tokenizer, &fim->eod, err);
    return 0;
}

/* Set the tokens that changes of samples need: *eod, and those of *fim. */
static int find_tokens (const struct data_config *c, const struct tokenizer *tokenizer,
                        int32_t *eod, struct fim_config *fim, struct mg_error *err)
{
    const struct train_edit *edit = &c->edit;

    if (edit->mask_eod && find_eod (c, tokenizer, eod, err) < 0)
        return -1;
    return edit->fim ? find_fim_tokens (c, tokenizer, fim, err) : 0;
}

int train_edit_check_tokens (const struct data_config *c, struct mg_error *err)
{
    const struct train_edit *edit = &c->edit;
    struct tokenizer *tokenizer = NULL;
    struct fim_config fim;
    int32_t eod;
    int rc = 0;

    if (!edit->mask_eod && !edit->fim && !edit->reset_attention && !edit->reset_positions)
        return 0;
    if (c->tokenizer && !(tokenizer = open_tokenizer (c, err)))
        return -1;
    if (edit->reset_attention || edit->reset_positions)
        rc = find_eod (c, tokenizer, &eod, err);
    if (rc == 0)
        rc = find_tokens (c, tokenizer, &eod, &fim, err);
    tokenizer_destroy (tokenizer);
    return rc;
}

static double rate_of (double given)
{
    return given != TRAIN_UNSET ? given : 0.5;
}

struct sample_source *train_edit_samples (const struct data_config *c, enum split_part part,
                                          struct sample_source *source, struct mg_error *err)
{
    const struct train_edit *given = &c->edit;
    struct sample_edit edit = { .mask_eod = given->mask_eod };
    struct fim_config fim = {
        .rate = rate_of (given->fim_rate),
        .spm_rate = rate_of (given->fim_spm_rate),
        .fragment_rate = given->fim_fragment_rate,
        .split = -1,
        .no_prefix = given->fim_no_prefix,
        .seed = (uint64_t)c->seed,
        .stream = part,
    };

    if (!given->mask_eod && !given->fim)
        return source;
    if (c->tokenizer && !(edit.tokenizer = open_tokenizer (c, err)))
        goto error;
    if (find_tokens (c, edit.tokenizer, &edit.eod, &fim, err) < 0)
        goto error;
    edit.fim = given->fim ? &fim : NULL;
    return sample_source_edit_create (source, &edit, err);
error:
    tokenizer_destroy (edit.tokenizer);
    sample_source_destroy (source);
    return NULL;
}
