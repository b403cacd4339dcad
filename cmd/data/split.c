/* split.c - megatron data split: one dataset becomes several
 *
 * The plan, the ranges of all outputs, is made and checked first.  Then the outputs are written
 * one after the other, so that any number of them needs two open files.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/data/copy.h"
#include "cmd/data/data.h"
#include "cmd/data/stop.h"
#include "libcore/base/parse.h"
#include "libcore/data/indexed.h"
#include "libcore/data/split.h"
#include "libcore/file/outfile.h"

enum { SHARDS_MAX = 10000, SHARD_DIGITS = 5 };

struct split_request {
    const char *prefix;
    const char *output;
    const char *split;
    int64_t documents; /* 0: not given */
    int64_t tokens;    /* 0: not given */
};

/* One dataset to write. */
struct output {
    char *prefix;
    struct indexed_range range;
};

struct split_plan {
    struct output *outputs;
    size_t count, max;
};

static int set_split (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    struct split split;

    (void)option, (void)what;
    ((struct split_request *)target)->split = value;
    return split_parse (value, &split, err);
}

static const struct cmd_option split_options[] = {
    { .name = "", .arg = "PREFIX", .help = "the dataset PREFIX.bin and PREFIX.idx",
      .set = data_set_prefix, .at = offsetof (struct split_request, prefix), .required = true },
    { .name = "output", .alias = "output-prefix", .arg = "PREFIX",
      .help = "what the names of the datasets to write begin with", .set = data_set_prefix,
      .at = offsetof (struct split_request, output), .required = true },
    { .name = "split", .arg = "A,B,C",
      .help = "write PREFIX_train, PREFIX_valid and PREFIX_test, the parts of training's "
      "--split", .set = set_split },
    { .name = "documents", .arg = "N",
      .help = "write PREFIX_00000, PREFIX_00001 ... of N documents each",
      .set = cmd_set_int64, .at = offsetof (struct split_request, documents), .min = 1,
      .max = INT64_MAX },
    { .name = "tokens", .arg = "N",
      .help = "the same with whole documents of N tokens together, at most",
      .set = cmd_set_int64, .at = offsetof (struct split_request, tokens), .min = 1,
      .max = INT64_MAX },
    { .name = NULL },
};

static const char usage[] =
    "Usage: megatron data split PREFIX --output PREFIX --split A,B,C\n"
    "       megatron data split PREFIX --output PREFIX --documents N\n"
    "       megatron data split PREFIX --output PREFIX --tokens N\n\n"
    "Write the documents of a dataset as several datasets.\n\n";

static int check_request (void *request, struct mg_error *err)
{
    const struct split_request *r = request;
    const int ways = (r->split != NULL) + (r->documents > 0) + (r->tokens > 0);

    if (ways != 1)
        return mg_error_set (err, EINVAL, "%s of --split, --documents and --tokens, want one",
                             ways == 0 ? "none" : "more than one");
    return 0;
}

/* ---- the plan ---- */

/* Add a dataset.  Owns 'prefix'; NULL: there was no memory for it. */
static int add_output (struct split_plan *plan, char *prefix, const struct indexed_range *range,
                       struct mg_error *err)
{
    size_t max = plan->max ? 2 * plan->max : 64;
    struct output *outputs;

    if (prefix && plan->count == plan->max) {
        if ((outputs = reallocarray (plan->outputs, max, sizeof (*outputs)))) {
            plan->outputs = outputs;
            plan->max = max;
        }
    }
    if (!prefix || plan->count == plan->max) {
        free (prefix);
        return mg_error_set (err, ENOMEM, "out of memory");
    }
    plan->outputs[plan->count++] = (struct output){ prefix, *range };
    return 0;
}

static void clear_plan (struct split_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        free (plan->outputs[i].prefix);
    free (plan->outputs);
}

/* Returns the number of documents before sequence 'at', including those at this place that have no
 * sequence.
 */
static size_t documents_before (const struct indexed *ix, size_t at)
{
    size_t d = 0;

    while (at > 0 && d < indexed_num_documents (ix) && indexed_document_start (ix, d + 1) <= at)
        d++;
    return d;
}

