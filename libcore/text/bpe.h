/* bpe - byte pair encoding over bytes, as GPT-2 has it: its two files, and its merges.
 *
 * P. Gage, A New Algorithm for Data Compression, C Users Journal 12 (1994) 23-38;
 * R. Sennrich, B. Haddow, A. Birch, Neural Machine Translation of Rare Words with Subword
 * Units, ACL 2016; over bytes: A. Radford et al., Language Models are Unsupervised
 * Multitask Learners, 2019, section 2.2.
 *
 * A token is a string of bytes with an id.  At first, each byte of a word is a token.
 * Then the pair of neighbours that is highest in the list of merges is replaced by one
 * token, from left to right, wherever the pair occurs.  This is repeated until no pair of
 * neighbours is in the list.
 *
 * Both files write a byte as a character (bytechars.h).
 *
 *     encoder.json  one object, "token": id; the ids of n tokens are 0..n-1 vocab.bpe
 *     one merge on each line: two tokens with one blank between; the best merge comes
 *     first; a first line that begins with "#version" is no merge
 */
#ifndef LIBCORE_TEXT_BPE_H
#define LIBCORE_TEXT_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/text/bpe_pairs.h"
#include "libcore/text/tokenizer.h"
#include "megatron/error.h"

struct bpe; /* opaque, immutable: may be used by many threads */

/* Read both files.  Every token must be made of the 256 characters, every byte and the
 * end of document "<|endoftext|>" must be a token, each id of 0..n-1 must occur once, the
 * two tokens of a merge and the merged token must be in encoder.json, and no merge may
 * occur twice.  NULL with errno ENOENT ... (of open), EINVAL (a fault; the text names
 * file, line or token, and what is allowed), EFBIG (a file over 256 MiB), ENOMEM.  The
 * caller owns the result. */
struct bpe *bpe_create (const char *vocab_file, const char *merge_file,
                        struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void bpe_destroy (struct bpe *bpe);

/* Number of tokens. */
int32_t bpe_vocab_size (const struct bpe *bpe);

/* Id of "<|endoftext|>". */
int32_t bpe_eod (const struct bpe *bpe);

/* Id of the token that is this byte. */
int32_t bpe_byte (const struct bpe *bpe, unsigned char byte);

/* The bytes of a token, 0 <= id < vocab_size; '*size' is at least 1. Lent. */
const char *bpe_token (const struct bpe *bpe, int32_t id, size_t *size);

/* Returns the place of the pair in the list of merges, 0 for the best, and sets '*merged'
 * to the merged token.  -1 if the pair is not in the list. */
int32_t bpe_rank (const struct bpe *bpe, int32_t left, int32_t right, int32_t *merged);

/* Append the ids of one word to 'out'.  The time is n log n for n bytes; short words use
 * a method with time n^2.  0, or -1 with errno ENOMEM, EFBIG (over INT32_MAX bytes) and
 * 'out' as before. */
int bpe_merge (const struct bpe *bpe, struct bpe_scratch *scratch, const char *word,
               size_t size, struct token_buffer *out, struct mg_error *err);

/* The two methods of bpe_merge(), for the test that compares them. */
int bpe_merge_short (const struct bpe *bpe, struct bpe_scratch *scratch, const char *word,
                     size_t size, struct token_buffer *out, struct mg_error *err);
int bpe_merge_long (const struct bpe *bpe, struct bpe_scratch *scratch, const char *word,
                    size_t size, struct token_buffer *out, struct mg_error *err);

#endif /* LIBCORE_TEXT_BPE_H */
