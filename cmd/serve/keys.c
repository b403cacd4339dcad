/* keys.c - lines of a file, and comparisons of constant time */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/serve/keys.h"
#include "libcore/args/file.h"

static int add (struct keys *k, const char *line, size_t size, size_t number, const char *path,
                struct mg_error *err)
{
    void *more;

    if (size == 0)
        return 0;
    for (size_t i = 0; i < size; i++) {
        if (line[i] <= ' ' || line[i] > '~' || size > KEYS_SIZE_MAX)
            return mg_error_set (err, EINVAL, "%s:%zu: a key has 1 to %d visible characters of "
                                 "ASCII, and no blanks", path, number, KEYS_SIZE_MAX);
    }
    if (!(more = realloc (k->key, (k->count + 1) * sizeof (*k->key))))
        return mg_error_set (err, ENOMEM, "%s: out of memory", path);
    k->key = more;
    if (!(more = realloc (k->size, (k->count + 1) * sizeof (*k->size))))
        return mg_error_set (err, ENOMEM, "%s: out of memory", path);
    k->size = more;
    k->key[k->count] = line;
    k->size[k->count++] = size;
    return 0;
}

int keys_read (struct keys *k, const char *path, struct mg_error *err)
{
    size_t size, number = 1, n;
    int rc = 0;

    *k = (struct keys){ .text = args_file_bytes (path, KEYS_FILE_MAX, &size, err) };
    if (!k->text)
        return -1;
    if (size > KEYS_FILE_MAX)
        rc = mg_error_set (err, EFBIG, "%s: more than %d bytes", path, KEYS_FILE_MAX);
    for (size_t at = 0; rc == 0 && at < size; at += n + 1, number++) {
        const char *newline = memchr (k->text + at, '\n', size - at);

        n = newline ? (size_t)(newline - k->text) - at : size - at;
        rc = add (k, k->text + at, n > 0 && k->text[at + n - 1] == '\r' ? n - 1 : n, number, path,
                  err);
    }
    if (rc == 0 && k->count == 0)
        rc = mg_error_set (err, EINVAL, "%s: there is no key, want one on each line", path);
    if (rc < 0)
        keys_clear (k);
    return rc;
}

void keys_clear (struct keys *k)
{
    int saved_errno = errno;

    free (k->text);
    free (k->key);
    free (k->size);
    *k = (struct keys){ .count = 0 };
    errno = saved_errno;
}

bool keys_allow (const struct keys *k, const char *header)
{
    static const char scheme[] = "Bearer ";
    size_t size;
    bool found = false;

    if (!header || strncasecmp (header, scheme, sizeof (scheme) - 1) != 0)
        return false;
    header += sizeof (scheme) - 1;
    size = strlen (header);
    for (size_t i = 0; i < k->count; i++) {
        unsigned char differs = k->size[i] != size;

        for (size_t at = 0; at < k->size[i]; at++)
            differs |= (unsigned char)(k->key[i][at] ^ (at < size ? header[at] : 0));
        found |= differs == 0;
    }
    return found;
}
