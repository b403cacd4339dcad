/* Keys of clients: files of them, and headers that show one. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/serve/keys.h"
#include "tests/tap/tap.h"

static char path[] = "/tmp/megatron-keys.XXXXXX";

static int read_text (struct keys *k, const char *text, size_t size, struct mg_error *err)
{
    FILE *file = fopen (path, "w");

    if (!file || fwrite (text, 1, size, file) != size || fclose (file) != 0)
        bail_out ("%s cannot be written", path);
    return keys_read (k, path, err);
}

static void test_files (void)
{
    static const struct {
        const char *text;
        const char *what;
    } rows[] = {
        { "", "there is no key" }, { "\n\r\n", "there is no key" }, { "a\nb c\n", ":2: a key has" },
        { "a\tb", ":1: a key has" }, { "\xc3\xa9", ":1: a key has" },
    };
    struct mg_error err = { "" };
    struct keys k;
    char *big = calloc (1, KEYS_FILE_MAX + 1);

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++)
        ok (read_text (&k, rows[i].text, strlen (rows[i].text), &err) == -1 && errno == EINVAL
                && strstr (err.text, rows[i].what) && k.count == 0, "%s", err.text);
    ok (read_text (&k, "a\0b", 3, &err) == -1 && errno == EINVAL, "a zero byte: %s", err.text);
    memset (big, 'a', KEYS_SIZE_MAX + 1);
    ok (read_text (&k, big, KEYS_SIZE_MAX + 1, &err) == -1 && errno == EINVAL, "a long key");
    ok (read_text (&k, big, KEYS_SIZE_MAX, &err) == 0 && k.count == 1, "one that is not too long");
    keys_clear (&k);
    memset (big, '\n', KEYS_FILE_MAX + 1);
    ok (read_text (&k, big, KEYS_FILE_MAX + 1, &err) == -1 && errno == EFBIG, "%s", err.text);
    ok (keys_read (&k, "/nonexistent/keys", &err) == -1 && errno == ENOENT, "%s", err.text);
    free (big);
}

static void test_headers (void)
{
    static const char text[] = "first\n\nsecond-key\r\nx";
    struct keys k;

    is_int (read_text (&k, text, sizeof (text) - 1, NULL), 0, "keys");
    is_int ((int)k.count, 3, "three of them");
    ok (keys_allow (&k, "Bearer first") && keys_allow (&k, "bearer second-key")
            && keys_allow (&k, "Bearer x"), "each is allowed");
    ok (!keys_allow (&k, NULL) && !keys_allow (&k, "") && !keys_allow (&k, "Bearer")
            && !keys_allow (&k, "Bearer ") && !keys_allow (&k, "first")
            && !keys_allow (&k, "Basic first"), "no key, another scheme");
    ok (!keys_allow (&k, "Bearer firs") && !keys_allow (&k, "Bearer first ")
            && !keys_allow (&k, "Bearer First") && !keys_allow (&k, "Bearer firstx"),
        "a wrong key");
    keys_clear (&k);
    keys_clear (&k);
}

int main (void)
{
    int fd = mkstemp (path);

    if (fd < 0)
        bail_out ("%s cannot be made", path);
    close (fd);
    test_files ();
    test_headers ();
    unlink (path);
    return done_testing ();
}
