/* generator.c - requests, passes, tokens
 *
 * Invariant: a sequence has places for all of its tokens from the start, and nothing is allocated
 * by a step.
 */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/infer/batch.h"
#include "libcore/infer/generator.h"

/* A request that runs in a place. */
struct running {
    struct generator_request request;
    int32_t *token; /* [length + 1] */
    int64_t known;
};

/* A row of the head: it is about the token at 'position' of a place. */
struct wanted {
    int place; /* -1: nobody's; a pass has one row at least */
    int32_t row; /* of the pass */
    int64_t position;
    bool chosen; /* the token is to be chosen; else it is known */
};

/* The result of a row, as numbers that ranks send each other: id, log probability, near, then ids
 * and log probabilities of alternatives.
 */
enum { RESULT_ID, RESULT_LOG_PROB, RESULT_NEAR, RESULT_TOP };

struct generator {
    struct generator_config config;
    const struct train_parts *parts;
    const struct job *job;
    struct batch batch;
    struct running *running; /* [requests] */
    int32_t *tokens;         /* of all of them */
    struct wanted *wanted;
    int num_wanted, max_wanted;
    struct nn_shape shape;
    int64_t vocab, local_vocab;
    double near; /* sampling_near() */
    int root;        /* rank of the job that tells the others */
    int tp;
    bool has_logits; /* this rank has logits */
    void *gathered;  /* device memory: logits of all columns; NULL: one rank has all */
    float *logits;   /* host memory: [tp][wanted][local_vocab] */
    float *row;      /* [tp local_vocab] */
    double *probabilities; /* [vocab] */
    int32_t *order;        /* [vocab] */
    double *result;        /* [wanted][result_size] */
    int result_size;
    int32_t top_ids[GENERATOR_TOP_MAX];
    double top_log_probs[GENERATOR_TOP_MAX];
    struct generator_counts counts;
};

/* --- planning --- */

/* Rows that the head takes in a pass. */
static int64_t wanted_of (const struct generator_config *c)
{
    return c->scores ? c->rows : c->requests;
}

int generator_plan (const struct generator_config *c, struct model_spec *spec,
                    struct mg_error *err)
{
    if (c->requests < 1 || c->length < 1 || c->rows < 1 || c->length > INT_MAX
        || c->rows > INT_MAX)
        return mg_error_set (err, EINVAL, "%d requests, %" PRId64 " positions, %" PRId64 " rows, "
                             "want 1 or more of each", c->requests, c->length, c->rows);
    if (c->rows < c->requests)
        return mg_error_set (err, EINVAL, "passes of %" PRId64 " rows, want at least one for each "
                             "of %d requests", c->rows, c->requests);
    if (c->top < 0 || c->top > GENERATOR_TOP_MAX)
        return mg_error_set (err, EINVAL, "%d alternatives of a token, want 0 to %d", c->top,
                             GENERATOR_TOP_MAX);
    spec->cache.sequences = c->requests;
    spec->cache.length = (int)c->length;
    spec->cache.rows = (int)c->rows;
    spec->cache.wanted = (int)wanted_of (c);
    return 0;
}

struct generator_bytes generator_bytes (const struct generator_config *c,
                                        const struct model *model)
{
    const struct nn *nn = model_nn (model);
    int64_t bytes = wanted_of (c) * nn->local_vocab * nn->tp_size * (int64_t)sizeof (float);

    if (!model_has_loss (model))
        return (struct generator_bytes){ 0, 0 };
    return (struct generator_bytes){ nn->tp_size > 1 ? bytes : 0, bytes };
}

/* --- making --- */

/* The first rank that has the logits of all columns. */
static int find_root (struct generator *g, struct mg_error *err)
{
    int64_t rank = g->has_logits ? job_rank (g->job) : INT64_MAX;

    if (mg_comm_all_reduce (job_control (g->job), &rank, 1, MG_INT64, MG_MIN, NULL, err) < 0)
        return mg_error_prefix (err, "generator");
    g->root = (int)rank;
    return 0;
}

