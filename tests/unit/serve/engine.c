/* The loop of all ranks, on one rank and a generator of the test, whose token of a position is the
 * byte there in a fixed text.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/serve/engine.h"
#include "tests/tap/tap.h"

enum { SLOTS = 2 };

static const char said[] = "say when to stop";

/* --- the generator --- */

struct generator {
    struct {
        struct generator_request request;
        int64_t made;
        bool used;
    } place[SLOTS];
    int steps;
};

int generator_begin (struct generator *g, const struct generator_request *request,
                     struct mg_error *err)
{
    (void)err;
    if (request->max_tokens == 0) {
        request->end (request->arg, GENERATOR_LENGTH);
        return 0;
    }
    for (int i = 0; i < SLOTS; i++) {
        if (!g->place[i].used) {
            g->place[i].request = *request;
            g->place[i].made = 0;
            g->place[i].used = true;
            return 0;
        }
    }
    return -1;
}

bool generator_cancel (struct generator *g, const void *arg)
{
    for (int i = 0; i < SLOTS; i++) {
        if (g->place[i].used && g->place[i].request.arg == arg) {
            g->place[i].used = false;
            return true;
        }
    }
    return false;
}

int generator_step (struct generator *g, struct mg_error *err)
{
    (void)err;
    g->steps++;
    for (int i = 0; i < SLOTS; i++) {
        const struct generator_request *r = &g->place[i].request;
        struct generator_token t = { .position = r->num_prompt + g->place[i].made };
        bool stop;

        if (!g->place[i].used)
            continue;
        t.id = said[g->place[i].made++];
        stop = r->token (r->arg, &t);
        g->place[i].used = !stop && g->place[i].made < r->max_tokens;
        if (!g->place[i].used)
            r->end (r->arg, stop ? GENERATOR_STOP : GENERATOR_LENGTH);
    }
    return 1;
}

/* --- one rank --- */

int job_world (const struct job *job)
{
    (void)job;
    return 1;
}

struct mg_comm *job_control (const struct job *job)
{
    (void)job;
    return NULL;
}

/* --- a source: the items of each pass are a text, "+0 9 stop" ("+!": no token ends it, "+~": it
 * skips special tokens) or "-0", "." is the end ---
 */

struct script {
    const char *const *line;
    int at;
    char log[SLOTS][64]; /* what became of each slot */
    bool was_idle[16];
};

static int plan (void *arg, bool idle, struct text_buffer *to, struct mg_error *err)
{
    static const int32_t ids[] = { 1, 2 };
    struct script *s = arg;
    const char *line = s->line[s->at];

    s->was_idle[s->at++] = idle;
    if (line[0] == '.')
        return 0;
    if (line[0] == '-')
        return text_plan_end (to, atoi (line + 1), err) < 0 ? -1 : 1;
    if (line[0] == '+') {
        struct text_plan_text t = { .prompt = ids, .num_prompt = 2, .ignore_eos = line[1] == '!',
                                    .skip_special = line[1] == '~' };
        int slot = 0, tokens = 0, at = 0;

        line += t.ignore_eos || t.skip_special;
        sscanf (line + 1, "%d %d %n", &slot, &tokens, &at);
        t.max_tokens = tokens;
        line += 1 + at;
        if (*line) {
            t.stop[0] = (struct text_buffer){ (char *)line, strlen (line), 0 };
            t.num_stops = 1;
        }
        return text_plan_begin (to, slot, &t, err) < 0 ? -1 : 1;
    }
    return line[0] == '?' ? text_buffer_append (to, "12345678", 8, err) + 1 : 1;
}

static void token (void *arg, int slot, const struct generator_token *t, const char *bytes,
                   size_t size)
{
    struct script *s = arg;

    (void)t;
    strcat (s->log[slot], (char[2]){ size > 0 ? bytes[0] : '#', '\0' });
}

static void end (void *arg, int slot, bool stopped)
{
    struct script *s = arg;

    strcat (s->log[slot], stopped ? "!" : "|");
}

/* --- tests --- */

static struct tokenizer *bytes;

static int run (struct script *s, const char *const *lines, int32_t eos, struct mg_error *err)
{
    static struct generator g;
    const struct engine_source source = { plan, token, end, s };
    const struct token_buffer ends = { &eos, 1, 0 };
    const struct engine_config config = { .generator = &g, .slots = SLOTS, .tokenizer = bytes,
                                          .ends = &ends, .source = &source };

    g = (struct generator){ .steps = 0 };
    *s = (struct script){ .line = lines };
    return engine_run (&config, err);
}

static void test_texts (void)
{
    static const char *const lines[] = { " ", "+0 4", "+1 30 when", " ", " ", "+0 2", " ", " ", " ",
                                         " ", "." };
    static const char *const ends[] = { "+0 9", "+!1 9", " ", " ", " ", " ", " ", " ", " ", " ",
                                        "+1 0", "." };
    static const char *const cancel[] = { "+0 9", "+1 9", "-0", "+0 1", "-1", "." };
    struct mg_error err = { "" };
    struct script s;

    is_int (run (&s, lines, 300, &err), 0, "texts");
    is_str (s.log[0], "say |sa|", "by their length, one after the other");
    is_str (s.log[1], "say when!", "by a stop string");
    ok (s.was_idle[0] && s.was_idle[1] && !s.was_idle[2] && s.was_idle[10], "idle without texts");
    is_int (run (&s, ends, 'w', &err), 0, "texts with an end");
    is_str (s.log[0], "say #!", "the end has no bytes");
    is_str (s.log[1], "say when |" "|", "it may be ignored; and a text of no tokens");
    is_int (run (&s, cancel, 300, &err), 0, "texts that end early");
    is_str (s.log[0], "sas|", "the slot is free");
    is_str (s.log[1], "say", "and nothing more comes of a text");
}

static bool is_space (const void *impl, int32_t id)
{
    (void)impl;
    return id == ' ';
}

/* A special token has no bytes, for stop strings too, unless the text shows it. */
static void test_special (void)
{
    static const char *const lines[] = { "+0 7", "+~1 30 ywhe", " ", " ", " ", " ", " ", " ", " ",
                                         "." };
    struct tokenizer_ops ops = *bytes->ops;
    struct tokenizer other = { &ops, bytes->impl }, *saved = bytes;
    struct mg_error err = { "" };
    struct script s;

    ops.is_special = is_space;
    bytes = &other;
    is_int (run (&s, lines, 300, &err), 0, "texts with special tokens");
    bytes = saved;
    is_str (s.log[0], "say whe|", "which are shown");
    is_str (s.log[1], "say#whe!", "or not");
}

static void test_faults (void)
{
    static const char *const lines[][3] = { { "+0 9", "+0 9", "." }, { "+2 9", ".", "." },
                                            { "-0", ".", "." }, { "?", ".", "." } };
    struct script s;

    for (size_t i = 0; i < sizeof (lines) / sizeof (lines[0]); i++) {
        struct mg_error err = { "" };

        ok (run (&s, lines[i], 300, &err) == -1 && errno == EINVAL
                && strstr (err.text, "the plan of a pass is faulty"), "%s", err.text);
    }
}

int main (void)
{
    bytes = tokenizer_create ("ByteLevel", NULL, NULL);
    test_texts ();
    test_special ();
    test_faults ();
    tokenizer_destroy (bytes);
    return done_testing ();
}
