/* index.c - megatron data index: which tokens make the samples of a run
 *
 * Makes the index of one dataset, or of a blend, as a run with the same options would
 * (gpt_cache.h, sample_blend.h), and prints a summary or the samples.  With --cache the files of
 * the index are read, or made and written.
 */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/data/data.h"
#include "cmd/open_files.h"
#include "libcore/base/parse.h"
#include "libcore/data/gpt_cache.h"
#include "libcore/data/indexed.h"
#include "libcore/data/sample_blend.h"
#include "libcore/data/split.h"

struct index_request {
    const char **words; /* prefixes, and weights before them */
    size_t num_words;
    int seq_length; /* 0: not given */
    int64_t num_samples;
    int64_t seed;
    const char *split; /* NULL: all documents */
    enum split_part part;
    bool part_given;
    double surplus;
    const char *cache;
    bool json;
};

static int set_word (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    struct index_request *request = target;
    const char **words;

    (void)option;
    if (data_check_prefix (what, value, err) < 0)
        return -1;
    words = reallocarray (request->words, request->num_words + 1, sizeof (*words));
    if (!words)
        return mg_error_set (err, ENOMEM, "out of memory");
    words[request->num_words++] = value;
    request->words = words;
    return 0;
}

static int set_split (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    struct index_request *request = target;
    struct split split;

    (void)option, (void)what;
    request->split = value;
    return split_parse (value, &split, err);
}

static int set_part (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    struct index_request *request = target;

    (void)option, (void)what;
    request->part_given = true;
    return split_part_by_name (value, &request->part, err);
}

static int set_surplus (void *target, const struct cmd_option *option, const char *what,
                        const char *value, struct mg_error *err)
{
    struct index_request *request = target;

    (void)option;
    return parse_double (what, value, 0., 1e6, &request->surplus, err);
}

static int set_cache (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    (void)option;
    if (data_check_name (what, value, err) < 0)
        return -1;
    ((struct index_request *)target)->cache = value;
    return 0;
}

static const struct cmd_option index_options[] = {
    { .name = "", .arg = "[WEIGHT] PREFIX...",
      .help = "datasets PREFIX.bin and PREFIX.idx; several are a blend", .set = set_word,
      .required = true },
    { .name = "seq-length", .arg = "S", .help = "tokens of a sample, at least 2",
      .set = cmd_set_int, .at = offsetof (struct index_request, seq_length), .min = 2,
      .max = INT_MAX - 1, .required = true },
    { .name = "num-samples", .arg = "N",
      .help = "as many epochs as N samples need, default one epoch", .set = cmd_set_int64,
      .at = offsetof (struct index_request, num_samples), .min = 1, .max = UINT32_MAX - 2 },
    { .name = "seed", .arg = "K",
      .help = "seed of the shuffles, 0 to 4294967295, default 1234", .set = cmd_set_int64,
      .at = offsetof (struct index_request, seed), .min = 0, .max = UINT32_MAX },
    { .name = "split", .arg = "A,B,C",
      .help = "weights of train, valid and test, default all documents",
      .set = set_split },
    { .name = "part", .arg = "PART",
      .help = "train, valid or test of the split, default train", .set = set_part },
    { .name = "mid-level-dataset-surplus", .arg = "X",
      .help = "part more asked of each dataset of a blend, default 0.005",
      .set = set_surplus },
    { .name = "data-cache-path", .arg = "DIR",
      .help = "keep the indices in files there, or take them from there",
      .set = set_cache },
    { .name = "json", .help = "print JSON", .set = cmd_set_flag,
      .at = offsetof (struct index_request, json) },
    { .name = NULL },
};

static const char usage[] =
    "Usage: megatron data index PREFIX --seq-length S [OPTION...]\n"
    "       megatron data index WEIGHT PREFIX WEIGHT PREFIX ... --seq-length S "
    "[OPTION...]\n\n"
    "Tell in which order the tokens of datasets make samples for training.\n\n";

/* Check the rules between options. */
static int check_request (void *request, struct mg_error *err)
{
    const struct index_request *r = request;

    if (r->part_given && !r->split)
        return mg_error_set (err, EINVAL, "--part needs --split");
    return 0;
}

/* ---- one dataset ---- */

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

