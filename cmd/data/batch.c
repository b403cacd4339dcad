/* batch.c - a part of the input: gather, encode
 *
 * A batch is a list of items in the order of the input.  Encoding adds tokens beside each item
 * and changes no order, so that the output does not depend on which thread works when.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/data/batch.h"
#include "cmd/data/input.h"

enum {
    USUAL_MEMORY = 8 << 20, /* bytes that a batch keeps for the next turn */
    PIECE = 1 << 16         /* bytes encoded at once, where a text may be cut */
};

static int push (struct batch_list *list, struct batch_item item, struct mg_error *err)
{
    size_t max = list->max ? 2 * list->max : 64;
    struct batch_item *items;

    if (list->count == list->max) {
        if (!(items = reallocarray (list->items, max, sizeof (*items))))
            return mg_error_set (err, ENOMEM, "out of memory");
        list->items = items;
        list->max = max;
    }
    list->items[list->count++] = item;
    return 0;
}

static int keep_text (struct data_batch *b, const char *text, size_t size,
                      struct mg_error *err)
{
    if (size > b->room - b->size) {
        size_t room = 2 * b->room + size;
        char *p;

        if (!(p = realloc (b->text, room)))
            return mg_error_set (err, ENOMEM, "no memory for a text of %zu bytes", room);
        b->text = p;
        b->room = room;
    }
    if (size > 0)
        memcpy (b->text + b->size, text, size);
    b->size += size;
    return 0;
}

/* Join the lines of a sequence of a plain text into one item: they are many and small. */
int data_batch_add (struct data_batch *b, struct batch_item item, const char *text,
                    struct mg_error *err)
{
    struct batch_item *last = b->in.count ? &b->in.items[b->in.count - 1] : NULL;

    if (keep_text (b, text, item.size, err) < 0)
        return -1;
    if (last && item.kind == BATCH_TEXT && last->kind == BATCH_TEXT
        && last->key == item.key) {
        last->size += item.size;
        return 0;
    }
    return push (&b->in, item, err);
}

struct encoder {
    struct data_batch *batch;
    struct tokenizer *tokenizer;
};

/* Encode all of a sequence, or, where it may be cut, a piece. */
static int encode_text (void *arg, size_t key, const char *text, size_t size,
                        struct mg_error *err)
{
    struct encoder *e = arg;
    struct data_batch *b = e->batch;
    const size_t before = b->tokens.count;
    const size_t most = e->tokenizer->ops->any_cut ? PIECE : size;

    for (size_t at = 0; at < size; at += most) {
        size_t n = size - at < most ? size - at : most;

        if (tokenizer_encode (e->tokenizer, text + at, n, &b->tokens, err) < 0)
            return -1;
    }
    return push (&b->out, (struct batch_item){ .kind = BATCH_TEXT, .key = key,
                                               .size = b->tokens.count - before }, err);
}

static int end_sequence (void *arg, size_t key, struct mg_error *err)
{
    return push (&((struct encoder *)arg)->batch->out,
                 (struct batch_item){ .kind = BATCH_END_SEQUENCE, .key = key }, err);
}

static int end_document (void *arg, size_t key, struct mg_error *err)
{
    return push (&((struct encoder *)arg)->batch->out,
                 (struct batch_item){ .kind = BATCH_END_DOCUMENT, .key = key }, err);
}

static int encode_item (struct encoder *e, const struct batch_item *item,
                        const char *text, char *const *keys, size_t num_keys,
                        struct mg_error *err)
{
    const struct input_sink sink = {
        .text = encode_text,
        .end_sequence = end_sequence,
        .end_document = end_document,
        .arg = e,
    };

    switch (item->kind) {
    case BATCH_TEXT:
        return encode_text (e, item->key, text, item->size, err);
    case BATCH_LINE:
        if (input_parse_line (text, item->size, keys, num_keys, &sink, err) < 0)
            return mg_error_prefix (err, "%s:%zu", item->path, item->number);
        return 0;
    case BATCH_END_SEQUENCE:
        return end_sequence (e, item->key, err);
    case BATCH_END_DOCUMENT:
        return end_document (e, item->key, err);
    }
    return 0;
}

void data_batch_encode (struct data_batch *b, struct tokenizer *tokenizer,
                        char *const *keys, size_t num_keys)
{
    struct encoder e = { b, tokenizer };
    const char *text = b->text;

    for (size_t i = 0; i < b->in.count && !b->failed; i++) {
        const struct batch_item *item = &b->in.items[i];

        if (encode_item (&e, item, text, keys, num_keys, &b->err) < 0) {
            b->errnum = errno;
            b->failed = true;
        }
        text += item->size;
    }
}

void data_batch_reset (struct data_batch *b)
{
    b->size = 0;
    b->in.count = 0;
    b->out.count = 0;
    b->tokens.count = 0;
    b->failed = false;
    if (b->room > USUAL_MEMORY || b->tokens.capacity > USUAL_MEMORY
        || b->in.max > USUAL_MEMORY / sizeof (*b->in.items)
        || b->out.max > USUAL_MEMORY / sizeof (*b->out.items))
        data_batch_clear (b);
}

void data_batch_clear (struct data_batch *b)
{
    free (b->text);
    free (b->in.items);
    free (b->out.items);
    free (b->tokens.ids);
    memset (b, 0, sizeof (*b));
}
