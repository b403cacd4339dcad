/* generate.c - generators for programs */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/c_locale.h"
#include "libcore/infer/start.h"
#include "megatron/generate.h"

/* A request that runs. */
struct running {
    struct mg_generator *of;
    struct mg_generator_request request;
    bool used;
};

struct mg_generator {
    struct infer_config config;
    struct infer infer;
    struct running *running; /* [requests] */
    locale_t before;         /* the program's, in which its functions are called */
    bool started, ready;
};

int mg_sampling_probabilities (const struct mg_sampling *sampling, const float *logits, int64_t n,
                               double *probabilities, struct mg_error *err)
{
    struct sampling s;
    int32_t *order;

    if (!sampling || !logits || !probabilities || n < 1 || n > INT32_MAX)
        return mg_error_set (err, EINVAL, "sampling: want logits of 1 to %d tokens", INT32_MAX);
    s = (struct sampling){ sampling->temperature, sampling->top_k, sampling->top_p };
    if (sampling_check (&s, n, err) < 0)
        return mg_error_prefix (err, "sampling");
    if (!(order = malloc ((size_t)n * sizeof (*order))))
        return mg_error_set (err, ENOMEM, "sampling: out of memory for %lld tokens", (long long)n);
    sampling_probabilities (&s, logits, n, probabilities, order);
    free (order);
    return 0;
}

struct mg_generator *mg_generator_create (const char *load,
                                          const struct mg_generator_limits *limits, int argc,
                                          char **argv, FILE *errors, struct mg_error *err)
{
    struct mg_generator *g;

    if (!load || !errors || argc < 0 || (argc > 1 && !argv)) {
        mg_error_set (err, EINVAL, "generator: want a model, arguments and a stream for errors");
        return NULL;
    }
    if (!limits || limits->size < sizeof (*limits) || limits->requests < 1) {
        mg_error_set (err, EINVAL, "generator: want limits that begin with "
                      "MG_GENERATOR_LIMITS_INIT, and 1 request or more");
        return NULL;
    }
    if (!(g = calloc (1, sizeof (*g)))
        || !(g->running = calloc ((size_t)limits->requests, sizeof (*g->running)))) {
        mg_error_set (err, ENOMEM, "generator: out of memory");
        free (g);
        return NULL;
    }
    g->config = (struct infer_config){
        .program = "generator",
        .load = load,
        .generator = { .requests = limits->requests, .length = limits->length,
                       .rows = limits->rows, .scores = limits->scores != 0 },
        .argc = argc > 1 ? argc - 1 : 0,
        .argv = argc > 1 ? argv + 1 : NULL,
        .errors = errors,
    };
    return g;
}

int mg_generator_setup (struct mg_generator *g, struct mg_error *err)
{
    struct mg_error unseen = { "" };
    locale_t before;
    int rc;

    if (!g || g->started)
        return mg_error_set (err, EINVAL, "generator: mg_generator_setup() comes once");
    before = c_locale_enter ();
    g->started = true;
    rc = infer_start (&g->infer, &g->config, err ? err : &unseen);
    c_locale_leave (before);
    g->ready = rc == 0;
    return rc;
}

int64_t mg_generator_vocab_size (const struct mg_generator *g)
{
    return g && g->ready ? g->infer.config.model.config.vocab_size : 0;
}

int mg_generator_has_room (const struct mg_generator *g)
{
    return g && g->ready && generator_has_room (g->infer.generator);
}

static bool token (void *arg, const struct generator_token *t)
{
    const struct running *run = arg;
    const struct mg_generator_token seen = { t->position, t->prompt, t->id, t->log_prob };
    bool more;

    c_locale_leave (run->of->before);
    more = run->request.token (run->request.arg, &seen) != 0;
    run->of->before = c_locale_enter ();
    return more;
}

static void end (void *arg, enum generator_end how)
{
    struct running *run = arg;

    run->used = false;
    if (!run->request.end)
        return;
    c_locale_leave (run->of->before);
    run->request.end (run->request.arg, how == GENERATOR_STOP);
    run->of->before = c_locale_enter ();
}

static struct running *find_free (struct mg_generator *g)
{
    for (int i = 0; i < g->config.generator.requests; i++) {
        if (!g->running[i].used)
            return &g->running[i];
    }
    return NULL;
}

int mg_generator_begin (struct mg_generator *g, const struct mg_generator_request *request,
                        struct mg_error *err)
{
    struct generator_request own;
    struct running *run;
    int rc;

    if (!g || !g->ready)
        return mg_error_set (err, EINVAL, "generator: requests come after mg_generator_setup()");
    if (!request || request->size < sizeof (*request) || !request->prompt || !request->token)
        return mg_error_set (err, EINVAL, "generator: want a request that begins with "
                             "MG_GENERATOR_REQUEST_INIT, a prompt and a function for tokens");
    if (!(run = find_free (g)))
        return mg_error_set (err, EAGAIN, "generator: all %d places are taken",
                             g->config.generator.requests);
    own = (struct generator_request){
        .prompt = request->prompt, .num_prompt = request->num_prompt,
        .max_tokens = request->max_tokens,
        .sampling = { request->sampling.temperature, request->sampling.top_k,
                      request->sampling.top_p },
        .draw = { .seed = request->seed, .request = request->number, .choice = request->choice },
        .scores = request->scores != 0, .token = token, .end = end, .arg = run,
    };
    *run = (struct running){ g, *request, true };
    g->before = c_locale_enter ();
    rc = generator_begin (g->infer.generator, &own, err);
    c_locale_leave (g->before);
    if (rc == 0)
        return 0;
    run->used = false;
    return mg_error_prefix (err, "generator");
}

int mg_generator_cancel (struct mg_generator *g, const void *arg)
{
    for (int i = 0; g && g->ready && i < g->config.generator.requests; i++) {
        struct running *run = &g->running[i];

        if (run->used && run->request.arg == arg) {
            run->used = false;
            return generator_cancel (g->infer.generator, run);
        }
    }
    return 0;
}

int mg_generator_step (struct mg_generator *g, struct mg_error *err)
{
    int rc;

    if (!g || !g->ready)
        return mg_error_set (err, EINVAL, "generator: steps come after mg_generator_setup()");
    g->before = c_locale_enter ();
    rc = generator_step (g->infer.generator, err);
    c_locale_leave (g->before);
    if (rc < 0) {
        g->ready = false;
        g->infer.failed = true;
    }
    return rc;
}

void mg_generator_abort (struct mg_generator *g, int code)
{
    locale_t before = c_locale_enter ();

    if (g && g->infer.session.bootstrap && !g->infer.session.accord.common_error)
        bootstrap_abort (g->infer.session.bootstrap, code);
    c_locale_leave (before); // there was nothing to end
}

void mg_generator_destroy (struct mg_generator *g)
{
    int saved_errno = errno;
    locale_t before;

    if (!g)
        return;
    before = c_locale_enter ();
    if (g->started)
        infer_leave (&g->infer);
    c_locale_leave (before);
    free (g->running);
    free (g);
    errno = saved_errno;
}
