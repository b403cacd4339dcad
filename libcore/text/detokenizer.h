/* detokenizer - turns a text of a benchmark, whose words and marks are separated by blanks, back
 * into ordinary text, as Megatron-LM does (tasks/zeroshot_gpt/detokenizer.py).
 *
 * A detokenizer is a list of replacements, which are made one after the other over the whole text.
 * A pair of quotes or brackets may enclose ends of lines.  White space is Python's: Unicode's
 * White_Space and U+001C to U+001F.
 */
#ifndef LIBCORE_TEXT_DETOKENIZER_H
#define LIBCORE_TEXT_DETOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/text/text_buffer.h"
#include "megatron/error.h"

enum detokenizer {
    DETOKENIZER_NONE, /* copies the text */
    DETOKENIZER_WIKI, /* WikiText */
    DETOKENIZER_PTB   /* Penn Treebank */
};

/* Set 'out' to the ordinary text of 'size' bytes of UTF-8.  -1, EINVAL and a text if a byte is not
 * UTF-8 (DETOKENIZER_NONE accepts all bytes), or -1 with ENOMEM.
 */
int detokenizer_run (enum detokenizer kind, const char *text, size_t size,
                     struct text_buffer *out, struct mg_error *err);

/* Returns the number of words by which Megatron-LM divides the loss of a text of UTF-8: without
 * the white space around the text, one more than its blanks.  An end of a line between two blanks
 * is a word.
 */
int64_t detokenizer_words (const char *text, size_t size);

/* Find the text without the white space around it: *size bytes from the returned offset on.  The
 * text is UTF-8.
 */
size_t detokenizer_strip (const char *text, size_t *size);

/* Returns the offset of the last word of a text of UTF-8: of what white space separates, and whose
 * end is at 'size'.  A text of 'size' bytes does not end in white space.
 */
size_t detokenizer_last_word (const char *text, size_t size);

#endif /* LIBCORE_TEXT_DETOKENIZER_H */
