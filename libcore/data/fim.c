/* fim - segments, fragments, and the three parts of each */

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "libcore/data/fim.h"

struct fim {
    struct fim_config config;
    struct tokenizer *tokenizer; /* NULL: cuts are between tokens */
    uint64_t key;

    int32_t *row; /* [row_max] the sample as it was */
    int row_max;

    int32_t *out; /* the sample under way, [size], 'count' of which are written */
    int size, count;
    int64_t index;
    uint32_t draws;

    char *text; /* [text_max] of a fragment */
    size_t text_max;
    struct token_buffer parts; /* the ids of its three parts, one after the other */
};

/* A run of tokens, lent. */
struct span {
    const int32_t *ids;
    size_t count;
};

struct fim *fim_create (const struct fim_config *config, struct tokenizer *tokenizer,
                        struct mg_error *err)
{
    struct fim *f = calloc (1, sizeof (*f));

    if (!f) {
        mg_error_set (err, ENOMEM, "fill-in-the-middle: out of memory");
        return NULL;
    }
    f->config = *config;
    f->tokenizer = tokenizer;
    f->key = rng_key (config->seed, RNG_FIM, config->stream, 0);
    return f;
}

void fim_destroy (struct fim *f)
{
    if (f) {
        int saved_errno = errno;

        free (f->row);
        free (f->text);
        free (f->parts.ids);
        free (f);
        errno = saved_errno;
    }
}

/* ---- draws ---- */

static void draw (struct fim *f, uint32_t out[4])
{
    rng_philox (f->key, 0, f->draws++, (uint64_t)f->index, out);
}

static bool chance (uint32_t bits, double rate)
{
    return (double)bits * 0x1p-32 < rate;
}

/* Draw a number in [0, max], each about as likely. */
static size_t choose (uint32_t bits, size_t max)
{
    return (size_t)((double)bits * 0x1p-32 * ((double)max + 1.));
}

/* ---- output: what is behind the sample's end is dropped ---- */

static void emit (struct fim *f, struct span span)
{
    size_t room = (size_t)(f->size - f->count);
    size_t n = span.count < room ? span.count : room;

    if (n > 0)
        memcpy (f->out + f->count, span.ids, n * sizeof (*f->out));
    f->count += (int)n;
}

static void emit_one (struct fim *f, int32_t id)
{
    emit (f, (struct span){ &id, 1 });
}

static void emit_parts (struct fim *f, const struct span part[3], bool spm)
{
    const struct fim_config *c = &f->config;

    emit_one (f, c->prefix);
    if (!spm)
        emit (f, part[0]);
    emit_one (f, c->suffix);
    emit (f, part[2]);
    emit_one (f, c->middle);
    if (spm)
        emit (f, part[0]);
    emit (f, part[1]);
}

/* ---- cuts ---- */

/* Two bounds in [0, max], in order. */
static void choose_bounds (const uint32_t bits[4], size_t max, size_t bound[2])
{
    size_t a = choose (bits[1], max), b = choose (bits[2], max);

    bound[0] = a < b ? a : b;
    bound[1] = a < b ? b : a;
}

static void cut_tokens (struct span span, const uint32_t bits[4], struct span part[3])
{
    size_t bound[2];

    choose_bounds (bits, span.count, bound);
    part[0] = (struct span){ span.ids, bound[0] };
    part[1] = (struct span){ span.ids + bound[0], bound[1] - bound[0] };
    part[2] = (struct span){ span.ids + bound[1], span.count - bound[1] };
}

/* The text of the tokens in f->text; '*size' 0 if a token has none. */
static int make_text (struct fim *f, struct span span, size_t *size, struct mg_error *err)
{
    const int32_t vocab = tokenizer_vocab_size (f->tokenizer);

    *size = 0;
    for (size_t i = 0; i < span.count; i++) {
        const int32_t id = span.ids[i];
        size_t n = 0;
        const char *bytes = id < vocab ? tokenizer_token (f->tokenizer, id, &n) : NULL;

        if (!bytes || n == 0) {
            *size = 0;
            return 0;
        }
        if (n > f->text_max - *size) {
            size_t max = 2 * (f->text_max + n);
            char *text = realloc (f->text, max);

            if (!text)
                return mg_error_set (err, ENOMEM, "no memory for a text of %zu bytes", max);
            f->text = text;
            f->text_max = max;
        }
        memcpy (f->text + *size, bytes, n);
        *size += n;
    }
    return 0;
}

