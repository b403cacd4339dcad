/* tokenize.c - megatron data tokenize: text to PREFIX_KEY_document.bin and .idx
 *
 * Checks the request and all input files before it reads the first one.  SIGHUP, SIGINT and
 * SIGTERM end the work at the next look: unfinished files are removed, and the process then ends
 * by the same signal.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/data/copy.h"
#include "cmd/data/data.h"
#include "cmd/data/pipeline.h"
#include "cmd/data/pool.h"
#include "cmd/data/stop.h"
#include "libcore/base/parse.h"

/* A list of texts, each an allocation of its own. */
struct list {
    char **items;
    size_t count;
};

struct tokenize_request {
    struct list inputs;
    struct list keys;
    const char *prefix;
    struct data_tokenizer tokenizer;
    enum input_format format;
    enum input_cut cut;
    bool append_eod;
    int workers;
};

static const char *const format_names[] = {
    [INPUT_AUTO] = "auto",
    [INPUT_TEXT] = "text",
    [INPUT_JSONL] = "jsonl",
    NULL,
};

static const char *const cut_names[] = {
    [INPUT_CUT_BLANK_LINE] = "blank-line",
    [INPUT_CUT_LINE] = "line",
    [INPUT_CUT_NONE] = "none",
    NULL,
};

static void list_clear (struct list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free (list->items[i]);
    free (list->items);
    memset (list, 0, sizeof (*list));
}

static int list_add (struct list *list, const char *text, size_t size,
                     struct mg_error *err)
{
    char **items = reallocarray (list->items, list->count + 1, sizeof (*items));

    if (!items)
        return mg_error_set (err, ENOMEM, "out of memory");
    list->items = items;
    if (!(items[list->count] = strndup (text, size)))
        return mg_error_set (err, ENOMEM, "out of memory");
    list->count++;
    return 0;
}

/* Split "a,b,c", and append the parts to the list. */
static int list_parse (const char *option, const char *text, struct list *list,
                       struct mg_error *err)
{
    const char *item = text;

    for (;;) {
        size_t size = strcspn (item, ",");

        if (size == 0)
            return mg_error_set (err, EINVAL, "%s: \"%.60s\" has an empty part", option,
                                 text);
        if (list_add (list, item, size, err) < 0)
            return -1;
        if (item[size] == '\0')
            return 0;
        item += size + 1;
    }
}

/* Index of 'text' among the names. */
static int choose (const char *option, const char *text, const char *const *names,
                   struct mg_error *err)
{
    int i = 0;

    while (names[i] && strcmp (names[i], text) != 0)
        i++;
    if (names[i])
        return i;
    return mg_error_set (err, EINVAL, "%s: \"%.40s\" is unknown, want %s, %s or %s",
                         option, text, names[0], names[1], names[2]);
}

/* A key becomes part of a file name, and each its own file. */
static int check_keys (const struct list *keys, struct mg_error *err)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (strchr (keys->items[i], '/'))
            return mg_error_set (err, EINVAL, "--json-keys: \"%.60s\" has a slash",
                                 keys->items[i]);
        for (size_t j = 0; j < i; j++) {
            if (strcmp (keys->items[i], keys->items[j]) == 0)
                return mg_error_set (err, EINVAL, "--json-keys: \"%.60s\" is there twice",
                                     keys->items[i]);
        }
    }
    return 0;
}

static enum input_format format_of (const struct tokenize_request *r, size_t i)
{
    if (r->format != INPUT_AUTO)
        return r->format;
    return input_format_by_name (r->inputs.items[i]);
}

/* Check the rules between options. */
static int check_request (void *request, struct mg_error *err)
{
    struct tokenize_request *r = request;

    if (r->keys.count == 0 && list_parse ("--json-keys", "text", &r->keys, err) < 0)
        return -1;
    if (check_keys (&r->keys, err) < 0)
        return -1;
    for (size_t i = 0; i < r->inputs.count; i++) {
        if (r->keys.count > 1 && format_of (r, i) != INPUT_JSONL)
            return mg_error_set (err, EINVAL,
                                 "--json-keys: %zu keys, but %.200s is plain text, which "
                                 "has one", r->keys.count, r->inputs.items[i]);
    }
    return data_tokenizer_check (&r->tokenizer, err);
}

