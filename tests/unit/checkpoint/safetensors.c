/* safetensors.c - reading weight files: what is right, what is refused, what breaks */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/checkpoint/safetensors.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

static unsigned char image[1 << 16]; /* of a file being made */

/* Length field 'len', then header and data: the size of the image. */
static size_t make_image (const char *header, uint64_t len, const void *data, size_t size)
{
    size_t n = strlen (header);

    memcpy (image, &len, 8);
    memcpy (image + 8, header, n);
    if (size)
        memcpy (image + 8 + n, data, size);
    return 8 + n + size;
}

static struct safetensors *open_image (const char *header, const void *data, size_t size,
                                       struct mg_error *err)
{
    size_t n = make_image (header, strlen (header), data, size);

    return safetensors_open (scratch_write ("image", image, n), err);
}

static void test_reads (void)
{
    static const unsigned char data[64] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[1,25]},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
        "\"empty\":{\"dtype\":\"I64\",\"shape\":[4,0,2],\"data_offsets\":[25,25]},"
        "\"flag\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[25,28]},"
        "\"new\":{\"dtype\":\"F3\",\"shape\":[3],\"data_offsets\":[28,30]},"
        "\"deep\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,2],"
        "\"data_offsets\":[30,32]},"
        "\"d8\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,2],"
        "\"data_offsets\":[32,34]}}   ";
    struct mg_error err = { .text = "" };
    struct safetensors *st = open_image (header, data, 34, &err);
    const struct safetensors_entry *e;

    if (!ok (st != NULL, "a file with every kind of entry opens %s", err.text))
        return;
    is_str (safetensors_path (st), scratch_path ("image"), "it knows its path");
    is_int (safetensors_count (st), 4, "four tensors can be held");
    is_str (safetensors_at (st, 0)->name, "a", "they are in the data's order: a");
    is_str (safetensors_at (st, 1)->name, "b", "b");
    is_str (safetensors_at (st, 2)->name, "empty", "empty");
    is_str (safetensors_at (st, 3)->name, "d8", "d8");
    ok (!safetensors_at (st, 4), "no fifth");
    e = safetensors_find (st, "b");
    ok (e && e->dtype == MG_FLOAT32 && e->ndims == 2 && e->shape[0] == 2
            && e->shape[1] == 3 && e->size == 24 && memcmp (e->data, data + 1, 24) == 0,
        "b has its type, shape and bytes, unaligned");
    e = safetensors_find (st, "a");
    ok (e && e->ndims == 0 && e->size == 1, "a is a scalar");
    e = safetensors_find (st, "empty");
    ok (e && e->ndims == 3 && e->size == 0, "empty has no bytes");
    e = safetensors_find (st, "d8");
    ok (e && e->ndims == 8 && e->shape[7] == 2, "eight dimensions are held");
    errno = 0;
    ok (!safetensors_find (st, "c") && errno == ENOENT, "c is not there");
    errno = 0;
    ok (!safetensors_find (st, "flag") && errno == ENOTSUP, "flag is of an unusual type");
    errno = 0;
    ok (!safetensors_find (st, "new") && errno == ENOTSUP, "new is of an unknown type");
    errno = 0;
    ok (!safetensors_find (st, "deep") && errno == ENOTSUP, "deep has nine dimensions");
    errno = 0;
    ok (!safetensors_find (st, "__metadata__") && errno == ENOENT, "metadata is no tensor");
    safetensors_close (st);

    st = open_image ("{}", NULL, 0, &err);
    ok (st && safetensors_count (st) == 0, "the smallest file is empty");
    safetensors_close (st);
    safetensors_close (NULL);
}

