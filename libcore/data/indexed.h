/* indexed - Megatron's indexed dataset: PREFIX.bin (the tokens) and PREFIX.idx (their places).
 *
 * PREFIX.idx, little-endian, no padding:
 *
 *     byte  0   9 bytes    "MMIDIDX\0\0"
 *     byte  9   u64        version, 1
 *     byte 17   u8         element type of PREFIX.bin (enum indexed_dtype)
 *     byte 18   u64        number of sequences n
 *     byte 26   u64        number of document indices d (documents + 1)
 *     byte 34   i32[n]     length of each sequence in tokens
 *               i64[n]  first byte of each sequence in PREFIX.bin i64[d]  the sequence
 *               that starts each document; the last is n i8[n]  mode of each sequence
 *               (multimodal sets only)
 *
 * PREFIX.bin is the sequences one after the other.  A document is zero or more sequences.
 *
 * The reader maps PREFIX.idx, opens PREFIX.bin and checks every field against the two
 * file sizes before it returns, so that later reads stay inside the files.  A PREFIX.bin
 * that becomes shorter afterwards is an error of indexed_get().  A PREFIX.idx that
 * becomes shorter is an error, too, or raises SIGBUS (cmd/fault.h reports it).  The
 * builder never truncates a file, but renames new files over old ones.
 */
#ifndef LIBCORE_DATA_INDEXED_H
#define LIBCORE_DATA_INDEXED_H

#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

/* Element types, by their code in the file. */
enum indexed_dtype {
    INDEXED_UINT8 = 1,
    INDEXED_INT8 = 2,
    INDEXED_INT16 = 3,
    INDEXED_INT32 = 4,
    INDEXED_INT64 = 5,
    INDEXED_FLOAT64 = 6, /* refused: no token is a fraction */
    INDEXED_FLOAT32 = 7, /* refused */
    INDEXED_UINT16 = 8
};

/* NumPy's name of a type ("uint16"), or "unknown". */
const char *indexed_dtype_name (enum indexed_dtype dtype);

/* Bytes of one element, 0 for an unknown type. */
size_t indexed_dtype_size (enum indexed_dtype dtype);

/* The type that Megatron writes for a vocabulary of this size: uint16 below 65500
 * entries, else int32. */
enum indexed_dtype indexed_dtype_for_vocab (int64_t vocab_size);

/* ---- reader ---- */

struct indexed; /* opaque, immutable: may be read by many threads */

/* Map PREFIX.idx and open PREFIX.bin, which takes a file descriptor. O(sequences): every
 * length, pointer and document index is checked (pointers must be the running sum of the
 * lengths, as every builder writes them, and PREFIX.bin must end with the last sequence).
 * NULL with errno ENOENT ... (of open), EINVAL (a fault in a file; the text names file,
 * field, value and what is allowed), ENOTSUP (float elements), ENOMEM.  The caller owns the
 * result. */
struct indexed *indexed_open (const char *prefix, struct mg_error *err);

/* Unmap and close; NULL is allowed; errno is kept. */
void indexed_close (struct indexed *ix);

enum indexed_dtype indexed_dtype (const struct indexed *ix);
size_t indexed_num_sequences (const struct indexed *ix);
size_t indexed_num_documents (const struct indexed *ix);
int64_t indexed_num_tokens (const struct indexed *ix);

/* Tokens in sequence 'i', 0 <= i < number of sequences (else 0). */
int32_t indexed_length (const struct indexed *ix, size_t i);

/* First byte of sequence 'i' in PREFIX.bin (0 for an 'i' out of range). */
int64_t indexed_pointer (const struct indexed *ix, size_t i);

/* First sequence of document 'd', 0 <= d <= number of documents; for d = number of
 * documents this is the number of sequences.  Document d is [start (d), start (d +
 * 1)). */
size_t indexed_document_start (const struct indexed *ix, size_t d);

/* Mode of sequence 'i', 0 if the file has no modes (indexed_has_modes()). */
int indexed_mode (const struct indexed *ix, size_t i);
int indexed_has_modes (const struct indexed *ix);

