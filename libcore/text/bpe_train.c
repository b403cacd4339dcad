/* bpe_train - texts to words, and what was learned to JSON */

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/bpe_learn.h"
#include "libcore/text/bpe_train.h"
#include "libcore/text/splitter.h"
#include "libcore/text/utf8.h"

struct bpe_train {
    struct bpe_train_options options;
    json_t *pre_tokenizer;
    struct splitter *splitter;
    struct splitter_scratch scratch;
    struct bytechars bytechars;
    struct text_buffer clean, bytes; /* a text, a word */
    bool strays;
    struct word_count words;
    struct bpe_learned learned;
};

static const struct {
    const char *name, *pattern;
} patterns[] = {
    { "llama3", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
                "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" },
    { "qwen2", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
               "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" },
};

void bpe_train_destroy (struct bpe_train *train)
{
    if (train) {
        int saved_errno = errno;

        json_decref (train->pre_tokenizer);
        splitter_destroy (train->splitter);
        regex_scratch_destroy (train->scratch.regex);
        splitter_scratch_clear (&train->scratch);
        text_buffer_clear (&train->clean);
        text_buffer_clear (&train->bytes);
        word_count_clear (&train->words);
        bpe_learned_clear (&train->learned);
        free (train);
        errno = saved_errno;
    }
}

