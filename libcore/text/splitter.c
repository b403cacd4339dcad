/* splitter - a list of steps, each of which hands its pieces to the next */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/text/splitter.h"
#include "libcore/text/utf8.h"


enum kind { SPLIT, PREFIX, MAP, METASPACE };

/* What happens to the matches of a SPLIT, in Hugging Face's words. */
enum behavior { REMOVED, ISOLATED, WITH_PREVIOUS, WITH_NEXT, CONTIGUOUS };

static const char *const behavior_names[] = {
    "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous", NULL,
};

enum scheme { ALWAYS, FIRST, NEVER };

struct step {
    enum kind kind;
    struct regex *regex; /* of SPLIT; of METASPACE that splits */
    enum behavior behavior;
    bool invert;
    enum scheme scheme;
    char space[UTF8_MAX + 1]; /* what METASPACE writes for a blank */
};

struct splitter {
    struct step steps[SPLITTER_MAX_STEPS];
    int num_steps;
    bool byte_level;
    bool mapped; /* there is a MAP */
    struct bytechars bytechars;
};

/* A run over one text. */
struct run {
    const struct splitter *splitter;
    struct splitter_scratch *scratch;
    splitter_word_f *word;
    void *arg;
};

void splitter_destroy (struct splitter *splitter)
{
    if (splitter) {
        int saved_errno = errno;

        for (int i = 0; i < splitter->num_steps; i++)
            regex_destroy (splitter->steps[i].regex);
        free (splitter);
        errno = saved_errno;
    }
}

enum splitter_words splitter_words (const struct splitter *splitter)
{
    return splitter->mapped ? SPLITTER_CHARS
           : splitter->byte_level ? SPLITTER_BYTES : SPLITTER_TEXT;
}

void splitter_scratch_clear (struct splitter_scratch *scratch)
{
    for (int i = 0; i < SPLITTER_MAX_STEPS; i++)
        text_buffer_clear (&scratch->buffers[i]);
}

/* ---- reading ---- */

static struct step *add_step (struct splitter *s, enum kind kind,
                              const struct json_place *place, struct mg_error *err)
{
    if (s->num_steps == SPLITTER_MAX_STEPS) {
        json_place_error (place, err, "more than %d steps", SPLITTER_MAX_STEPS);
        return NULL;
    }
    s->steps[s->num_steps].kind = kind;
    return &s->steps[s->num_steps++];
}

static int add_split (struct splitter *s, const char *pattern, bool literal,
                      enum behavior behavior, bool invert, const struct json_place *place,
                      struct mg_error *err)
{
    struct mg_error why = { .text = "" };
    struct step *step = add_step (s, SPLIT, place, err);

    if (!step)
        return -1;
    step->behavior = behavior;
    step->invert = invert;
    step->regex = regex_create_json (pattern, literal, &why);
    if (!step->regex) {
        int saved_errno = errno;

        json_place_error (place, err, "%s", why.text);
        return errno = saved_errno, -1;
    }
    return 0;
}

static int read_behavior (const struct json_place *place, const json_t *value,
                          enum behavior *behavior, struct mg_error *err)
{
    const struct json_place at = json_place_key (place, "behavior");
    char q[JSON_PLACE_QUOTE];
    const char *name = NULL;
    int i = 0;

    if (json_place_string (place, value, "behavior", &name, err) < 0)
        return -1;
    if (!name)
        return 0;
    while (behavior_names[i] && strcmp (behavior_names[i], name) != 0)
        i++;
    if (!behavior_names[i])
        return json_place_error (&at, err, "\"%s\" is unknown, want Removed, Isolated, "
                                 "MergedWithPrevious, MergedWithNext or Contiguous",
                                 json_place_quote (q, name, strlen (name)));
    *behavior = (enum behavior)i;
    return 0;
}

