/* subword_read - the tables of a byte pair encoding from the "model" of tokenizer.json */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/subword_impl.h"
#include "libcore/text/utf8.h"

enum { HOLES_MAX = 1 << 20 };

struct reader {
    struct subword *s;
    const struct json_place *place; /* of the model */
    const json_t *model, *vocab;
    struct text_buffer text; /* of one merge, as the file has it, or of a token's bytes */
};

static int fetch_id (const struct reader *r, const char *token)
{
    const json_t *id = json_object_get (r->vocab, token);

    return id ? (int32_t)json_integer_value (id) : -1;
}

/* ---- settings ---- */

static int check_type (const struct reader *r, struct mg_error *err)
{
    const struct json_place at = json_place_key (r->place, "type");
    char q[JSON_PLACE_QUOTE];
    const char *type = NULL;

    if (!json_is_object (r->model))
        return json_place_error (r->place, err, "want an object");
    if (json_place_string (r->place, r->model, "type", &type, err) < 0)
        return -1;
    if (type ? strcmp (type, "BPE") == 0 : json_object_get (r->model, "merges") != NULL)
        return 0; /* files of old versions name no type */
    return json_place_error (&at, err, "the model \"%s\" is not supported, want BPE",
                             json_place_quote (q, type ? type : "", type ? strlen (type) : 0));
}

static int refuse_text (const struct reader *r, const char *key, struct mg_error *err)
{
    const struct json_place at = json_place_key (r->place, key);
    char q[JSON_PLACE_QUOTE];
    const char *text = NULL;

    if (json_place_string (r->place, r->model, key, &text, err) < 0)
        return -1;
    if (text && *text)
        return json_place_error (&at, err, "\"%s\" is not supported, want null",
                                 json_place_quote (q, text, strlen (text)));
    return 0;
}

static int read_settings (struct reader *r, struct mg_error *err)
{
    const struct json_place at = json_place_key (r->place, "dropout");
    const json_t *dropout = json_object_get (r->model, "dropout");
    struct subword *s = r->s;

    if (dropout && !json_is_null (dropout)
        && !(json_is_number (dropout) && json_number_value (dropout) == 0))
        return json_place_error (&at, err, "random merges are not supported, want null");
    if (refuse_text (r, "continuing_subword_prefix", err) < 0
        || refuse_text (r, "end_of_word_suffix", err) < 0
        || json_place_bool (r->place, r->model, "fuse_unk", &s->fuse, err) < 0
        || json_place_bool (r->place, r->model, "byte_fallback", &s->byte_fallback, err) < 0)
        return -1;
    return json_place_bool (r->place, r->model, "ignore_merges", &s->ignore_merges, err);
}

/* ---- vocabulary ---- */

static int check_ids (const struct reader *r, const struct json_place *place,
                      int32_t *num_ids, struct mg_error *err)
{
    json_int_t most = -1;
    const char *token;
    json_t *value;

    if (!json_is_object (r->vocab))
        return json_place_error (place, err, "want an object of tokens and ids");
    json_object_foreach ((json_t *)r->vocab, token, value) {
        const struct json_place at = json_place_key (place, token);
        json_int_t id = json_integer_value (value);

        if (!json_is_integer (value))
            return json_place_error (&at, err, "the id is no whole number");
        if (id < 0 || id >= SUBWORD_ID_MAX)
            return json_place_error (&at, err, "the id is %" JSON_INTEGER_FORMAT
                                     ", want 0 to %d", id, SUBWORD_ID_MAX - 1);
        most = id > most ? id : most;
    }
    if (most >= (json_int_t)json_object_size (r->vocab) + HOLES_MAX)
        return json_place_error (place, err, "the largest id is %" JSON_INTEGER_FORMAT
                                 " of %zu tokens", most, json_object_size (r->vocab));
    *num_ids = (int32_t)(most + 1);
    return 0;
}

/* "<0xNN>": the byte, else -1. */
static int fallback_byte (const char *token)
{
    unsigned byte;
    char again[8];

    if (strlen (token) != 6 || sscanf (token, "<0x%2X>", &byte) != 1)
        return -1;
    snprintf (again, sizeof (again), "<0x%02X>", byte);
    return strcmp (again, token) == 0 ? (int)byte : -1;
}

