/* Benchmarks' texts as ordinary texts: pairs of the reference data, WikiText-103, edges. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/args/file.h"
#include "libcore/text/detokenizer.h"
#include "tests/tap/tap.h"

static void is_run (enum detokenizer kind, const char *text, const char *want)
{
    struct text_buffer out = { 0 };
    struct mg_error err = { "" };

    ok (detokenizer_run (kind, text, strlen (text), &out, &err) == 0 && out.size == strlen (want)
            && (out.size == 0 || memcmp (out.data, want, out.size) == 0),
        "\"%.40s\" becomes \"%.40s\"", text, want);
    text_buffer_clear (&out);
}

static void test_edges (void)
{
    is_run (DETOKENIZER_WIKI, "", "");
    is_run (DETOKENIZER_WIKI, "(   ) [ x", "() [ x");
    is_run (DETOKENIZER_WIKI, "a \" b\n\nc \" d", "a \"b\n\nc\" d");
    is_run (DETOKENIZER_WIKI, "( \xc2\xa0x\xe3\x80\x80)", "(x)");
    is_run (DETOKENIZER_WIKI, "x /' 5/ y /' a/", "x /'[0-9]/ y /' a/");
    is_run (DETOKENIZER_WIKI, "/' 5", "/' 5");
    is_run (DETOKENIZER_PTB, " 'a N $ 1 n't", "'a1 $1n't");
    is_run (DETOKENIZER_NONE, " = x = \n", " = x = \n");
}

static void test_bytes (void)
{
    struct text_buffer out = { 0 };
    struct mg_error err = { "" };

    ok (detokenizer_run (DETOKENIZER_WIKI, "abc\xff", 4, &out, &err) == -1 && errno == EINVAL
            && strstr (err.text, "byte 3"), "what is not UTF-8 is refused: %s", err.text);
    ok (detokenizer_run (DETOKENIZER_NONE, "abc\xff", 4, &out, &err) == 0 && out.size == 4,
        "but not where nothing is replaced");
    text_buffer_clear (&out);
}

static void test_words (void)
{
    static const struct {
        const char *text;
        int64_t words;
    } cases[] = { { "", 1 }, { " \n ", 1 }, { "a", 1 }, { " a b \n", 2 }, { "a  b", 3 },
                  { " a \n \n b \n", 4 }, { "\xc2\x85 a\tb\x1f", 1 } };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++)
        is_int (detokenizer_words (cases[i].text, strlen (cases[i].text)), cases[i].words,
                "words of case %zu", i);
    is_int (detokenizer_last_word ("one two", 7), 4, "the last word");
    is_int (detokenizer_last_word ("one\xe2\x80\x83two", 9), 6, "behind an em space");
    is_int (detokenizer_last_word ("one", 3), 0, "the only word");
}

static void test_pairs (enum detokenizer kind, const char *name, const json_t *pairs)
{
    size_t i;
    const json_t *pair;

    ok (json_array_size (pairs) > 0, "there are pairs of %s", name);
    json_array_foreach (pairs, i, pair)
        is_run (kind, json_string_value (json_array_get (pair, 0)),
                json_string_value (json_array_get (pair, 1)));
}

static void test_reference (void)
{
    char path[1024];
    json_t *all;

    if (!shared_file (path, sizeof (path), "golden/16_eval.json")) {
        skip (2, "no reference data at %s", path);
        return;
    }
    all = json_load_file (path, 0, NULL);
    test_pairs (DETOKENIZER_WIKI, "wiki", json_object_get (json_object_get (all, "detokenizers"),
                                                          "wiki"));
    test_pairs (DETOKENIZER_PTB, "ptb", json_object_get (json_object_get (all, "detokenizers"),
                                                        "ptb"));
    json_decref (all);
}

static void test_wikitext (void)
{
    char path[1024], want_path[1024];
    struct text_buffer out = { 0 };
    struct mg_error err = { "" };
    size_t size, want_size;
    char *text, *want;

    if (!shared_file (path, sizeof (path), "data/wikitext/wikitext103.wiki.test.tokens")
        || !shared_file (want_path, sizeof (want_path),
                         "data/wikitext/wikitext103.wiki.test.detok.txt")) {
        skip (2, "no WikiText-103 at %s", path);
        return;
    }
    text = args_file_bytes (path, 1 << 24, &size, &err);
    want = args_file_bytes (want_path, 1 << 24, &want_size, &err);
    is_int (detokenizer_words (text, size), 245566, "words of WikiText-103");
    ok (detokenizer_run (DETOKENIZER_WIKI, text, size, &out, &err) == 0 && out.size == want_size
            && memcmp (out.data, want, want_size) == 0, "WikiText-103 as Megatron-LM makes it");
    text_buffer_clear (&out);
    free (text);
    free (want);
}

int main (void)
{
    test_edges ();
    test_bytes ();
    test_words ();
    test_reference ();
    test_wikitext ();
    return done_testing ();
}
