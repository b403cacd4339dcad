/* tokenizer_hf.c - tokenizer.json: the ids of its library, any bytes, faults of the file
 *
 * tests/golden/tokenizers has files and ids, and the program that made both.
 */

#include <errno.h>
#include <stdint.h>

#include "libcore/text/normal_form.h"
#include "libcore/text/tokenizer.h"
#include "tests/unit/data/support.h"

static char folder[200];

static struct tokenizer *open_path (const char *path, bool special, struct mg_error *err)
{
    const struct tokenizer_files files = { .model = path, .no_special_tokens = !special };

    return tokenizer_create ("HuggingFaceTokenizer", &files, err);
}

static struct tokenizer *open_golden (const char *name, struct mg_error *err)
{
    char path[600];

    snprintf (path, sizeof (path), "%s/tests/golden/tokenizers/%s.json", getenv ("MG_SRCDIR"),
              name);
    return open_path (path, true, err);
}

/* ---- the library's ids ---- */

/* An empty text has no ids here; the library puts its tokens around nothing. */
static bool same_ids (struct tokenizer *t, const char *text, const json_t *ids)
{
    struct token_buffer out = { NULL, 0, 0 };
    size_t n = *text ? json_array_size (ids) : 0;
    bool same = tokenizer_encode (t, text, strlen (text), &out, NULL) == 0 && out.count == n;

    for (size_t i = 0; same && i < n; i++)
        same = out.ids[i] == json_integer_value (json_array_get (ids, i));
    free (out.ids);
    return same;
}

/* One line of ids.jsonl; '*t' is the tokenizer of the line before, whose name is 'file'. */
static void test_line (const json_t *line, struct tokenizer **t, char *file, size_t size)
{
    const char *name = json_string_value (json_object_get (line, "file"));
    const char *text = json_string_value (json_object_get (line, "text"));
    struct mg_error err = { .text = "" };

    if (strcmp (name, file) != 0) {
        tokenizer_destroy (*t);
        snprintf (file, size, "%s", name);
        *t = open_golden (name, &err);
        if (!*t && normal_form_check (NULL) < 0)
            skip (1, "%s", err.text);
        else
            ok (*t != NULL, "%s: %s", name, err.text);
    }
    for (int turn = 0; *t && turn < 2; turn++) /* the second from what it remembers */
        ok (same_ids (*t, text, json_object_get (line, "ids")), "%s: \"%.30s\"", name, text);
}

static void test_golden (void)
{
    struct tokenizer *t = NULL;
    char path[600], line[1 << 16], file[60] = "";
    FILE *f;

    snprintf (path, sizeof (path), "%s/tests/golden/tokenizers/ids.jsonl",
              getenv ("MG_SRCDIR"));
    if (!(f = fopen (path, "r")))
        bail_out ("cannot open %s", path);
    while (fgets (line, sizeof (line), f)) {
        json_t *value = json_loads (line, 0, NULL);

        if (!value)
            bail_out ("%s: no JSON", path);
        test_line (value, &t, file, sizeof (file));
        json_decref (value);
    }
    fclose (f);
    tokenizer_destroy (t);
}

/* ---- any bytes, long words ---- */

static const char *const strays[] = {
    "\xff", "a\xff", "\xc3", "the \xe2\x82 cat", "\xed\xa0\x80", "\xed\xb2\x80", "\xc0\x80",
    "\xf4\x90\x80\x80", "<mask\xfe>", "\xff<mask>\xff", " \xff ", "1\xff" "2",
};

/* Tokens of bytes give every byte back, stray ones too. */
static void test_bytes (const char *name)
{
    struct tokenizer *t = open_golden (name, NULL);
    struct tokenizer *other = t ? tokenizer_fork (t, NULL) : NULL;

    ok (t && other, "%s, and one for another thread", name);
    for (size_t i = 0; other && i < COUNT (strays); i++) {
        struct token_buffer out = { NULL, 0, 0 };
        char text[100] = "";
        size_t n = 0;

        ok (tokenizer_encode (other, strays[i], strlen (strays[i]), &out, NULL) == 0,
            "%s: stray bytes %zu", name, i);
        for (size_t j = 0; j < out.count && n < sizeof (text); j++) {
            size_t size;
            const char *token = tokenizer_token (t, out.ids[j], &size);

            memcpy (text + n, token, size);
            n += size;
        }
        ok (n == strlen (strays[i]) && memcmp (text, strays[i], n) == 0, "come back");
        free (out.ids);
    }
    tokenizer_destroy (other);
    tokenizer_destroy (t);
}

