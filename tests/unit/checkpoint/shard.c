/* shard.c - one rank's file: what is written is read, what is wrong is named */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/checkpoint/shard.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/model.h"
#include "tests/unit/checkpoint/scratch.h"

static const struct shard_id id = { .iteration = 100, .save = "0123456789abcdef" };

static void test_names (void)
{
    static const struct {
        const char *name;
        int rank;
    } cases[] = {
        { "shard_00000.bin", 0 },        { "shard_00003.bin", 3 },
        { "shard_99999.bin", 99999 },    { "shard_100000.bin", 100000 },
        { "shard_99999999.bin", 99999999 },
        { "shard_100000000.bin", -1 },   { "shard_0003.bin", -1 },
        { "shard_000003.bin", -1 },      { "shard_00003.bin2", -1 },
        { "shard_00003", -1 },           { "shard_-0003.bin", -1 },
        { "shard_.bin", -1 },            { "../shard_00003.bin", -1 },
        { "shard_0003a.bin", -1 },       { "", -1 },
        { "shard_99999999999999999999999999.bin", -1 },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++)
        is_int (shard_rank (cases[i].name), cases[i].rank, "\"%s\"", cases[i].name);
}

static void test_place (void)
{
    int64_t end = 0, offset;

    ok (shard_place (&end, 5, &offset) && offset == 64 && end == 69, "the first part");
    ok (shard_place (&end, 59, &offset) && offset == 128 && end == 187, "the second");
    ok (shard_place (&end, 5, &offset) && offset == 192 && end == 197, "the third");
    end = INT64_MAX - 63;
    ok (!shard_place (&end, 1, &offset), "an end near the largest number");
    end = 64;
    ok (!shard_place (&end, INT64_MAX - 63, &offset), "a size near the largest number");
    is_int (shard_slab (4, 4), 1, "a slab of one element");
    is_int (shard_slab (3, 4), 1, "has at least one");
    is_int (shard_slab (9, 4), 2, "or what fits");
}

/* All parts of one rank's file against its pieces. */
static void check_shard (const char *path, const struct model *m, const uint64_t *sums,
                         size_t num_sums, int64_t size)
{
    struct mg_error err = { .text = "" };
    struct shard *shard = shard_open (path, &id, 3, size, &err);
    char *buf = malloc (SHARD_SLAB_BYTES), *want = malloc (SHARD_SLAB_BYTES);
    int64_t end = 0, offset, wrong = 0;
    size_t next = 0;

    if (!ok (shard != NULL, "the shard opens %s", err.text))
        return;
    for (size_t i = 0; i < m->n; i++) {
        const struct piece *p = &m->pieces[i];
        const size_t element = mg_dtype_size (p->dtype);
        struct box part = box_of_inside (p), slab;
        int64_t done = 0;

        if (box_count (part) == 0 || !p->owner)
            continue;
        shard_place (&end, box_count (part) * (int64_t)element, &offset);
        while (box_next_slab (part, shard_slab (SHARD_SLAB_BYTES, element), &done, &slab)) {
            size_t len = (size_t)box_count (slab) * element;

            box_copy (want, slab, p->data, box_of_piece (p), slab, element);
            wrong += next >= num_sums
                     || shard_read (shard, offset, buf, len, sums[next++], &err) < 0
                     || memcmp (buf, want, len) != 0;
            offset += (int64_t)len;
        }
    }
    ok (wrong == 0 && next == num_sums && end == size, "every slab is right");
    shard_close (shard);
    free (buf);
    free (want);
}

static void test_write (void)
{
    const char *path = scratch_path ("shard");
    struct mg_error err = { .text = "" };
    uint64_t *sums;
    size_t n, len;

    for (int cut = MODEL_ROWS; cut <= MODEL_GRID; cut++) {
        struct model m;

        unlink (path);
        model_create (&m, model_large, model_large_count, (enum model_cut)cut, 1, 4);
        model_fill (&m, 1);
        is_int (shard_write (path, &id, 3, m.pieces, m.n, &sums, &n, &err), 0,
                "pieces of cut %d are written %s", cut, err.text);
        free (scratch_read (path, &len));
        check_shard (path, &m, sums, n, (int64_t)len);
        free (sums);
        model_destroy (&m);
    }
    ok (shard_write (scratch_path ("empty"), &id, 3, NULL, 0, &sums, &n, &err) == 0
            && n == 0 && !sums && access (scratch_path ("empty"), F_OK) < 0,
        "nothing owned, no file");
}

static void test_refuses (void)
{
    const struct shard_id other = { .iteration = 100, .save = "0123456789abcdee" };
    const struct shard_id later = { .iteration = 101, .save = "0123456789abcdef" };
    struct piece p = { .name = "x", .dtype = MG_UINT8, .ndims = 1, .global = { 6 },
                       .extent = { 6 }, .data = "abcdef", .owner = true };
    const char *path = scratch_path ("small");
    struct mg_error err = { .text = "" };
    char *good, bad[71], buf[8];
    struct shard *shard;
    uint64_t *sums;
    size_t n, len;

    is_int (shard_write (path, &id, 3, &p, 1, &sums, &n, &err), 0, "a small shard");
    free (sums);
    ok (shard_write (path, &id, 3, &p, 1, &sums, &n, &err) < 0 && errno == EEXIST,
        "refused: %s", err.text);
    unlink (path);
    is_int (shard_write (path, &id, 3, &p, 1, &sums, &n, &err), 0, "once more");
    good = scratch_read (path, &len);
    is_int (len, 70, "it has 64 + 6 bytes");
    ok (!shard_open (path, &other, 3, 70, &err) && errno == EBADMSG, "refused: %s", err.text);
    ok (!shard_open (path, &later, 3, 70, &err) && errno == EBADMSG, "refused: %s", err.text);
    ok (!shard_open (path, &id, 4, 70, &err) && errno == EBADMSG, "refused: %s", err.text);
    ok (!shard_open (path, &id, 3, 71, &err) && errno == EBADMSG
            && strstr (err.text, "truncated: 70 bytes of 71"), "refused: %s", err.text);
    ok (!shard_open (path, &id, 3, 69, &err) && errno == EBADMSG, "refused: %s", err.text);
    ok (!shard_open (scratch_path ("no"), &id, 3, 70, &err) && errno == ENOENT
            && strstr (err.text, "is missing"), "refused: %s", err.text);
    ok (!shard_open ("/", &id, 3, 70, &err) && errno == EBADMSG, "refused: %s", err.text);
    for (size_t i = 0; i < 70; i++) { /* each byte damaged */
        static const char *const texts[] = {
            "is not a file of a checkpoint", "of its header is wrong", "damaged"
        };
        const char *want = texts[i < 8 ? 0 : i < 64 ? 1 : 2];

        memcpy (bad, good, 70);
        bad[i] ^= 4;
        err.text[0] = '\0';
        shard = shard_open (scratch_write ("small", bad, 70), &id, 3, 70, &err);
        if (shard && shard_read (shard, 64, buf, 6, sums[0], &err) == 0)
            snprintf (err.text, sizeof (err.text), "it reads");
        if (!strstr (err.text, want) || (shard != NULL) != (i >= 64))
            ok (false, "byte %zu is damaged: %s", i, err.text);
        shard_close (shard);
    }
    ok (true, "refused: %s, and 69 others", err.text);
    free (good);
    free (sums);
}

int main (void)
{
    alarm (550);
    scratch_create ();
    test_names ();
    test_place ();
    test_write ();
    test_refuses ();
    return done_testing ();
}