/* One 8-byte tensor "t" with the text given in place of its fields. */
static const struct {
    const char *header;
    const char *text; /* part of the message */
} refusals[] = {
    { " {}", "does not start with '{'" },
    { "[1,2]", "does not start with '{'" },
    { "{\"t\"", "not valid JSON" },
    { "{} x", "not valid JSON" },
    { "{\"\x80\":1}", "not valid JSON" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
      "\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "duplicate" },
    { "{\"t\":[]}", "tensor t: not an object with" },
    { "{\"t\":{}}", "tensor t: not an object with" },
    { "{\"t\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", "tensor t: not an" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", "tensor t: not" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", "t: shape" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", "t: shape" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[\"2\"],\"data_offsets\":[0,8]}}", "t: shape" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,2],"
      "\"data_offsets\":[0,8]}}", "t: shape" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967295],"
      "\"data_offsets\":[0,8]}}", "hold 8 bytes, shape and dtype want" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],"
      "\"data_offsets\":[0,8]}}", "not valid JSON" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", "data_offsets" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", "data_off" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", "data_offsets" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-1,7]}}", "data_off" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[1,9]}}", "inside the 8" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8.0]}}", "data_off" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}",
      "t: data_offsets hold 8 bytes, shape and dtype want 1 x 4" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", "want 3 x 4" },
    { "{\"t\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[0,8]}}", "want 3 x 1" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
      "t: data begins at 4, with a hole after what stands before it, which ends at 0" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
      "4 bytes after the last tensor" },
    { "{}", "8 bytes after the last tensor" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
      "\"u\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
      "u: data begins at 4, overlapping" },
    { "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
      "\"u\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "overlapping" },
    { "{\"__metadata__\":1}", "__metadata__ is not an object" },
    { "{\"__metadata__\":{\"k\\n\":1}}", "__metadata__: \"k?\" is not a string" },
};

static void test_refuses (void)
{
    static const char data[8];

    for (size_t i = 0; i < COUNT (refusals); i++) {
        struct mg_error err = { .text = "" };
        struct safetensors *st = open_image (refusals[i].header, data, 8, &err);

        ok (!st && errno == EINVAL && strstr (err.text, refusals[i].text)
                && strncmp (err.text, scratch_path ("image"), 10) == 0
                && !strchr (err.text, '\n'),
            "refused: %s", err.text);
        safetensors_close (st);
    }
}

static void test_refuses_files (void)
{
    static const char header[] =
        "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    static const char data[8];
    static const uint64_t lengths[] = { 1, sizeof (header) + 8, 100000001, UINT64_MAX };
    struct mg_error err = { .text = "" };
    size_t n = make_image (header, strlen (header), data, 8), refused = 0;
    const char *path;

    for (size_t len = 0; len < n; len++) { /* cut short anywhere */
        path = scratch_write ("image", image, len);
        refused += !safetensors_open (path, &err) && errno == EINVAL;
    }
    is_int (refused, n, "refused: cut short after 0 to %zu bytes", n - 1);
    for (size_t i = 0; i < COUNT (lengths); i++) {
        make_image (header, lengths[i], data, 8);
        path = scratch_write ("image", image, n);
        ok (!safetensors_open (path, &err) && errno == EINVAL, "refused: %s", err.text);
    }
    ok (!safetensors_open (scratch_path ("none"), &err) && errno == ENOENT
            && strstr (err.text, "none: cannot open: No such file"), "%s", err.text);
    ok (!safetensors_open ("/", &err) && errno == EINVAL, "refused: %s", err.text);
    path = scratch_path ("fifo");
    if (mkfifo (path, 0600) < 0)
        bail_out ("cannot make a FIFO");
    ok (!safetensors_open (path, &err) && errno == EINVAL, "refused: %s", err.text);
    ok (!safetensors_open (path, NULL), "without a place for the text");
}

static struct piece make_piece (const char *name, enum mg_dtype dtype, int ndims,
                                const int64_t *global, const int64_t *offset,
                                const int64_t *extent, void *data)
{
    struct piece p = { .dtype = dtype, .ndims = ndims, .data = data, .owner = true };

    snprintf (p.name, sizeof (p.name), "%s", name);
    for (int i = 0; i < ndims && i < PIECE_MAX_DIMS; i++) {
        p.global[i] = global[i];
        p.offset[i] = offset[i];
        p.extent[i] = extent[i];
    }
    return p;
}

