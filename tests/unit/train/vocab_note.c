/* vocab_note - a tokenizer with more tokens than the model is told before the first iteration */

#include <string.h>

#include "libcore/train/config.h"
#include "tests/tap/tap.h"

static const struct {
    const char *type, *model;
    int tokens, vocab; /* tokens: known already, 0: not */
    const char *want;  /* NULL: no note */
} cases[] = {
    { "ByteLevel", NULL, 0, 256, "has 257 tokens, the model's vocabulary 256: a sample with a "
      "token from 256 on" },
    { "ByteLevel", NULL, 0, 257, NULL },
    { "ByteLevel", NULL, 257, 200, "has 257 tokens, the model's vocabulary 200" },
    { NULL, NULL, 0, 256, NULL },
    { "HuggingFaceTokenizer", "/nonexistent/tokenizer.json", 0, 256, NULL },
};

int main (void)
{
    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        struct run_config c = { .tokenizer_size = cases[i].tokens };
        char note[200] = "";
        bool is;

        c.data.tokenizer = cases[i].type;
        c.data.tokenizer_files.model = cases[i].model;
        c.model.config.vocab_size = cases[i].vocab;
        is = run_config_vocab_note (&c, note, sizeof (note));
        ok (is == (cases[i].want != NULL) && (!is || strstr (note, cases[i].want)), "case %zu: %s",
            i, note);
    }
    return done_testing ();
}
