/* dataset_text.c - splits, blends, and the texts that describe indices
 *
 * Input: a number that chooses, then the text: of a split, or the words of a blend, one a
 * line.
 */

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/data/blend.h"
#include "libcore/data/gpt_index.h"
#include "libcore/data/index_text.h"
#include "libcore/data/split.h"
#include "tests/fuzz/fuzz.h"

/* Parts of a split cover all documents, in order. */
static void check_split (const struct split *split, int64_t count)
{
    int64_t begin, end, last = 0;

    for (int i = 0; i < SPLIT_NUM_PARTS; i++) {
        split_range (split, (enum split_part)i, count, &begin, &end);
        fuzz_check (begin == last && end >= begin && end <= count, "part %d is [%jd, %jd)", i,
                    (intmax_t)begin, (intmax_t)end);
        last = end;
    }
    fuzz_check (last == count, "the parts have %jd of %jd", (intmax_t)last, (intmax_t)count);
}

/* The description is JSON, and has the same texts in it. */
static void check_text (const char *prefix, const char *split)
{
    struct gpt_identity id = { .prefix = prefix, .num_samples = GPT_INDEX_ONE_EPOCH,
                               .seq_length = 8, .split = split };
    json_t *utf8 = json_string (prefix), *root;
    char *text = index_text_gpt (&id, NULL);

    fuzz_check (!split || text || !utf8, "a split that is read has no description");
    if (text && utf8) {
        root = json_loads (text, 0, NULL);
        fuzz_check (root, "the description is no JSON");
        fuzz_check (json_equal (json_object_get (root, "dataset_path"), utf8),
                    "another prefix");
        json_decref (root);
    }
    json_decref (utf8);
    free (text);
}

static void run_split (struct fuzz_input in)
{
    int64_t count = (int64_t)fuzz_number (&in, 3);
    char *text = fuzz_text (in);
    struct split split;

    if (split_parse (text, &split, NULL) == 0) {
        check_split (&split, count);
        check_text ("some/prefix", text);
    }
    check_text (text, NULL);
    free (text);
}

static void run_blend (struct fuzz_input in)
{
    struct blend blend;
    char **words;
    int n;

    words = fuzz_words (&in, "", &n);
    if (blend_parse ((const char *const *)words + 1, (size_t)n - 1, &blend, NULL) < 0) {
        fuzz_check (blend.count == 0 && !blend.prefixes && !blend.weights,
                    "a failure leaves something");
        free (words);
        return;
    }
    fuzz_check (blend.count >= 1 && blend.count <= BLEND_MAX, "%zu datasets", blend.count);
    for (size_t i = 0; i < blend.count; i++)
        fuzz_check (blend.prefixes[i][0] && (!blend.weights || blend.weights[i] > 0.),
                    "dataset %zu has no name or no weight", i);
    if (blend.weights) {
        blend_normalize (blend.weights, blend.count);
        for (size_t i = 0; i < blend.count; i++) {
            int64_t share = blend_share (1000000, blend.weights[i], BLEND_SURPLUS, NULL);

            fuzz_check (share >= 0 && share <= 1005001, "dataset %zu: a share of %jd", i,
                        (intmax_t)share);
        }
    }
    blend_clear (&blend);
    free (words);
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };

    if (fuzz_number (&in, 1) % 2 == 0)
        run_split (in);
    else
        run_blend (in);
}

const struct fuzz_target fuzz_dataset_text = { "dataset_text", run };
