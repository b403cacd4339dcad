/* data.c - megatron data: the table of its parts, and what they have in common
 *
 * Finds the part by its name and runs it.  The options that parts share (prefix, tokenizer,
 * --json, --help) are rows of tables here.
 */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/data/data.h"
#include "libcore/base/parse.h"

/* In the order of --help, closed by a row without a name. */
static const struct cmd_part parts[] = {
    { "tokenize", "text to a dataset, PREFIX.bin and PREFIX.idx", data_tokenize },
    { "encode", "the token ids of a text", data_encode },
    { "decode", "the text of token ids", data_decode },
    { "train-tokenizer", "text to a tokenizer of its own", data_train_tokenizer },
    { "index", "which tokens make each sample of a dataset", data_index },
    { "merge", "several datasets become one", data_merge },
    { "split", "one dataset becomes several", data_split },
    { "inspect", "check a dataset, tell what is in it", data_inspect },
    { NULL, NULL, NULL },
};

int data_check_name (const char *what, const char *value, struct mg_error *err)
{
    return *value ? 0 : mg_error_set (err, EINVAL, "%s: an empty name", what);
}

int data_check_prefix (const char *what, const char *value, struct mg_error *err)
{
    const char *ending = strrchr (value, '.');

    if (data_check_name (what, value, err) < 0)
        return -1;
    if (ending && (strcmp (ending, ".bin") == 0 || strcmp (ending, ".idx") == 0))
        return mg_error_set (err, EINVAL,
                             "%s: \"%.200s\" is one of two files, leave %s out", what,
                             value, ending);
    return 0;
}

void data_print_string (const char *text)
{
    putchar ('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            printf ("\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            printf ("\\u%04x", *text);
        else
            putchar (*text);
    }
    putchar ('"');
}

int data_set_prefix (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    const char **prefix = (const char **)((char *)target + option->at);

    if (!option->name[0] && *prefix)
        return mg_error_set (err, EINVAL, "%s: \"%.60s\" is one too many", what, value);
    if (data_check_prefix (what, value, err) < 0)
        return -1;
    *prefix = value;
    return 0;
}

const struct cmd_option data_common_options[] = {
    { .name = "", .arg = "PREFIX", .help = "the dataset PREFIX.bin and PREFIX.idx",
      .set = data_set_prefix, .at = offsetof (struct data_common, prefix), .required = true },
    { .name = "json", .help = "print JSON", .set = cmd_set_flag,
      .at = offsetof (struct data_common, json) },
    { .name = "help", .help = "print this help", .set = cmd_set_flag,
      .at = offsetof (struct data_common, help) },
    { .name = NULL },
};

const struct cmd_option data_help_options[] = {
    { .name = "help", .help = "print this help", .set = cmd_set_flag },
    { .name = NULL },
};

static int set_null_eod (void *target, const struct cmd_option *option,
                         const char *what, const char *value, struct mg_error *err)
{
    struct tokenizer_files *files = &((struct data_tokenizer *)target)->files;

    (void)option;
    files->has_eod = true;
    return parse_int (what, value, 0, INT32_MAX - 1, &files->eod, err);
}

const struct cmd_option data_tokenizer_options[] = {
    { .name = "tokenizer-type", .arg = "TYPE",
      .help = "ByteLevel (default), GPT2BPETokenizer, HuggingFaceTokenizer or NullTokenizer",
      .set = cmd_set_text, .at = offsetof (struct data_tokenizer, type) },
    { .name = "vocab-file", .arg = "FILE",
      .help = "vocabulary of GPT2BPETokenizer, encoder.json", .set = cmd_set_text,
      .at = offsetof (struct data_tokenizer, files.vocab) },
    { .name = "merge-file", .arg = "FILE",
      .help = "merges of GPT2BPETokenizer, vocab.bpe", .set = cmd_set_text,
      .at = offsetof (struct data_tokenizer, files.merge) },
    { .name = "tokenizer-model", .arg = "PATH",
      .help = "tokenizer.json of HuggingFaceTokenizer, or its directory",
      .set = cmd_set_text, .at = offsetof (struct data_tokenizer, files.model) },
    { .name = "tokenizer-hf-no-include-special-tokens",
      .help = "put no tokens around a text, such as one that begins it",
      .set = cmd_set_flag,
      .at = offsetof (struct data_tokenizer, files.no_special_tokens) },
    { .name = "vocab-size", .arg = "N",
      .help = "tokens of NullTokenizer, which are numbers", .set = cmd_set_int,
      .at = offsetof (struct data_tokenizer, files.vocab_size), .min = 1,
      .max = INT32_MAX },
    { .name = "null-tokenizer-eod-id", .arg = "ID",
      .help = "its end of document, default the last token", .set = set_null_eod },
    { .name = NULL },
};

int data_tokenizer_check (void *tokenizer, struct mg_error *err)
{
    const struct data_tokenizer *t = tokenizer;

    return tokenizer_check (t->type, &t->files, err);
}

int data_usage_error (const char *part, const struct mg_error *err)
{
    return cmd_part_usage ("data", part, err->text);
}

int data_failure (const char *part, const struct mg_error *err)
{
    fprintf (stderr, "megatron: data %s: %s\n", part, err->text);
    return DATA_FAILED;
}

int cmd_data (int argc, char **argv)
{
    static const char purpose[] =
        "Make datasets in Megatron's indexed form, list and look at them.";

    return cmd_part_run ("data", purpose, parts, argc, argv);
}
