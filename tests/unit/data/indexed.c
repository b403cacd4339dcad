/* indexed.c - the builder writes Megatron's bytes, the reader gives them back */

#include <errno.h>
#include <stdint.h>

#include "libcore/data/indexed.h"
#include "tests/unit/data/support.h"

static char folder[200];
static char prefix[300];

/* Two documents, of two sequences and of none, in uint16; written out by hand. */
static const unsigned char small_bin[] = {
    0x01, 0x00, 0x00, 0x01, 0xff, 0xff, /* 1 256 65535 */
    0x07, 0x00,                         /* 7 */
};
static const unsigned char small_idx[] = {
    'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0, /* magic */
    1, 0, 0, 0, 0, 0, 0, 0,                  /* version */
    8,                                       /* uint16 */
    2, 0, 0, 0, 0, 0, 0, 0,                  /* sequences */
    3, 0, 0, 0, 0, 0, 0, 0,                  /* documents + 1 */
    3, 0, 0, 0, 1, 0, 0, 0,                  /* lengths */
    0, 0, 0, 0, 0, 0, 0, 0,                  /* pointers */
    6, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0,                  /* where documents begin */
    2, 0, 0, 0, 0, 0, 0, 0,
    2, 0, 0, 0, 0, 0, 0, 0,
};

static bool file_is (const char *path, const void *want, size_t want_size)
{
    size_t size = 0;
    unsigned char *bytes = read_bytes (path, &size);
    bool same = bytes && size == want_size && memcmp (bytes, want, size) == 0;

    free (bytes);
    return same;
}

static void test_bytes (void)
{
    static const int32_t tokens[] = { 1, 256, 65535, 7 };
    struct mg_error err = { .text = "" };
    struct indexed_builder *b = indexed_builder_create (prefix, INDEXED_UINT16, &err);

    if (!ok (b != NULL, "a builder is made"))
        bail_out ("%s", err.text);
    ok (indexed_builder_append (b, tokens, 1, &err) == 0
        && indexed_builder_append (b, tokens + 1, 0, &err) == 0
        && indexed_builder_append (b, tokens + 1, 2, &err) == 0
        && indexed_builder_end_sequence (b, &err) == 0, "a sequence in pieces");
    ok (indexed_builder_append (b, tokens + 3, 1, &err) == 0
        && indexed_builder_end_sequence (b, &err) == 0
        && indexed_builder_end_document (b, &err) == 0,
        "another, and the document's end");
    ok (indexed_builder_end_document (b, &err) == 0, "a document of nothing");
    ok (access (with_ending (prefix, ".bin"), F_OK) < 0
        && access (with_ending (prefix, ".idx"), F_OK) < 0,
        "nothing to see before the end");
    ok (indexed_builder_finalize (b, &err) == 0, "finalize works");
    indexed_builder_destroy (b);
    ok (file_is (with_ending (prefix, ".bin"), small_bin, sizeof (small_bin)),
        ".bin has the bytes");
    ok (file_is (with_ending (prefix, ".idx"), small_idx, sizeof (small_idx)),
        ".idx has the bytes");
    is_int (folder_files (folder, false), 2, "and no other file is there");
}