static int read_split (struct splitter *s, const struct json_place *place,
                       const json_t *value, struct mg_error *err)
{
    const struct json_place at = json_place_key (place, "pattern");
    const json_t *pattern = json_object_get (value, "pattern");
    const char *literal = NULL, *regex = NULL;
    enum behavior behavior = REMOVED;
    bool invert = false;

    if (json_place_string (&at, pattern, "String", &literal, err) < 0
        || json_place_string (&at, pattern, "Regex", &regex, err) < 0
        || read_behavior (place, value, &behavior, err) < 0
        || json_place_bool (place, value, "invert", &invert, err) < 0)
        return -1;
    if ((!literal && !regex) || (literal && !*literal))
        return json_place_error (&at, err, "want {\"String\": \"...\"}, not empty, or "
                                 "{\"Regex\": \"...\"}");
    return add_split (s, literal ? literal : regex, literal != NULL, behavior, invert, &at,
                      err);
}

static int read_byte_level (struct splitter *s, const struct json_place *place,
                            const json_t *value, struct mg_error *err)
{
    /* OpenAI's GPT-2 encoder, 2019 */
    static const char gpt2[] = "'(?:[stmd]|re|ve|ll)| ?\\p{L}+| ?\\p{N}+"
                               "| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    bool prefix = true, regex = true;

    if (json_place_bool (place, value, "add_prefix_space", &prefix, err) < 0
        || json_place_bool (place, value, "use_regex", &regex, err) < 0)
        return -1;
    if (s->byte_level)
        return json_place_error (place, err, "a second ByteLevel is not supported");
    s->byte_level = true;
    if (prefix && !add_step (s, PREFIX, place, err))
        return -1;
    if (regex && add_split (s, gpt2, false, ISOLATED, false, place, err) < 0)
        return -1;
    return add_step (s, MAP, place, err) ? 0 : -1;
}

static int read_scheme (const struct json_place *place, const json_t *value,
                        enum scheme *scheme, struct mg_error *err)
{
    const struct json_place at = json_place_key (place, "prepend_scheme");
    bool prefix = true;
    const char *name = NULL;

    if (json_place_bool (place, value, "add_prefix_space", &prefix, err) < 0
        || json_place_string (place, value, "prepend_scheme", &name, err) < 0)
        return -1;
    if (!name)
        *scheme = prefix ? ALWAYS : NEVER;
    else if (strcmp (name, "always") == 0)
        *scheme = ALWAYS;
    else if (strcmp (name, "first") == 0)
        *scheme = FIRST;
    else if (strcmp (name, "never") == 0)
        *scheme = NEVER;
    else
        return json_place_error (&at, err, "want \"always\", \"first\" or \"never\"");
    return 0;
}

static int read_metaspace (struct splitter *s, const struct json_place *place,
                           const json_t *value, struct mg_error *err)
{
    const struct json_place at = json_place_key (place, "replacement");
    struct step *step = add_step (s, METASPACE, place, err);
    const char *space = "\xe2\x96\x81";
    bool split = true;

    if (!step || json_place_string (place, value, "replacement", &space, err) < 0
        || json_place_bool (place, value, "split", &split, err) < 0
        || read_scheme (place, value, &step->scheme, err) < 0)
        return -1;
    if (!*space || utf8_size (space, strlen (space)) != strlen (space))
        return json_place_error (&at, err, "want one character");
    strcpy (step->space, space);
    return split ? add_split (s, space, true, WITH_NEXT, false, place, err) : 0;
}

static int read_simple (struct splitter *s, const char *type,
                        const struct json_place *place, const json_t *value,
                        struct mg_error *err)
{
    char q[JSON_PLACE_QUOTE];

    if (strcmp (type, "Digits") == 0) {
        bool individual = false;

        if (json_place_bool (place, value, "individual_digits", &individual, err) < 0)
            return -1;
        return add_split (s, "\\p{N}", false, individual ? ISOLATED : CONTIGUOUS, false,
                          place, err);
    }
    if (strcmp (type, "Punctuation") == 0) {
        enum behavior behavior = ISOLATED;

        if (read_behavior (place, value, &behavior, err) < 0)
            return -1;
        return add_split (s, "[!-/:-@\\[-`{-~\\p{P}]", false, behavior, false, place, err);
    }
    if (strcmp (type, "Whitespace") == 0)
        return add_split (s, "[" REGEX_RUST_WORD "]+|[^" REGEX_RUST_WORD "\\s]+", false, REMOVED,
                          true, place, err);
    if (strcmp (type, "WhitespaceSplit") == 0)
        return add_split (s, "\\s", false, REMOVED, false, place, err);
    return json_place_error (place, err, "the pre-tokenizer \"%s\" is not supported, want "
                             "Split, ByteLevel, Digits, Punctuation, Whitespace, "
                             "WhitespaceSplit, Metaspace or Sequence",
                             json_place_quote (q, type, strlen (type)));
}

