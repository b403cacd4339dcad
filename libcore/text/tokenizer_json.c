/* tokenizer_json - the parts of the file, one after the other */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libcore/file/durable.h"
#include "libcore/text/growth.h"
#include "libcore/text/tokenizer_json.h"
#include "libcore/text/utf8.h"

enum { FILE_MAX = 256 << 20, ADDED_MAX = 4096, MAX_AROUND = 64 };

struct reader {
    struct tokenizer_json *json;
    struct json_place place;  /* of the file */
    struct regex_scratch *scratch;
    struct text_buffer buffers[2], bytes;
    const json_t *root;
    json_t *added;            /* ids of the added tokens so far */
    json_int_t next_id;       /* of a token that is new, in the library */
    struct {
        struct text_buffer from, to;
    } replaces[TOKENIZER_JSON_REPLACES]; /* of the decoder */
    int num_replaces;
};

static const char *quote (char to[JSON_PLACE_QUOTE], const char *text)
{
    return json_place_quote (to, text, strlen (text));
}

void tokenizer_json_destroy (struct tokenizer_json *json)
{
    if (json) {
        int saved_errno = errno;

        normalizer_destroy (json->normalizer);
        splitter_destroy (json->splitter);
        subword_destroy (json->subword);
        added_tokens_destroy (json->raw);
        added_tokens_destroy (json->normalized);
        token_table_clear (&json->shown);
        free (json->special.ids);
        free (json->before.ids);
        free (json->after.ids);
        free (json);
        errno = saved_errno;
    }
}

/* ---- added tokens ---- */

static const json_t *model_id (const struct reader *r, const char *token)
{
    const json_t *model = json_object_get (r->root, "model");

    return json_object_get (json_object_get (model, "vocab"), token);
}

/* The library gives ids itself: a new token gets the next one, which is first the number of
 * tokens of the model, whatever their ids are. */
static int check_id (struct reader *r, const struct json_place *at, const char *content,
                     json_int_t id, struct mg_error *err)
{
    const json_t *earlier = json_object_get (r->added, content);
    json_int_t want = earlier ? json_integer_value (earlier) : r->next_id;
    char q[JSON_PLACE_QUOTE];

    if (id != want)
        return json_place_error (at, err, "\"%s\" has id %" JSON_INTEGER_FORMAT ", but the "
                                 "library numbers it %" JSON_INTEGER_FORMAT,
                                 quote (q, content), id, want);
    if (!earlier && json_object_set_new_nocheck (r->added, content, json_integer (id)) < 0)
        return mg_error_set (err, ENOMEM, "out of memory");
    r->next_id += !earlier;
    return 0;
}

static int read_id (struct reader *r, const struct json_place *place,
                    const json_t *element, const char *content, int32_t *id,
                    struct mg_error *err)
{
    const struct json_place at = json_place_key (place, "id");
    const json_t *value = json_object_get (element, "id");
    const json_t *model = model_id (r, content);
    json_int_t n = json_integer_value (value);
    char q[JSON_PLACE_QUOTE];

    if (!json_is_integer (value) || n < 0 || n >= SUBWORD_ID_MAX)
        return json_place_error (&at, err, "want a whole number from 0 to %d",
                                 SUBWORD_ID_MAX - 1);
    if (model && json_integer_value (model) != n)
        return json_place_error (&at, err, "%" JSON_INTEGER_FORMAT ", but \"%s\" is %"
                                 JSON_INTEGER_FORMAT " in model.vocab", n,
                                 quote (q, content), json_integer_value (model));
    *id = (int32_t)n;
    return model ? 0 : check_id (r, &at, content, n, err);
}

static int put_added (struct reader *r, const char *content, bool normalized,
                      const struct added_token *token, struct mg_error *err)
{
    struct normal_text text = { .data = NULL };

    r->bytes.size = 0;
    if (json_text_append (&r->bytes, content, err) < 0)
        return -1;
    if (!normalized)
        return added_tokens_put (r->json->raw, r->bytes.data, r->bytes.size, token, err);
    regex_scratch_start (r->scratch, r->bytes.size);
    text.data = r->bytes.data;
    text.size = r->bytes.size;
    if (normalizer_run (r->json->normalizer, r->scratch, r->buffers, &text, &text, err) < 0)
        return mg_error_prefix (err, "%s", r->place.file);
    if (text.size == 0)
        return 0;
    return added_tokens_put (r->json->normalized, text.data, text.size, token, err);
}

