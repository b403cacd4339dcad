/* safetensors_save.c - one file from the pieces of many ranks */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/checkpoint/safetensors.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/model.h"
#include "tests/unit/checkpoint/scratch.h"
#include "tests/unit/checkpoint/threads.h"

enum { MAX_RANKS = 16 };

struct saving {
    const char *path;
    const struct model_tensor *tensors;
    size_t n;
    enum model_cut cut;
    void (*spoil) (struct model *m, int rank); /* NULL: nothing */
    int rc[MAX_RANKS], errnum[MAX_RANKS];
    struct mg_error err[MAX_RANKS];
};

static void save (struct mg_comm *comm, void *arg)
{
    const int rank = mg_comm_rank (comm);
    struct saving *s = arg;
    struct model m;

    model_create (&m, s->tensors, s->n, s->cut, rank, mg_comm_size (comm));
    model_fill (&m, 1);
    if (s->spoil)
        s->spoil (&m, rank);
    s->err[rank].text[0] = '\0';
    s->rc[rank] = safetensors_save (s->path, m.pieces, m.n, comm, &s->err[rank]);
    s->errnum[rank] = errno;
    model_destroy (&m);
}

/* Number of ranks whose result or text is not that of rank 0. */
static int differing (const struct saving *s, int ranks)
{
    int n = 0;

    for (int r = 1; r < ranks; r++)
        n += s->rc[r] != s->rc[0] || strcmp (s->err[r].text, s->err[0].text) != 0
             || (s->rc[r] < 0 && s->errnum[r] != s->errnum[0]);
    return n;
}

static void save_pieces (struct mg_comm *comm, void *arg)
{
    struct piece *pieces = arg;
    struct mg_error err;

    if (safetensors_save (scratch_path ("bytes"), pieces, 2, comm, &err) < 0)
        diag ("%s", err.text);
}

/* Exactly what the format says, byte for byte. */
static void test_bytes (void)
{
    static const char header[] =
        "{\"steps\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
        "\"\\\"q\":{\"dtype\":\"U8\",\"shape\":[1,2],\"data_offsets\":[8,10]}}";
    struct piece pieces[2] = {
        { .name = "steps", .dtype = MG_INT64, .ndims = 1, .global = { 1 },
          .extent = { 1 }, .data = "\1\2\3\4\5\6\7\x08", .owner = true },
        { .name = "\"q", .dtype = MG_UINT8, .ndims = 2, .global = { 1, 2 },
          .extent = { 1, 2 }, .data = "ab", .owner = true },
    };
    const size_t n = (sizeof (header) - 1 + 7) / 8 * 8;
    unsigned char want[256];
    size_t len;
    void *got;

    memset (want, ' ', sizeof (want));
    memcpy (want, "\0\0\0\0\0\0\0", 8);
    want[0] = (unsigned char)n;
    memcpy (want + 8, header, sizeof (header) - 1);
    memcpy (want + 8 + n, "\1\2\3\4\5\6\7\x08" "ab", 10);
    threads_run (1, save_pieces, pieces);
    got = scratch_read (scratch_path ("bytes"), &len);
    ok (n % 8 == 0 && n > sizeof (header) - 1, "the header needs blanks to fill 8 bytes");
    is_int (len, 8 + n + 10, "the file has the length");
    ok (len == 8 + n + 10 && memcmp (got, want, len) == 0, "and the bytes");
    free (got);
}

/* The whole file equals that of one rank, and reads back. */
static void check_file (const char *path, const struct model_tensor *tensors, size_t n,
                        const void *want, size_t want_len, const char *what)
{
    struct mg_error err = { .text = "" };
    struct safetensors *st;
    struct model m;
    size_t len;
    void *got = scratch_read (path, &len);

    ok (!want || (len == want_len && memcmp (got, want, len) == 0),
        "%s: the same file as from one rank", what);
    free (got);
    model_create (&m, tensors, n, MODEL_WHOLE, 0, 1);
    if (ok ((st = safetensors_open (path, &err)) != NULL, "%s: opens %s", what, err.text))
        is_int (safetensors_load (st, m.pieces, m.n, &err), 0, "%s: loads", what);
    is_int (model_check (&m, 1), 0, "%s: has every value", what);
    safetensors_close (st);
    model_destroy (&m);
}

