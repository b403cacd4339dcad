/* evaluate.c - validation and test loss
 *
 * What to evaluate is decided at the start, when data is opened and lists are made.  An
 * evaluation uses the slots and streams of training and changes neither parameters nor the
 * position in the training data.  Ranks agree on bad samples and on a stop.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/multiple.h"
#include "libcore/comm/exchange.h"
#include "libcore/train/evaluate.h"
#include "libcore/train/metrics.h"

static const enum split_part parts[] = { SPLIT_VALID, SPLIT_TEST };
enum { NUM_PARTS = sizeof (parts) / sizeof (parts[0]) };

/* --- what is asked for --- */

/* True if the arguments want an evaluation of the part, if it has data. */
static bool is_wanted (const struct evaluation_config *config, enum split_part part)
{
    return config->iters > 0 || (config->full && part == SPLIT_VALID);
}

/* The validation data is one set, or, with --multiple-validation-sets, the datasets of a list. */
static int count_valid (const struct evaluation_config *config, const struct data_config *data)
{
    const struct arg_list *list = &data->part[SPLIT_VALID];

    return config->several && list->count > 0 ? list->count : 1;
}

/* A name stands in lines, in tags of event files and in JSON. */
static int check_name (const char *name, struct mg_error *err)
{
    bool good = strlen (name) < EVALUATION_NAME;

    for (const char *c = name; *c; c++)
        good = good && (unsigned char)*c > ' ' && *c != '"' && *c != '\\' && *c != 0x7f;
    if (good)
        return 0;
    return mg_error_set (err, EINVAL, "--validation-set-names: \"%.80s\" is no name, want up to "
                         "%d bytes without blanks, quotes and backslashes", name,
                         (int)EVALUATION_NAME - 1);
}

static int check_names (const struct evaluation_config *config, const struct data_config *data,
                        struct mg_error *err)
{
    const struct arg_list *names = &config->names;
    int sets = count_valid (config, data);

    if (names->count == 0)
        return 0;
    if (!config->several)
        return mg_error_set (err, EINVAL, "--validation-set-names wants "
                             "--multiple-validation-sets");
    if (train_data_has (data, SPLIT_VALID) && names->count != sets)
        return mg_error_set (err, EINVAL, "--validation-set-names has %d name%s, but there %s %d "
                             "validation set%s", names->count, names->count == 1 ? "" : "s",
                             sets == 1 ? "is" : "are", sets, sets == 1 ? "" : "s");
    for (int i = 0; i < names->count; i++) {
        if (check_name (arg_list_word (names, i), err) < 0)
            return -1;
    }
    return 0;
}

/* A set that is read as a whole has no weights, since weights repeat datasets. */
static int check_full (const struct evaluation_config *config, const struct data_config *data,
                       struct mg_error *err)
{
    struct blend blend;
    const char *name;
    bool weights;

    if (config->several && !config->full)
        return mg_error_set (err, EINVAL, "--multiple-validation-sets wants --full-validation");
    if (!config->full || !train_data_blend (data, SPLIT_VALID, &blend, &name, NULL))
        return 0;
    weights = blend.weights != NULL;
    blend_clear (&blend);
    if (!weights)
        return 0;
    return mg_error_set (err, EINVAL, "--full-validation takes all samples of the validation data "
                         "once: want %s without weights", name);
}

/* True if the split has no weight for the part, so that no user expects it. */
static bool is_unwanted (const struct data_config *data, enum split_part part)
{
    struct split split;

    return data->all.count > 0 && split_parse (data->split, &split, NULL) == 0
           && split.bound[part] == split.bound[part + 1];
}

int evaluate_check (const struct evaluation_config *config, const struct data_config *data,
                    struct mg_error *err)
{
    bool valid = train_data_has (data, SPLIT_VALID), test = train_data_has (data, SPLIT_TEST);

