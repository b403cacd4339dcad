/* gpt_cache.c - indices in files: written, read, shared, refused where they do not fit */

#include <errno.h>
#include <stdint.h>
#include <sys/wait.h>

#include "libcore/data/gpt_cache.h"
#include "libcore/data/indexed.h"
#include "libcore/data/mt19937.h"
#include "libcore/data/npy.h"
#include "tests/unit/data/support.h"

static char folder[200];
static char prefix[300];
static char cache[300];

/* Twelve documents of 0 to 11 tokens, and 'more' at the end. */
static void write_dataset (int more)
{
    struct indexed_builder *b = indexed_builder_create (prefix, INDEXED_UINT16, NULL);
    const int32_t token = 7;

    for (int i = 0; i < 12 + (more > 0); i++) {
        for (int j = 0; j < (i < 12 ? i : more); j++)
            indexed_builder_append (b, &token, 1, NULL);
        indexed_builder_end_sequence (b, NULL);
        indexed_builder_end_document (b, NULL);
    }
    if (indexed_builder_finalize (b, NULL) < 0)
        bail_out ("no dataset");
    indexed_builder_destroy (b);
}

static struct gpt_identity identity (int64_t num_samples)
{
    return (struct gpt_identity){
        .prefix = prefix,
        .num_samples = num_samples,
        .part = SPLIT_TRAIN,
        .seed = 5,
        .seq_length = 4,
        .split = "9,1,0",
    };
}

static struct gpt_index *open_index (const char *directory, int64_t num_samples,
                                     struct mg_error *err)
{
    const struct gpt_identity id = identity (num_samples);
    struct indexed *ix = indexed_open (prefix, err);
    struct gpt_index *index = ix ? gpt_cache_open (directory, &id, ix, err) : NULL;

    indexed_close (ix);
    return index;
}

static bool same_index (const struct gpt_index *a, const struct gpt_index *b)
{
    return a && b && a->row_length == b->row_length && a->num_samples == b->num_samples
           && a->num_epochs == b->num_epochs && a->num_documents == b->num_documents
           && a->separate_final_epoch == b->separate_final_epoch
           && memcmp (a->document_index, b->document_index,
                      a->row_length * sizeof (*a->document_index)) == 0
           && memcmp (a->sample_index, b->sample_index,
                      (a->num_samples + 1) * sizeof (*a->sample_index)) == 0
           && memcmp (a->shuffle_index, b->shuffle_index,
                      a->num_samples * sizeof (*a->shuffle_index)) == 0;
}

static void drop_cache (void)
{
    folder_files (cache, true);
    rmdir (cache);
}

/* "CACHE/MD5-GPTDataset-train-" + ending, of the only index there */
static const char *file_of (int64_t num_samples, const char *ending)
{
    const struct gpt_identity id = identity (num_samples);
    static char path[600];
    char *text = index_text_gpt (&id, NULL);
    char *base = index_text_name (cache, "GPTDataset", SPLIT_TRAIN, text, NULL);

    snprintf (path, sizeof (path), "%s%s", base, ending);
    free (base);
    free (text);
    return path;
}

static void test_round_trip (void)
{
    /* one epoch; several; the last of them apart */
    static const int64_t sizes[] = { GPT_INDEX_ONE_EPOCH, 1, 13, 30, 17 };
    int apart = 0;

    for (size_t i = 0; i < COUNT (sizes); i++) {
        struct mg_error err = { .text = "" };
        struct gpt_index *made = open_index (NULL, sizes[i], &err);
        struct gpt_index *first = open_index (cache, sizes[i], &err);
        struct gpt_index *second;
        size_t size = 0;
        unsigned char *text;
        const struct gpt_identity id = identity (sizes[i]);
        char *want = index_text_gpt (&id, NULL);

        ok (same_index (made, first), "%d samples: made and written: %s", (int)sizes[i],
            err.text);
        is_int (folder_files (cache, false), 4, "four files");
        second = open_index (cache, sizes[i], &err);
        ok (same_index (made, second), "read: %s", err.text);
        ok (second && second->files && second->files[0].map, "from the files");
        text = read_bytes (file_of (sizes[i], "description.txt"), &size);
        ok (text && size == strlen (want) && memcmp (text, want, size) == 0,
            "beside their description");
        apart += made->separate_final_epoch;
        gpt_index_destroy (made);
        gpt_index_destroy (first);
        gpt_index_destroy (second);
        free (text);
        free (want);
        drop_cache ();
    }
    ok (apart > 0, "one of them with its last epoch apart");
}

