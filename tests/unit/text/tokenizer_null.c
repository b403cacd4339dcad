/* tokenizer_null.c - numbers are tokens */

#include <errno.h>
#include <stdint.h>

#include "libcore/text/tokenizer.h"
#include "tests/unit/data/support.h"

static void test_numbers (void)
{
    static const struct {
        struct tokenizer_files files;
        int32_t eod; /* -1: refused */
        const char *text;
    } cases[] = {
        { { .vocab_size = 100 }, 99, "" },
        { { .vocab_size = 100, .has_eod = true, .eod = 0 }, 0, "" },
        { { .vocab_size = 1 }, 0, "" },
        { { .vocab_size = 0 }, -1, "NullTokenizer needs --vocab-size" },
        { { .vocab_size = 100, .has_eod = true, .eod = 100 }, -1, "is out of range, want 0 to 99" },
        { { .vocab_size = 100, .vocab = "f" }, -1, "reads no files" },
        { { .vocab_size = 100, .model = "f" }, -1, "reads no files" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err = { .text = "" };
        struct tokenizer *t = tokenizer_create ("NullTokenizer", &cases[i].files, &err);

        if (cases[i].eod < 0) {
            ok (!t && errno == EINVAL && strstr (err.text, cases[i].text), "case %zu: %s", i,
                err.text);
            continue;
        }
        ok (t && tokenizer_vocab_size (t) == cases[i].files.vocab_size, "case %zu", i);
        is_int (tokenizer_eod (t), cases[i].eod, "end of document");
        tokenizer_destroy (t);
    }
    ok (!tokenizer_create ("ByteLevel", &cases[1].files, NULL) && errno == EINVAL,
        "another tokenizer has its own end of document");
    ok (tokenizer_check ("ByteLevel", &cases[0].files, NULL) == 0,
        "and does not mind a size of the vocabulary");
}

static void test_text (void)
{
    static const struct {
        const char *text;
        int count; /* -1: refused */
        int32_t ids[4];
    } cases[] = {
        { "1 2 3", 3, { 1, 2, 3 } },
        { " 0\t0012\n99 ", 3, { 0, 12, 99 } },
        { "", 0, { 0 } },
        { "\n", 0, { 0 } },
        { "100", -1, { 0 } },
        { "1 2x 3", -1, { 0 } },
        { "-1", -1, { 0 } },
        { "99999999999999999999999", -1, { 0 } },
    };
    const struct tokenizer_files files = { .vocab_size = 100 };
    struct tokenizer *first = tokenizer_create ("nulltokenizer", &files, NULL);
    struct tokenizer *t = tokenizer_fork (first, NULL);
    struct token_buffer out = { NULL, 0, 0 };
    size_t size;

    if (!t)
        bail_out ("no tokenizer");
    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err = { .text = "" };
        int rc, right = 0;

        out.count = 0;
        rc = tokenizer_encode (t, cases[i].text, strlen (cases[i].text), &out, &err);
        for (int k = 0; k < cases[i].count; k++)
            right += (size_t)k < out.count && out.ids[k] == cases[i].ids[k];
        if (cases[i].count < 0)
            ok (rc == -1 && errno == EINVAL && out.count == 0, "text %zu: %s", i, err.text);
        else
            ok (rc == 0 && (int)out.count == cases[i].count && right == cases[i].count, "text %zu",
                i);
    }
    ok (memcmp (tokenizer_token (t, 12, &size), "12 ", 3) == 0 && size == 3, "a token's text");
    free (out.ids);
    tokenizer_destroy (t);
    tokenizer_destroy (first);
}

int main (void)
{
    test_numbers ();
    test_text ();
    return done_testing ();
}