/* Bytes of a token of a word of bytes. One that stands for no bytes is never found. */
static int set_bytes (struct reader *r, const char *token, int32_t id, struct mg_error *err)
{
    struct token_table *tokens = &r->s->tokens;
    const size_t size = strlen (token);
    ssize_t n;

    r->text.size = 0;
    if (text_buffer_reserve (&r->text, size + 1, err) < 0)
        return -1;
    n = bytechars_decode (&r->s->bytechars, token, size, r->text.data);
    if (n < 0 && json_text_append (&r->text, token, err) < 0)
        return -1;
    if (n < 0)
        return token_table_set (tokens, id, r->text.data, r->text.size, err);
    if (token_table_set (tokens, id, r->text.data, (size_t)n, err) < 0)
        return -1;
    token_table_index (tokens, id);
    return 0;
}

static int set_text (struct reader *r, const char *token, int32_t id, struct mg_error *err)
{
    struct subword *s = r->s;
    const char *bytes;
    size_t size, n;

    r->text.size = 0;
    if (text_buffer_reserve (&r->text, 1, err) < 0
        || json_text_append (&r->text, token, err) < 0)
        return -1;
    bytes = r->text.data;
    size = r->text.size;
    if (token_table_set (&s->tokens, id, bytes, size, err) < 0)
        return -1;
    token_table_index (&s->tokens, id);
    if (s->byte_fallback && fallback_byte (token) >= 0)
        s->fallback[fallback_byte (token)] = id;
    if (size > 0 && size == utf8_size (bytes, size)
        && utf8_decode (bytes, &n) < SUBWORD_CHARS)
        s->char_ids[utf8_decode (bytes, &n)] = id;
    return 0;
}

static int read_tokens (struct reader *r, const struct json_place *place, bool *seen,
                        struct mg_error *err)
{
    const char *token;
    json_t *value;

