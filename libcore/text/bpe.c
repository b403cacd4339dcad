/* bpe - the tables of a byte pair encoding, read from its two files
 *
 * Tokens lie one behind the other in one block of bytes.  A hash table with open
 * addressing finds their ids while the files are read; bpe_pairs has the merges for good.
 */

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "libcore/file/durable.h"
#include "libcore/text/bpe.h"
#include "libcore/text/bytechars.h"
#include "libcore/text/json_place.h"

enum {
    NUM_BYTES = BYTECHARS_BYTES,
    FILE_MAX = 256 << 20
};

static const char end_of_document[] = "<|endoftext|>";

struct bpe {
    int32_t num_tokens;
    char *bytes;      /* of all tokens */
    uint32_t *starts; /* [num_tokens + 1]: token i is bytes[starts[i]..starts[i + 1]) */
    int32_t byte_ids[NUM_BYTES];
    int32_t eod;
    struct bpe_pairs pairs;
};

/* What only reading needs. */
struct reader {
    struct bpe *bpe;
    const char *vocab_file;
    const char *merge_file;
    struct bytechars characters;
    int32_t *ids;    /* [id_mask + 1] by a token's hash; -1: free */
    size_t id_mask;
    uint32_t *lines; /* rank -> line of the merge */
};

static int out_of_memory (const char *path, struct mg_error *err)
{
    return mg_error_set (err, ENOMEM, "%s: out of memory", path);
}

/* ---- tokens ---- */

const char *bpe_token (const struct bpe *bpe, int32_t id, size_t *size)
{
    *size = bpe->starts[id + 1] - bpe->starts[id];
    return bpe->bytes + bpe->starts[id];
}

/* Place of a token in the table of ids: its own, or the free one where it would be. */
static int32_t *find_id (const struct reader *r, const char *token, size_t size)
{
    size_t at = XXH3_64bits (token, size) & r->id_mask;

    while (r->ids[at] >= 0) {
        size_t n;
        const char *other = bpe_token (r->bpe, r->ids[at], &n);

        if (n == size && memcmp (other, token, n) == 0)
            break;
        at = (at + 1) & r->id_mask;
    }
    return &r->ids[at];
}

/* Smallest power of two that leaves half of a table free, less one. */
static size_t table_mask (size_t entries)
{
    size_t size = 16;

    while (size < 2 * entries)
        size *= 2;
    return size - 1;
}

static int check_id (const struct reader *r, const char *token, const json_t *value,
                     const char *const *names, struct mg_error *err)
{
    const int32_t n = r->bpe->num_tokens;
    char q[JSON_PLACE_QUOTE], q2[JSON_PLACE_QUOTE];
    json_int_t id = json_integer_value (value);

    json_place_quote (q, token, strlen (token));
    if (!json_is_integer (value))
        return mg_error_set (err, EINVAL, "%s: id of \"%s\" is no whole number",
                             r->vocab_file, q);
    if (id < 0 || id >= n)
        return mg_error_set (err, EINVAL,
                             "%s: id of \"%s\" is %" JSON_INTEGER_FORMAT
                             ", want 0 to %d, "
                             "as there are %d tokens",
                             r->vocab_file, q, id, n - 1, n);
    if (names[id])
        return mg_error_set (err, EINVAL, "%s: \"%s\" and \"%s\" have one id, %"
                             JSON_INTEGER_FORMAT, r->vocab_file,
                             json_place_quote (q2, names[id], strlen (names[id])), q, id);
    return 0;
}

/* names[id] -> bytes and starts; a token is never longer than its name. */
static int place_tokens (struct reader *r, const char *const *names, size_t total,
                         struct mg_error *err)
{
    struct bpe *bpe = r->bpe;
    uint32_t used = 0;

    if (total > UINT32_MAX)
        return mg_error_set (err, EFBIG, "%s: %zu bytes of tokens", r->vocab_file, total);
    bpe->bytes = malloc (total + 1);
    bpe->starts = calloc (bpe->num_tokens + 1, sizeof (*bpe->starts));
    if (!bpe->bytes || !bpe->starts)
        return out_of_memory (r->vocab_file, err);
    for (int32_t id = 0; id < bpe->num_tokens; id++) {
        size_t len = strlen (names[id]);
        ssize_t n = bytechars_decode (&r->characters, names[id], len, bpe->bytes + used);
        char q[JSON_PLACE_QUOTE];

        if (n <= 0)
            return mg_error_set (err, EINVAL, "%s: token %d, \"%s\", %s", r->vocab_file,
                                 id, json_place_quote (q, names[id], len),
                                 n == 0 ? "is empty"
                                        : "has a character that stands for no byte");
        used += (uint32_t)n;
        bpe->starts[id + 1] = used;
        *find_id (r, bpe->bytes + bpe->starts[id], n) = id;
    }
    return 0;
}