static int read_added (struct reader *r, const struct json_place *place,
                       const json_t *element, struct mg_error *err)
{
    const struct json_place at = json_place_key (place, "content");
    struct added_token token = { 0 };
    bool normalized = true, special = false;
    const char *content = NULL;

    if (!json_is_object (element))
        return json_place_error (place, err, "want an object");
    if (json_place_string (place, element, "content", &content, err) < 0)
        return -1;
    if (!content || !*content || strlen (content) > ADDED_MAX)
        return json_place_error (&at, err, "want 1 to %d bytes", ADDED_MAX);
    if (json_place_bool (place, element, "special", &special, err) < 0)
        return -1;
    normalized = !special;
    if (read_id (r, place, element, content, &token.id, err) < 0
        || json_place_bool (place, element, "single_word", &token.single_word, err) < 0
        || json_place_bool (place, element, "lstrip", &token.lstrip, err) < 0
        || json_place_bool (place, element, "rstrip", &token.rstrip, err) < 0
        || json_place_bool (place, element, "normalized", &normalized, err) < 0)
        return -1;
    if (token.id >= r->json->num_ids)
        r->json->num_ids = token.id + 1;
    if (special) {
        if (token_buffer_reserve (&r->json->special, 1, err) < 0)
            return -1;
        r->json->special.ids[r->json->special.count++] = token.id;
    }
    return put_added (r, content, normalized, &token, err);
}