/* 5 x 4 floats r * 10 + c, read as boxes; padding beyond the edge is left alone. */
static void test_load_boxes (void)
{
    static const struct {
        int64_t offset[2], extent[2];
    } cases[] = {
        { { 0, 0 }, { 5, 4 } }, { { 0, 0 }, { 1, 1 } }, { { 4, 3 }, { 1, 1 } },
        { { 2, 0 }, { 2, 4 } }, { { 0, 1 }, { 5, 2 } }, { { 3, 0 }, { 4, 4 } },
        { { 1, 2 }, { 6, 5 } }, { { 5, 0 }, { 2, 4 } }, { { 0, 0 }, { 0, 4 } },
        { { 9, 9 }, { 1, 1 } },
    };
    static const int64_t global[2] = { 5, 4 };
    static const char header[] =
        "{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
        "\"w\":{\"dtype\":\"F32\",\"shape\":[5,4],\"data_offsets\":[1,81]}}";
    struct mg_error err = { .text = "" };
    unsigned char data[81] = { 0 };
    struct safetensors *st;

    for (int i = 0; i < 20; i++) {
        float value = (float)(i / 4 * 10 + i % 4);

        memcpy (data + 1 + i * 4, &value, 4);
    }
    if (!ok ((st = open_image (header, data, 81, &err)) != NULL, "5 x 4 %s", err.text))
        return;
    for (size_t i = 0; i < COUNT (cases); i++) {
        const int64_t *at = cases[i].offset, *size = cases[i].extent;
        float got[64];
        struct piece p = make_piece ("w", MG_FLOAT32, 2, global, at, size, got);
        int wrong = 0;

        for (size_t k = 0; k < COUNT (got); k++)
            got[k] = -1;
        is_int (safetensors_load (st, &p, 1, &err), 0, "box %zu loads", i);
        for (int64_t k = 0; k < (int64_t)COUNT (got); k++) {
            int64_t r = size[1] ? at[0] + k / size[1] : 0;
            int64_t c = size[1] ? at[1] + k % size[1] : 0;
            bool inside = k < size[0] * size[1] && r < 5 && c < 4;

            wrong += got[k] != (inside ? (float)(r * 10 + c) : -1.0f);
        }
        is_int (wrong, 0, "with its values and nothing else touched");
    }
    safetensors_close (st);
}

static void test_load_types (void)
{
    static const uint16_t halves[] = { 0x3c00, 0xc000, 0x0001, 0x03ff, 0x7bff, 0xfc00,
                                       0x8000, 0x7e00 };
    static const float half_values[] = { 1, -2, 0x1p-24f, 0x3ffp-24f, 65504, -INFINITY,
                                         -0.0f };
    static const uint16_t bfloats[] = { 0x3f80, 0xc000, 0x0001, 0x7f80 };
    static const float bfloat_values[] = { 1, -2, 0x1p-133f, INFINITY };
    static const double reals[] = { 0.1, -3e38 };
    static const int64_t zero = 0, eight = 8, four = 4, two = 2;
    static const char header[] =
        "{\"h\":{\"dtype\":\"F16\",\"shape\":[8],\"data_offsets\":[0,16]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[16,24]},"
        "\"d\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[24,40]},"
        "\"i\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[40,48]}}";
    unsigned char data[48] = { 0 };
    float h[8], b[4], d[2];
    int32_t i32[2] = { 5, 5 };
    struct piece pieces[] = {
        make_piece ("h", MG_FLOAT32, 1, &eight, &zero, &eight, h),
        make_piece ("b", MG_FLOAT32, 1, &four, &zero, &four, b),
        make_piece ("d", MG_FLOAT32, 1, &two, &zero, &two, d),
        make_piece ("i", MG_INT32, 1, &two, &zero, &two, i32),
    };
    struct mg_error err = { .text = "" };
    struct safetensors *st;

    memcpy (data, halves, 16);
    memcpy (data + 16, bfloats, 8);
    memcpy (data + 24, reals, 16);
    if (!ok ((st = open_image (header, data, 48, &err)) != NULL, "types %s", err.text))
        return;
    is_int (safetensors_load (st, pieces, 4, &err), 0, "three types convert to float32");
    ok (memcmp (h, half_values, sizeof (half_values)) == 0 && isnan (h[7]), "F16");
    ok (memcmp (b, bfloat_values, sizeof (bfloat_values)) == 0, "BF16");
    ok (d[0] == 0.1f && d[1] == -3e38f, "F64");
    ok (i32[0] == 0 && i32[1] == 0, "I32 as it is");
    pieces[3].dtype = MG_FLOAT32;
    h[0] = 77;
    ok (safetensors_load (st, pieces, 4, &err) < 0
            && strstr (err.text, "tensor i has data type int32, want float32 or what"),
        "refused: %s", err.text);
    ok (h[0] == 77, "before anything is copied");
    pieces[2].dtype = MG_BFLOAT16;
    ok (safetensors_load (st, pieces, 3, &err) < 0
            && strstr (err.text, "tensor d has data type float64, want bfloat16"),
        "refused: %s", err.text);
    safetensors_close (st);
}

