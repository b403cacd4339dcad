/* tokenizer.c - texts to tokens and back, by every tokenizer that there is
 *
 * Input: where the text is cut into two documents, then the text.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/tokenizer.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/text/bpe_files.h"

static const struct bpe_merge_text merges[]
    = { { "t", "h" }, { "th", "e" }, { "a", "n" }, { "an", "d" }, { "o", "r" },
        { "\xc4\xa0", "the" }, { "1", "2" }, { "\xc4\x8a", "\xc4\x8a" },
        { "\xc3\x83", "\xc2\xa9" } };
enum { NUM_MERGES = sizeof (merges) / sizeof (merges[0]) };

/* A tokenizer and one for another thread. */
static void make (const char *type, const struct tokenizer_files *files,
                  struct tokenizer *both[2])
{
    both[0] = tokenizer_create (type, files, NULL);
    fuzz_check (both[0] || errno == ENOTSUP, "no tokenizer %s: %s", type, strerror (errno));
    both[1] = both[0] ? tokenizer_fork (both[0], NULL) : NULL;
    fuzz_check (!both[0] || both[1], "no tokenizer for another thread");
}

/* The tokens of a text are its bytes, and the same in another thread's tokenizer. */
static void check_text (struct tokenizer *t, struct tokenizer *other, struct fuzz_input in)
{
    struct token_buffer one = { 0 }, two = { 0 };
    char *text = fuzz_copy (in);
    size_t at = 0;

    fuzz_check (tokenizer_encode (t, text, in.left, &one, NULL) == 0
                    && tokenizer_encode (other, text, in.left, &two, NULL) == 0,
                "a text has no tokens");
    fuzz_check (one.count == two.count
                    && (one.count == 0
                        || memcmp (one.ids, two.ids, one.count * sizeof (*one.ids)) == 0),
                "two tokenizers differ");
    for (size_t i = 0; i < one.count; i++) {
        const char *token;
        size_t size;

        fuzz_check (one.ids[i] >= 0 && one.ids[i] < tokenizer_vocab_size (t)
                        && one.ids[i] != tokenizer_eod (t), "token %d", (int)one.ids[i]);
        token = tokenizer_token (t, one.ids[i], &size);
        fuzz_check (size <= in.left - at && memcmp (token, text + at, size) == 0,
                    "token %zu is not in the text", i);
        at += size;
    }
    fuzz_check (at == in.left, "bytes of the text are lost");
    free (text);
    free (one.ids);
    free (two.ids);
}

static void run (const uint8_t *data, size_t size)
{
    static struct tokenizer *byte[2], *gpt2[2];
    static bool made;
    struct fuzz_input in = { data, size }, first = fuzz_part (&in);

    if (!made) {
        struct tokenizer_files files = { .vocab = NULL };

        write_vocab (fuzz_path ("vocab.json"), merges, NUM_MERGES);
        write_merges (fuzz_path ("merges.txt"), merges, NULL, NUM_MERGES);
        make ("ByteLevel", &files, byte);
        files.vocab = fuzz_path ("vocab.json");
        files.merge = fuzz_path ("merges.txt");
        make ("GPT2BPETokenizer", &files, gpt2);
        made = true;
    }
    check_text (byte[0], byte[1], first);
    check_text (byte[0], byte[1], in);
    if (gpt2[0]) {
        check_text (gpt2[0], gpt2[1], first);
        check_text (gpt2[0], gpt2[1], in);
    }
}

const struct fuzz_target fuzz_tokenizer = { "tokenizer", run };
