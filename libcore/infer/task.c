/* task.c - texts as windows, samples for passes, figures */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "libcore/args/file.h"
#include "libcore/infer/task_private.h"
#include "libcore/text/detokenizer.h"

enum { TASK_FILE_MAX = 1 << 30 };

static const struct {
    const char *name;
    enum detokenizer detokenizer;
    bool lines; /* of JSON; else one text */
} kinds[TASK_NUM_KINDS] = {
    [TASK_WIKITEXT103] = { "WIKITEXT103", DETOKENIZER_WIKI, false },
    [TASK_PTB] = { "PTB", DETOKENIZER_PTB, false },
    [TASK_PERPLEXITY] = { "PERPLEXITY", DETOKENIZER_NONE, false },
    [TASK_LAMBADA] = { "LAMBADA", DETOKENIZER_NONE, true },
    [TASK_HELLASWAG] = { "HELLASWAG", DETOKENIZER_NONE, true },
};

const char *task_name (enum task_kind kind)
{
    return kinds[kind].name;
}

int task_parse (const char *name, enum task_kind *kind, struct mg_error *err)
{
    for (int k = 0; k < TASK_NUM_KINDS; k++) {
        if (strcasecmp (name, kinds[k].name) == 0) {
            *kind = (enum task_kind)k;
            return 0;
        }
    }
    return mg_error_set (err, EINVAL, "--task %.40s, want WIKITEXT103, PTB, PERPLEXITY, LAMBADA or "
                         "HELLASWAG", name);
}

/* --- samples for passes --- */

/* The sample() of struct sample_source_ops.  Behind the tokens are zeros of weight 0. */
static int fill_sample (void *impl, int64_t index, const struct sample *to, struct mg_error *err)
{
    const struct task *t = impl;
    const struct task_sample *s = &t->sample[index];
    const int32_t *token = t->tokens.ids + s->first;
    struct sample_gpt gpt;

    if (sample_gpt_of (to, task_name (t->config.kind), t->config.seq_length, &gpt, err) < 0)
        return -1;
    for (int i = 0; i < t->config.seq_length; i++) {
        gpt.tokens[i] = i < s->count - 1 ? token[i] : 0;
        gpt.labels[i] = i < s->count - 1 ? token[i + 1] : 0;
        gpt.loss_mask[i] = i >= s->from && i < s->count - 1 ? 1 : 0;
    }
    return 0;
}

static const struct sample_source_ops source_ops = {
    .name = "task",
    .sample = fill_sample,
};

int task_add_sample (struct task *t, size_t count, size_t from, struct mg_error *err)
{
    size_t n = (size_t)t->num_samples;

    if ((n & (n - 1)) == 0) { // memory for twice as many, whenever a power of two is reached
        struct task_sample *more = realloc (t->sample, (n ? 2 * n : 1) * sizeof (*more));

        if (!more)
            return mg_error_set (err, ENOMEM, "out of memory for %zu samples", n + 1);
        t->sample = more;
    }
    t->sample[t->num_samples++] = (struct task_sample){
        .first = t->tokens.count - count, .count = (int)count, .from = (int)from,
    };
    return 0;
}

/* --- texts --- */

static int add_windows (struct task *t, struct mg_error *err)
{
    int64_t n = t->text_tokens, length = t->config.seq_length, step = t->config.overlap;
    int64_t more = n - 1 > step ? (n - 1 - step + step - 1) / step : 0;

    for (int64_t i = 0; i <= more; i++) {
        int64_t first = i * step, count = n - first > length + 1 ? length + 1 : n - first;
        int64_t from = i > 0 ? length - step : 0;

        if (task_add_sample (t, (size_t)count, (size_t)(from < count ? from : count - 1), err) < 0)
            return -1;
        t->sample[i].first = (size_t)first;
    }
    return 0;
}

static int read_text (struct task *t, struct tokenizer *tokenizer, const char *text, size_t size,
                      struct mg_error *err)
{
    enum detokenizer kind = kinds[t->config.kind].detokenizer;
    struct text_buffer plain = { 0 };
    int rc;

    if (t->config.add_bos) {
        if (token_buffer_reserve (&t->tokens, 1, err) < 0)
            return -1;
        t->tokens.ids[t->tokens.count++] = t->config.bos;
    }
    rc = detokenizer_run (kind, text, size, &plain, err);
    if (rc == 0 && plain.size > 0)
        rc = tokenizer_encode (tokenizer, plain.data, plain.size, &t->tokens, err);
    text_buffer_clear (&plain);
    if (rc < 0)
        return -1;
    t->text_tokens = (int64_t)t->tokens.count;
    if (kind != DETOKENIZER_NONE)
        t->words = detokenizer_words (text, size);
    if (t->text_tokens < 2)
        return mg_error_set (err, EINVAL, "the text has %" PRId64 " token%s, want 2 or more",
                             t->text_tokens, t->text_tokens == 1 ? "" : "s");
    if (t->words == 1)
        return mg_error_set (err, EINVAL, "the text has 1 word, want 2 or more, with blanks "
                             "between them");
    return add_windows (t, err);
}

/* --- the file --- */

static int check_config (struct task_config *c, const struct tokenizer *tokenizer,
                         struct mg_error *err)
{
    bool windows = !kinds[c->kind].lines;

