/* Generation for programs: greedy tokens of the reference data, probabilities, wrong calls. */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "megatron/megatron.h"
#include "tests/tap/tap.h"

enum { MAX = 8 };

struct seen {
    int32_t id[MAX];
    int num, scored, ended, limit;
};

static int note (void *arg, const struct mg_generator_token *token)
{
    struct seen *s = arg;

    if (token->prompt)
        s->scored++;
    else
        s->id[s->num++] = token->id;
    return s->num == s->limit;
}

static void end (void *arg, int stopped)
{
    ((struct seen *)arg)->ended = stopped ? 2 : 1;
}

static void test_sampling (void)
{
    static const float logits[3] = { 0, 1, 0 };
    struct mg_sampling s = { 1, 0, 0.1 };
    struct mg_error err = { "" };
    double p[3];

    ok (mg_sampling_probabilities (&s, logits, 3, p, &err) == 0 && p[0] == 0 && p[1] == 1
            && p[2] == 0, "the most probable token is kept");
    s.top_p = 0;
    ok (mg_sampling_probabilities (&s, logits, 3, p, &err) == 0
            && fabs (p[1] - exp (1) / (2 + exp (1))) < 1e-12, "the softmax");
    s.top_k = 4;
    ok (mg_sampling_probabilities (&s, logits, 3, p, &err) == -1 && errno == EINVAL, "%s",
        err.text);
    ok (mg_sampling_probabilities (&s, logits, 0, p, &err) == -1 && errno == EINVAL, "%s",
        err.text);
}

static void test_wrong (struct mg_generator *g, struct mg_generator_request request)
{
    struct mg_error err = { "" };
    static const int32_t high[] = { 96 };

    ok (mg_generator_setup (g, &err) == -1 && errno == EINVAL, "%s", err.text);
    request.prompt = high;
    request.num_prompt = 1;
    ok (mg_generator_begin (g, &request, &err) == -1 && errno == EINVAL, "%s", err.text);
    request.size = 1;
    ok (mg_generator_begin (g, &request, &err) == -1 && errno == EINVAL, "%s", err.text);
}

/* A request is ended after a step; the other one goes on, and the place serves a third. */
static void test_cancel (struct mg_generator *g, struct mg_generator_request request)
{
    struct seen seen[3] = { { .limit = 0 } };
    struct mg_error err = { "" };

    request.scores = 0;
    for (int i = 0; i < 2; i++) {
        request.arg = &seen[i];
        mg_generator_begin (g, &request, &err);
    }
    ok (mg_generator_step (g, &err) == 1 && seen[0].num == 1 && seen[1].num == 1, "two run");
    is_int (mg_generator_cancel (g, &seen[2]), 0, "a request that does not run");
    is_int (mg_generator_cancel (g, &seen[0]), 1, "a request is ended");
    is_int (mg_generator_cancel (g, &seen[0]), 0, "once");
    request.arg = &seen[2];
    ok (mg_generator_has_room (g) && mg_generator_begin (g, &request, &err) == 0,
        "its place is free");
    while (mg_generator_step (g, &err) > 0)
        continue;
    ok (seen[0].num == 1 && seen[0].ended == 0, "its functions are not called any more");
    ok (seen[1].num == 5 && seen[2].num == 5
            && memcmp (seen[1].id, seen[2].id, 5 * sizeof (int32_t)) == 0, "others go on");
}

static void test_generator (const char *path)
{
    static const int32_t prompt[] = { 22, 78, 68 }, want[] = { 85, 30, 30, 30, 30 };
    struct mg_generator_limits limits = MG_GENERATOR_LIMITS_INIT;
    struct mg_generator_request request = MG_GENERATOR_REQUEST_INIT;
    struct seen seen[2] = { { .limit = 0 }, { .limit = 2 } };
    struct mg_error err = { "" };
    struct mg_generator *g;

    limits.requests = 2;
    limits.scores = 1;
    ok ((g = mg_generator_create (path, &limits, 0, NULL, stderr, &err)) != NULL, "made");
    request.prompt = prompt;
    request.num_prompt = 3;
    request.max_tokens = 5;
    request.scores = 1;
    request.token = note;
    request.end = end;
    request.arg = &seen[0];
    ok (mg_generator_begin (g, &request, &err) == -1 && errno == EINVAL, "%s", err.text);
    if (mg_generator_setup (g, &err) < 0)
        bail_out ("%s", err.text);
    is_int (mg_generator_vocab_size (g), 96, "the vocabulary");
    ok (mg_generator_begin (g, &request, &err) == 0, "a request");
    request.arg = &seen[1];
    ok (mg_generator_begin (g, &request, &err) == 0 && !mg_generator_has_room (g), "another");
    ok (mg_generator_begin (g, &request, &err) == -1 && errno == EAGAIN, "%s", err.text);
    while (mg_generator_step (g, &err) > 0)
        continue;
    ok (seen[0].num == 5 && memcmp (seen[0].id, want, sizeof (want)) == 0 && seen[0].ended == 1,
        "its tokens");
    ok (seen[1].num == 2 && seen[1].ended == 2, "the function for tokens ends a request");
    is_int (seen[0].scored, 2, "tokens of the prompt");
    test_cancel (g, request);
    test_wrong (g, request);
    mg_generator_destroy (g);
}

int main (void)
{
    char path[4096];

    test_sampling ();
    mg_generator_destroy (NULL);
    mg_generator_abort (NULL, 1);
    if (shared_file (path, sizeof (path), "golden/14_hf/gpt2/config.json")) {
        *strrchr (path, '/') = '\0';
        test_generator (path);
    } else
        skip (19, "no reference data");
    return done_testing ();
}
