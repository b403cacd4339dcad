/* bpe.c - reading the two files, merging by both ways, against a slow one, and faults */

#include <errno.h>
#include <stdint.h>

#include "libcore/data/mt19937.h"
#include "libcore/text/bpe.h"
#include "tests/unit/text/bpe_files.h"

static char folder[200];
static char vocab[300];
static char merge[300];

static const struct bpe_merge_text small[] = {
    { "h", "e" }, { "l", "l" },  { "he", "ll" },
    { "a", "a" }, { "aa", "a" }, { "b", "aa" },
};

static struct bpe *open_small (void)
{
    struct mg_error err = { .text = "" };
    struct bpe *bpe;

    write_vocab (vocab, small, COUNT (small));
    write_merges (merge, small, NULL, COUNT (small));
    if (!(bpe = bpe_create (vocab, merge, &err)))
        bail_out ("%s", err.text);
    return bpe;
}

static void test_tables (void)
{
    struct bpe *bpe = open_small ();
    int32_t merged = -1;
    const char *token;
    size_t size;
    int right = 0;

    is_int (bpe_vocab_size (bpe), 256 + 6 + 1, "as many tokens as the file has");
    is_int (bpe_eod (bpe), 262, "the end of document is found by its name");
    for (int i = 0; i < 256; i++) {
        token = bpe_token (bpe, i, &size);
        right += size == 1 && (unsigned char)*token == i && bpe_byte (bpe, i) == i;
    }
    is_int (right, 256, "a character stands for each byte");
    token = bpe_token (bpe, 258, &size);
    ok (size == 4 && memcmp (token, "hell", 4) == 0, "bytes of a longer token");
    token = bpe_token (bpe, 262, &size);
    ok (size == 13 && memcmp (token, "<|endoftext|>", 13) == 0, "and of the last");
    ok (bpe_rank (bpe, 'h', 'e', &merged) == 0 && merged == 256, "the best merge");
    ok (bpe_rank (bpe, 256, 257, &merged) == 2 && merged == 258, "a merge of merges");
    is_int (bpe_rank (bpe, 'e', 'h', &merged), -1, "not the other way round");
    is_int (bpe_rank (bpe, 262, 262, &merged), -1, "no merge of the last token");
    bpe_destroy (bpe);
    bpe_destroy (NULL);
}

typedef int merge_f (const struct bpe *bpe, struct bpe_scratch *scratch, const char *word,
                     size_t size, struct token_buffer *out, struct mg_error *err);

static void test_words (void)
{
    static const struct {
        const char *word;
        int32_t ids[6];
        size_t n;
    } cases[] = {
        { "", { 0 }, 0 },
        { "x", { 'x' }, 1 },
        { "he", { 256 }, 1 },
        { "hello", { 258, 'o' }, 2 },
        { "hhello", { 'h', 258, 'o' }, 3 },
        { "a", { 'a' }, 1 },
        { "aa", { 259 }, 1 },
        { "aaa", { 260 }, 1 },
        { "aaaa", { 259, 259 }, 2 },       /* all pairs at once, from the left */
        { "aaaaa", { 259, 260 }, 2 },
        { "baaa", { 'b', 260 }, 2 },       /* "aa a" stands before "b aa" */
        { "baaaa", { 261, 259 }, 2 },
        { "<|endoftext|>", { '<', '|', 'e', 'n', 'd', 'o' }, 13 },
    };
    static merge_f *const ways[] = { bpe_merge, bpe_merge_short, bpe_merge_long };
    struct bpe *bpe = open_small ();
    struct bpe_scratch scratch = { NULL, 0 };
    struct token_buffer out = { NULL, 0, 0 };

    for (size_t i = 0; i < COUNT (cases); i++) {
        for (size_t w = 0; w < COUNT (ways); w++) {
            size_t same = 0;

            out.count = 0;
            ok (ways[w] (bpe, &scratch, cases[i].word, strlen (cases[i].word), &out, NULL)
                == 0 && out.count == cases[i].n, "\"%s\" is %zu tokens, way %zu",
                cases[i].word, cases[i].n, w);
            while (same < out.count && same < COUNT (cases[i].ids)
                   && out.ids[same] == cases[i].ids[same])
                same++;
            ok (same == out.count || same == COUNT (cases[i].ids), "the right ones");
        }
    }
    bpe_scratch_clear (&scratch);
    free (out.ids);
    bpe_destroy (bpe);
}

