/* engine.c - plans, slots, and which token ends a text */

#include <errno.h>
#include <stdlib.h>

#include "libcore/serve/engine.h"
#include "libcore/serve/stream_text.h"

struct slot {
    struct engine *of;
    int number;
    bool used, ignore_eos, skip_special;
    struct stream_text text; /* the generated text, if there are stop strings */
    struct text_buffer stop[REQUEST_STOPS_MAX];
    int num_stops;
};

struct engine {
    struct engine_config config;
    struct slot *slot; /* [slots] */
    struct text_buffer plan;
    bool lost; /* out of memory */
};

/* The message of rank 0 before each pass. */
struct word {
    int64_t go_on;
    int64_t bytes; /* of the plan */
};

/* --- texts --- */

static bool is_end (const struct engine *e, int32_t id)
{
    const struct token_buffer *ends = e->config.ends;

    for (size_t i = 0; i < ends->count; i++) {
        if (ends->ids[i] == id)
            return true;
    }
    return false;
}

static const char *bytes_of (const struct slot *slot, int32_t id, size_t *size)
{
    const struct engine *e = slot->of;

    *size = 0;
    if (!e->config.tokenizer || id >= tokenizer_vocab_size (e->config.tokenizer)
        || (slot->skip_special && tokenizer_is_special (e->config.tokenizer, id)))
        return NULL;
    return tokenizer_token (e->config.tokenizer, id, size);
}

/* The token callback of the generator. */
static bool take_token (void *arg, const struct generator_token *token)
{
    struct slot *slot = arg;
    struct engine *e = slot->of;
    bool ends = !token->prompt && !slot->ignore_eos && is_end (e, token->id);
    const char *bytes = NULL;
    size_t size = 0;
    int stopped = 0;

    if (!token->prompt && !ends)
        bytes = bytes_of (slot, token->id, &size);
    if (!token->prompt && slot->num_stops > 0)
        stopped = stream_text_append (&slot->text, bytes, size, slot->stop, slot->num_stops, NULL);
    e->lost |= stopped < 0;
    if (e->config.source)
        e->config.source->token (e->config.source->arg, slot->number, token, bytes, size);
    return ends || stopped != 0;
}

/* The end callback of the generator. */
static void take_end (void *arg, enum generator_end how)
{
    struct slot *slot = arg;
    const struct engine_source *source = slot->of->config.source;

    slot->used = false;
    if (source)
        source->end (source->arg, slot->number, how == GENERATOR_STOP);
}

/* --- plans --- */

static int begin_text (struct engine *e, struct slot *slot, const struct text_plan_text *t,
                       struct mg_error *err)
{
    const struct generator_request request = {
        .prompt = t->prompt, .num_prompt = t->num_prompt, .max_tokens = t->max_tokens,
        .sampling = t->sampling, .draw = t->draw, .scores = t->scores, .top = t->top,
        .token = take_token, .end = take_end, .arg = slot,
    };

    slot->ignore_eos = t->ignore_eos;
    slot->skip_special = t->skip_special;
    slot->text.text.size = slot->text.searched = 0;
    slot->text.stopped = false;
    slot->num_stops = t->num_stops;
    for (int i = 0; i < t->num_stops; i++) {
        slot->stop[i].size = 0;
        if (text_buffer_append (&slot->stop[i], t->stop[i].data, t->stop[i].size, err) < 0)
            return -1;
    }
    slot->used = true;
    return generator_begin (e->config.generator, &request, err);
}

static int apply (struct engine *e, struct mg_error *err)
{
    struct text_plan_item item;
    size_t at = 0;
    int rc;

    while ((rc = text_plan_next (e->plan.data, e->plan.size, &at, &item, err)) > 0) {
        struct slot *slot = &e->slot[item.slot < e->config.slots ? item.slot : 0];

        if (item.slot >= e->config.slots || slot->used == item.begins)
            return mg_error_set (err, EINVAL, "the plan of a pass is faulty: slot %d", item.slot);
        if (item.begins) {
            if (begin_text (e, slot, &item.text, err) < 0)
                return -1;
            continue;
        }
        slot->used = false;
        if (!generator_cancel (e->config.generator, slot))
            return mg_error_set (err, EINVAL, "the plan of a pass is faulty: no text of slot %d",
                                 item.slot);
    }
    return rc;
}

static bool is_idle (const struct engine *e)
{
    for (int i = 0; i < e->config.slots; i++) {
        if (e->slot[i].used)
            return false;
    }
    return true;
}

/* Bring rank 0's plan to all ranks: 1, 0 at the end. */
static int share_plan (struct engine *e, struct mg_error *err)
{
    const struct engine_source *source = e->config.source;
    struct mg_comm *all = job_control (e->config.job);
    struct word word = { 0, 0 };
    int rc = 0;

    e->plan.size = 0;
    if (source) {
        if ((rc = source->plan (source->arg, is_idle (e), &e->plan, err)) < 0)
            return -1;
        word = (struct word){ rc, (int64_t)e->plan.size };
    }
    if (job_world (e->config.job) == 1)
        return rc;
    if (mg_comm_broadcast (all, &word, 2, MG_INT64, 0, NULL, err) < 0)
        return -1;
    if (word.go_on && word.bytes > 0) {
        if (!source && text_buffer_reserve (&e->plan, (size_t)word.bytes, err) < 0)
            return -1;
        e->plan.size = (size_t)word.bytes;
        if (mg_comm_broadcast (all, e->plan.data, (size_t)word.bytes, MG_UINT8, 0, NULL, err) < 0)
            return -1;
    }
    return word.go_on != 0;
}

static int loop (struct engine *e, struct mg_error *err)
{
    int rc;

    while ((rc = share_plan (e, err)) > 0) {
        if (apply (e, err) < 0 || generator_step (e->config.generator, err) < 0)
            return -1;
        if (e->lost)
            return mg_error_set (err, ENOMEM, "out of memory for a text");
    }
    return rc;
}

int engine_run (const struct engine_config *config, struct mg_error *err)
{
    struct engine e = { .config = *config };
    int rc, saved_errno;

    if (!(e.slot = calloc ((size_t)config->slots, sizeof (*e.slot))))
        return mg_error_set (err, ENOMEM, "out of memory for %d texts", config->slots);
    for (int i = 0; i < config->slots; i++)
        e.slot[i] = (struct slot){ .of = &e, .number = i };
    rc = loop (&e, err);
    saved_errno = errno;
    for (int i = 0; i < config->slots; i++) {
        text_buffer_clear (&e.slot[i].text.text);
        for (int k = 0; k < REQUEST_STOPS_MAX; k++)
            text_buffer_clear (&e.slot[i].stop[k]);
    }
    text_buffer_clear (&e.plan);
    free (e.slot);
    errno = saved_errno;
    return rc;
}
