/* data_index.c - megatron data index: the three indices of a GPT dataset */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "cmd/data.h"
#include "libcore/base/parse.h"
#include "libcore/data/gpt_index.h"
#include "libcore/data/indexed.h"
#include "libcore/data/split.h"

static const char verb[] = "index";

enum { DEFAULT_SEED = 1234 }; /* Megatron's --seed */

struct options {
    const char *prefix;
    int seq_length; /* 0: not given */
    int64_t num_samples;
    int64_t seed;
    const char *split; /* NULL: all documents */
    enum split_part part;
    bool part_given;
    bool json;
};

static const struct option long_options[] = {
    { "seq-length", required_argument, NULL, 'l' },
    { "num-samples", required_argument, NULL, 'n' },
    { "seed", required_argument, NULL, 's' },
    { "split", required_argument, NULL, 'x' },
    { "part", required_argument, NULL, 'p' },
    { "json", no_argument, NULL, 'j' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

static void print_help (void)
{
    printf (
        "Usage: megatron data index PREFIX --seq-length S [OPTION...]\n\n"
        "Tell in which order the tokens of PREFIX.bin make samples for training.\n\n"
        "  --seq-length S    tokens of a sample, at least 2\n"
        "  --num-samples N   as many epochs as N samples need (default: one epoch)\n"
        "  --seed K          seed of the shuffles, 0 to 4294967295 (default: %d)\n"
        "  --split A,B,C     weights of train, valid and test (default: all documents)\n"
        "  --part PART       train (the default), valid or test; needs --split\n"
        "  --json            print the document, sample and shuffle index as JSON\n",
        DEFAULT_SEED);
}

static int set_option (struct options *o, int c, const char *value, struct mg_error *err)
{
    switch (c) {
        case 'l':
            return parse_int ("--seq-length", value, 2, INT_MAX - 1, &o->seq_length, err);
        case 'n':
            return parse_int64 ("--num-samples", value, 1, UINT32_MAX - 2, &o->num_samples,
                                err);
        case 's':
            return parse_int64 ("--seed", value, 0, UINT32_MAX, &o->seed, err);
        case 'x':
            o->split = value;
            break;
        case 'p':
            o->part_given = true;
            return split_part_by_name (value, &o->part, err);
        case 'j':
            o->json = true;
            break;
    }
    return 0;
}

static int check_options (const struct options *o, struct mg_error *err)
{
    struct split split;

    if (o->seq_length == 0)
        return mg_error_set (err, EINVAL, "--seq-length is missing");
    if (o->part_given && !o->split)
        return mg_error_set (err, EINVAL, "--part needs --split");
    return o->split ? split_parse (o->split, &split, err) : 0;
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
    if (data_prefix_argument (argc, argv, &o->prefix, err) < 0)
        return -1;
    return check_options (o, err);
}

static void print_json (const struct gpt_index *index)
{
    printf ("{\"document_index\":[");
    for (size_t i = 0; i < index->row_length; i++)
        printf ("%s%d", i ? "," : "", index->document_index[i]);
    printf ("],\"sample_index\":[");
    for (int64_t i = 0; i <= index->num_samples; i++)
        printf ("%s[%u,%u]", i ? "," : "", index->sample_index[i].document,
                index->sample_index[i].offset);
    printf ("],\"shuffle_index\":[");
    for (int64_t i = 0; i < index->num_samples; i++)
        printf ("%s%u", i ? "," : "", index->shuffle_index[i]);
    printf ("]}\n");
}

static void print_summary (const struct options *o, const struct gpt_index *index)
{
    printf ("%s: ", o->prefix);
    if (o->split)
        printf ("%s of %s, ", split_part_name (o->part), o->split);
    printf ("%" PRId64 " documents, %" PRId64 " tokens an epoch\n", index->num_documents,
            index->tokens_per_epoch);
    printf ("%" PRId64 " samples of %d tokens in %" PRId64 " %s%s, seed %" PRId64 "\n",
            index->num_samples, o->seq_length, index->num_epochs,
            index->num_epochs == 1 ? "epoch" : "epochs",
            index->separate_final_epoch ? ", the last shuffled apart" : "", o->seed);
    if (index->num_samples > 0) {
        const struct gpt_index_start *start
            = &index->sample_index[index->shuffle_index[0]];

        printf ("the first begins at token %u of document %d\n", start->offset,
                index->document_index[start->document]);
    }
}

static int run_index (const struct options *o, struct mg_error *err)
{
    struct gpt_index *index = NULL;
    struct indexed *ix;
    int rc = -1;

    if (!(ix = indexed_open (o->prefix, err)))
        return -1;
    if (!(index = gpt_index_create_indexed (ix, o->split, o->part, o->seq_length,
                                            o->num_samples, o->seed, err))) {
        mg_error_prefix (err, "%s", o->prefix);
        goto done;
    }
    if (o->json)
        print_json (index);
    else
        print_summary (o, index);
    rc = 0;
done:
    gpt_index_destroy (index);
    indexed_close (ix);
    return rc;
}

int data_index (int argc, char **argv)
{
    struct options options = {
        .num_samples = GPT_INDEX_ONE_EPOCH,
        .seed = DEFAULT_SEED,
        .part = SPLIT_TRAIN,
    };
    struct mg_error err = { .text = "" };
    int rc = parse_options (argc, argv, &options, &err);

    if (rc < 0)
        return data_fail (verb, DATA_EXIT_USAGE, err.text);
    if (rc == 0 && run_index (&options, &err) < 0)
        return data_fail (verb, DATA_EXIT_FAILURE, err.text);
    return 0;
}
