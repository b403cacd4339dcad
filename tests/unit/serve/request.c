/* Bodies of requests: fields and defaults, what is refused and by which name. */

#include <errno.h>
#include <string.h>

#include "libcore/serve/request.h"
#include "tests/tap/tap.h"

static const struct serve_request_limits limits = { .texts = 4, .top = 5 };

static int read_body (struct serve_request *r, const char *body, struct mg_error *err)
{
    return serve_request_read (r, &limits, body, strlen (body), err);
}

static void test_fields (void)
{
    struct serve_request r;
    struct mg_error err = { "" };

    ok (read_body (&r, "{\"prompt\": \"a\\u0000b\"}", &err) == 0, "a prompt alone");
    ok (r.num_prompts == 1 && r.prompt[0].is_text && r.prompt[0].text.size == 3
            && memcmp (r.prompt[0].text.data, "a\0b", 3) == 0, "its bytes");
    ok (r.max_tokens == 16 && r.sampling.temperature == 1 && r.sampling.top_k == 0
            && r.sampling.top_p == 0 && r.choices == 1 && r.logprobs == -1 && !r.has_seed
            && !r.stream && !r.echo && !r.ignore_eos && r.skip_special
            && !r.model && r.num_stops == 0, "defaults");
    serve_request_clear (&r);
    ok (read_body (&r, "{\"model\": \"m\", \"prompt\": [[1, 2], \"x\"], \"n\": 2, \"echo\": true,"
                       "\"max_tokens\": 0, \"temperature\": 0.5, \"top_p\": 0.9, \"top_k\": -1,"
                       "\"seed\": -3, \"stop\": [\"a\", \"\\u00e9\"], \"stream\": true,"
                       "\"stream_options\": {\"include_usage\": true}, \"logprobs\": 5,"
                       "\"ignore_eos\": true, \"skip_special_tokens\": false,"
                       "\"user\": {\"x\": 1}}", &err) == 0, "all fields");
    ok (strcmp (r.model, "m") == 0 && r.num_prompts == 2 && r.prompt[0].ids.count == 2
            && r.prompt[0].ids.ids[1] == 2 && r.prompt[1].is_text && r.choices == 2, "prompts");
    ok (r.sampling.temperature == 0.5 && r.sampling.top_p == 0.9 && r.sampling.top_k == 0
            && r.has_seed && r.seed == -3, "sampling");
    ok (r.num_stops == 2 && r.stop[1].size == 2 && r.stream && r.include_usage && r.echo
            && r.logprobs == 5 && r.ignore_eos
            && !r.skip_special && r.max_tokens == 0, "the rest");
    serve_request_clear (&r);
    ok (read_body (&r, "{\"prompt\": [1], \"top_p\": 1, \"suffix\": \"\", \"logit_bias\": {},"
                       "\"presence_penalty\": 0.0, \"frequency_penalty\": 0, \"best_of\": 1,"
                       "\"tools\": [], \"response_format\": {\"type\": \"text\"}, \"stop\": null}",
                   &err) == 0 && r.sampling.top_p == 0, "neutral values of unsupported fields");
    serve_request_clear (&r);
}

static void test_refusals (void)
{
    static const struct {
        const char *body;
        int errnum;
        const char *name; /* in the text */
    } rows[] = {
        { "", EINVAL, "no JSON" },
        { "{\"prompt\": \"a\"", EINVAL, "no JSON" },
        { "[]", EINVAL, "no object" },
        { "{}", EINVAL, "prompt" },
        { "{\"prompt\": []}", EINVAL, "prompt" },
        { "{\"prompt\": [[]]}", EINVAL, "prompt" },
        { "{\"prompt\": [1, \"a\"]}", EINVAL, "prompt" },
        { "{\"prompt\": [-1]}", EINVAL, "prompt" },
        { "{\"prompt\": [1, 2147483648]}", EINVAL, "prompt" },
        { "{\"prompt\": {\"a\": 1}}", EINVAL, "prompt" },
        { "{\"prompt\": [\"a\", \"b\", \"c\"], \"n\": 2}", EINVAL, "prompt" },
        { "{\"prompt\": \"a\", \"n\": 5}", EINVAL, "n: want" },
        { "{\"prompt\": \"a\", \"n\": 1.5}", EINVAL, "n: want" },
        { "{\"prompt\": \"a\", \"max_tokens\": 0}", EINVAL, "max_tokens" },
        { "{\"prompt\": \"a\", \"max_tokens\": 1e400}", EINVAL, "JSON" },
        { "{\"prompt\": \"a\", \"temperature\": -1}", EINVAL, "temperature" },
        { "{\"prompt\": \"a\", \"temperature\": \"1\"}", EINVAL, "temperature" },
        { "{\"prompt\": \"a\", \"top_p\": 0}", EINVAL, "top_p" },
        { "{\"prompt\": \"a\", \"top_p\": 1.1}", EINVAL, "top_p" },
        { "{\"prompt\": \"a\", \"top_k\": -2}", EINVAL, "top_k" },
        { "{\"prompt\": \"a\", \"logprobs\": 6}", EINVAL, "logprobs" },
        { "{\"prompt\": \"a\", \"logprobs\": true}", EINVAL, "logprobs" },
        { "{\"prompt\": \"a\", \"echo\": 1}", EINVAL, "echo" },
        { "{\"prompt\": \"a\", \"stop\": \"\"}", EINVAL, "stop" },
        { "{\"prompt\": \"a\", \"stop\": [1]}", EINVAL, "stop" },
        { "{\"prompt\": \"a\", \"stream_options\": {}}", EINVAL, "stream_options" },
        { "{\"prompt\": \"a\", \"model\": 1}", EINVAL, "model" },
        { "{\"prompt\": \"a\", \"suffix\": \"x\"}", ENOTSUP, "suffix" },
        { "{\"prompt\": \"a\", \"logit_bias\": {\"1\": 2}}", ENOTSUP, "logit_bias" },
        { "{\"prompt\": \"a\", \"presence_penalty\": 0.1}", ENOTSUP, "presence_penalty" },
        { "{\"prompt\": \"a\", \"best_of\": 2}", ENOTSUP, "best_of" },
        { "{\"prompt\": \"a\", \"tools\": [{}]}", ENOTSUP, "tools" },
        { "{\"prompt\": \"a\", \"response_format\": {\"type\": \"json_object\"}}", ENOTSUP,
          "response_format" },
    };
    struct serve_request r;

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct mg_error err = { "" };

        errno = 0;
        ok (read_body (&r, rows[i].body, &err) == -1 && errno == rows[i].errnum
                && strstr (err.text, rows[i].name) && r.num_prompts == 0, "%s: %s", rows[i].body,
            err.text);
    }
}

int main (void)
{
    test_fields ();
    test_refusals ();
    return done_testing ();
}
