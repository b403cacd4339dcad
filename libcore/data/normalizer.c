/* normalizer - a list of steps, each of which writes a new text */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/data/normal_form.h"
#include "libcore/data/normalizer.h"
#include "libcore/data/utf8.h"

enum { MAX_STEPS = 64, MAX_DEPTH = 8 };

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
    step->size = strlen (text);
    if (!(step->text = strdup (text)))
        return mg_error_set (err, ENOMEM, "out of memory");
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
    step->regex = literal ? regex_create_literal (literal, strlen (literal), &why)
                          : regex_create (regex, strlen (regex), &why);
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

static int read_value (struct normalizer *n, const struct json_place *place,
                       const json_t *value, int depth, struct mg_error *err)
{
    const struct json_place at = json_place_key (place, "normalizers");
    const json_t *list, *element;
    const char *type;
    size_t i;

    if (json_place_type (place, value, &type, err) < 0)
        return -1;
    if (strcmp (type, "Sequence") != 0) {
        if (n->num_steps == MAX_STEPS)
            return json_place_error (place, err, "more than %d normalizers", MAX_STEPS);
        return read_step (&n->steps[n->num_steps++], type, place, value, err);
    }
    list = json_object_get (value, "normalizers");
    if (!json_is_array (list))
        return json_place_error (&at, err, "want an array");
    if (depth == MAX_DEPTH)
        return json_place_error (&at, err, "more than %d sequences in one another", MAX_DEPTH);
    json_array_foreach (list, i, element) {
        const struct json_place one = json_place_index (&at, i);

        if (read_value (n, &one, element, depth + 1, err) < 0)
            return -1;
    }
    return 0;
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

static int run_prepend (const struct step *step, const char *text, size_t size,
                        struct text_buffer *out, struct mg_error *err)
{
    if (size > 0 && text_buffer_append (out, step->text, step->size, err) < 0)
        return -1;
    return text_buffer_append (out, text, size, err);
}

static int replace_byte (const struct step *step, const char *text, size_t size,
                         struct text_buffer *out, struct mg_error *err)
{
    const char *end = text + size;

    while (text < end) {
        const char *found = memchr (text, step->byte, end - text);
        size_t n = (found ? found : end) - text;

        if (text_buffer_append (out, text, n, err) < 0
            || (found && text_buffer_append (out, step->text, step->size, err) < 0))
            return -1;
        text += n + 1;
    }
    return 0;
}

static int replace_regex (const struct step *step, struct regex_scratch *scratch,
                          const char *text, size_t size, struct text_buffer *out,
                          struct mg_error *err)
{
    struct regex_walk walk = { 0 };
    size_t done = 0;
    int rc;

    while ((rc = regex_next (step->regex, scratch, text, size, &walk, err)) > 0) {
        if (text_buffer_append (out, text + done, walk.from - done, err) < 0
            || text_buffer_append (out, step->text, step->size, err) < 0)
            return -1;
        done = walk.to;
    }
    return rc < 0 ? -1 : text_buffer_append (out, text + done, size - done, err);
}

static int run_strip (const struct step *step, const char *text, size_t size,
                      struct text_buffer *out, struct mg_error *err)
{
    size_t from = 0, n;

    while (step->left && from < size && utf8_is_space (utf8_decode (text + from, &n)))
        from += n;
    while (step->right && size > from) {
        size_t previous = utf8_previous (text, size);

        if (!utf8_is_space (utf8_decode (text + previous, &n)))
            break;
        size = previous;
    }
    return text_buffer_append (out, text + from, size - from, err);
}

static int run_step (const struct step *step, struct regex_scratch *scratch,
                     const char *text, size_t size, struct text_buffer *out,
                     struct mg_error *err)
{
    switch (step->kind) {
    case FORM:
        return normal_form_append (step->form, text, size, out, err);
    case PREPEND:
        return run_prepend (step, text, size, out, err);
    case REPLACE:
        return step->regex ? replace_regex (step, scratch, text, size, out, err)
                           : replace_byte (step, text, size, out, err);
    case STRIP:
        return run_strip (step, text, size, out, err);
    }
    return 0;
}

int normalizer_run (const struct normalizer *normalizer, struct regex_scratch *scratch,
                    struct text_buffer buffers[2], const char *text, size_t size,
                    const char **result, size_t *result_size, struct mg_error *err)
{
    for (int i = 0; i < normalizer->num_steps; i++) {
        struct text_buffer *out = &buffers[i % 2];

        out->size = 0;
        if (text_buffer_reserve (out, 1, err) < 0
            || run_step (&normalizer->steps[i], scratch, text, size, out, err) < 0)
            return -1;
        text = out->data;
        size = out->size;
    }
    *result = text;
    *result_size = size;
    return 0;
}
