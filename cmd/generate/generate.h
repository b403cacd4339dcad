/* generate - the parts of megatron generate. */
#ifndef CMD_GENERATE_GENERATE_H
#define CMD_GENERATE_GENERATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/inference.h"
#include "libcore/text/text_buffer.h"
#include "libcore/text/tokenizer.h"

/* Words of the command line. */
struct generate_words {
    const char **word;
    int n;
};

struct generate_options {
    const char *prompt_file;
    struct generate_words prompts, prompt_tokens;
    struct text_buffer *stops; /* [num_stops], texts of the command line */
    int num_stops;
    struct token_buffer terminations; /* --termination-id */
    bool interactive, json, ignore_eos, log_probs;
    int64_t tokens; /* to generate */
    struct sampling sampling;
    int64_t seed;
    int top;
};

/* A prompt, and what became of it. */
struct generate_text {
    struct generate_job *of;
    struct text_buffer prompt; /* the text that was given; empty for token ids */
    bool has_prompt;
    struct token_buffer tokens; /* of the prompt, ... */
    size_t num_prompt;          /* ... so many, and then the generated ones */
    struct text_buffer text;    /* of the generated tokens, without a stop string */
    double *log_prob;           /* [of tokens] with --return-log-probs */
    int32_t *top_ids;           /* [of tokens][top] */
    double *top_log_probs;
    size_t searched;            /* bytes of 'text' in which no stop string begins */
    bool lost;                  /* out of memory */
    bool done, stopped;
};

struct generate_job {
    struct generate_options options;
    struct inference use;
    struct generate_text *text;
    size_t num_texts, printed;
};

/* The tokens that end a text: those of the options, else the model's. */
const struct token_buffer *generate_terminations (const struct generate_job *job);

/* Check the options about tokens and texts against the model and its tokenizer: -1, EINVAL and a
 * text if one does not fit.
 */
int generate_check_tokens (const struct generate_job *job, struct mg_error *err);

/* Read all prompts of the options. */
int generate_prompts (struct generate_job *job, struct mg_error *err);

/* Append a prompt of 'size' bytes of text. */
int generate_add_text (struct generate_job *job, const char *text, size_t size,
                       struct mg_error *err);
void generate_clear_texts (struct generate_job *job);

/* Note a token of a text: returns true if it is the last one. */
bool generate_token (void *arg, const struct generator_token *token);

/* Append the bytes of a token. -1 and ENOMEM. */
int generate_append (const struct generate_job *job, struct text_buffer *to, int32_t id,
                     struct mg_error *err);

/* Print the texts that are done, in order.  Only rank 0 does. */
int generate_print (struct generate_job *job, struct mg_error *err);

#endif /* CMD_GENERATE_GENERATE_H */