static int allocate_host (struct generator *g, struct mg_error *err)
{
    const struct generator_config *c = &g->config;
    size_t requests = (size_t)c->requests, wanted = (size_t)g->max_wanted;
    size_t room = (size_t)c->length + 1, vocab = (size_t)g->vocab;

    g->result_size = RESULT_TOP + 2 * c->top;
    if (!(g->running = calloc (requests, sizeof (*g->running)))
        || !(g->tokens = calloc (requests * room, sizeof (*g->tokens)))
        || !(g->wanted = calloc (wanted, sizeof (*g->wanted)))
        || !(g->row = calloc ((size_t)(g->tp * g->local_vocab), sizeof (*g->row)))
        || !(g->probabilities = calloc (vocab, sizeof (*g->probabilities)))
        || !(g->order = calloc (vocab, sizeof (*g->order)))
        || !(g->result = calloc (wanted * (size_t)g->result_size, sizeof (*g->result))))
        return mg_error_set (err, ENOMEM, "generator: out of memory for %d requests", c->requests);
    for (size_t i = 0; i < requests; i++)
        g->running[i].token = g->tokens + i * room;
    return batch_init (&g->batch, c->requests, c->rows, err);
}

static int allocate_device (struct generator *g, struct mg_error *err)
{
    struct generator_bytes bytes = generator_bytes (&g->config, g->parts->model);
    struct mg_device *device = job_device (g->job);

    if (bytes.host > 0 && !(g->logits = device_host_alloc (device, (size_t)bytes.host, err)))
        return -1;
    if (bytes.device > 0 && !(g->gathered = device_alloc (device, (size_t)bytes.device, err)))
        return -1;
    return 0;
}

struct generator *generator_create (const struct generator_config *config,
                                    const struct train_parts *parts, const struct job *job,
                                    struct mg_error *err)
{
    const struct nn *nn = model_nn (parts->model);
    struct generator *g = calloc (1, sizeof (*g));

    if (!g) {
        mg_error_set (err, ENOMEM, "generator: out of memory");
        return NULL;
    }
    g->config = *config;
    g->parts = parts;
    g->job = job;
    g->vocab = nn->config.vocab_size;
    g->local_vocab = nn->local_vocab;
    g->tp = nn->tp_size;
    g->near = sampling_near (nn->dtype);
    g->has_logits = model_has_loss (parts->model);
    g->max_wanted = (int)wanted_of (config);
    if (allocate_host (g, err) < 0 || allocate_device (g, err) < 0 || find_root (g, err) < 0) {
        generator_destroy (g);
        return NULL;
    }
    return g;
}

void generator_destroy (struct generator *g)
{
    int saved_errno = errno;

    if (!g)
        return;
    device_free (job_device (g->job), g->gathered);
    device_host_free (job_device (g->job), g->logits);
    batch_clear (&g->batch);
    free (g->running);
    free (g->tokens);
    free (g->wanted);
    free (g->row);
    free (g->probabilities);
    free (g->order);
    free (g->result);
    free (g);
    errno = saved_errno;
}

/* --- requests --- */

int generator_check (const struct generator *g, const struct generator_request *r,
                     struct mg_error *err)
{
    const struct generator_config *c = &g->config;

    if (r->num_prompt < 1)
        return mg_error_set (err, EINVAL, "a prompt without tokens");
    if (r->max_tokens < 0)
        return mg_error_set (err, EINVAL, "%" PRId64 " tokens to generate, want 0 or more",
                             r->max_tokens);
    if (r->num_prompt > c->length + 1 || r->max_tokens > c->length + 1 - r->num_prompt)
        return mg_error_set (err, EINVAL, "a prompt of %" PRId64 " tokens and %" PRId64 " to "
                             "generate are more than %" PRId64 ", one more than the positions "
                             "that are planned", r->num_prompt, r->max_tokens, c->length + 1);
    if (r->top < 0 || r->top > c->top || r->top > g->vocab)
        return mg_error_set (err, EINVAL, "%d alternatives of a token, want 0 to %d", r->top,
                             c->top);
    if (r->scores && !c->scores)
        return mg_error_set (err, EINVAL, "log probabilities of prompts are not planned");
    for (int64_t i = 0; i < r->num_prompt; i++) {
        if (r->prompt[i] < 0 || r->prompt[i] >= g->vocab)
            return mg_error_set (err, EINVAL, "token %" PRId64 " of the prompt is %d, want 0 to %"
                                 PRId64, i, (int)r->prompt[i], g->vocab - 1);
    }
    return sampling_check (&r->sampling, g->vocab, err);
}

bool generator_has_room (const struct generator *g)
{
    for (int i = 0; i < g->batch.places; i++) {
        if (!g->batch.place[i].used)
            return true;
    }
    return false;
}

/* Tokens of the prompt that the passes of a request read. */
static int64_t fed (const struct generator_request *r)
{
    return r->max_tokens > 0 ? r->num_prompt : r->num_prompt - 1;
}

int generator_begin (struct generator *g, const struct generator_request *request,
                     struct mg_error *err)
{
    struct running *run;
    int place;

