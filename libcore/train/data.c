/* data.c - the datasets of a run
 *
 * Exactly one way to name data may be used.  Each part of the data is opened on its own, with the
 * number of samples that the run will read of it.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/data/sample_blend.h"
#include "libcore/text/tokenizer.h"
#include "libcore/train/data.h"

static const char *const part_arguments[SPLIT_NUM_PARTS] = {
    [SPLIT_TRAIN] = "--train-data-path",
    [SPLIT_VALID] = "--valid-data-path",
    [SPLIT_TEST] = "--test-data-path",
};

/* The argument that names a part's data, and its name. */
static const struct arg_list *list_of (const struct data_config *c, enum split_part part,
                                         const char **name)
{
    *name = c->all.count ? "--data-path" : part_arguments[part];
    return c->all.count ? &c->all : &c->part[part];
}

bool train_data_has (const struct data_config *c, enum split_part part)
{
    const char *name;

    return c->mock || c->from_program[part] || list_of (c, part, &name)->count > 0;
}

bool train_data_is_cyclic (const struct data_config *c)
{
    return strcmp (c->loader, "cyclic") == 0;
}

static int check_loader (const struct data_config *c, struct mg_error *err)
{
    bool cyclic = train_data_is_cyclic (c);

    if (strcmp (c->loader, "external") == 0 && c->from_program[SPLIT_TRAIN])
        return 0; // the program makes them, in order
    if (strcmp (c->loader, "external") == 0)
        return mg_error_set (err, ENOTSUP, "--dataloader-type external is of programs that make "
                             "batches themselves, want single or cyclic");
    if (!cyclic && strcmp (c->loader, "single") != 0)
        return mg_error_set (err, EINVAL, "--dataloader-type: \"%.40s\" is unknown, want single or "
                             "cyclic", c->loader);
    if (cyclic && c->batches)
        return mg_error_set (err, EINVAL, "--dataloader-type cyclic and --batches exclude each "
                             "other: batches are taken as they stand in the file");
    return 0;
}

static int parse_list (const struct arg_list *list, const char *name,
                       struct blend *blend, struct mg_error *err)
{
    const char **words = calloc (list->count + 1, sizeof (*words));
    int rc;

    if (!words)
        return mg_error_set (err, ENOMEM, "out of memory");
    for (int i = 0; i < list->count; i++)
        words[i] = arg_list_word (list, i);
    rc = blend_parse (words, list->count, blend, err);
    free (words);
    return rc < 0 ? mg_error_prefix (err, "%s", name) : 0;
}

bool train_data_blend (const struct data_config *c, enum split_part part, struct blend *blend,
                       const char **name, struct mg_error *err)
{
    const struct arg_list *list = list_of (c, part, name);

    return list->count > 0 && parse_list (list, *name, blend, err) == 0;
}

static bool is_any_from_program (const struct data_config *c)
{
    return c->from_program[SPLIT_TRAIN] || c->from_program[SPLIT_VALID]
           || c->from_program[SPLIT_TEST];
}

/* Check that data are named in exactly one of the possible ways. */
static int check_ways (const struct data_config *c, struct mg_error *err)
{
    const struct {
        const char *name;
        bool given;
    } ways[] = {
        { "--data-path", c->all.count > 0 },
        { "--batches", c->batches != NULL },
        { "--mock-data", c->mock },
        { "samples that the program makes", is_any_from_program (c) },
        { part_arguments[SPLIT_TRAIN], c->part[SPLIT_TRAIN].count > 0 },
        { part_arguments[SPLIT_VALID], c->part[SPLIT_VALID].count > 0 },
        { part_arguments[SPLIT_TEST], c->part[SPLIT_TEST].count > 0 },
    };
    int first = -1;

    for (int i = 0; i < (int)(sizeof (ways) / sizeof (ways[0])); i++) {
        if (ways[i].given && first >= 0 && first < 4)
            return mg_error_set (err, EINVAL, "%s and %s exclude each other",
                                 ways[first].name, ways[i].name);
        if (ways[i].given && first < 0)
            first = i;
    }
    return 0;
}