static void test_read (void)
{
    struct mg_error err = { .text = "" };
    struct indexed *ix = indexed_open (prefix, &err);
    int32_t tokens[3] = { 0 };

    if (!ok (ix != NULL, "it can be opened"))
        bail_out ("%s", err.text);
    is_int (indexed_dtype (ix), INDEXED_UINT16, "type");
    is_int (indexed_num_sequences (ix), 2, "sequences");
    is_int (indexed_num_documents (ix), 2, "documents");
    is_int (indexed_num_tokens (ix), 4, "tokens");
    is_int (indexed_length (ix, 1), 1, "length");
    is_int (indexed_length (ix, 2), 0, "length of none");
    is_int (indexed_pointer (ix, 1), 6, "pointer");
    is_int (indexed_pointer (ix, 2), 0, "pointer of none");
    is_int (indexed_document_start (ix, 1), 2, "document 1 begins at its end");
    is_int (indexed_document_start (ix, 2), 2, "where document 2 would begin");
    is_int (indexed_document_start (ix, 99), 2, "and any further");
    is_int (indexed_has_modes (ix) + indexed_mode (ix, 0), 0, "no modes");
    ok (indexed_get (ix, 0, 1, 2, tokens, &err) == 0 && tokens[0] == 256
        && tokens[1] == 65535 && tokens[2] == 0, "a part of a sequence");
    ok (indexed_get (ix, 0, 3, 0, tokens, &err) == 0, "nothing from its end");
    ok (indexed_get (ix, 0, 1, 3, tokens, &err) == -1 && errno == EINVAL,
        "not beyond it: %s", err.text);
    ok (indexed_get (ix, 0, 4, 0, tokens, &err) == -1, "nor from there: %s", err.text);
    ok (indexed_get (ix, 0, 1, SIZE_MAX, tokens, &err) == -1, "nor all: %s", err.text);
    ok (indexed_get (ix, 0, SIZE_MAX, 2, tokens, &err) == -1, "nor around: %s", err.text);
    ok (indexed_get (ix, 2, 0, 0, tokens, &err) == -1, "no sequence 2: %s", err.text);
    indexed_close (ix);
}

/* The largest and the first too large token of every type, and negative ones. */
static void test_types (void)
{
    static const struct {
        enum indexed_dtype dtype;
        const char *name;
        size_t size;
        int32_t max;
    } cases[] = {
        { INDEXED_UINT8, "uint8", 1, 255 },
        { INDEXED_INT8, "int8", 1, 127 },
        { INDEXED_INT16, "int16", 2, 32767 },
        { INDEXED_INT32, "int32", 4, INT32_MAX },
        { INDEXED_INT64, "int64", 8, INT32_MAX },
        { INDEXED_UINT16, "uint16", 2, 65535 },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        const int32_t max = cases[i].max;
        const int32_t tokens[] = { 0, 1, max / 2, max - 1, max };
        const int32_t over = max < INT32_MAX ? max + 1 : -1;
        const int32_t negative = -1;
        struct mg_error err = { .text = "" };
        int32_t back[COUNT (tokens)] = { 0 };
        struct indexed_builder *b;
        struct indexed *ix;

        is_str (indexed_dtype_name (cases[i].dtype), cases[i].name, "name");
        is_int (indexed_dtype_size (cases[i].dtype), cases[i].size, "size");
        b = indexed_builder_create (prefix, cases[i].dtype, &err);
        ok (b && indexed_builder_append (b, tokens, COUNT (tokens), &err) == 0
            && indexed_builder_end_sequence (b, &err) == 0
            && indexed_builder_end_document (b, &err) == 0,
            "%s is written", cases[i].name);
        errno = 0;
        ok (indexed_builder_append (b, &over, 1, &err) == -1 && errno == ERANGE,
            "too large is refused: %s", err.text);
        ok (indexed_builder_append (b, &negative, 1, &err) == -1,
            "negative is refused: %s", err.text);
        ok (indexed_builder_finalize (b, &err) == 0, "the rest is kept");
        indexed_builder_destroy (b);
        ix = indexed_open (prefix, &err);
        ok (ix && indexed_get (ix, 0, 0, COUNT (tokens), back, &err) == 0
            && memcmp (back, tokens, sizeof (back)) == 0, "and read back");
        indexed_close (ix);
    }
    is_int (indexed_dtype_size (0) + indexed_dtype_size (9), 0, "no type 0, no type 9");
    is_str (indexed_dtype_name (9), "unknown", "type 9 has no name");
    is_int (indexed_dtype_for_vocab (65499), INDEXED_UINT16, "65499 ids fit uint16");
    is_int (indexed_dtype_for_vocab (65500), INDEXED_INT32, "65500 take int32");
}

