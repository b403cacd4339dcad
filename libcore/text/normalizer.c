/* normalizer - a list of steps, each of which writes a new text */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/growth.h"
#include "libcore/text/normal_form.h"
#include "libcore/text/normalizer.h"
#include "libcore/text/utf8.h"

enum { MAX_STEPS = 64 };

enum kind { FORM, PREPEND, REPLACE, STRIP };

struct step {
    enum kind kind;
    enum normal_form form;
    char *text;          /* what PREPEND and REPLACE put */
    size_t size;
    struct regex *regex; /* what REPLACE looks for, if it is longer than a byte */
    char byte;           /* else this */
    bool left, right;    /* ends of STRIP */
};

struct normalizer {
    struct step steps[MAX_STEPS];
    int num_steps;
};

void normalizer_destroy (struct normalizer *normalizer)
{
    if (normalizer) {
        int saved_errno = errno;

        for (int i = 0; i < normalizer->num_steps; i++) {
            free (normalizer->steps[i].text);
            regex_destroy (normalizer->steps[i].regex);
        }
        free (normalizer);
        errno = saved_errno;
    }
}

static int set_text (struct step *step, const char *text, struct mg_error *err)
{
    struct text_buffer bytes = { NULL, 0, 0 };

    if (text_buffer_reserve (&bytes, 1, err) < 0 || json_text_append (&bytes, text, err) < 0) {
        text_buffer_clear (&bytes);
        return -1;
    }
    step->text = bytes.data;
    step->size = bytes.size;
    return 0;
}

static int read_form (struct step *step, enum normal_form form,
                      const struct json_place *place, struct mg_error *err)
{
    struct mg_error why;

    step->kind = FORM;
    step->form = form;
    if (normal_form_check (&why) < 0) {
        json_place_error (place, err, "%s", why.text);
        return errno = ENOTSUP, -1;
    }
    return 0;
}

static int read_prepend (struct step *step, const struct json_place *place,
                         const json_t *value, struct mg_error *err)
{
    const char *text = NULL;

    step->kind = PREPEND;
    if (json_place_string (place, value, "prepend", &text, err) < 0)
        return -1;
    return set_text (step, text ? text : "", err);
}

/* {"String": "..."} or {"Regex": "..."} */
static int read_pattern (struct step *step, const struct json_place *place,
                         const json_t *pattern, struct mg_error *err)
{
    const char *literal = NULL, *regex = NULL;
    struct mg_error why = { .text = "" };

    if (json_place_string (place, pattern, "String", &literal, err) < 0
        || json_place_string (place, pattern, "Regex", &regex, err) < 0)
        return -1;
    if ((!literal && !regex) || (literal && !*literal))
        return json_place_error (place, err, "want {\"String\": \"...\"}, not empty, or "
                                 "{\"Regex\": \"...\"}");
    if (literal && strlen (literal) == 1) {
        step->byte = *literal;
        return 0;
    }
    step->regex = regex_create_json (literal ? literal : regex, literal != NULL, &why);
    if (!step->regex) {
        int saved_errno = errno;

        json_place_error (place, err, "%s", why.text);
        return errno = saved_errno, -1;
    }
    return 0;
}

static int read_replace (struct step *step, const struct json_place *place,
                         const json_t *value, struct mg_error *err)
{
    const struct json_place at = json_place_key (place, "pattern");
    const char *text = NULL;

    step->kind = REPLACE;
    if (json_place_string (place, value, "content", &text, err) < 0
        || read_pattern (step, &at, json_object_get (value, "pattern"), err) < 0)
        return -1;
    return set_text (step, text ? text : "", err);
}

static int read_strip (struct step *step, const struct json_place *place,
                       const json_t *value, struct mg_error *err)
{
    step->kind = STRIP;
    step->left = step->right = true;
    if (json_place_bool (place, value, "strip_left", &step->left, err) < 0)
        return -1;
    return json_place_bool (place, value, "strip_right", &step->right, err);
}

static int read_step (struct step *step, const char *type, const struct json_place *place,
                      const json_t *value, struct mg_error *err)
{
    static const struct {
        const char *type;
        enum normal_form form;
    } forms[] = {
        { "NFC", NORMAL_FORM_NFC },         { "NFD", NORMAL_FORM_NFD },
        { "NFKC", NORMAL_FORM_NFKC },       { "NFKD", NORMAL_FORM_NFKD },
        { "Lowercase", NORMAL_FORM_LOWER }, { "StripAccents", NORMAL_FORM_UNMARK },
    };
    char q[JSON_PLACE_QUOTE];

    for (size_t i = 0; i < sizeof (forms) / sizeof (forms[0]); i++) {
        if (strcmp (type, forms[i].type) == 0)
            return read_form (step, forms[i].form, place, err);
    }
    if (strcmp (type, "Prepend") == 0)
        return read_prepend (step, place, value, err);
    if (strcmp (type, "Replace") == 0)
        return read_replace (step, place, value, err);
    if (strcmp (type, "Strip") == 0)
        return read_strip (step, place, value, err);
    return json_place_error (place, err, "the normalizer \"%s\" is not supported, want NFC, "
                             "NFD, NFKC, NFKD, Lowercase, StripAccents, Prepend, Replace, "
                             "Strip or Sequence", json_place_quote (q, type, strlen (type)));
}

static int read_value (void *arg, const struct json_place *place, const json_t *value, int depth,
                       struct mg_error *err)
{
    struct normalizer *n = arg;
    const char *type;

