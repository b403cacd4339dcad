/* inference - a command that uses a trained model, from its command line to its exit status.
 *
 * A command has options of its own, and the ones that all such commands have (struct inference).
 * Every other word of the command line is an argument of the model, as "megatron train" has it.
 */
#ifndef CMD_INFERENCE_H
#define CMD_INFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/option.h"
#include "libcore/infer/model_tokens.h"
#include "libcore/infer/start.h"
#include "megatron/error.h"

/* What all such commands have. */
struct inference {
    const char *load;            /* --load */
    int requests;                /* --inference-max-requests */
    int64_t length, rows;        /* --inference-max-seq-length, ...-dynamic-batching-max-tokens */
    struct infer infer;          /* the job and the model, once infer_start() has been called */
    struct model_tokens tokens;  /* its tokenizer, from prepare() on */
};

/* A command.  The functions get the 'arg' of inference_run().  One that returns an int returns 0,
 * or -1, errno and a text.  NULL: the command has none.
 */
struct inference_command {
    const char *program;              /* "megatron eval": begins its messages */
    const char *usage;                /* of --help, above the options */
    const struct cmd_option *options; /* of its own; they fill 'arg' */
    bool scores; /* it uses a scorer, and has no --inference-... option; else it uses a generator */
    bool bare;   /* the tokenizer puts no special tokens around a text */

    /* Fail if this build cannot run the command. */
    int (*check_build) (struct mg_error *err);

    /* Check the options; all of the command line has been read. */
    int (*check) (void *arg, struct mg_error *err);

    /* Set what the generator reports of tokens: 'scores' and 'top'. */
    void (*plan) (const void *arg, struct generator_config *config);

    /* Make what the rank needs beside the model and its tokenizer.  Ranks may fail here on their
     * own; inference_agree() follows.  Not collective.
     */
    int (*prepare) (void *arg, struct mg_error *err);

    /* Do the command's work.  Collective. */
    int (*run) (void *arg, struct mg_error *err);
};

/* Run a command with the line argv[1..argc-1]: print its help; or read the options, join the job,
 * load the model, prepare and run.  A failure is one line on standard error.  'use', which is zero,
 * is a member of 'arg'; its tokens stay until inference_clear().  Returns the exit status: 2 if
 * the command line or a file that it names is wrong, 1 for another failure.
 */
int inference_run (const struct inference_command *command, struct inference *use, void *arg,
                   int argc, char **argv);

/* Agree on a step that may fail on one rank alone, with the result 'rc' of this rank: -1 and the
 * same text on all ranks if it failed on one.  Collective.
 */
int inference_agree (struct inference *use, int rc, struct mg_error *err);

/* Free the tokens. */
void inference_clear (struct inference *use);

#endif /* CMD_INFERENCE_H */
