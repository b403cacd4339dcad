/* data_index.c - megatron data index: the three indices of a GPT dataset */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "cmd/data.h"
#include "libcore/base/parse.h"
#include "libcore/data/gpt_index.h"
#include "libcore/data/indexed.h"
#include "libcore/data/split.h"

struct request {
    int seq_length; /* 0: not given */
    int64_t num_samples;
    int64_t seed;
    const char *split; /* NULL: all documents */
    enum split_part part;
    bool part_given;
};

static int set_seq_length (void *target, const struct cmd_option *option,
                           const char *what, const char *value, struct mg_error *err)
{
    struct request *request = target;

    (void)option;
    return parse_int (what, value, 2, INT_MAX - 1, &request->seq_length, err);
}

static int set_num_samples (void *target, const struct cmd_option *option,
                            const char *what, const char *value, struct mg_error *err)
{
    struct request *request = target;

    (void)option;
    return parse_int64 (what, value, 1, UINT32_MAX - 2, &request->num_samples, err);
}

static int set_seed (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    struct request *request = target;

    (void)option;
    return parse_int64 (what, value, 0, UINT32_MAX, &request->seed, err);
}

static int set_split (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    struct request *request = target;
    struct split split;

    (void)option, (void)what;
    request->split = value;
    return split_parse (value, &split, err);
}

static int set_part (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    struct request *request = target;

    (void)option, (void)what;
    request->part_given = true;
    return split_part_by_name (value, &request->part, err);
}

static const struct cmd_option index_options[] = {
    { "seq-length", NULL, "S", "tokens of a sample, at least 2", NULL, set_seq_length },
    { "num-samples", NULL, "N", "as many epochs as N samples need, default one epoch",
      NULL, set_num_samples },
    { "seed", NULL, "K", "seed of the shuffles, 0 to 4294967295, default 1234", NULL,
      set_seed },
    { "split", NULL, "A,B,C", "weights of train, valid and test, default all documents",
      NULL, set_split },
    { "part", NULL, "PART", "train, valid or test of the split, default train", NULL,
      set_part },
    { NULL, NULL, NULL, NULL, NULL, NULL },
};

static void print_help (const struct cmd_option_table *tables, int ntables)
{
    printf ("Usage: megatron data index PREFIX --seq-length S [OPTION...]\n\n"
            "Tell in which order the tokens of a dataset make samples for training.\n\n");
    cmd_options_help (tables, ntables);
}

/* What the options cannot say one by one. */
static int check_request (const struct data_common *common, const struct request *request,
                          struct mg_error *err)
{
    if (!common->prefix)
        return mg_error_set (err, EINVAL, "PREFIX is missing");
    if (request->seq_length == 0)
        return mg_error_set (err, EINVAL, "--seq-length is missing");
    if (request->part_given && !request->split)
        return mg_error_set (err, EINVAL, "--part needs --split");
    return 0;
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

static void print_summary (const struct gpt_index *index, const struct request *request,
                           const char *prefix)
{
    printf ("%s: ", prefix);
    if (request->split)
        printf ("%s of %s, ", split_part_name (request->part), request->split);
    printf ("%" PRId64 " documents, %" PRId64 " tokens an epoch\n", index->num_documents,
            index->tokens_per_epoch);
    printf ("%" PRId64 " samples of %d tokens in %" PRId64 " %s%s, seed %" PRId64 "\n",
            index->num_samples, request->seq_length, index->num_epochs,
            index->num_epochs == 1 ? "epoch" : "epochs",
            index->separate_final_epoch ? ", the last shuffled apart" : "",
            request->seed);
    if (index->num_samples > 0) {
        const struct gpt_index_start *start
            = &index->sample_index[index->shuffle_index[0]];

        printf ("the first begins at token %u of document %d\n", start->offset,
                index->document_index[start->document]);
    }
}

static int list_samples (const struct data_common *common, const struct request *request,
                         struct mg_error *err)
{
    struct gpt_index *index = NULL;
    struct indexed *ix;
    int rc = -1;

    if (!(ix = indexed_open (common->prefix, err)))
        return -1;
    if (!(index = gpt_index_create_indexed (ix, request->split, request->part,
                                            request->seq_length, request->num_samples,
                                            request->seed, err))) {
        mg_error_prefix (err, "%s", common->prefix);
        goto done;
    }
    if (common->json)
        print_json (index);
    else
        print_summary (index, request, common->prefix);
    rc = 0;
done:
    gpt_index_destroy (index);
    indexed_close (ix);
    return rc;
}

int data_index (int argc, char **argv)
{
    struct request request = {
        .num_samples = GPT_INDEX_ONE_EPOCH,
        .seed = 1234, /* Megatron's default */
        .part = SPLIT_TRAIN,
    };
    struct data_common common = { 0 };
    const struct cmd_option_table tables[] = {
        { data_common_options, &common },
        { index_options, &request },
    };
    struct mg_error err;

    if (cmd_options_read (tables, 2, argc, argv, &err) < 0)
        return data_usage_error (argv[0], &err);
    if (common.help) {
        print_help (tables, 2);
        return 0;
    }
    if (check_request (&common, &request, &err) < 0)
        return data_usage_error (argv[0], &err);
    if (list_samples (&common, &request, &err) < 0)
        return data_failure (argv[0], &err);
    return 0;
}