    if (config->alone && config->iters == 0 && !(config->full && valid))
        return mg_error_set (err, EINVAL, "--skip-train with --eval-iters 0 leaves nothing to "
                             "do");
    if (config->alone && !valid && !test)
        return mg_error_set (err, EINVAL, "--skip-train wants data to evaluate: --data-path, "
                             "--valid-data-path or --test-data-path");
    if (config->wants_validation && !valid)
        return mg_error_set (err, EINVAL, "--eval-interval wants validation data: --data-path "
                             "or --valid-data-path");
    if (config->wants_validation && is_unwanted (data, SPLIT_VALID))
        return mg_error_set (err, EINVAL, "--eval-interval wants validation data, and --split %s "
                             "gives it none", data->split);
    if (check_full (config, data, err) < 0)
        return -1;
    return check_names (config, data, err);
}

int64_t evaluate_samples (const struct evaluation_config *config, enum split_part part,
                          int64_t train_iters, int64_t global_batch, struct mg_error *err)
{
    int64_t times = 1, samples;

    if (part == SPLIT_VALID && !config->alone && config->interval > 0)
        times = train_iters / config->interval + 1 - config->start / config->interval;
    if (times < 1)
        times = 1;
    if (__builtin_mul_overflow (times, config->iters, &samples)
        || __builtin_mul_overflow (samples, global_batch, &samples))
        return mg_error_set (err, ERANGE, "--eval-iters %" PRId64 " is too large for %" PRId64
                             " evaluations of %" PRId64 " samples each", config->iters,
                             times, global_batch);
    return samples;
}

/* --- data --- */

/* Open the data of a set.  Without any of it, the set has no source, and the result is 0. */
static int open_set (struct evaluation *e, struct evaluation_set *set,
                     const struct data_config *data, const struct evaluation_run *run,
                     enum split_part part, struct mg_error *err)
{
    bool full = e->config->full && part == SPLIT_VALID;
    int64_t wanted = full ? TRAIN_DATA_EPOCH
                          : evaluate_samples (e->config, part, run->train_iters, e->batch.running,
                                              err);

    if (wanted == -1 && !full)
        return -1;
    set->source = train_data_open (data, part, e->seq_length, wanted, err);
    if (!set->source) {
        if (errno != ENODATA || (part == SPLIT_VALID && e->config->wants_validation))
            return -1;
        if (err && (!is_unwanted (run->data, part) || e->config->alone))
            e->missing[part] = *err;
        return 0;
    }
    set->iters = e->config->iters;
    set->samples = set->iters * e->batch.running;
    if (full && e->batch.running > 0) { // else check_batch() refuses the size
        set->samples = set->source->num_samples;
        set->iters = set->samples / e->batch.running
                     + (set->samples % e->batch.running > 0);
    }
    return 0;
}

static void name_set (const struct evaluation_config *config, int i, struct evaluation_set *set)
{
    if (!config->several)
        strcpy (set->name, "validation");
    else if (config->names.count > 0)
        snprintf (set->name, sizeof (set->name), "validation-%s",
                  arg_list_word (&config->names, i));
    else
        snprintf (set->name, sizeof (set->name), "validation-%d", i);
}

static int open_valid (struct evaluation *e, const struct evaluation_run *run,
                       struct mg_error *err)
{
    const struct arg_list *list = &run->data->part[SPLIT_VALID];
    int sets = count_valid (e->config, run->data);

    if (e->valid)
        return 0;
    if (!(e->valid = calloc ((size_t)sets, sizeof (*e->valid))))
        return mg_error_set (err, ENOMEM, "evaluation: out of memory");
    for (int i = 0; i < sets; i++) {
        struct data_config data = *run->data;

        if (sets > 1)
            data.part[SPLIT_VALID] = (struct arg_list){ (char *)arg_list_word (list, i), NULL,
                                                          1 };
        e->num_valid = i + 1;
        name_set (e->config, i, &e->valid[i]);
        if (open_set (e, &e->valid[i], &data, run, SPLIT_VALID, err) < 0)
            return -1;
        e->num_valid -= !e->valid[i].source;
    }
    return 0;
}