/* The pre_tokenizer of the file; NULL: out of memory, or the pattern is no UTF-8. */
static json_t *make_pre_tokenizer (const char *pattern)
{
    for (size_t i = 0; i < sizeof (patterns) / sizeof (patterns[0]); i++) {
        if (strcmp (pattern, patterns[i].name) == 0)
            pattern = patterns[i].pattern;
    }
    if (strcmp (pattern, "gpt2") == 0)
        return json_pack ("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                          "trim_offsets", 1, "use_regex", 1);
    return json_pack ("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b, s:b}]}", "type",
                      "Sequence", "pretokenizers", "type", "Split", "pattern", "Regex",
                      pattern, "behavior", "Isolated", "invert", 0, "type", "ByteLevel",
                      "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 0);
}

static int prepare (struct bpe_train *train, struct mg_error *err)
{
    const struct bpe_train_options *o = &train->options;
    const struct json_place place = { .file = "the expression for words" };

    bytechars_fill (&train->bytechars);
    for (size_t i = 0; i < o->num_special; i++) {
        if (utf8_find_stray (o->special[i], strlen (o->special[i]), 0)
            < strlen (o->special[i]))
            return mg_error_set (err, EINVAL, "special token %zu is no UTF-8", i + 1);
    }
    if (bpe_learn_begin (&train->learned, &train->bytechars, o->special, o->num_special,
                         o->vocab_size, err) < 0)
        return -1;
    if (!(train->pre_tokenizer = make_pre_tokenizer (o->pattern)))
        return mg_error_set (err, EINVAL, "the expression for words is no UTF-8");
    if (!(train->splitter = splitter_create (&place, train->pre_tokenizer, err))
        || !(train->scratch.regex = regex_scratch_create (err)))
        return -1;
    return 0;
}

struct bpe_train *bpe_train_create (const struct bpe_train_options *options,
                                    struct mg_error *err)
{
    struct bpe_train *train;

    if (!(train = calloc (1, sizeof (*train)))) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    train->options = *options;
    if (prepare (train, err) < 0) {
        bpe_train_destroy (train);
        return NULL;
    }
    return train;
}

static int add_word (void *arg, const char *word, size_t size, struct mg_error *err)
{
    struct bpe_train *train = arg;

    if (train->strays) {
        if (utf8_read_strays (&train->bytes, word, size, err) < 0)
            return -1;
        word = train->bytes.data;
        size = train->bytes.size;
    }
    return word_count_add (&train->words, word, size, err);
}

int bpe_train_add (struct bpe_train *train, const char *text, size_t size,
                   struct mg_error *err)
{
    train->strays = utf8_find_stray (text, size, 0) < size;
    if (train->strays) {
        if (utf8_write_strays (&train->clean, text, size, err) < 0)
            return -1;
        text = train->clean.data;
        size = train->clean.size;
    }
    regex_scratch_start (train->scratch.regex, size);
    return splitter_run (train->splitter, &train->scratch, text, size, 1, add_word, train,
                         err);
}

int bpe_train_learn (struct bpe_train *train, int32_t *num_tokens, struct mg_error *err)
{
    if (train->words.num_words == 0)
        return mg_error_set (err, EINVAL, "no text to learn from");
    if (bpe_learn (&train->learned, &train->bytechars, &train->words,
                   train->options.min_frequency, err) < 0)
        return -1;
    *num_tokens = train->learned.num_tokens;
    return 0;
}

/* ---- writing ---- */

static json_t *token_text (const struct bpe_learned *l, int32_t id)
{
    size_t size;
    const char *text = token_table_get (&l->tokens, id, &size);

    return json_stringn (text, size);
}

static json_t *make_vocab (const struct bpe_learned *l)
{
    json_t *vocab = json_object ();

    for (int32_t id = 0; vocab && id < l->num_tokens; id++) {
        json_t *text = token_text (l, id);
        int rc = text ? json_object_set_new (vocab, json_string_value (text),
                                             json_integer (id)) : -1;

        json_decref (text);
        if (rc < 0) {
            json_decref (vocab);
            return NULL;
        }
    }
    return vocab;
}

static json_t *make_merges (const struct bpe_learned *l)
{
    json_t *merges = json_array ();

    for (size_t i = 0; merges && i < l->num_merges; i++) {
        json_t *merge = json_pack ("[o, o]", token_text (l, l->merges[i].left),
                                   token_text (l, l->merges[i].right));

        if (json_array_append_new (merges, merge) < 0) {
            json_decref (merges);
            return NULL;
        }
    }
    return merges;
}

static json_t *make_added (const struct bpe_train_options *o)
{
    json_t *added = json_array ();

    for (size_t i = 0; added && i < o->num_special; i++) {
        json_t *token = json_pack ("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)i,
                                   "content", o->special[i], "single_word", 0, "lstrip", 0,
                                   "rstrip", 0, "normalized", 0, "special", 1);

        if (json_array_append_new (added, token) < 0) {
            json_decref (added);
            return NULL;
        }
    }
    return added;
}

/* Append a value as text.  Owns 'file'; NULL: there was no memory for it. */
static int put_json (json_t *file, struct text_buffer *out, struct mg_error *err)
{
    char *text = file ? json_dumps (file, JSON_INDENT (1)) : NULL;
    int rc;

    json_decref (file);
    out->size = 0;
    if (!text)
        return mg_error_set (err, ENOMEM, "no memory to write a tokenizer");
    rc = text_buffer_append (out, text, strlen (text), err);
    if (rc == 0)
        rc = text_buffer_append (out, "\n", 1, err);
    free (text);
    return rc;
}

int bpe_train_write (const struct bpe_train *train, struct text_buffer *out,
                     struct mg_error *err)
{
    json_t *decoder = json_pack ("{s:s, s:b, s:b, s:b}", "type", "ByteLevel",
                                 "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1);
    json_t *model = json_pack (
        "{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
        "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
        "byte_fallback", 0, "ignore_merges", 0, "vocab", make_vocab (&train->learned),
        "merges", make_merges (&train->learned));
    json_t *file = json_pack ("{s:s, s:n, s:n, s:o, s:n, s:O, s:n, s:o, s:o}", "version",
                              "1.0", "truncation", "padding", "added_tokens",
                              make_added (&train->options), "normalizer", "pre_tokenizer",
                              train->pre_tokenizer, "post_processor", "decoder", decoder,
                              "model", model);

    return put_json (file, out, err);
}

int bpe_train_config (const struct bpe_train_options *options, struct text_buffer *out,
                      struct mg_error *err)
{
    json_t *file = json_pack ("{s:s, s:s}", "eos_token", options->special[0],
                              "tokenizer_class", "PreTrainedTokenizerFast");

    return put_json (file, out, err);
}