    json_object_foreach ((json_t *)r->vocab, token, value) {
        const struct json_place at = json_place_key (place, token);
        int32_t id = (int32_t)json_integer_value (value);
        int rc;

        if (seen[id])
            return json_place_error (&at, err, "another token has the id %d too", id);
        seen[id] = true;
        rc = r->s->words == SPLITTER_TEXT ? set_text (r, token, id, err)
                                          : set_bytes (r, token, id, err);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int read_vocab (struct reader *r, struct mg_error *err)
{
    const struct json_place at = json_place_key (r->place, "vocab");
    struct subword *s = r->s;
    int32_t num_ids = 0;
    bool *seen;
    int rc;

    r->vocab = json_object_get (r->model, "vocab");
    if (check_ids (r, &at, &num_ids, err) < 0
        || token_table_create (&s->tokens, num_ids, err) < 0)
        return -1;
    s->char_ids = malloc (SUBWORD_CHARS * sizeof (*s->char_ids));
    seen = calloc ((size_t)num_ids + 1, sizeof (*seen));
    if (!s->char_ids || !seen) {
        free (seen);
        return mg_error_set (err, ENOMEM, "%s: out of memory", r->place->file);
    }
    memset (s->char_ids, -1, SUBWORD_CHARS * sizeof (*s->char_ids));
    rc = read_tokens (r, &at, seen, err);
    free (seen);
    return rc;
}

/* unk_token, and the bytes that words begin as. */
static int read_unknown (struct reader *r, struct mg_error *err)
{
    const struct json_place at = json_place_key (r->place, "unk_token");
    struct subword *s = r->s;
    char q[JSON_PLACE_QUOTE];
    const char *token = NULL;
    int missing = -1;

    if (json_place_string (r->place, r->model, "unk_token", &token, err) < 0)
        return -1;
    if (token && (s->unknown = fetch_id (r, token)) < 0)
        return json_place_error (&at, err, "\"%s\" is no token",
                                 json_place_quote (q, token, strlen (token)));
    for (int i = 0; i < BYTECHARS_BYTES; i++) {
        char byte = (char)i;

        s->byte_ids[i] = token_table_find (&s->tokens, &byte, 1);
        if (s->byte_ids[i] < 0)
            missing = i;
    }
    if (s->words != SPLITTER_TEXT && s->byte_fallback && missing >= 0)
        return json_place_error (r->place, err, "byte_fallback beside ByteLevel is not "
                                 "supported, as the byte 0x%02x is no token", missing);
    return 0;
}

/* ---- merges ---- */

/* The two tokens of a merge, "A B" or ["A", "B"], into r->text with a NUL between; 'at' is
 * where the second begins. */
static int split_merge (struct reader *r, const struct json_place *place,
                        const json_t *merge, size_t *second, struct mg_error *err)
{
    const char *text = json_string_value (merge);
    const char *left = json_string_value (json_array_get (merge, 0));
    const char *right = json_string_value (json_array_get (merge, 1));
    const char *blank = text ? strchr (text, ' ') : NULL;

    r->text.size = 0;
    if (blank && !strchr (blank + 1, ' ')) {
        *second = (size_t)(blank + 1 - text);
        if (text_buffer_append (&r->text, text, strlen (text) + 1, err) < 0)
            return -1;
        r->text.data[*second - 1] = '\0';
        return 0;
    }
    if (!left || !right || json_array_size (merge) != 2)
        return json_place_error (place, err, "want two tokens, \"A B\" or [\"A\", \"B\"]");
    *second = strlen (left) + 1;
    if (text_buffer_append (&r->text, left, *second, err) < 0)
        return -1;
    return text_buffer_append (&r->text, right, strlen (right) + 1, err);
}

/* A merge that joins a character with a U+2581: words are not cut there. */
static void note_join (struct subword *s, const char *left, int32_t left_id,
                       const char *right)
{
    const size_t size = strlen (left);
    uint32_t c;
    size_t n;

    if (!s->joins || size == 0
        || strncmp (right, SUBWORD_SPACE, SUBWORD_SPACE_SIZE) != 0)
        return;
    if (left_id == s->unknown || fallback_byte (left) >= 0) {
        free (s->joins); /* these stand for other characters than their own */
        s->joins = NULL;
        return;
    }
    c = utf8_decode (left + utf8_previous (left, size), &n);
    s->joins[c / 8] |= (unsigned char)(1 << c % 8);
}

static int read_merge (struct reader *r, const struct json_place *place,
                       const json_t *merge, int32_t rank, struct mg_error *err)
{
    char q[JSON_PLACE_QUOTE];
    const char *left, *right;
    int32_t ids[3];
    size_t second = 0;

    if (split_merge (r, place, merge, &second, err) < 0)
        return -1;
    left = r->text.data;
    right = left + second;
    ids[0] = fetch_id (r, left);
    ids[1] = fetch_id (r, right);
    if (ids[0] < 0 || ids[1] < 0) {
        const char *which = ids[0] < 0 ? left : right;

        return json_place_error (place, err, "\"%s\" is no token",
                                 json_place_quote (q, which, strlen (which)));
    }
    note_join (r->s, left, ids[0], right);
    memmove (r->text.data + second - 1, right, r->text.size - second);
    ids[2] = fetch_id (r, r->text.data);
    if (ids[2] < 0)
        return json_place_error (place, err, "\"%s\", which it makes, is no token",
                                 json_place_quote (q, r->text.data, strlen (r->text.data)));
    bpe_pairs_put (&r->s->pairs, ids[0], ids[1], rank, ids[2]);
    return 0;
}

static int read_merges (struct reader *r, struct mg_error *err)
{
    const struct json_place at = json_place_key (r->place, "merges");
    const json_t *list = json_object_get (r->model, "merges");
    struct subword *s = r->s;
    const json_t *merge;
    size_t i;

    if (!json_is_array (list) || json_array_size (list) > INT32_MAX / 2)
        return json_place_error (&at, err, "want an array of pairs of tokens");
    if (bpe_pairs_create (&s->pairs, json_array_size (list), err) < 0)
        return -1;
    if (s->words == SPLITTER_TEXT && !s->ignore_merges
        && fetch_id (r, SUBWORD_SPACE) >= 0
        && !(s->joins = calloc (1, SUBWORD_JOINS)))
        return mg_error_set (err, ENOMEM, "%s: out of memory", r->place->file);
    json_array_foreach (list, i, merge) {
        const struct json_place one = json_place_index (&at, i);

        if (read_merge (r, &one, merge, (int32_t)i, err) < 0)
            return -1;
    }
    return 0;
}

struct subword *subword_create (const struct json_place *place, const json_t *value,
                                enum splitter_words words, struct mg_error *err)
{
    struct reader r = { .place = place, .model = value };
    bool good;

    if (!(r.s = calloc (1, sizeof (*r.s)))) {
        mg_error_set (err, ENOMEM, "%s: out of memory", place->file);
        return NULL;
    }
    r.s->words = words;
    r.s->unknown = -1;
    bytechars_fill (&r.s->bytechars);
    memset (r.s->fallback, -1, sizeof (r.s->fallback));
    good = check_type (&r, err) == 0 && read_settings (&r, err) == 0
           && read_vocab (&r, err) == 0 && read_unknown (&r, err) == 0
           && read_merges (&r, err) == 0;
    text_buffer_clear (&r.text);
    if (good)
        return r.s;
    subword_destroy (r.s);
    return NULL;
}