/* Many processes make the same index at once; none sees half of it. */
static void test_race (void)
{
    enum { PROCESSES = 12 };
    pid_t pids[PROCESSES];
    int good = 0;
    struct gpt_index *made = open_index (NULL, 30, NULL);

    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork ();
        if (pids[i] == 0) {
            struct gpt_index *index = open_index (cache, 30, NULL);

            _exit (same_index (made, index) ? 0 : 1);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 1;

        good += pids[i] > 0 && waitpid (pids[i], &status, 0) == pids[i] && status == 0;
    }
    is_int (good, PROCESSES, "%d processes have the same index", PROCESSES);
    is_int (folder_files (cache, false), 4, "and left four files");
    gpt_index_destroy (made);
    drop_cache ();
}

/* A file is missing, as if a run was killed: the index is made anew. */
static void test_incomplete (void)
{
    static const char *const endings[] = { "description.txt", "document_index.npy",
                                           "sample_index.npy", "shuffle_index.npy" };
    struct gpt_index *made = open_index (NULL, 13, NULL);

    for (size_t i = 0; i < COUNT (endings); i++) {
        struct gpt_index *index;

        gpt_index_destroy (open_index (cache, 13, NULL));
        unlink (file_of (13, endings[i]));
        index = open_index (cache, 13, NULL);
        ok (same_index (made, index) && folder_files (cache, false) == 4,
            "without %s it is made again", endings[i]);
        gpt_index_destroy (index);
        drop_cache ();
    }
    gpt_index_destroy (made);
}

/* Change one element of one file. */
static void change (const char *ending, size_t at, int64_t value)
{
    const char *path = file_of (17, ending);
    size_t size = 0;
    unsigned char *bytes = read_bytes (path, &size);
    uint32_t element = (uint32_t)value;

    memcpy (bytes + 128 + 4 * at, &element, 4);
    write_bytes (path, bytes, size);
    free (bytes);
}

/* 17 samples of 4 are two epochs of 11 documents, the last apart. */
static void test_faults (void)
{
    static const struct {
        const char *ending;
        size_t at;
        int64_t value;
        const char *text;
    } cases[] = {
        { "document_index.npy", 0, 11, "document 0 is 11, want 0 to 10" },
        { "document_index.npy", 3, -1, "document 3 is -1, want 0 to 10" },
        { "sample_index.npy", 0, 1,
          "sample 0 begins at token 0 of document 1, want token 0 "
          "of document 0" },
        { "sample_index.npy", 3, 77, "sample 1 begins at token 77 of document " },
        { "shuffle_index.npy", 0, 13, "sample 0 is number 13, want 0 to 12" },
        { "shuffle_index.npy", 14, 2, "sample 14 is number 2, want 13 to " },
        { "shuffle_index.npy", 14, -1, "sample 14 is number 4294967295, want 13 to " },
    };
    struct gpt_index *made = open_index (NULL, 17, NULL);

    if (!made || !made->separate_final_epoch || made->row_length != 22)
        bail_out ("the case is not what the test expects");
    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err = { .text = "" };

        gpt_index_destroy (open_index (cache, 17, NULL));
        change (cases[i].ending, cases[i].at, cases[i].value);
        errno = 0;
        ok (!open_index (cache, 17, &err) && errno == EINVAL
            && strstr (err.text, cases[i].ending) && strstr (err.text, cases[i].text),
            "refused: %s", err.text);
        drop_cache ();
    }
    /* twice the same, in either part of a row whose last epoch stands apart */
    for (size_t at = 0; at < 22; at += 11) {
        struct mg_error err = { .text = "" };

        gpt_index_destroy (open_index (cache, 17, NULL));
        change ("document_index.npy", at, made->document_index[at + 1]);
        ok (!open_index (cache, 17, &err)
                && strstr (err.text, "document_index.npy: document")
                && strstr (err.text, "more than the 1 times"),
            "refused: %s", err.text);
        change ("document_index.npy", at, made->document_index[at]);
        change ("shuffle_index.npy", at, made->shuffle_index[at + 1]);
        ok (!open_index (cache, 17, &err)
                && strstr (err.text, "shuffle_index.npy: sample")
                && strstr (err.text, "which was there before"),
            "refused: %s", err.text);
        drop_cache ();
    }
    gpt_index_destroy (made);
}

/* The dataset has changed since. */
static void test_stale (void)
{
    struct mg_error err = { .text = "" };

    gpt_index_destroy (open_index (cache, 17, NULL));
    write_dataset (40);
    errno = 0;
    ok (!open_index (cache, 17, &err) && errno == EINVAL
        && strstr (err.text, "document_index.npy: shape is 22 x 1, want 24 x 1, as the "
                   "dataset has it now; remove the file"), "refused: %s", err.text);
    write_dataset (0);
    drop_cache ();
}