int train_data_check (const struct data_config *c, struct mg_error *err)
{
    const struct tokenizer_files *files = &c->tokenizer_files;

    if (check_ways (c, err) < 0 || check_loader (c, err) < 0 || train_edit_check (c, err) < 0)
        return -1;
    for (int part = 0; part < SPLIT_NUM_PARTS; part++) {
        struct blend blend;
        const char *name;
        const struct arg_list *list = list_of (c, part, &name);

        if (list->count > 0 && parse_list (list, name, &blend, err) < 0)
            return -1;
        if (list->count > 0)
            blend_clear (&blend);
    }
    if (c->tokenizer)
        return tokenizer_check (c->tokenizer, files, err);
    if (files->vocab || files->merge || files->model)
        return mg_error_set (err, EINVAL, "%s wants --tokenizer-type",
                             files->vocab ? "--vocab-file"
                             : files->merge ? "--merge-file" : "--tokenizer-model");
    if (files->has_eod)
        return mg_error_set (err, EINVAL, "--null-tokenizer-eod-id wants --tokenizer-type "
                             "NullTokenizer");
    return 0;
}

static struct sample_source *open_mock (const struct data_config *c, enum split_part part,
                                        int seq_length, int64_t num_samples,
                                        struct mg_error *err)
{
    struct mock_identity id = { .part = part, .seq_length = seq_length,
                                .num_samples = num_samples, .seed = c->seed };
    struct sample_source *source;

    if (train_data_mock (c, &id.vocab_size, &id.eod, err) < 0
        || !(source = sample_source_mock_create (&id, err)))
        return NULL;
    return train_edit_samples (c, part, source, err);
}

/* Samples of a program, which has some number of them.  Training takes each once; validation and
 * test begin again behind the last one.
 */
static struct sample_source *open_program (const struct data_config *c, enum split_part part,
                                           int seq_length, int64_t num_samples,
                                           struct mg_error *err)
{
    const struct sample_program *p = c->program[part];
    struct sample_source *source;

    if (part == SPLIT_TRAIN && p->num_samples < num_samples && !train_data_is_cyclic (c)) {
        mg_error_set (err, ENODATA, "the program has %" PRId64 " samples for training, but the run "
                      "takes %" PRId64 "; --dataloader-type cyclic takes them again and again",
                      p->num_samples, num_samples);
        return NULL;
    }
    if (num_samples == TRAIN_DATA_EPOCH && p->num_samples == INT64_MAX) {
        mg_error_set (err, EINVAL, "--full-validation wants a number of samples: those that the "
                      "program has for %s have no end", split_part_name (part));
        return NULL;
    }
    if (!(source = sample_source_program_create (p, seq_length, err)))
        return NULL;
    return train_edit_samples (c, part, source, err);
}

struct sample_source *train_data_open (const struct data_config *c,
                                       enum split_part part, int seq_length,
                                       int64_t num_samples, struct mg_error *err)
{
    struct sample_blend_config config = {
        .split = c->all.count ? c->split : NULL,
        .part = part,
        .seq_length = seq_length,
        .num_samples = num_samples,
        .seed = c->seed,
        .surplus = c->surplus,
        .cache = c->cache,
    };
    const char *name;
    const struct arg_list *list = list_of (c, part, &name);
    struct sample_source *source;
    struct blend blend;

    if (c->mock)
        return open_mock (c, part, seq_length, num_samples, err);
    if (c->from_program[part])
        return open_program (c, part, seq_length, num_samples, err);
    if (list->count == 0) {
        mg_error_set (err, EINVAL, "no data for %s: %s is not given",
                      split_part_name (part), name);
        return NULL;
    }
    if (parse_list (list, name, &blend, err) < 0)
        return NULL;
    config.blend = &blend;
    source = sample_source_blend_create (&config, err);
    blend_clear (&blend);
    if (source && source->num_samples < num_samples && !train_data_is_cyclic (c)) {
        mg_error_set (err, ENODATA,
                      "%s without weights is one epoch of each dataset: %" PRId64
                      " samples of %d tokens for %s, want %" PRId64 "; give weights",
                      name, source->num_samples, seq_length, split_part_name (part),
                      num_samples);
        sample_source_destroy (source);
        return NULL;
    }
    return source ? train_edit_samples (c, part, source, err) : NULL;
}