    if (generator_check (g, request, err) < 0)
        return -1;
    if (fed (request) == 0 || (request->max_tokens == 0 && !request->scores)) {
        request->end (request->arg, GENERATOR_LENGTH);
        return 0;
    }
    if ((place = batch_enter (&g->batch, fed (request))) < 0)
        return mg_error_set (err, EAGAIN, "all %d places are taken", g->batch.places);
    run = &g->running[place];
    run->request = *request;
    memcpy (run->token, request->prompt, (size_t)request->num_prompt * sizeof (*run->token));
    run->known = request->num_prompt;
    return 0;
}

bool generator_cancel (struct generator *g, const void *arg)
{
    for (int i = 0; i < g->batch.places; i++) {
        if (g->batch.place[i].used && g->running[i].request.arg == arg) {
            batch_leave (&g->batch, i);
            return true;
        }
    }
    return false;
}

/* --- the rows that the head takes --- */

static void want (struct generator *g, const struct wanted *wanted)
{
    g->wanted[g->num_wanted++] = *wanted;
}

/* List the rows that the head takes, and what each is about. */
static void list_wanted (struct generator *g)
{
    int32_t row = 0;

    g->num_wanted = 0;
    for (int i = 0; i < g->batch.num_parts; i++) {
        const struct nn_sequence *part = &g->batch.part[i];
        const struct running *run = &g->running[part->place];

        for (int64_t k = 0; k < part->rows; k++, row++) {
            int64_t next = part->first + k + 1;
            bool chosen = next == run->known;

            if (chosen || (run->request.scores && next < run->request.num_prompt))
                want (g, &(struct wanted){ (int)part->place, row, next, chosen });
        }
    }
    if (g->num_wanted == 0)
        want (g, &(struct wanted){ .place = -1 });
}

/* --- a pass --- */

static void fill_tokens (const struct generator *g, const struct nn_inputs *in)
{
    int32_t *token = nn_inputs_data (in, "tokens"), *position = nn_inputs_data (in, "positions");
    int64_t at = 0;

    for (int i = 0; i < g->batch.num_parts; i++) {
        const struct nn_sequence *part = &g->batch.part[i];

        for (int64_t k = 0; k < part->rows; k++, at++) {
            if (token)
                token[at] = g->running[part->place].token[part->first + k];
            if (position)
                position[at] = (int32_t)(part->first + k);
        }
    }
    for (; at < g->shape.tokens; at++) { // rows of no use, but indices nevertheless
        if (token)
            token[at] = 0;
        if (position)
            position[at] = 0;
    }
}

/* A passes_fetch_f. */
static int fetch (void *arg, int microbatch, const struct nn_inputs *in, struct mg_error *err)
{
    const struct generator *g = arg;
    int64_t *sample = nn_inputs_data (in, "samples");
    int32_t *wanted = nn_inputs_data (in, "wanted");

    (void)microbatch;
    (void)err;
    if (sample)
        sample[0] = 0;
    fill_tokens (g, in);
    for (int i = 0; wanted && i < g->num_wanted; i++)
        wanted[i] = g->wanted[i].row;
    return 0;
}

/* Bring the logits of the wanted rows to the host, of all columns. */
static int bring_logits (struct generator *g, struct mg_error *err)
{
    struct model *model = g->parts->model;
    const void *logits = model_logits (model)->data;
    size_t n = (size_t)(g->num_wanted * g->local_vocab);

    if (g->gathered) {
        if (mg_comm_all_gather (model_nn (model)->tp, logits, g->gathered, n, MG_FLOAT32,
                                model_stream (model), err) < 0)
            return -1;
        logits = g->gathered;
    }
    return device_fetch (model_stream (model), g->logits, logits,
                         n * (size_t)g->tp * sizeof (float), err);
}

static int run_pass (struct generator *g, struct mg_error *err)
{
    struct passes_run run = { .fetch = fetch, .arg = g,
                              .mode = { .shape = &g->shape, .loss_weight = 1 } };

    list_wanted (g);
    if (model_continue (g->parts->model, g->batch.part, g->batch.num_parts, g->num_wanted,
                        &g->shape, err) < 0
        || passes_evaluate (g->parts->passes, &run, err) < 0)
        return -1;
    return g->has_logits ? bring_logits (g, err) : 0;
}

/* --- tokens --- */

/* The logits of a row in the order of ids. */
static const float *take_row (struct generator *g, int i)
{
    if (g->tp == 1)
        return g->logits + i * g->local_vocab;
    for (int r = 0; r < g->tp; r++)
        memcpy (g->row + r * g->local_vocab,
                g->logits + ((int64_t)r * g->num_wanted + i) * g->local_vocab,
                (size_t)g->local_vocab * sizeof (*g->row));
    return g->row;
}

