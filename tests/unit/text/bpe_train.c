/* bpe_train.c - merges that are learned: those of the tokenizers library, and by hand
 *
 * tests/golden/tokenizers has a text, and files that the library trained on it.
 */

#include <errno.h>
#include <stdint.h>

#include "libcore/text/bpe_train.h"
#include "tests/unit/data/support.h"

static char *endoftext[] = { "<|endoftext|>" };
static char *two[] = { "<s>", "<|endoftext|>" };

static char *read_golden (const char *name, size_t *size)
{
    char path[600];
    char *text = malloc (1 << 20);
    FILE *f;

    snprintf (path, sizeof (path), "%s/tests/golden/tokenizers/%s", getenv ("MG_SRCDIR"), name);
    if (!text || !(f = fopen (path, "r")))
        bail_out ("cannot read %s", path);
    *size = fread (text, 1, (1 << 20) - 1, f);
    text[*size] = '\0';
    fclose (f);
    return text;
}

/* The file after training on a text, as JSON; NULL with a text. */
static json_t *train (const struct bpe_train_options *options, const char *text, size_t size,
                      int32_t *tokens, struct mg_error *err)
{
    struct bpe_train *t = bpe_train_create (options, err);
    struct text_buffer out = { NULL, 0, 0 };
    json_t *json = NULL;

    if (t && bpe_train_add (t, text, size, err) == 0 && bpe_train_learn (t, tokens, err) == 0
        && bpe_train_write (t, &out, err) == 0)
        json = json_loadb (out.data, out.size, 0, NULL);
    text_buffer_clear (&out);
    bpe_train_destroy (t);
    return json;
}

static bool same (const json_t *a, const json_t *b, const char *key)
{
    return json_equal (json_object_get (a, key), json_object_get (b, key));
}

static void test_golden (void)
{
    static const struct {
        const char *file;
        struct bpe_train_options options;
    } cases[] = {
        { "gpt2.json", { 330, 1, "gpt2", endoftext, 1 } },
        { "llama3.json", { 330, 1, "llama3", two, 2 } },
        { "qwen.json", { 330, 1, "qwen2", endoftext, 1 } },
    };
    size_t size, text_size;
    char *text = read_golden ("text.txt", &text_size);

    for (size_t i = 0; i < COUNT (cases); i++) {
        char *file = read_golden (cases[i].file, &size);
        json_t *want = json_loads (file, 0, NULL), *have;
        struct mg_error err = { .text = "" };
        int32_t tokens = 0;

        have = train (&cases[i].options, text, text_size, &tokens, &err);
        is_int (tokens, 330, "%s: tokens %s", cases[i].file, err.text);
        ok (same (json_object_get (have, "model"), json_object_get (want, "model"), "vocab"),
            "%s: the library's ids", cases[i].file);
        ok (same (json_object_get (have, "model"), json_object_get (want, "model"), "merges"),
            "%s: its merges", cases[i].file);
        ok (same (have, want, "pre_tokenizer"), "%s: its words", cases[i].file);
        json_decref (want);
        json_decref (have);
        free (file);
    }
    free (text);
}

/* Pairs of one letter overlap; ties go to the smaller ids; too rare pairs stay. */
static void test_small (void)
{
    static const struct {
        const char *text;
        int64_t min_frequency;
        int32_t vocab_size;
        const char *merges[5][2];
    } cases[] = {
        { "aaaa", 1, 300, { { "a", "a" }, { "aa", "aa" } } },
        { "aaaa", 3, 300, { { "a", "a" } } },
        { "aaaa", 4, 300, { { NULL } } },
        { "abab", 1, 300, { { "a", "b" }, { "ab", "ab" } } },
        { "bcab", 1, 258, { { "a", "b" } } },
        { "bcab", 1, 257, { { NULL } } },
        { "ab ab ac", 2, 300, { { "a", "b" }, { NULL } } },
        { "\xff\xff", 1, 300, { { "\xc3\xbf", "\xc3\xbf" } } }, /* stray bytes are bytes */
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        const struct bpe_train_options options = {
            cases[i].vocab_size, cases[i].min_frequency, "[^ ]+", endoftext, 1
        };
        struct mg_error err = { .text = "" };
        int32_t tokens;
        json_t *json = train (&options, cases[i].text, strlen (cases[i].text), &tokens, &err);
        const json_t *merges = json_object_get (json_object_get (json, "model"), "merges");
        size_t n = 0;

        while (cases[i].merges[n][0]) {
            json_t *want = json_pack ("[s, s]", cases[i].merges[n][0], cases[i].merges[n][1]);

            ok (json_equal (json_array_get (merges, n), want), "case %zu, merge %zu", i, n);
            json_decref (want);
            n++;
        }
        is_int (json ? (int)json_array_size (merges) : -1, (int)n, "case %zu: merges %s", i,
                err.text);
        json_decref (json);
    }
}

static void test_refused (void)
{
    static char *again[] = { "<s>", "<s>" }, *byte[] = { "x" }, *stray[] = { "\xff" };
    static const struct {
        struct bpe_train_options options;
        const char *text, *want;
    } cases[] = {
        { { 256, 1, "gpt2", endoftext, 1 }, "a", "vocabulary of 256 tokens, want 257 or more" },
        { { 300, 1, "gpt2", again, 2 }, "a", "special token \"<s>\" is there twice" },
        { { 300, 1, "gpt2", byte, 1 }, "a", "special token \"x\" is the token of a byte" },
        { { 300, 1, "gpt2", stray, 1 }, "a", "special token 1 is no UTF-8" },
        { { 300, 1, "(", endoftext, 1 }, "a", "the regular expression is not supported" },
        { { 300, 1, "[a&&]", endoftext, 1 }, "a", "an empty class or intersection" },
        { { 300, 1, "\xff", endoftext, 1 }, "a", "no UTF-8" },
        { { 300, 1, "gpt2", endoftext, 1 }, "", "no text to learn from" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err = { .text = "" };
        int32_t tokens;
        json_t *json;

        errno = 0;
        json = train (&cases[i].options, cases[i].text, strlen (cases[i].text), &tokens, &err);
        ok (!json && errno == EINVAL && strstr (err.text, cases[i].want), "%s", err.text);
        json_decref (json);
    }
}

int main (void)
{
    const struct bpe_train_options options = { 300, 1, "gpt2", endoftext, 1 };
    struct mg_error err = { .text = "" };
    struct bpe_train *probe;

    if (!getenv ("MG_SRCDIR"))
        bail_out ("MG_SRCDIR is not set");
    errno = 0;
    if (!(probe = bpe_train_create (&options, &err)) && errno == ENOTSUP) {
        skip (1, "%s", err.text);
        return done_testing ();
    }
    bpe_train_destroy (probe);
    test_golden ();
    test_small ();
    test_refused ();
    return done_testing ();
}