/* Many pieces, larger than any buffer inside. */
static void test_long (void)
{
    enum { N = 100003 };
    struct mg_error err = { .text = "" };
    int32_t *tokens = calloc (N, sizeof (*tokens));
    int32_t *back = calloc (N, sizeof (*back));
    struct indexed_builder *b = indexed_builder_create (prefix, INDEXED_INT32, &err);
    struct indexed *ix;

    for (int i = 0; i < N; i++)
        tokens[i] = i * 17;
    for (int at = 0, n = 1; at < N; at += n, n = 2 * n < N - at ? 2 * n : N - at)
        indexed_builder_append (b, tokens + at, n < N - at ? n : N - at, &err);
    indexed_builder_end_sequence (b, &err);
    for (int i = 0; i < 3000; i++) {
        indexed_builder_end_sequence (b, &err);
        indexed_builder_end_document (b, &err);
    }
    ok (indexed_builder_finalize (b, &err) == 0, "a long sequence and many empty ones");
    indexed_builder_destroy (b);
    ix = indexed_open (prefix, &err);
    ok (ix && indexed_num_sequences (ix) == 3001 && indexed_num_documents (ix) == 3000
        && indexed_get (ix, 0, 0, N, back, &err) == 0
        && memcmp (tokens, back, N * sizeof (*back)) == 0, "are read back: %s", err.text);
    indexed_close (ix);
    free (tokens);
    free (back);
}

/* What goes wrong must leave nothing behind, and an older set as it was. */
static void test_badparam (void)
{
    static const int32_t token = 1;
    struct mg_error err = { .text = "" };
    struct indexed_builder *b;

    folder_files (folder, true);
    errno = 0;
    ok (!indexed_builder_create (prefix, INDEXED_FLOAT32, &err) && errno == EINVAL,
        "float elements are refused: %s", err.text);
    ok (!indexed_builder_create (prefix, 9, &err), "type 9 is refused: %s", err.text);
    errno = 0;
    ok (!indexed_builder_create ("/no/such/folder/x", INDEXED_UINT8, &err)
        && errno == ENOENT, "a folder that is not there: %s", err.text);
    b = indexed_builder_create (prefix, INDEXED_UINT8, &err);
    indexed_builder_append (b, &token, 1, &err);
    errno = 0;
    ok (indexed_builder_end_document (b, &err) == -1 && errno == EINVAL,
        "a document cannot end in a sequence: %s", err.text);
    ok (indexed_builder_finalize (b, &err) == -1, "nor can a set: %s", err.text);
    indexed_builder_end_sequence (b, &err);
    ok (indexed_builder_finalize (b, &err) == -1, "nor in a document: %s", err.text);
    indexed_builder_destroy (b);
    indexed_builder_destroy (NULL);
    indexed_close (NULL);
    is_int (folder_files (folder, false), 0, "and nothing is left behind");

    write_bytes (with_ending (prefix, ".bin"), small_bin, sizeof (small_bin));
    write_bytes (with_ending (prefix, ".idx"), small_idx, sizeof (small_idx));
    b = indexed_builder_create (prefix, INDEXED_UINT8, &err);
    indexed_builder_append (b, &token, 1, &err);
    indexed_builder_destroy (b);
    ok (file_is (with_ending (prefix, ".bin"), small_bin, sizeof (small_bin))
        && file_is (with_ending (prefix, ".idx"), small_idx, sizeof (small_idx))
        && folder_files (folder, false) == 2, "an older set stays if the new one fails");
}

static void test_empty (void)
{
    struct mg_error err = { .text = "" };
    struct indexed_builder *b = indexed_builder_create (prefix, INDEXED_INT32, &err);
    struct indexed *ix;
    int32_t token;

    ok (indexed_builder_finalize (b, &err) == 0, "a set of nothing is written");
    indexed_builder_destroy (b);
    ix = indexed_open (prefix, &err);
    ok (ix && indexed_num_sequences (ix) == 0 && indexed_num_documents (ix) == 0
        && indexed_num_tokens (ix) == 0, "and read: %s", err.text);
    ok (indexed_get (ix, 0, 0, 0, &token, &err) == -1, "nothing is in it: %s", err.text);
    indexed_close (ix);
}

static bool same_file (const char *original, const char *ending)
{
    return same_files (with_ending (prefix, ending), with_ending (original, ending));
}

