/* twins_norm.c - norms on the double against the CPU's */

#include "tests/cuda/launch.h"
#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"

struct shape {
    int64_t rows, cols;
    size_t shift;
};

/* The last one is too long to be kept in shared memory. */
static const struct shape shapes[]
    = { { 3, 64, 0 }, { 35, 72, 0 }, { 5, 37, 1 }, { 2, 1032, 0 }, { 4, 520, 3 }, { 1, 12328, 0 } };

static void test_fwd (enum kern_norm kind, enum mg_dtype dtype, const struct shape *s)
{
    size_t n = (size_t)(s->rows * s->cols), cols = (size_t)s->cols;
    size_t stats = (size_t)(kern_norm_kinds[kind].stats * s->rows);
    struct kern_norm_fwd a = { .kind = kind, .rows = s->rows, .cols = s->cols, .eps = 1e-5,
                               .one_plus = kind == KERN_RMS_NORM, .dtype = dtype };

    a.x = twins_random (n, dtype, s->shift, 1);
    a.weight = twins_random (cols, dtype, s->shift, 2);
    if (kind == KERN_LAYER_NORM)
        a.bias = twins_random (cols, dtype, s->shift, 3);
    a.y = twins_random (n, dtype, s->shift, 4);
    a.stat = twins_random (stats, MG_FLOAT32, 0, 5);
    twins_check (KERN_NORM_FWD, &a, twins_tolerance (dtype), "norm_fwd %s %s %dx%d+%zu",
                 kern_norm_kinds[kind].name, mg_dtype_name (dtype), (int)s->rows, (int)s->cols,
                 s->shift);
}

static void test_bwd (enum kern_norm kind, enum mg_dtype dtype, const struct shape *s)
{
    size_t n = (size_t)(s->rows * s->cols), cols = (size_t)s->cols;
    size_t stats = (size_t)(kern_norm_kinds[kind].stats * s->rows);
    bool centred = kind == KERN_LAYER_NORM;
    struct kern_norm_bwd a = { .kind = kind, .rows = s->rows, .cols = s->cols,
                               .accumulate_dx = !centred, .dtype = dtype,
                               .grad_dtype = MG_FLOAT32 };

    a.x = twins_random (n, dtype, s->shift, 1);
    a.weight = twins_random (cols, dtype, s->shift, 2);
    a.dy = twins_random (n, dtype, s->shift, 3);
    a.dx = twins_random (n, dtype, s->shift, 4);
    a.dweight = twins_random (cols, MG_FLOAT32, 0, 5);
    if (centred)
        a.dbias = twins_random (cols, MG_FLOAT32, 0, 6);
    a.stat = twins_random (stats, MG_FLOAT32, 0, 7);
    twins_check (KERN_NORM_BWD, &a, twins_tolerance (dtype), "norm_bwd %s %s %dx%d+%zu",
                 kern_norm_kinds[kind].name, mg_dtype_name (dtype), (int)s->rows, (int)s->cols,
                 s->shift);
}

/* What instrumented kernels move: a row is read once, and each request takes whole sectors. */
static void test_counts (void)
{
    enum { ROWS = 8, COLS = 1024 };
    struct kern_norm_fwd a = { .kind = KERN_RMS_NORM, .rows = ROWS, .cols = COLS, .eps = 1e-5,
                               .dtype = MG_BFLOAT16 };
    struct launch_counts c;

    a.x = twins_random (ROWS * COLS, MG_BFLOAT16, 0, 1);
    a.weight = twins_random (COLS, MG_BFLOAT16, 0, 2);
    a.y = twins_random (ROWS * COLS, MG_BFLOAT16, 0, 3);
    a.stat = twins_random (ROWS, MG_FLOAT32, 0, 4);
    if (!twins_count (KERN_NORM_FWD, &a, &c))
        return;
    is_int (c.read_bytes, 2 * ROWS * COLS * 2, "a row and the weight are read once for each row");
    is_int (c.written_bytes, ROWS * COLS * 2 + ROWS * 4, "y and the statistics are written once");
    is_int (c.sectors, (3 * ROWS * COLS * 2) / 32 + ROWS, "sectors are full");
    is_int (c.wavefronts, c.shared_requests * 4 - 3 * (c.shared_requests - 3 * ROWS * 4),
            "shared memory has no bank conflicts");
}

void twins_norm (void)
{
    for (int kind = 0; kind < KERN_NUM_NORMS; kind++)
        for (size_t d = 0; d < TWINS_DTYPES; d++)
            for (size_t i = 0; i < sizeof (shapes) / sizeof (shapes[0]); i++) {
                test_fwd ((enum kern_norm)kind, twins_dtypes[d], &shapes[i]);
                test_bwd ((enum kern_norm)kind, twins_dtypes[d], &shapes[i]);
            }
    test_counts ();
}
