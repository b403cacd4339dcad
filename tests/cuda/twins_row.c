/* twins_row.c - rows in another order on the double against the CPU's */

#include <stdlib.h>

#include "tests/cuda/launch.h"
#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

/* 'rows' are tokens.  Operand 1 is x, operand 2 y. */
static const struct twins_shape shapes[] = {
    { 0, 16, 0, 0 }, { 3, 0, 0, 0 },  { 1, 1, 0, 0 },    { 7, 40, 0, 0 },  { 5, 37, 1, 0 },
    { 9, 64, 0, 1 }, { 9, 64, 0, 2 }, { 300, 8, 0, 0 }, { 3, 2312, 0, 0 }, { 2, 2313, 3, 0 },
};
enum { SHAPES = sizeof (shapes) / sizeof (shapes[0]) };

/* What a call has besides its rows. */
enum { WITH_ROWS = 1, WITH_WEIGHT = 2, WITH_ACCUMULATE = 4, WITH_ALL = 7 };

/* n places of rows below 'rows', in an order without a pattern; every fifth is -1. */
static int32_t *make_places (int64_t n, int64_t rows)
{
    int32_t *places = kit_alloc ((size_t)n + 1, sizeof (*places)), *operand;

    for (int64_t i = 0; i < n; i++)
        places[i] = i % 5 == 3 ? -1 : (int32_t)(i * 7919 % rows);
    operand = twins_values ((size_t)n, sizeof (*places), 0, places);
    free (places);
    return operand;
}

static void test_gather (const struct twins_shape *s, enum mg_dtype dtype, int64_t divide, int with)
{
    int64_t rows = s->rows * divide, live = rows > 2 ? rows - 2 : rows;
    struct kern_row_gather a = { .rows = rows, .cols = s->cols, .divide = divide, .dtype = dtype };

    a.x = twins_random ((size_t)(s->rows * s->cols), dtype, twins_shift (s, 1), 1);
    a.y = twins_random ((size_t)(rows * s->cols), dtype, twins_shift (s, 2), 2);
    if (with & WITH_ROWS)
        a.source = make_places (rows, rows);
    if (with & WITH_WEIGHT)
        a.weight = twins_random ((size_t)rows, MG_FLOAT32, 0, 3);
    if (with & WITH_ACCUMULATE) // here: some rows
        a.live = twins_values (1, sizeof (live), 0, &live);
    twins_check (KERN_ROW_GATHER, &a, TWINS_EXACT, "row_gather %s %dx%d / %d+%zu.%d with %d",
                 mg_dtype_name (dtype), (int)rows, (int)s->cols, (int)divide, s->shift, s->odd,
                 with);
}

static void test_combine (const struct twins_shape *s, enum mg_dtype dtype, int64_t topk, int with)
{
    int64_t choices = s->rows * topk;
    struct kern_row_combine a = { .tokens = s->rows, .topk = topk, .cols = s->cols,
                                  .accumulate = with & WITH_ACCUMULATE, .dtype = dtype };

    a.x = twins_random ((size_t)(choices * s->cols), dtype, twins_shift (s, 1), 1);
    a.y = twins_random ((size_t)(s->rows * s->cols), dtype, twins_shift (s, 2), 2);
    if (with & WITH_ROWS)
        a.row = make_places (choices, choices);
    if (with & WITH_WEIGHT)
        a.weight = twins_random ((size_t)choices, MG_FLOAT32, 0, 3);
    twins_check (KERN_ROW_COMBINE, &a, twins_tolerance (dtype),
                 "row_combine %s %dx%dx%d+%zu.%d with %d", mg_dtype_name (dtype), (int)s->rows,
                 (int)topk, (int)s->cols, s->shift, s->odd, with);
}