/* Read a dataset and write it again: the files must be the same, modes aside. */
static bool rebuild (const struct indexed *ix, const char *original)
{
    struct mg_error err = { .text = "" };
    struct indexed_builder *b = indexed_builder_create (prefix, indexed_dtype (ix), &err);
    size_t sequence = 0;
    bool good = b != NULL;

    for (size_t d = 0; good && d < indexed_num_documents (ix); d++) {
        for (; sequence < indexed_document_start (ix, d + 1); sequence++) {
            size_t n = indexed_length (ix, sequence);
            int32_t *tokens = calloc (n + 1, sizeof (*tokens));

            good = good && indexed_get (ix, sequence, 0, n, tokens, &err) == 0
                   && indexed_builder_append (b, tokens, n, &err) == 0
                   && indexed_builder_end_sequence (b, &err) == 0;
            free (tokens);
        }
        good = good && indexed_builder_end_document (b, &err) == 0;
    }
    good = good && indexed_builder_finalize (b, &err) == 0;
    indexed_builder_destroy (b);
    if (!good)
        diag ("%s", err.text);
    return good && same_file (original, ".bin")
           && (indexed_has_modes (ix) || same_file (original, ".idx"));
}

static bool tables_are (const struct indexed *ix, const json_t *want)
{
    size_t n;
    size_t d;
    size_t m;
    int64_t *lengths = json_numbers (json_object_get (want, "sequence_lengths"), &n);
    int64_t *pointers = json_numbers (json_object_get (want, "sequence_pointers"), &n);
    int64_t *starts = json_numbers (json_object_get (want, "document_indices"), &d);
    int64_t *modes = json_numbers (json_object_get (want, "modes"), &m);
    bool same = indexed_num_sequences (ix) == n && indexed_num_documents (ix) + 1 == d
                && indexed_has_modes (ix) == (m > 0);

    for (size_t i = 0; same && i < n; i++)
        same = indexed_length (ix, i) == lengths[i]
               && indexed_pointer (ix, i) == pointers[i]
               && indexed_mode (ix, i) == (m > 0 ? modes[i] : 0);
    for (size_t i = 0; same && i < d; i++)
        same = indexed_document_start (ix, i) == (size_t)starts[i];
    free (lengths);
    free (pointers);
    free (starts);
    free (modes);
    return same;
}

static bool tokens_are (const struct indexed *ix, size_t sequence, size_t offset,
                        const json_t *want)
{
    size_t n;
    int64_t *numbers = json_numbers (want, &n);
    int32_t *tokens = calloc (n + 1, sizeof (*tokens));
    bool same = indexed_get (ix, sequence, offset, n, tokens, NULL) == 0;

    for (size_t i = 0; same && i < n; i++)
        same = tokens[i] == numbers[i];
    free (numbers);
    free (tokens);
    return same;
}

static void test_golden (void)
{
    json_t *golden = load_golden ();
    json_t *cases = json_object_get (golden, "indexed_datasets");
    json_t *one;
    size_t i;

    json_array_foreach (cases, i, one) {
        json_t *items = json_object_get (one, "items");
        json_t *gets = json_object_get (one, "get");
        const char *name = json_text (one, "name");
        struct mg_error err = { .text = "" };
        char file[100];
        char path[600];
        struct indexed *ix;
        bool same = true;

        snprintf (file, sizeof (file), "golden/08_data/%s.idx", name);
        if (!shared_file (path, sizeof (path), file))
            bail_out ("no %s", path);
        path[strlen (path) - strlen (".idx")] = '\0';
        ix = indexed_open (path, &err);
        if (!ok (ix != NULL, "reference: %s is read", name)) {
            diag ("%s", err.text);
            continue;
        }
        is_str (indexed_dtype_name (indexed_dtype (ix)), json_text (one, "dtype"),
                "type");
        ok (tables_are (ix, one), "tables");
        for (size_t j = 0; j < json_array_size (items); j++)
            same = same && tokens_are (ix, j, 0, json_array_get (items, j));
        ok (same, "the tokens of %zu sequences", json_array_size (items));
        for (size_t j = 0; j < json_array_size (gets); j++) {
            json_t *get = json_array_get (gets, j);

            ok (tokens_are (ix, json_int (get, "idx"), json_int (get, "offset"),
                            json_object_get (get, "out")), "a part");
        }
        ok (rebuild (ix, path), "written again, it is the same%s",
            indexed_has_modes (ix) ? " (.bin only: we write no modes)" : "");
        indexed_close (ix);
    }
    json_decref (golden);
}

