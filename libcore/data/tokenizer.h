/* tokenizer - text to token ids and back.
 *
 * One ops table a kind of tokenizer, listed in tokenizer.c under Megatron-LM's names for
 * --tokenizer-type.
 *
 * ByteLevel: ids 0-255 are the bytes of the text, whatever their encoding, and 256 ends a
 * document; the vocabulary has 257 entries.  GPT2BPETokenizer: byte pair encoding by
 * GPT-2's two files (bpe.h) of GPT-2's words (pretoken.h).  Both take any bytes for a
 * text, and give each of them back.  HuggingFaceTokenizer: what a tokenizer.json says
 * (tokenizer_json.h); it takes any bytes, and gives them back if the file keeps them.
 *
 * NullTokenizer, for data that other programs have made of numbers: ids are written in digits, and
 * the last one ends a document.
 *
 * A tokenizer is used by one thread at a time, since it may remember what it has seen;
 * tokenizer_fork makes one for another thread.
 */
#ifndef LIBCORE_DATA_TOKENIZER_H
#define LIBCORE_DATA_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

/* A growing array of ids; all zero is an empty one. The user frees 'ids'. */
struct token_buffer {
    int32_t *ids;
    size_t count;
    size_t capacity;
};

/* The files and numbers that a tokenizer may need; NULL: not given. */
struct tokenizer_files {
    const char *vocab; /* --vocab-file, encoder.json of GPT-2 */
    const char *merge; /* --merge-file, vocab.bpe of GPT-2 */
    const char *model; /* --tokenizer-model, a tokenizer.json or its directory */
    bool no_special_tokens; /* --tokenizer-hf-no-include-special-tokens: put no tokens
                             * around a text, such as one that begins it */
    int32_t vocab_size; /* --vocab-size, of NullTokenizer; others have their own; 0: not given */
    bool has_eod;       /* --null-tokenizer-eod-id is given ... */
    int32_t eod;        /* ... and is this */
};

struct tokenizer_ops {
    const char *name; /* value of --tokenizer-type */
    /* encode (a + b) is encode (a) + encode (b) wherever a text is cut, so that a long
     * one may be given in pieces. */
    bool any_cut;
    bool needs_files; /* vocab and merge of tokenizer_files */
    bool needs_model; /* model of tokenizer_files; with neither it reads no file */
    bool needs_vocab_size; /* of tokenizer_files */
    /* Make *impl; 'files' is what these say. NULL: it has no state. */
    int (*create) (const struct tokenizer_files *files, void **impl,
                   struct mg_error *err);
    /* Make *other for another thread, which may point into 'impl'. NULL: no state. */
    int (*fork) (const void *impl, void **other, struct mg_error *err);
    /* Number of ids, 0..vocab_size-1. Required. */
    int32_t (*vocab_size) (const void *impl);
    /* Id that ends a document. Required. */
    int32_t (*eod) (const void *impl);
    /* The bytes of a token, lent until the next call; 0 <= id < vocab_size. An id that is no
     * text has none. Required. */
    const char *(*token) (const void *impl, int32_t id, size_t *size);
    /* Append the ids of 'size' bytes of text, all of it unless any_cut is set, to 'out'.
     * No id for end of document, nothing at all for empty text. On failure out->count is
     * as before. Required. */
    int (*encode) (void *impl, const char *text, size_t size,
                   struct token_buffer *out, struct mg_error *err);
    /* Free impl. NULL: nothing to free. */
    void (*destroy) (void *impl);
};

struct tokenizer {
    const struct tokenizer_ops *ops;
    void *impl;
};

extern const struct tokenizer_ops tokenizer_byte_ops;
extern const struct tokenizer_ops tokenizer_gpt2_ops;
extern const struct tokenizer_ops tokenizer_hf_ops;
extern const struct tokenizer_ops tokenizer_null_ops;

/* Check that there is a tokenizer of this type, and that 'files' names the files that it needs
 * and no other.  The case of the type's letters does not matter.  'files' NULL: none is named.  0,
 * or -1 with errno EINVAL and a text that lists the types or names the file's option.  Opens no
 * file.
 */
int tokenizer_check (const char *type, const struct tokenizer_files *files,
                     struct mg_error *err);

/* The same, and make the tokenizer. NULL with errno EINVAL for that or a file that is
 * faulty, those of open, ENOTSUP if this build lacks a library that it needs, ENOMEM.
 * The caller owns the result. */
struct tokenizer *tokenizer_create (const char *type, const struct tokenizer_files *files,
                                    struct mg_error *err);

/* Make the same tokenizer for another thread. The first must outlive it. NULL with errno
 * ENOMEM. The caller owns the result. */
struct tokenizer *tokenizer_fork (const struct tokenizer *tokenizer,
                                  struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void tokenizer_destroy (struct tokenizer *tokenizer);

/* The ops of the same names. */
int32_t tokenizer_vocab_size (const struct tokenizer *tokenizer);
int32_t tokenizer_eod (const struct tokenizer *tokenizer);
const char *tokenizer_token (const struct tokenizer *tokenizer, int32_t id, size_t *size);
int tokenizer_encode (struct tokenizer *tokenizer, const char *text, size_t size,
                      struct token_buffer *out, struct mg_error *err);

/* Make room for 'more' further ids. -1 with errno ENOMEM, the buffer as before. */
int token_buffer_reserve (struct token_buffer *buffer, size_t more, struct mg_error *err);

#endif /* LIBCORE_DATA_TOKENIZER_H */
