/* index_text.c - descriptions and their sums, as Python writes them; MD5 */

#include <errno.h>
#include <stdint.h>

#include "libcore/data/gpt_index.h"
#include "libcore/data/index_text.h"
#include "tests/unit/data/support.h"

static void test_md5 (void)
{
    static const struct {
        const char *text;
        const char *hex;
    } cases[] = {
        /* RFC 1321, section A.5, and the lengths around a block */
        { "", "d41d8cd98f00b204e9800998ecf8427e" },
        { "a", "0cc175b9c0f1b6a831c399e269772661" },
        { "message digest", "f96b697d7cb7938d525a2f31aaf161d0" },
        { "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
          "d174ab98d277d9f5a5611c2c9f419d9f" },
        { "1234567890123456789012345678901234567890123456789012345678901234567890123456789"
          "0",
          "57edf4a22be3c955ac49da2e2107b67a" },
        { "0123456789012345678901234567890123456789012345678901234",
          "6e7a4fc92eb1c3f6e652425bcc8d44b5" },
        { "01234567890123456789012345678901234567890123456789012345",
          "8af270b2847610e742b0791b53648c09" },
        { "0123456789012345678901234567890123456789012345678901234567890123",
          "7f7bfd348709deeaace19e3f535f8c54" },
    };
    char hex[MD5_HEX_SIZE];

    for (size_t i = 0; i < COUNT (cases); i++) {
        md5_hex (cases[i].text, strlen (cases[i].text), hex);
        is_str (hex, cases[i].hex, "md5 of %zu bytes", strlen (cases[i].text));
    }
}

static void test_gpt (void)
{
    const struct index_tokenizer tokenizer = { "Tok", 100 };
    struct gpt_identity id = {
        .prefix = "a",
        .num_samples = GPT_INDEX_ONE_EPOCH,
        .part = SPLIT_TRAIN,
        .seed = 0,
        .seq_length = 8,
        .split = "1,0,0",
        .tokenizer = &tokenizer,
    };
    char hex[MD5_HEX_SIZE];
    char *text = index_text_gpt (&id, NULL);
    char *name;

    md5_hex (text, strlen (text), hex);
    is_str (hex, "e3dceb2959b1b9087b4a73502ca17cd6", "Megatron's sum for its own case");
    name = index_text_name ("dir", "GPTDataset", SPLIT_VALID, text, NULL);
    is_str (name, "dir/e3dceb2959b1b9087b4a73502ca17cd6-GPTDataset-valid-",
            "what its files begin with");
    free (name);
    free (text);
    id.tokenizer = NULL;
    id.split = NULL;
    id.num_samples = 5;
    text = index_text_gpt (&id, NULL);
    is_str (text, "{\n    \"class\": \"GPTDataset\",\n    \"dataset_path\": \"a\",\n"
            "    \"num_samples\": 5,\n    \"index_split\": \"train\",\n"
            "    \"random_seed\": 0,\n    \"sequence_length\": 8,\n    \"split\": null,\n"
            "    \"split_matrix\": null,\n    \"tokenizer\": null\n}",
            "a dataset of one part, without a tokenizer");
    free (text);
    id.split = "x";
    errno = 0;
    ok (!index_text_gpt (&id, NULL) && errno == EINVAL, "no description of a bad split");
}