/* With byte_fallback a stray byte is the token of this byte: <0x00> is id 3. */
static void test_fallback (void)
{
    struct tokenizer *t = open_golden ("llama2", NULL);
    struct token_buffer out = { NULL, 0, 0 };

    ok (t && tokenizer_encode (t, "\xff\xfe", 2, &out, NULL) == 0 && out.count == 4
        && out.ids[2] == 3 + 0xff && out.ids[3] == 3 + 0xfe, "stray bytes by fallback");
    free (out.ids);
    tokenizer_destroy (t);
}

/* A megabyte that is one word ends, and its tokens have all of it. */
static void test_long_word (const char *name, char letter)
{
    enum { SIZE = 1 << 20 };
    struct tokenizer *t = open_golden (name, NULL);
    struct token_buffer out = { NULL, 0, 0 };
    char *text = malloc (SIZE);
    size_t total = 0;

    memset (text, letter, SIZE);
    ok (t && tokenizer_encode (t, text, SIZE, &out, NULL) == 0, "%s: a long word", name);
    for (size_t i = 0; i < out.count; i++) {
        size_t size;

        tokenizer_token (t, out.ids[i], &size);
        total += size;
    }
    ok (total >= SIZE && total < SIZE + 8, "%zu tokens of %zu bytes", out.count, total);
    free (text);
    free (out.ids);
    tokenizer_destroy (t);
}

/* ---- files ---- */

static void write_file (const char *name, const char *text)
{
    char path[300];
    FILE *f;

    snprintf (path, sizeof (path), "%s/%s", folder, name);
    if (!(f = fopen (path, "w")) || fputs (text, f) == EOF || fclose (f) != 0)
        bail_out ("cannot write %s", path);
}

#define MODEL \
    "{\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"</s>\": 1, \"aa\": 2, \"<unk>\": 3}, " \
    "\"merges\": [\"a a\"]}"

/* A vocabulary with holes: its three tokens make a new one the fourth. */
#define HOLES \
    "{\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"</s>\": 1, \"b\": 9}, \"merges\": []}"

#define ADDED_TOKEN(id, content, flags) \
    "{\"id\": " id ", \"content\": \"" content "\"" flags "}"

#define ADDED_TOKENS(model, id, content, id2, content2) \
    "{\"model\": " model ", \"added_tokens\": [" ADDED_TOKEN (id, content, "") ", " \
    ADDED_TOKEN (id2, content2, "") "]}"

static const struct {
    const char *file, *text;
} faults[] = {
    { "", "tokenizer.json:1: " },
    { "[]", "want a JSON object" },
    { "{\"model\": {\"type\": \"Unigram\"}}",
      "model.type: the model \"Unigram\" is not" },
    { "{\"model\": 1}", "model: want an object" },
    { "{\"model\": {\"type\": \"BPE\"}}", "model.vocab: want an object" },
    { "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}}}",
      "model.vocab.a: the id is -1" },
    { "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 99999999}}}",
      "want 0 to 16777215" },
    { "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 9999999}}}",
      "of 1 tokens" },
    { "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": \"x\"}}}",
      "no whole number" },
    { "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 0}}}",
      "the id 0 too" },
    { "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a\"]}}",
      "model.merges[0]: want two tokens" },
    { "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [[\"a\", \"b\"]]}}",
      "model.merges[0]: \"b\" is no token" },
    { "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a a\"]}}",
      "\"aa\", which it makes, is no token" },
    { "{\"model\": {\"type\": \"BPE\", \"dropout\": 0.5}}", "model.dropout: random" },
    { "{\"model\": {\"type\": \"BPE\", \"end_of_word_suffix\": \"</w>\"}}",
      "model.end_of_word_suffix: \"</w>\" is not supported" },
    { "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"unk_token\": "
      "\"u\"}}", "model.unk_token: \"u\" is no token" },
    { "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}",
      "no token that ends a document" },
    { "{\"normalizer\": {\"type\": \"Precompiled\"}}",
      "normalizer: the normalizer \"Prec" },
    { "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Replace\"}]}}",
      "normalizer.normalizers[0].pattern: want" },
    { "{\"normalizer\": {}}", "normalizer: no \"type\"" },
    { "{\"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}}",
      "pre_tokenizer: the pre-tokenizer" },
    { "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a&&]\"}}}",
      "pre_tokenizer.pattern: the regular expression has an empty class or intersection at" },
    { "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"a{1,2}+\"}}}",
      "a repeat of a count" },
    { "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}}}",
      "the regular expression is not supported: " },
    { "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, "
      "\"behavior\": \"No\"}}", "pre_tokenizer.behavior: \"No\" is unknown" },
    { "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"use_regex\": 1}}",
      "pre_tokenizer.use_regex: want true or false" },
    { "{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"prepend_scheme\": \"last\"}}",
      "prepend_scheme: want" },
    { "{\"model\": " MODEL ", \"post_processor\": {\"type\": \"X\"}}",
      "post_processor: the post-processor \"X\" is not supported" },
    { "{\"model\": " MODEL ", \"post_processor\": {\"type\": \"TemplateProcessing\", "
      "\"single\": [{\"SpecialToken\": {\"id\": \"q\"}}]}}", "single[0]: \"q\" has no ids" },
    { "{\"model\": " MODEL ", \"decoder\": {\"type\": \"CTC\"}}",
      "decoder: the decoder \"CTC\"" },
    { "{\"model\": " MODEL ", \"added_tokens\": [{\"id\": 7, \"content\": \"a\"}]}",
      "added_tokens[0].id: 7, but \"a\" is 0 in model.vocab" },
    { "{\"model\": " MODEL ", \"added_tokens\": [{\"id\": 7}]}",
      "added_tokens[0].content: want" },
    { "{\"model\": " MODEL ", \"added_tokens\": [{\"id\": 9000000, \"content\": \"x\"}]}",
      "added_tokens[0].id: \"x\" has id 9000000, but the library numbers it 4" },
    { ADDED_TOKENS (MODEL, "4", "<x>", "6", "<y>"),
      "added_tokens[1].id: \"<y>\" has id 6, but the library numbers it 5" },
    { ADDED_TOKENS (MODEL, "4", "<x>", "4", "<y>"),
      "added_tokens[1].id: \"<y>\" has id 4, but the library numbers it 5" },
    { ADDED_TOKENS (MODEL, "4", "<x>", "5", "<x>"),
      "added_tokens[1].id: \"<x>\" has id 5, but the library numbers it 4" },
    { ADDED_TOKENS (MODEL, "2", "<x>", "4", "<y>"),
      "added_tokens[0].id: \"<x>\" has id 2, but the library numbers it 4" },
    { ADDED_TOKENS (HOLES, "9", "b", "10", "<y>"),
      "added_tokens[1].id: \"<y>\" has id 10, but the library numbers it 3" },
};

