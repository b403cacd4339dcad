/* fim.c - fill-in-the-middle: the parts are there, and put together they are what was cut */

#include <errno.h>
#include <stdint.h>

#include "libcore/data/fim.h"
#include "tests/unit/data/support.h"

enum { PRE = 300, MID, SUF, PAD, SPLIT, EOD = 256, MAX = 200 };

static const struct fim_config always = {
    .rate = 1, .spm_rate = 0, .fragment_rate = 1,
    .prefix = PRE, .middle = MID, .suffix = SUF, .pad = PAD, .eod = EOD,
    .split = -1, .seed = 7,
};

static struct fim *create (const struct fim_config *config, struct tokenizer *tokenizer)
{
    struct mg_error err = { .text = "" };
    struct fim *f = fim_create (config, tokenizer, &err);

    if (!f)
        bail_out ("%s", err.text);
    return f;
}

/* Rewrite; returns the number of tokens in front of the padding. */
static int apply (struct fim *f, int64_t index, int32_t *tokens, int n)
{
    struct mg_error err = { .text = "" };
    int used = -1;

    if (fim_apply (f, index, tokens, n, &used, &err) < 0)
        bail_out ("%s", err.text);
    return used;
}

static int find (const int32_t *tokens, int n, int32_t id)
{
    int i = 0;

    while (i < n && tokens[i] != id)
        i++;
    return i;
}

/* Undo PSM or SPM of one segment: its tokens to 'out', their number, or -1. */
static int undo (const int32_t *t, int n, int32_t *out)
{
    const int mid = find (t, n, MID), suf = find (t, n, SUF);
    const bool spm = n > 1 && t[1] == SUF;
    const int suffix = mid - suf - 1;
    int count = 0;

    if (n < 3 || t[0] != PRE || suf >= mid || mid >= n)
        return -1;
    for (int i = 1; !spm && i < suf; i++)
        out[count++] = t[i];
    for (int i = mid + 1; i < n; i++)
        out[count++] = t[i];
    memcpy (out + count, t + suf + 1, (size_t)suffix * sizeof (*t));
    return count + suffix;
}

/* Two copies of a text, of which the second is there to be cut off: so the first is whole. */
static void test_parts (struct tokenizer *tokenizer, double spm_rate, const char *what)
{
    static const char text[] = "the qu\303\251ick brown fox";
    const int n = (int)strlen (text);
    struct fim_config config = always;
    int wrong = 0, spm = 0, broken = 0;
    struct fim *f;

    config.spm_rate = spm_rate;
    f = create (&config, tokenizer);
    for (int64_t index = 0; index < 400; index++) {
        int32_t row[MAX], back[MAX];
        int size = 0, end;

        for (int copy = 0; copy < 2; copy++) {
            for (int i = 0; i < n; i++)
                row[size++] = (unsigned char)text[i];
            row[size++] = EOD;
        }
        wrong += apply (f, index, row, size) != size;
        end = find (row, size, EOD);
        wrong += end != n + 3 || undo (row, end, back) != n;
        spm += row[1] == SUF && row[2] != MID;
        for (int i = 0; i < n; i++)
            wrong += back[i] != (unsigned char)text[i];
        for (int i = 0; i < end; i++) // no cut between the bytes of a character
            broken += row[i] == 0303 && row[i + 1] != 0251;
    }
    is_int (wrong, 0, "%s: the parts of 400 samples", what);
    if (tokenizer)
        is_int (broken, 0, "%s: characters are not cut", what);
    else
        ok (broken > 0, "%s: tokens are all that counts", what);
    ok (spm_rate == 1. ? spm > 300 : spm < 100, "%s: %d begin with a suffix", what, spm);
    fim_destroy (f);
}

/* How often, over many samples, and that a sample does not depend on the ones before it. */
static void test_draws (void)
{
    struct fim_config config = always;
    struct fim *a, *b, *other;
    int cut = 0, differ = 0, same = 0, lengths[21] = { 0 }, rare = 0;

    config.rate = 0.3;
    config.spm_rate = 0.5;
    a = create (&config, NULL);
    b = create (&config, NULL);
    config.stream = 1;
    other = create (&config, NULL);
    for (int64_t index = 0; index < 4000; index++) {
        int32_t row[3][30], first[30];

        for (int k = 0; k < 3; k++)
            for (int i = 0; i < 30; i++)
                row[k][i] = i < 20 ? i : EOD;
        memcpy (first, row[0], sizeof (first));
        apply (a, index, row[0], 30);
        apply (b, 3999 - index, row[1], 30);
        memcpy (row[1], first, sizeof (first));
        apply (b, index, row[1], 30);
        apply (other, index, row[2], 30);
        differ += memcmp (row[0], row[1], sizeof (first)) != 0;
        same += memcmp (row[0], row[2], sizeof (first)) == 0;
        cut += row[0][0] == PRE;
        if (row[0][0] == PRE && row[0][1] != SUF)
            lengths[find (row[0], 30, SUF) - 1]++;
    }
    is_int (differ, 0, "a sample depends on its index alone");
    ok (same < 3000, "another stream draws otherwise: %d of 4000 alike", same);
    ok (cut > 1080 && cut < 1320, "%d of 4000 are cut, 1200 are wanted", cut);
    for (int i = 1; i <= 20; i++)
        rare += lengths[i] == 0;
    ok (rare <= 2, "prefixes have all lengths");
    fim_destroy (a);
    fim_destroy (b);
    fim_destroy (other);
}