/* Read tokens [offset, offset + length) of a sequence to 'out'. 0, or -1 with errno EINVAL
 * if the range leaves the sequence, ERANGE if a token is negative or over INT32_MAX (the
 * text says which), EIO if a file has become shorter since it was opened, or that of
 * pread(); 'out' may be partly written after a failure.  Allocates nothing. */
int indexed_get (const struct indexed *ix, size_t sequence, size_t offset, size_t length,
                 int32_t *out, struct mg_error *err);

/* Read 'n' bytes of PREFIX.bin from byte 'at' on.  The bytes must belong to sequences of
 * the index.  Their tokens are not checked.  Errors of indexed_get() but ERANGE. */
int indexed_read (const struct indexed *ix, int64_t at, size_t n, void *out,
                  struct mg_error *err);

/* Documents [document, document_end) of a dataset, and of them sequences [sequence,
 * sequence_end).  The first document may begin before 'sequence', and the last one may
 * end after 'sequence_end'. */
struct indexed_range {
    size_t document, document_end;
    size_t sequence, sequence_end;
};

/* The range of whole documents [first, end), first <= end <= number of documents. */
struct indexed_range indexed_documents (const struct indexed *ix, size_t first, size_t end);

/* Bytes of a range in PREFIX.bin. */
int64_t indexed_range_bytes (const struct indexed *ix, const struct indexed_range *range);

/* ---- builder ---- */

/* Call check (file, other, err) for PREFIX.idx and PREFIX.bin, up to the first failure. */
typedef int (*indexed_check_f) (const char *file, const char *other, struct mg_error *err);
int indexed_check_files (const char *prefix, indexed_check_f check, const char *other,
                         struct mg_error *err);

struct indexed_builder; /* opaque */

/* Begin to write PREFIX.bin and PREFIX.idx under temporary names in the same directory.
 * Nothing is visible under PREFIX until finalize, and destroy without finalize removes
 * what was written.  NULL with errno of open, EINVAL (a float type), ENOMEM. The caller
 * owns the result. */
struct indexed_builder *indexed_builder_create (const char *prefix,
                                                enum indexed_dtype dtype,
                                                struct mg_error *err);

/* Append 'n' tokens to the current sequence, which may be appended in pieces of any size.
 * Errors: ERANGE (a token the element type cannot hold, a sequence of more than INT32_MAX
 * tokens), ENOMEM, those of write. */
int indexed_builder_append (struct indexed_builder *b, const int32_t *tokens, size_t n,
                            struct mg_error *err);

/* End the current sequence, which is empty if no tokens were appended. */
int indexed_builder_end_sequence (struct indexed_builder *b, struct mg_error *err);

/* End the document.  It has the sequences that ended since the last call, or none.
 * EINVAL if a sequence has not ended. */
int indexed_builder_end_document (struct indexed_builder *b, struct mg_error *err);

/* Append a range of another dataset: its sequences, their modes, and the ends of its documents.
 * A document that is cut at 'sequence_end' ends there.  Bytes are copied without a check
 * of their tokens.  EINVAL if a sequence or document has not ended, if the element type
 * differs, or if only one of both has modes; errors of indexed_read(), write and ENOMEM.
 * After a failure the builder can only be destroyed. */
int indexed_builder_copy (struct indexed_builder *b, const struct indexed *ix,
                          const struct indexed_range *range, struct mg_error *err);

/* Write the index, flush both files to disk and rename them to their final names.  The
 * bytes are those of Megatron's IndexedDatasetBuilder.  An older dataset under PREFIX is
 * replaced.  The older index is removed first, so that an index never stands beside the
 * tokens of another dataset.  EINVAL if a sequence or document has not ended.  Call this
 * once, as the last call before destroy. */
int indexed_builder_finalize (struct indexed_builder *b, struct mg_error *err);

/* Free; without a finalize that succeeded also remove the temporary files. NULL is
 * allowed; errno is kept. */
void indexed_builder_destroy (struct indexed_builder *b);

#endif /* LIBCORE_DATA_INDEXED_H */
