/* indexed_fault.c - a damaged dataset is refused by name, and never crashes the reader
 *
 * Run with the sanitizers on (configure --enable-sanitizers) this also proves that no
 * byte outside the files is looked at.
 */

#include <errno.h>
#include <stdint.h>

#include "libcore/data/indexed.h"
#include "libcore/data/mt19937.h"
#include "tests/unit/data/support.h"

/* A good set: int16, four sequences (one empty) in three documents (one empty). */
static const unsigned char good_bin[] = { 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0 };
static const unsigned char good_idx[] = {
    'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0,
    1, 0, 0, 0, 0, 0, 0, 0,
    3,
    4, 0, 0, 0, 0, 0, 0, 0,
    4, 0, 0, 0, 0, 0, 0, 0,
    2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0,
    4, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
    3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0,
};
enum { LENGTHS = 34, POINTERS = 50, STARTS = 82 };

static char folder[200];
static char prefix[300];

static void write_set (const void *bin, size_t bin_size, const void *idx, size_t idx_size)
{
    write_bytes (with_ending (prefix, ".bin"), bin, bin_size);
    write_bytes (with_ending (prefix, ".idx"), idx, idx_size);
}

/* Open and use all that is in it; false if it was refused. */
static bool survive (struct mg_error *err)
{
    struct indexed *ix;
    int64_t sum = 0;

    errno = 0;
    err->text[0] = '\0';
    if (!(ix = indexed_open (prefix, err)))
        return false;
    for (size_t d = 0; d < indexed_num_documents (ix); d++) {
        for (size_t i = indexed_document_start (ix, d);
             i < indexed_document_start (ix, d + 1); i++) {
            for (int32_t j = 0; j < indexed_length (ix, i); j++) {
                int32_t token = 0;

                indexed_get (ix, i, j, 1, &token, NULL);
                sum += token + indexed_pointer (ix, i) + indexed_mode (ix, i);
            }
        }
    }
    indexed_close (ix);
    return sum >= 0 || sum < 0;
}

static void test_good (void)
{
    struct mg_error err;

    write_set (good_bin, sizeof (good_bin), good_idx, sizeof (good_idx));
    ok (survive (&err), "the set is good before it is damaged: %s", err.text);
}

/* One byte is changed; the text must name file, field, value and what is allowed. */
static void test_fields (void)
{
    static const struct {
        size_t at;
        unsigned char byte;
        const char *text;
        int errnum;
    } cases[] = {
        { 0, 'm', "set.idx: bytes 0-8 are not the magic", EINVAL },
        { 8, 1, "set.idx: bytes 0-8 are not the magic", EINVAL },
        { 9, 2, "set.idx: version is 2, want 1", EINVAL },
        { 9, 0, "set.idx: version is 0, want 1", EINVAL },
        { 16, 1, "set.idx: version is 72057594037927937, want 1", EINVAL },
        { 17, 0, "set.idx: dtype code is 0, want 1-5 or 8", EINVAL },
        { 17, 9, "set.idx: dtype code is 9, want 1-5 or 8", EINVAL },
        { 17, 255, "set.idx: dtype code is 255, want 1-5 or 8", EINVAL },
        { 17, 6, "set.idx: dtype code 6 is float64, want an integer type", ENOTSUP },
        { 17, 7, "set.idx: dtype code 7 is float32, want an integer type", ENOTSUP },
        { 17, 4, "set.idx: pointer of sequence 1 is 4, want 8", EINVAL },
        { 18, 3, "set.idx: 12 bytes behind the tables, want 0 or", EINVAL },
        { 18, 5, "set.idx: document index count is 4, want 1 to 2", EINVAL },
        { 18, 7, "set.idx: sequence count is 7, but the 114 bytes", EINVAL },
        { 25, 1, "set.idx: sequence count is 72057594037927940, but", EINVAL },
        { 25, 0x80, "set.idx: sequence count is 9223372036854775812, but", EINVAL },
        { 26, 0, "set.idx: document index count is 0, want 1 to 4", EINVAL },
        { 26, 3, "set.idx: 8 bytes behind the tables, want 0 or the modes of 4", EINVAL },
        { 26, 5, "set.idx: document index count is 5, want 1 to 4", EINVAL },
        { 33, 0xff, "set.idx: document index count is 18374686479671623684,", EINVAL },
        { LENGTHS + 3, 0x80, "set.idx: length of sequence 0 is -2147483646,", EINVAL },
        { LENGTHS, 1, "set.idx: pointer of sequence 1 is 4, want 2", EINVAL },
        { LENGTHS + 2, 1, "set.idx: sequence 0 of 65538 tokens begins at byte", EINVAL },
        { LENGTHS + 12, 2, "set.idx: sequence 3 of 2 tokens begins at byte 10", EINVAL },
        { LENGTHS + 12, 0, "set.bin: 12 bytes, want the 10 of ", EINVAL },
        { POINTERS, 2, "set.idx: pointer of sequence 0 is 2, want 0", EINVAL },
        { POINTERS + 24, 11, "set.idx: pointer of sequence 3 is 11, want 10", EINVAL },
        { POINTERS + 31, 0x80, "set.idx: pointer of sequence 3 is -9223372036854775798",
          EINVAL },
        { POINTERS + 30, 1, "set.idx: pointer of sequence 3 is 281474976710666", EINVAL },
        { STARTS, 1, "set.idx: document index 0 is 1, want 0", EINVAL },
        { STARTS + 8, 5, "set.idx: document index 1 is 5, want 0 to 4", EINVAL },
        { STARTS + 16, 2, "set.idx: document index 2 is 2, want 3 to 4", EINVAL },
        { STARTS + 15, 0xff, "set.idx: document index 1 is -72057594037927933, want 0",
          EINVAL },
        { STARTS + 24, 3, "set.idx: last document index is 3, want the sequence count 4",
          EINVAL },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        unsigned char idx[sizeof (good_idx)];
        struct mg_error err;

        memcpy (idx, good_idx, sizeof (idx));
        idx[cases[i].at] = cases[i].byte;
        write_set (good_bin, sizeof (good_bin), idx, sizeof (idx));
        if (!ok (!survive (&err) && errno == cases[i].errnum
                 && strstr (err.text, cases[i].text) && !strchr (err.text, '\n'),
                 "byte %zu is %u: %s", cases[i].at, cases[i].byte, err.text))
            diag ("errno %d, want %d and: %s", errno, cases[i].errnum, cases[i].text);
    }
}