/* True if a byte does not continue a character of UTF-8. */
static bool begins_character (char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

/* Returns the offset of character number 'n', or the size if 'n' is the number of characters. */
static size_t byte_of_character (const char *text, size_t size, size_t n)
{
    for (size_t i = 0; i < size; i++) {
        if (begins_character (text[i]) && n-- == 0)
            return i;
    }
    return size;
}

static int cut_text (struct fim *f, size_t size, const uint32_t bits[4], struct span part[3],
                     struct mg_error *err)
{
    size_t characters = 0, bound[2], at[4] = { 0, 0, 0, size }, end[4] = { 0 };

    for (size_t i = 0; i < size; i++)
        characters += begins_character (f->text[i]);
    choose_bounds (bits, characters, bound);
    for (int i = 0; i < 2; i++)
        at[i + 1] = bound[i] == 0 ? 0 : byte_of_character (f->text, size, bound[i]);
    f->parts.count = 0;
    for (int i = 0; i < 3; i++) {
        if (tokenizer_encode (f->tokenizer, f->text + at[i], at[i + 1] - at[i], &f->parts, err)
            < 0)
            return -1;
        end[i + 1] = f->parts.count;
    }
    for (int i = 0; i < 3; i++) // now that the buffer does not move any more
        part[i] = (struct span){ f->parts.ids + end[i], end[i + 1] - end[i] };
    return 0;
}

static bool has_no_prefix (const struct fim *f, size_t size)
{
    const char *prefix = f->config.no_prefix;

    return prefix && size >= strlen (prefix) && memcmp (f->text, prefix, strlen (prefix)) == 0;
}

/* One fragment, cut with this rate. */
static int permute (struct fim *f, struct span span, double rate, struct mg_error *err)
{
    struct span part[3];
    uint32_t bits[4];
    size_t size = 0;

    draw (f, bits);
    if (f->count == f->size || span.count == 0 || !chance (bits[0], rate)) {
        emit (f, span);
        return 0;
    }
    if (f->tokenizer && make_text (f, span, &size, err) < 0)
        return -1;
    if (size > 0 && has_no_prefix (f, size)) {
        emit (f, span);
        return 0;
    }
    if (size == 0)
        cut_tokens (span, bits, part);
    else if (cut_text (f, size, bits, part, err) < 0)
        return -1;
    emit_parts (f, part, chance (bits[3], f->config.spm_rate));
    return 0;
}

/* ---- segments and fragments ---- */

/* Returns the number of tokens before the first 'id' of the span, or all tokens if it has none. */
static size_t find (struct span span, int32_t id)
{
    size_t n = 0;

    while (n < span.count && span.ids[n] != id)
        n++;
    return n;
}

static struct span behind (struct span span, size_t n)
{
    return (struct span){ span.ids + n, span.count - n };
}

static int permute_segment (struct fim *f, struct span span, struct mg_error *err)
{
    const int32_t split = f->config.split;
    uint32_t bits[4];
    size_t n;

    if (split < 0 || find (span, split) == span.count)
        return permute (f, span, f->config.rate, err);
    draw (f, bits);
    if (!chance (bits[0], f->config.rate)) {
        emit (f, span);
        return 0;
    }
    for (; (n = find (span, split)) < span.count; span = behind (span, n + 1)) {
        if (n == 0)
            continue;
        if (permute (f, (struct span){ span.ids, n }, f->config.fragment_rate, err) < 0)
            return -1;
        emit_one (f, split);
    }
    return permute (f, span, f->config.fragment_rate, err);
}

static int permute_sample (struct fim *f, struct span span, struct mg_error *err)
{
    const int32_t eod = f->config.eod;
    size_t n;

    for (; (n = find (span, eod)) < span.count; span = behind (span, n + 1)) {
        if (n == 0)
            continue;
        if (permute_segment (f, (struct span){ span.ids, n }, err) < 0)
            return -1;
        emit_one (f, eod);
    }
    return permute_segment (f, span, err);
}

int fim_apply (struct fim *f, int64_t index, int32_t *tokens, int n, int *used,
               struct mg_error *err)
{
    if (n > f->row_max) {
        int32_t *row = reallocarray (f->row, (size_t)n, sizeof (*row));

        if (!row)
            return mg_error_set (err, ENOMEM, "fill-in-the-middle: out of memory");
        f->row = row;
        f->row_max = n;
    }
    memcpy (f->row, tokens, (size_t)n * sizeof (*tokens));
    f->out = tokens;
    f->size = n;
    f->count = 0;
    f->index = index;
    f->draws = 0;
    if (permute_sample (f, (struct span){ f->row, (size_t)n }, err) < 0)
        return -1;
    *used = f->count;
    for (int i = f->count; i < n; i++)
        tokens[i] = f->config.pad;
    return 0;
}