bool evaluate_any (const struct evaluation *e)
{
    return e->assumed || e->num_valid > 0 || e->test.source;
}

/* The shape of the passes, and the size of --eval-global-batch-size; else, of batch sizes that
 * change, the one that the run ends with.
 */
static void choose_batch (struct evaluation *e, const struct evaluation_run *run)
{
    const struct evaluation_config *c = e->config;
    const struct num_microbatches *b = run->batches;
    int64_t size = c->global_batch, at = 0;

    e->micro_batch_size = c->micro_batch_size > 0 ? c->micro_batch_size : run->micro_batch_size;
    e->seq_length = c->seq_length > 0 ? c->seq_length : run->seq_length;
    if (size == 0) {
        if (c->alone)
            at = num_microbatches_from (b, num_microbatches_count (b) - 1);
        else if (run->train_iters > 0)
            at = num_microbatches_samples (b, run->train_iters - 1);
        num_microbatches_at (b, at, &e->batch);
        if (e->micro_batch_size == run->micro_batch_size)
            return;
        size = e->batch.running;
    }
    e->batch = (struct batch_size){ size, size, size / e->micro_batch_size / run->dp };
}

static int check_batch (const struct evaluation *e, const struct evaluation_run *run,
                        struct mg_error *err)
{
    int64_t round = (int64_t)e->micro_batch_size * run->dp;
    bool own = e->config->micro_batch_size > 0;
    char of[80];

    if (e->config->global_batch == 0 && e->micro_batch_size == run->micro_batch_size)
        return num_microbatches_check (run->batches, &e->batch, err) < 0
                   ? mg_error_prefix (err, "evaluation") : 0;
    snprintf (of, sizeof (of), "%smicro-batch-size %d x dp %d = %" PRId64, own ? "eval-" : "",
              e->micro_batch_size, run->dp, round);
    return multiple_check (e->config->global_batch > 0 ? "--eval-global-batch-size"
                                                       : "evaluation: the global batch size",
                           e->batch.running, round, of, "", err);
}

int evaluate_open (struct evaluation *e, const struct evaluation_config *config,
                   const struct evaluation_run *run, struct mg_error *err)
{
    e->config = config;
    e->cyclic = train_data_is_cyclic (run->data);
    choose_batch (e, run);
    if (is_wanted (config, SPLIT_VALID) && train_data_has (run->data, SPLIT_VALID)
        && open_valid (e, run, err) < 0)
        return -1;
    strcpy (e->test.name, "test");
    if (is_wanted (config, SPLIT_TEST) && train_data_has (run->data, SPLIT_TEST)
        && !e->test.source && open_set (e, &e->test, run->data, run, SPLIT_TEST, err) < 0)
        return -1;
    if (config->alone && !evaluate_any (e))
        return mg_error_set (err, EINVAL, "--skip-train: there is nothing to evaluate: %s",
                             e->missing[SPLIT_VALID].text[0] ? e->missing[SPLIT_VALID].text
                                                             : e->missing[SPLIT_TEST].text);
    return evaluate_any (e) ? check_batch (e, run, err) : 0;
}

int evaluate_plan (struct evaluation *e, const struct evaluation_config *config,
                   const struct evaluation_run *run, struct mg_error *err)
{
    const struct data_config *data = run->data;
    bool none = !data->batches && !train_data_has (data, SPLIT_TRAIN)
                && !train_data_has (data, SPLIT_VALID) && !train_data_has (data, SPLIT_TEST);
    struct split split;

    e->config = config;
    if (data->all.count > 0 && split_parse (data->split, &split, err) < 0)
        return -1;
    for (int i = 0; i < NUM_PARTS; i++)
        e->assumed |= is_wanted (config, parts[i])
                      && (none || (train_data_has (data, parts[i])
                                   && !is_unwanted (data, parts[i])));
    if (!e->assumed)
        return 0;
    choose_batch (e, run);
    return check_batch (e, run, err);
}

