/* tokenizer_gpt2.c - words and ids of GPT-2, of text and of any bytes, there and back */

#include <errno.h>
#include <stdint.h>

#include "libcore/data/mt19937.h"
#include "libcore/text/tokenizer.h"
#include "tests/unit/text/bpe_files.h"

static char folder[200];

/* The words of a text show where no token reaches across: every byte is a token here, and
 * each pair of neighbours that words must not join is a merge. */
static const struct bpe_merge_text merges[] = {
    { "a", "1" }, { "1", "a" }, { "a", "." }, { ".", "a" }, { "1", "." }, { ".", "1" },
    { "a", "a" }, { "1", "1" }, { ".", "." }, { "'", "s" }, { "'", "x" }, { "s", "a" },
    { "\xc4\xa0", "a" },         /* a blank and a letter */
    { "\xc4\xa0", "\xc4\xa0" },  /* two blanks */
    { "\xc3\xbf", "a" },         /* 0xff, which is no UTF-8 */
    { "\xc3\xbf", "." },
    { "a", "\xc3\xbf" },
};
enum { AA = 256 + 6, DD, PP, QS, QX, SA, _A, __, FA, FP };

static struct tokenizer *open_small (void)
{
    char vocab[300], merge[300];
    const struct tokenizer_files files = { .vocab = vocab, .merge = merge };
    struct mg_error err = { .text = "" };
    struct tokenizer *tokenizer;

    snprintf (vocab, sizeof (vocab), "%s/encoder.json", folder);
    snprintf (merge, sizeof (merge), "%s/vocab.bpe", folder);
    write_vocab (vocab, merges, COUNT (merges));
    write_merges (merge, merges, NULL, COUNT (merges));
    errno = 0;
    tokenizer = tokenizer_create ("GPT2BPETokenizer", &files, &err);
    if (!tokenizer && errno != ENOTSUP)
        bail_out ("%s", err.text);
    if (!tokenizer)
        diag ("%s", err.text);
    return tokenizer;
}

static void test_words (struct tokenizer *tokenizer)
{
    static const struct {
        const char *text;
        size_t n;
        int32_t ids[10];
    } cases[] = {
        { "", 0, { 0 } },
        { "aa", 1, { AA } },
        { "a1", 2, { 'a', '1' } },
        { "1a", 2, { '1', 'a' } },
        { "a.", 2, { 'a', '.' } },
        { ".1", 2, { '.', '1' } },
        { "aa11..", 3, { AA, DD, PP } },
        { "'sa", 2, { QS, 'a' } },
        { "'xa", 3, { '\'', 'x', 'a' } },
        { "a'sa", 3, { 'a', QS, 'a' } },
        { ".'sa", 3, { '.', '\'', SA } },
        { " a", 1, { _A } },
        { "  a", 2, { ' ', _A } },
        { "   a", 2, { __, _A } },
        { "    a", 3, { __, ' ', _A } },
        { "a  ", 2, { 'a', __ } },
        { "\n a", 2, { '\n', _A } },
        { " \na", 3, { ' ', '\n', 'a' } },
        { "a\xc2\xa0" "a", 4, { 'a', 0xc2, 0xa0, 'a' } },  /* a space that is no blank */
        { "\xe1\xa0\x8e", 3, { 0xe1, 0xa0, 0x8e } },       /* U+180E, no space */
        { "\xff" "a", 2, { 0xff, 'a' } },                  /* a symbol, and a letter */
        { "\xff.", 1, { FP } },                            /* two symbols */
        { "a\xff", 2, { 'a', 0xff } },
        { "\xe2\x82", 2, { 0xe2, 0x82 } },                 /* a character that is cut */
        { "a\xed\xa0\x80" "a", 5, { 'a', 0xed, 0xa0, 0x80, 'a' } }, /* a surrogate */
    };
    struct token_buffer out = { NULL, 0, 0 };

    for (size_t i = 0; i < COUNT (cases); i++) {
        size_t same = 0;

        for (int turn = 0; turn < 2; turn++) { /* the second from what it remembers */
            out.count = 0;
            ok (tokenizer_encode (tokenizer, cases[i].text, strlen (cases[i].text), &out,
                                  NULL) == 0 && out.count == cases[i].n,
                "case %zu is %zu tokens", i, cases[i].n);
            for (same = 0; same < out.count && out.ids[same] == cases[i].ids[same];)
                same++;
            is_int (same, cases[i].n, "the right ones");
        }
    }
    free (out.ids);
}

