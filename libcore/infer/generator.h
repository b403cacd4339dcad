/* generator - generates texts by a model with caches, many at a time.
 *
 * Each rank of a job has a generator, gets the same requests in the same order, and takes the same
 * steps.  A step is one pass through the model, in which all running requests take part (batch.h).
 * The ranks of the first replica's last stage choose the tokens, and all ranks learn them, so that
 * every rank calls the same callbacks with the same values.
 *
 * A request of n prompt tokens that generates m tokens needs n + m - 1 positions, since the last
 * token is not fed back.
 */
#ifndef LIBCORE_INFER_GENERATOR_H
#define LIBCORE_INFER_GENERATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/infer/sampling.h"
#include "libcore/job/job.h"
#include "libcore/train/train_build.h"
#include "megatron/error.h"

enum {
    GENERATOR_TOP_MAX = 64,          /* alternatives of a token, at most */
    GENERATOR_REQUESTS_MAX = 1 << 16 /* requests that run at a time, at most */
};

/* What a model's generator is planned for. */
struct generator_config {
    int requests;    /* that run at a time */
    int64_t length;  /* positions of each */
    int64_t rows;    /* of a pass */
    bool scores;     /* requests may want log probabilities of their prompts */
    int top;         /* alternatives that a request may ask for, up to GENERATOR_TOP_MAX */
};

struct generator_token {
    int64_t position; /* in the sequence, from 0 on */
    bool prompt;      /* it is one of the prompt; else it was generated */
    int32_t id;
    double log_prob;  /* the model's, before temperature and filters */
    int top;          /* alternatives: the most probable tokens, whose log probabilities follow */
    const int32_t *top_ids;
    const double *top_log_probs;
};

enum generator_end { GENERATOR_STOP, GENERATOR_LENGTH };

struct generator_request {
    const int32_t *prompt; /* copied */
    int64_t num_prompt;    /* 1 or more */
    int64_t max_tokens;    /* to generate; 0 only scores the prompt */
    struct sampling sampling;
    struct sampling_draw draw; /* coordinates; the position is set by the generator */
    bool scores;           /* token() is called for the tokens of the prompt, too, but the first */
    int top;
    /* A token.  Returns true if it is the last one: the request ends with GENERATOR_STOP.  What it
     * returns for tokens of the prompt does not matter.
     */
    bool (*token) (void *arg, const struct generator_token *token);
    /* The request has ended, and its place is free. */
    void (*end) (void *arg, enum generator_end how);
    void *arg;
};

/* Counts since the generator was made. */
struct generator_counts {
    int64_t passes, rows;
    int64_t tokens; /* generated */
    int64_t near;   /* of these: rounding could have made another choice (sampling_near()) */
};

struct generator;

/* Set the caches and rows of a model that is not made yet.  -1, EINVAL and a text if the numbers do
 * not fit together.
 */
int generator_plan (const struct generator_config *config, struct model_spec *spec,
                    struct mg_error *err);

/* Bytes that a generator allocates beside the model: in device memory, in pinned host memory. */
struct generator_bytes {
    int64_t device, host;
};
struct generator_bytes generator_bytes (const struct generator_config *config,
                                        const struct model *model);

/* Make a generator of a model that generator_plan() has planned, and whose memory and passes are
 * bound.  All of them must outlive it.  Collective.  NULL and a text on failure.
 */
struct generator *generator_create (const struct generator_config *config,
                                    const struct train_parts *parts, const struct job *job,
                                    struct mg_error *err);
void generator_destroy (struct generator *g);

/* Check that the request can be run.  -1, EINVAL and a text with the numbers if not. */
int generator_check (const struct generator *g, const struct generator_request *request,
                     struct mg_error *err);

/* True if there is a place for another request. */
bool generator_has_room (const struct generator *g);

/* Begin a request.  -1 and a text if generator_check() fails, or with EAGAIN if no place is free.
 */
int generator_begin (struct generator *g, const struct generator_request *request,
                     struct mg_error *err);

/* End the running request whose 'arg' this is, between two steps: its callbacks are not called any
 * more, and its place is free.  Returns false if no such request runs.  Every rank ends the same
 * requests before the same step.
 */
bool generator_cancel (struct generator *g, const void *arg);

/* Run a pass: 1, 0 if there is nothing to run, -1 and a text on failure.  Callbacks are called
 * after the pass, in the order of the places; they do not call the generator.  Collective.
 */
int generator_step (struct generator *g, struct mg_error *err);

const struct generator_counts *generator_counts (const struct generator *g);

#endif /* LIBCORE_INFER_GENERATOR_H */
