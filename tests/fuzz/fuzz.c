/* fuzz.c - what harnesses share */

#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

enum { PATHS = 8, PATH_LENGTH = 300 };

const struct fuzz_target *fuzz_find (const char *name)
{
    for (size_t i = 0; fuzz_targets[i]; i++) {
        if (strcmp (fuzz_targets[i]->name, name) == 0)
            return fuzz_targets[i];
    }
    return NULL;
}

void fuzz_fail (const char *file, int line, const char *fmt, ...)
{
    va_list args;

    fprintf (stderr, "%s:%d: ", file, line);
    va_start (args, fmt);
    vfprintf (stderr, fmt, args);
    va_end (args);
    fputc ('\n', stderr);
    abort ();
}

uint64_t fuzz_number (struct fuzz_input *in, int bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < bytes && in->left > 0; i++, in->left--)
        value |= (uint64_t)*in->at++ << (8 * i);
    return value;
}

int fuzz_range (struct fuzz_input *in, int min, int max)
{
    return min + (int)(fuzz_number (in, 2) % ((uint64_t)max - (uint64_t)min + 1));
}

struct fuzz_input fuzz_part (struct fuzz_input *in)
{
    size_t size = fuzz_number (in, 2);
    struct fuzz_input part = { in->at, size < in->left ? size : in->left };

    in->at += part.left;
    in->left -= part.left;
    return part;
}

static void *allocate (size_t size)
{
    void *p = malloc (size);

    fuzz_check (p, "the harness is out of memory for %zu bytes", size);
    return p;
}

char *fuzz_text (struct fuzz_input in)
{
    char *text = allocate (in.left + 1);

    if (in.left > 0)
        memcpy (text, in.at, in.left);
    text[in.left] = '\0';
    return text;
}

void *fuzz_copy (struct fuzz_input in)
{
    char *bytes = allocate (in.left > 0 ? in.left : 1);

    if (in.left > 0)
        memcpy (bytes, in.at, in.left);
    return bytes;
}

char **fuzz_words (struct fuzz_input *in, const char *first, int *count)
{
    size_t room = 3, length = strlen (first) + 1;
    char **words, *to;
    int n = 1;

    for (size_t i = 0; i < in->left; i++)
        room += in->at[i] == '\n' || in->at[i] == '\0';
    words = allocate (room * sizeof (*words) + length + in->left + 1);
    to = (char *)(words + room);
    words[0] = memcpy (to, first, length);
    to += length;
    if (in->left > 0)
        words[n++] = to;
    for (; in->left > 0; in->left--, in->at++) {
        bool end = *in->at == '\n' || *in->at == '\0';

        *to++ = end ? '\0' : (char)*in->at;
        if (end && in->left > 1)
            words[n++] = to;
    }
    *to = '\0';
    words[n] = NULL;
    *count = n;
    return words;
}

/* --- files --- */

static char folder[PATH_LENGTH - 100];

static int remove_one (const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove (path);
}

void fuzz_remove (const char *path)
{
    nftw (path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void remove_folder (void)
{
    fuzz_remove (folder);
}

const char *fuzz_folder (void)
{
    const char *base = getenv ("TMPDIR");

    if (folder[0])
        return folder;
    snprintf (folder, sizeof (folder), "%.150s/megatron-fuzz.XXXXXX", base ? base : "/tmp");
    fuzz_check (mkdtemp (folder), "cannot make %s", folder);
    atexit (remove_folder);
    return folder;
}

const char *fuzz_path (const char *name)
{
    static char path[PATHS][PATH_LENGTH];
    static int turn;

    turn = (turn + 1) % PATHS;
    snprintf (path[turn], PATH_LENGTH, "%s/%.90s", fuzz_folder (), name);
    return path[turn];
}

const char *fuzz_file (const char *name, struct fuzz_input content)
{
    const char *path = fuzz_path (name);
    int fd = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    fuzz_check (fd >= 0, "cannot create %s", path);
    while (content.left > 0) {
        ssize_t n = write (fd, content.at, content.left);

        fuzz_check (n > 0, "cannot write %s", path);
        content.at += n;
        content.left -= (size_t)n;
    }
    close (fd);
    return path;
}

bool fuzz_same (const char *path, const void *data, size_t size)
{
    char *have = allocate (size + 1);
    int fd = open (path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read (fd, have, size + 1);
    bool same = n == (ssize_t)size && (size == 0 || memcmp (have, data, size) == 0);

    if (fd >= 0)
        close (fd);
    free (have);
    return same;
}
