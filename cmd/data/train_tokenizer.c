/* train_tokenizer.c - megatron data train-tokenizer: text to a tokenizer.json */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/data/data.h"
#include "cmd/data/input.h"
#include "libcore/base/parse.h"
#include "libcore/file/durable.h"
#include "libcore/file/outfile.h"
#include "libcore/text/bpe_train.h"

enum { MAX_SPECIAL = 1000, MAX_VOCAB = 1 << 24 };

struct trainer_request {
    char **inputs; /* lent by the command line */
    size_t num_inputs;
    const char *output;
    const char *key;
    char *special[MAX_SPECIAL]; /* parts of 'names' */
    char *names;                /* copy of --special-tokens */
    struct bpe_train_options train;
    bool have_format;
    enum input_format format;
};

static int set_input (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    struct trainer_request *r = target;
    char **inputs = reallocarray (r->inputs, r->num_inputs + 1, sizeof (*inputs));

    (void)option, (void)what;
    if (!inputs)
        return mg_error_set (err, ENOMEM, "out of memory");
    r->inputs = inputs;
    r->inputs[r->num_inputs++] = (char *)value;
    return 0;
}

static int set_special_tokens (void *target, const struct cmd_option *option,
                               const char *what, const char *value, struct mg_error *err)
{
    struct trainer_request *r = target;
    char *names = strdup (value), *name = names;

    (void)option;
    free (r->names);
    r->names = names;
    r->train.num_special = 0;
    if (!names)
        return mg_error_set (err, ENOMEM, "out of memory");
    for (char *end = name; end; name = end + 1) {
        end = strchr (name, ',');
        if (end)
            *end = '\0';
        if (!*name)
            return mg_error_set (err, EINVAL, "%s: \"%.60s\" has an empty part", what, value);
        if (r->train.num_special == MAX_SPECIAL)
            return mg_error_set (err, EINVAL, "%s: want at most %d", what, MAX_SPECIAL);
        r->special[r->train.num_special++] = name;
    }
    return 0;
}

static int set_pattern (void *target, const struct cmd_option *option, const char *what,
                        const char *value, struct mg_error *err)
{
    (void)option;
    if (*value == '\0')
        return mg_error_set (err, EINVAL, "%s: an empty expression", what);
    ((struct trainer_request *)target)->train.pattern = value;
    return 0;
}

static int set_output (void *target, const struct cmd_option *option, const char *what,
                       const char *value, struct mg_error *err)
{
    (void)option;
    if (data_check_name (what, value, err) < 0)
        return -1;
    ((struct trainer_request *)target)->output = value;
    return 0;
}

static int set_input_format (void *target, const struct cmd_option *option,
                             const char *what, const char *value, struct mg_error *err)
{
    struct trainer_request *r = target;

    (void)option;
    r->have_format = strcmp (value, "auto") != 0;
    r->format = strcmp (value, "jsonl") == 0 ? INPUT_JSONL : INPUT_TEXT;
    if (r->have_format && r->format == INPUT_TEXT && strcmp (value, "text") != 0)
        return mg_error_set (err, EINVAL, "%s: \"%.40s\" is unknown, want auto, text or jsonl",
                             what, value);
    return 0;
}

static const struct cmd_option train_options[] = {
    { .name = "", .arg = "FILE...",
      .help = "plain text, or JSON lines if named *.jsonl, *.ndjson or *.json",
      .set = set_input, .required = true },
    { .name = "vocab-size", .arg = "N",
      .help = "tokens, with the 256 bytes and special tokens", .set = cmd_set_int,
      .at = offsetof (struct trainer_request, train.vocab_size), .min = 257, .max = MAX_VOCAB,
      .required = true },
    { .name = "output", .arg = "PATH",
      .help = "write PATH, a *.json, or PATH/tokenizer.json", .set = set_output,
      .required = true },
    { .name = "min-frequency", .arg = "N",
      .help = "merge a pair that occurs N times or more, default 2", .set = cmd_set_int64,
      .at = offsetof (struct trainer_request, train.min_frequency), .min = 1, .max = INT64_MAX },
    { .name = "special-tokens", .arg = "TOKEN,...",
      .help = "tokens that are no text, default <|endoftext|>; the first ends a document",
      .set = set_special_tokens },
    { .name = "pattern", .arg = "PATTERN",
      .help = "words: gpt2 (default), llama3, qwen2 or a regular expression",
      .set = set_pattern },
    { .name = "json-key", .arg = "KEY",
      .help = "key of a JSON line to read, default text", .set = cmd_set_text,
      .at = offsetof (struct trainer_request, key) },
    { .name = "input-format", .arg = "FORMAT",
      .help = "auto (default: by name), text or jsonl", .set = set_input_format },
    { .name = NULL },
};

static const char usage[] =
    "Usage: megatron data train-tokenizer FILE... --vocab-size N --output PATH "
    "[OPTION...]\n\n"
    "Train a byte pair encoding, and write it as a tokenizer.json.\n\n";

/* ---- reading ---- */

/* A line of plain text, or a string of a JSON line. */
static int count_text (void *arg, size_t key, const char *text, size_t size,
                       struct mg_error *err)
{
    (void)key;
    return bpe_train_add (arg, text, size, err);
}