    if (c->overlap > 0 && !windows)
        return mg_error_set (err, EINVAL, "--overlapping-eval has no meaning for %s, whose samples "
                             "are not windows of a text", task_name (c->kind));
    if (c->overlap < 0 || c->overlap > c->seq_length)
        return mg_error_set (err, EINVAL, "--overlapping-eval %d, want 1 to the sequence length "
                             "%d", c->overlap, c->seq_length);
    if (c->overlap == 0)
        c->overlap = c->seq_length;
    if (c->strict && c->kind != TASK_LAMBADA)
        return mg_error_set (err, EINVAL, "--strict-lambada wants --task LAMBADA");
    if (!tokenizer && c->kind != TASK_LAMBADA)
        return mg_error_set (err, EINVAL, "there is no tokenizer: want --tokenizer-type, or "
                             "tokenizer.json beside the weights");
    if (c->add_bos && c->bos < 0)
        return mg_error_set (err, EINVAL, "--add-bos: no token is known that begins or ends a "
                             "document");
    return 0;
}

static int check_tokens (const struct task *t, struct mg_error *err)
{
    for (size_t i = 0; i < t->tokens.count; i++) {
        int32_t id = t->tokens.ids[i];

        if (id < 0 || id >= t->config.vocab_size)
            return mg_error_set (err, EINVAL, "token %d is outside the model's vocabulary, want 0 "
                                 "to %d: the tokenizer is not that of the model", (int)id,
                                 t->config.vocab_size - 1);
    }
    return 0;
}

static int read_file (struct task *t, struct tokenizer *tokenizer, struct mg_error *err)
{
    const char *path = t->config.path;
    bool lines = kinds[t->config.kind].lines;
    size_t size;
    char *text = args_file_bytes (path, TASK_FILE_MAX, &size, err);
    int rc = 0;

    if (!text)
        return mg_error_prefix (err, "--valid-data");
    t->bytes = (int64_t)size;
    if (size > TASK_FILE_MAX)
        rc = mg_error_set (err, EFBIG, "more than %d bytes", TASK_FILE_MAX);
    if (rc == 0)
        rc = lines ? task_add_lines (t, tokenizer, text, size, err)
                   : read_text (t, tokenizer, text, size, err);
    free (text);
    if (rc == 0 && t->num_samples == 0)
        rc = mg_error_set (err, EINVAL, "the file has no samples");
    if (rc == 0)
        rc = check_tokens (t, err);
    return rc < 0 ? mg_error_prefix (err, "%s", path) : 0;
}

int task_read (struct task *t, const struct task_config *config, struct tokenizer *tokenizer,
               struct mg_error *err)
{
    *t = (struct task){ .config = *config };
    if (check_config (&t->config, tokenizer, err) < 0 || read_file (t, tokenizer, err) < 0) {
        task_clear (t);
        return -1;
    }
    t->source = (struct sample_source){
        .ops = &source_ops,
        .impl = t,
        .num_samples = t->num_samples,
        .seq_length = t->config.seq_length,
        .max_token = t->config.vocab_size - 1,
    };
    return 0;
}

void task_clear (struct task *t)
{
    int saved_errno = errno;

    free (t->tokens.ids);
    free (t->sample);
    free (t->question);
    *t = (struct task){ 0 };
    errno = saved_errno;
}

/* --- figures --- */

static double limited_exp (double x)
{
    return exp (x < 20 ? x : 20);
}

static void text_figures (const struct task *t, double sum, struct task_figures *f)
{
    double words = (double)t->words;

    f->tokens = t->text_tokens;
    f->loss = sum / (double)(t->text_tokens - 1);
    f->ppl = limited_exp (f->loss);
    f->bits_per_byte = sum / log (2) / (double)t->bytes;
    if (t->words > 0) {
        f->ppl_adjusted = limited_exp (sum / (words - 1));
        f->ppl_paper = exp (sum / words);
    }
}

/* True if the right ending of a question has the least loss; of equal losses the first counts. */
static bool is_right (const struct task *t, const struct task_question *q,
                      const struct scorer_sample *score, bool by_characters)
{
    int best = 0;
    double least = INFINITY;

    for (int i = 0; i < q->endings; i++) {
        double loss = score[q->first + i].loss;

        if (by_characters)
            loss /= (double)t->sample[q->first + i].characters;
        if (loss < least) {
            least = loss;
            best = i;
        }
    }
    return best == q->right;
}

static void question_figures (const struct task *t, const struct scorer_sample *score,
                              struct task_figures *f)
{
    int64_t right = 0, by_characters = 0;

    for (int64_t i = 0; i < t->num_questions; i++) {
        right += is_right (t, &t->question[i], score, false);
        by_characters += is_right (t, &t->question[i], score, true);
    }
    f->accuracy = (double)right / (double)t->num_questions;
    f->accuracy_norm = (double)by_characters / (double)t->num_questions;
}

void task_figures (const struct task *t, const struct scorer_sample *score,
                   struct task_figures *f)
{
    int64_t labels = 0, hits = 0;
    double sum = 0;

    for (int64_t i = 0; i < t->num_samples; i++) {
        labels += t->sample[i].count - 1 - t->sample[i].from;
        sum += score[i].loss;
        hits += score[i].misses == 0;
    }
    *f = (struct task_figures){ labels, NAN, NAN, NAN, NAN, NAN, NAN, NAN };
    if (t->text_tokens > 0) {
        text_figures (t, sum, f);
    } else if (t->num_questions > 0) {
        question_figures (t, score, f);
    } else {
        f->loss = sum / (double)labels;
        f->accuracy = (double)hits / (double)t->num_samples;
    }
}