static int check_specials (struct reader *r, struct mg_error *err)
{
    struct bpe *bpe = r->bpe;

    for (int i = 0; i < NUM_BYTES; i++) {
        char byte = (char)i;

        bpe->byte_ids[i] = *find_id (r, &byte, 1);
        if (bpe->byte_ids[i] < 0)
            return mg_error_set (err, EINVAL, "%s: no token for the byte 0x%02x",
                                 r->vocab_file, i);
    }
    bpe->eod = *find_id (r, end_of_document, strlen (end_of_document));
    if (bpe->eod < 0)
        return mg_error_set (err, EINVAL, "%s: no token \"%s\", the end of a document",
                             r->vocab_file, end_of_document);
    return 0;
}

static int read_object (struct reader *r, json_t *object, struct mg_error *err)
{
    struct bpe *bpe = r->bpe;
    const char **names = NULL;
    const char *name;
    size_t total = 0;
    json_t *value;
    int rc = -1;

    if (!json_is_object (object) || json_object_size (object) > INT32_MAX / 2)
        return mg_error_set (err, EINVAL, "%s: want a JSON object of tokens and ids",
                             r->vocab_file);
    bpe->num_tokens = (int32_t)json_object_size (object);
    r->id_mask = table_mask (bpe->num_tokens);
    names = calloc (bpe->num_tokens + 1, sizeof (*names));
    r->ids = malloc ((r->id_mask + 1) * sizeof (*r->ids));
    if (!names || !r->ids) {
        out_of_memory (r->vocab_file, err);
        goto done;
    }
    memset (r->ids, -1, (r->id_mask + 1) * sizeof (*r->ids));
    json_object_foreach (object, name, value) {
        if (check_id (r, name, value, names, err) < 0)
            goto done;
        names[json_integer_value (value)] = name;
        total += strlen (name);
    }
    rc = place_tokens (r, names, total, err);
    if (rc == 0)
        rc = check_specials (r, err);
done:
    free (names);
    return rc;
}

/* True if the file begins like a JSON object. */
static bool is_object (const char *path)
{
    char *text;
    size_t size, blank = 0;
    bool object;

    if (durable_read (path, FILE_MAX, &text, &size, NULL) < 0)
        return false;
    while (blank < size && isspace ((unsigned char)text[blank]))
        blank++;
    object = blank < size && text[blank] == '{';
    free (text);
    return object;
}

static int read_vocab (struct reader *r, struct mg_error *err)
{
    struct json_text_fault fault;
    json_t *object;
    char *text;
    size_t size;
    int rc;

    if (durable_read (r->vocab_file, FILE_MAX, &text, &size, err) < 0)
        return -1;
    object = json_text_parse (text, size, JSON_TEXT_UNIQUE | JSON_TEXT_NULS, &fault);
    free (text);
    if (!object) {
        if (is_object (r->merge_file))
            return mg_error_set (err, EINVAL, "%s is no JSON, but %s is: exchange --vocab-file, "
                                 "the vocabulary, and --merge-file, the merges", r->vocab_file,
                                 r->merge_file);
        return mg_error_set (err, errno, "%s:%zu: %s", r->vocab_file, fault.line, fault.what);
    }
    rc = read_object (r, object, err);
    json_decref (object);
    return rc;
}

/* ---- merges ---- */

int32_t bpe_rank (const struct bpe *bpe, int32_t left, int32_t right, int32_t *merged)
{
    const struct bpe_pair *pair = bpe_pairs_find (&bpe->pairs, left, right);

    *merged = pair->merged;
    return pair->rank;
}

/* Id of a token as the files write it. */
static int32_t id_of (const struct reader *r, const char *text, size_t size, char *bytes)
{
    ssize_t n = bytechars_decode (&r->characters, text, size, bytes);

    return n > 0 ? *find_id (r, bytes, n) : -1;
}

/* "LEFT RIGHT" as merge number 'rank'; 'bytes' has room for the line. */
static int read_merge (struct reader *r, const char *line, size_t size, size_t number,
                       int32_t rank, char *bytes, struct mg_error *err)
{
    const char *blank = memchr (line, ' ', size);
    size_t n = blank ? (size_t)(blank - line) : 0;
    char q[JSON_PLACE_QUOTE], q2[JSON_PLACE_QUOTE];
    int32_t id[2], merged;
    const struct bpe_pair *pair;

    if (n == 0 || n + 1 == size || memchr (blank + 1, ' ', size - n - 1))
        return mg_error_set (err, EINVAL,
                             "%s:%zu: \"%s\", want two tokens with one blank "
                             "between",
                             r->merge_file, number, json_place_quote (q, line, size));
    for (int i = 0; i < 2; i++) {
        const char *token = i ? blank + 1 : line;
        size_t len = i ? size - n - 1 : n;

        id[i] = id_of (r, token, len, bytes);
        if (id[i] < 0)
            return mg_error_set (err, EINVAL, "%s:%zu: \"%s\" is not in %s",
                                 r->merge_file, number, json_place_quote (q, token, len),
                                 r->vocab_file);
    }
    memcpy (bytes + size, line, n);
    memcpy (bytes + size + n, blank + 1, size - n - 1);
    merged = id_of (r, bytes + size, size - 1, bytes);
    if (merged < 0)
        return mg_error_set (err, EINVAL,
                             "%s:%zu: \"%s\" and \"%s\" make a token that is "
                             "not in %s",
                             r->merge_file, number, json_place_quote (q, line, n),
                             json_place_quote (q2, blank + 1, size - n - 1), r->vocab_file);
    pair = bpe_pairs_find (&r->bpe->pairs, id[0], id[1]);
    if (pair->rank >= 0)
        return mg_error_set (err, EINVAL, "%s:%zu: the merge \"%s\" is on line %u too",
                             r->merge_file, number, json_place_quote (q, line, size),
                             r->lines[pair->rank]);
    bpe_pairs_put (&r->bpe->pairs, id[0], id[1], rank, merged);
    r->lines[rank] = (uint32_t)number;
    return 0;
}