/* Data of the order that the arguments ask for.  A set that is read as a whole keeps its
 * own order, and is not repeated.
 */
static int init_set (const struct evaluation *e, struct evaluation_set *set,
                     const struct input_place *place, int vocab_size, int32_t eod,
                     struct mg_error *err)
{
    bool full = e->config->full && set != &e->test;

    if (!set->source)
        return 0;
    if (input_init (&set->input, set->source, place, e->micro_batch_size, vocab_size, err) < 0)
        return -1;
    set->input.eod = eod;
    set->input.wrap = true; // after a checkpoint whose past had other arguments, data may be short
    if (full)
        set->input.limit = set->samples;
    return e->cyclic && !full ? input_shuffle (&set->input, err) : 0;
}

int evaluate_init (struct evaluation *e, const struct input_place *place, int vocab_size,
                   int32_t eod, struct mg_error *err)
{
    for (int i = 0; i < e->num_valid; i++) {
        if (init_set (e, &e->valid[i], place, vocab_size, eod, err) < 0)
            return -1;
    }
    return init_set (e, &e->test, place, vocab_size, eod, err);
}

static void clear_set (struct evaluation_set *set)
{
    input_clear (&set->input);
    sample_source_destroy (set->source);
}

void evaluate_clear (struct evaluation *e)
{
    for (int i = 0; i < e->num_valid; i++)
        clear_set (&e->valid[i]);
    free (e->valid);
    clear_set (&e->test);
    *e = (struct evaluation){ 0 };
}

/* --- evaluating --- */

/* The values that ranks sum: the sums of the model's loss, and the number of ranks with
 * bad samples. */
enum { SUM_WEIGHTED, SUM_LOSS, SUM_TOKENS, SUM_BAD, NUM_SUMS };

static int add_up (const struct evaluation_use *u, const struct input *in, double sums[NUM_SUMS],
                   struct mg_error *err)
{
    struct job *job = u->accord->job;

    if (model_fetch_losses (u->model, err) < 0)
        return -1;
    if (model_has_loss (u->model) && job_group_rank (job, GROUP_TP) == 0)
        model_loss (u->model, 0, sums);
    sums[SUM_BAD] = in->bad;
    if (mg_comm_all_reduce (job_control (job), sums, NUM_SUMS, MG_FLOAT64, MG_SUM, NULL, err) < 0)
        return mg_error_prefix (err, "evaluation");
    if (sums[SUM_BAD] == 0)
        return 0;
    if (in->bad)
        mg_error_set (err, EINVAL, "evaluation: %s", in->error.text);
    return accord_common (u->accord, exchange_result (job_control (job), in->bad ? -1 : 0, err));
}

/* Find out whether some rank has a reason to stop.  A signal may come shortly before a
 * time limit, which leaves no time for an evaluation.
 */
static int ask_to_stop (struct accord *accord, struct mg_error *err)
{
    double asked[ACCORD_NUM_REASONS];

    accord_ask_to_stop (accord, asked);
    if (mg_comm_all_reduce (job_control (accord->job), asked, ACCORD_NUM_REASONS, MG_FLOAT64,
                            MG_SUM, NULL, err) < 0)
        return mg_error_prefix (err, "evaluation");
    accord_decide_to_stop (accord, asked);
    return 0;
}

/* All batches of one evaluation, from a sample of the set on, unless it is to stop. */
static int run_batches (const struct evaluation *e, struct evaluation_set *set, int64_t first,
                        struct mg_error *err)
{
    const struct evaluation_use *u = &e->use;
    const struct passes_run run = { .fetch = input_fetch, .arg = &set->input, .mode = u->mode };

    input_start (&set->input, first);
    if (model_clear_losses (u->model, err) < 0)
        return -1;
    for (int64_t i = 0; i < set->iters && !u->accord->stopping; i++) {
        set->input.consumed = first + i * e->batch.running;
        if (passes_evaluate (u->passes, &run, err) < 0 || ask_to_stop (u->accord, err) < 0)
            return -1;
    }
    return 0;
}

