/* hf_config.c - config.json and the index of Hugging Face's models: a config.json that describes a
 * model is written as another one that describes the same model
 *
 * Input: a number that chooses, then the text: of an index if the number is odd, else of a
 * config.json.
 */

#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/hf_config.h"
#include "libcore/checkpoint/hf_index.h"
#include "libcore/args/model_notes.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_LAYERS = 100 };

static void check_index (const char *text, size_t len)
{
    struct hf_index index;

    if (hf_index_parse (text, len, &index, NULL) < 0)
        return;
    fuzz_check (index.num_files > 0, "no files");
    for (size_t i = 0; i < index.num_files; i++)
        fuzz_check (!strchr (index.file[i], '/') && index.file[i][0] != '.', "a file elsewhere");
    hf_index_clear (&index);
}

static void check_back (const struct notes *args, const struct model_config *c,
                        const struct names_scheme *scheme)
{
    const struct names_scheme *again = NULL;
    struct notes back = { .num = 0 };
    struct model_config same;
    char *text = hf_config_format (args, MG_FLOAT32, &again, NULL);

    fuzz_check (text && again == scheme, "a model is not written");
    fuzz_check (hf_config_parse (text, strlen (text), &back, &again, NULL) == 0
                    && model_notes_config (&back, &same, NULL) == 0, "it is not read");
    fuzz_check (!model_notes_difference (c, &same), "it is another model");
    notes_clear (&back);
    free (text);
}

static void check_config (const char *text, size_t len)
{
    const struct names_scheme *scheme = NULL;
    struct notes args = { .num = 0 }, made = { .num = 0 };
    struct model_config c, same;

    if (hf_config_parse (text, len, &args, &scheme, NULL) == 0
        && model_notes_config (&args, &c, NULL) == 0 && c.num_layers <= MAX_LAYERS) {
        check_back (&args, &c, scheme);
        fuzz_check (model_notes_make (&c, &made, NULL) == 0
                        && model_notes_config (&made, &same, NULL) == 0
                        && !model_notes_difference (&c, &same), "notes of another model");
    }
    notes_clear (&made);
    notes_clear (&args);
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    bool index = fuzz_number (&in, 1) % 2 == 1;
    char *text = fuzz_text (in);

    if (index)
        check_index (text, in.left);
    else
        check_config (text, in.left);
    free (text);
}

const struct fuzz_target fuzz_hf_config = { "hf_config", run };
