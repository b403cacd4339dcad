/* generate.c - megatron generate */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/generate/generate.h"
#include "cmd/option.h"
#include "libcore/base/parse.h"

enum { NEW_TOKENS = 30, LINE_MAX_BYTES = 1 << 20 };

static const char usage[]
    = "Usage: megatron generate --load PATH [OPTION...] [ARGUMENT...]\n"
      "Generate texts by a trained model, on the ranks of a job or on one rank alone.\n"
      "PATH is a checkpoint's directory, a file of weights or a directory of Hugging Face's.\n"
      "Other arguments are those of megatron train about layouts, types, devices and tokenizers.\n";

/* --- options --- */

static int set_word (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    struct generate_words *words = (void *)((char *)target + option->at);
    const char **more = realloc (words->word, ((size_t)words->n + 1) * sizeof (*more));

    (void)what;
    if (!more)
        return mg_error_set (err, ENOMEM, "out of memory");
    words->word = more;
    words->word[words->n++] = value;
    return 0;
}

static int set_stop (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    struct generate_options *o = &((struct generate_job *)target)->options;
    struct text_buffer *more;

    (void)option;
    if (!*value)
        return mg_error_set (err, EINVAL, "%s \"\": want a text", what);
    if (!(more = realloc (o->stops, ((size_t)o->num_stops + 1) * sizeof (*more))))
        return mg_error_set (err, ENOMEM, "out of memory");
    o->stops = more;
    more[o->num_stops++] = (struct text_buffer){ .data = (char *)value, .size = strlen (value) };
    return 0;
}

static int set_real (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    return parse_double (what, value, (double)option->min, (double)option->max,
                         (double *)(void *)((char *)target + option->at), err);
}

static int set_termination (void *target, const struct cmd_option *option, const char *what,
                            const char *value, struct mg_error *err)
{
    struct token_buffer *ids = (void *)((char *)target + option->at);
    int id;

    if (parse_int (what, value, 0, INT32_MAX, &id, err) < 0
        || token_buffer_reserve (ids, 1, err) < 0)
        return -1;
    ids->ids[ids->count++] = id;
    return 0;
}

#define AT(field) .at = offsetof (struct generate_job, options.field)

static const struct cmd_option options[] = {
    { .name = "prompts", .arg = "TEXT...", .help = "texts to go on with", .set = set_word,
      AT (prompts) },
    { .name = "prompts", .arg = "TEXT...", .help = "", .set = set_word, AT (prompts) },
    { .name = "prompt-file", .arg = "FILE", .help = "lines of JSON with \"text\" or \"tokens\"",
      .set = cmd_set_text, AT (prompt_file) },
    { .name = "prompt-tokens", .arg = "1,2,3", .help = "a prompt of token ids (several times)",
      .set = set_word, AT (prompt_tokens) },
    { .name = "interactive", .help = "read prompts from standard input, a line each",
      .set = cmd_set_flag, AT (interactive) },
    { .name = "num-tokens-to-generate", .arg = "N",
      .help = "tokens of a text at most (30); 0: only score the prompts", .set = cmd_set_int64,
      AT (tokens), .max = INT32_MAX },
    { .name = "temperature", .arg = "T", .help = "divides logits (1); 0: the most probable token",
      .set = set_real, AT (sampling.temperature), .max = INT32_MAX },
    { .name = "top-k", .alias = "top_k", .arg = "K",
      .help = "draw from the K most probable tokens (0: all)", .set = cmd_set_int64,
      AT (sampling.top_k), .max = INT32_MAX },
    { .name = "top-p", .alias = "top_p", .arg = "P",
      .help = "draw from the most probable tokens, up to this sum (0: all)", .set = set_real,
      AT (sampling.top_p), .max = 1 },
    { .name = "seed", .arg = "N", .help = "seed of the draws (1234)", .set = cmd_set_int64,
      AT (seed), .max = INT64_MAX },
    { .name = "stop", .arg = "TEXT", .help = "a text ends before this (several times)",
      .set = set_stop },
    { .name = "termination-id", .arg = "ID",
      .help = "a token that ends a text (several times; default: the model's)",
      .set = set_termination, AT (terminations) },
    { .name = "ignore-eos", .help = "no token ends a text", .set = cmd_set_flag,
      AT (ignore_eos) },
    { .name = "return-log-probs", .help = "log probabilities of all tokens", .set = cmd_set_flag,
      AT (log_probs) },
    { .name = "top-n-logprobs", .arg = "N", .help = "the N most probable tokens at each place",
      .set = cmd_set_int, AT (top), .max = GENERATOR_TOP_MAX },
    { .name = "json", .help = "print a line of JSON for each prompt", .set = cmd_set_flag,
      AT (json) },
    { .name = NULL },
};

/* Of struct inference_command. */
static int check_options (void *arg, struct mg_error *err)
{
    const struct generate_options *o = &((struct generate_job *)arg)->options;
    int given = (o->prompts.n > 0) + (o->prompt_tokens.n > 0) + (o->prompt_file != NULL);

    if (o->interactive && (given > 0 || o->json))
        return mg_error_set (err, EINVAL, "--interactive excludes other prompts, and --json");
    if (!o->interactive && given == 0)
        return mg_error_set (err, EINVAL, "no prompt: want --prompts, --prompt-tokens, "
                             "--prompt-file or --interactive");
    if (o->tokens == 0 && !o->log_probs)
        return mg_error_set (err, EINVAL, "--num-tokens-to-generate 0 wants --return-log-probs");
    return 0;
}

/* --- generating --- */