static int read_value (void *arg, const struct json_place *place, const json_t *value, int depth,
                       struct mg_error *err)
{
    struct splitter *s = arg;
    const char *type;

    if (json_place_type (place, value, &type, err) < 0)
        return -1;
    if (strcmp (type, "Split") == 0)
        return read_split (s, place, value, err);
    if (strcmp (type, "ByteLevel") == 0)
        return read_byte_level (s, place, value, err);
    if (strcmp (type, "Metaspace") == 0)
        return read_metaspace (s, place, value, err);
    if (strcmp (type, "Sequence") == 0)
        return json_place_sequence (place, value, "pretokenizers", depth, read_value, s, err);
    return read_simple (s, type, place, value, err);
}

struct splitter *splitter_create (const struct json_place *place, const json_t *value,
                                  struct mg_error *err)
{
    struct splitter *s;

    if (!(s = calloc (1, sizeof (*s)))) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    bytechars_fill (&s->bytechars);
    if (value && !json_is_null (value) && read_value (s, place, value, 0, err) < 0) {
        splitter_destroy (s);
        return NULL;
    }
    /* only steps that follow look at the characters that stand for bytes */
    if (s->num_steps > 0 && s->steps[s->num_steps - 1].kind == MAP)
        s->num_steps--;
    for (int i = 0; i < s->num_steps; i++)
        s->mapped = s->mapped || s->steps[i].kind == MAP;
    return s;
}

/* ---- running ---- */

static int run_steps (const struct run *run, int i, const char *text, size_t size,
                      size_t head, struct mg_error *err);

/* The pieces of a SPLIT: 'held' waits to be joined with what follows. */
struct pieces {
    const struct run *run;
    int next; /* step */
    const char *text;
    size_t head; /* of the text, see splitter_run() */
    enum behavior behavior;
    size_t from, to; /* held, nothing if they are equal */
    bool have;
    bool matched; /* the kind of the piece before */
};

static int flush (struct pieces *p, struct mg_error *err)
{
    size_t from = p->from, size = p->to - p->from;

    p->have = false;
    if (size == 0)
        return 0;
    return run_steps (p->run, p->next, p->text + from, size,
                      p->head > from ? p->head - from : 0, err);
}

static int add_piece (struct pieces *p, size_t from, size_t to, bool matched,
                      struct mg_error *err)
{
    bool join = false;

    switch (p->behavior) {
    case REMOVED:
        if (matched)
            return 0;
        break;
    case ISOLATED:
        break;
    case WITH_PREVIOUS:
        join = p->have && matched && !p->matched;
        break;
    case WITH_NEXT:
        join = p->have && !matched && p->matched;
        break;
    case CONTIGUOUS:
        join = p->have && matched == p->matched;
        break;
    }
    p->matched = matched;
    if (join) {
        p->to = to;
        return 0;
    }
    if (p->have && flush (p, err) < 0)
        return -1;
    p->from = from;
    p->to = to;
    p->have = true;
    return 0;
}

static int run_split (const struct run *run, int i, const char *text, size_t size,
                      size_t head, struct mg_error *err)
{
    const struct step *step = &run->splitter->steps[i];
    struct pieces p = { .run = run, .next = i + 1, .text = text, .head = head,
                        .behavior = step->behavior };
    struct regex_walk walk = { 0 };
    size_t done = 0;
    int rc;

    while ((rc = regex_next (step->regex, run->scratch->regex, text, size, &walk, err)) > 0) {
        if (walk.from > done && add_piece (&p, done, walk.from, step->invert, err) < 0)
            return -1;
        if (add_piece (&p, walk.from, walk.to, !step->invert, err) < 0)
            return -1;
        done = walk.to;
    }
    if (rc < 0 || (done < size && add_piece (&p, done, size, step->invert, err) < 0))
        return -1;
    return p.have ? flush (&p, err) : 0;
}

