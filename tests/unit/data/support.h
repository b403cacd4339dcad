/* support - what the tests of datasets share: a private folder, files, reference data */
#ifndef TESTS_UNIT_DATA_SUPPORT_H
#define TESTS_UNIT_DATA_SUPPORT_H

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

/* A folder of this test's own. */
static inline void folder_create (char *path, size_t size)
{
    const char *base = getenv ("TMPDIR");

    snprintf (path, size, "%s/megatron-data.XXXXXX", base ? base : "/tmp");
    if (!mkdtemp (path))
        bail_out ("cannot make %s", path);
}

/* Number of files in it; removes them too if asked to. */
static inline int folder_files (const char *path, bool remove)
{
    char file[900];
    struct dirent *entry;
    int n = 0;
    DIR *dir = opendir (path);

    while (dir && (entry = readdir (dir))) {
        if (strcmp (entry->d_name, ".") == 0 || strcmp (entry->d_name, "..") == 0)
            continue;
        n++;
        snprintf (file, sizeof (file), "%s/%s", path, entry->d_name);
        if (remove)
            unlink (file);
    }
    if (dir)
        closedir (dir);
    return n;
}

static inline void folder_remove (const char *path)
{
    folder_files (path, true);
    if (rmdir (path) < 0)
        diag ("%s is left behind", path);
}

/* PREFIX + ending -> path */
static inline const char *with_ending (const char *prefix, const char *ending)
{
    static char path[2][600];
    static int turn;

    turn = !turn;
    snprintf (path[turn], sizeof (path[turn]), "%s%s", prefix, ending);
    return path[turn];
}

static inline void write_bytes (const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen (path, "w");

    if (!f || fwrite (bytes, 1, size, f) != size || fclose (f) != 0)
        bail_out ("cannot write %s", path);
}

/* The whole file, one byte longer than '*size' so that it is never NULL for being empty;
 * NULL if it cannot be read. */
static inline unsigned char *read_bytes (const char *path, size_t *size)
{
    FILE *f = fopen (path, "r");
    unsigned char *bytes;
    long end;

    if (!f)
        return NULL;
    fseek (f, 0, SEEK_END);
    end = ftell (f);
    rewind (f);
    bytes = malloc (end + 1);
    if (!bytes || fread (bytes, 1, end, f) != (size_t)end)
        bail_out ("cannot read %s", path);
    fclose (f);
    *size = end;
    return bytes;
}

static inline bool same_files (const char *a, const char *b)
{
    size_t na = 0;
    size_t nb = 0;
    unsigned char *pa = read_bytes (a, &na);
    unsigned char *pb = read_bytes (b, &nb);
    bool same = pa && pb && na == nb && memcmp (pa, pb, na) == 0;

    free (pa);
    free (pb);
    return same;
}

/* The reference cases of datasets, NULL if they are not there (a check is then counted as
 * left out). */
static inline json_t *load_golden (void)
{
    json_error_t fault;
    char path[600];
    json_t *golden;

    if (!shared_file (path, sizeof (path), "golden/08_datasets.json")) {
        skip (1, "no reference data: %s", path);
        return NULL;
    }
    if (!(golden = json_load_file (path, 0, &fault)))
        bail_out ("%s: %s", path, fault.text);
    return golden;
}

static inline int64_t json_int (const json_t *object, const char *key)
{
    return json_integer_value (json_object_get (object, key));
}

static inline const char *json_text (const json_t *object, const char *key)
{
    return json_string_value (json_object_get (object, key));
}

/* An array of integers, NULL-safe; the caller frees it. */
static inline int64_t *json_numbers (const json_t *array, size_t *n)
{
    int64_t *numbers = calloc (json_array_size (array) + 1, sizeof (*numbers));

    *n = json_array_size (array);
    for (size_t i = 0; i < *n; i++)
        numbers[i] = json_integer_value (json_array_get (array, i));
    return numbers;
}

#endif /* TESTS_UNIT_DATA_SUPPORT_H */
