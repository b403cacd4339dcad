/* tokenizer_json.c - a tokenizer.json, and the ids of a text by what it says
 *
 * Input: a part that is a text, then the file.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/tokenizer.h"
#include "tests/fuzz/fuzz.h"

static bool same (const struct token_buffer *a, const struct token_buffer *b)
{
    return a->count == b->count
           && (a->count == 0 || memcmp (a->ids, b->ids, a->count * sizeof (*a->ids)) == 0);
}

/* An expression of the file may take too many steps: then there are no ids. */
static int encode (struct tokenizer *t, const char *text, size_t size,
                   struct token_buffer *out)
{
    struct mg_error err = { .text = "" };
    int rc = tokenizer_encode (t, text, size, out, &err);

    fuzz_check (rc == 0 || (errno == EIO && out->count == 0), "no ids: %s", err.text);
    return rc;
}

/* Ids are tokens, the same the second time and in another thread's tokenizer. */
static void check_text (struct tokenizer *t, struct fuzz_input in)
{
    struct token_buffer one = { 0 }, two = { 0 }, three = { 0 };
    struct tokenizer *other = tokenizer_fork (t, NULL);
    char *text = fuzz_copy (in);

    fuzz_check (other, "no tokenizer for another thread");
    if (encode (t, text, in.left, &one) == 0) {
        fuzz_check (encode (t, text, in.left, &two) == 0
                        && encode (other, text, in.left, &three) == 0,
                    "a text has no ids the second time");
        fuzz_check (same (&one, &two), "other ids the second time");
        fuzz_check (same (&one, &three), "other ids in another thread");
        fuzz_check (in.left > 0 || one.count == 0, "an empty text has ids");
    }
    for (size_t i = 0; i < one.count; i++) {
        size_t size;

        fuzz_check (one.ids[i] >= 0 && one.ids[i] < tokenizer_vocab_size (t), "token %d",
                    (int)one.ids[i]);
        tokenizer_token (t, one.ids[i], &size);
    }
    fuzz_check (tokenizer_eod (t) >= 0 && tokenizer_eod (t) < tokenizer_vocab_size (t),
                "end of document %d", (int)tokenizer_eod (t));
    tokenizer_destroy (other);
    free (text);
    free (one.ids);
    free (two.ids);
    free (three.ids);
}

static void run (const uint8_t *data, size_t size)
{
    const struct tokenizer_files files = { .model = fuzz_path ("tokenizer.json") };
    struct fuzz_input in = { data, size }, text = fuzz_part (&in);
    struct mg_error err = { .text = "" };
    struct tokenizer *t;

    fuzz_file ("tokenizer.json", in);
    t = tokenizer_create ("HuggingFaceTokenizer", &files, &err);
    if (t)
        check_text (t, text);
    else
        fuzz_check (err.text[0] && !strchr (err.text, '\n'), "\"%s\" is no line", err.text);
    tokenizer_destroy (t);
}

const struct fuzz_target fuzz_tokenizer_json = { "tokenizer_json", run };
