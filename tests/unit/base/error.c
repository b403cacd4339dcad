/* error.c - one line of text, cut and marked where it does not fit, errno kept */

#include <errno.h>
#include <string.h>

#include "megatron/error.h"
#include "tests/tap/tap.h"

static void test_set (void)
{
    struct mg_error err = { .text = "old" };

    errno = 0;
    is_int (mg_error_set (&err, ERANGE, "tp %d of %s", 3, "world"), -1, "set returns -1");
    is_int (errno, ERANGE, "and sets errno");
    is_str (err.text, "tp 3 of world", "and the text");

    errno = 0;
    is_int (mg_error_set (NULL, EINVAL, "nobody reads %d", 1), -1, "NULL is allowed");
    is_int (errno, EINVAL, "and errno is still set");

    mg_error_set (&err, EINVAL, "one");
    mg_error_set (&err, EINVAL, "<%s>", err.text);
    is_str (err.text, "<one>", "an argument may be the old text");
}

/* A text of exactly the room stays whole; one more is cut and marked. */
static void test_set_cut (void)
{
    static const struct {
        size_t len;
        bool cut;
    } cases[] = {
        { 0, false },
        { 1, false },
        { MG_ERROR_MAX - 2, false },
        { MG_ERROR_MAX - 1, false },
        { MG_ERROR_MAX, true },
        { MG_ERROR_MAX + 1, true },
        { 3 * MG_ERROR_MAX, true },
    };
    char text[4 * MG_ERROR_MAX];

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        size_t len = cases[i].len;
        size_t kept = cases[i].cut ? MG_ERROR_MAX - 1 : len;
        struct mg_error err;
        const char *mark;

        memset (text, 'x', len);
        memset (text, 'a', len < 9 ? len : 9); /* the first and the last bytes */
        memset (text + len - (len < 9 ? len : 9), 'z', len < 9 ? len : 9);
        text[len] = '\0';
        memset (&err, '!', sizeof (err));
        mg_error_set (&err, EINVAL, "%s", text);
        mark = strstr (err.text, "...");
        is_int (strnlen (err.text, MG_ERROR_MAX), kept, "length of a text of %zu", len);
        ok (cases[i].cut == (mark != NULL), "%s",
            cases[i].cut ? "the cut is marked" : "nothing is added");
        if (cases[i].cut)
            ok (strncmp (err.text, text, (size_t)(mark - err.text)) == 0
                    && mark - err.text > MG_ERROR_MAX / 3,
                "its beginning stays");
        if (cases[i].cut)
            is_str (mark + 3, text + len - strlen (mark + 3), "its end too");
        else
            is_str (err.text, text, "all of it stays");
    }
}

static void test_control (void)
{
    struct mg_error err;

    mg_error_set (&err, EINVAL, "\"%s\"", "a\nb\t\x1b[2Jc\x7f \xc3\xa9");
    is_str (err.text, "\"a?b??[2Jc? \xc3\xa9\"", "control characters are replaced");
    mg_error_prefix (&err, "%s", "x\r\n");
    ok (strncmp (err.text, "x??: \"a?b", 9) == 0, "in a prefix too");
}

/* A path as long as the system takes leaves the reason. */
static void test_long_path (void)
{
    char path[4096];
    struct mg_error err;

    memset (path, 'p', sizeof (path) - 1);
    path[sizeof (path) - 1] = '\0';
    mg_error_set (&err, ENOSPC, "cannot write %s: %s", path, strerror (ENOSPC));
    mg_error_prefix (&err, "--save-weights %s", path);
    ok (strncmp (err.text, "--save-weights ppp", 18) == 0, "what: %.40s", err.text);
    ok (strstr (err.text, "ppp: No space left on device"), "and why: %s",
        err.text + MG_ERROR_MAX - 60);
}

static void test_prefix (void)
{
    struct mg_error err;
    char text[MG_ERROR_MAX];

    mg_error_set (&err, ENOENT, "no such file");
    errno = ENOSPC;
    is_int (mg_error_prefix (&err, "shard %d", 7), -1, "prefix returns -1");
    is_int (errno, ENOSPC, "and keeps errno");
    is_str (err.text, "shard 7: no such file", "and goes in front");
    is_int (mg_error_prefix (NULL, "x"), -1, "NULL is allowed");
    is_int (errno, ENOSPC, "and keeps errno");

    mg_error_set (&err, EINVAL, "one");
    mg_error_prefix (&err, "%s again", err.text);
    is_str (err.text, "one again: one", "an argument may be the old text");

    memset (text, 'x', MG_ERROR_MAX - 1 - 3);
    text[MG_ERROR_MAX - 1 - 3] = '\0';
    mg_error_set (&err, EINVAL, "%s", text);
    mg_error_prefix (&err, "p");
    is_int (strlen (err.text), MG_ERROR_MAX - 1, "prefix and text that just fit");
    is_str (err.text + MG_ERROR_MAX - 4, "xxx", "are not marked");
    mg_error_prefix (&err, "p");
    is_int (strlen (err.text), MG_ERROR_MAX - 1, "what does not fit is cut");
    ok (strstr (err.text, "x...x"), "and marked");
    ok (strncmp (err.text, "p: p: xx", 8) == 0, "in its middle");
}

int main (void)
{
    test_set ();
    test_set_cut ();
    test_control ();
    test_long_path ();
    test_prefix ();
    return done_testing ();
}
