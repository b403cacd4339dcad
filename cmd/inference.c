/* inference.c - options of commands that use a trained model; join, load, prepare, run, leave */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/inference.h"
#include "cmd/open_files.h"

/* --- options --- */

#define AT(field) .at = offsetof (struct inference, field)

static const struct cmd_option load[] = {
    { .name = "load", .arg = "PATH", .help = "the trained model", .set = cmd_set_text, AT (load),
      .required = true },
    { .name = NULL },
};

/* Of commands that generate. */
static const struct cmd_option sizes[] = {
    { .name = "inference-max-requests", .arg = "N", .help = "texts that share passes (8)",
      .set = cmd_set_int, AT (requests), .min = 1, .max = GENERATOR_REQUESTS_MAX },
    { .name = "inference-max-seq-length", .arg = "N",
      .help = "positions of a text (those of the model, 2560 at most)", .set = cmd_set_int64,
      AT (length), .min = 1, .max = INT32_MAX },
    { .name = "inference-dynamic-batching-max-tokens", .arg = "N",
      .help = "rows of a pass; longer prompts go in pieces (512)", .set = cmd_set_int64, AT (rows),
      .min = 1, .max = INT32_MAX },
    { .name = NULL },
};

/* What other programs have and this one does not. */
static const struct {
    const char *name, *what;
} refused[] = {
    { "beam-width", "beam search" },
    { "num-beams", "beam search" },
    { "num-speculative-tokens", "speculative decoding" },
    { "speculative-model", "speculative decoding" },
    { "inference-dynamic-batching-prefix-caching", "prefix caching" },
    { "enable-prefix-caching", "prefix caching" },
    { "quantization", "quantised weights" },
    { "load-in-8bit", "quantised weights" },
    { "load-in-4bit", "quantised weights" },
    { "lora", "adapters" },
    { "enable-lora", "adapters" },
    { "embeddings", "embeddings" },
    { "inference-cuda-graph-scope", "graphs of passes that generate" },
};

static int check_refused (int argc, char **argv, struct mg_error *err)
{
    for (int i = 1; i < argc; i++) {
        for (size_t k = 0; k < sizeof (refused) / sizeof (refused[0]); k++) {
            size_t n = strlen (refused[k].name);

            if (strncmp (argv[i], "--", 2) == 0 && strncmp (argv[i] + 2, refused[k].name, n) == 0
                && (argv[i][n + 2] == '\0' || argv[i][n + 2] == '='))
                return mg_error_set (err, ENOTSUP, "--%s: %s is not supported", refused[k].name,
                                     refused[k].what);
        }
    }
    return 0;
}

/* A command line: its tables, and what is whose. */
struct line {
    struct cmd_option_table tables[3];
    int ntables;
    char **own, **other; /* words of the tables' options, behind own[0]; all other words */
    int num_other;
};

static void set_tables (struct line *line, const struct inference_command *command,
                        struct inference *use, void *arg)
{
    line->ntables = command->scores ? 2 : 3;
    line->tables[0] = (struct cmd_option_table){ load, use };
    line->tables[1] = (struct cmd_option_table){ command->options, arg };
    line->tables[2] = (struct cmd_option_table){ sizes, use };
}

static int read_line (struct line *line, const struct inference_command *command, void *arg,
                      int argc, char **argv, struct mg_error *err)
{
    int n;

    if (check_refused (argc, argv, err) < 0)
        return -1;
    n = cmd_options_deal (line->tables, line->ntables, argc, argv, line->own, line->other,
                          &line->num_other);
    if (cmd_options_read (line->tables, line->ntables, n, line->own, err) < 0
        || cmd_options_check (line->tables, line->ntables, n, line->own, err) < 0)
        return -1;
    return command->check ? command->check (arg, err) : 0;
}

static bool wants_help (int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp (argv[i], "--help") == 0 || strcmp (argv[i], "-h") == 0)
            return true;
    }
    return false;
}

/* --- the job --- */

int inference_agree (struct inference *use, int rc, struct mg_error *err)
{
    use->infer.misused = rc < 0 && (errno == EINVAL || errno == ENOENT);
    return accord_agree (&use->infer.session.accord, rc, err);
}

static int start (const struct inference_command *command, struct inference *use, void *arg,
                  const struct line *line, struct mg_error *err)
{
    struct infer_config config = {
        .program = command->program,
        .load = use->load,
        .scores = command->scores,
        .generator = { .requests = use->requests, .length = use->length, .rows = use->rows },
        .argc = line->num_other,
        .argv = line->other,
        .errors = stderr,
    };

    if (command->plan)
        command->plan (arg, &config.generator);
    return infer_start (&use->infer, &config, err);
}

static int prepare (const struct inference_command *command, struct inference *use, void *arg,
                    struct mg_error *err)
{
    if (model_tokens_find (&use->tokens, use->load, &use->infer.config.data, command->bare, err)
        < 0)
        return -1;
    return command->prepare (arg, err);
}

static int work (const struct inference_command *command, struct inference *use, void *arg,
                 const struct line *line, struct mg_error *err)
{
    if (start (command, use, arg, line, err) < 0)
        return -1;
    infer_describe (&use->infer);
    if (inference_agree (use, prepare (command, use, arg, err), err) < 0)
        return -1;
    return command->run (arg, err);
}

/* --- the command --- */

static int run_line (struct line *line, const struct inference_command *command,
                     struct inference *use, void *arg, int argc, char **argv)
{
    struct mg_error err = { "" };
    int status = 0;

    if (read_line (line, command, arg, argc, argv, &err) < 0) {
        fprintf (stderr, "%s: %s; see %s --help\n", command->program, err.text, command->program);
        return 2;
    }
    if (command->check_build && command->check_build (&err) < 0) {
        fprintf (stderr, "%s: %s\n", command->program, err.text);
        return 2;
    }
    if (work (command, use, arg, line, &err) < 0)
        status = infer_report (&use->infer, &err);
    infer_leave (&use->infer);
    return status;
}

int inference_run (const struct inference_command *command, struct inference *use, void *arg,
                   int argc, char **argv)
{
    struct line line = { .num_other = 0 };
    int status;

    use->requests = INFER_REQUESTS;
    use->rows = INFER_ROWS;
    use->tokens.first = -1;
    set_tables (&line, command, use, arg);
    if (wants_help (argc, argv)) {
        fputs (command->usage, stdout);
        cmd_options_help (line.tables, line.ntables);
        return 0;
    }
    signal (SIGPIPE, SIG_IGN);
    open_files_raise ();
    if (!(line.own = calloc (2 * (size_t)argc + 2, sizeof (*line.own)))) {
        fprintf (stderr, "%s: out of memory\n", command->program);
        return 1;
    }
    line.other = line.own + argc + 1;
    status = run_line (&line, command, use, arg, argc, argv);
    free (line.own);
    return status;
}

void inference_clear (struct inference *use)
{
    model_tokens_clear (&use->tokens);
}
