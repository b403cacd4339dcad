/* data_tokenize.c - megatron data tokenize: text to PREFIX_KEY_document.bin and .idx */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/data.h"
#include "cmd/data_input.h"
#include "cmd/data_writer.h"

/* A list of texts, all owned by one allocation that is cut at the commas. */
struct list {
    char *storage;
    char **items;
    size_t count;
};

struct request {
    struct list inputs;
    struct list keys;
    const char *prefix;
    const char *tokenizer;
    enum input_format format;
    enum input_cut cut;
    bool append_eod;
};

struct job {
    struct data_writer writer;
    bool progress;     /* standard error is a terminal */
    int64_t bytes;     /* of input done */
    int64_t next_look; /* bytes at which to look at signal and clock again */
    double shown_at;   /* seconds, of the last progress line */
};

enum { LOOK_EVERY = 1 << 20 };

/* The signal that asked to stop: a handler has no other way to say so. */
static volatile sig_atomic_t stop_signal;

/* The alarm ends a read that began just after the flag was looked at. */
static void on_signal (int signum)
{
    if (signum != SIGALRM)
        stop_signal = signum;
    alarm (1);
}

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
    free (list->storage);
    free (list->items);
    memset (list, 0, sizeof (*list));
}

/* Take "a,b,c" apart; replaces what the list had. */
static int list_parse (const char *option, const char *text, struct list *list,
                       struct mg_error *err)
{
    char *rest;