/* A part of training's --split, which divides sequences: a bound may cut a document. */
static int plan_part (const struct split_request *r, const struct indexed *ix,
                      const struct split *split, enum split_part part, struct split_plan *plan,
                      struct mg_error *err)
{
    const char *name = split_part_name (part);
    struct indexed_range range;
    int64_t begin, end;
    char *prefix;

    split_range (split, part, (int64_t)indexed_num_sequences (ix), &begin, &end);
    if (begin == end) {
        if (split->bound[part] < split->bound[part + 1])
            fprintf (stderr, "megatron: data split: note: no document is left for %s, it is "
                     "not written\n", name);
        return 0;
    }
    range.sequence = (size_t)begin;
    range.sequence_end = (size_t)end;
    range.document = documents_before (ix, range.sequence);
    range.document_end = documents_before (ix, range.sequence_end);
    if (indexed_document_start (ix, range.document_end) < range.sequence_end) {
        fprintf (stderr, "megatron: data split: note: document %zu is cut at the end of %s: "
                 "--split counts sequences, as training does\n", range.document_end, name);
        range.document_end++;
    }
    if (asprintf (&prefix, "%s_%s", r->output, name) < 0)
        prefix = NULL;
    return add_output (plan, prefix, &range, err);
}

static int plan_parts (const struct split_request *r, const struct indexed *ix,
                       struct split_plan *plan,
                       struct mg_error *err)
{
    struct split split;

    if (split_parse (r->split, &split, err) < 0)
        return -1;
    for (int part = 0; part < SPLIT_NUM_PARTS; part++) {
        if (plan_part (r, ix, &split, part, plan, err) < 0)
            return -1;
    }
    return 0;
}

static int64_t tokens_of (const struct indexed *ix, size_t document)
{
    const struct indexed_range range = indexed_documents (ix, document, document + 1);

    return indexed_range_bytes (ix, &range)
           / (int64_t)indexed_dtype_size (indexed_dtype (ix));
}

/* End of the shard that begins with document 'first': one document at least. */
static size_t end_of_shard (const struct split_request *r, const struct indexed *ix, size_t first)
{
    const size_t count = indexed_num_documents (ix);
    int64_t tokens = tokens_of (ix, first);
    size_t end = first + 1;

    if (r->documents > 0)
        return (uint64_t)r->documents < count - first ? first + (size_t)r->documents : count;
    while (end < count && tokens_of (ix, end) <= r->tokens - tokens)
        tokens += tokens_of (ix, end++);
    return end;
}

static int plan_shards (const struct split_request *r, const struct indexed *ix,
                        struct split_plan *plan,
                        struct mg_error *err)
{
    size_t end;