static void test_load_refuses (void)
{
    static const char header[] =
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"flag\":{\"dtype\":\"BOOL\",\"shape\":[2,3],\"data_offsets\":[24,30]}}";
    static const int64_t shape[3] = { 2, 3 }, more[3] = { 3, 3 }, zero[3] = { 0 };
    static const int64_t minus[3] = { -1, 0 }, huge[3] = { INT64_MAX / 2, 8 };
    static const int64_t last[3] = { INT64_MAX, 0 };
    char data[30] = "";
    float w[9];
    struct {
        struct piece piece;
        const char *text;
    } cases[] = {
        { make_piece ("w", MG_FLOAT32, 2, more, zero, shape, w),
          "tensor w has shape [2, 3], want [3, 3]" },
        { make_piece ("w", MG_FLOAT32, 1, shape, zero, shape, w),
          "tensor w has shape [2, 3], want [2]" },
        { make_piece ("flag", MG_UINT8, 2, shape, zero, shape, w),
          "tensor flag: data type BOOL" },
        { make_piece ("", MG_FLOAT32, 2, shape, zero, shape, w), "name has 1 to" },
        { make_piece ("w", MG_NUM_DTYPES, 2, shape, zero, shape, w), "no such data type" },
        { make_piece ("w", MG_FLOAT32, 0, shape, zero, shape, w), "w: 0 dimensions" },
        { make_piece ("w", MG_FLOAT32, 3, shape, zero, shape, w), "w: 3 dimensions" },
        { make_piece ("w", MG_FLOAT32, 2, shape, minus, shape, w), "makes no sense" },
        { make_piece ("w", MG_FLOAT32, 2, shape, zero, minus, w), "makes no sense" },
        { make_piece ("w", MG_FLOAT32, 2, minus, zero, shape, w), "makes no sense" },
        { make_piece ("w", MG_FLOAT32, 2, shape, last, shape, w), "makes no sense" },
        { make_piece ("w", MG_FLOAT32, 2, shape, zero, huge, w), "overflows" },
        { make_piece ("w", MG_FLOAT32, 2, huge, zero, shape, w), "overflows" },
        { make_piece ("w", MG_FLOAT32, 2, shape, zero, shape, NULL), "w: no data" },
    };
    static const char *const names[] = { "e", "d", "c", "w", "a" };
    struct mg_error err = { .text = "" };
    struct safetensors *st = open_image (header, data, sizeof (data), &err);
    struct piece five[5];

    if (!ok (st != NULL, "a file of two tensors %s", err.text))
        return;
    for (size_t i = 0; i < COUNT (cases); i++)
        ok (safetensors_load (st, &cases[i].piece, 1, &err) < 0
                && strstr (err.text, cases[i].text), "refused: %s", err.text);
    for (int i = 0; i < 5; i++)
        five[i] = make_piece (names[i], MG_FLOAT32, 2, shape, zero, shape, w);
    memset (five[4].name, 'x', sizeof (five[4].name));
    ok (safetensors_load (st, five, 5, &err) < 0 && strstr (err.text, "name has 1 to 159"),
        "refused: %s", err.text);
    snprintf (five[4].name, sizeof (five[4].name), "a");
    errno = 0;
    ok (safetensors_load (st, five, 5, &err) < 0 && errno == ENOENT
            && strstr (err.text, "image: 4 of 5 tensors are not in it: e, d, c, ..."),
        "refused: %s", err.text);
    ok (safetensors_load (st, five + 2, 2, &err) < 0
            && strstr (err.text, "image: 1 of 2 tensors are not in it: c")
            && !strstr (err.text, "..."), "refused: %s", err.text);
    is_int (safetensors_load (st, NULL, 0, &err), 0, "no pieces, nothing to do");
    safetensors_close (st);
}