static int set_input (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    struct list *list = &((struct tokenize_request *)target)->inputs;

    (void)option;
    list_clear (list);
    return list_parse (what, value, list, err);
}

static int set_json_keys (void *target, const struct cmd_option *option, const char *what,
                          const char *value, struct mg_error *err)
{
    struct list *list = &((struct tokenize_request *)target)->keys;

    (void)option;
    list_clear (list);
    return list_parse (what, value, list, err);
}

/* Megatron-LM's tool takes its keys as words. */
static int more_json_keys (void *target, const struct cmd_option *option,
                           const char *what, const char *value, struct mg_error *err)
{
    (void)option;
    return list_parse (what, value, &((struct tokenize_request *)target)->keys, err);
}

static int set_output_prefix (void *target, const struct cmd_option *option,
                              const char *what, const char *value, struct mg_error *err)
{
    (void)option;
    if (data_check_name (what, value, err) < 0)
        return -1;
    ((struct tokenize_request *)target)->prefix = value;
    return 0;
}

static int set_input_format (void *target, const struct cmd_option *option,
                             const char *what, const char *value, struct mg_error *err)
{
    int chosen = choose (what, value, format_names, err);

    (void)option;
    if (chosen < 0)
        return -1;
    ((struct tokenize_request *)target)->format = chosen;
    return 0;
}

static int set_split_documents (void *target, const struct cmd_option *option,
                                const char *what, const char *value, struct mg_error *err)
{
    int chosen = choose (what, value, cut_names, err);

    (void)option;
    if (chosen < 0)
        return -1;
    ((struct tokenize_request *)target)->cut = chosen;
    return 0;
}

static const struct cmd_option tokenize_options[] = {
    { .name = "input", .arg = "FILE,...",
      .help = "plain text, or JSON lines if named *.jsonl, *.ndjson or *.json",
      .set = set_input, .required = true },
    { .name = "output-prefix", .arg = "PREFIX",
      .help = "write PREFIX_KEY_document.bin and .idx", .set = set_output_prefix,
      .required = true },
    { .name = "append-eod", .help = "end each document with the end-of-document token",
      .set = cmd_set_flag, .at = offsetof (struct tokenize_request, append_eod) },
    { .name = "json-keys", .arg = "KEY,...",
      .help = "keys of a JSON line to read, default text", .set = set_json_keys },
    { .name = "json-keys", .arg = "KEY...", .help = "further words",
      .set = more_json_keys },
    { .name = "input-format", .arg = "FORMAT",
      .help = "auto (default: by name), text or jsonl", .set = set_input_format },
    { .name = "split-documents", .arg = "WHERE",
      .help = "cut plain text at blank-line (default), line or none",
      .set = set_split_documents },
    { .name = "workers", .arg = "N",
      .help = "threads that encode, default 1; the output is the same",
      .set = cmd_set_int, .at = offsetof (struct tokenize_request, workers), .min = 1,
      .max = DATA_MAX_WORKERS },
    { .name = NULL },
};

static const char usage[] =
    "Usage: megatron data tokenize --input FILE,... --output-prefix PREFIX "
    "[OPTION...]\n\n"
    "Write the tokens of text files as a dataset.\n\n";

/* Files whose name makes them plain text, and whose first line is JSON. */
static void note_json (const struct tokenize_request *r)
{
    for (size_t i = 0; r->format == INPUT_AUTO && i < r->inputs.count; i++) {
        const char *path = r->inputs.items[i];

        if (format_of (r, i) == INPUT_TEXT && input_looks_like_json (path))
            fprintf (stderr, "megatron: data tokenize: note: %s begins with a JSON object and is "
                     "taken for plain text by its name; --input-format jsonl reads its lines as "
                     "JSON\n", path);
    }
}

/* Check that all files are there before the first one is read. */
static int check_inputs (const struct list *inputs, struct mg_error *err)
{
    for (size_t i = 0; i < inputs->count; i++) {
        if (input_check (inputs->items[i], err) < 0)
            return -1;
    }
    return 0;
}