/* The definition, word for word: rounds over an array. */
static size_t merge_slowly (const struct bpe *bpe, const char *word, size_t n,
                            int32_t *ids)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = bpe_byte (bpe, word[i]);
    for (;;) {
        int32_t best = INT32_MAX;
        int32_t merged;
        size_t to = 0;

        for (size_t i = 0; i + 1 < n; i++) {
            int32_t rank = bpe_rank (bpe, ids[i], ids[i + 1], &merged);

            if (rank >= 0 && rank < best)
                best = rank;
        }
        if (best == INT32_MAX)
            return n;
        for (size_t i = 0; i < n; i++) {
            bool take = i + 1 < n && bpe_rank (bpe, ids[i], ids[i + 1], &merged) == best;

            ids[to++] = take ? merged : ids[i];
            i += take;
        }
        n = to;
    }
}

/* Random merges of what is there so far, in a random order: also lists that training
 * would not write, where a merge makes a better pair. */
static size_t random_merges (struct mt19937 *mt, struct bpe_merge_text *merges)
{
    static char tokens[BPE_MERGES_MAX + 3][BPE_TOKEN_MAX];
    size_t n = 0;

    for (int i = 0; i < 3; i++)
        snprintf (tokens[i], BPE_TOKEN_MAX, "%c", 'a' + i);
    while (n < 40) {
        const char *left = tokens[mt19937_interval (mt, n + 2)];
        const char *right = tokens[mt19937_interval (mt, n + 2)];
        char both[2 * BPE_TOKEN_MAX];
        bool old = false;

        snprintf (both, sizeof (both), "%s%s", left, right);
        for (size_t i = 0; i < n + 3; i++)
            old = old || strcmp (tokens[i], both) == 0;
        if (old || strlen (both) > 12)
            continue;
        strcpy (merges[n].left, left);
        strcpy (merges[n].right, right);
        strcpy (tokens[n + 3], both);
        n++;
    }
    return n;
}

static void test_ways (void)
{
    enum { LISTS = 20, WORDS = 200, LENGTH = 300 };
    static struct bpe_merge_text merges[BPE_MERGES_MAX];
    struct bpe_scratch scratch = { NULL, 0 };
    struct token_buffer out = { NULL, 0, 0 };
    struct mt19937 mt;
    int same[2] = { 0, 0 };

    mt19937_seed (&mt, 7, NULL);
    for (int list = 0; list < LISTS; list++) {
        size_t n = random_merges (&mt, merges);
        size_t order[BPE_MERGES_MAX];
        struct mg_error err;
        struct bpe *bpe;

        for (size_t i = 0; i < n; i++) {
            size_t j = mt19937_interval (&mt, i);

            order[i] = order[j];
            order[j] = i;
        }
        write_vocab (vocab, merges, n);
        write_merges (merge, merges, list % 2 ? order : NULL, n);
        if (!(bpe = bpe_create (vocab, merge, &err)))
            bail_out ("%s", err.text);
        for (int i = 0; i < WORDS; i++) {
            char word[LENGTH];
            int32_t want[LENGTH];
            size_t size = mt19937_interval (&mt, LENGTH);
            size_t count;

            for (size_t k = 0; k < size; k++)
                word[k] = (char)('a' + mt19937_interval (&mt, i % 2 ? 2 : 1));
            count = merge_slowly (bpe, word, size, want);
            for (int w = 0; w < 2; w++) {
                out.count = 0;
                (w ? bpe_merge_long : bpe_merge_short) (bpe, &scratch, word, size, &out,
                                                        NULL);
                same[w] += out.count == count
                           && (count == 0
                               || memcmp (out.ids, want, count * sizeof (*want)) == 0);
            }
        }
        bpe_destroy (bpe);
    }
    is_int (same[0], LISTS * WORDS, "random words and merges: the short way");
    is_int (same[1], LISTS * WORDS, "and the long one");
    bpe_scratch_clear (&scratch);
    free (out.ids);
}

/* One pair at a time, the leftmost of the best. */
static size_t merge_best_first (const struct bpe_pairs *pairs, int32_t *ids, size_t n)
{
    for (;;) {
        const struct bpe_pair *best = NULL;
        size_t at = 0;

        for (size_t i = 0; i + 1 < n; i++) {
            const struct bpe_pair *pair = bpe_pairs_find (pairs, ids[i], ids[i + 1]);

            if (pair->rank >= 0 && (!best || pair->rank < best->rank)) {
                best = pair;
                at = i;
            }
        }
        if (!best)
            return n;
        ids[at] = best->merged;
        memmove (&ids[at + 1], &ids[at + 2], (n - at - 2) * sizeof (*ids));
        n--;
    }
}

