/* fim.c - any tokens, cut for fill-in-the-middle: a sample keeps its length and has no token but
 * those that it had, and it depends on its number alone
 *
 * Input: the tokenizer, three rates, the split token, the number of the sample, a text for
 * no_prefix, then a token in two bytes each.
 */

#include <stdlib.h>
#include <string.h>

#include "libcore/data/fim.h"
#include "tests/fuzz/fuzz.h"

enum { EOD = 256, PRE = 300, MID, SUF, PAD, TOKENS = 512, SAMPLE_MAX = 4096 };

static void check_tokens (const int32_t *was, const int32_t *is, int n, int used)
{
    static const int32_t added[] = { PRE, MID, SUF };
    int count[TOKENS] = { 0 };

    fuzz_check (used >= 0 && used <= n, "%d tokens of %d", used, n);
    for (int i = 0; i < n; i++)
        count[was[i]]++;
    for (int i = 0; i < used; i++) {
        fuzz_check (is[i] >= 0 && is[i] < TOKENS, "token %d", (int)is[i]);
        count[is[i]]--;
    }
    for (size_t i = 0; i < sizeof (added) / sizeof (added[0]); i++)
        count[added[i]] = 0;
    for (int i = 0; i < TOKENS; i++)
        fuzz_check (count[i] >= 0, "token %d is there more often than before", i);
    for (int i = used; i < n; i++)
        fuzz_check (is[i] == PAD, "token %d is in the padding", (int)is[i]);
}

static void run (const uint8_t *data, size_t size)
{
    static struct tokenizer *bytes;
    static int32_t was[SAMPLE_MAX], first[SAMPLE_MAX], again[SAMPLE_MAX];
    struct fuzz_input in = { data, size };
    struct fim_config config = { .prefix = PRE, .middle = MID, .suffix = SUF, .pad = PAD,
                                 .eod = EOD, .seed = 3 };
    struct tokenizer *tokenizer;
    struct fim *one, *two;
    int64_t index;
    int n = 0, used[2];
    char *text;

    if (!bytes)
        bytes = tokenizer_create ("ByteLevel", NULL, NULL);
    fuzz_check (bytes, "no tokenizer");
    tokenizer = fuzz_number (&in, 1) % 2 ? bytes : NULL;
    config.rate = (double)fuzz_number (&in, 1) / 255.;
    config.spm_rate = (double)fuzz_number (&in, 1) / 255.;
    config.fragment_rate = (double)fuzz_number (&in, 1) / 255.;
    config.split = fuzz_range (&in, -1, TOKENS - 1);
    index = (int64_t)fuzz_number (&in, 7);
    text = fuzz_text (fuzz_part (&in));
    config.no_prefix = *text ? text : NULL;
    while (in.left > 0 && n < SAMPLE_MAX)
        was[n++] = (int32_t)(fuzz_number (&in, 2) % TOKENS);
    memcpy (first, was, sizeof (was));
    memcpy (again, was, sizeof (was));
    one = fim_create (&config, tokenizer, NULL);
    two = fim_create (&config, tokenizer, NULL);
    fuzz_check (one && two, "not created");
    fuzz_check (n == 0 || fim_apply (two, index + 1, again, n, &used[1], NULL) == 0, "fails");
    memcpy (again, was, sizeof (was));
    if (n > 0) {
        fuzz_check (fim_apply (one, index, first, n, &used[0], NULL) == 0, "fails");
        fuzz_check (fim_apply (two, index, again, n, &used[1], NULL) == 0, "fails");
        fuzz_check (used[0] == used[1] && memcmp (first, again, sizeof (first)) == 0,
                    "another sample behind another one");
        check_tokens (was, first, n, used[0]);
    }
    fim_destroy (one);
    fim_destroy (two);
    free (text);
}

const struct fuzz_target fuzz_fim = { "fim", run };
