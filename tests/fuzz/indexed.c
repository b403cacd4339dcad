/* indexed.c - PREFIX.idx and PREFIX.bin: a reader that is content can read all of it, and the
 * builder writes the same bytes again, token by token and in ranges
 *
 * Input: PREFIX.idx as a part, then PREFIX.bin.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/data/indexed.h"
#include "tests/fuzz/fuzz.h"

enum { TOKENS = 64 };

/* Read every token; false if one is out of range. */
static bool read_sequence (const struct indexed *ix, size_t i, struct indexed_builder *b)
{
    size_t length = (size_t)indexed_length (ix, i);
    int32_t tokens[TOKENS];

    fuzz_check (indexed_get (ix, i, length, 1, tokens, NULL) < 0, "a token behind the last");
    for (size_t at = 0; at < length; at += TOKENS) {
        size_t n = length - at < TOKENS ? length - at : TOKENS;

        if (indexed_get (ix, i, at, n, tokens, NULL) < 0) {
            fuzz_check (errno == ERANGE, "a token that is there: %s", strerror (errno));
            return false;
        }
        fuzz_check (!b || indexed_builder_append (b, tokens, n, NULL) == 0,
                    "the builder refuses tokens of its type");
    }
    fuzz_check (!b || indexed_builder_end_sequence (b, NULL) == 0, "the end of a sequence");
    return true;
}

/* Read all; with a builder also write all. False if a token is out of range. */
static bool copy (const struct indexed *ix, struct indexed_builder *b)
{
    size_t documents = indexed_num_documents (ix);

    for (size_t d = 0; d < documents; d++) {
        size_t end = indexed_document_start (ix, d + 1);

        fuzz_check (indexed_document_start (ix, d) <= end
                        && end <= indexed_num_sequences (ix),
                    "document %zu is none", d);
        for (size_t i = indexed_document_start (ix, d); i < end; i++) {
            if (!read_sequence (ix, i, b))
                return false;
        }
        fuzz_check (!b || indexed_builder_end_document (b, NULL) == 0, "end of a document");
    }
    for (size_t i = 0; i < indexed_num_sequences (ix); i++)
        fuzz_check (indexed_has_modes (ix) || indexed_mode (ix, i) == 0, "a mode of none");
    return true;
}

/* Copy all documents in two parts, whatever the tokens, and compare. */
static void copy_range (const struct indexed *ix, struct fuzz_input index, struct fuzz_input bin)
{
    const size_t documents = indexed_num_documents (ix), half = documents / 2;
    const struct indexed_range head = indexed_documents (ix, 0, half),
                               tail = indexed_documents (ix, half, documents);
    struct indexed_builder *b
        = indexed_builder_create (fuzz_path ("c"), indexed_dtype (ix), NULL);

    fuzz_check (b, "no builder");
    fuzz_check (indexed_builder_copy (b, ix, &head, NULL) == 0
                    && indexed_builder_copy (b, ix, &tail, NULL) == 0
                    && indexed_builder_finalize (b, NULL) == 0, "not copied");
    indexed_builder_destroy (b);
    fuzz_check (fuzz_same (fuzz_path ("c.idx"), index.at, index.left), "other index in the copy");
    fuzz_check (fuzz_same (fuzz_path ("c.bin"), bin.at, bin.left), "other tokens in the copy");
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size }, index = fuzz_part (&in);
    struct indexed_builder *b;
    struct indexed *ix;

    fuzz_file ("a.idx", index);
    fuzz_file ("a.bin", in);
    if (!(ix = indexed_open (fuzz_path ("a"), NULL)))
        return;
    copy_range (ix, index, in);
    if (copy (ix, NULL) && !indexed_has_modes (ix)) {
        b = indexed_builder_create (fuzz_path ("b"), indexed_dtype (ix), NULL);
        fuzz_check (b, "no builder");
        fuzz_check (copy (ix, b), "a token that was read is not read again");
        fuzz_check (indexed_builder_finalize (b, NULL) == 0, "not written");
        indexed_builder_destroy (b);
        fuzz_check (fuzz_same (fuzz_path ("b.idx"), index.at, index.left), "other index");
        fuzz_check (fuzz_same (fuzz_path ("b.bin"), in.at, in.left), "other tokens");
    }
    indexed_close (ix);
}

const struct fuzz_target fuzz_indexed = { "indexed", run };
