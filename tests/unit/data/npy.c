/* npy.c - NumPy's files: what is written is read, what is damaged is refused by name */

#include <errno.h>
#include <stdint.h>

#include "libcore/data/mt19937.h"
#include "libcore/data/npy.h"
#include "tests/unit/data/support.h"

static char folder[200];
static char path[300];

static void test_round_trip (void)
{
    static const int16_t i2[] = { -1, 2, INT16_MIN };
    static const int32_t i4[] = { 1, -2, INT32_MAX, 4, 5, 6 };
    static const uint32_t u4[] = { 1, UINT32_MAX };
    static const int64_t i8[] = { INT64_MIN, 2, 3, 4 };
    static const struct npy_array cases[] = {
        { NPY_INT16, 1, { 3, 1 }, i2 },
        { NPY_INT32, 2, { 3, 2 }, i4 },
        { NPY_INT32, 2, { 1, 2 }, i4 },
        { NPY_UINT32, 1, { 2, 1 }, u4 },
        { NPY_UINT32, 1, { 0, 1 }, u4 },
        { NPY_INT64, 1, { 4, 1 }, i8 },
        { NPY_INT64, 2, { 2, 2 }, i8 },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        const struct npy_array *a = &cases[i];
        const size_t bytes = a->shape[0] * a->shape[1] * npy_size (a->type);
        struct mg_error err = { .text = "" };
        struct npy npy;

        ok (npy_write (path, a, &err) == 0, "array %zu is written: %s", i, err.text);
        ok (npy_open (path, &npy, &err) == 0, "and read: %s", err.text);
        ok (npy.array.type == a->type && npy.array.dims == a->dims
            && npy.array.shape[0] == a->shape[0] && npy.array.shape[1] == a->shape[1]
            && memcmp (npy.array.data, a->data, bytes) == 0, "as it was");
        is_int (npy.map_size - bytes, 128, "behind a header of 128 bytes");
        npy_close (&npy);
        npy_close (&npy);
    }
    is_int (folder_files (folder, false), 1, "no other file is left");
}

/* What numpy.save wrote: version 1.0 of NumPy 1.24, and an older header of 80 bytes. */
static void test_numpy (void)
{
    static const char header[]
        = "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }";
    static const size_t sizes[] = { 128, 80 };

    for (size_t i = 0; i < COUNT (sizes); i++) {
        unsigned char file[136] = "\x93NUMPY\x01";
        struct npy npy;

        memset (file + 10, ' ', sizes[i] - 10);
        memcpy (file + 10, header, strlen (header));
        file[8] = (unsigned char)(sizes[i] - 10);
        file[sizes[i] - 1] = '\n';
        memcpy (file + sizes[i], "\1\0\0\0\2\1\0\0", 8);
        write_bytes (path, file, sizes[i] + 8);
        ok (npy_open (path, &npy, NULL) == 0 && npy.array.type == NPY_INT32
            && npy.array.dims == 1 && npy.array.shape[0] == 2
            && ((const int32_t *)npy.array.data)[1] == 258,
            "a header of %zu bytes", sizes[i]);
        npy_close (&npy);
    }
}

/* A file with this header, versions and data of 'size' bytes. */
static void write_file (const char *header, unsigned major, unsigned minor, size_t size)
{
    unsigned char file[600] = "\x93NUMPY";
    size_t begin = major == 1 ? 10 : 12;
    size_t n = strlen (header);

    file[6] = (unsigned char)major;
    file[7] = (unsigned char)minor;
    file[8] = (unsigned char)n;
    file[9] = (unsigned char)(n >> 8);
    memcpy (file + begin, header, n);
    write_bytes (path, file, begin + n + size);
}

#define WITH(descr, order, shape) \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }  \n"
#define GOOD WITH ("'<i4'", "False", "(2,)")

