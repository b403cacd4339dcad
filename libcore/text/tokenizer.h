/* tokenizer - text to token ids and back.
 *
 * Each kind of tokenizer has a table of operations.  tokenizer.c lists the tables under
 * Megatron-LM's names for --tokenizer-type.
 *
 * ByteLevel: ids 0-255 are the bytes of the text, whatever their encoding, and 256 ends a
 * document; the vocabulary has 257 entries.  GPT2BPETokenizer: byte pair encoding by
 * GPT-2's two files (bpe.h) of GPT-2's words (pretoken.h).  Both accept any bytes as a
 * text, and convert ids back to the same bytes.  HuggingFaceTokenizer: the tokenizer that
 * a tokenizer.json describes (tokenizer_json.h).  It accepts any bytes, and converts ids
 * back to the same bytes if the steps of the file do not change the text.
 *
 * NullTokenizer is for data that other programs have made of numbers: the text of an id
 * is its digits, and the last id ends a document.
 *
 * One thread at a time may use a tokenizer, since it may cache words; tokenizer_fork()
 * makes a tokenizer for another thread.
 */
#ifndef LIBCORE_TEXT_TOKENIZER_H
#define LIBCORE_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

/* A growing array of ids.  A buffer of zeros is empty.  The user of the buffer frees 'ids'. */
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
                             * before or after a text */
    bool no_eod;            /* the caller needs no end of a document: tokenizer_eod() may be -1 */
    int32_t vocab_size; /* --vocab-size, for NullTokenizer alone; 0: not given */
    bool has_eod;       /* --null-tokenizer-eod-id is given ... */
    int32_t eod;        /* ... with this value */
};

struct tokenizer_ops {
    const char *name; /* value of --tokenizer-type */
    /* encode (a + b) equals encode (a) + encode (b) wherever a text is cut, so a long
     * text may be encoded in pieces. */
    bool any_cut;
    bool needs_files; /* needs vocab and merge of tokenizer_files */
    bool needs_model; /* needs model of tokenizer_files; a kind that needs neither reads
                       * no file */
    bool needs_vocab_size; /* of tokenizer_files */
    /* Make *impl.  'files' has the members that needs_files, needs_model and
     * needs_vocab_size ask for.  NULL: the tokenizer has no state. */
    int (*create) (const struct tokenizer_files *files, void **impl,
                   struct mg_error *err);
    /* Make *other for another thread, which may point into 'impl'. NULL: no state. */
    int (*fork) (const void *impl, void **other, struct mg_error *err);
    /* Number of ids, 0..vocab_size-1. Required. */
    int32_t (*vocab_size) (const void *impl);
    /* Id that ends a document; -1, if 'files' had no_eod set: none does.  Required. */
    int32_t (*eod) (const void *impl);
    /* Returns the bytes of a token, valid until the next call; 0 <= id < vocab_size.  An
     * id that is no text has no bytes.  Required. */
    const char *(*token) (const void *impl, int32_t id, size_t *size);
    /* true for a token that is a mark and no text, as one that begins a document; 0 <= id <
     * vocab_size.  NULL: the end of a document alone is one. */
    bool (*is_special) (const void *impl, int32_t id);
    /* Append the ids of 'size' bytes of text to 'out'.  Unless any_cut is set, this is
     * the whole text.  The end of a document is not appended.  An empty text has no ids.
     * On failure out->count is unchanged.  Required. */
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
 * and no other.  The case of the type's letters does not matter.  'files' NULL: no file
 * is named.  0, or -1 with errno EINVAL and a text that lists the types or names the
 * file's option.  Opens no file.
 */
int tokenizer_check (const char *type, const struct tokenizer_files *files,
                     struct mg_error *err);

/* Check the same, then make the tokenizer.  NULL with errno EINVAL if the check fails or
 * a file is faulty, an errno of open(), ENOTSUP if this build lacks a library that the
 * tokenizer needs, ENOMEM.  The caller owns the result. */
struct tokenizer *tokenizer_create (const char *type, const struct tokenizer_files *files,
                                    struct mg_error *err);

/* Make the same tokenizer for another thread. The first must outlive it. NULL with errno
 * ENOMEM. The caller owns the result. */
struct tokenizer *tokenizer_fork (const struct tokenizer *tokenizer,
                                  struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void tokenizer_destroy (struct tokenizer *tokenizer);

/* These functions call the operations of the same names. */
int32_t tokenizer_vocab_size (const struct tokenizer *tokenizer);
int32_t tokenizer_eod (const struct tokenizer *tokenizer);
const char *tokenizer_token (const struct tokenizer *tokenizer, int32_t id, size_t *size);
bool tokenizer_is_special (const struct tokenizer *tokenizer, int32_t id);
int tokenizer_encode (struct tokenizer *tokenizer, const char *text, size_t size,
                      struct token_buffer *out, struct mg_error *err);

/* Make room for 'more' further ids. -1 with errno ENOMEM, the buffer as before. */
int token_buffer_reserve (struct token_buffer *buffer, size_t more, struct mg_error *err);

#endif /* LIBCORE_TEXT_TOKENIZER_H */