static int run_prefix (const struct run *run, int i, const char *text, size_t size,
                       size_t head, struct mg_error *err)
{
    struct text_buffer *out = &run->scratch->buffers[i];

    if (text[0] == ' ')
        return run_steps (run, i + 1, text, size, head, err);
    out->size = 0;
    if (text_buffer_append (out, " ", 1, err) < 0
        || text_buffer_append (out, text, size, err) < 0)
        return -1;
    return run_steps (run, i + 1, out->data, out->size, head + (head > 0), err);
}

/* Write the characters that stand for bytes.  A surrogate for a stray byte counts as that byte. */
static int run_map (const struct run *run, int i, const char *text, size_t size,
                    size_t head, struct mg_error *err)
{
    struct text_buffer *out = &run->scratch->buffers[i];
    size_t mapped = 0; /* bytes of the head in 'out' */

    out->size = 0;
    if (text_buffer_reserve (out, BYTECHARS_SIZE * size, err) < 0)
        return -1;
    for (size_t at = 0; at < size;) {
        int stray = utf8_stray_at (text + at, size - at);
        char byte = stray >= 0 ? (char)stray : text[at];

        out->size += bytechars_encode (&run->splitter->bytechars, &byte, 1,
                                       out->data + out->size);
        at += stray >= 0 ? UTF8_STRAY_SIZE : 1;
        mapped = at <= head ? out->size : mapped;
    }
    return run_steps (run, i + 1, out->data, out->size, mapped, err);
}

/* Append text[0, size) with the step's character for each blank. */
static int append_spaced (const struct step *step, const char *text, size_t size,
                          struct text_buffer *out, struct mg_error *err)
{
    const char *end = text + size;

    while (text < end) {
        const char *blank = memchr (text, ' ', (size_t)(end - text));
        size_t part = (size_t)((blank ? blank : end) - text);

        if (text_buffer_append (out, text, part, err) < 0
            || (blank && text_buffer_append (out, step->space, strlen (step->space), err) < 0))
            return -1;
        text += part + 1;
    }
    return 0;
}

static int run_metaspace (const struct run *run, int i, const char *text, size_t size,
                          size_t head, struct mg_error *err)
{
    const struct step *step = &run->splitter->steps[i];
    struct text_buffer *out = &run->scratch->buffers[i];
    const size_t n = strlen (step->space);
    size_t mapped; /* bytes of the head in 'out' */
    bool starts = text[0] == ' ' || (size >= n && memcmp (text, step->space, n) == 0);

    out->size = 0;
    if (!starts && (step->scheme == ALWAYS || (step->scheme == FIRST && head > 0))
        && text_buffer_append (out, step->space, n, err) < 0)
        return -1;
    head = head < size ? head : size;
    if (append_spaced (step, text, head, out, err) < 0)
        return -1;
    mapped = head > 0 ? out->size : 0;
    if (append_spaced (step, text + head, size - head, out, err) < 0)
        return -1;
    return run_steps (run, i + 1, out->data, out->size, mapped, err);
}

static int run_steps (const struct run *run, int i, const char *text, size_t size,
                      size_t head, struct mg_error *err)
{
    if (i == run->splitter->num_steps)
        return run->word (run->arg, text, size, err);
    switch (run->splitter->steps[i].kind) {
    case SPLIT:
        return run_split (run, i, text, size, head, err);
    case PREFIX:
        return run_prefix (run, i, text, size, head, err);
    case MAP:
        return run_map (run, i, text, size, head, err);
    case METASPACE:
        return run_metaspace (run, i, text, size, head, err);
    }
    return 0;
}

int splitter_run (const struct splitter *splitter, struct splitter_scratch *scratch,
                  const char *text, size_t size, size_t head, splitter_word_f *word,
                  void *arg, struct mg_error *err)
{
    const struct run run = { splitter, scratch, word, arg };

    return size > 0 ? run_steps (&run, 0, text, size, head, err) : 0;
}