static void test_faults (void)
{
    for (size_t i = 0; i < COUNT (faults); i++) {
        struct mg_error err = { .text = "" };
        struct tokenizer *t;

        write_file ("tokenizer.json", faults[i].file);
        errno = 0;
        t = open_path (folder, true, &err);
        ok (!t && errno == EINVAL && strstr (err.text, faults[i].text)
            && !strchr (err.text, '\n'), "case %zu: %s", i, err.text);
        tokenizer_destroy (t);
    }
}

/* The ids of a text by a file are 'n' equal to 'want'. */
static void are_ids (const char *file, const char *text, const int32_t *want, size_t n)
{
    struct token_buffer out = { NULL, 0, 0 };
    struct mg_error err = { .text = "" };
    struct tokenizer *t;

    write_file ("tokenizer.json", file);
    t = open_path (folder, true, &err);
    ok (t && tokenizer_encode (t, text, strlen (text), &out, &err) == 0, "%s", err.text);
    ok (out.count == n && memcmp (out.ids, want, n * sizeof (*want)) == 0, "%zu ids, want %zu",
        out.count, n);
    free (out.ids);
    tokenizer_destroy (t);
}

/* Ids that the library gives too, and tokens of white space that another has taken. */
static void test_added (void)
{
    static const int32_t twice[] = { 4, 5, 0, 4 }, holes[] = { 9, 3, 4 };
    static const int32_t once[] = { 0, 4, 0 }, both[] = { 0, 4, 4, 0 };
    static const int32_t joined[] = { 2, 4, 0 }, pieces[] = { 2, 2 };

    are_ids (ADDED_TOKENS (MODEL, "4", "<x>", "5", "<y>"), "<x><y>a<x>", twice, 4);
    are_ids (ADDED_TOKENS (HOLES, "3", "<x>", "4", "<y>"), "b<x><y>", holes, 3);
    are_ids (ADDED_TOKENS (HOLES, "3", "<x>", "3", "<x>"), "b<x>", holes, 2);
    are_ids ("{\"model\": " MODEL ", \"added_tokens\": ["
             ADDED_TOKEN ("4", "\\n", ", \"lstrip\": true, \"rstrip\": true") "]}",
             "a\n\na", once, 3);
    are_ids ("{\"model\": " MODEL ", \"added_tokens\": ["
             ADDED_TOKEN ("4", "\\n", ", \"rstrip\": true") "]}", "a\n\na", both, 4);
    are_ids ("{\"model\": " MODEL ", \"added_tokens\": ["
             ADDED_TOKEN ("4", "<x>", ", \"single_word\": true") "]}",
             "a<x>a <x> \xe2\x80\x8d<x>a", joined, 3); /* a joiner is part of a word */
    are_ids ("{\"model\": " MODEL ", \"pre_tokenizer\": {\"type\": \"Whitespace\"}}",
             "aa a\xe2\x80\x8d" "a", pieces, 2);
}