static const struct {
    const char *header;
    unsigned major, minor;
    size_t size;
    const char *text; /* NULL: good */
} headers[] = {
    { GOOD, 1, 0, 8, NULL },
    { "{\"shape\": (2,), \"descr\":\"<i4\",\"fortran_order\":False}          ", 1, 0,
      8, NULL },
    { WITH ("'<i4'", "False", "(2,)") "  ", 2, 0, 8, NULL },
    { WITH ("'<i4'", "False", "(2, 1)") "  ", 1, 0, 8, NULL },
    { GOOD, 4, 0, 8, "version is 4.0, want 1.0 to 3.0" },
    { GOOD, 0, 0, 8, "version is 0.0, want 1.0 to 3.0" },
    { GOOD, 1, 1, 8, "version is 1.1, want 1.0 to 3.0" },
    { GOOD, 1, 0, 7, "shape 2 x 1 of 4 bytes each, but 7 bytes behind the header" },
    { GOOD, 1, 0, 9, "shape 2 x 1 of 4 bytes each, but 9 bytes" },
    { WITH ("'<i4'", "False", "(9223372036854775807, 9223372036854775807)"), 1, 0, 8,
      "shape 9223372036854775807 x 9223372036854775807 of 4 bytes each" },
    { WITH ("'<i4'", "False", "(4611686018427387904,)"), 1, 0, 0,
      "shape 4611686018427387904 x 1 of 4 bytes each, but 0 bytes" },
    { WITH ("'<f4'", "False", "(2,)"), 1, 0, 8,
      "descr is \"'<f4'\", want '<i2', '<i4'" },
    { WITH ("'>i4'", "False", "(2,)"), 1, 0, 8, "descr is \"'>i4'\", want" },
    { WITH ("5", "False", "(2,)"), 1, 0, 8, "descr is \"5\", want" },
    { WITH ("'<i4", "False", "(2,)"), 1, 0, 8, "descr is \"'<i4\", want" },
    { WITH ("'<i4'", "True", "(2,)"), 1, 0, 8,
      "fortran_order is \"True\", want False" },
    { WITH ("'<i4'", "False", "2"), 1, 0, 8, "shape is \"2\", want a tuple" },
    { WITH ("'<i4'", "False", "()"), 1, 0, 8, "shape is \"()\", want one or two" },
    { WITH ("'<i4'", "False", "(2)"), 1, 0, 8, "want one or two sizes" },
    { WITH ("'<i4'", "False", "(-2,)"), 1, 0, 8,
      "shape is \"(-2\", want one or two" },
    { WITH ("'<i4'", "False", "(1, 1, 2)"), 1, 0, 8, "want one or two sizes" },
    { WITH ("'<i4'", "False", "(99999999999999999999,)"), 1, 0, 8,
      "want one or two" },
    { "{'descr': '<i4', 'shape': (2,), }", 1, 0, 8, "want descr, fortran_order and" },
    { "{'descr': '<i4', 'descr': '<i4', 'shape': (2,), }", 1, 0, 8, "each once" },
    { "{'what': 1, }", 1, 0, 8, "a key is \"'what': 1\", want descr, fortran_order" },
    { "{'descr' '<i4'}", 1, 0, 8, "want a quoted name and a colon" },
    { "['descr']", 1, 0, 8, "its beginning is \"['descr']\", want {" },
    { "{'descr': '<i4', 'fortran_order': False, 'shape': (2,)", 1, 0, 8,
      "a key is \"" },
    { GOOD "x", 1, 0, 8, "what follows is \"x\", want blanks" },
    { "", 1, 0, 8, "its beginning is \"\", want {" },
    { GOOD " ", 1, 0, 8, "elements of 4 bytes begin at byte " },
};