static int32_t choose (struct generator *g, const struct generator_request *r, int64_t position,
                       const float *logits, bool *near)
{
    struct sampling_draw draw = r->draw;

    if (r->sampling.temperature == 0 || r->sampling.top_k == 1)
        return sampling_largest (logits, g->vocab, g->near, near);
    draw.position = position;
    sampling_probabilities (&r->sampling, logits, g->vocab, g->probabilities, g->order);
    return sampling_choose (g->probabilities, g->vocab, sampling_uniform (&draw), g->near, near);
}

static void make_result (struct generator *g, int i)
{
    const struct wanted *w = &g->wanted[i];
    const struct running *run = &g->running[w->place];
    const float *logits = take_row (g, i);
    double *result = g->result + (int64_t)i * g->result_size;
    double log_sum = sampling_log_sum (logits, g->vocab);
    bool near = false;
    int32_t id = w->chosen ? choose (g, &run->request, w->position, logits, &near)
                           : run->token[w->position];

    result[RESULT_ID] = id;
    result[RESULT_LOG_PROB] = (double)logits[id] - log_sum;
    result[RESULT_NEAR] = near;
    sampling_top (logits, g->vocab, g->top_ids, run->request.top);
    for (int k = 0; k < run->request.top; k++) {
        result[RESULT_TOP + 2 * k] = g->top_ids[k];
        result[RESULT_TOP + 2 * k + 1] = (double)logits[g->top_ids[k]] - log_sum;
    }
}

/* All ranks get the results of one. */
static int share_results (struct generator *g, struct mg_error *err)
{
    size_t n = (size_t)g->num_wanted * (size_t)g->result_size;

    if (job_rank (g->job) == g->root) {
        for (int i = 0; i < g->num_wanted; i++) {
            if (g->wanted[i].place >= 0)
                make_result (g, i);
        }
    }
    if (job_world (g->job) == 1)
        return 0;
    return mg_comm_broadcast (job_control (g->job), g->result, n, MG_FLOAT64, g->root, NULL, err);
}

static void end (struct generator *g, int place, enum generator_end how)
{
    const struct generator_request *r = &g->running[place].request;

    batch_leave (&g->batch, place);
    r->end (r->arg, how);
}

/* A token is known now: tell the request. */
static void tell (struct generator *g, int i)
{
    const struct wanted *w = &g->wanted[i];
    struct running *run = &g->running[w->place];
    const struct generator_request *r = &run->request;
    const double *result = g->result + (int64_t)i * g->result_size;
    struct generator_token token = {
        .position = w->position, .prompt = !w->chosen, .id = (int32_t)result[RESULT_ID],
        .log_prob = result[RESULT_LOG_PROB], .top = r->top, .top_ids = g->top_ids,
        .top_log_probs = g->top_log_probs,
    };
    bool stop;

    for (int k = 0; k < r->top; k++) {
        g->top_ids[k] = (int32_t)result[RESULT_TOP + 2 * k];
        g->top_log_probs[k] = result[RESULT_TOP + 2 * k + 1];
    }
    stop = r->token (r->arg, &token);
    if (!w->chosen)
        return;
    g->counts.tokens++;
    g->counts.near += result[RESULT_NEAR] != 0;
    run->token[run->known++] = token.id;
    g->batch.place[w->place].known = run->known;
    if (stop)
        end (g, w->place, GENERATOR_STOP);
    else if (run->known == r->num_prompt + r->max_tokens)
        end (g, w->place, GENERATOR_LENGTH);
}

/* End requests that only score, whose prompts are done. */
static void end_scored (struct generator *g)
{
    for (int i = 0; i < g->batch.places; i++) {
        const struct batch_place *p = &g->batch.place[i];

        if (p->used && g->running[i].request.max_tokens == 0 && p->done == p->known)
            end (g, i, GENERATOR_LENGTH);
    }
}

int generator_step (struct generator *g, struct mg_error *err)
{
    int64_t rows = batch_plan (&g->batch);

    if (rows == 0)
        return 0;
    if (run_pass (g, err) < 0 || share_results (g, err) < 0)
        return -1;
    batch_done (&g->batch);
    g->counts.passes++;
    g->counts.rows += rows;
    for (int i = 0; i < g->num_wanted; i++) {
        if (g->wanted[i].place >= 0)
            tell (g, i);
    }
    end_scored (g);
    return 1;
}

const struct generator_counts *generator_counts (const struct generator *g)
{
    return &g->counts;
}