/* Larger files that Megatron wrote. */
static void test_large (void)
{
    static const char *const names[] = {
        "tinyshakespeare_gpt2_uint16_text_document",
        "tinyshakespeare_gpt2_int32_text_document",
        "tinyshakespeare_bert_uint16_text_sentence",
    };

    for (size_t i = 0; i < COUNT (names); i++) {
        struct mg_error err = { .text = "" };
        char file[100];
        char path[600];
        struct indexed *ix;

        snprintf (file, sizeof (file), "data/megatron_bin/%s.idx", names[i]);
        if (!shared_file (path, sizeof (path), file)) {
            skip (1, "no reference data: %s", path);
            continue;
        }
        path[strlen (path) - strlen (".idx")] = '\0';
        ix = indexed_open (path, &err);
        ok (ix && rebuild (ix, path), "%s read and written again is the same: %s",
            names[i], err.text);
        indexed_close (ix);
    }
}

/* Sequences 0..5 of 3, 0, 1, 2, 4 and 1 tokens in documents [0, 2), [2, 2), [2, 5) and [5, 6), in
 * an element type, with modes. */
static void write_documents (const char *path, bool modes)
{
    static const int lengths[] = { 3, 0, 1, 2, 4, 1 }, ends[] = { 2, 2, 5, 6 };
    struct indexed_builder *b = indexed_builder_create (path, INDEXED_UINT8, NULL);
    FILE *f;
    int i = 0;

    for (size_t d = 0; d < COUNT (ends); d++) {
        for (; i < ends[d]; i++) {
            for (int32_t t = 0; t < lengths[i]; t++)
                indexed_builder_append (b, &(int32_t){ 10 * i + t }, 1, NULL);
            indexed_builder_end_sequence (b, NULL);
        }
        indexed_builder_end_document (b, NULL);
    }
    if (indexed_builder_finalize (b, NULL) < 0)
        bail_out ("cannot write %s", path);
    indexed_builder_destroy (b);
    if (modes && (!(f = fopen (with_ending (path, ".idx"), "a"))
                  || fwrite ("\1\2\3\4\5\377", 6, 1, f) != 1 || fclose (f) != 0))
        bail_out ("cannot add modes to %s", path);
}

/* Whatever the cuts, the ranges together are the dataset. */
static void test_copy (bool modes)
{
    struct mg_error err = { .text = "" };
    char from[300], to[300];
    struct indexed *ix;
    int wrong = 0, cuts = 0;

    snprintf (from, sizeof (from), "%s/from", folder);
    snprintf (to, sizeof (to), "%s/to", folder);
    write_documents (from, modes);
    if (!(ix = indexed_open (from, &err)))
        bail_out ("%s", err.text);
    for (size_t one = 0; one <= 4; one++) {
        for (size_t two = one; two <= 4; two++, cuts++) {
            struct indexed_builder *b = indexed_builder_create (to, INDEXED_UINT8, &err);
            const struct indexed_range ranges[] = {
                indexed_documents (ix, 0, one),
                indexed_documents (ix, one, two),
                indexed_documents (ix, two, 4),
            };

            for (size_t i = 0; i < COUNT (ranges); i++)
                wrong += !b || indexed_builder_copy (b, ix, &ranges[i], &err) < 0;
            wrong += !b || indexed_builder_finalize (b, &err) < 0;
            indexed_builder_destroy (b);
            wrong += !same_files (with_ending (from, ".idx"), with_ending (to, ".idx"))
                     || !same_files (with_ending (from, ".bin"), with_ending (to, ".bin"));
        }
    }
    is_int (wrong, 0, "documents copied with %d cuts%s: %s", cuts, modes ? " and modes" : "",
            err.text);
    indexed_close (ix);
}

