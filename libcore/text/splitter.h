/* splitter - cut a text into words as the "pre_tokenizer" of a tokenizer.json does
 *
 * The kinds Split, ByteLevel, Digits, Punctuation, Whitespace, WhitespaceSplit, Metaspace
 * and Sequence.  Each step of a sequence cuts the pieces of the step before.  Immutable:
 * may be used by many threads, each with a scratch of its own.
 */
#ifndef LIBCORE_TEXT_SPLITTER_H
#define LIBCORE_TEXT_SPLITTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "libcore/text/bytechars.h"
#include "libcore/text/json_place.h"
#include "libcore/text/regex.h"
#include "libcore/text/text_buffer.h"
#include "megatron/error.h"

/* The characters of the words. */
enum splitter_words {
    SPLITTER_TEXT,  /* characters of the text; strays are written as utf8.h says */
    SPLITTER_BYTES, /* bytes of the text, because there is a ByteLevel */
    SPLITTER_CHARS  /* characters that stand for bytes, because a step follows a ByteLevel */
};

enum { SPLITTER_MAX_STEPS = 32 };

/* Memory for one thread.  At first all members but 'regex' are zeros. */
struct splitter_scratch {
    struct regex_scratch *regex; /* lent */
    struct text_buffer buffers[SPLITTER_MAX_STEPS];
};

/* Called for each word of a text; a word is not empty.  Returns 0, or -1 to stop. */
typedef int splitter_word_f (void *arg, const char *word, size_t size,
                             struct mg_error *err);

struct splitter; /* opaque */

/* Make a splitter of 'value', the pre_tokenizer of a tokenizer.json, which is at 'place'.  A
 * value that is NULL or null makes a splitter for which a whole text is one word.  Returns NULL
 * with errno ENOMEM, or EINVAL and a text with the path of what is wrong or not supported.  The
 * caller owns the result.
 */
struct splitter *splitter_create (const struct json_place *place, const json_t *value,
                                  struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void splitter_destroy (struct splitter *splitter);

enum splitter_words splitter_words (const struct splitter *splitter);

/* Call 'word' for each word of a text.  'head' is that of struct normal_text
 * (normalizer.h), which a Metaspace with the scheme "first" uses.  -1 if 'word' returned
 * it, or with errno ENOMEM, EIO (regex.h). */
int splitter_run (const struct splitter *splitter, struct splitter_scratch *scratch,
                  const char *text, size_t size, size_t head, splitter_word_f *word,
                  void *arg, struct mg_error *err);

/* Free what it holds, but for 'regex'. */
void splitter_scratch_clear (struct splitter_scratch *scratch);

#endif /* LIBCORE_TEXT_SPLITTER_H */
