/* twins_expert_bias.c - biases of experts on the double against the CPU's */

#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"

/* Rows of experts, one of which has none; rows behind the last one are not live. */
enum { EXPERTS = 4, ROWS = 45 };
static const int64_t offset[EXPERTS + 1] = { 0, 3, 3, 37, 40 };

/* 'rows' are those of the bias, one of each expert.  Operand 1 is the bias, operand 2 x or dx. */
static const struct twins_shape shapes[] = {
    { 0, 8, 0, 0 },  { 1, 1, 0, 0 },   { 4, 0, 0, 0 },   { 4, 37, 1, 0 },
    { 4, 40, 0, 1 }, { 4, 40, 0, 2 }, { 3, 264, 0, 0 }, { 2, 2312, 3, 0 },
};

/* What a call has besides its rows. */
enum { WITH_FACTOR = 1, WITH_DFACTOR = 2, WITH_BOTH = 3 };

static void test_fwd (const struct twins_shape *s, enum mg_dtype dtype, int with)
{
    struct kern_expert_bias_fwd a = { .experts = s->rows, .rows = ROWS, .cols = s->cols,
                                      .dtype = dtype };

    a.offset = twins_values ((size_t)s->rows + 1, sizeof (*offset), 0, offset);
    a.bias = twins_random ((size_t)(s->rows * s->cols), dtype, twins_shift (s, 1), 1);
    a.x = twins_random ((size_t)(ROWS * s->cols), dtype, twins_shift (s, 2), 2);
    if (with & WITH_FACTOR)
        a.factor = twins_random (ROWS, MG_FLOAT32, s->shift, 3);
    twins_check (KERN_EXPERT_BIAS_FWD, &a, twins_tolerance (dtype),
                 "expert_bias_fwd %s %d experts %d columns+%zu.%d with %d", mg_dtype_name (dtype),
                 (int)s->rows, (int)s->cols, s->shift, s->odd, with);
}

static void test_bwd (const struct twins_shape *s, enum mg_dtype dtype, enum mg_dtype grad_dtype,
                      int with)
{
    size_t n = (size_t)(s->rows * s->cols);
    struct kern_expert_bias_bwd a = { .experts = s->rows, .rows = ROWS, .cols = s->cols,
                                      .dtype = dtype, .grad_dtype = grad_dtype };

    a.offset = twins_values ((size_t)s->rows + 1, sizeof (*offset), 0, offset);
    a.dx = twins_random ((size_t)(ROWS * s->cols), dtype, twins_shift (s, 2), 1);
    a.dbias = twins_random (n, grad_dtype, s->shift, 2);
    if (with & WITH_FACTOR)
        a.factor = twins_random (ROWS, MG_FLOAT32, s->shift, 3);
    if (with & WITH_DFACTOR) {
        a.bias = twins_random (n, dtype, twins_shift (s, 1), 4);
        a.dfactor = twins_random (ROWS, MG_FLOAT32, s->shift, 5);
    }
    twins_check (KERN_EXPERT_BIAS_BWD, &a, twins_tolerance (grad_dtype),
                 "expert_bias_bwd %s to %s %d experts %d columns+%zu.%d with %d",
                 mg_dtype_name (dtype), mg_dtype_name (grad_dtype), (int)s->rows, (int)s->cols,
                 s->shift, s->odd, with);
}

void twins_expert_bias (void)
{
    for (size_t d = 0; d < TWINS_DTYPES; d++) {
        enum mg_dtype dtype = twins_dtypes[d];

        for (size_t i = 0; i < sizeof (shapes) / sizeof (shapes[0]); i++)
            for (int with = 0; with <= WITH_BOTH; with += WITH_BOTH) {
                test_fwd (&shapes[i], dtype, with);
                test_bwd (&shapes[i], dtype, MG_FLOAT32, with);
                test_bwd (&shapes[i], dtype, dtype, with);
            }
        test_bwd (&shapes[3], dtype, MG_FLOAT32, WITH_FACTOR);
        test_bwd (&shapes[3], dtype, MG_FLOAT32, WITH_DFACTOR);
    }
    test_bwd (&shapes[3], MG_FLOAT32, MG_BFLOAT16, WITH_BOTH);
    test_bwd (&shapes[3], MG_FLOAT32, MG_FLOAT16, WITH_BOTH);
    test_bwd (&shapes[3], MG_BFLOAT16, MG_FLOAT16, WITH_BOTH);
}