static void test_truncation (void)
{
    struct mg_error err;
    int refused = 0;

    for (size_t size = 0; size < sizeof (good_idx); size++) {
        write_set (good_bin, sizeof (good_bin), good_idx, size);
        refused += !survive (&err) && strstr (err.text, "set.idx: ") != NULL;
    }
    is_int (refused, sizeof (good_idx), ".idx cut anywhere is refused by name");
    refused = 0;
    for (size_t size = 0; size < sizeof (good_bin); size++) {
        write_set (good_bin, size, good_idx, sizeof (good_idx));
        refused += !survive (&err) && strstr (err.text, "set.bin") != NULL;
    }
    is_int (refused, sizeof (good_bin), ".bin cut anywhere is refused by name");
}

static void test_longer (void)
{
    unsigned char idx[sizeof (good_idx) + 5] = { 0 };
    unsigned char bin[sizeof (good_bin) + 1] = { 0 };
    struct mg_error err;

    memcpy (idx, good_idx, sizeof (good_idx));
    memcpy (bin, good_bin, sizeof (good_bin));
    for (size_t more = 1; more <= 5; more++) {
        write_set (good_bin, sizeof (good_bin), idx, sizeof (good_idx) + more);
        if (more == 4)
            ok (survive (&err), "a byte a sequence behind the tables: modes");
        else
            ok (!survive (&err), "%zu bytes there are refused: %s", more, err.text);
    }
    write_set (bin, sizeof (bin), good_idx, sizeof (good_idx));
    ok (!survive (&err) && strstr (err.text, "set.bin: 13 bytes, want the 12 of "),
        "tokens beyond the last sequence are refused: %s", err.text);
}

static void test_files (void)
{
    struct mg_error err;

    write_set (good_bin, sizeof (good_bin), good_idx, sizeof (good_idx));
    unlink (with_ending (prefix, ".bin"));
    ok (!survive (&err) && errno == ENOENT && strstr (err.text, "set.bin: No such file"),
        "no .bin: %s", err.text);
    unlink (with_ending (prefix, ".idx"));
    ok (!survive (&err) && errno == ENOENT && strstr (err.text, "set.idx: No such file"),
        "no .idx: %s", err.text);
    if (symlink (folder, with_ending (prefix, ".idx")) < 0)
        bail_out ("no symbolic link");
    ok (!survive (&err) && strstr (err.text, "set.idx is not a regular file"),
        "a folder: %s", err.text);
    unlink (with_ending (prefix, ".idx"));
}