/* Random words with random pairs of two letters and what has been made of them. */
static void test_best_first (void)
{
    enum { LISTS = 40, PAIRS = 12, WORDS = 100, LENGTH = 60 };
    struct bpe_scratch scratch = { NULL, 0 };
    struct mt19937 mt;
    int same[2] = { 0, 0 };

    mt19937_seed (&mt, 11, NULL);
    for (int list = 0; list < LISTS; list++) {
        struct bpe_pairs pairs = { NULL, 0 };

        if (bpe_pairs_create (&pairs, PAIRS, NULL) < 0)
            bail_out ("no memory");
        for (int32_t k = 0; k < PAIRS; k++)
            bpe_pairs_put (&pairs, (int32_t)mt19937_interval (&mt, (uint32_t)k + 1),
                           (int32_t)mt19937_interval (&mt, (uint32_t)k + 1), k, k + 2);
        for (int i = 0; i < WORDS; i++) {
            int32_t word[LENGTH], want[LENGTH], got[LENGTH];
            size_t size = mt19937_interval (&mt, LENGTH - 1), count;

            for (size_t k = 0; k < size; k++)
                want[k] = word[k] = (int32_t)mt19937_interval (&mt, 1);
            count = merge_best_first (&pairs, want, size);
            for (int w = 0; w < 2; w++) {
                size_t n = size;

                memcpy (got, word, size * sizeof (*got));
                (w ? bpe_merge_ids_long : bpe_merge_ids_short) (&pairs, BPE_BEST_FIRST, &scratch,
                                                                got, &n, NULL);
                same[w] += n == count && memcmp (got, want, n * sizeof (*got)) == 0;
            }
        }
        bpe_pairs_clear (&pairs);
    }
    is_int (same[0], LISTS * WORDS, "the leftmost of the best pairs: the short way");
    is_int (same[1], LISTS * WORDS, "and the long one");
    bpe_scratch_clear (&scratch);
}

/* A word without end must not take its length squared. */
static void test_long (void)
{
    enum { SIZE = 3000000 };
    struct bpe *bpe = open_small ();
    struct bpe_scratch scratch = { NULL, 0 };
    struct token_buffer out = { NULL, 0, 0 };
    char *word = malloc (SIZE);
    size_t bytes = 0;

    if (!word)
        bail_out ("no memory");
    for (int i = 0; i < SIZE; i++)
        word[i] = "abhel"[(i * 7919u >> 3) % 5];
    ok (bpe_merge (bpe, &scratch, word, SIZE, &out, NULL) == 0, "a word of 3 MB");
    for (size_t i = 0; i < out.count; i++) {
        size_t n;

        bpe_token (bpe, out.ids[i], &n);
        bytes += n;
    }
    is_int (bytes, SIZE, "whose %zu tokens are as long", out.count);
    bpe_scratch_clear (&scratch);
    free (out.ids);
    free (word);
    bpe_destroy (bpe);
}

/* The text of a small encoder.json with one place changed. */
static void write_changed (const char *path, const char *from, const char *to)
{
    size_t size = 0;
    unsigned char *text = read_bytes (path, &size);
    const char *at;
    FILE *f;

    text[size] = '\0';
    if (!(at = strstr ((char *)text, from)) || !(f = fopen (path, "w")))
        bail_out ("no %s in %s", from, path);
    fwrite (text, 1, at - (char *)text, f);
    fputs (to, f);
    fputs (at + strlen (from), f);
    fclose (f);
    free (text);
}

