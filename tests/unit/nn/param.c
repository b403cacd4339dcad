/* Flat ranges of a parameter's part as pieces of its tensor: every element once, in its
 * place, with the data that goes with it; which rank writes.
 */

#include <stdio.h>
#include <string.h>

#include "libcore/nn/param.h"
#include "tests/tap/tap.h"

enum { ROWS = 5, COLS = 4, NUMEL = ROWS * COLS };

/* Element of the part that is (row, col) of the whole tensor, -1: none. */
static int64_t place (const struct param *p, int64_t row, int64_t col)
{
    const struct param_runs *r = &p->runs;
    int64_t cols = p->ndims == 2 ? p->extent[1] : 1;

    for (int64_t i = 0; i < r->count; i++) {
        int64_t down = row - r->offset[0] - i * r->stride;
        int64_t right = p->ndims == 2 ? col - r->offset[1] : 0;

        if (down >= 0 && down < r->rows && right >= 0 && right < cols)
            return (i * r->rows + down) * cols + right;
    }
    return -1;
}

/* Is element i of the part, from..to, held by exactly one piece, at its place, in order? */
static bool covers (const struct param *p, int64_t from, int64_t to, size_t *most)
{
    int hit[NUMEL] = { 0 };
    size_t n = 0;
    int64_t next = from;
    bool right = true;

    for (int64_t at = from, end; at < to; at = end, n++) {
        struct piece q;
        int64_t width;

        end = param_piece (p, "x.", at, to, true, 0, &q);
        width = q.ndims == 2 ? q.extent[1] : 1;
        right = right && q.owner && strcmp (q.name, "x.w") == 0
                && end == at + q.extent[0] * width;
        for (int64_t i = 0; i < q.extent[0] * width; i++) {
            int64_t col = q.ndims == 2 ? q.offset[1] + i % width : 0;
            int64_t found = place (p, q.offset[0] + i / width, col);

            right = right && found == next++ && found < to;
            if (right)
                hit[found]++;
        }
    }
    right = right && n == param_num_pieces (p, from, to);
    *most = n > *most ? n : *most;
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

static bool is_owner (const struct param *p, bool writer, int tp_rank)
{
    struct piece piece;

    param_piece (p, "", 1, 3, writer, tp_rank, &piece);
    return piece.owner;
}

static void test_writer (void)
{
    struct param p = { .name = "w", .ndims = 1, .global = { 9 }, .extent = { 9 }, .numel = 9,
                       .runs = { { 0 }, 9, 1, 0 } };

    is_int (param_num_pieces (&p, 4, 4), 0, "nothing, no piece");
    ok (!is_owner (&p, true, 1), "what all tensor-parallel ranks have is written by the first");
    p.tp_sharded = true;
    ok (is_owner (&p, true, 1), "what is split by each");
    ok (!is_owner (&p, false, 1), "if it is a writer");
    p.shared_copy = true;
    ok (!is_owner (&p, true, 1), "a copy by nobody");
}

/* Padding is behind the last true row. */
static void test_padding (void)
{
    const struct param p = { .name = "w", .ndims = 2, .global = { 5, 3 }, .extent = { 4, 3 },
                             .numel = 12, .runs = { { 3, 0 }, 4, 1, 0 } };
    const struct param beyond = { .name = "w", .ndims = 2, .global = { 5, 3 },
                                  .extent = { 4, 3 }, .numel = 12, .runs = { { 8, 0 }, 4, 1, 0 } };

    is_int (param_true_elements (&p, 0, 12), 6, "two rows of four are no padding");
    is_int (param_true_elements (&p, 4, 5), 1, "inside");
    is_int (param_true_elements (&p, 5, 9), 1, "across the end");
    is_int (param_true_elements (&p, 7, 12), 0, "behind it");
    is_int (param_true_elements (&beyond, 0, 12), 0, "all rows are padding");
}

/* --- experts --- */

enum { EXPERTS = 4, WIDE = 8, DEEP = 3 }; /* WIDE rows are 2 blocks of a gated product */

/* What a rank has of the experts' tensors: as layer_describe() says it
 * (tests/unit/model/gpt.c).
 */
static struct param expert_part (int ep, int ep_rank, int etp, int etp_rank, bool by_cols)
{
    int64_t local = EXPERTS / ep, rows = by_cols ? WIDE : WIDE / etp;
    int64_t cols = by_cols ? DEEP * 4 / etp : DEEP, blocks = by_cols ? 1 : 2;
    struct param p = {
        .name = "layer.local_experts.%d.w", .ndims = 2, .expert = true, .tp_sharded = true,
        .global = { WIDE, by_cols ? DEEP * 4 : DEEP }, .extent = { local * rows, cols },
        .numel = local * rows * cols,
        .runs = { { ep_rank * local * WIDE + (by_cols ? 0 : etp_rank * rows / blocks),
                    by_cols ? etp_rank * cols : 0 },
                  rows / blocks, local * blocks, WIDE / blocks },
    };

    return p;
}

/* Count the elements of each expert that the pieces of this rank's ranges have; ranges of 'step'
 * elements, as shards cut them.
 */
static bool count_pieces (const struct param *p, int64_t step,
                          int hits[EXPERTS][WIDE][DEEP * 4])
{
    bool right = true;

    for (int64_t from = 0; from < p->numel; from += step) {
        int64_t to = from + step < p->numel ? from + step : p->numel;

        for (int64_t at = from, end; at < to; at = end) {
            struct piece q;
            int expert = -1;

            end = param_piece (p, "a.", at, to, true, 1, &q);
            right = right && q.owner && end > at && end <= to
                    && sscanf (q.name, "a.layer.local_experts.%d.w", &expert) == 1
                    && expert >= 0 && expert < EXPERTS && q.global[0] == WIDE
                    && q.offset[0] >= 0 && q.offset[0] + q.extent[0] <= WIDE
                    && q.offset[1] + q.extent[1] <= q.global[1]
                    && q.extent[0] * q.extent[1] == end - at;
            if (!right)
                return false;
            for (int64_t r = 0; r < q.extent[0]; r++)
                for (int64_t c = 0; c < q.extent[1]; c++)
                    hits[expert][q.offset[0] + r][q.offset[1] + c]++;
        }
    }
    return right;
}

/* Over all ranks every element of every expert is in one piece. */
static void test_experts (int ep, int etp, bool by_cols)
{
    bool right = true;

    for (int64_t step = 1; step < 40; step = 2 * step + 1) {
        static int hits[EXPERTS][WIDE][DEEP * 4];
        const int *hit = &hits[0][0][0];

        memset (hits, 0, sizeof (hits));
        for (int rank = 0; rank < ep * etp; rank++) {
            const struct param p = expert_part (ep, rank / etp, etp, rank % etp, by_cols);

            right = right && param_true_elements (&p, 0, p.numel) == p.numel
                    && param_num_tensors (&p) == (size_t)(EXPERTS / ep)
                    && count_pieces (&p, step, hits);
        }
        for (int i = 0; i < EXPERTS * WIDE * DEEP * 4; i++)
            right = right && hit[i] == (i % (DEEP * 4) < (by_cols ? DEEP * 4 : DEEP));
    }
    ok (right, "ep %d, etp %d, split by %s: each element of the experts is in one piece", ep, etp,
        by_cols ? "columns" : "rows of both halves");
}

/* The tensors of a part have their experts' names, in order. */
static void test_expert_names (void)
{
    const struct param p = expert_part (2, 1, 2, 1, false);
    const struct param dense = { .name = "a%d", .ndims = 1, .global = { 4 }, .extent = { 4 },
                                 .numel = 4, .runs = { { 0 }, 4, 1, 0 } };
    struct piece piece;
    char name[PIECE_NAME_MAX];

    is_int (param_num_tensors (&p), 2, "two experts are two tensors");
    for (size_t i = 0; i < 2; i++) {
        param_name_piece (&p, i, &piece);
        is_str (piece.name, i ? "layer.local_experts.3.w" : "layer.local_experts.2.w",
                "the name of tensor %d", (int)i);
        is_int (piece.extent[0], 0, "without elements");
    }
    param_format_name (&p, "m.", 117, name);
    is_str (name, "m.layer.local_experts.117.w", "a name of any expert");
    param_format_name (&dense, "m.", 117, name);
    is_str (name, "m.a%d", "a name that is none of an expert");
    is_int (param_num_tensors (&dense), 1, "is one tensor");
}

/* A part has the initial values of its places in the whole tensor. */
static void test_init (const struct param *part)
{
    const struct param whole = { .ndims = 2, .global = { 16, 3 }, .extent = { 16, 3 },
                                 .numel = 48, .runs = { { 0, 0 }, 16, 1, 0 } };
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
    ok (same, "of two runs are those of their places");
    kernels_cpu_destroy (k);
}

int main (void)
{
    const struct param matrix = { .name = "w", .ndims = 2, .global = { 11, 9 },
                                  .extent = { ROWS, COLS }, .numel = NUMEL,
                                  .runs = { { 3, 2 }, ROWS, 1, 0 } };
    const struct param column = { .name = "w", .ndims = 2, .global = { 11, 1 },
                                  .extent = { 7, 1 }, .numel = 7, .runs = { { 0 }, 7, 1, 0 } };
    const struct param vector = { .name = "w", .ndims = 1, .global = { 30 }, .extent = { 13 },
                                  .numel = 13, .runs = { { 6 }, 13, 1, 0 } };
    /* a gate and what it multiplies: the second quarter of each half */
    const struct param halves = { .name = "w", .ndims = 2, .global = { 16, 3 },
                                  .extent = { 4, 3 }, .numel = 12,
                                  .runs = { { 2, 0 }, 2, 2, 8 } };
    const struct param both = { .name = "w", .ndims = 1, .global = { 16 }, .extent = { 6 },
                                .numel = 6, .runs = { { 3 }, 3, 2, 8 } };

    /* of four experts with a gate the second and third, of these the second of two ranks */
    const struct param experts = { .name = "w", .ndims = 2, .global = { 16, 4 },
                                   .extent = { 4, 4 }, .numel = 16,
                                   .runs = { { 5, 0 }, 1, 4, 2 } };

    test_ranges (&matrix, 3);
    test_ranges (&column, 1);
    test_ranges (&vector, 1);
    test_ranges (&halves, 4);
    test_ranges (&both, 2);
    test_ranges (&experts, 4);
    for (int ep = 1; ep <= EXPERTS; ep *= 2) {
        for (int etp = 1; etp <= 4; etp *= 2) {
            test_experts (ep, etp, false);
            test_experts (ep, etp, true);
        }
    }
    test_expert_names ();
    test_writer ();
    test_padding ();
    test_init (&halves);
    return done_testing ();
}