/* Tokens are checked when they are read. */
static void test_tokens (void)
{
    static const struct {
        enum indexed_dtype dtype;
        unsigned char bytes[8];
        const char *text; /* NULL: good */
    } cases[] = {
        { INDEXED_INT8, { 0xff }, "set.bin: token 0 of sequence 0 is -1, want 0 to 21" },
        { INDEXED_UINT8, { 0xff }, NULL },
        { INDEXED_INT16, { 0xff, 0xff }, "is -1, want" },
        { INDEXED_UINT16, { 0xff, 0xff }, NULL },
        { INDEXED_INT32, { 0, 0, 0, 0x80 }, "is -2147483648, want" },
        { INDEXED_INT64, { 0, 0, 0, 0, 0, 0, 0, 0x80 }, "is -9223372036854775808, want" },
        { INDEXED_INT64, { 0, 0, 0, 0x80 }, "is 2147483648, want 0 to 2147483647" },
        { INDEXED_INT64, { 0xff, 0xff, 0xff, 0x7f }, NULL },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        unsigned char idx[34 + 4 + 8 + 16] = "MMIDIDX\0\0\1";
        struct mg_error err = { .text = "" };
        struct indexed *ix;
        int32_t token = 0;
        int rc;

        idx[17] = cases[i].dtype;
        idx[18] = 1;
        idx[26] = 2;
        idx[34] = 1;
        idx[54] = 1;
        write_set (cases[i].bytes, indexed_dtype_size (cases[i].dtype), idx,
                   sizeof (idx));
        if (!(ix = indexed_open (prefix, &err)))
            bail_out ("%s", err.text);
        errno = 0;
        rc = indexed_get (ix, 0, 0, 1, &token, &err);
        if (cases[i].text)
            ok (rc == -1 && errno == ERANGE && strstr (err.text, cases[i].text),
                "%s token is refused: %s", indexed_dtype_name (cases[i].dtype), err.text);
        else
            ok (rc == 0 && token > 0, "%s token %d is taken",
                indexed_dtype_name (cases[i].dtype), token);
        indexed_close (ix);
    }
}

/* Any byte, or one near what was there: small changes pass more checks. */
static void damage (struct mt19937 *mt, unsigned char *byte)
{
    if (mt19937_interval (mt, 1))
        *byte = mt19937_next (mt) >> 24;
    else
        *byte += mt19937_interval (mt, 4) - 2;
}

/* Change up to four bytes of either file, and its size, thousands of times. */
static void test_mutations (void)
{
    enum { ROUNDS = 4000 };
    struct mt19937 mt;
    int refused = 0;
    int accepted = 0;

    mt19937_seed (&mt, 20240229, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char idx[sizeof (good_idx) + 8] = { 0 };
        unsigned char bin[sizeof (good_bin) + 8] = { 0 };
        size_t idx_size = sizeof (good_idx);
        size_t bin_size = sizeof (good_bin);
        struct mg_error err;

        memcpy (idx, good_idx, sizeof (good_idx));
        memcpy (bin, good_bin, sizeof (good_bin));
        for (uint64_t n = mt19937_interval (&mt, 3); n > 0; n--)
            damage (&mt, idx + mt19937_interval (&mt, idx_size - 1));
        damage (&mt, bin + mt19937_interval (&mt, bin_size - 1));
        if (mt19937_interval (&mt, 3) == 0)
            idx_size = mt19937_interval (&mt, sizeof (idx));
        if (mt19937_interval (&mt, 3) == 0)
            bin_size = mt19937_interval (&mt, sizeof (bin));
        write_set (bin, bin_size, idx, idx_size);
        if (survive (&err))
            accepted++;
        else
            refused += err.text[0] != '\0' && !strchr (err.text, '\n');
    }
    is_int (accepted + refused, ROUNDS, "a damaged set is refused with a text, or read");
    diag ("%d refused, %d still good", refused, accepted);
}

int main (void)
{
    folder_create (folder, sizeof (folder));
    snprintf (prefix, sizeof (prefix), "%s/set", folder);
    test_good ();
    test_fields ();
    test_truncation ();
    test_longer ();
    test_files ();
    test_tokens ();
    test_mutations ();
    folder_remove (folder);
    return done_testing ();
}