/* 'end': the text behind the iteration in the line (metrics.h).  Returns 1, or 0 if the evaluation
 * was stopped and has no result.
 */
static int evaluate (struct evaluation *e, struct evaluation_set *set, const char *end,
                     int64_t first, struct metrics_evaluation *m, struct mg_error *err)
{
    const struct evaluation_use *u = &e->use;
    double sums[NUM_SUMS] = { 0 }, start = timers_now ();

    *m = (struct metrics_evaluation){
        .part = set->name,
        .set = end,
        .iteration = u->progress->iteration,
        .consumed_samples = u->progress->consumed_samples,
        .samples = set->samples,
    };
    if (run_batches (e, set, first, err) < 0)
        return -1;
    if (u->accord->stopping)
        return 0;
    if (add_up (u, &set->input, sums, err) < 0)
        return -1;
    m->lm_loss = sums[SUM_LOSS] / (sums[SUM_TOKENS] > 0 ? sums[SUM_TOKENS] : 1);
    m->milliseconds = timers_now () - start;
    report_evaluation (u->report, m);
    return 1;
}

/* Returns the first sample of a validation.  Sets that are evaluated whole begin at their first
 * sample each time.
 */
static int64_t first_sample (const struct evaluation *e)
{
    return e->config->alone || e->config->full ? 0 : e->use.progress->consumed_valid_samples;
}

/* After a validation of all sets, unless it was stopped. */
static void consume (struct evaluation *e)
{
    if (!e->config->full && !e->use.accord->stopping)
        e->use.progress->consumed_valid_samples += e->config->iters * e->batch.running;
}

static int validate (struct evaluation *e, const char *end, struct mg_error *err)
{
    struct metrics_evaluation m;

    for (int i = 0; i < e->num_valid && !e->use.accord->stopping; i++) {
        if (evaluate (e, &e->valid[i], end, first_sample (e), &m, err) < 0)
            return -1;
    }
    consume (e);
    return 0;
}

static const struct evaluation_set *find_set (const struct evaluation *e, const char *name)
{
    for (int i = 0; i < e->num_valid; i++) {
        if (strcmp (e->valid[i].name, name) == 0)
            return &e->valid[i];
    }
    return e->test.source && strcmp (e->test.name, name) == 0 ? &e->test : NULL;
}

int evaluate_check_set (const struct evaluation *e, const char *name, struct mg_error *err)
{
    const char *first = e->num_valid > 0 ? e->valid[0].name : e->test.source ? "test" : NULL;

    if (find_set (e, name))
        return 0;
    return mg_error_set (err, ENOENT, "there is no set \"%.80s\" to evaluate%s%s", name,
                         first ? ", want " : ": no data, or --eval-iters 0", first ? first : "");
}

int evaluate_set (struct evaluation *e, const char *name, struct metrics_evaluation *m,
                  struct mg_error *err)
{
    struct evaluation_set *set = (struct evaluation_set *)find_set (e, name);
    bool test = set == &e->test;
    int rc;

    rc = evaluate (e, set, test ? " on test set" : "", test ? 0 : first_sample (e), m, err);
    if (rc > 0 && !test)
        consume (e);
    return rc;
}

int evaluate_due (struct evaluation *e, struct mg_error *err)
{
    int64_t interval, done = e->use.progress->iteration;

    if (e->num_valid == 0)
        return 0;
    interval = e->config->interval;
    if (interval == 0 || done % interval != 0 || done < e->config->start)
        return 0;
    return validate (e, "", err);
}

int evaluate_end (struct evaluation *e, struct mg_error *err)
{
    struct metrics_evaluation m;

    if (e->num_valid > 0 && validate (e, " on validation set", err) < 0)
        return -1;
    if (e->test.source && !e->use.accord->stopping)
        return evaluate (e, &e->test, " on test set", 0, &m, err) < 0 ? -1 : 0;
    return 0;
}