static void test_faults (void)
{
    for (size_t i = 0; i < COUNT (headers); i++) {
        struct mg_error err = { .text = "" };
        char header[300];
        struct npy npy;
        int rc;

        snprintf (header, sizeof (header), "%s", headers[i].header);
        /* all but the last case are padded so that only their own fault is there */
        if (i + 1 < COUNT (headers)) {
            size_t begin = headers[i].major == 1 ? 10 : 12;

            while (*header && (begin + strlen (header)) % 4)
                strcat (header, " ");
        }
        else {
            while ((10 + strlen (header)) % 4 != 1)
                strcat (header, " ");
        }
        write_file (header, headers[i].major, headers[i].minor, headers[i].size);
        errno = 0;
        rc = npy_open (path, &npy, &err);
        if (!headers[i].text)
            ok (rc == 0, "a good header: %s", err.text);
        else if (!ok (rc == -1 && errno == EINVAL && strstr (err.text, "a.npy: ")
                      && strstr (err.text, headers[i].text) && !strchr (err.text, '\n'),
                      "refused: %s", err.text))
            diag ("want %s", headers[i].text);
        npy_close (&npy);
    }
}

static void test_files (void)
{
    const struct npy_array array = { NPY_INT32, 1, { 0, 1 }, NULL };
    struct mg_error err;
    struct npy npy;
    char no[400];

    unlink (path);
    errno = 0;
    ok (npy_open (path, &npy, &err) == -1 && errno == ENOENT, "no file: %s", err.text);
    write_bytes (path, "", 0);
    ok (npy_open (path, &npy, &err) == -1 && errno == EINVAL, "empty: %s", err.text);
    ok (npy_open (folder, &npy, &err) == -1, "a folder: %s", err.text);
    write_bytes (path, "\x93NUMPX\x01\0\0\0\0\0", 12);
    ok (npy_open (path, &npy, &err) == -1 && errno == EINVAL, "no magic: %s", err.text);
    snprintf (no, sizeof (no), "%s/no/a.npy", folder);
    errno = 0;
    ok (npy_write (no, &array, &err) == -1 && errno == ENOENT, "no folder: %s", err.text);
}

static void test_mutations (void)
{
    enum { ROUNDS = 3000 };
    static const int32_t data[] = { 1, 2, 3, 4, 5, 6 };
    const struct npy_array array = { NPY_INT32, 2, { 3, 2 }, data };
    struct mt19937 mt;
    unsigned char *good;
    size_t size = 0;
    int refused = 0, accepted = 0;

    npy_write (path, &array, NULL);
    good = read_bytes (path, &size);
    mt19937_seed (&mt, 20240302, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char bad[200];
        struct mg_error err = { .text = "" };
        size_t n = size;
        struct npy npy;

        memcpy (bad, good, size);
        for (int k = mt19937_interval (&mt, 3); k >= 0; k--) {
            unsigned char *byte = bad + mt19937_interval (&mt, 79);

            *byte = mt19937_interval (&mt, 1) ? mt19937_next (&mt) >> 24
                                              : *byte + mt19937_interval (&mt, 4) - 2;
        }
        if (mt19937_interval (&mt, 7) == 0)
            n = mt19937_interval (&mt, size);
        write_bytes (path, bad, n);
        if (npy_open (path, &npy, &err) < 0) {
            refused += strstr (err.text, "a.npy: ") && !strchr (err.text, '\n');
        }
        else {
            const unsigned char *p = npy.array.data;
            size_t bytes = npy.array.shape[0] * npy.array.shape[1]
                           * npy_size (npy.array.type);
            unsigned sum = 0;

            for (size_t i = 0; i < bytes; i++)
                sum += p[i];
            accepted += sum < 1u << 31;
        }
        npy_close (&npy);
    }
    is_int (refused + accepted, ROUNDS,
            "a damaged file is refused by name, or can be read");
    diag ("%d refused, %d still good", refused, accepted);
    free (good);
}

int main (void)
{
    folder_create (folder, sizeof (folder));
    snprintf (path, sizeof (path), "%s/a.npy", folder);
    test_round_trip ();
    test_numpy ();
    test_faults ();
    test_files ();
    test_mutations ();
    folder_remove (folder);
    return done_testing ();
}