/* Document 2, [2, 5), is cut before sequence 3: [2, 3) here, [3, 5) there. */
static void test_copy_cut (void)
{
    static const struct indexed_range head = { 0, 3, 0, 3 }, tail = { 2, 4, 3, 6 };
    struct mg_error err = { .text = "" };
    struct indexed_builder *b;
    struct indexed *ix, *copy;
    char from[300], to[300];

    snprintf (from, sizeof (from), "%s/from", folder);
    snprintf (to, sizeof (to), "%s/to", folder);
    ix = indexed_open (from, &err);
    b = indexed_builder_create (to, INDEXED_UINT8, &err);
    if (!ix || !b || indexed_builder_copy (b, ix, &tail, &err) < 0
        || indexed_builder_copy (b, ix, &head, &err) < 0
        || indexed_builder_finalize (b, &err) < 0 || !(copy = indexed_open (to, &err)))
        bail_out ("%s", err.text);
    indexed_builder_destroy (b);
    is_int (indexed_num_documents (copy), 5, "a document that is cut is two");
    is_int (indexed_document_start (copy, 1), 2, "of sequences 3 and 4");
    is_int (indexed_document_start (copy, 2), 3, "the last document");
    is_int (indexed_document_start (copy, 3), 5, "of the first two");
    is_int (indexed_document_start (copy, 4), 5, "the empty one");
    is_int (indexed_document_start (copy, 5), 6, "and sequence 2");
    ok (indexed_length (copy, 0) == 2 && indexed_length (copy, 5) == 1
            && indexed_mode (copy, 0) == 4 && indexed_mode (copy, 5) == 3,
        "sequences keep lengths and modes");
    indexed_close (copy);
    indexed_close (ix);
}

static void test_copy_errors (void)
{
    struct mg_error err = { .text = "" };
    char from[300], to[300], plain[300];
    struct indexed_range all = { 0, 4, 0, 6 };
    struct indexed_builder *b;
    struct indexed *ix, *without;
    unsigned char byte;

    snprintf (from, sizeof (from), "%s/from", folder);
    snprintf (to, sizeof (to), "%s/to", folder);
    snprintf (plain, sizeof (plain), "%s/plain", folder);
    write_documents (plain, false);
    ix = indexed_open (from, &err);
    without = indexed_open (plain, &err);
    b = indexed_builder_create (to, INDEXED_UINT16, &err);
    if (!ix || !without || !b)
        bail_out ("%s", err.text);
    ok (indexed_builder_copy (b, ix, &all, &err) == -1 && errno == EINVAL,
        "another type: %s", err.text);
    indexed_builder_destroy (b);
    b = indexed_builder_create (to, INDEXED_UINT8, &err);
    ok (indexed_builder_copy (b, ix, &all, &err) == 0
            && indexed_builder_copy (b, without, &all, &err) == -1 && errno == EINVAL,
        "modes behind none: %s", err.text);
    indexed_builder_end_sequence (b, &err);
    ok (indexed_builder_copy (b, ix, &all, &err) == -1 && errno == EINVAL,
        "inside a document: %s", err.text);
    indexed_builder_destroy (b);
    ok (indexed_read (ix, 11, 1, &byte, &err) == -1 && errno == EINVAL,
        "no byte behind the last: %s", err.text);
    ok (indexed_read (ix, -1, 1, &byte, &err) == -1, "nor before the first: %s", err.text);
    ok (indexed_read (ix, 1, SIZE_MAX, &byte, &err) == -1, "nor all: %s", err.text);
    ok (indexed_read (ix, 11, 0, &byte, &err) == 0, "nothing from the end");
    indexed_close (ix);
    indexed_close (without);
}

int main (void)
{
    folder_create (folder, sizeof (folder));
    snprintf (prefix, sizeof (prefix), "%s/set", folder);
    test_bytes ();
    test_read ();
    test_types ();
    test_long ();
    test_badparam ();
    test_empty ();
    test_golden ();
    test_large ();
    test_copy (false);
    test_copy (true);
    test_copy_cut ();
    test_copy_errors ();
    folder_remove (folder);
    return done_testing ();
}