static void test_layouts (void)
{
    struct saving s = { .path = scratch_path ("weights"), .tensors = model_small,
                        .n = model_small_count, .cut = MODEL_WHOLE };
    static const int sizes[] = { 1, 2, 3, 4, 8 };
    char *one;
    size_t len;

    threads_run (1, save, &s);
    one = scratch_read (s.path, &len);
    for (int cut = 0; cut < MODEL_NUM_CUTS; cut++) {
        for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++) {
            char what[80];

            s.cut = (enum model_cut)cut;
            snprintf (what, sizeof (what), "cut %d by %d ranks", cut, sizes[i]);
            unlink (s.path);
            threads_run (sizes[i], save, &s);
            is_int (s.rc[0], 0, "%s: saves %s", what, s.err[0].text);
            is_int (differing (&s, sizes[i]), 0, "%s: the same everywhere", what);
            /* Stages name their tensors rank by rank: another order in the file. */
            check_file (s.path, model_small, model_small_count,
                        cut == MODEL_STAGE ? NULL : one, len, what);
        }
    }
    free (one);
}

/* Rank 0's tensors first, in its order, then what rank 1 adds. */
static void test_order (void)
{
    static const char *const want[] = { "embedding.weight", "steps", "bytes", "none",
                                        "embedding.bias", "half", "double" };
    struct saving s = { .path = scratch_path ("order"), .tensors = model_small,
                        .n = model_small_count, .cut = MODEL_STAGE };
    size_t len;
    char *text, *at;

    threads_run (2, save, &s);
    text = scratch_read (s.path, &len);
    at = text + 8;
    for (size_t i = 0; i < sizeof (want) / sizeof (want[0]); i++) {
        char key[80];
        char *found;

        snprintf (key, sizeof (key), "\"%s\":", want[i]);
        found = strstr (at, key);
        ok (found != NULL, "in the header, %s is number %zu", want[i], i);
        at = found ? found : at;
    }
    free (text);
}

static void test_large (void)
{
    struct saving s = { .path = scratch_path ("large"), .tensors = model_large,
                        .n = model_large_count };

    for (int cut = MODEL_ROWS; cut <= MODEL_GRID; cut++) {
        char what[80];

        s.cut = (enum model_cut)cut;
        snprintf (what, sizeof (what), "more than a slab, cut %d by 4", cut);
        threads_run (4, save, &s);
        is_int (s.rc[0], 0, "%s: saves %s", what, s.err[0].text);
        check_file (s.path, model_large, model_large_count, NULL, 0, what);
    }
    unlink (s.path);
}

static void spoil_overlap (struct model *m, int rank)
{
    m->pieces[0].offset[0] -= rank == 1; /* one row up */
}

static void spoil_gap (struct model *m, int rank)
{
    m->pieces[0].owner = rank != 1;
}

static void spoil_nobody (struct model *m, int rank)
{
    (void)rank;
    m->pieces[1].owner = false;
}

static void spoil_type (struct model *m, int rank)
{
    m->pieces[2].dtype = rank == 3 ? MG_FLOAT64 : m->pieces[2].dtype;
}

static void spoil_shape (struct model *m, int rank)
{
    m->pieces[0].global[1] += rank == 2;
}

static void spoil_piece (struct model *m, int rank)
{
    if (rank == 3)
        m->pieces[0].ndims = 7;
    if (rank == 2)
        m->pieces[0].offset[0] = -3;
}

