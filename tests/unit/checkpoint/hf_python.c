/* hf_python - config.json and the index as Python's json reads and writes them */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/hf_config.h"
#include "libcore/checkpoint/hf_index.h"
#include "tests/tap/tap.h"

#define LLAMA(fields) \
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":32," \
    "\"intermediate_size\":56,\"num_hidden_layers\":3,\"num_attention_heads\":4," \
    "\"num_key_value_heads\":2,\"vocab_size\":96" fields "}"

static const struct {
    const char *text, *wrong; /* NULL: accepted */
} configs[] = {
    { LLAMA (",\"router_z\":NaN,\"a\":[Infinity,{\"b\":-Infinity}],\"c\":1e999"), NULL },
    { LLAMA (",\"d\":\"\\ud83d\",\"\\ud83d\":0,\"e\":\"\\u0000\",\"\\u0000\":1"), NULL },
    { LLAMA (",\"f\":123456789012345678901234567890"), NULL },
    { LLAMA (",\"rms_norm_eps\":1,\"rms_norm_eps\":1e-5"), NULL },
    { LLAMA (",\"rms_norm_eps\":NaN"), "rms_norm_eps is \"NaN\": want a number" },
    { LLAMA (",\"rms_norm_eps\":1e999"), ": this is too large" },
    { LLAMA (",\"max_position_embeddings\":Infinity"), "max_position_embeddings is \"Infinity\"" },
    { LLAMA (",\"hidden_act\":NaN"), "hidden_act is \"NaN\"" },
    { LLAMA (",\"g\":nan"), "not valid JSON: line 1: no value" },
};

/* Accepted files are written, and read once more as the same model. */
static void test_configs (void)
{
    for (size_t i = 0; i < sizeof (configs) / sizeof (configs[0]); i++) {
        const struct names_scheme *scheme;
        struct notes args = { .num = 0 }, back = { .num = 0 };
        struct mg_error err = { "" };
        int rc = hf_config_parse (configs[i].text, strlen (configs[i].text), &args, &scheme, &err);
        char *text = rc == 0 ? hf_config_format (&args, MG_FLOAT32, &scheme, &err) : NULL;

        if (configs[i].wrong)
            ok (rc < 0 && strstr (err.text, configs[i].wrong), "config %zu: %s", i, err.text);
        else
            ok (text && hf_config_parse (text, strlen (text), &back, &scheme, &err) == 0,
                "config %zu %s", i, err.text);
        free (text);
        notes_clear (&args);
        notes_clear (&back);
    }
}

static void test_last (void)
{
    const struct names_scheme *scheme;
    struct notes args = { .num = 0 };
    int rc = hf_config_parse (configs[3].text, strlen (configs[3].text), &args, &scheme, NULL);
    const char *epsilon = rc == 0 ? notes_find (&args, "norm-epsilon") : NULL;

    ok (epsilon && strcmp (epsilon, "1e-05") == 0, "the last of two fields of the same name");
    notes_clear (&args);
}

static void test_index (void)
{
    static const char text[] = "{\"metadata\":{\"total_size\":NaN,\"x\":\"\\ud83d\"},"
                               "\"weight_map\":{\"a\":\"f\",\"b\":\"f\"}}";
    struct mg_error err = { "" };
    struct hf_index index;

    if (ok (hf_index_parse (text, sizeof (text) - 1, &index, &err) == 0 && index.num_files == 1,
            "an index %s", err.text))
        hf_index_clear (&index);
}

int main (void)
{
    test_configs ();
    test_last ();
    test_index ();
    return done_testing ();
}
