/* activation - the function between two matrices, with a gate and without: what it is made of, how
 * wide its operands are, gradients in place
 */

#include <math.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/ops/kit.h"

enum { TOKENS = 10, COLS = 10 };

static double silu (double x)
{
    return x / (1 + exp (-x));
}

static void test (bool gated)
{
    const int wide = gated ? 2 * COLS : COLS;
    double want[TOKENS * COLS];
    struct ops_kit k;
    int x, y, dy, dx;

    ops_open (&k, (struct model_config){ .activation = KERN_SILU, .gated = gated }, 2);
    x = ops_random (&k, "x", TOKENS, wide);
    y = ops_zeros (&k, "y", MG_FLOAT32, TOKENS, COLS);
    dy = ops_random (&k, "dy", TOKENS, COLS);
    dx = ops_zeros (&k, "dx", MG_FLOAT32, TOKENS, wide);
    ops_phase (&k, &(struct phase){ .op = &op_act,
                                    .operand = { [ACT_X] = x, [ACT_Y] = y, [ACT_DY] = dy,
                                                 [ACT_DX] = dx } });
    for (int i = 0; i < TOKENS * COLS; i++) {
        const float *row = ops_at (&k, x) + i / COLS * wide;

        want[i] = silu ((double)row[i % COLS]) * (gated ? (double)row[COLS + i % COLS] : 1);
    }
    ops_forward (&k);
    ok (ops_difference (ops_at (&k, y), want, TOKENS * COLS) < 1e-6, "SiLU%s",
        gated ? " of one half of a row, times the other half" : "");
    ops_backward (&k);
    ops_check_slopes (&k, y, ops_at (&k, dy),
                      &(struct ops_slope){ "x", ops_at (&k, x), ops_at (&k, dx), TOKENS * wide },
                      1);
    ops_close (&k);
}

/* A bound of what goes in, and what is added to the other half. */
static void test_bounds (void)
{
    const struct model_config c = { .activation = KERN_SILU, .gated = true,
                                    .activation_clamp = 0.5f, .glu_offset = 1 };
    struct ops_kit k;
    int x, y;

    ops_open (&k, c, 1);
    x = ops_zeros (&k, "x", MG_FLOAT32, TOKENS, 2 * COLS);
    y = ops_zeros (&k, "y", MG_FLOAT32, TOKENS, COLS);
    ops_at (&k, x)[0] = 9;
    ops_at (&k, x)[COLS] = 9;
    ops_at (&k, x)[1] = 0.25f;
    ops_at (&k, x)[COLS + 1] = -9;
    ops_phase (&k, &(struct phase){ .op = &op_act, .operand = { [ACT_X] = x, [ACT_Y] = y } });
    ops_forward (&k);
    is_near ((double)ops_at (&k, y)[0], silu (0.5) * 1.5, 1e-6, "both halves are bounded above");
    is_near ((double)ops_at (&k, y)[1], silu (0.25) * 0.5, 1e-6, "one of them below as well");
    ops_close (&k);
}

int main (void)
{
    test (false);
    test (true);
    test_bounds ();
    return done_testing ();
}
