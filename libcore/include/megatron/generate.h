/* Generation inside a program: token ids that follow prompts, by a trained model.
 *
 *     struct mg_generator_limits limits = MG_GENERATOR_LIMITS_INIT;
 *     struct mg_generator *g = mg_generator_create ("gpt2", &limits, argc, argv, stderr, &err);
 *     struct mg_generator_request request = MG_GENERATOR_REQUEST_INIT;
 *     int rc = -1;
 *
 *     request.prompt = prompt;
 *     request.num_prompt = 3;
 *     request.max_tokens = 20;
 *     request.token = my_token;
 *     request.end = my_end;
 *     if (g && mg_generator_setup (g, &err) == 0 && mg_generator_begin (g, &request, &err) == 0) {
 *         while ((rc = mg_generator_step (g, &err)) > 0)
 *             continue;
 *     }
 *     if (rc < 0) {
 *         fprintf (stderr, "%s\n", err.text);
 *         mg_generator_abort (g, 1);
 *     }
 *     mg_generator_destroy (g);
 *
 * where my_token() prints each token:
 *
 *     static int my_token (void *arg, const struct mg_generator_token *token)
 *     {
 *         printf ("%d %g\n", (int)token->id, token->log_prob);
 *         return 0;
 *     }
 *
 * A generator joins the job by itself.  Each rank gives the same requests in the same order and
 * takes the same steps, and its callbacks are called with the same values.  A process makes one
 * generator, and neither a run nor an mg_job beside it.  All calls on a generator come from one
 * thread, and none from a callback.  Between mg_generator_setup() and mg_generator_destroy() this
 * thread computes with denormals flushed to 0.
 */
#ifndef MEGATRON_GENERATE_H
#define MEGATRON_GENERATE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "megatron/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a token is drawn: the temperature divides logits (0: the largest logit is taken), then the
 * top_k largest are kept, and those that equal the last of them (0: all), then the most probable
 * ones, up to the one with which their sum exceeds top_p (0: all).
 */
struct mg_sampling {
    double temperature;
    int64_t top_k;
    double top_p;
};

/* The probabilities with which n tokens are drawn.  -1 and a text with EINVAL if a value is out of
 * range (temperature 0 or more, top_k 0 to n, top_p 0 to 1), or with ENOMEM.
 */
int mg_sampling_probabilities (const struct mg_sampling *sampling, const float *logits, int64_t n,
                               double *probabilities, struct mg_error *err);

/* What memory is allocated for.  Begin with MG_GENERATOR_LIMITS_INIT. */
struct mg_generator_limits {
    size_t size;    /* of this struct */
    int requests;   /* that run at a time */
    int64_t length; /* positions of each; 0: those of the model, 2560 at most */
    int64_t rows;   /* of a pass, at least one for each request */
    int scores;     /* not 0: requests may want log probabilities of their prompts */
};
#define MG_GENERATOR_LIMITS_INIT { sizeof (struct mg_generator_limits), 8, 0, 512, 0 }

struct mg_generator_token {
    int64_t position; /* in the sequence, from 0 on */
    int prompt;       /* not 0: it is one of the prompt; else it was generated */
    int32_t id;
    double log_prob;  /* the model's, before temperature and filters */
};

/* Begin with MG_GENERATOR_REQUEST_INIT. */
struct mg_generator_request {
    size_t size;           /* of this struct */
    const int32_t *prompt; /* copied */
    int64_t num_prompt;    /* 1 or more */
    int64_t max_tokens;    /* to generate; 0 only scores the prompt */
    struct mg_sampling sampling;
    uint64_t seed, number, choice; /* with the position the coordinates of a draw: other numbers,
                                      other draws */
    int scores;            /* not 0: token() is called for the tokens of the prompt, too, but the
                              first */
    /* A token.  A result that is not 0 ends the request after a generated token. */
    int (*token) (void *arg, const struct mg_generator_token *token);
    /* The request has ended, by token() (stopped is not 0) or by its length.  May be NULL. */
    void (*end) (void *arg, int stopped);
    void *arg;
};
#define MG_GENERATOR_REQUEST_INIT \
    { sizeof (struct mg_generator_request), NULL, 0, 0, { 0, 0, 0 }, 0, 0, 0, 0, NULL, NULL, NULL }

struct mg_generator;

/* Make a generator of what is at 'load': a checkpoint's directory, a file of weights, a directory
 * of Hugging Face's.  argv[1] to argv[argc - 1] are further arguments of "megatron train", about
 * layouts, types and devices.  The arguments are not copied.  Lines about ranks that die go to
 * 'errors'.  NULL and a text on failure.
 */
struct mg_generator *mg_generator_create (const char *load,
                                          const struct mg_generator_limits *limits, int argc,
                                          char **argv, FILE *errors, struct mg_error *err);

/* Join the job, make the model and load its weights.  -1 and a text on failure.  Collective. */
int mg_generator_setup (struct mg_generator *g, struct mg_error *err);

/* The number of token ids, 0 before mg_generator_setup(). */
int64_t mg_generator_vocab_size (const struct mg_generator *g);

/* 1 if another request can begin, else 0. */
int mg_generator_has_room (const struct mg_generator *g);

/* Begin a request.  -1 and a text with EINVAL if it does not fit the model or the limits, with
 * EAGAIN if no place is free; the generator may go on.
 */
int mg_generator_begin (struct mg_generator *g, const struct mg_generator_request *request,
                        struct mg_error *err);

/* End the first running request whose 'arg' this is: its functions are not called any more, and its
 * place is free.  1, or 0 if no such request runs.  Every rank ends the same requests before the
 * same step.
 */
int mg_generator_cancel (struct mg_generator *g, const void *arg);

/* Run a pass for all requests: 1, 0 if there is nothing to run, -1 and a text on failure, after
 * which only abort and destroy may follow.  Collective.
 */
int mg_generator_step (struct mg_generator *g, struct mg_error *err);

/* After a failure: end every process of the job with 'code', and do not return; if all ranks have
 * failed alike, or there is no other, return.  NULL is allowed.
 */
void mg_generator_abort (struct mg_generator *g, int code);

/* Free the generator.  Collective after success.  NULL is allowed; errno is kept. */
void mg_generator_destroy (struct mg_generator *g);

#ifdef __cplusplus
}
#endif

#endif /* MEGATRON_GENERATE_H */
