/* tokenizer_growth.c - files that would make gigabytes of a byte, or that search for hours */

#include <errno.h>

#include "libcore/text/growth.h"
#include "libcore/text/tokenizer.h"
#include "tests/unit/data/support.h"

#define MODEL \
    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"q\": 0, \"</s>\": 1}, \"merges\": []}"
#define REPLACE \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"q\"}, \"content\": " \
    "\"qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq\"}"
#define FIVE REPLACE "," REPLACE "," REPLACE "," REPLACE "," REPLACE
#define SPLIT(regex) \
    "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"" regex "\"}, " \
    "\"behavior\": \"Isolated\"}"

static char path[200];

static struct tokenizer *make (const char *text, struct mg_error *err)
{
    const struct tokenizer_files files = { .model = path };
    FILE *f = fopen (path, "w");

    if (!f || fputs (text, f) == EOF || fclose (f) != 0)
        bail_out ("cannot write %s", path);
    return tokenizer_create ("HuggingFaceTokenizer", &files, err);
}

/* Encode 'size' times "q". */
static int encode (struct tokenizer *t, size_t size, size_t *count, struct mg_error *err)
{
    struct token_buffer out = { NULL, 0, 0 };
    char *text = malloc (size);
    int rc;

    memset (text, 'q', size);
    rc = tokenizer_encode (t, text, size, &out, err);
    *count = out.count;
    free (out.ids);
    free (text);
    return rc;
}

static void test_normalizer (void)
{
    struct mg_error err = { .text = "" };
    struct tokenizer *t = make ("{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [" FIVE
                                "]}, " MODEL "}", &err);
    size_t n;

    ok (t && encode (t, 4, &n, &err) < 0 && errno == EFBIG && n == 0
        && strstr (err.text, "more than 4352 bytes"), "five replacements: %s", err.text);
    tokenizer_destroy (t);
    t = make ("{\"normalizer\": " REPLACE ", " MODEL "}", &err);
    ok (t && encode (t, 10000, &n, &err) == 0 && n == 640000, "one of 64 times as many bytes");
    tokenizer_destroy (t);
}

static void test_decoder (void)
{
    struct mg_error err = { .text = "" };
    struct tokenizer *t = make ("{\"decoder\": {\"type\": \"Sequence\", \"decoders\": [" FIVE
                                "]}, " MODEL "}", &err);
    size_t size;

    ok (!t && errno == EFBIG && strstr (err.text, "decoder: a token becomes more than 4160 bytes"),
        "five replacements of the decoder: %s", err.text);
    t = make ("{\"decoder\": " REPLACE ", " MODEL "}", &err);
    ok (t && tokenizer_token (t, 0, &size) && size == 64, "one replacement");
    tokenizer_destroy (t);
}

static void test_added (void)
{
    struct mg_error err = { .text = "" };
    struct tokenizer *t = make ("{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [" FIVE
                                "]}, \"added_tokens\": [{\"id\": 2, \"content\": \"qq\", "
                                "\"normalized\": true}], " MODEL "}", &err);

    ok (!t && errno == EFBIG && strstr (err.text, "tokenizer.json: the normalizer"),
        "an added token: %s", err.text);
}

/* The count is of all pieces of a text: each has few steps for itself. */
static void test_search (void)
{
    struct mg_error err = { .text = "" };
    struct tokenizer *t = make ("{" SPLIT (".*?q.*?q.*?z|.") ", " MODEL "}", &err);
    size_t n;

    ok (t && encode (t, 50000, &n, &err) < 0 && errno == EIO
        && strstr (err.text, "too many steps"), "a search at each place: %s", err.text);
    ok (t && encode (t, 100, &n, &err) == 0 && n == 100, "the next text has its own steps");
    tokenizer_destroy (t);
}

int main (void)
{
    char folder[150];
    struct mg_error err;

    folder_create (folder, sizeof (folder));
    snprintf (path, sizeof (path), "%s/tokenizer.json", folder);
    if (!make ("{}", &err) && errno == ENOTSUP) {
        skip (1, "%s", err.text);
    } else {
        test_normalizer ();
        test_decoder ();
        test_added ();
        test_search ();
    }
    folder_remove (folder);
    return done_testing ();
}