/* Any bytes have ids, which give them back, and the same ids from a fork. */
static void test_bytes (struct tokenizer *tokenizer)
{
    enum { SIZE = 1 << 16 };
    static const char *const parts[] = {
        " ", "  ", "\n", "a", "aa", "1", ".", "'s", "\xc3\xa9", "\xe2\x80\x83", "\xff",
        "\xe2\x82", "\xf0\x9f\x98\x80", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80",
    };
    struct tokenizer *other = tokenizer_fork (tokenizer, NULL);
    struct token_buffer out[2] = { { NULL, 0, 0 }, { NULL, 0, 0 } };
    static char text[SIZE];
    struct mt19937 mt;
    size_t at = 0;

    mt19937_seed (&mt, 3, NULL);
    for (size_t n = 0; n + 8 < SIZE;) {
        const char *part = parts[mt19937_interval (&mt, COUNT (parts) - 1)];

        memcpy (text + n, part, strlen (part) + 1);
        n += mt19937_interval (&mt, 9) ? strlen (part) : 1; /* and NUL at times */
    }
    ok (tokenizer_encode (tokenizer, text, SIZE, &out[0], NULL) == 0, "any bytes");
    for (size_t i = 0; i < out[0].count; i++) {
        size_t size;
        const char *token = tokenizer_token (tokenizer, out[0].ids[i], &size);

        if (at + size > SIZE || memcmp (text + at, token, size) != 0)
            break;
        at += size;
    }
    is_int (at, SIZE, "the tokens are the text");
    ok (other && tokenizer_encode (other, text, SIZE, &out[1], NULL) == 0
        && out[1].count == out[0].count
        && memcmp (out[1].ids, out[0].ids, out[0].count * sizeof (*out[0].ids)) == 0,
        "a fork gives the same");
    is_int (tokenizer_vocab_size (other), tokenizer_vocab_size (tokenizer), "vocabulary");
    is_int (tokenizer_eod (other), 256 + COUNT (merges), "end of document");
    free (out[0].ids);
    free (out[1].ids);
    tokenizer_destroy (other);
}

static struct tokenizer *open_gpt2 (void)
{
    char vocab[600], merge[600];
    const struct tokenizer_files files = { .vocab = vocab, .merge = merge };
    struct mg_error err = { .text = "" };
    struct tokenizer *tokenizer;

    if (!shared_file (vocab, sizeof (vocab), "data/vocab/gpt2/encoder.json")
        || !shared_file (merge, sizeof (merge), "data/vocab/gpt2/vocab.bpe")) {
        skip (1, "no reference data: %s", vocab);
        return NULL;
    }
    if (!(tokenizer = tokenizer_create ("GPT2BPETokenizer", &files, &err)))
        bail_out ("%s", err.text);
    is_int (tokenizer_vocab_size (tokenizer), 50257, "GPT-2 has 50257 tokens");
    is_int (tokenizer_eod (tokenizer), 50256, "the last ends a document");
    return tokenizer;
}

static bool same_ids (struct tokenizer *tokenizer, const json_t *text, const json_t *ids)
{
    struct token_buffer out = { NULL, 0, 0 };
    size_t n;
    int64_t *want = json_numbers (ids, &n);
    bool same = tokenizer_encode (tokenizer, json_string_value (text),
                                  json_string_length (text), &out, NULL) == 0
                && out.count == n;

    for (size_t i = 0; same && i < n; i++)
        same = out.ids[i] == want[i];
    free (want);
    free (out.ids);
    return same;
}

/* Texts in many scripts, with the ids that three encoders agree on. */
static void test_multilingual (struct tokenizer *tokenizer)
{
    char path[600];
    char *line = NULL;
    size_t room = 0;
    int texts = 0, right = 0;
    FILE *f;

    if (!shared_file (path, sizeof (path), "data/golden/gpt2_multilingual.jsonl")
        || !(f = fopen (path, "r"))) {
        skip (1, "no reference data: %s", path);
        return;
    }
    while (getline (&line, &room, f) > 0) {
        json_t *object = json_loads (line, JSON_ALLOW_NUL, NULL);

        texts++;
        right += same_ids (tokenizer, json_object_get (object, "text"),
                           json_object_get (object, "ids"));
        json_decref (object);
    }
    is_int (right, texts, "%d texts in many scripts", texts);
    free (line);
    fclose (f);
}

static void test_french (struct tokenizer *tokenizer)
{
    char path[600];
    json_t *object;

    if (!shared_file (path, sizeof (path), "data/golden/gpt2_encoded_tokens_fr.json")) {
        skip (1, "no reference data: %s", path);
        return;
    }
    object = json_load_file (path, 0, NULL);
    ok (same_ids (tokenizer, json_object_get (object, "text"),
                  json_object_get (object, "token_ids")), "a French text");
    json_decref (object);
}

static void test_wikitext (struct tokenizer *tokenizer)
{
    struct token_buffer out = { NULL, 0, 0 };
    char text_path[600], ids_path[600];
    unsigned char *text, *ids;
    size_t size, ids_size, same = 0;

    if (!shared_file (text_path, sizeof (text_path),
                      "data/wikitext/wikitext103.wiki.test.detok.txt")
        || !shared_file (ids_path, sizeof (ids_path),
                         "data/golden/wikitext103.test.detok.gpt2.u16.bin")) {
        skip (1, "no reference data: %s", text_path);
        return;
    }
    text = read_bytes (text_path, &size);
    ids = read_bytes (ids_path, &ids_size);
    tokenizer_encode (tokenizer, (char *)text, size, &out, NULL);
    is_int (out.count, ids_size / 2, "WikiText-103's test text: number of tokens");
    while (same < out.count && 2 * same < ids_size
           && out.ids[same] == (ids[2 * same] | ids[2 * same + 1] << 8))
        same++;
    is_int (same, ids_size / 2, "and every id");
    free (text);
    free (ids);
    free (out.ids);
}

int main (void)
{
    struct tokenizer *tokenizer;

    folder_create (folder, sizeof (folder));
    if (!(tokenizer = open_small ())) {
        skip (1, "this build has no PCRE2");
    }
    else {
        test_words (tokenizer);
        test_bytes (tokenizer);
        tokenizer_destroy (tokenizer);
        if ((tokenizer = open_gpt2 ())) {
            test_multilingual (tokenizer);
            test_french (tokenizer);
            test_wikitext (tokenizer);
            tokenizer_destroy (tokenizer);
        }
    }
    folder_remove (folder);
    return done_testing ();
}