static int compare_ids (const void *a, const void *b)
{
    const int32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static int read_all_added (struct reader *r, struct mg_error *err)
{
    const struct json_place at = json_place_key (&r->place, "added_tokens");
    const json_t *list = json_object_get (r->root, "added_tokens");
    const json_t *element;
    size_t i;

    r->next_id = (json_int_t)json_object_size (json_object_get (
        json_object_get (r->root, "model"), "vocab"));
    if (!(r->json->raw = added_tokens_create (err))
        || !(r->json->normalized = added_tokens_create (err)))
        return -1;
    if (!list || json_is_null (list))
        return 0;
    if (!json_is_array (list))
        return json_place_error (&at, err, "want an array");
    json_array_foreach (list, i, element) {
        const struct json_place one = json_place_index (&at, i);

        if (read_added (r, &one, element, err) < 0)
            return -1;
    }
    if (r->json->special.count > 0)
        qsort (r->json->special.ids, r->json->special.count, sizeof (int32_t), compare_ids);
    return 0;
}

bool tokenizer_json_is_special (const struct tokenizer_json *json, int32_t id)
{
    return json->special.count > 0
           && bsearch (&id, json->special.ids, json->special.count, sizeof (id), compare_ids);
}

/* ---- post-processor ---- */

static int put_around (struct reader *r, bool after, const struct json_place *place,
                       const json_t *id, struct mg_error *err)
{
    struct token_buffer *to = after ? &r->json->after : &r->json->before;
    json_int_t n = json_integer_value (id);

    if (!json_is_integer (id) || n < 0 || n >= r->json->num_ids)
        return json_place_error (place, err, "want an id, 0 to %d", r->json->num_ids - 1);
    if (to->count == MAX_AROUND)
        return json_place_error (place, err, "more than %d ids beside a text", MAX_AROUND);
    if (token_buffer_reserve (to, 1, err) < 0)
        return -1;
    to->ids[to->count++] = (int32_t)n;
    return 0;
}

/* The ids of a "SpecialToken" of a template, which "special_tokens" lists. */
static int put_special (struct reader *r, bool after, const struct json_place *place,
                        const json_t *processor, const json_t *piece, struct mg_error *err)
{
    const json_t *all = json_object_get (processor, "special_tokens");
    const char *name = json_string_value (json_object_get (piece, "id"));
    const json_t *ids = name ? json_object_get (json_object_get (all, name), "ids") : NULL;
    char q[JSON_PLACE_QUOTE];
    const json_t *id;
    size_t i;

    if (!json_is_array (ids))
        return json_place_error (place, err, "\"%s\" has no ids in special_tokens",
                                 quote (q, name ? name : ""));
    json_array_foreach (ids, i, id) {
        if (put_around (r, after, place, id, err) < 0)
            return -1;
    }
    return 0;
}

static int read_template (struct reader *r, const struct json_place *place,
                          const json_t *processor, struct mg_error *err)
{
    const struct json_place at = json_place_key (place, "single");
    const json_t *list = json_object_get (processor, "single");
    const json_t *element;
    bool after = false;
    size_t i;

    if (!json_is_array (list))
        return json_place_error (&at, err, "want an array");
    json_array_foreach (list, i, element) {
        const struct json_place one = json_place_index (&at, i);
        const json_t *special = json_object_get (element, "SpecialToken");

        if (special && put_special (r, after, &one, processor, special, err) < 0)
            return -1;
        if (!special && (!json_object_get (element, "Sequence") || after))
            return json_place_error (&one, err, "want a SpecialToken, or one Sequence");
        after = after || !special;
    }
    return after ? 0 : json_place_error (&at, err, "want a Sequence, the text");
}

/* {"sep": [TOKEN, ID], "cls": [TOKEN, ID]} */
static int read_pair (struct reader *r, const struct json_place *place,
                      const json_t *processor, struct mg_error *err)
{
    const struct json_place sep = json_place_key (place, "sep");
    const struct json_place cls = json_place_key (place, "cls");

    if (put_around (r, false, &cls,
                    json_array_get (json_object_get (processor, "cls"), 1), err) < 0)
        return -1;
    return put_around (r, true, &sep,
                       json_array_get (json_object_get (processor, "sep"), 1), err);
}

/* Read a post-processor.  Each processor of a sequence puts its tokens outside of those of the one
 * before.
 */
static int read_processor (void *arg, const struct json_place *place, const json_t *value,
                           int depth, struct mg_error *err)
{
    struct reader *r = arg;
    char q[JSON_PLACE_QUOTE];
    const char *type;

    if (!value || json_is_null (value))
        return 0;
    if (json_place_type (place, value, &type, err) < 0)
        return -1;
    if (strcmp (type, "ByteLevel") == 0)
        return 0;
    if (strcmp (type, "Sequence") == 0)
        return json_place_sequence (place, value, "processors", depth, read_processor, r, err);
    if (r->json->before.count + r->json->after.count > 0)
        return json_place_error (place, err, "a second processor that adds tokens is not "
                                 "supported");
    if (strcmp (type, "TemplateProcessing") == 0)
        return read_template (r, place, value, err);
    if (strcmp (type, "BertProcessing") == 0 || strcmp (type, "RobertaProcessing") == 0)
        return read_pair (r, place, value, err);
    return json_place_error (place, err, "the post-processor \"%s\" is not supported, want "
                             "TemplateProcessing, BertProcessing, RobertaProcessing, "
                             "ByteLevel or Sequence", quote (q, type));
}

/* ---- decoder, and the text of each token ---- */

static int add_replace (struct reader *r, const struct json_place *place, const char *from,
                        const char *to, struct mg_error *err)
{
    if (!from || !*from || !to)
        return json_place_error (place, err, "want a pattern {\"String\": \"...\"}, not "
                                 "empty, and a content");
    if (r->num_replaces == TOKENIZER_JSON_REPLACES)
        return json_place_error (place, err, "more than %d replacements",
                                 TOKENIZER_JSON_REPLACES);
    if (json_text_append (&r->replaces[r->num_replaces].from, from, err) < 0
        || json_text_append (&r->replaces[r->num_replaces].to, to, err) < 0)
        return -1;
    r->num_replaces++;
    return 0;
}

static int read_decoder (void *arg, const struct json_place *place, const json_t *value, int depth,
                         struct mg_error *err)
{
    static const char *const plain[] = { "ByteLevel", "ByteFallback", "Fuse", "Strip" };
    struct reader *r = arg;
    const char *type, *content = NULL, *space = "\xe2\x96\x81";
    char q[JSON_PLACE_QUOTE];

    if (!value || json_is_null (value))
        return 0;
    if (json_place_type (place, value, &type, err) < 0
        || json_place_string (place, value, "content", &content, err) < 0
        || json_place_string (place, value, "replacement", &space, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof (plain) / sizeof (plain[0]); i++) {
        if (strcmp (type, plain[i]) == 0)
            return 0;
    }
    if (strcmp (type, "Metaspace") == 0)
        return add_replace (r, place, space, " ", err);
    if (strcmp (type, "Replace") == 0)
        return add_replace (r, place, json_string_value (json_object_get (
            json_object_get (value, "pattern"), "String")), content, err);
    if (strcmp (type, "Sequence") == 0)
        return json_place_sequence (place, value, "decoders", depth, read_decoder, r, err);
    return json_place_error (place, err, "the decoder \"%s\" is not supported, want "
                             "ByteLevel, Metaspace, ByteFallback, Fuse, Replace, Strip or "
                             "Sequence", quote (q, type));
}

/* Make the replacements of the decoder in r->buffers[0]; '*text' is where the result is. */
static int replace_all (struct reader *r, const struct text_buffer **text, struct mg_error *err)
{
    struct text_buffer *from = &r->buffers[0], *to = &r->buffers[1];
    const size_t most = growth_max (from->size);

    for (int i = 0; i < r->num_replaces; i++) {
        const struct text_buffer *with = &r->replaces[i].to;
        const char *pattern = r->replaces[i].from.data;
        const size_t n = r->replaces[i].from.size;
        struct text_buffer *swap = from;

        to->size = 0;
        for (size_t at = 0; at < from->size;) {
            bool found = from->size - at >= n && memcmp (from->data + at, pattern, n) == 0;
            size_t more = found ? with->size : 1;

            if (to->size > most || more > most - to->size)
                return mg_error_set (err, EFBIG, "%s: decoder: a token becomes more than %zu "
                                     "bytes of text", r->place.file, most);
            if (text_buffer_append (to, found ? with->data : from->data + at, more, err) < 0)
                return -1;
            at += found ? n : 1;
        }
        from = to;
        to = swap;
    }
    *text = from;
    return 0;
}

/* The text of a token of words of characters. */
static int show_text (struct reader *r, int32_t id, const char *token, size_t size,
                      struct mg_error *err)
{
    const int byte = subword_fallback_byte (r->json->subword, id);
    const struct text_buffer *text = NULL;
    const char one = (char)byte;

    if (byte >= 0)
        return token_table_set (&r->json->shown, id, &one, 1, err);
    r->buffers[0].size = 0;
    if (text_buffer_append (&r->buffers[0], token, size, err) < 0
        || replace_all (r, &text, err) < 0)
        return -1;
    if (r->json->shown.bytes.size > FILE_MAX)
        return mg_error_set (err, EFBIG, "%s: decoder: the tokens become more than %d bytes of "
                             "text", r->place.file, FILE_MAX);
    return token_table_set (&r->json->shown, id, text->data, text->size, err);
}

static int show_tokens (struct reader *r, struct mg_error *err)
{
    struct tokenizer_json *json = r->json;
    const json_t *list = json_object_get (r->root, "added_tokens"), *element;
    size_t i;

    if (token_table_create (&json->shown, json->num_ids, err) < 0)
        return -1;
    for (int32_t id = 0; id < subword_num_ids (json->subword); id++) {
        size_t size;
        const char *token = subword_token (json->subword, id, &size);

        if (splitter_words (json->splitter) == SPLITTER_TEXT
            ? show_text (r, id, token, size, err) < 0
            : token_table_set (&json->shown, id, token, size, err) < 0)
            return -1;
    }
    json_array_foreach (list, i, element) {
        const char *content = json_string_value (json_object_get (element, "content"));
        int32_t id = (int32_t)json_integer_value (json_object_get (element, "id"));

        r->bytes.size = 0;
        if (json_text_append (&r->bytes, content, err) < 0
            || token_table_set (&json->shown, id, r->bytes.data, r->bytes.size, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- the whole ---- */

/* Id of a token by its text in the file, -1: none. */
static int32_t find_token (const struct reader *r, const char *token)
{
    const json_t *list = json_object_get (r->root, "added_tokens"), *element;
    const json_t *id = model_id (r, token);
    size_t i;

    if (id)
        return (int32_t)json_integer_value (id);
    json_array_foreach (list, i, element) {
        if (strcmp (json_string_value (json_object_get (element, "content")), token) == 0)
            return (int32_t)json_integer_value (json_object_get (element, "id"));
    }
    return -1;
}

static int find_eod (struct reader *r, const char *eod, struct mg_error *err)
{
    static const char *const usual[] = { "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>" };
    struct tokenizer_json *json = r->json;
    char q[JSON_PLACE_QUOTE];

    json->eod = eod ? find_token (r, eod) : -1;
    if (eod && json->eod < 0)
        return json_place_error (&r->place, err, "no token \"%s\", which is the eos_token",
                                 quote (q, eod));
    for (size_t i = 0; json->eod < 0 && i < sizeof (usual) / sizeof (usual[0]); i++)
        json->eod = find_token (r, usual[i]);
    return 0;
}

static int read_parts (struct reader *r, const char *eod, struct mg_error *err)
{
    const struct json_place normalizer = json_place_key (&r->place, "normalizer");
    const struct json_place splitter = json_place_key (&r->place, "pre_tokenizer");
    const struct json_place model = json_place_key (&r->place, "model");
    const struct json_place processor = json_place_key (&r->place, "post_processor");
    const struct json_place decoder = json_place_key (&r->place, "decoder");
    struct tokenizer_json *json = r->json;

    if (!(json->normalizer = normalizer_create (
              &normalizer, json_object_get (r->root, "normalizer"), err))
        || !(json->splitter = splitter_create (
                 &splitter, json_object_get (r->root, "pre_tokenizer"), err))
        || !(json->subword = subword_create (&model, json_object_get (r->root, "model"),
                                             splitter_words (json->splitter), err)))
        return -1;
    json->num_ids = subword_num_ids (json->subword);
    if (read_all_added (r, err) < 0
        || read_processor (r, &processor, json_object_get (r->root, "post_processor"), 0,
                           err) < 0
        || read_decoder (r, &decoder, json_object_get (r->root, "decoder"), 0, err) < 0
        || show_tokens (r, err) < 0)
        return -1;
    return find_eod (r, eod, err);
}

static void reader_clear (struct reader *r)
{
    text_buffer_clear (&r->buffers[0]);
    text_buffer_clear (&r->buffers[1]);
    text_buffer_clear (&r->bytes);
    for (int i = 0; i < TOKENIZER_JSON_REPLACES; i++) {
        text_buffer_clear (&r->replaces[i].from);
        text_buffer_clear (&r->replaces[i].to);
    }
}

struct tokenizer_json *tokenizer_json_parse (const char *file, const char *text,
                                             size_t size, const char *eod,
                                             struct mg_error *err)
{
    struct reader r = { .place = { .file = file } };
    int rc = -1;
    json_t *root;

    if (!(root = json_place_parse (file, text, size,
                                   JSON_TEXT_UNIQUE | JSON_TEXT_NULS | JSON_TEXT_STRICT, err)))
        return NULL;
    r.root = root;
    r.json = calloc (1, sizeof (*r.json));
    r.added = json_object ();
    if (!r.json || !r.added)
        mg_error_set (err, ENOMEM, "%s: out of memory", file);
    else if ((r.scratch = regex_scratch_create (err)))
        rc = read_parts (&r, eod, err);
    regex_scratch_destroy (r.scratch);
    reader_clear (&r);
    json_decref (r.added);
    json_decref (root);
    if (rc == 0)
        return r.json;
    tokenizer_json_destroy (r.json);
    return NULL;
}

int tokenizer_json_eos (const char *file, const char *text, size_t size, char **eod,
                        struct mg_error *err)
{
    const struct json_place place = { .file = file };
    const struct json_place at = json_place_key (&place, "eos_token");
    const char *token = NULL;
    const json_t *value;
    json_t *root;
    int rc = 0;

    *eod = NULL;
    if (!(root = json_place_parse (file, text, size, JSON_TEXT_NULS, err)))
        return -1;
    value = json_object_get (root, "eos_token");
    if (json_is_object (value))
        rc = json_place_string (&at, value, "content", &token, err);
    else
        rc = json_place_string (&place, root, "eos_token", &token, err);
    if (rc == 0 && token && !(*eod = strdup (token)))
        rc = mg_error_set (err, ENOMEM, "%s: out of memory", file);
    json_decref (root);
    return rc;
}

/* ---- files ---- */

/* "FOLDER/NAME", where the folder is 'path' itself or, of a file, where it stands. */
static char *join (const char *path, bool folder, const char *name, struct mg_error *err)
{
    const char *slash = strrchr (path, '/');

    if (folder)
        return durable_path (err, "%s/%s", path, name);
    return durable_path (err, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name);
}

/* A missing file says nothing. */
static int read_eos (const char *path, bool folder, const char *name, char **eod,
                     struct mg_error *err)
{
    char *file, *text;
    size_t size;
    int rc = 0;

    if (*eod)
        return 0;
    if (!(file = join (path, folder, name, err)))
        return -1;
    if (durable_read (file, FILE_MAX, &text, &size, err) == 0) {
        rc = tokenizer_json_eos (file, text, size, eod, err);
        free (text);
    } else if (errno != ENOENT) {
        rc = -1;
    }
    free (file);
    return rc;
}

struct tokenizer_json *tokenizer_json_read (const char *path, struct mg_error *err)
{
    struct tokenizer_json *json = NULL;
    char *file, *text = NULL, *eod = NULL;
    struct stat st;
    bool folder = stat (path, &st) == 0 && S_ISDIR (st.st_mode);
    size_t size;

    file = folder ? join (path, true, "tokenizer.json", err) : durable_path (err, "%s", path);
    if (!file)
        return NULL;
    if (durable_read (file, FILE_MAX, &text, &size, err) == 0
        && read_eos (path, folder, "tokenizer_config.json", &eod, err) == 0
        && read_eos (path, folder, "special_tokens_map.json", &eod, err) == 0)
        json = tokenizer_json_parse (file, text, size, eod, err);
    free (file);
    free (text);
    free (eod);
    return json;
}
