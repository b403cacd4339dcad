/* The queue and the places: a test plays the engine and the clients. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcore/serve/server.h"
#include "tests/tap/tap.h"

enum { PLACES = 2 };

static struct tokenizer *bytes;
static struct token_text *names;

struct person {
    int woken, looks;
    bool left;
};

static void ready (void *arg)
{
    ((struct person *)arg)->woken++;
}

static bool left (void *arg)
{
    struct person *who = arg;

    who->looks++;
    return who->left;
}

static struct server *make (double seconds)
{
    struct server_config c = {
        .model = "m", .root = "/m", .planned = { .requests = PLACES, .length = 20, .top = 5 },
        .vocab_size = 257, .tokenizer = bytes, .bare = bytes, .texts = names, .first = 256,
        .prompt_max = 8, .queue_max = 4, .seconds_max = seconds,
    };

    return server_create (&c, NULL);
}

static int submit (struct server *s, const char *body, struct person *who,
                   struct server_work **work, struct mg_error *err)
{
    const struct serve_request_limits limits = server_limits (s);
    const struct server_client client = { ready, left, who };
    struct serve_request r;

    if (serve_request_read (&r, &limits, body, strlen (body), err) < 0)
        bail_out ("%s: %s", body, err->text);
    return server_submit (s, &r, &client, work, err);
}

/* The items of the next plan: "+0:A" begins a prompt, "-0" ends a text; "0" is the end. */
static const char *plan (struct server *s, bool idle, char text[256])
{
    const struct engine_source source = server_source (s);
    struct text_buffer items = { NULL, 0, 0 };
    struct text_plan_item item;
    int rc = source.plan (source.arg, idle, &items, NULL);
    size_t at = 0, n = 0;

    text[0] = '\0';
    while (text_plan_next (items.data, items.size, &at, &item, NULL) > 0) {
        n += (size_t)snprintf (text + n, 256 - n, "%s%c%d", n > 0 ? " " : "",
                               item.begins ? '+' : '-', item.slot);
        if (item.begins)
            n += (size_t)snprintf (text + n, 256 - n, ":%c", (char)item.text.prompt[0]);
    }
    text_buffer_clear (&items);
    return rc == 0 ? "0" : text;
}

static void token (struct server *s, int slot, char byte)
{
    const struct engine_source source = server_source (s);
    const struct generator_token t = { .id = (unsigned char)byte, .log_prob = -1 };

    source.token (source.arg, slot, &t, &byte, 1);
}

static void end (struct server *s, int slot)
{
    const struct engine_source source = server_source (s);

    source.end (source.arg, slot, false);
}

/* Take what there is: it contains 'want', and the result and the status are these. */
static void take (struct server_work *work, int want_rc, int want_status, const char *want)
{
    struct text_buffer to = { NULL, 0, 0 };
    int status, rc = server_take (work, &to, &status);

    text_buffer_append (&to, "", 1, NULL);
    ok (rc == want_rc && (rc != 0 || status == want_status) && strstr (to.data, want),
        "%d, status %d: %s", rc, status, to.data);
    text_buffer_clear (&to);
}

static void wait_for_look (void)
{
    const struct timespec t = { 0, (long)(1.1e9 * SERVER_LOOK_SECONDS) };

    nanosleep (&t, NULL);
}