/* The wider elements that Megatron-LM writes for a large dataset, and wrong ones. */
static void test_types (void)
{
    struct gpt_index *made = open_index (NULL, 17, NULL);
    struct gpt_index *index;
    struct mg_error err = { .text = "" };
    int64_t wide[100];
    struct npy_array array = { NPY_INT64, 2, { made->num_samples + 1, 2 }, wide };

    gpt_index_destroy (open_index (cache, 17, NULL));
    for (int64_t i = 0; i <= made->num_samples; i++) {
        wide[2 * i] = made->sample_index[i].document;
        wide[2 * i + 1] = made->sample_index[i].offset;
    }
    npy_write (file_of (17, "sample_index.npy"), &array, NULL);
    for (int64_t i = 0; i < made->num_samples; i++)
        wide[i] = made->shuffle_index[i];
    array = (struct npy_array){ NPY_INT64, 1, { made->num_samples, 1 }, wide };
    npy_write (file_of (17, "shuffle_index.npy"), &array, NULL);
    index = open_index (cache, 17, &err);
    ok (same_index (made, index), "elements of 64 bits: %s", err.text);
    gpt_index_destroy (index);
    wide[4] = 1LL << 32;
    npy_write (file_of (17, "shuffle_index.npy"), &array, NULL);
    ok (!open_index (cache, 17, &err)
            && strstr (err.text, "element 4 is 4294967296, want"),
        "refused: %s", err.text);
    npy_write (file_of (17, "document_index.npy"), &array, NULL);
    ok (!open_index (cache, 17, &err) && strstr (err.text, "elements of another type"),
        "refused: %s", err.text);
    gpt_index_destroy (made);
    drop_cache ();
}

/* Any damage is refused with the name of a file, or leaves an index that is one. */
static void test_mutations (void)
{
    enum { ROUNDS = 1500 };
    static const char *const endings[] = { "document_index.npy", "sample_index.npy",
                                           "shuffle_index.npy" };
    struct mt19937 mt;
    int refused = 0, accepted = 0;

    gpt_index_destroy (open_index (cache, 17, NULL));
    mt19937_seed (&mt, 20240303, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        const char *path = file_of (17, endings[round % 3]);
        struct mg_error err = { .text = "" };
        struct gpt_index *index;
        size_t size = 0;
        unsigned char *good = read_bytes (path, &size);
        unsigned char *bad = malloc (size);
        size_t n = size;

        memcpy (bad, good, size);
        for (int k = mt19937_interval (&mt, 2); k >= 0; k--)
            bad[mt19937_interval (&mt, size - 1)] += 1 + mt19937_interval (&mt, 3);
        if (mt19937_interval (&mt, 7) == 0)
            n = mt19937_interval (&mt, size);
        write_bytes (path, bad, n);
        index = open_index (cache, 17, &err);
        if (!index)
            refused += strstr (err.text, ".npy: ") && !strchr (err.text, '\n');
        else
            accepted += index->num_samples == 27;
        gpt_index_destroy (index);
        write_bytes (path, good, size);
        free (good);
        free (bad);
    }
    is_int (refused + accepted, ROUNDS, "damaged files are refused by name, or good");
    diag ("%d refused, %d still good", refused, accepted);
    drop_cache ();
}

static void test_directory (void)
{
    struct mg_error err = { .text = "" };
    char path[400];
    struct gpt_index *index;

    snprintf (path, sizeof (path), "%s/deep/er", cache);
    index = open_index (path, 13, &err);
    ok (index && folder_files (path, true) == 4, "the directory is made: %s", err.text);
    gpt_index_destroy (index);
    rmdir (path);
    *strrchr (path, '/') = '\0';
    rmdir (path);
    rmdir (cache);
    write_bytes (cache, "", 0);
    errno = 0;
    ok (!open_index (cache, 13, &err) && errno == ENOTDIR && strstr (err.text, cache),
        "a file in its place: %s", err.text);
    unlink (cache);
}

int main (void)
{
    folder_create (folder, sizeof (folder));
    snprintf (prefix, sizeof (prefix), "%s/set", folder);
    snprintf (cache, sizeof (cache), "%s/cache", folder);
    write_dataset (0);
    test_round_trip ();
    test_race ();
    test_incomplete ();
    test_faults ();
    test_stale ();
    test_types ();
    test_mutations ();
    test_directory ();
    folder_remove (folder);
    return done_testing ();
}
