/* Flat ranges of a parameter's part as rectangles of its tensor: every element once, in its
 * place, with the data that goes with it; which rank writes.
 */

#include <string.h>

#include "libcore/nn/param.h"
#include "tests/tap/tap.h"

enum { ROWS = 5, COLS = 4, NUMEL = ROWS * COLS };

/* Is element i of the part, from..to, held by exactly one piece, at its place? */
static bool covers (const struct param *p, int64_t from, int64_t to, size_t *most)
{
    float data[NUMEL + 1]; /* data[i - from] is i */
    int hit[NUMEL] = { 0 };
    struct piece pieces[PARAM_MAX_PIECES];
    size_t n;
    int64_t cols = p->ndims == 2 ? p->extent[1] : 1;
    bool right = true;

    for (int64_t i = from; i < to; i++)
        data[i - from] = (float)i;
    n = param_range_pieces (p, "x.", from, to, data, true, 0, pieces);
    *most = n > *most ? n : *most;
    for (size_t k = 0; k < n; k++) {
        const struct piece *q = &pieces[k];
        int64_t width = q->ndims == 2 ? q->extent[1] : 1;
        const float *next = q->data;

        right = right && q->owner && strcmp (q->name, "x.w") == 0;
        for (int64_t i = 0; i < q->extent[0] * width; i++) {
            int64_t row = q->offset[0] + i / width - p->offset[0];
            int64_t col = q->ndims == 2 ? q->offset[1] + i % width - p->offset[1] : 0;
            int64_t at = row * cols + col;

            right = right && at >= from && at < to && next[i] == (float)at;
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
    struct param p = { .name = "w", .ndims = 1, .global = { 9 }, .extent = { 9 }, .numel = 9 };
    struct piece pieces[PARAM_MAX_PIECES];
    float data[9];

    is_int (param_range_pieces (&p, "", 4, 4, data, true, 0, pieces), 0, "nothing, no piece");
    param_range_pieces (&p, "", 1, 3, data, true, 1, pieces);
    ok (!pieces[0].owner, "what all tensor-parallel ranks have is written by the first");
    p.tp_sharded = true;
    param_range_pieces (&p, "", 1, 3, data, true, 1, pieces);
    ok (pieces[0].owner, "what is split by each");
    param_range_pieces (&p, "", 1, 3, data, false, 1, pieces);
    ok (!pieces[0].owner, "if it is a writer");
    p.shared_copy = true;
    param_range_pieces (&p, "", 1, 3, data, true, 1, pieces);
    ok (!pieces[0].owner, "a copy by nobody");
}

int main (void)
{
    const struct param matrix = { .name = "w", .ndims = 2, .global = { 11, 9 },
                                  .offset = { 3, 2 }, .extent = { ROWS, COLS },
                                  .numel = NUMEL };
    const struct param column = { .name = "w", .ndims = 2, .global = { 11, 1 },
                                  .extent = { 7, 1 }, .numel = 7 };
    const struct param vector = { .name = "w", .ndims = 1, .global = { 30 },
                                  .offset = { 6 }, .extent = { 13 }, .numel = 13 };

    test_ranges (&matrix, 3);
    test_ranges (&column, 1);
    test_ranges (&vector, 1);
    test_writer ();
    return done_testing ();
}