/* Whatever stands in a file, it opens or is refused with one line; what opens can be
 * read to its last byte.
 */
static void test_fuzz (void)
{
    static const char header[] =
        "{\"__metadata__\":{\"k\":\"v\"},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"b\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[24,40]}}";
    static const char digits[] = "0123456789-.,:[]{}\"\\e ";
    unsigned char good[1024];
    size_t n = make_image (header, strlen (header), header, 40);
    unsigned long sum = 0, opened = 0;
    int bad = 0;

    memcpy (good, image, n);
    for (int round = 0; round < 20000; round++) {
        struct mg_error err = { .text = "" };
        struct safetensors *st;
        size_t len = scratch_random (20) ? n : scratch_random (n + 1);

        memcpy (image, good, n);
        for (unsigned long k = scratch_random (3) + 1; k > 0; k--) {
            size_t at = scratch_random (scratch_random (4) ? n - 40 : 16);

            image[at] = scratch_random (3)
                            ? (unsigned char)digits[scratch_random (sizeof (digits) - 1)]
                            : (unsigned char)scratch_random (256);
        }
        st = safetensors_open (scratch_memory (image, len), &err);
        if (!st)
            bad += err.text[0] == '\0' || strchr (err.text, '\n') || errno == 0;
        for (size_t i = 0; st && i < safetensors_count (st); i++) {
            const struct safetensors_entry *e = safetensors_at (st, i);

            for (size_t k = 0; k < e->size; k++)
                sum += ((const unsigned char *)e->data)[k];
        }
        opened += st != NULL;
        safetensors_close (st);
    }
    is_int (bad, 0, "20000 damaged files: each opens or says in one line why not");
    ok (opened > 100 && opened < 19900 && sum > 0, "%lu of them open", opened);
}

static void test_golden (void)
{
    char path[4096];
    struct mg_error err = { .text = "" };
    const struct safetensors_entry *e;
    struct safetensors *st;

    if (!shared_file (path, sizeof (path), "golden/11_tiny_gpt.init.safetensors")) {
        skip (2, "no %s", path);
        return;
    }
    if (!ok ((st = safetensors_open (path, &err)) != NULL, "golden weights %s", err.text))
        return;
    e = safetensors_find (st, "embedding.word_embeddings.weight");
    ok (e && e->ndims == 2 && e->shape[0] == 256 && e->shape[1] == 64,
        "with word embeddings of 256 x 64");
    safetensors_close (st);
}

int main (void)
{
    alarm (550);
    scratch_create ();
    test_reads ();
    test_refuses ();
    test_refuses_files ();
    test_load_boxes ();
    test_load_types ();
    test_load_refuses ();
    test_fuzz ();
    test_golden ();
    return done_testing ();
}
