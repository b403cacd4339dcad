/* Flat ranges of a parameter's part as rectangles of its tensor: every element once, in its
 * place, with the data that goes with it; which rank writes.
 */

#include <string.h>

#include "libcore/nn/param.h"
#include "tests/tap/tap.h"

enum { ROWS = 5, COLS = 4, NUMEL = ROWS * COLS };

/* Element of the part that is (row, col) of the whole tensor, -1: none. */
static int64_t place (const struct param *p, int64_t row, int64_t col)
{
    int64_t cols = p->ndims == 2 ? p->extent[1] : 1, first = 0;

    for (int i = 0; i < p->num_rects; i++) {
        const struct param_rect *r = &p->rect[i];
        int64_t down = row - r->offset[0], right = p->ndims == 2 ? col - r->offset[1] : 0;

        if (down >= 0 && down < r->rows && right >= 0 && right < cols)
            return (first + down) * cols + right;
        first += r->rows;
    }
    return -1;
}

/* Is element i of the part, from..to, held by exactly one piece, at its place, in order? */
static bool covers (const struct param *p, int64_t from, int64_t to, size_t *most)
{
    int hit[NUMEL] = { 0 };
    struct piece pieces[PARAM_MAX_PIECES];
    size_t n;
    int64_t next = from;
    bool right = true;

    n = param_pieces (p, "x.", from, to, true, 0, pieces);
    *most = n > *most ? n : *most;
    for (size_t k = 0; k < n; k++) {
        const struct piece *q = &pieces[k];
        int64_t width = q->ndims == 2 ? q->extent[1] : 1;

        right = right && q->owner && strcmp (q->name, "x.w") == 0;
        for (int64_t i = 0; i < q->extent[0] * width; i++) {
            int64_t col = q->ndims == 2 ? q->offset[1] + i % width : 0;
            int64_t at = place (p, q->offset[0] + i / width, col);

            right = right && at == next++ && at < to;
            if (right)
                hit[at]++;
        }
    }
    for (int64_t i = 0; i < p->numel; i++)
        right = right && hit[i] == (i >= from && i < to);
    return right;
}

static void test_ranges (const struct param *p, size_t most_pieces)
{
    bool all = true;
    size_t most = 0;

    for (int64_t from = 0; from <= p->numel; from++)
        for (int64_t to = from; to <= p->numel; to++)
            all = all && covers (p, from, to, &most);
    ok (all, "%d dimensions: all ranges of %d elements", p->ndims, (int)p->numel);
    is_int (most, most_pieces, "in so many pieces at most");
}

static void test_writer (void)
{
    struct param p = { .name = "w", .ndims = 1, .global = { 9 }, .extent = { 9 }, .numel = 9,
                       .rect = { { 9, { 0 } } }, .num_rects = 1 };
    struct piece pieces[PARAM_MAX_PIECES];

    is_int (param_pieces (&p, "", 4, 4, true, 0, pieces), 0, "nothing, no piece");
    param_pieces (&p, "", 1, 3, true, 1, pieces);
    ok (!pieces[0].owner, "what all tensor-parallel ranks have is written by the first");
    p.tp_sharded = true;
    param_pieces (&p, "", 1, 3, true, 1, pieces);
    ok (pieces[0].owner, "what is split by each");
    param_pieces (&p, "", 1, 3, false, 1, pieces);
    ok (!pieces[0].owner, "if it is a writer");
    p.shared_copy = true;
    param_pieces (&p, "", 1, 3, true, 1, pieces);
    ok (!pieces[0].owner, "a copy by nobody");
}

/* Padding is behind the last true row. */
static void test_padding (void)
{
    const struct param p = { .name = "w", .ndims = 2, .global = { 5, 3 }, .extent = { 4, 3 },
                             .numel = 12, .rect = { { 4, { 3, 0 } } }, .num_rects = 1 };
    const struct param beyond = { .name = "w", .ndims = 2, .global = { 5, 3 },
                                  .extent = { 4, 3 }, .numel = 12, .rect = { { 4, { 8, 0 } } },
                                  .num_rects = 1 };

    is_int (param_true_elements (&p, 0, 12), 6, "two rows of four are no padding");
    is_int (param_true_elements (&p, 4, 5), 1, "inside");
    is_int (param_true_elements (&p, 5, 9), 1, "across the end");
    is_int (param_true_elements (&p, 7, 12), 0, "behind it");
    is_int (param_true_elements (&beyond, 0, 12), 0, "all rows are padding");
}

/* A part has the initial values of its places in the whole tensor. */
static void test_init (const struct param *part)
{
    const struct param whole = { .ndims = 2, .global = { 16, 3 }, .extent = { 16, 3 },
                                 .numel = 48, .rect = { { 16, { 0, 0 } } }, .num_rects = 1 };
    float all[48], own[12];
    struct param p = *part, q = whole;
    struct kernels *k = kernels_cpu_create (1, NULL);
    bool same = true;

    if (!k)
        bail_out ("kernels");
    p.init_std = q.init_std = 0.5;
    p.init_key = q.init_key = 42;
    p.data = own;
    q.data = all;
    ok (param_init (&p, k, NULL, NULL) == 0 && param_init (&q, k, NULL, NULL) == 0,
        "initial values");
    for (int64_t i = 0; i < 16 * 3; i++) {
        int64_t at = place (part, i / 3, i % 3);

        same = same && (at < 0 || own[at] == all[i]);
    }
    ok (same, "of two rectangles are those of their places");
    kernels_cpu_destroy (k);
}

int main (void)
{
    const struct param matrix = { .name = "w", .ndims = 2, .global = { 11, 9 },
                                  .extent = { ROWS, COLS }, .numel = NUMEL,
                                  .rect = { { ROWS, { 3, 2 } } }, .num_rects = 1 };
    const struct param column = { .name = "w", .ndims = 2, .global = { 11, 1 },
                                  .extent = { 7, 1 }, .numel = 7, .rect = { { 7, { 0, 0 } } },
                                  .num_rects = 1 };
    const struct param vector = { .name = "w", .ndims = 1, .global = { 30 }, .extent = { 13 },
                                  .numel = 13, .rect = { { 13, { 6 } } }, .num_rects = 1 };
    /* a gate and what it multiplies: the second quarter of each half */
    const struct param halves = { .name = "w", .ndims = 2, .global = { 16, 3 },
                                  .extent = { 4, 3 }, .numel = 12,
                                  .rect = { { 2, { 2, 0 } }, { 2, { 10, 0 } } },
                                  .num_rects = 2 };
    const struct param both = { .name = "w", .ndims = 1, .global = { 16 }, .extent = { 6 },
                                .numel = 6, .rect = { { 3, { 3 } }, { 3, { 11 } } },
                                .num_rects = 2 };

    test_ranges (&matrix, 3);
    test_ranges (&column, 1);
    test_ranges (&vector, 1);
    test_ranges (&halves, 4);
    test_ranges (&both, 2);
    test_writer ();
    test_padding ();
    test_init (&halves);
    return done_testing ();
}