static void print_summary (const struct data_writer *w)
{
    for (size_t i = 0; i < w->num_sets; i++) {
        const struct data_set *d = &w->sets[i];

        printf ("%s: %" PRId64 " documents, %" PRId64 " tokens, %s\n", d->prefix,
                d->documents, d->tokens, indexed_dtype_name (w->dtype));
        if (d->tokens == 0)
            fprintf (stderr, "megatron: data tokenize: note: %s has no token, its "
                     "documents are all empty\n", d->prefix);
        else if (d->documents == 1)
            fprintf (stderr, "megatron: data tokenize: note: %s has one document, which "
                     "--split cannot divide into train, valid and test\n", d->prefix);
    }
}

/* Check that no dataset replaces an input. */
static int check_outputs (const struct tokenize_request *r, struct mg_error *err)
{
    const struct tokenizer_files *t = &r->tokenizer.files;
    const char *files[] = { t->vocab, t->merge, t->model };
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < r->keys.count; k++) {
        char *prefix;

        if (asprintf (&prefix, "%s_%s_document", r->prefix, r->keys.items[k]) < 0)
            return mg_error_set (err, ENOMEM, "out of memory");
        for (size_t i = 0; rc == 0 && i < r->inputs.count; i++)
            rc = data_check_output (prefix, r->inputs.items[i], err);
        for (size_t i = 0; rc == 0 && i < sizeof (files) / sizeof (files[0]); i++)
            rc = files[i] ? data_check_output (prefix, files[i], err) : 0;
        free (prefix);
    }
    return rc;
}

static int run_job (struct data_writer *writer, const struct tokenize_request *r,
                    struct mg_error *err)
{
    struct data_source *sources;
    struct data_pipeline pipeline = {
        .num_sources = r->inputs.count,
        .keys = r->keys.items,
        .num_keys = r->keys.count,
        .workers = r->workers,
        .stopped = data_stopped,
    };
    int rc = -1;

    if (!(sources = calloc (r->inputs.count, sizeof (*sources))))
        return mg_error_set (err, ENOMEM, "out of memory");
    for (size_t i = 0; i < r->inputs.count; i++)
        sources[i] = (struct data_source){ r->inputs.items[i], format_of (r, i), r->cut };
    pipeline.sources = sources;
    if (check_inputs (&r->inputs, err) < 0 || check_outputs (r, err) < 0)
        goto done;
    note_json (r);
    if (data_writer_open (writer, r->prefix, r->keys.items, r->keys.count, err) == 0
        && data_pipeline_run (&pipeline, writer, err) == 0)
        rc = data_writer_finish (writer, err);
done:
    free (sources);
    return rc;
}

static int tokenize (const struct tokenizer *tokenizer, const struct tokenize_request *r,
                     struct mg_error *err)
{
    struct data_writer writer = { .tokenizer = tokenizer, .append_eod = r->append_eod };
    int rc;

    data_stop_catch ();
    rc = run_job (&writer, r, err);
    if (rc == 0)
        print_summary (&writer);
    data_writer_clear (&writer);
    return rc;
}

/* Run the command, but for what must be freed at the end. */
static int run_tokenize (int argc, char **argv, struct tokenize_request *request)
{
    bool help = false;
    const struct cmd_option_table tables[] = {
        { tokenize_options, request },
        { data_tokenizer_options, &request->tokenizer },
        { data_help_options, &help },
    };
    const struct data_tokenizer *t = &request->tokenizer;
    const struct cmd_syntax syntax = { "data", usage, tables, 3, &help, check_request, request };
    struct tokenizer *tokenizer;
    struct mg_error err;
    int status, rc;

    status = cmd_part_read (&syntax, argc, argv);
    if (status != CMD_GO)
        return status;
    if (!(tokenizer = tokenizer_create (t->type, &t->files, &err)))
        return data_failure (argv[0], &err);
    rc = tokenize (tokenizer, request, &err);
    if (rc < 0) {
        data_failure (argv[0], &err);
        data_stop_follow ();
    }
    tokenizer_destroy (tokenizer);
    return rc < 0 ? DATA_FAILED : 0;
}

int data_tokenize (int argc, char **argv)
{
    struct tokenize_request request = { .tokenizer.type = "ByteLevel", .workers = 1 };
    int status = run_tokenize (argc, argv, &request);

    list_clear (&request.inputs);
    list_clear (&request.keys);
    return status;
}