static void spoil_name (struct model *m, int rank)
{
    if (rank == 1)
        m->pieces[0].name[3] = (char)0xff;
}

static void test_refuses (void)
{
    static const struct {
        void (*spoil) (struct model *m, int rank);
        const char *text;
    } cases[] = {
        { spoil_overlap, "tensor embedding.weight: part [0:3, 0:6] of rank 0 and part "
                         "[2:5, 0:6] of rank 1 overlap" },
        { spoil_gap, "tensor embedding.weight: 18 of its 60 elements are in nobody's part" },
        { spoil_nobody, "tensor embedding.bias: 7 of its 7 elements are in nobody's part" },
        { spoil_type, "tensor steps: rank 3 says float64 [1], another said int64 [1]" },
        { spoil_shape, "tensor embedding.weight: rank 2 says float32 [10, 7], another said "
                       "float32 [10, 6]" },
        { spoil_piece, "embedding.weight: dimension 0: part -3 of size 3" },
        { spoil_name, "its name is not UTF-8" },
    };
    struct saving s = { .path = scratch_path ("refused"), .tensors = model_small,
                        .n = model_small_count, .cut = MODEL_ROWS };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        s.spoil = cases[i].spoil;
        threads_run (4, save, &s);
        ok (s.rc[0] < 0 && s.errnum[0] == EINVAL && strstr (s.err[0].text, cases[i].text),
            "refused: %s", s.err[0].text);
        is_int (differing (&s, 4), 0, "the same everywhere");
        ok (access (s.path, F_OK) < 0, "and there is no file");
    }
}

static int count_files (void)
{
    char command[4200];
    FILE *f;
    int n = -1;

    snprintf (command, sizeof (command), "ls -A '%s' | wc -l", scratch_path ("out"));
    if ((f = popen (command, "r"))) {
        if (fscanf (f, "%d", &n) != 1)
            n = -1;
        pclose (f);
    }
    return n;
}

/* What cannot be written leaves the old file, and nothing beside it. */
static void test_no_space (void)
{
    struct saving s = { .tensors = model_small, .n = model_small_count, .cut = MODEL_ROWS };
    struct rlimit had, limit;
    size_t len;
    void *got;

    mkdir (scratch_path ("out"), 0777);
    s.path = scratch_write ("out/weights", "old", 3);
    getrlimit (RLIMIT_FSIZE, &had);
    limit = (struct rlimit){ 700, had.rlim_max }; /* in the middle of the data */
    signal (SIGXFSZ, SIG_IGN);
    setrlimit (RLIMIT_FSIZE, &limit);
    threads_run (4, save, &s);
    setrlimit (RLIMIT_FSIZE, &had);
    ok (s.rc[0] < 0 && s.errnum[0] == EFBIG && strstr (s.err[0].text, "cannot write"),
        "refused: %s", s.err[0].text);
    is_int (differing (&s, 4), 0, "the same everywhere");
    got = scratch_read (scratch_path ("out/weights"), &len);
    ok (len == 3 && memcmp (got, "old", 3) == 0, "the old file is there");
    free (got);
    is_int (count_files (), 1, "and nothing else");
    s.path = scratch_path ("out/none/weights");
    threads_run (4, save, &s);
    ok (s.rc[0] < 0 && s.errnum[0] == ENOENT
            && strstr (s.err[0].text, "none/weights: its directory cannot"),
        "refused: %s", s.err[0].text);
    s.path = scratch_path ("out/dir");
    mkdir (s.path, 0777);
    threads_run (4, save, &s);
    ok (s.rc[0] < 0 && strstr (s.err[0].text, "it is a directory"), "refused: %s",
        s.err[0].text);
    is_int (count_files (), 2, "and nothing stays behind");
}

int main (void)
{
    alarm (550);
    scratch_create ();
    test_bytes ();
    test_layouts ();
    test_order ();
    test_large ();
    test_refuses ();
    test_no_space ();
    return done_testing ();
}