/* Segments, fragments, lengths: rates of 0 and 1 leave nothing to chance but the bounds. */
static void test_structure (void)
{
    static const struct {
        const char *name;
        double rate, fragment_rate;
        int32_t split;
        int n, used, sentinels; /* of PRE */
        int32_t in[12], out[12];
    } cases[] = {
        { "no cut", 0, 1, -1, 6, 6, 0, { 1, 2, EOD, 3, 4, 5 }, { 1, 2, EOD, 3, 4, 5 } },
        { "empty segments go", 0, 1, -1, 6, 4, 0, { EOD, 1, EOD, EOD, 2, 3 },
          { 1, EOD, 2, 3, PAD, PAD } },
        { "ends alone", 1, 1, -1, 3, 0, 0, { EOD, EOD, EOD }, { PAD, PAD, PAD } },
        { "the last end stays", 0, 1, -1, 3, 3, 0, { 1, 2, EOD }, { 1, 2, EOD } },
        { "a sample that is too long", 1, 1, -1, 4, 4, 1, { 1, 1, 1, 1 }, { 0 } },
        { "a split token that is not there", 1, 0, SPLIT, 4, 4, 1, { 1, 1, 1, 1 }, { 0 } },
        { "fragments that are not cut", 1, 0, SPLIT, 6, 6, 0, { 1, SPLIT, 2, SPLIT, 3, 4 },
          { 1, SPLIT, 2, SPLIT, 3, 4 } },
        { "a segment that is not chosen", 0, 1, SPLIT, 4, 4, 0, { 1, SPLIT, SPLIT, 2 },
          { 1, SPLIT, SPLIT, 2 } },
        { "empty fragments go", 1, 0, SPLIT, 6, 3, 0, { SPLIT, 1, SPLIT, SPLIT, 2, EOD },
          { 1, SPLIT, 2, EOD, PAD, PAD } },
        { "fragments that are cut", 1, 1, SPLIT, 12, 12, 2,
          { 1, SPLIT, 2, EOD, EOD, EOD, EOD, EOD, EOD, EOD, EOD, EOD }, { 0 } },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct fim_config config = always;
        int32_t row[12];
        int sentinels = 0, used;
        struct fim *f;

        config.rate = cases[i].rate;
        config.fragment_rate = cases[i].fragment_rate;
        config.split = cases[i].split;
        f = create (&config, NULL);
        memcpy (row, cases[i].in, sizeof (row));
        used = apply (f, 5, row, cases[i].n);
        for (int k = 0; k < cases[i].n; k++)
            sentinels += row[k] == PRE;
        is_int (sentinels, cases[i].sentinels, "%s: cuts", cases[i].name);
        if (cases[i].sentinels == 0)
            ok (memcmp (row, cases[i].out, (size_t)cases[i].n * sizeof (*row)) == 0,
                "%s: tokens, %d used", cases[i].name, used);
        fim_destroy (f);
    }
}

static void test_no_prefix (struct tokenizer *bytes)
{
    struct fim_config config = always;
    int32_t row[20];
    struct fim *f;

    config.no_prefix = "#!";
    f = create (&config, bytes);
    for (int i = 0; i < 20; i++)
        row[i] = i == 10 ? EOD : (unsigned char)"#!abcdefgh-#abcdefgh"[i];
    apply (f, 0, row, 20);
    ok (row[0] == '#' && row[1] == '!' && row[9] == 'h' && row[10] == EOD,
        "what begins with the text is left");
    is_int (row[11], PRE, "what does not is cut");
    fim_destroy (f);
    fim_destroy (NULL);
}

/* A token without a text: the segment is cut between tokens. */
static void test_no_text (struct tokenizer *bytes)
{
    struct fim *f = create (&always, bytes);
    int32_t row[10] = { 1, 999, 2, EOD, 65, EOD, EOD, EOD, EOD, EOD }, back[10];

    is_int (apply (f, 0, row, 10), 10, "a token without text");
    ok (undo (row, 6, back) == 3 && back[0] == 1 && back[1] == 999 && back[2] == 2,
        "is kept");
    fim_destroy (f);
}

int main (void)
{
    struct tokenizer *bytes = tokenizer_create ("ByteLevel", NULL, NULL);

    if (!bytes)
        bail_out ("no tokenizer");
    test_parts (NULL, 0, "tokens, PSM");
    test_parts (NULL, 1, "tokens, SPM");
    test_parts (bytes, 0, "characters, PSM");
    test_parts (bytes, 1, "characters, SPM");
    test_draws ();
    test_structure ();
    test_no_prefix (bytes);
    test_no_text (bytes);
    tokenizer_destroy (bytes);
    return done_testing ();
}