static void test_queue (void)
{
    struct server *s = make (0);
    struct person who[3] = { { 0 } };
    struct server_work *work[3], *none;
    struct mg_error err = { "" };
    char text[256];

    is_int (submit (s, "{\"prompt\": [\"A\", \"B\", \"C\"]}", &who[0], &work[0], &err), 0,
            "a request");
    is_int (submit (s, "{\"prompt\": \"D\"}", &who[1], &work[1], &err), 0, "another one");
    ok (submit (s, "{\"prompt\": \"E\"}", &who[2], &none, &err) == 503 && !none
            && strstr (err.text, "4 texts wait, want 4 at most"), "the queue is full: %s",
        err.text);
    is_str (plan (s, true, text), "+0:A +1:B", "texts begin in the order of requests");
    is_str (plan (s, false, text), "", "no place is free");
    is_int (submit (s, "{\"prompt\": \"F\", \"stream\": true}", &who[2], &work[2], &err), 0,
            "there is room in the queue again");
    token (s, 1, 'b');
    end (s, 1);
    is_int (who[0].woken, 0, "an answer waits for all texts");
    take (work[0], 1, 0, "");
    is_str (plan (s, false, text), "+1:C", "a place is given on");
    token (s, 0, 'a');
    end (s, 0);
    end (s, 1);
    is_int (who[0].woken, 1, "all texts have ended");
    take (work[0], 0, 200, "\"text\":\"a\"");
    server_release (work[0]);
    is_str (plan (s, true, text), "+0:D +1:F", "others follow");
    token (s, 1, 'f');
    is_int (who[2].woken, 1, "a stream is woken by a token");
    take (work[2], 1, 200, "\"text\":\"f\"");
    who[1].left = true;
    wait_for_look ();
    is_str (plan (s, false, text), "-0", "a client that leaves frees its place");
    take (work[1], 0, 499, "left");
    server_release (work[1]);
    server_release (work[2]);
    is_str (plan (s, false, text), "-1", "as one does that needs nothing more");
    is_str (plan (s, true, text), "", "nobody is left");
    server_destroy (s);
}

/* Texts that have ended need room until their answer is taken. */
static void test_room (void)
{
    struct server *s = make (0);
    struct person who = { 0 };
    struct server_work *work[3], *none;
    struct mg_error err = { "" };
    char text[256];

    for (int i = 0; i < 3; i++) {
        is_int (submit (s, "{\"prompt\": [\"A\", \"B\"]}", &who, &work[i], &err), 0, "two texts");
        plan (s, true, text);
        end (s, 0);
        end (s, 1);
    }
    ok (submit (s, "{\"prompt\": \"A\"}", &who, &none, &err) == 503 && !none
            && strstr (err.text, "6 texts wait, run or are not taken yet, want 6 at most"),
        "there is no room: %s", err.text);
    server_release (work[1]);
    is_int (submit (s, "{\"prompt\": [\"C\", \"D\"]}", &who, &work[1], &err), 0,
            "an answer that is taken makes room");
    ok (submit (s, "{\"prompt\": \"A\"}", &who, &none, &err) == 503, "for as many");
    for (int i = 0; i < 3; i++)
        server_release (work[i]);
    plan (s, false, text);
    is_int (submit (s, "{\"prompt\": [\"A\", \"B\"], \"n\": 2}", &who, &work[0], &err), 0,
            "all have been taken");
    server_release (work[0]);
    server_destroy (s);
}

/* Many passes, few looks at a client that waits. */
static void test_looks (void)
{
    struct server *s = make (0);
    struct person who = { 0 };
    struct server_work *work;
    struct mg_error err = { "" };
    struct timespec from, to;
    char text[256];
    double seconds;

    submit (s, "{\"prompt\": \"A\"}", &who, &work, &err);
    clock_gettime (CLOCK_MONOTONIC, &from);
    for (int i = 0; i < 500; i++)
        plan (s, false, text);
    wait_for_look ();
    plan (s, false, text);
    clock_gettime (CLOCK_MONOTONIC, &to);
    seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    ok (who.looks >= 2 && who.looks <= 2 + seconds / SERVER_LOOK_SECONDS,
        "%d looks at a client in %g seconds", who.looks, seconds);
    server_release (work);
    server_destroy (s);
}

static void test_refusals (void)
{
    static const struct {
        const char *body;
        int status;
        const char *text;
    } rows[] = {
        { "{\"prompt\": \"A\", \"model\": \"x\"}", 404, "\"x\" is not here, want \"m\"" },
        { "{\"prompt\": \"123456789\"}", 400, "9 tokens, want 8 at most" },
        { "{\"prompt\": \"A\", \"echo\": true, \"logprobs\": 1}", 400, "echo" },
    };
    struct server *s = make (0);
    struct server_work *work;
    struct mg_error err = { "" };
    struct person who = { 0 };
    char text[256];

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        is_int (submit (s, rows[i].body, &who, &work, &err), rows[i].status, "%s", rows[i].body);
        ok (!work && strstr (err.text, rows[i].text), "%s", err.text);
    }
    is_int (submit (s, "{\"prompt\": \"\", \"top_k\": 9999}", &who, &work, &err), 0,
            "an empty prompt, and top_k beyond the vocabulary");
    is_str (plan (s, true, text), "+0:", "begins with the token that ends a document");
    server_release (work);
    server_destroy (s);
}