    list_clear (list);
    list->storage = strdup (text);
    list->items = calloc (strlen (text) + 1, sizeof (*list->items));
    if (!list->storage || !list->items)
        return mg_error_set (err, ENOMEM, "out of memory");
    rest = list->storage;
    while (rest) {
        char *item = strsep (&rest, ",");

        if (*item == '\0')
            return mg_error_set (err, EINVAL, "%s: \"%.60s\" has an empty part", option,
                                 text);
        list->items[list->count++] = item;
    }
    return 0;
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

static enum input_format format_of (const struct request *r, size_t i)
{
    if (r->format != INPUT_AUTO)
        return r->format;
    return input_format_by_name (r->inputs.items[i]);
}

/* What the options cannot say one by one. */
static int check_request (struct request *r, struct mg_error *err)
{
    if (r->inputs.count == 0)
        return mg_error_set (err, EINVAL, "--input is missing");
    if (!r->prefix)
        return mg_error_set (err, EINVAL, "--output-prefix is missing");
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
    return 0;
}

static int set_input (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    (void)option;
    return list_parse (what, value, &((struct request *)target)->inputs, err);
}

static int set_json_keys (void *target, const struct cmd_option *option, const char *what,
                          const char *value, struct mg_error *err)
{
    (void)option;
    return list_parse (what, value, &((struct request *)target)->keys, err);
}

static int set_output_prefix (void *target, const struct cmd_option *option,
                              const char *what, const char *value, struct mg_error *err)
{
    (void)option;
    if (*value == '\0')
        return mg_error_set (err, EINVAL, "%s: an empty name", what);
    ((struct request *)target)->prefix = value;
    return 0;
}

static int set_tokenizer_type (void *target, const struct cmd_option *option,
                               const char *what, const char *value, struct mg_error *err)
{
    (void)option, (void)what, (void)err;
    ((struct request *)target)->tokenizer = value;
    return 0;
}

static int set_append_eod (void *target, const struct cmd_option *option,
                           const char *what, const char *value, struct mg_error *err)
{
    (void)option, (void)what, (void)value, (void)err;
    ((struct request *)target)->append_eod = true;
    return 0;
}

static int set_input_format (void *target, const struct cmd_option *option,
                             const char *what, const char *value, struct mg_error *err)
{
    int chosen = choose (what, value, format_names, err);

    (void)option;
    if (chosen < 0)
        return -1;
    ((struct request *)target)->format = chosen;
    return 0;
}

static int set_split_documents (void *target, const struct cmd_option *option,
                                const char *what, const char *value, struct mg_error *err)
{
    int chosen = choose (what, value, cut_names, err);

    (void)option;
    if (chosen < 0)
        return -1;
    ((struct request *)target)->cut = chosen;
    return 0;
}

static const struct cmd_option tokenize_options[] = {
    { "input", NULL, "FILE,...", "plain text, or JSON lines if named *.jsonl or *.json",
      NULL, set_input },
    { "output-prefix", NULL, "PREFIX", "write PREFIX_KEY_document.bin and .idx", NULL,
      set_output_prefix },
    { "tokenizer-type", NULL, "TYPE", "ByteLevel (default): tokens are bytes, 256 ends a "
      "document", NULL, set_tokenizer_type },
    { "append-eod", NULL, NULL, "end each document with the end-of-document token", NULL,
      set_append_eod },
    { "json-keys", NULL, "KEY,...", "keys of a JSON line to read, default text", NULL,
      set_json_keys },
    { "input-format", NULL, "FORMAT", "auto (default: by name), text or jsonl", NULL,
      set_input_format },
    { "split-documents", NULL, "WHERE", "cut plain text at blank-line (default), line or "
      "none", NULL, set_split_documents },
    { NULL, NULL, NULL, NULL, NULL, NULL },
};

static void print_help (const struct cmd_option_table *tables, int ntables)
{
    printf ("Usage: megatron data tokenize --input FILE,... --output-prefix PREFIX "
            "[OPTION...]\n\n"
            "Write the tokens of text files as a dataset.\n\n");
    cmd_options_help (tables, ntables);
}

static double seconds (void)
{
    struct timespec now;

    clock_gettime (CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static int sink_progress (void *arg, size_t size, struct mg_error *err)
{
    struct job *job = arg;

    job->bytes += size;
    if (job->bytes < job->next_look)
        return 0;
    job->next_look = job->bytes + LOOK_EVERY;
    if (stop_signal)
        return mg_error_set (err, EINTR, "stopped by a signal");
    if (job->progress && seconds () - job->shown_at > 0.5) {
        job->shown_at = seconds ();
        fprintf (stderr, "\r%.1f MB read, %" PRId64 " documents", 1e-6 * job->bytes,
                 job->writer.sets[0].documents);
    }
    return 0;
}

/* All files are looked for before the first is read. */
static int check_inputs (const struct list *inputs, struct mg_error *err)
{
    for (size_t i = 0; i < inputs->count; i++) {
        if (access (inputs->items[i], R_OK) < 0)
            return mg_error_set (err, errno, "cannot open %s: %s", inputs->items[i],
                                 strerror (errno));
    }
    return 0;
}

static int read_inputs (struct job *job, const struct request *r, struct mg_error *err)
{
    const struct input_sink sink = {
        .text = data_writer_text,
        .end_sequence = data_writer_end_sequence,
        .end_document = data_writer_end_document,
        .arg = &job->writer,
        .progress = sink_progress,
        .progress_arg = job,
    };

    for (size_t i = 0; i < r->inputs.count; i++) {
        const char *path = r->inputs.items[i];
        int rc;

        if (format_of (r, i) == INPUT_JSONL)
            rc = input_read_jsonl (path, r->keys.items, r->keys.count, &sink, err);
        else
            rc = input_read_text (path, r->cut, &sink, err);
        if (rc < 0)
            return -1;
    }
    if (stop_signal)
        return mg_error_set (err, EINTR, "stopped by a signal");
    return 0;
}

static void print_summary (const struct data_writer *w)
{
    for (size_t i = 0; i < w->num_sets; i++) {
        const struct data_set *d = &w->sets[i];

        printf ("%s: %" PRId64 " documents, %" PRId64 " tokens, %s\n", d->prefix,
                d->documents, d->tokens, indexed_dtype_name (w->dtype));
        if (d->documents == 1)
            fprintf (stderr, "megatron: data tokenize: note: %s has one document, which "
                     "--split cannot divide into train, valid and test\n", d->prefix);
    }
}

static int run_job (struct job *job, const struct request *r, struct mg_error *err)
{
    if (check_inputs (&r->inputs, err) < 0
        || data_writer_open (&job->writer, r->prefix, r->keys.items, r->keys.count,
                             err) < 0
        || read_inputs (job, r, err) < 0
        || data_writer_finish (&job->writer, err) < 0)
        return -1;
    return 0;
}

/* Stop at the next look on a signal, and end a read that waits; what was ignored before
 * (nohup) stays ignored. */
static void catch_signals (void)
{
    static const int signals[] = { SIGHUP, SIGINT, SIGTERM };
    struct sigaction action = { .sa_handler = on_signal };
    struct sigaction old;

    for (size_t i = 0; i < sizeof (signals) / sizeof (signals[0]); i++) {
        if (sigaction (signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction (signals[i], &action, NULL);
    }
    sigaction (SIGALRM, &action, NULL);
    signal (SIGXFSZ, SIG_IGN); /* a file over the limit is an error of write */
}

/* End as the signal would have ended us, now that nothing is left behind. */
static void follow_signal (void)
{
    if (stop_signal) {
        alarm (0);
        signal (stop_signal, SIG_DFL);
        raise (stop_signal);
    }
}

static int tokenize (struct tokenizer *tokenizer, const struct request *r,
                     struct mg_error *err)
{
    struct job job = {
        .writer.tokenizer = tokenizer,
        .writer.append_eod = r->append_eod,
        .progress = isatty (STDERR_FILENO),
    };
    int rc;

    catch_signals ();
    rc = run_job (&job, r, err);
    if (job.shown_at > 0.)
        fprintf (stderr, "\r%60s\r", "");
    if (rc == 0)
        print_summary (&job.writer);
    data_writer_clear (&job.writer);
    return rc;
}

/* All of it but what must be freed at the end. */
static int run_tokenize (int argc, char **argv, struct request *request)
{
    bool help = false;
    const struct cmd_option_table tables[] = {
        { tokenize_options, request },
        { data_help_options, &help },
    };
    struct tokenizer *tokenizer;
    struct mg_error err;

    if (cmd_options_read (tables, 2, argc, argv, &err) < 0)
        return data_usage_error (argv[0], &err);
    if (help) {
        print_help (tables, 2);
        return 0;
    }
    if (check_request (request, &err) < 0
        || !(tokenizer = tokenizer_create (request->tokenizer, NULL, &err)))
        return data_usage_error (argv[0], &err);
    if (tokenize (tokenizer, request, &err) < 0) {
        data_failure (argv[0], &err);
        follow_signal ();
        return DATA_FAILED;
    }
    return 0;
}

int data_tokenize (int argc, char **argv)
{
    struct request request = { .tokenizer = "ByteLevel" };
    int status = run_tokenize (argc, argv, &request);

    list_clear (&request.inputs);
    list_clear (&request.keys);
    return status;
}
