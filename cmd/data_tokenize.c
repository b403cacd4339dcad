/* data_tokenize.c - megatron data tokenize: text to PREFIX_KEY_document.bin and .idx */

#include <errno.h>
#include <getopt.h>
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

static const char verb[] = "tokenize";

/* A list of texts, all owned by one allocation that is cut at the commas. */
struct list {
    char *storage;
    char **items;
    size_t count;
};

struct options {
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

static void on_signal (int signum)
{
    stop_signal = signum;
}

static const struct option long_options[] = {
    { "input", required_argument, NULL, 'i' },
    { "output-prefix", required_argument, NULL, 'o' },
    { "tokenizer-type", required_argument, NULL, 't' },
    { "append-eod", no_argument, NULL, 'e' },
    { "json-keys", required_argument, NULL, 'k' },
    { "input-format", required_argument, NULL, 'f' },
    { "split-documents", required_argument, NULL, 's' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
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

static void print_help (void)
{
    printf (
        "Usage: megatron data tokenize --input FILE[,FILE...] --output-prefix PREFIX\n"
        "                              [OPTION...]\n\n"
        "Write the tokens of text files to PREFIX_KEY_document.bin and .idx.\n\n"
        "  --input FILE[,FILE...]    plain text; *.jsonl and *.json: JSON lines\n"
        "  --output-prefix PREFIX    where to write\n"
        "  --tokenizer-type TYPE     ByteLevel (the default): a token is a byte,\n"
        "                            256 ends a document\n"
        "  --append-eod              end every document with the end-of-document token\n"
        "  --json-keys KEY[,KEY...]  keys of a JSON line to read (default: text)\n"
        "  --input-format FORMAT     auto (the default, by name), text or jsonl\n"
        "  --split-documents WHERE   cut plain text at blank-line (the default),\n"
        "                            line or none (a file is one document)\n");
}

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

static enum input_format format_of (const struct options *o, size_t i)
{
    if (o->format != INPUT_AUTO)
        return o->format;
    return input_format_by_name (o->inputs.items[i]);
}

static int check_options (struct options *o, struct mg_error *err)
{
    if (o->inputs.count == 0)
        return mg_error_set (err, EINVAL, "--input is missing");
    if (!o->prefix || *o->prefix == '\0')
        return mg_error_set (err, EINVAL, "--output-prefix is missing");
    if (o->keys.count == 0 && list_parse ("--json-keys", "text", &o->keys, err) < 0)
        return -1;
    if (check_keys (&o->keys, err) < 0)
        return -1;
    for (size_t i = 0; i < o->inputs.count; i++) {
        if (o->keys.count > 1 && format_of (o, i) != INPUT_JSONL)
            return mg_error_set (err, EINVAL,
                                 "--json-keys: %zu keys, but %.200s is plain text, which "
                                 "has one", o->keys.count, o->inputs.items[i]);
    }
    return 0;
}

static int set_option (struct options *o, int c, char *value, struct mg_error *err)
{
    int chosen;

    switch (c) {
        case 'i':
            return list_parse ("--input", value, &o->inputs, err);
        case 'k':
            return list_parse ("--json-keys", value, &o->keys, err);
        case 'o':
            o->prefix = value;
            break;
        case 't':
            o->tokenizer = value;
            break;
        case 'e':
            o->append_eod = true;
            break;
        case 'f':
            chosen = choose ("--input-format", value, format_names, err);
            if (chosen < 0)
                return -1;
            o->format = chosen;
            break;
        case 's':
            chosen = choose ("--split-documents", value, cut_names, err);
            if (chosen < 0)
                return -1;
            o->cut = chosen;
            break;
    }
    return 0;
}

/* 0: go on. 1: help was asked for and printed. -1: 'err' says what is wrong. */
static int parse_options (int argc, char **argv, struct options *o, struct mg_error *err)
{
    int c;

    data_options_begin ();
    while ((c = getopt_long (argc, argv, ":", long_options, NULL)) != -1) {
        if (c == 'h') {
            print_help ();
            return 1;
        }
        if (c == ':' || c == '?')
            return data_option_error (verb, c, argv, err);
        if (set_option (o, c, optarg, err) < 0)
            return -1;
    }
    if (optind < argc)
        return mg_error_set (err, EINVAL,
                             "\"%.60s\" is not an option; inputs are given as --input "
                             "FILE,FILE", argv[optind]);
    return check_options (o, err);
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

static int read_inputs (struct job *job, const struct options *o, struct mg_error *err)
{
    const struct input_sink sink = {
        .text = data_writer_text,
        .end_sequence = data_writer_end_sequence,
        .end_document = data_writer_end_document,
        .arg = &job->writer,
        .progress = sink_progress,
        .progress_arg = job,
    };

    for (size_t i = 0; i < o->inputs.count; i++) {
        const char *path = o->inputs.items[i];
        int rc;

        if (format_of (o, i) == INPUT_JSONL)
            rc = input_read_jsonl (path, o->keys.items, o->keys.count, &sink, err);
        else
            rc = input_read_text (path, o->cut, &sink, err);
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
            fprintf (stderr, "megatron data tokenize: note: %s has one document, which "
                     "--split cannot divide into train, valid and test\n", d->prefix);
    }
}

static int run_job (struct job *job, const struct options *o, struct mg_error *err)
{
    if (check_inputs (&o->inputs, err) < 0
        || data_writer_open (&job->writer, o->prefix, o->keys.items, o->keys.count,
                             err) < 0
        || read_inputs (job, o, err) < 0
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
}

/* End as the signal would have ended us, now that nothing is left behind. */
static void follow_signal (void)
{
    if (stop_signal) {
        signal (stop_signal, SIG_DFL);
        raise (stop_signal);
    }
}

static int tokenize (const struct options *o)
{
    struct job job = { .progress = isatty (STDERR_FILENO) };
    struct mg_error err = { .text = "" };
    int status = 0;

    job.writer.append_eod = o->append_eod;
    if (!(job.writer.tokenizer = tokenizer_create (o->tokenizer, &err)))
        return data_fail (verb, DATA_EXIT_USAGE, err.text);
    catch_signals ();
    if (run_job (&job, o, &err) < 0)
        status = DATA_EXIT_FAILURE;
    if (job.shown_at > 0.)
        fprintf (stderr, "\r%60s\r", "");
    if (status)
        data_fail (verb, status, err.text);
    else
        print_summary (&job.writer);
    data_writer_clear (&job.writer);
    if (status)
        follow_signal ();
    return status;
}

int data_tokenize (int argc, char **argv)
{
    struct options options = { .tokenizer = "ByteLevel" };
    struct mg_error err = { .text = "" };
    int status = 0;
    int rc;

    rc = parse_options (argc, argv, &options, &err);
    if (rc < 0)
        status = data_fail (verb, DATA_EXIT_USAGE, err.text);
    else if (rc == 0)
        status = tokenize (&options);
    list_clear (&options.inputs);
    list_clear (&options.keys);
    return status;
}