    if (json_place_type (place, value, &type, err) < 0)
        return -1;
    if (strcmp (type, "Sequence") == 0)
        return json_place_sequence (place, value, "normalizers", depth, read_value, n, err);
    if (n->num_steps == MAX_STEPS)
        return json_place_error (place, err, "more than %d normalizers", MAX_STEPS);
    return read_step (&n->steps[n->num_steps++], type, place, value, err);
}

struct normalizer *normalizer_create (const struct json_place *place, const json_t *value,
                                      struct mg_error *err)
{
    struct normalizer *n;

    if (!(n = calloc (1, sizeof (*n)))) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    if (value && !json_is_null (value) && read_value (n, place, value, 0, err) < 0) {
        normalizer_destroy (n);
        return NULL;
    }
    return n;
}

/* ---- running ---- */

/* A step under way. */
struct run {
    const struct step *step;
    struct normal_text from;
    struct text_buffer *out;
    size_t head; /* of what is in 'out' */
    size_t most; /* bytes */
};

static int append (struct run *run, const char *text, size_t size, struct mg_error *err)
{
    if (run->out->size > run->most || size > run->most - run->out->size)
        return mg_error_set (err, EFBIG, "the normalizer of the tokenizer makes more than %zu "
                             "bytes of this text, which is more than %d times as many",
                             run->most, GROWTH_FACTOR);
    return text_buffer_append (run->out, text, size, err);
}

/* Copy from.data[at, to). */
static int keep (struct run *run, size_t at, size_t to, struct mg_error *err)
{
    const size_t head = run->from.head < to ? run->from.head : to;

    if (at < head)
        run->head = run->out->size + head - at;
    return append (run, run->from.data + at, to - at, err);
}

/* Put the step's text for what ends before from.data[to]: it is aligned with the last character
 * of this. */
static int put (struct run *run, size_t to, struct mg_error *err)
{
    if (append (run, run->step->text, run->step->size, err) < 0)
        return -1;
    if (run->from.first && to <= run->from.head)
        run->head = run->out->size;
    return 0;
}

static int run_form (struct run *run, struct mg_error *err)
{
    const struct normal_text *from = &run->from;

    if (normal_form_append (run->step->form, from->data, from->head, run->out, err) < 0)
        return -1;
    run->head = run->out->size;
    run->out->size = 0;
    return normal_form_append (run->step->form, from->data, from->size, run->out, err);
}

static int run_prepend (struct run *run, struct mg_error *err)
{
    if (run->from.size > 0 && append (run, run->step->text, run->step->size, err) < 0)
        return -1;
    return keep (run, 0, run->from.size, err);
}

static int replace_byte (struct run *run, struct mg_error *err)
{
    const char *text = run->from.data, *end = text + run->from.size;

    for (size_t at = 0; at < run->from.size;) {
        const char *found = memchr (text + at, run->step->byte, (size_t)(end - text) - at);
        size_t to = (size_t)((found ? found : end) - text);

        if (keep (run, at, to, err) < 0 || (found && put (run, to + 1, err) < 0))
            return -1;
        at = to + 1;
    }
    return 0;
}

static int replace_regex (struct run *run, struct regex_scratch *scratch, struct mg_error *err)
{
    struct regex_walk walk = { 0 };
    size_t done = 0;
    int rc;

    if (run->from.size == 0) /* the library looks for no match in nothing */
        return 0;
    while ((rc = regex_next (run->step->regex, scratch, run->from.data, run->from.size, &walk,
                             err)) > 0) {
        if (keep (run, done, walk.from, err) < 0 || put (run, walk.to, err) < 0)
            return -1;
        done = walk.to;
    }
    return rc < 0 ? -1 : keep (run, done, run->from.size, err);
}

static int run_strip (struct run *run, struct mg_error *err)
{
    const char *text = run->from.data;
    size_t from = 0, size = run->from.size, n;

    while (run->step->left && from < size && utf8_is_space (utf8_decode (text + from, &n)))
        from += n;
    while (run->step->right && size > from) {
        size_t previous = utf8_previous (text, size);

        if (!utf8_is_space (utf8_decode (text + previous, &n)))
            break;
        size = previous;
    }
    return keep (run, from, size, err);
}

static int run_step (struct run *run, struct regex_scratch *scratch, struct mg_error *err)
{
    switch (run->step->kind) {
    case FORM:
        return run_form (run, err);
    case PREPEND:
        return run_prepend (run, err);
    case REPLACE:
        return run->step->regex ? replace_regex (run, scratch, err) : replace_byte (run, err);
    case STRIP:
        return run_strip (run, err);
    }
    return 0;
}

int normalizer_run (const struct normalizer *normalizer, struct regex_scratch *scratch,
                    struct text_buffer buffers[2], const struct normal_text *text,
                    struct normal_text *result, struct mg_error *err)
{
    const size_t most = growth_max (text->size);

    *result = *text;
    for (int i = 0; i < normalizer->num_steps; i++) {
        struct run run = { .step = &normalizer->steps[i], .from = *result,
                           .out = &buffers[i % 2], .most = most };

        run.out->size = 0;
        if (text_buffer_reserve (run.out, 1, err) < 0 || run_step (&run, scratch, err) < 0)
            return -1;
        *result = (struct normal_text){ run.out->data, run.out->size, text->first, run.head };
    }
    return 0;
}