static void end (void *arg, enum generator_end how)
{
    struct generate_text *t = arg;

    (void)how;
    t->done = true;
}

static struct generator_request request_of (struct generate_job *job, size_t i)
{
    const struct generate_options *o = &job->options;
    struct generate_text *t = &job->text[i];

    return (struct generator_request){
        .prompt = t->tokens.ids,
        .num_prompt = (int64_t)t->num_prompt,
        .max_tokens = o->tokens,
        .sampling = o->sampling,
        .draw = { .seed = (uint64_t)o->seed, .request = i },
        .scores = o->log_probs,
        .top = o->top,
        .token = generate_token,
        .end = end,
        .arg = t,
    };
}

static int check_prompts (struct generate_job *job, size_t from, struct mg_error *err)
{
    for (size_t i = from; i < job->num_texts; i++) {
        const struct generator_request request = request_of (job, i);

        if (generator_check (job->use.infer.generator, &request, err) < 0)
            return mg_error_prefix (err, "prompt %zu", i);
    }
    return 0;
}

/* Run the requests from number 'next' on. */
static int run (struct generate_job *job, size_t next, struct mg_error *err)
{
    struct generator *g = job->use.infer.generator;
    int rc;

    do {
        for (; next < job->num_texts && generator_has_room (g); next++) {
            const struct generator_request request = request_of (job, next);

            if (generator_begin (g, &request, err) < 0)
                return -1;
        }
        if ((rc = generator_step (g, err)) < 0 || generate_print (job, err) < 0)
            return -1;
    } while (rc > 0 || next < job->num_texts);
    return 0;
}

static double now (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void print_counts (const struct generate_job *job, double seconds)
{
    const struct generator_counts *c = generator_counts (job->use.infer.generator);

    if (job_rank (job->use.infer.session.job) != 0)
        return;
    fprintf (stderr, "%" PRId64 " tokens in %" PRId64 " passes of %.1f rows, %.1f tokens/s; %"
             PRId64 " near tie%s\n", c->tokens, c->passes,
             c->passes > 0 ? (double)c->rows / (double)c->passes : 0.0,
             seconds > 0 ? (double)c->tokens / seconds : 0.0, c->near, c->near == 1 ? "" : "s");
}

/* Rank 0 reads a line; all ranks get it.  1, or 0 at the end. */
static int share_line (struct generate_job *job, char *line, int64_t *size, struct mg_error *err)
{
    struct mg_comm *all = job_control (job->use.infer.session.job);

    *size = -1;
    if (job_rank (job->use.infer.session.job) == 0) {
        if (isatty (STDIN_FILENO))
            fputs ("> ", stderr);
        fflush (stderr);
        if (fgets (line, LINE_MAX_BYTES, stdin))
            *size = (int64_t)strcspn (line, "\n");
    }
    if (mg_comm_broadcast (all, size, 1, MG_INT64, 0, NULL, err) < 0)
        return -1;
    if (*size > 0
        && mg_comm_broadcast (all, line, (size_t)*size, MG_UINT8, 0, NULL, err) < 0)
        return -1;
    return *size >= 0;
}

static int interact (struct generate_job *job, struct mg_error *err)
{
    char *line = malloc (LINE_MAX_BYTES);
    int rc = line ? 1 : mg_error_set (err, ENOMEM, "out of memory");
    struct mg_error why;
    int64_t size;

    while (rc > 0 && (rc = share_line (job, line, &size, err)) > 0) {
        if (generate_add_text (job, line, (size_t)size, &why) == 0
            && check_prompts (job, job->num_texts - 1, &why) == 0) {
            if (run (job, job->num_texts - 1, err) < 0)
                rc = -1;
            continue;
        }
        job->text[job->num_texts - 1].done = true; // what is wrong with a line ends nothing
        job->printed = job->num_texts;
        if (job_rank (job->use.infer.session.job) == 0)
            fprintf (stderr, "%s\n", why.text);
    }
    free (line);
    return rc;
}

/* Of struct inference_command. */
static int prepare (void *arg, struct mg_error *err)
{
    struct generate_job *job = arg;

    if (generate_check_tokens (job, err) < 0 || generate_prompts (job, err) < 0)
        return -1;
    return check_prompts (job, 0, err);
}

/* Of struct inference_command. */
static int generate (void *arg, struct mg_error *err)
{
    struct generate_job *job = arg;
    double start = now ();

    if ((job->options.interactive ? interact (job, err) : run (job, 0, err)) < 0)
        return -1;
    print_counts (job, now () - start);
    return 0;
}

/* Of struct inference_command. */
static void plan (const void *arg, struct generator_config *config)
{
    const struct generate_options *o = &((const struct generate_job *)arg)->options;

    config->scores = o->log_probs;
    config->top = o->top;
}

static void clear (struct generate_job *job)
{
    generate_clear_texts (job);
    inference_clear (&job->use);
    free (job->options.prompts.word);
    free (job->options.prompt_tokens.word);
    free (job->options.stops);
    free (job->options.terminations.ids);
}

int cmd_generate (int argc, char **argv)
{
    static const struct inference_command command = {
        .program = "megatron generate",
        .usage = usage,
        .options = options,
        .check = check_options,
        .plan = plan,
        .prepare = prepare,
        .run = generate,
    };
    struct generate_job job = {
        .options = { .tokens = NEW_TOKENS, .sampling = { .temperature = 1 }, .seed = 1234 },
    };
    int status = inference_run (&command, &job.use, &job, argc, argv);

    clear (&job);
    return status;
}
