/* bpe.c - GPT-2's two files, and words by what they say
 *
 * Input: a number that chooses, a part that is a word, then parts: the vocabulary, the merges.
 * With an odd number the vocabulary is only what comes behind the 256 bytes and the end of a
 * document, which are put in front.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/bpe.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/text/bpe_files.h"

/* {"!": 0, ... "<|endoftext|>": 256 and the part. */
static void write_whole (struct fuzz_input part)
{
    FILE *f = fopen (fuzz_path ("vocab.json"), "w");

    fuzz_check (f, "no vocabulary");
    fprintf (f, "{");
    for (int b = 0; b < 256; b++) {
        char character[3];

        bpe_character (b, character);
        fprintf (f, "\"%s%s\": %d, ", b == '"' || b == '\\' ? "\\" : "", character, b);
    }
    fprintf (f, "\"<|endoftext|>\": 256");
    fwrite (part.at, 1, part.left, f);
    fprintf (f, "}");
    fclose (f);
}

/* Tokens of the word are its bytes again, by both ways. */
static void check_word (const struct bpe *bpe, struct fuzz_input word)
{
    struct bpe_scratch scratch = { 0 };
    struct token_buffer one = { 0 }, two = { 0 };
    char *text = fuzz_copy (word);
    size_t at = 0;

    if (word.left > 0) {
        fuzz_check (bpe_merge_short (bpe, &scratch, text, word.left, &one, NULL) == 0
                        && bpe_merge_long (bpe, &scratch, text, word.left, &two, NULL) == 0,
                    "a word has no tokens");
        fuzz_check (one.count == two.count
                        && memcmp (one.ids, two.ids, one.count * sizeof (*one.ids)) == 0,
                    "the two ways differ");
    }
    for (size_t i = 0; i < one.count; i++) {
        size_t size;
        const char *token = bpe_token (bpe, one.ids[i], &size);

        fuzz_check (size <= word.left - at && memcmp (token, text + at, size) == 0,
                    "token %zu is not in the word", i);
        at += size;
    }
    fuzz_check (at == word.left, "bytes of the word are lost");
    free (text);
    free (one.ids);
    free (two.ids);
    bpe_scratch_clear (&scratch);
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size }, word, vocab;
    bool whole = fuzz_number (&in, 1) % 2 == 0;
    struct bpe *bpe;

    word = fuzz_part (&in);
    vocab = fuzz_part (&in);
    if (whole)
        fuzz_file ("vocab.json", vocab);
    else
        write_whole (vocab);
    fuzz_file ("merges.txt", in);
    bpe = bpe_create (fuzz_path ("vocab.json"), fuzz_path ("merges.txt"), NULL);
    if (bpe) {
        fuzz_check (bpe_vocab_size (bpe) >= 257, "%d tokens", (int)bpe_vocab_size (bpe));
        check_word (bpe, word);
    }
    bpe_destroy (bpe);
}

const struct fuzz_target fuzz_bpe = { "bpe", run };