static int count_end (void *arg, size_t key, struct mg_error *err)
{
    (void)arg, (void)key, (void)err;
    return 0;
}

struct lines {
    struct input_sink sink;
    char *key;
};

static int count_line (void *arg, const char *path, size_t number, const char *line,
                       size_t size, struct mg_error *err)
{
    const struct lines *lines = arg;
    char where[300];

    if (input_parse_line (line, size, &lines->key, 1, &lines->sink, err) == 0)
        return 0;
    snprintf (where, sizeof (where), "%.250s:%zu", path, number);
    return mg_error_prefix (err, "%s", where);
}

static int read_inputs (const struct trainer_request *r, struct bpe_train *train,
                        struct mg_error *err)
{
    struct lines lines = {
        .sink = { .text = count_text, .end_sequence = count_end, .end_document = count_end,
                  .arg = train },
        .key = (char *)r->key,
    };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < r->num_inputs; i++) {
        const char *path = r->inputs[i];
        enum input_format format = r->have_format ? r->format : input_format_by_name (path);

        rc = format == INPUT_JSONL
             ? input_read_lines (path, count_line, &lines, err)
             : input_read_text (path, INPUT_CUT_LINE, &lines.sink, err);
    }
    return rc;
}

/* ---- writing ---- */

static bool is_file (const char *path)
{
    const char *ending = strrchr (path, '.');
    struct stat st;

    if (stat (path, &st) == 0)
        return !S_ISDIR (st.st_mode);
    return ending && strcmp (ending, ".json") == 0;
}

/* Check that neither file of the output replaces an input. */
static int check_output (const struct trainer_request *r, struct mg_error *err)
{
    static const char *const names[] = { "tokenizer.json", "tokenizer_config.json" };
    const bool file = is_file (r->output);
    int rc = 0;

    for (int n = 0; rc == 0 && n < (file ? 1 : 2); n++) {
        char *path = file ? durable_path (err, "%s", r->output)
                          : durable_path (err, "%s/%s", r->output, names[n]);

        if (!path)
            return -1;
        for (size_t i = 0; rc == 0 && i < r->num_inputs; i++)
            rc = outfile_check_input (path, r->inputs[i], err);
        free (path);
    }
    return rc;
}

static int write_config (const struct trainer_request *r, struct mg_error *err)
{
    struct text_buffer text = { NULL, 0, 0 };
    char *path = durable_path (err, "%s/tokenizer_config.json", r->output);
    int rc = path ? bpe_train_config (&r->train, &text, err) : -1;

    if (rc == 0)
        rc = outfile_replace (path, text.data, text.size, err);
    text_buffer_clear (&text);
    free (path);
    return rc;
}

static int write_output (const struct trainer_request *r, const struct bpe_train *train,
                         struct mg_error *err)
{
    const bool file = is_file (r->output);
    struct text_buffer text = { NULL, 0, 0 };
    char *path;
    int rc;

    if (!file && durable_make_dirs (r->output, err) < 0)
        return -1;
    path = file ? durable_path (err, "%s", r->output)
                : durable_path (err, "%s/tokenizer.json", r->output);
    rc = path ? bpe_train_write (train, &text, err) : -1;
    if (rc == 0)
        rc = outfile_replace (path, text.data, text.size, err);
    if (rc == 0 && !file)
        rc = write_config (r, err);
    text_buffer_clear (&text);
    free (path);
    return rc;
}

static int train_tokenizer (const struct trainer_request *r, struct mg_error *err)
{
    struct bpe_train *train;
    int32_t tokens;
    int rc = -1;

    if (check_output (r, err) < 0)
        return -1;
    if (!(train = bpe_train_create (&r->train, err)))
        return -1;
    if (read_inputs (r, train, err) == 0 && bpe_train_learn (train, &tokens, err) == 0)
        rc = write_output (r, train, err);
    if (rc == 0) {
        printf ("%s: %d tokens\n", r->output, tokens);
        if (tokens < r->train.vocab_size)
            fprintf (stderr, "megatron: data train-tokenizer: note: no further pair occurs "
                     "%" PRId64 " times, %d tokens were wanted\n", r->train.min_frequency,
                     r->train.vocab_size);
    }
    bpe_train_destroy (train);
    return rc;
}

static int run (int argc, char **argv, struct trainer_request *r)
{
    bool help = false;
    const struct cmd_option_table tables[] = {
        { train_options, r },
        { data_help_options, &help },
    };
    const struct cmd_syntax syntax = { "data", usage, tables, 2, &help, NULL, NULL };
    struct mg_error err;
    int status;

    status = cmd_part_read (&syntax, argc, argv);
    if (status != CMD_GO)
        return status;
    return train_tokenizer (r, &err) < 0 ? data_failure (argv[0], &err) : 0;
}

int data_train_tokenizer (int argc, char **argv)
{
    static char end_of_document[] = "<|endoftext|>";
    struct trainer_request r = {
        .key = "text",
        .special = { end_of_document },
        .train = { .min_frequency = 2, .pattern = "gpt2", .num_special = 1 },
    };
    int status;

    r.train.special = r.special;
    status = run (argc, argv, &r);
    free (r.inputs);
    free (r.names);
    return status;
}
