/* npz - the test's own reader of .npz files: a good file, and every way to damage it */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/npz.h"
#include "tests/tap/tap.h"

struct file {
    unsigned char bytes[2048];
    size_t size;
    size_t directory;
    unsigned char entries[512];
    size_t entries_size;
    int count;
};

static void put (unsigned char *p, size_t *size, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[(*size)++] = (unsigned char)(i < 8 ? value >> (8 * i) : 0);
}

static void put_bytes (unsigned char *p, size_t *size, const void *bytes, size_t n)
{
    memcpy (p + *size, bytes, n);
    *size += n;
}

/* zip64: 32-bit fields say "look in the extra field", as numpy's do for streams. */
static void add (struct file *f, const char *name, const char *header, const void *data,
                 size_t data_size, bool zip64)
{
    size_t at = f->size, size = 10 + strlen (header) + data_size;

    put (f->bytes, &f->size, 0x04034b50, 4);
    memset (f->bytes + f->size, 0, 22); /* method stored, no checksum, sizes unused */
    f->size += 22;
    put (f->bytes, &f->size, strlen (name), 2);
    put (f->bytes, &f->size, 0, 2);
    put_bytes (f->bytes, &f->size, name, strlen (name));
    put_bytes (f->bytes, &f->size, "\x93NUMPY\x01\x00", 8);
    put (f->bytes, &f->size, strlen (header), 2);
    put_bytes (f->bytes, &f->size, header, strlen (header));
    put_bytes (f->bytes, &f->size, data, data_size);

    put (f->entries, &f->entries_size, 0x02014b50, 4);
    put (f->entries, &f->entries_size, 0, 8); /* versions, flags, method 0 */
    put (f->entries, &f->entries_size, 0, 8);
    put (f->entries, &f->entries_size, zip64 ? 0xffffffff : size, 4);
    put (f->entries, &f->entries_size, zip64 ? 0xffffffff : size, 4);
    put (f->entries, &f->entries_size, strlen (name), 2);
    put (f->entries, &f->entries_size, zip64 ? 20 : 0, 2);
    put (f->entries, &f->entries_size, 0, 10);
    put (f->entries, &f->entries_size, at, 4);
    put_bytes (f->entries, &f->entries_size, name, strlen (name));
    if (zip64) {
        put (f->entries, &f->entries_size, 1, 2);
        put (f->entries, &f->entries_size, 16, 2);
        put (f->entries, &f->entries_size, size, 8);
        put (f->entries, &f->entries_size, size, 8);
    }
    f->count++;
}

static void finish (struct file *f)
{
    f->directory = f->size;
    put_bytes (f->bytes, &f->size, f->entries, f->entries_size);
    put (f->bytes, &f->size, 0x06054b50, 4);
    put (f->bytes, &f->size, 0, 4);
    put (f->bytes, &f->size, (uint64_t)f->count, 2);
    put (f->bytes, &f->size, (uint64_t)f->count, 2);
    put (f->bytes, &f->size, f->entries_size, 4);
    put (f->bytes, &f->size, f->directory, 4);
    put (f->bytes, &f->size, 0, 2);
}

static struct npz *open_bytes (const unsigned char *bytes, size_t size,
                               struct mg_error *err)
{
    char path[] = "/tmp/mg-npz-XXXXXX";
    int fd = mkstemp (path);
    struct npz *npz;

    if (fd < 0 || write (fd, bytes, size) != (ssize_t)size)
        bail_out ("cannot write %s", path);
    close (fd);
    npz = npz_open (path, err);
    unlink (path);
    return npz;
}

static void make (struct file *f)
{
    const float x[6] = { 1, -2.5f, 3, 4, 5, 1e-30f };
    const double y = 0.1;
    const int64_t n[2] = { -7, 1000000 };
    const unsigned char u[3] = { 0, 1, 255 };

    memset (f, 0, sizeof (*f));
    add (f, "x.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", x,
         sizeof (x), false);
    add (f, "y.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (), }", &y,
         sizeof (y), true);
    add (f, "a.n.npy", "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", n,
         sizeof (n), true);
    add (f, "u.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", u,
         sizeof (u), false);
    finish (f);
}

static void test_good (const struct file *f)
{
    struct mg_error err = { "" };
    struct npz *npz = open_bytes (f->bytes, f->size, &err);
    const struct npz_array *a;
    double *d;
    float *x;
    size_t count = 0;

    if (!npz)
        bail_out ("%s", err.text);
    a = npz_find (npz, "x");
    ok (a && a->ndim == 2 && a->shape[0] == 2 && a->shape[1] == 3 && a->count == 6,
        "shape of a matrix");
    x = npz_floats (npz, "x", &count, &err);
    ok (x && count == 6 && x[1] == -2.5f && x[5] == 1e-30f, "floats");
    free (x);
    d = npz_doubles (npz, "y", &count, &err);
    ok (d && count == 1 && d[0] == 0.1, "a scalar double, zip64");
    free (d);
    d = npz_doubles (npz, "a.n", &count, &err);
    ok (d && count == 2 && d[0] == -7 && d[1] == 1000000, "whole numbers");
    free (d);
    d = npz_doubles (npz, "u", &count, &err);
    ok (d && count == 3 && d[2] == 255, "bytes");
    free (d);
    errno = 0;
    ok (!npz_doubles (npz, "z", &count, &err) && errno == ENOENT, "%s", err.text);
    npz_close (npz);
    npz_close (NULL);
}

static void test_damaged (const struct file *f)
{
    int accepted = 0, silent = 0;

    for (size_t size = 0; size < f->size; size++) {
        struct mg_error err = { "" };
        struct npz *npz = open_bytes (f->bytes, size, &err);

        accepted += npz != NULL;
        silent += !npz && !err.text[0];
        npz_close (npz);
    }
    is_int (accepted, 0, "no beginning of a file is a file");
    is_int (silent, 0, "each refusal has a text");
    /* Whatever byte changes: a refusal, or an array within the file; ASan watches. */
    for (size_t i = 0; i < f->size; i++) {
        struct file g = *f;
        struct npz *npz;
        size_t count;

        g.bytes[i] ^= i % 3 ? 0xff : 0x41;
        npz = open_bytes (g.bytes, g.size, NULL);
        if (npz)
            free (npz_doubles (npz, "x", &count, NULL));
        npz_close (npz);
    }
    ok (true, "a changed byte does no harm");
}

int main (void)
{
    struct mg_error err = { "" };
    struct file f;

    make (&f);
    test_good (&f);
    test_damaged (&f);
    ok (!npz_open ("/nonexistent/x.npz", &err), "%s", err.text);
    return done_testing ();
}
