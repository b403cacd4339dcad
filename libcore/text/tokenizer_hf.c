/* tokenizer_hf - HuggingFaceTokenizer: tokenizer.json, without its library
 *
 * A text goes through the parts of the file in the order of the library: tokens that are
 * found as they are, the normaliser, tokens that are found then, words, subwords.  Stray
 * bytes travel as surrogates (utf8.h), which no valid text has: they are no letter, digit
 * or space to any part, and become bytes again where the words do.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/tokenizer.h"
#include "libcore/text/tokenizer_json.h"
#include "libcore/text/utf8.h"

struct hf {
    struct tokenizer_json *owned; /* NULL in a fork */
    const struct tokenizer_json *json;
    bool around; /* put around a text what the post-processor puts there */
    struct regex_scratch *regex;
    struct splitter_scratch words;
    struct subword_scratch subwords;
    struct text_buffer clean;     /* a text whose stray bytes are written as surrogates */
    struct text_buffer normal[2];
};

/* One text under way. */
struct run {
    struct hf *t;
    struct token_buffer *out;
    bool strays;
};

static void destroy (void *impl)
{
    struct hf *t = impl;

    if (t) {
        regex_scratch_destroy (t->regex);
        splitter_scratch_clear (&t->words);
        subword_scratch_clear (&t->subwords);
        text_buffer_clear (&t->clean);
        text_buffer_clear (&t->normal[0]);
        text_buffer_clear (&t->normal[1]);
        free (t->subwords.cache);
        tokenizer_json_destroy (t->owned);
        free (t);
    }
}

static int create_fork (const struct tokenizer_json *json, bool around, struct hf **out,
                        struct mg_error *err)
{
    struct hf *t;

    if (!(t = calloc (1, sizeof (*t))))
        return mg_error_set (err, ENOMEM, "tokenizer: out of memory");
    t->json = json;
    t->around = around;
    if (!(t->subwords.cache = word_cache_create (err))
        || !(t->regex = regex_scratch_create (err))) {
        destroy (t);
        return -1;
    }
    t->words.regex = t->regex;
    *out = t;
    return 0;
}

static int create (const struct tokenizer_files *files, void **impl, struct mg_error *err)
{
    struct tokenizer_json *json;
    struct hf *t;

    if (!(json = tokenizer_json_read (files->model, err)))
        return -1;
    if (json->eod < 0 && !files->no_eod) {
        tokenizer_json_destroy (json);
        return mg_error_set (err, EINVAL, "%s: no token that ends a document: want \"eos_token\" "
                             "in tokenizer_config.json beside it, or a token <|endoftext|>, "
                             "<|end_of_text|>, </s> or <eos>", files->model);
    }
    if (create_fork (json, !files->no_special_tokens, &t, err) < 0) {
        tokenizer_json_destroy (json);
        return -1;
    }
    t->owned = json;
    *impl = t;
    return 0;
}

static int fork_tokenizer (const void *impl, void **other, struct mg_error *err)
{
    const struct hf *t = impl;
    struct hf *fork;

    if (create_fork (t->json, t->around, &fork, err) < 0)
        return -1;
    *other = fork;
    return 0;
}

static int32_t vocab_size (const void *impl)
{
    return ((const struct hf *)impl)->json->num_ids;
}

static int32_t eod (const void *impl)
{
    return ((const struct hf *)impl)->json->eod;
}

static const char *token (const void *impl, int32_t id, size_t *size)
{
    return token_table_get (&((const struct hf *)impl)->json->shown, id, size);
}

static bool is_special (const void *impl, int32_t id)
{
    return tokenizer_json_is_special (((const struct hf *)impl)->json, id);
}

static int put_ids (struct token_buffer *out, const int32_t *ids, size_t n,
                    struct mg_error *err)
{
    if (n == 0)
        return 0;
    if (token_buffer_reserve (out, n, err) < 0)
        return -1;
    memcpy (out->ids + out->count, ids, n * sizeof (*ids));
    out->count += n;
    return 0;
}

static int take_word (void *arg, const char *word, size_t size, struct mg_error *err)
{
    const struct run *run = arg;

    return subword_encode (run->t->json->subword, &run->t->subwords, word, size,
                           run->strays, run->out, err);
}

/* Encode text->data[from, to). */
static int encode_normal (struct run *run, const struct normal_text *text, size_t from, size_t to,
                          struct mg_error *err)
{
    return splitter_run (run->t->json->splitter, &run->t->words, text->data + from, to - from,
                         text->head > from ? text->head - from : 0, take_word, run, err);
}

/* Encode a part of the text in which no added token occurs. */
static int encode_part (struct run *run, const char *text, size_t size, bool at_start,
                        struct mg_error *err)
{
    struct normal_text part = { .data = text, .size = size, .first = at_start }, normal;
    struct added_tokens_walk walk = { 0 };
    struct hf *t = run->t;
    size_t done = 0;
    int rc;

    if (at_start)
        utf8_decode (text, &part.head);
    if (normalizer_run (t->json->normalizer, t->regex, t->normal, &part, &normal, err) < 0)
        return -1;
    while ((rc = added_tokens_next (t->json->normalized, t->regex, normal.data, normal.size, &walk,
                                    err)) > 0) {
        if (walk.from > done && encode_normal (run, &normal, done, walk.from, err) < 0)
            return -1;
        if (put_ids (run->out, &walk.id, 1, err) < 0)
            return -1;
        done = walk.to;
    }
    if (rc < 0)
        return -1;
    return encode_normal (run, &normal, done, normal.size, err);
}

static int encode_text (struct run *run, const char *text, size_t size,
                        struct mg_error *err)
{
    const struct tokenizer_json *json = run->t->json;
    struct added_tokens_walk walk = { 0 };
    size_t done = 0;
    int rc;

    while ((rc = added_tokens_next (json->raw, run->t->regex, text, size, &walk, err)) > 0) {
        if (walk.from > done
            && encode_part (run, text + done, walk.from - done, done == 0, err) < 0)
            return -1;
        if (put_ids (run->out, &walk.id, 1, err) < 0)
            return -1;
        done = walk.to;
    }
    if (rc < 0)
        return -1;
    return done < size ? encode_part (run, text + done, size - done, done == 0, err) : 0;
}

static int encode_all (struct run *run, const char *text, size_t size,
                       struct mg_error *err)
{
    const struct tokenizer_json *json = run->t->json;
    const bool around = run->t->around;

    regex_scratch_start (run->t->regex, size);
    if (utf8_find_stray (text, size, 0) < size) {
        run->strays = true;
        if (utf8_write_strays (&run->t->clean, text, size, err) < 0)
            return -1;
        text = run->t->clean.data;
        size = run->t->clean.size;
    }
    if (around && put_ids (run->out, json->before.ids, json->before.count, err) < 0)
        return -1;
    if (encode_text (run, text, size, err) < 0)
        return -1;
    return around ? put_ids (run->out, json->after.ids, json->after.count, err) : 0;
}

static int encode (void *impl, const char *text, size_t size, struct token_buffer *out,
                   struct mg_error *err)
{
    struct run run = { .t = impl, .out = out };
    const size_t before = out->count;

    if (size > 0 && encode_all (&run, text, size, err) < 0) {
        out->count = before;
        return -1;
    }
    return 0;
}

const struct tokenizer_ops tokenizer_hf_ops = {
    .name = "HuggingFaceTokenizer",
    .needs_model = true,
    .create = create,
    .fork = fork_tokenizer,
    .vocab_size = vocab_size,
    .eod = eod,
    .token = token,
    .is_special = is_special,
    .encode = encode,
    .destroy = destroy,
};