static void print_summary (const struct gpt_index *index, const struct index_request *request,
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

static int list_samples (const struct index_request *request, const char *prefix,
                         struct mg_error *err)
{
    const struct gpt_identity id = {
        .prefix = prefix,
        .num_samples = request->num_samples,
        .part = request->part,
        .seed = request->seed,
        .seq_length = request->seq_length,
        .split = request->split,
    };
    struct gpt_index *index = NULL;
    struct indexed *ix;
    int rc = -1;

    if (!(ix = indexed_open (prefix, err)))
        return -1;
    if (!(index = gpt_cache_open (request->cache, &id, ix, err))) {
        mg_error_prefix (err, "%s", prefix);
        goto done;
    }
    if (request->json)
        print_json (index);
    else
        print_summary (index, request, prefix);
    rc = 0;
done:
    gpt_index_destroy (index);
    indexed_close (ix);
    return rc;
}

/* ---- a blend ---- */

static void print_blend_json (const struct blended *b, const struct blend *blend)
{
    printf ("{\"dataset_index\":[");
    for (int64_t i = 0; i < b->index->size; i++)
        printf ("%s%d", i ? "," : "", b->index->dataset[i]);
    printf ("],\"dataset_sample_index\":[");
    for (int64_t i = 0; i < b->index->size; i++)
        printf ("%s%" PRId64, i ? "," : "", b->index->sample[i]);
    printf ("],\"datasets\":[");
    for (size_t i = 0; i < b->count; i++) {
        printf ("%s{\"prefix\":", i ? "," : "");
        data_print_string (blend->prefixes[i]);
        if (b->requested[i] == GPT_INDEX_ONE_EPOCH)
            printf (",\"requested\":null");
        else
            printf (",\"requested\":%" PRId64, b->requested[i]);
        printf (",\"samples\":%" PRId64 "}", b->datasets[i]->num_samples);
    }
    printf ("]}\n");
}

static int print_blend_summary (const struct blended *b, const struct index_request *request,
                                const struct blend *blend, struct mg_error *err)
{
    int64_t *counts;

    if (!(counts = calloc (b->count, sizeof (*counts))))
        return mg_error_set (err, ENOMEM, "out of memory");
    blend_index_count (b->index, b->count, counts);
    printf ("%" PRId64 " samples of %d tokens from %zu datasets, seed %" PRId64 "\n",
            b->index->size, request->seq_length, b->count, request->seed);
    for (size_t i = 0; i < b->count; i++)
        printf ("%s: %" PRId64 " of %" PRId64 " samples, %.3f %%\n", blend->prefixes[i],
                counts[i], b->datasets[i]->num_samples,
                100. * (double)counts[i] / (double)b->index->size);
    free (counts);
    return 0;
}

static int list_blend (const struct index_request *request, const struct blend *blend,
                       struct mg_error *err)
{
    const struct sample_blend_config config = {
        .blend = blend,
        .split = request->split,
        .part = request->part,
        .seq_length = request->seq_length,
        .num_samples = request->num_samples,
        .seed = request->seed,
        .surplus = request->surplus,
        .cache = request->cache,
    };
    struct sample_source *source;
    int rc = 0;

    if (!(source = sample_source_blend_create (&config, err)))
        return -1;
    if (request->json)
        print_blend_json (sample_source_blended (source), blend);
    else
        rc = print_blend_summary (sample_source_blended (source), request, blend, err);
    sample_source_destroy (source);
    return rc;
}

static int run_index (int argc, char **argv, struct index_request *request)
{
    bool help = false;
    const struct cmd_option_table tables[] = {
        { index_options, request },
        { data_help_options, &help },
    };
    const struct cmd_syntax syntax = { "data", usage, tables, 2, &help, check_request, request };
    struct blend blend;
    struct mg_error err;
    int status, rc;

    status = cmd_part_read (&syntax, argc, argv);
    if (status != CMD_GO)
        return status;
    if (blend_parse (request->words, request->num_words, &blend, &err) < 0)
        return data_usage_error (argv[0], &err);
    /* one dataset alone is no blend: sample_blend.h */
    if (blend.count == 1 && (!blend.weights || !request->split))
        rc = list_samples (request, blend.prefixes[0], &err);
    else
        rc = list_blend (request, &blend, &err);
    blend_clear (&blend);
    return rc < 0 ? data_failure (argv[0], &err) : 0;
}

int data_index (int argc, char **argv)
{
    struct index_request request = {
        .num_samples = GPT_INDEX_ONE_EPOCH,
        .seed = 1234, /* Megatron's default */
        .part = SPLIT_TRAIN,
        .surplus = BLEND_SURPLUS,
    };
    int status;

    open_files_raise ();
    status = run_index (argc, argv, &request);
    free (request.words);
    return status;
}