static void test_ends (void)
{
    struct server *s = make (1e-9);
    struct server_work *work, *other;
    struct mg_error err = { "" };
    struct person who = { 0 };
    char text[256];

    submit (s, "{\"prompt\": \"A\"}", &who, &work, &err);
    is_str (plan (s, true, text), "", "a request whose time is over does not begin");
    is_int (who.woken, 1, "its client is told");
    take (work, 0, 408, "longer than");
    server_release (work);
    server_destroy (s);

    s = make (0);
    submit (s, "{\"prompt\": \"A\"}", &who, &work, &err);
    submit (s, "{\"prompt\": [\"B\", \"C\"], \"stream\": true}", &who, &other, &err);
    is_str (plan (s, true, text), "+0:A +1:B", "texts run");
    ok (server_accepts (s), "the server accepts requests");
    server_drain (s, 1000);
    ok (!server_accepts (s), "then no more");
    is_int (submit (s, "{\"prompt\": \"D\"}", &who, &(struct server_work *){ NULL }, &err), 503,
            "a late request is refused");
    is_str (plan (s, false, text), "", "running texts go on");
    end (s, 0);
    is_str (plan (s, false, text), "+0:C", "also those that wait");
    end (s, 0);
    server_fail (s, "out of luck");
    take (other, 0, 500, "data: {\"error\":{\"message\":\"out of luck\"");
    take (other, 0, 500, "");
    take (work, 0, 200, "\"text\":\"\"");
    is_str (plan (s, false, text), "0", "nothing is left to be done");
    server_release (work);
    server_release (other);
    server_wait_released (s, 10);
    server_destroy (s);

    s = make (0);
    submit (s, "{\"prompt\": \"A\"}", &who, &work, &err);
    plan (s, true, text);
    server_drain (s, -1);
    is_str (plan (s, false, text), "0", "the time to drain is over");
    take (work, 0, 503, "stopping");
    server_release (work);
    server_destroy (s);
    server_destroy (NULL);
    server_release (NULL);
}

static void test_metrics (void)
{
    struct server *s = make (0);
    struct text_buffer to = { NULL, 0, 0 };
    struct server_work *work;
    struct mg_error err = { "" };
    struct person who = { 0 };
    char text[256];

    submit (s, "{\"prompt\": [\"AB\", \"C\", \"D\"]}", &who, &work, &err);
    plan (s, true, text);
    token (s, 0, 'x');
    server_count (s, 200);
    server_count (s, 404);
    server_count (s, 404);
    server_count (s, 9999);
    ok (server_metrics (s, &to, NULL) == 0 && text_buffer_append (&to, "", 1, NULL) == 0,
        "metrics");
    ok (strstr (to.data, "\nmegatron_requests_total 1\n")
            && strstr (to.data, "\nmegatron_texts_running 2\n")
            && strstr (to.data, "\nmegatron_texts_waiting 1\n")
            && strstr (to.data, "\nmegatron_prompt_tokens_total 4\n")
            && strstr (to.data, "\nmegatron_generated_tokens_total 1\n")
            && strstr (to.data, "\nmegatron_answers_total{status=\"404\"} 2\n"), "have the counts");
    text_buffer_clear (&to);
    server_release (work);
    server_destroy (s);
}

int main (void)
{
    bytes = tokenizer_create ("ByteLevel", NULL, NULL);
    names = token_text_create (bytes, NULL);
    test_queue ();
    test_room ();
    test_looks ();
    test_refusals ();
    test_ends ();
    test_metrics ();
    token_text_destroy (names);
    tokenizer_destroy (bytes);
    return done_testing ();
}
