/* inspect.c - megatron data inspect: check a dataset, print what is in it
 *
 * Maps the dataset with all checks, counts, and on request reads every token or prints one
 * sequence.  Nothing is written.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "cmd/data/data.h"
#include "libcore/base/parse.h"
#include "libcore/data/indexed.h"

enum { PIECE = 4096 }; /* tokens that are read at a time */

struct inspect_request {
    int64_t sequence; /* -1: none */
    bool tokens;
};

struct summary {
    int64_t shortest, longest;
    int64_t empty_sequences, empty_documents;
    int32_t smallest_token, largest_token; /* -1: not looked for, or no token */
};

static const struct cmd_option inspect_options[] = {
    { .name = "tokens", .help = "look at every token too: all must be valid ids",
      .set = cmd_set_flag, .at = offsetof (struct inspect_request, tokens) },
    { .name = "sequence", .arg = "I",
      .help = "print the tokens of sequence I, counted from 0", .set = cmd_set_int64,
      .at = offsetof (struct inspect_request, sequence), .min = 0, .max = INT64_MAX },
    { .name = NULL },
};

static const char usage[] =
    "Usage: megatron data inspect PREFIX [OPTION...]\n\n"
    "Check the files of a dataset and tell what is in them.\n\n";

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
    int32_t piece[PIECE];

    for (size_t i = 0; i < indexed_num_sequences (ix); i++) {
        size_t length = indexed_length (ix, i);

        for (size_t at = 0; at < length; at += PIECE) {
            size_t n = length - at < PIECE ? length - at : PIECE;

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

static void print_text (const struct indexed *ix, const struct summary *s,
                        const char *prefix)
{
    const size_t n = indexed_num_sequences (ix);
    const int64_t tokens = indexed_num_tokens (ix);

    printf ("%s: %s\n", prefix, indexed_dtype_name (indexed_dtype (ix)));
    printf ("documents  %zu, %" PRId64 " without a sequence\n",
            indexed_num_documents (ix), s->empty_documents);
    printf ("sequences  %zu, %" PRId64 " without a token%s\n", n, s->empty_sequences,
            indexed_has_modes (ix) ? ", with modes" : "");
    printf ("tokens     %" PRId64 ", %" PRId64 " to %" PRId64 " a sequence, mean %.1f\n",
            tokens, s->shortest, s->longest, n ? (double)tokens / n : 0.);
    if (s->largest_token >= 0)
        printf ("ids        %d to %d\n", s->smallest_token, s->largest_token);
}

static int print_sequence (const struct indexed *ix, const struct data_common *common,
                           size_t sequence, struct mg_error *err)
{
    const char *separator = common->json ? "," : " ";
    int32_t piece[PIECE];
    size_t length;

    if (sequence >= indexed_num_sequences (ix))
        return mg_error_set (err, EINVAL, "--sequence: no sequence %zu, %s has %zu",
                             sequence, common->prefix, indexed_num_sequences (ix));
    length = indexed_length (ix, sequence);
    if (common->json)
        putchar ('[');
    for (size_t at = 0; at < length && !ferror (stdout); at += PIECE) {
        size_t n = length - at < PIECE ? length - at : PIECE;

        if (indexed_get (ix, sequence, at, n, piece, err) < 0)
            return -1;
        for (size_t j = 0; j < n; j++)
            printf ("%s%d", at + j ? separator : "", piece[j]);
    }
    printf (common->json ? "]\n" : "\n");
    return 0;
}

static int inspect (const struct data_common *common, const struct inspect_request *request,
                    struct mg_error *err)
{
    struct summary s = { .smallest_token = -1, .largest_token = -1 };
    struct indexed *ix;
    int rc = -1;

    if (!(ix = indexed_open (common->prefix, err)))
        return -1;
    if (request->tokens && scan_tokens (ix, &s, err) < 0)
        goto done;
    if (request->sequence >= 0) {
        rc = print_sequence (ix, common, request->sequence, err);
        goto done;
    }
    summarize (ix, &s);
    if (common->json)
        print_json (ix, &s);
    else
        print_text (ix, &s, common->prefix);
    rc = 0;
done:
    indexed_close (ix);
    return rc;
}

int data_inspect (int argc, char **argv)
{
    struct inspect_request request = { .sequence = -1 };
    struct data_common common = { 0 };
    const struct cmd_option_table tables[] = {
        { data_common_options, &common },
        { inspect_options, &request },
    };
    const struct cmd_syntax syntax = { "data", usage, tables, 2, &common.help, NULL, NULL };
    struct mg_error err;
    int status;

    status = cmd_part_read (&syntax, argc, argv);
    if (status != CMD_GO)
        return status;
    if (inspect (&common, &request, &err) < 0)
        return data_failure (argv[0], &err);
    return 0;
}
