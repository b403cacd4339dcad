/* batch - a part of the input on its way through a worker: bytes in, tokens out.
 *
 * The reader adds bytes, and what is to be done with them, in the order of the input; a
 * worker puts the tokens, and the ends of sequences and documents, beside them.  What a
 * batch gives depends on nothing but what was added, so that the output is the same
 * whoever works on which batch, and when.
 */
#ifndef CMD_DATA_BATCH_H
#define CMD_DATA_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "libcore/data/tokenizer.h"
#include "megatron/error.h"

enum batch_kind {
    BATCH_TEXT, /* input: 'size' bytes of a sequence; output: 'size' tokens of it */
    BATCH_LINE, /* input: 'size' bytes of a JSON line */
    BATCH_END_SEQUENCE,
    BATCH_END_DOCUMENT
};

struct batch_item {
    enum batch_kind kind;
    size_t key;
    size_t size;
    const char *path; /* of a line, and its number: for messages; lent */
    size_t number;
};

struct batch_list {
    struct batch_item *items;
    size_t count, max;
};

/* All zero is an empty batch. */
struct data_batch {
    char *text; /* of all items, one behind the other */
    size_t size, room;
    struct batch_list in;
    struct token_buffer tokens; /* of all items of 'out', one behind the other */
    struct batch_list out;
    bool failed; /* at the first fault, with errno's value and a text */
    int errnum;
    struct mg_error err;
};

/* Add an item of the input with its text. Pieces of one sequence may follow one another.
 * 0, or -1 with errno ENOMEM. */
int data_batch_add (struct data_batch *b, struct batch_item item, const char *text,
                    struct mg_error *err);

/* Fill 'out' and 'tokens', or 'failed'. 'keys' are those of JSON lines. A tokenizer that
 * does not allow any cut must be given the whole of each sequence in one batch. */
void data_batch_encode (struct data_batch *b, struct tokenizer *tokenizer,
                        char *const *keys, size_t num_keys);

/* Make it empty; memory beyond the usual is given back. */
void data_batch_reset (struct data_batch *b);

/* Free what it holds. */
void data_batch_clear (struct data_batch *b);

#endif /* CMD_DATA_BATCH_H */
