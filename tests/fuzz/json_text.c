/* json_text.c - JSON as Python reads it: what jansson reads too is the same value, and the member
 * that is kept of a text is that of the whole
 *
 * Input: flags, then the text.
 */

#include <stdlib.h>
#include <string.h>

#include "libcore/text/json_text.h"
#include "tests/fuzz/fuzz.h"

static void check_member (const char *text, size_t size, const json_t *whole)
{
    static char key[] = "text";
    char *const keys[] = { key };
    struct json_text_fault fault;
    json_t *value, *other;

    if (json_text_members (text, size, keys, 1, &value, &other, &fault) < 0) {
        fuzz_check (fault.at <= size && fault.line >= 1, "a fault at %zu", fault.at);
        return;
    }
    fuzz_check (whole, "members of a text that is refused");
    fuzz_check (json_is_object (whole) == !other, "another type");
    fuzz_check (json_is_object (whole) || !value, "a member of what has none");
    if (json_is_object (whole))
        fuzz_check (value ? json_equal (value, json_object_get (whole, key))
                          : !json_object_get (whole, key), "another member");
    json_decref (value);
    json_decref (other);
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    unsigned flags = (unsigned)fuzz_number (&in, 1) % 8;
    char *text = fuzz_copy (in);
    struct json_text_fault fault;
    json_t *ours = json_text_parse (text, in.left, flags, &fault);
    json_t *theirs = json_loadb (text, in.left, JSON_DECODE_ANY | JSON_ALLOW_NUL
                                 | (flags & JSON_TEXT_UNIQUE ? JSON_REJECT_DUPLICATES : 0), NULL);

    fuzz_check (ours || (fault.at <= in.left && fault.line >= 1 && *fault.what),
                "a fault at %zu of %zu", fault.at, in.left);
    /* jansson takes a byte of 0 behind a value for its end, and no U+0000 in a key */
    if (theirs && !memchr (text, 0, in.left) && !memmem (text, in.left, "\\u0000", 6))
        fuzz_check (ours && json_equal (ours, theirs), "not what jansson reads: %s", fault.what);
    json_decref (theirs);
    json_decref (ours);
    if (flags == 0) {
        ours = json_text_parse (text, in.left, 0, &fault);
        check_member (text, in.left, ours);
        json_decref (ours);
    }
    free (text);
}

const struct fuzz_target fuzz_json_text = { "json_text", run };
