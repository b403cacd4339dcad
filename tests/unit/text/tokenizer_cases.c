/* tokenizer_cases.c - tiny tokenizers of tests/golden/tokenizers/cases.jsonl: the library's ids */

#include <errno.h>

#include "libcore/text/normal_form.h"
#include "libcore/text/tokenizer.h"
#include "tests/unit/data/support.h"

static char path[200];

static struct tokenizer *make (const char *text, struct mg_error *err)
{
    const struct tokenizer_files files = { .model = path };
    FILE *f = fopen (path, "w");

    if (!f || fputs (text, f) == EOF || fclose (f) != 0)
        bail_out ("cannot write %s", path);
    return tokenizer_create ("HuggingFaceTokenizer", &files, err);
}

static bool same_ids (struct tokenizer *t, const json_t *text, const json_t *ids)
{
    struct token_buffer out = { NULL, 0, 0 };
    bool same = tokenizer_encode (t, json_string_value (text), json_string_length (text), &out,
                                  NULL) == 0 && out.count == json_array_size (ids);

    for (size_t i = 0; same && i < out.count; i++)
        same = out.ids[i] == json_integer_value (json_array_get (ids, i));
    if (!same) {
        for (size_t i = 0; i < out.count; i++)
            diag ("id %d", out.ids[i]);
    }
    free (out.ids);
    return same;
}

/* What a text is for a message. */
static const char *show (const json_t *text)
{
    static char shown[60];
    char *dump = json_dumps (text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);

    snprintf (shown, sizeof (shown), "%s", dump);
    free (dump);
    return shown;
}

static void test_case (size_t number, const json_t *line)
{
    const json_t *texts = json_object_get (line, "texts"), *pair;
    struct mg_error err = { .text = "" };
    struct tokenizer *t = make (json_string_value (json_object_get (line, "file")), &err);
    size_t i;

    if (!t && normal_form_check (NULL) < 0) {
        skip (1, "%s", err.text);
        return;
    }
    ok (t != NULL, "case %zu %s", number, err.text);
    json_array_foreach (texts, i, pair) {
        ok (t && same_ids (t, json_array_get (pair, 0), json_array_get (pair, 1)),
            "case %zu: %s", number, show (json_array_get (pair, 0)));
    }
    tokenizer_destroy (t);
}

int main (void)
{
    char golden[600], *line = NULL, folder[150];
    size_t room = 0, number = 0;
    struct mg_error err;
    FILE *f;

    if (!getenv ("MG_SRCDIR"))
        bail_out ("MG_SRCDIR is not set");
    folder_create (folder, sizeof (folder));
    snprintf (path, sizeof (path), "%s/tokenizer.json", folder);
    if (!make ("{}", &err) && errno == ENOTSUP) {
        skip (1, "%s", err.text);
        folder_remove (folder);
        return done_testing ();
    }
    snprintf (golden, sizeof (golden), "%s/tests/golden/tokenizers/cases.jsonl",
              getenv ("MG_SRCDIR"));
    if (!(f = fopen (golden, "r")))
        bail_out ("cannot open %s", golden);
    while (getline (&line, &room, f) > 0) {
        json_t *value = json_loads (line, JSON_ALLOW_NUL, NULL);

        if (!value)
            bail_out ("%s:%zu: no JSON", golden, number + 1);
        test_case (++number, value);
        json_decref (value);
    }
    free (line);
    fclose (f);
    folder_remove (folder);
    return done_testing ();
}