/* Tokens that a file marks as special, by the tokenizer and its fork. */
static void test_special (void)
{
    static const char want[] = "100001";
    struct tokenizer *t[2] = { NULL, NULL };
    struct mg_error err = { .text = "" };

    write_file ("tokenizer.json",
                "{\"model\": " MODEL ", \"added_tokens\": ["
                "{\"id\": 4, \"content\": \"<x>\", \"special\": false}, "
                "{\"id\": 5, \"content\": \"<y>\", \"special\": true}, "
                "{\"id\": 0, \"content\": \"a\", \"special\": true}]}");
    t[0] = open_path (folder, true, &err);
    if (t[0])
        t[1] = tokenizer_fork (t[0], &err);
    for (int i = 0; i < 2 && t[i]; i++) {
        for (int32_t id = 0; id < 6; id++)
            is_int (tokenizer_is_special (t[i], id), want[id] == '1', "id %d", (int)id);
    }
    ok (t[0] && t[1], "a file with special tokens: %s", err.text);
    tokenizer_destroy (t[1]);
    tokenizer_destroy (t[0]);
    t[0] = tokenizer_create ("ByteLevel", NULL, &err);
    ok (t[0] && tokenizer_is_special (t[0], 256) && !tokenizer_is_special (t[0], 0),
        "the end of a document");
    tokenizer_destroy (t[0]);
}

static void is_eod (int want, const char *what)
{
    struct mg_error err = { .text = "" };
    struct tokenizer *t = open_path (folder, true, &err);

    is_int (t ? tokenizer_eod (t) : -1, want, "%s %s", what, err.text);
    tokenizer_destroy (t);
}

/* Which token ends a document. */
static void test_eod (void)
{
    struct mg_error err = { .text = "" };

    write_file ("tokenizer.json", "{\"model\": " MODEL "}");
    is_eod (1, "a usual name");
    write_file ("special_tokens_map.json", "{\"eos_token\": \"aa\"}");
    is_eod (2, "special_tokens_map.json");
    write_file ("tokenizer_config.json", "{\"eos_token\": null}");
    is_eod (2, "an eos_token of null is none");
    write_file ("tokenizer_config.json", "{\"eos_token\": {\"content\": \"<unk>\"}}");
    is_eod (3, "tokenizer_config.json, before the other");
    write_file ("tokenizer_config.json", "{\"eos_token\": \"zz\"}");
    ok (!open_path (folder, true, &err) && strstr (err.text, "no token \"zz\""), "%s", err.text);
    write_file ("tokenizer_config.json", "{\"eos_token\": 7}");
    ok (!open_path (folder, true, &err) && strstr (err.text, "eos_token: want a string"), "%s",
        err.text);
}

/* The tokens around a text can be left out. */
static void test_around (void)
{
    char path[600];
    struct tokenizer *t;
    struct token_buffer out = { NULL, 0, 0 };

    snprintf (path, sizeof (path), "%s/tests/golden/tokenizers/mistral.json",
              getenv ("MG_SRCDIR"));
    for (int special = 0; special < 2; special++) {
        out.count = 0;
        t = open_path (path, special, NULL);
        ok (t && tokenizer_encode (t, "the", 3, &out, NULL) == 0 && out.count > 0
            && (out.ids[0] == 1) == special, "%s <s>", special ? "with" : "without");
        ok (t && tokenizer_encode (t, "", 0, &out, NULL) == 0, "an empty text");
        tokenizer_destroy (t);
    }
    free (out.ids);
}

int main (void)
{
    struct mg_error err = { .text = "" };
    struct tokenizer *probe;

    if (!getenv ("MG_SRCDIR"))
        bail_out ("MG_SRCDIR is not set");
    errno = 0;
    if (!(probe = open_golden ("gpt2", &err)) && errno == ENOTSUP) {
        skip (1, "%s", err.text);
        return done_testing ();
    }
    tokenizer_destroy (probe);
    folder_create (folder, sizeof (folder));
    test_golden ();
    test_bytes ("gpt2");
    test_bytes ("falcon");
    test_fallback ();
    test_long_word ("gpt2", 'x');
    test_long_word ("gpt2", ' ');
    test_long_word ("llama3", ' ');
    test_long_word ("llama2", 'x');
    test_faults ();
    test_added ();
    test_special ();
    test_eod ();
    test_around ();
    folder_remove (folder);
    return done_testing ();
}
