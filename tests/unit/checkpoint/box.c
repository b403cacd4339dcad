/* box.c - rectangles: against the same done element by element */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "libcore/checkpoint/box.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

static struct box random_box (long limit)
{
    return (struct box){ (int64_t)scratch_random ((unsigned long)limit),
                         (int64_t)scratch_random ((unsigned long)limit),
                         (int64_t)scratch_random ((unsigned long)limit),
                         (int64_t)scratch_random ((unsigned long)limit) };
}

static bool has (struct box b, int64_t row, int64_t col)
{
    return row >= b.row && row < b.row + b.rows && col >= b.col && col < b.col + b.cols;
}

static void test_intersect (void)
{
    int wrong = 0;

    for (int round = 0; round < 2000; round++) {
        struct box a = random_box (6), b = random_box (6), both;
        bool any = false, got = box_intersect (a, b, &both);

        for (int64_t i = 0; i < 144; i++)
            any |= has (a, i / 12, i % 12) && has (b, i / 12, i % 12);
        wrong += got != any;
        for (int64_t i = 0; got && i < 144; i++)
            wrong += has (both, i / 12, i % 12)
                     != (has (a, i / 12, i % 12) && has (b, i / 12, i % 12));
    }
    is_int (wrong, 0, "2000 intersections are right, element by element");
}

static void test_copy (void)
{
    int wrong = 0;

    for (int round = 0; round < 2000; round++) {
        struct box from = random_box (6), to = random_box (6), part;
        unsigned char src[25 * 3 + 1], dst[25 * 3 + 1];
        const size_t size = 1 + scratch_random (3);

        if (!box_intersect (from, to, &part))
            continue;
        memset (src, 0xaa, sizeof (src));
        memset (dst, 0xee, sizeof (dst));
        for (int64_t i = 0; i < box_count (from); i++)
            src[(size_t)i * size] = (unsigned char)((from.row + i / from.cols) * 16
                                                    + from.col + i % from.cols);
        box_copy (dst, to, src, from, part, size);
        for (int64_t i = 0; i < box_count (to); i++) {
            int64_t row = to.row + i / to.cols, col = to.col + i % to.cols;
            unsigned char want = has (part, row, col) ? (unsigned char)(row * 16 + col)
                                                      : 0xee;

            wrong += dst[(size_t)i * size] != want;
        }
        wrong += dst[(size_t)box_count (to) * size] != 0xee;
    }
    is_int (wrong, 0, "2000 copies put every element in its place and touch no other");
}

/* Elements of a piece that counts them, as int32; what lies outside cannot be read. */
static int read_count (const struct piece *p, int64_t from, int64_t n, void *out,
                       struct mg_error *err)
{
    int32_t *to = out;

    if (from < 0 || n < 0 || from + n > p->extent[0] * p->extent[1])
        return mg_error_set (err, EINVAL, "%lld + %lld", (long long)from, (long long)n);
    for (int64_t i = 0; i < n; i++)
        to[i] = (int32_t)(from + i);
    return 0;
}

static void test_copy_piece (void)
{
    struct mg_error err = { "" };
    int wrong = 0, failed = 0;

    for (int round = 0; round < 2000; round++) {
        struct box from = random_box (6), to = random_box (6), part;
        struct piece p = { .dtype = MG_INT32, .ndims = 2, .read = read_count,
                           .offset = { from.row, from.col },
                           .extent = { from.rows, from.cols } };
        int32_t all[25], want[25], got[25];

        if (!box_intersect (from, to, &part))
            continue;
        memset (want, 0xee, sizeof (want));
        memset (got, 0xee, sizeof (got));
        read_count (&p, 0, box_count (from), all, &err);
        box_copy (want, to, all, from, part, sizeof (all[0]));
        failed += box_copy_piece (got, to, &p, part, &err) < 0;
        wrong += memcmp (got, want, sizeof (got)) != 0;
        p.data = all;
        p.read = NULL;
        memset (got, 0xee, sizeof (got));
        failed += box_copy_piece (got, to, &p, part, &err) < 0;
        wrong += memcmp (got, want, sizeof (got)) != 0;
    }
    is_int (failed, 0, "what has to be read is read within its bounds: %s", err.text);
    is_int (wrong, 0, "and is copied as what lies in memory");
}

static void test_slabs (void)
{
    int wrong = 0;

    for (int round = 0; round < 2000; round++) {
        struct box whole = random_box (8), slab;
        int64_t max = 1 + (int64_t)scratch_random (20), done = 0, before = 0, count = 0;

        while (box_next_slab (whole, max, &done, &slab)) {
            int64_t first = (slab.row - whole.row) * whole.cols + slab.col - whole.col;

            count++;
            wrong += first != before; /* where the last one ended */
            wrong += box_count (slab) < 1 || box_count (slab) > max;
            wrong += slab.rows > 1 && slab.cols != whole.cols;
            wrong += slab.col + slab.cols > whole.col + whole.cols;
            before += box_count (slab);
        }
        wrong += before != box_count (whole) || done != before;
        wrong += count != box_num_slabs (whole, max);
    }
    is_int (wrong, 0, "2000 boxes are cut into slabs, contiguous and complete");
}

static void test_piece (void)
{
    struct piece p = { .name = "w", .ndims = 2, .global = { 10, 4 }, .offset = { 8, 0 },
                       .extent = { 4, 4 }, .data = &p };
    struct box b;

    is_int (box_check_piece (&p, NULL), 0, "a piece with padding is good");
    b = box_of_inside (&p);
    ok (b.row == 8 && b.rows == 2 && b.col == 0 && b.cols == 4, "its inside is cut");
    p.offset[0] = 10;
    is_int (box_count (box_of_inside (&p)), 0, "all padding is empty");
    p = (struct piece){ .name = "b", .ndims = 1, .global = { 7 }, .offset = { 6 },
                        .extent = { 3 }, .data = &p };
    b = box_of_inside (&p);
    ok (b.row == 0 && b.rows == 1 && b.col == 6 && b.cols == 1, "one dimension is a row");
    p.extent[0] = 0;
    p.data = NULL;
    is_int (box_check_piece (&p, NULL), 0, "nothing needs no data");
    is_int (box_count (box_of_inside (&p)), 0, "and is empty");
}

static void test_texts (void)
{
    static const int64_t shape[] = { 64, 256 };
    static const int64_t huge[] = { INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX,
                                    INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX };
    char text[BOX_TEXT_MAX], name[BOX_NAME_MAX], longest[300];

    is_str (box_text (text, (struct box){ 0, 4, 8, 8 }, 2), "[0:4, 8:16]", "a box");
    is_str (box_text (text, (struct box){ 0, 1, 8, 8 }, 1), "[8:16]", "a range");
    is_str (box_shape_text (text, shape, 2), "[64, 256]", "a shape");
    is_str (box_shape_text (text, shape, 0), "[]", "a scalar's");
    ok (strlen (box_shape_text (text, huge, 8)) < BOX_TEXT_MAX, "a huge one is cut");
    is_str (box_name_text (name, "a\nb\tc\x7f"), "a?b?c?", "a name on one line");
    memset (longest, 'x', sizeof (longest) - 1);
    longest[sizeof (longest) - 1] = '\0';
    is_int (strlen (box_name_text (name, longest)), BOX_NAME_MAX - 1, "a long name is cut");
}

int main (void)
{
    test_intersect ();
    test_copy ();
    test_copy_piece ();
    test_slabs ();
    test_piece ();
    test_texts ();
    return done_testing ();
}