    for (size_t first = 0; first < indexed_num_documents (ix); first = end) {
        struct indexed_range range;
        char *prefix;

        if (plan->count == SHARDS_MAX)
            return mg_error_set (err, ERANGE, "%s %" PRId64 " gives more than %d datasets, want "
                                 "a larger number", r->documents ? "--documents" : "--tokens",
                                 r->documents ? r->documents : r->tokens, SHARDS_MAX);
        end = end_of_shard (r, ix, first);
        range = indexed_documents (ix, first, end);
        if (asprintf (&prefix, "%s_%0*zu", r->output, SHARD_DIGITS, plan->count) < 0)
            prefix = NULL;
        if (add_output (plan, prefix, &range, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- what the plan would find in the way ---- */

/* Refuse a dataset that is not planned.  Owns 'prefix'; NULL: there was no memory for it. */
static int check_absent (const struct split_plan *plan, char *prefix, struct mg_error *err)
{
    char *name;
    int rc = 0;

    if (!prefix || asprintf (&name, "%s.idx", prefix) < 0)
        name = NULL;
    if (!name)
        rc = mg_error_set (err, ENOMEM, "out of memory");
    else if (access (name, F_OK) == 0)
        rc = mg_error_set (err, EEXIST, "%s is there, but the last dataset to write is %s: "
                           "remove the datasets of an earlier split", name,
                           plan->outputs[plan->count - 1].prefix);
    free (name);
    free (prefix);
    return rc;
}

static bool is_planned (const struct split_plan *plan, const char *prefix)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (strcmp (plan->outputs[i].prefix, prefix) == 0)
            return true;
    }
    return false;
}

/* A dataset of an earlier command, a part or a further shard, would be taken for one of this
 * command.
 */
static int check_leftovers (const struct split_request *r, const struct split_plan *plan,
                            struct mg_error *err)
{
    char *prefix;

    if (!r->split) {
        if (asprintf (&prefix, "%s_%0*zu", r->output, SHARD_DIGITS, plan->count) < 0)
            prefix = NULL;
        return check_absent (plan, prefix, err);
    }
    for (int part = 0; part < SPLIT_NUM_PARTS; part++) {
        if (asprintf (&prefix, "%s_%s", r->output, split_part_name (part)) < 0)
            prefix = NULL;
        if (prefix && is_planned (plan, prefix))
            free (prefix);
        else if (check_absent (plan, prefix, err) < 0)
            return -1;
    }
    return 0;
}

static int check_output (const char *prefix, const char *ending, struct mg_error *err)
{
    char *name;
    int rc;

    if (asprintf (&name, "%s%s", prefix, ending) < 0)
        return mg_error_set (err, ENOMEM, "out of memory");
    rc = outfile_check (name, OUTFILE_WHOLE, err);
    free (name);
    return rc;
}

static int check_plan (const struct split_request *r, const struct split_plan *plan,
                       struct mg_error *err)
{
    if (plan->count == 0)
        return mg_error_set (err, ENODATA, "%s has no document to write", r->prefix);
    for (size_t i = 0; i < plan->count; i++) {
        const char *prefix = plan->outputs[i].prefix;

        if (data_copy_check_output (prefix, r->prefix, err) < 0
            || check_output (prefix, ".bin", err) < 0 || check_output (prefix, ".idx", err) < 0)
            return -1;
    }
    return check_leftovers (r, plan, err);
}

/* ---- the work ---- */

struct source {
    const struct indexed *ix;
    const struct indexed_range *range;
};

static int copy_output (void *arg, struct data_copy *copy, struct indexed_builder *b,
                        struct mg_error *err)
{
    const struct source *source = arg;

    return data_copy_range (copy, b, source->ix, source->range, err);
}

static void print_outputs (const struct indexed *ix, const struct split_plan *plan)
{
    const int64_t size = (int64_t)indexed_dtype_size (indexed_dtype (ix));

    for (size_t i = 0; i < plan->count; i++) {
        const struct indexed_range *range = &plan->outputs[i].range;

        data_copy_print (plan->outputs[i].prefix, range->document_end - range->document,
                         indexed_range_bytes (ix, range) / size, indexed_dtype (ix));
    }
}

static int split_dataset (const struct split_request *r, const struct indexed *ix,
                          struct mg_error *err)
{
    struct data_copy copy = { .done = 0 };
    struct split_plan plan = { NULL, 0, 0 };
    int rc = r->split ? plan_parts (r, ix, &plan, err) : plan_shards (r, ix, &plan, err);

    if (rc == 0)
        rc = check_plan (r, &plan, err);
    progress_begin (&copy.progress,
                    indexed_num_tokens (ix) * (int64_t)indexed_dtype_size (indexed_dtype (ix)));
    for (size_t i = 0; rc == 0 && i < plan.count; i++)
        rc = data_copy_write (&copy, plan.outputs[i].prefix, indexed_dtype (ix), copy_output,
                              &(struct source){ ix, &plan.outputs[i].range }, err);
    progress_end (&copy.progress);
    if (rc == 0)
        print_outputs (ix, &plan);
    clear_plan (&plan);
    return rc;
}

int data_split (int argc, char **argv)
{
    struct split_request request = { .documents = 0 };
    bool help = false;
    const struct cmd_option_table tables[] = {
        { split_options, &request },
        { data_help_options, &help },
    };
    const struct cmd_syntax syntax = { "data", usage, tables, 2, &help, check_request, &request };
    struct indexed *ix = NULL;
    struct mg_error err;
    int status, rc = -1;

    status = cmd_part_read (&syntax, argc, argv);
    if (status != CMD_GO)
        return status;
    data_stop_catch ();
    if ((ix = indexed_open (request.prefix, &err)))
        rc = split_dataset (&request, ix, &err);
    indexed_close (ix);
    if (rc < 0) {
        data_failure (argv[0], &err);
        data_stop_follow ();
        return DATA_FAILED;
    }
    return 0;
}