static int allocate_pairs (struct reader *r, size_t lines, struct mg_error *err)
{
    if (!(r->lines = calloc (lines, sizeof (*r->lines))))
        return out_of_memory (r->merge_file, err);
    return bpe_pairs_create (&r->bpe->pairs, lines, err);
}

static int take_merges (struct reader *r, const char *text, size_t size, char *bytes,
                        struct mg_error *err)
{
    static const char version[] = "#version";
    const char *end = text + size;
    size_t lines = 1;
    int32_t rank = 0;

    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    if (allocate_pairs (r, lines, err) < 0)
        return -1;
    for (size_t number = 1; text < end; number++) {
        const char *stop = memchr (text, '\n', end - text);
        size_t len = (stop ? stop : end) - text;
        bool heading = number == 1 && len >= strlen (version)
                       && memcmp (text, version, strlen (version)) == 0;

        if (len > 0 && !heading
            && read_merge (r, text, len, number, rank++, bytes, err) < 0)
            return -1;
        text += len + 1;
    }
    if (rank == 0)
        return mg_error_set (err, EINVAL, "%s: no merges", r->merge_file);
    return 0;
}

static int read_merges (struct reader *r, struct mg_error *err)
{
    char *text;
    size_t size;
    char *bytes;
    int rc;

    if (durable_read (r->merge_file, FILE_MAX, &text, &size, err) < 0)
        return -1;
    bytes = malloc (2 * size + 1); /* of one line, twice */
    rc = bytes ? take_merges (r, text, size, bytes, err)
               : out_of_memory (r->merge_file, err);
    free (bytes);
    free (text);
    return rc;
}

struct bpe *bpe_create (const char *vocab_file, const char *merge_file,
                        struct mg_error *err)
{
    struct reader reader = { .vocab_file = vocab_file, .merge_file = merge_file };
    int rc = -1;

    bytechars_fill (&reader.characters);
    if (!(reader.bpe = calloc (1, sizeof (*reader.bpe))))
        out_of_memory (vocab_file, err);
    else if (read_vocab (&reader, err) == 0)
        rc = read_merges (&reader, err);
    free (reader.ids);
    free (reader.lines);
    if (rc == 0)
        return reader.bpe;
    bpe_destroy (reader.bpe);
    return NULL;
}

void bpe_destroy (struct bpe *bpe)
{
    if (bpe) {
        int saved_errno = errno;

        free (bpe->bytes);
        free (bpe->starts);
        bpe_pairs_clear (&bpe->pairs);
        free (bpe);
        errno = saved_errno;
    }
}

int32_t bpe_vocab_size (const struct bpe *bpe)
{
    return bpe->num_tokens;
}

int32_t bpe_eod (const struct bpe *bpe)
{
    return bpe->eod;
}

int32_t bpe_byte (const struct bpe *bpe, unsigned char byte)
{
    return bpe->byte_ids[byte];
}

typedef int merge_ids_f (const struct bpe_pairs *pairs, enum bpe_order order,
                         struct bpe_scratch *scratch, int32_t *ids, size_t *n,
                         struct mg_error *err);

static int merge_word (const struct bpe *bpe, merge_ids_f *merge,
                       struct bpe_scratch *scratch, const char *word, size_t size,
                       struct token_buffer *out, struct mg_error *err)
{
    int32_t *ids;
    size_t n = size;

    if (token_buffer_reserve (out, size, err) < 0)
        return -1;
    ids = out->ids + out->count;
    for (size_t i = 0; i < size; i++)
        ids[i] = bpe->byte_ids[(unsigned char)word[i]];
    if (merge (&bpe->pairs, BPE_ROUNDS, scratch, ids, &n, err) < 0)
        return -1;
    out->count += n;
    return 0;
}

int bpe_merge (const struct bpe *bpe, struct bpe_scratch *scratch, const char *word,
               size_t size, struct token_buffer *out, struct mg_error *err)
{
    return merge_word (bpe, bpe_merge_ids, scratch, word, size, out, err);
}

int bpe_merge_short (const struct bpe *bpe, struct bpe_scratch *scratch, const char *word,
                     size_t size, struct token_buffer *out, struct mg_error *err)
{
    return merge_word (bpe, bpe_merge_ids_short, scratch, word, size, out, err);
}

int bpe_merge_long (const struct bpe *bpe, struct bpe_scratch *scratch, const char *word,
                    size_t size, struct token_buffer *out, struct mg_error *err)
{
    return merge_word (bpe, bpe_merge_ids_long, scratch, word, size, out, err);
}