static void test_dot (const struct twins_shape *s, enum mg_dtype dtype, int64_t topk, int with)
{
    int64_t choices = s->rows * topk;
    struct kern_row_dot a = { .tokens = s->rows, .topk = topk, .cols = s->cols, .dtype = dtype };

    a.x = twins_random ((size_t)(choices * s->cols), dtype, twins_shift (s, 1), 1);
    a.y = twins_random ((size_t)(s->rows * s->cols), dtype, twins_shift (s, 2), 2);
    if (with & WITH_ROWS)
        a.row = make_places (choices, choices);
    a.out = twins_random ((size_t)choices, MG_FLOAT32, 0, 3);
    twins_check (KERN_ROW_DOT, &a, twins_tolerance (MG_FLOAT32),
                 "row_dot %s %dx%dx%d+%zu.%d with %d", mg_dtype_name (dtype), (int)s->rows,
                 (int)topk, (int)s->cols, s->shift, s->odd, with);
}

/* --- what instrumented kernels move --- */

enum { TOKENS = 8, TOPK = 4, COLS = 1024, BYTES = TOKENS * TOPK * COLS * 2 };

/* Check the bytes that 'needed' lists, in tenths at most a tenth more. */
static void check_moved (const struct launch_counts *c, uint64_t needed, const char *name)
{
    uint64_t moved = c->sectors * 32;

    if (!ok (moved >= needed && moved <= needed + needed / 10, "%s moves what it needs", name))
        diag ("%llu bytes are moved, %llu are needed", (unsigned long long)moved,
              (unsigned long long)needed);
}

static void test_counts (void)
{
    struct kern_row_gather gather = { .rows = TOKENS * TOPK, .cols = COLS, .divide = TOPK,
                                      .dtype = MG_BFLOAT16 };
    struct kern_row_combine combine = { .tokens = TOKENS, .topk = TOPK, .cols = COLS,
                                        .dtype = MG_BFLOAT16 };
    struct kern_row_dot dot = { .tokens = TOKENS, .topk = TOPK, .cols = COLS,
                                .dtype = MG_BFLOAT16 };
    struct launch_counts c;

    gather.x = twins_random (TOKENS * COLS, MG_BFLOAT16, 0, 1);
    gather.y = twins_random (TOKENS * TOPK * COLS, MG_BFLOAT16, 0, 2);
    if (!twins_count (KERN_ROW_GATHER, &gather, &c))
        return;
    check_moved (&c, 2 * BYTES, "row_gather");
    combine.x = twins_random (TOKENS * TOPK * COLS, MG_BFLOAT16, 0, 1);
    combine.y = twins_random (TOKENS * COLS, MG_BFLOAT16, 0, 2);
    combine.weight = twins_random (TOKENS * TOPK, MG_FLOAT32, 0, 3);
    twins_count (KERN_ROW_COMBINE, &combine, &c);
    check_moved (&c, BYTES + BYTES / TOPK, "row_combine");
    dot.x = twins_random (TOKENS * TOPK * COLS, MG_BFLOAT16, 0, 1);
    dot.y = twins_random (TOKENS * COLS, MG_BFLOAT16, 0, 2);
    dot.out = twins_random (TOKENS * TOPK, MG_FLOAT32, 0, 3);
    twins_count (KERN_ROW_DOT, &dot, &c);
    check_moved (&c, BYTES + BYTES / TOPK, "row_dot");
}

void twins_row (void)
{
    for (size_t d = 0; d < TWINS_DTYPES; d++) {
        enum mg_dtype dtype = twins_dtypes[d];

        for (int i = 0; i < SHAPES; i++) {
            test_gather (&shapes[i], dtype, 2, WITH_ALL);
            test_combine (&shapes[i], dtype, 3, WITH_ALL);
            test_dot (&shapes[i], dtype, 3, WITH_ROWS);
        }
        for (int with = 0; with < WITH_ALL; with++) {
            test_gather (&shapes[4], dtype, 1, with);
            test_combine (&shapes[3], dtype, 1, with);
        }
        /* More choices than a warp has lanes, or than a warp adds up at once. */
        test_combine (&shapes[3], dtype, 40, WITH_ALL);
        test_combine (&shapes[3], dtype, 0, WITH_ALL);
        test_dot (&shapes[3], dtype, 11, WITH_ROWS);
        test_dot (&shapes[3], dtype, 8, 0);
    }
    test_counts ();
}