static void test_faults (void)
{
    static const struct {
        bool in_merges;
        const char *from, *to;
        const char *text;
    } cases[] = {
        { false, "{", "[", "vocab.json:1: " },
        { false, "262}", "262", "vocab.json:1: " },
        { false, "{", "{\"h\": 3, ", "vocab.json:1: duplicate object key" },
        { false, "\"h\": 104", "\"h\": -1",
          "vocab.json: id of \"h\" is -1, want 0 to 262" },
        { false, "\"h\": 104", "\"h\": 263", "id of \"h\" is 263, want 0 to 262" },
        { false, "\"h\": 104", "\"h\": 105", "\"h\" and \"i\" have one id, 105" },
        { false, "\"h\": 104", "\"h\": 1.5", "id of \"h\" is no whole number" },
        { false, "\"h\": 104", "\"h\": \"104\"", "id of \"h\" is no whole number" },
        { false, "\"h\": 104", "\"hh\": 104", "no token for the byte 0x68" },
        { false, "\"h\": 104", "\"h\\u4e2d\": 104",
          "token 104, \"h\xe4\xb8\xad\", has a character that stands for no byte" },
        { false, "\"h\": 104", "\"h \": 104", "has a character that stands for no byte" },
        { false, "\"h\": 104", "\"\": 104", "token 104, \"\", is empty" },
        { false, "endoftext", "end",
          "no token \"<|endoftext|>\", the end of a document" },
        { true, "h e", "h", "merges.bpe:2: \"h\", want two tokens with one blank" },
        { true, "h e", "h e l", "merges.bpe:2: \"h e l\", want two tokens" },
        { true, "h e", " e", "merges.bpe:2: \" e\", want two tokens" },
        { true, "h e", "h ", "merges.bpe:2: \"h \", want two tokens" },
        { true, "h e", "h  e", "merges.bpe:2: \"h  e\", want two tokens" },
        { true, "h e", "h e\r", "merges.bpe:2: \"e?\" is not in " },
        { true, "h e", "h zz", "merges.bpe:2: \"zz\" is not in " },
        { true, "h e", "h \xff", "merges.bpe:2: \"\xff\" is not in " },
        { true, "h e", "h l",
          "merges.bpe:2: \"h\" and \"l\" make a token that is not in " },
        { true, "l l", "h e", "merges.bpe:3: the merge \"h e\" is on line 2 too" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err = { .text = "" };

        write_vocab (vocab, small, COUNT (small));
        write_merges (merge, small, NULL, COUNT (small));
        write_changed (cases[i].in_merges ? merge : vocab, cases[i].from, cases[i].to);
        errno = 0;
        if (!ok (!bpe_create (vocab, merge, &err) && errno == EINVAL
                 && strstr (err.text, cases[i].text) && !strchr (err.text, '\n'),
                 "refused: %s", err.text))
            diag ("errno %d, want: %s", errno, cases[i].text);
    }
}

static void test_files (void)
{
    static const char *const no_merges[] = { "", "#version: 0.2\n", "\n\n" };
    struct mg_error err = { .text = "" };
    struct bpe *bpe;

    write_vocab (vocab, small, COUNT (small));
    for (size_t i = 0; i < COUNT (no_merges); i++) {
        write_bytes (merge, no_merges[i], strlen (no_merges[i]));
        ok (!bpe_create (vocab, merge, &err) && strstr (err.text, "no merges"),
            "refused: %s", err.text);
    }
    write_bytes (merge, "h e\n\nl l", 8);
    bpe = bpe_create (vocab, merge, &err);
    ok (bpe != NULL, "no heading, an empty line, no end of line");
    bpe_destroy (bpe);
    unlink (merge);
    errno = 0;
    ok (!bpe_create (vocab, merge, &err) && errno == ENOENT
        && strstr (err.text, "merges.bpe: No such file"), "refused: %s", err.text);
    unlink (vocab);
    errno = 0;
    ok (!bpe_create (vocab, merge, &err) && errno == ENOENT
        && strstr (err.text, "vocab.json: No such file"), "refused: %s", err.text);
}

/* Any byte, or one near what was there. */
static void damage (struct mt19937 *mt, unsigned char *byte)
{
    if (mt19937_interval (mt, 1))
        *byte = mt19937_next (mt) >> 24;
    else
        *byte += mt19937_interval (mt, 4) - 2;
}

/* Whatever is in the files, they are refused by name, or the tables can be used. */
static void test_mutations (void)
{
    enum { ROUNDS = 1500 };
    char file[2][300];
    unsigned char *good[2];
    size_t size[2];
    struct mt19937 mt;
    int refused = 0, accepted = 0;

    write_vocab (vocab, small, COUNT (small));
    write_merges (merge, small, NULL, COUNT (small));
    for (int f = 0; f < 2; f++) {
        strcpy (file[f], f ? merge : vocab);
        good[f] = read_bytes (file[f], &size[f]);
    }
    mt19937_seed (&mt, 20240301, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        int which = mt19937_interval (&mt, 1);
        size_t n = size[which];
        unsigned char *bad = malloc (n);
        struct token_buffer out = { NULL, 0, 0 };
        struct bpe_scratch scratch = { NULL, 0 };
        struct mg_error err = { .text = "" };
        struct bpe *bpe;

        memcpy (bad, good[which], n);
        for (int k = 1 + mt19937_interval (&mt, 2); k > 0; k--)
            damage (&mt, bad + mt19937_interval (&mt, n - 1));
        if (mt19937_interval (&mt, 7) == 0)
            n = mt19937_interval (&mt, n);
        write_bytes (file[which], bad, n);
        if (!(bpe = bpe_create (vocab, merge, &err)))
            refused += strstr (err.text, folder) && !strchr (err.text, '\n');
        else
            accepted += bpe_merge (bpe, &scratch, "hellobaaaa\xff", 11, &out, NULL) == 0;
        bpe_destroy (bpe);
        bpe_scratch_clear (&scratch);
        free (out.ids);
        free (bad);
        write_bytes (file[which], good[which], size[which]);
    }
    is_int (refused + accepted, ROUNDS, "damaged files are refused by name, or good");
    diag ("%d refused, %d still good", refused, accepted);
    free (good[0]);
    free (good[1]);
}

int main (void)
{
    folder_create (folder, sizeof (folder));
    snprintf (vocab, sizeof (vocab), "%s/vocab.json", folder);
    snprintf (merge, sizeof (merge), "%s/merges.bpe", folder);
    test_tables ();
    test_words ();
    test_ways ();
    test_best_first ();
    test_long ();
    test_faults ();
    test_files ();
    test_mutations ();
    folder_remove (folder);
    return done_testing ();
}
