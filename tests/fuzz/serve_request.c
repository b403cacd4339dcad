/* serve_request.c - bodies of requests: an accepted one keeps the limits; texts that grow by a byte
 * and by many stop at the same place, and what was sent of them stays as it is
 *
 * Input: bytes of a piece, then the body.
 */

#include <stdlib.h>
#include <string.h>

#include "libcore/serve/request.h"
#include "libcore/serve/stream_text.h"
#include "tests/fuzz/fuzz.h"

static const struct serve_request_limits limits = { .texts = 8, .top = 5 };

/* Append a text in pieces. */
static void grow (struct stream_text *t, const struct serve_request *r, const char *text,
                  size_t size, size_t piece)
{
    size_t sent = 0;

    for (size_t at = 0; at < size && !t->stopped; at += piece) {
        size_t n = size - at < piece ? size - at : piece, ready;

        fuzz_check (stream_text_append (t, text + at, n, r->stop, r->num_stops, NULL) >= 0,
                    "out of memory");
        ready = stream_text_ready (t, r->stop, r->num_stops, false);
        fuzz_check (ready <= t->text.size && ready >= sent, "%zu bytes of %zu, %zu were sent",
                    ready, t->text.size, sent);
        sent = ready;
    }
}

static void check_growth (const struct serve_request *r, const char *text, size_t size,
                          size_t piece)
{
    struct stream_text one = { .from = 0 }, many = { .from = 0 };

    grow (&one, r, text, size, 1);
    grow (&many, r, text, size, piece);
    if (r->num_stops <= 1 || !one.stopped)
        fuzz_check (one.stopped == many.stopped && one.text.size == many.text.size,
                    "%zu bytes, and %zu of pieces", one.text.size, many.text.size);
    text_buffer_clear (&one.text);
    text_buffer_clear (&many.text);
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    size_t piece = (size_t)fuzz_number (&in, 1) % 16 + 1;
    char *body = fuzz_copy (in);
    struct serve_request r;
    struct mg_error err = { "" };

    if (serve_request_read (&r, &limits, body, in.left, &err) == 0) {
        fuzz_check (r.num_prompts >= 1 && r.choices >= 1
                        && r.num_prompts * (size_t)r.choices <= (size_t)limits.texts,
                    "%zu prompts of %d texts", r.num_prompts, r.choices);
        fuzz_check (r.logprobs >= -1 && r.logprobs <= limits.top, "%d alternatives", r.logprobs);
        fuzz_check (r.max_tokens > 0 || r.echo, "nothing is asked for");
        check_growth (&r, body, in.left, piece);
    } else
        fuzz_check (err.text[0], "no text");
    serve_request_clear (&r);
    free (body);
}

const struct fuzz_target fuzz_serve_request = { "serve_request", run };