static void test_strings (void)
{
    static const struct {
        const char *path;
        const char *json;
    } cases[] = { /* json.dumps (os.fsdecode (path)) */
        { "plain/path-1", "\"plain/path-1\"" },
        { "q\"b\\s\b\f\n\r\t", "\"q\\\"b\\\\s\\b\\f\\n\\r\\t\"" },
        { "\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\"" },
        { "\xc3\xa9\xe4\xb8\xad", "\"\\u00e9\\u4e2d\"" },
        { "\xf0\x9f\x98\x80", "\"\\ud83d\\ude00\"" },
        { "a\xff", "\"a\\udcff\"" },
        { "\xe4\xb8", "\"\\udce4\\udcb8\"" },
        { "\xed\xa0\x80", "\"\\udced\\udca0\\udc80\"" },
        { "\xc0\x80\xf4\x90\x80\x80",
          "\"\\udcc0\\udc80\\udcf4\\udc90\\udc80\\udc80\"" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        const struct gpt_identity id = { .prefix = cases[i].path, .seq_length = 8 };
        char *text = index_text_gpt (&id, NULL);

        ok (strstr (text, cases[i].json), "path %zu: %s", i, cases[i].json);
        free (text);
    }
}

static void test_numbers (void)
{
    static const struct {
        double value;
        const char *repr;
    } cases[] = {
        { 0.5, "0.5" }, { 1., "1.0" }, { 0.1, "0.1" }, { 1. / 3., "0.3333333333333333" },
        { 2. / 3., "0.6666666666666666" }, { 0.1 + 0.2, "0.30000000000000004" },
        { 1e-4, "0.0001" }, { 0.00012345, "0.00012345" }, { 1e-5, "1e-05" },
        { 1.25e-7, "1.25e-07" }, { 1e15, "1000000000000000.0" },
        { 9007199254740993., "9007199254740992.0" }, { 1e16, "1e+16" },
        { 1.5e300, "1.5e+300" }, { 123456.789, "123456.789" }, { 100., "100.0" },
        { 5e-324, "5e-324" }, { 9.99000000999e-07, "9.99000000999e-07" },
        { 1.7976931348623157e308, "1.7976931348623157e+308" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        const struct gpt_identity dataset = { .prefix = "p", .seq_length = 8 };
        const struct blend_identity id = { .datasets = &dataset, .count = 1,
                                           .weights = &cases[i].value, .size = 7 };
        char *text = index_text_blend (&id, NULL);
        char want[80];

        snprintf (want, sizeof (want), "\"weights\": [\n        %s\n    ],\n"
                  "    \"size\": 7\n}", cases[i].repr);
        if (!ok (strstr (text, want), "%s as Python writes it", cases[i].repr))
            diag ("%s", strstr (text, "\"weights\""));
        free (text);
    }
}

static void test_blend (void)
{
    const struct gpt_identity datasets[] = {
        { .prefix = "b", .num_samples = GPT_INDEX_ONE_EPOCH, .part = SPLIT_TEST,
          .seed = 1234, .seq_length = 16, .split = "0,1,1" },
        { .prefix = "c", .num_samples = GPT_INDEX_ONE_EPOCH, .part = SPLIT_TEST,
          .seed = 1234, .seq_length = 16, .split = "0,1,1" },
    };
    const int64_t sizes[] = { 3, 18 };
    const struct blend_identity id = { .datasets = datasets, .count = 2, .sizes = sizes };
    char *text = index_text_blend (&id, NULL);

    is_str (
        text,
        "{\n    \"class\": \"BlendedDataset\",\n    \"datasets\": [\n"
        "        {\n            \"class\": \"GPTDataset\",\n"
        "            \"dataset_path\": \"b\",\n            \"num_samples\": null,\n"
        "            \"index_split\": \"test\",\n            \"random_seed\": 1234,\n"
        "            \"sequence_length\": 16,\n            \"split\": \"0,1,1\",\n"
        "            \"split_matrix\": [\n                null,\n"
        "                [\n                    0.0,\n                    0.5\n"
        "                ],\n                [\n                    0.5,\n"
        "                    1.0\n                ]\n            ],\n"
        "            \"tokenizer\": null\n        },\n"
        "        {\n            \"class\": \"GPTDataset\",\n"
        "            \"dataset_path\": \"c\",\n            \"num_samples\": null,\n"
        "            \"index_split\": \"test\",\n            \"random_seed\": 1234,\n"
        "            \"sequence_length\": 16,\n            \"split\": \"0,1,1\",\n"
        "            \"split_matrix\": [\n                null,\n"
        "                [\n                    0.0,\n                    0.5\n"
        "                ],\n                [\n                    0.5,\n"
        "                    1.0\n                ]\n            ],\n"
        "            \"tokenizer\": null\n        }\n    ],\n"
        "    \"split\": \"test\",\n    \"weights\": [\n        3,\n        18\n    ],\n"
        "    \"size\": null\n}",
        "a blend");
    free (text);
}

/* The descriptions of all reference cases, and their sums. */
static void test_golden (void)
{
    json_t *golden = load_golden ();
    json_t *one;
    size_t i;

    json_array_foreach (json_object_get (golden, "gpt_dataset"), i, one) {
        const char *want = json_text (one, "unique_description");
        json_t *fields = json_loads (want, 0, NULL);
        const json_t *tok = json_object_get (fields, "tokenizer");
        const json_t *n = json_object_get (fields, "num_samples");
        const struct index_tokenizer tokenizer = { json_text (tok, "cls"),
                                                   json_int (tok, "vocab_size") };
        struct gpt_identity id = {
            .prefix = json_text (fields, "dataset_path"),
            .num_samples = json_is_integer (n) ? json_integer_value (n)
                                               : GPT_INDEX_ONE_EPOCH,
            .seed = json_int (fields, "random_seed"),
            .seq_length = json_int (fields, "sequence_length"),
            .split = json_text (fields, "split"),
            .tokenizer = &tokenizer,
        };
        char hex[MD5_HEX_SIZE];
        char *text;

        split_part_by_name (json_text (fields, "index_split"), &id.part, NULL);
        text = index_text_gpt (&id, NULL);
        md5_hex (text, strlen (text), hex);
        ok (strcmp (text, want) == 0
            && strcmp (hex, json_text (one, "unique_description_md5")) == 0,
            "reference case %zu: %s", i, hex);
        free (text);
        json_decref (fields);
    }
    json_decref (golden);
}

static void test_names (void)
{
    static const char *const endings[] = { "first.npy", "second.npy" };
    struct index_names names = { 0 };
    char directory[500], *path[3];
    struct mg_error err;

    folder_create (directory, sizeof (directory));
    if (!ok (index_names_make (&names, strdup ("text"), directory, "GPTDataset", SPLIT_TEST,
                               endings, 2, &err) == 0, "names of two arrays"))
        return;
    is_str (names.text, "text", "the description");
    ok (strstr (names.description, "/1cb251ec0d568de6a929b520c4aed8d1-GPTDataset-test-description"
                ".txt"), "its file: %s", names.description);
    ok (strstr (names.array[1], "-GPTDataset-test-second.npy"), "an array's: %s", names.array[1]);
    path[0] = names.array[0];
    path[1] = names.description;
    path[2] = names.array[1];
    for (int i = 0; i < 3; i++) {
        ok (!index_names_exist (&names), "%d of 3 files exist", i);
        fclose (fopen (path[i], "w"));
    }
    ok (index_names_exist (&names), "all exist");
    is_int (folder_files (directory, true), 3, "and no others");
    rmdir (directory);
    errno = ENOSPC;
    index_names_clear (&names);
    ok (errno == ENOSPC && !names.text && names.num_arrays == 0, "cleared, and errno kept");
    errno = EINVAL;
    ok (index_names_make (&names, NULL, ".", "GPTDataset", SPLIT_TEST, endings, 2, &err) == -1
            && errno == EINVAL && !names.description, "no text: no names");
    index_names_clear (&names);
}

int main (void)
{
    test_md5 ();
    test_gpt ();
    test_strings ();
    test_numbers ();
    test_blend ();
    test_golden ();
    test_names ();
    return done_testing ();
}
