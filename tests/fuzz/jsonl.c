/* jsonl.c - input of megatron data tokenize: lines of JSON, and plain texts cut in all ways
 *
 * Input: the file.
 */

#include <stdlib.h>
#include <string.h>

#include "cmd/data/input.h"
#include "tests/fuzz/fuzz.h"

/* What has come of a text. */
struct got {
    const uint8_t *want; /* NULL: anything */
    size_t at, size;
    size_t open; /* bytes of the sequence under way */
    size_t documents, sequences;
};

static int take_text (void *arg, size_t key, const char *text, size_t size,
                      struct mg_error *err)
{
    struct got *got = arg;

    (void)err;
    fuzz_check (key < 2, "key %zu", key);
    fuzz_check (!got->want
                    || (size <= got->size - got->at
                        && memcmp (text, got->want + got->at, size) == 0),
                "another text");
    got->at += size;
    return 0;
}

static int end_sequence (void *arg, size_t key, struct mg_error *err)
{
    (void)key, (void)err;
    ((struct got *)arg)->sequences++;
    return 0;
}

static int end_document (void *arg, size_t key, struct mg_error *err)
{
    (void)key, (void)err;
    ((struct got *)arg)->documents++;
    return 0;
}

static int take_line (void *arg, const char *path, size_t number, const char *line,
                      size_t size, struct mg_error *err)
{
    static char text[] = "text", title[] = "title";
    char *const keys[] = { text, title };
    char *copy = fuzz_copy ((struct fuzz_input){ (const uint8_t *)line, size });

    (void)path;
    fuzz_check (number >= 1, "line %zu", number);
    input_parse_line (copy, size, keys, 1, arg, err);
    input_parse_line (copy, size, keys, 2, arg, err);
    free (copy);
    return 0;
}

static void run (const uint8_t *data, size_t size)
{
    const char *path = fuzz_file ("input", (struct fuzz_input){ data, size });
    struct got got = { 0 };
    struct input_sink sink = { take_text, end_sequence, end_document, &got };

    input_read_lines (path, take_line, &sink, NULL);
    for (int cut = INPUT_CUT_BLANK_LINE; cut <= INPUT_CUT_NONE; cut++) {
        got = (struct got){ .want = data, .size = size };
        fuzz_check (input_read_text (path, (enum input_cut)cut, &sink, NULL) == 0,
                    "a plain text is refused");
        fuzz_check (got.at == size, "%zu bytes of %zu", got.at, size);
        fuzz_check (got.documents == got.sequences, "documents of several sequences");
        fuzz_check (cut != INPUT_CUT_NONE || got.documents <= 1, "%zu documents",
                    got.documents);
    }
}

const struct fuzz_target fuzz_jsonl = { "jsonl", run };
