/* data_inspect.c - megatron data inspect: check a dataset, tell what is in it */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "cmd/data.h"
#include "libcore/base/parse.h"
#include "libcore/data/indexed.h"

static const char verb[] = "inspect";

struct options {
    const char *prefix;
    int64_t sequence; /* -1: none */
    bool tokens;
    bool json;
};

struct summary {
    int64_t shortest, longest;
    int64_t empty_sequences, empty_documents;
    int32_t smallest_token, largest_token; /* -1: not looked for, or no token */
};

static const struct option long_options[] = {
    { "sequence", required_argument, NULL, 's' },
    { "tokens", no_argument, NULL, 't' },
    { "json", no_argument, NULL, 'j' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

static void print_help (void)
{
    printf ("Usage: megatron data inspect PREFIX [OPTION...]\n\n"
            "Check PREFIX.bin and PREFIX.idx and tell what is in them.\n\n"
            "  --tokens       look at every token too: all must be valid ids\n"
            "  --sequence I   print the tokens of sequence I, counted from 0\n"
            "  --json         print as JSON\n");
}

/* 0: go on. 1: help was asked for and printed. -1: 'err' says what is wrong. */
static int parse_options (int argc, char **argv, struct options *o, struct mg_error *err)
{
    int c;

    data_options_begin ();
    while ((c = getopt_long (argc, argv, ":", long_options, NULL)) != -1) {
        switch (c) {
            case 's':
                if (parse_int64 ("--sequence", optarg, 0, INT64_MAX, &o->sequence,
                                 err) < 0)
                    return -1;
                break;
            case 't':
                o->tokens = true;
                break;
            case 'j':
                o->json = true;
                break;
            case 'h':
                print_help ();
                return 1;
            default:
                return data_option_error (verb, c, argv, err);
        }
    }
    return data_prefix_argument (argc, argv, &o->prefix, err);
}

static void summarize (const struct indexed *ix, struct summary *s)
{
    const size_t n = indexed_num_sequences (ix);

    s->shortest = n ? indexed_length (ix, 0) : 0;
    for (size_t i = 0; i < n; i++) {
        int32_t length = indexed_length (ix, i);

        s->empty_sequences += length == 0;
        if (length < s->shortest)
            s->shortest = length;
        if (length > s->longest)
            s->longest = length;
    }
    for (size_t d = 0; d < indexed_num_documents (ix); d++)
        s->empty_documents += indexed_document_start (ix, d)
                              == indexed_document_start (ix, d + 1);
}

static int scan_tokens (const struct indexed *ix, struct summary *s, struct mg_error *err)
{
    int32_t piece[4096];
    const size_t max = sizeof (piece) / sizeof (piece[0]);

    for (size_t i = 0; i < indexed_num_sequences (ix); i++) {
        size_t length = indexed_length (ix, i);

        for (size_t at = 0; at < length; at += max) {
            size_t n = length - at < max ? length - at : max;

            if (indexed_get (ix, i, at, n, piece, err) < 0)
                return -1;
            for (size_t j = 0; j < n; j++) {
                if (s->smallest_token < 0 || piece[j] < s->smallest_token)
                    s->smallest_token = piece[j];
                if (piece[j] > s->largest_token)
                    s->largest_token = piece[j];
            }
        }
    }
    return 0;
}

static void print_json (const struct indexed *ix, const struct summary *s)
{
    printf ("{\"dtype\":\"%s\",\"documents\":%zu,\"sequences\":%zu,\"tokens\":%" PRId64
            ",\"shortest_sequence\":%" PRId64 ",\"longest_sequence\":%" PRId64
            ",\"empty_sequences\":%" PRId64 ",\"empty_documents\":%" PRId64
            ",\"modes\":%s",
            indexed_dtype_name (indexed_dtype (ix)), indexed_num_documents (ix),
            indexed_num_sequences (ix), indexed_num_tokens (ix), s->shortest, s->longest,
            s->empty_sequences, s->empty_documents,
            indexed_has_modes (ix) ? "true" : "false");
    if (s->largest_token >= 0)
        printf (",\"smallest_token\":%d,\"largest_token\":%d", s->smallest_token,
                s->largest_token);
    printf ("}\n");
}

static void print_text (const struct options *o, const struct indexed *ix,
                        const struct summary *s)
{
    const size_t n = indexed_num_sequences (ix);
    const int64_t tokens = indexed_num_tokens (ix);

    printf ("%s: %s\n", o->prefix, indexed_dtype_name (indexed_dtype (ix)));
    printf ("documents  %zu, %" PRId64 " without a sequence\n", indexed_num_documents (ix),
            s->empty_documents);
    printf ("sequences  %zu, %" PRId64 " without a token%s\n", n, s->empty_sequences,
            indexed_has_modes (ix) ? ", with modes" : "");
    printf ("tokens     %" PRId64 ", %" PRId64 " to %" PRId64 " a sequence, mean %.1f\n",
            tokens, s->shortest, s->longest, n ? (double)tokens / n : 0.);
    if (s->largest_token >= 0)
        printf ("ids        %d to %d\n", s->smallest_token, s->largest_token);
}

static int print_sequence (const struct options *o, const struct indexed *ix,
                           struct mg_error *err)
{
    const size_t sequence = o->sequence;
    const char *separator = o->json ? "," : " ";
    size_t length;
    int32_t token;

    if (sequence >= indexed_num_sequences (ix))
        return mg_error_set (err, EINVAL, "--sequence: no sequence %zu, %s has %zu",
                             sequence, o->prefix, indexed_num_sequences (ix));
    length = indexed_length (ix, sequence);
    if (o->json)
        putchar ('[');
    for (size_t i = 0; i < length; i++) {
        if (indexed_get (ix, sequence, i, 1, &token, err) < 0)
            return -1;
        printf ("%s%d", i ? separator : "", token);
    }
    printf (o->json ? "]\n" : "\n");
    return 0;
}

static int run_inspect (const struct options *o, struct mg_error *err)
{
    struct summary s = { .smallest_token = -1, .largest_token = -1 };
    struct indexed *ix;
    int rc = -1;

    if (!(ix = indexed_open (o->prefix, err)))
        return -1;
    if (o->tokens && scan_tokens (ix, &s, err) < 0)
        goto done;
    if (o->sequence >= 0) {
        rc = print_sequence (o, ix, err);
        goto done;
    }
    summarize (ix, &s);
    if (o->json)
        print_json (ix, &s);
    else
        print_text (o, ix, &s);
    rc = 0;
done:
    indexed_close (ix);
    return rc;
}

int data_inspect (int argc, char **argv)
{
    struct options options = { .sequence = -1 };
    struct mg_error err = { .text = "" };
    int rc = parse_options (argc, argv, &options, &err);

    if (rc < 0)
        return data_fail (verb, DATA_EXIT_USAGE, err.text);
    if (rc == 0 && run_inspect (&options, &err) < 0)
        return data_fail (verb, DATA_EXIT_FAILURE, err.text);
    return 0;
}
