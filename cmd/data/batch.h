/* batch - a part of the input, whose bytes a worker converts to tokens.
 *
 * The reader adds items, bytes with their kind, in the order of the input.  A worker adds
 * the tokens, and the ends of sequences and documents.  The output of a batch depends
 * only on its items, so the order and the number of workers do not change the output.
 */
#ifndef CMD_DATA_BATCH_H
#define CMD_DATA_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "libcore/text/tokenizer.h"
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
    const char *path; /* file and number of a line, for messages; must outlive the batch */
    size_t number;
};

struct batch_list {
    struct batch_item *items;
    size_t count, max;
};

/* All zero is an empty batch. */
struct data_batch {
    char *text; /* text of all items, one after the other */
    size_t size, room;
    struct batch_list in;
    struct token_buffer tokens; /* tokens of all items of 'out', one after the other */
    struct batch_list out;
    bool failed; /* set at the first fault, with the errno and a text */
    int errnum;
    struct mg_error err;
};

/* Add an item of the input with its text. Pieces of one sequence may follow one another.
 * 0, or -1 with errno ENOMEM. */
int data_batch_add (struct data_batch *b, struct batch_item item, const char *text,
                    struct mg_error *err);

/* Fill 'out' and 'tokens', or 'failed'. 'keys' are those of JSON lines. If the tokenizer
 * does not have any_cut, a batch must contain whole sequences. */
void data_batch_encode (struct data_batch *b, struct tokenizer *tokenizer,
                        char *const *keys, size_t num_keys);

/* Empty a batch.  Unusually large memory is freed. */
void data_batch_reset (struct data_batch *b);

/* Free what it holds. */
void data_batch_clear (struct data_batch *b);

#endif /* CMD_DATA_BATCH_H */
