/* Texts of tokens: bytes, tokens with the same bytes or with none, names that bytes imitate. */

#include <string.h>

#include "libcore/serve/token_text.h"
#include "tests/tap/tap.h"

static const char *const words[]
    = { "a", "\xc3", "\xc3\xa9", "", "a", "bytes:\\xc3", "token_id:3", "", "a" };

static int32_t count (const void *impl)
{
    (void)impl;
    return (int32_t)(sizeof (words) / sizeof (words[0]));
}

static const char *word (const void *impl, int32_t id, size_t *size)
{
    (void)impl;
    *size = strlen (words[id]);
    return words[id];
}

static void check (const struct token_text *t, int32_t id, const char *want)
{
    struct text_buffer text = { 0 };

    ok (token_text_append (t, id, &text, NULL) == 0 && text.size == strlen (want)
            && memcmp (text.data, want, text.size) == 0, "token %d is %s", (int)id, want);
    text_buffer_clear (&text);
}

static void test_words (void)
{
    static const struct tokenizer_ops ops = { .vocab_size = count, .token = word };
    const struct tokenizer tokenizer = { &ops, NULL };
    struct token_text *t = token_text_create (&tokenizer, NULL);

    check (t, 0, "token_id:0");
    check (t, 1, "bytes:\\xc3");
    check (t, 2, "\xc3\xa9");
    check (t, 3, "token_id:3");
    check (t, 4, "token_id:4");
    check (t, 5, "bytes:\\x62\\x79\\x74\\x65\\x73\\x3a\\x5c\\x78\\x63\\x33");
    check (t, 6, "bytes:\\x74\\x6f\\x6b\\x65\\x6e\\x5f\\x69\\x64\\x3a\\x33");
    check (t, 7, "token_id:7");
    check (t, 8, "a");
    check (t, 9, "token_id:9");
    token_text_destroy (t);
}

/* All tokens of a tokenizer of bytes differ, and none has a zero inside. */
static void test_distinct (void)
{
    struct tokenizer *bytes = tokenizer_create ("ByteLevel", NULL, NULL);
    struct token_text *t = token_text_create (bytes, NULL);
    struct text_buffer text[257] = { { 0 } };
    int same = 0;

    for (int i = 0; i < 257; i++) {
        token_text_append (t, i, &text[i], NULL);
        for (int k = 0; k < i; k++)
            same += text[k].size == text[i].size
                    && memcmp (text[k].data, text[i].data, text[i].size) == 0;
    }
    is_int (same, 0, "no two tokens are alike");
    check (t, 0, "bytes:\\x00");
    for (int i = 0; i < 257; i++)
        text_buffer_clear (&text[i]);
    token_text_destroy (t);
    tokenizer_destroy (bytes);
}

int main (void)
{
    struct token_text *none = token_text_create (NULL, NULL);

    check (none, 7, "token_id:7");
    token_text_destroy (none);
    token_text_destroy (NULL);
    test_words ();
    test_distinct ();
    return done_testing ();
}
