/* residual - a branch comes back to the residual: sums, dropout by coordinates, a bias or none */

#include <math.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/ops/kit.h"

enum { SEQ = 5, BATCH = 2, ROWS = SEQ * BATCH, HIDDEN = 12, N = ROWS * HIDDEN };

struct sum {
    int branch, in, out, bias, dout, dbranch, samples;
};

static struct sum open_sum (struct ops_kit *k, double dropout, bool bias)
{
    struct sum s;

    ops_open (k, (struct model_config){ .hidden_dropout = dropout }, BATCH);
    s = (struct sum){
        .branch = ops_random (k, "branch", ROWS, HIDDEN), .in = ops_random (k, "in", ROWS, HIDDEN),
        .out = ops_zeros (k, "out", MG_FLOAT32, ROWS, HIDDEN),
        .bias = bias ? ops_param (k, "bias", HIDDEN, 0) : LAYER_NONE,
        .dout = ops_random (k, "dout", ROWS, HIDDEN),
        .dbranch = ops_zeros (k, "dbranch", MG_FLOAT32, ROWS, HIDDEN),
        .samples = ops_zeros (k, "samples", MG_INT64, BATCH, 1),
    };
    ((int64_t *)k->tensor[s.samples].data)[1] = 1;
    ops_phase (k, &(struct phase){ .op = &op_residual,
                                   .operand = { [RESIDUAL_BRANCH] = s.branch, [RESIDUAL_IN] = s.in,
                                                [RESIDUAL_OUT] = s.out, [RESIDUAL_BIAS] = s.bias,
                                                [RESIDUAL_DOUT] = s.dout,
                                                [RESIDUAL_DBRANCH] = s.dbranch,
                                                [RESIDUAL_SAMPLES] = s.samples } });
    return s;
}

static void test_sum (bool bias)
{
    struct ops_kit k;
    struct sum s = open_sum (&k, 0.5, bias);
    double want[N];

    for (int i = 0; i < N; i++)
        want[i] = (double)ops_at (&k, s.branch)[i] + (double)ops_at (&k, s.in)[i]
                  + (bias ? (double)ops_value (&k, s.bias)[i % HIDDEN] : 0);
    ops_forward (&k);
    ok (ops_difference (ops_at (&k, s.out), want, N) < 1e-6,
        "without training nothing is dropped, %s", bias ? "with a bias" : "no bias");
    ops_backward (&k);
    ok (memcmp (ops_at (&k, s.dbranch), ops_at (&k, s.dout), N * sizeof (float)) == 0,
        "the branch has the gradient of the sum");
    for (int c = 0; bias && c < HIDDEN; c++) {
        double sum = 0;

        for (int r = 0; r < ROWS; r++)
            sum += (double)ops_at (&k, s.dout)[r * HIDDEN + c];
        want[c] = sum;
    }
    if (bias)
        ok (ops_difference (ops_grad (&k, s.bias), want, HIDDEN) < 1e-5,
            "the bias that of all rows");
    ops_close (&k);
}

/* What is dropped is decided by coordinates: the same backward as forward, other elements at
 * another place.
 */
static void test_dropout (void)
{
    struct ops_kit k;
    struct sum s = open_sum (&k, 0.5, false);
    float out[N];
    int dropped = 0, wrong = 0, same = 0;

    k.pass.training = true;
    memset (ops_at (&k, s.in), 0, N * sizeof (float));
    ops_forward (&k);
    ops_backward (&k);
    memcpy (out, ops_at (&k, s.out), sizeof (out));
    for (int i = 0; i < N; i++) {
        float x = ops_at (&k, s.branch)[i], dx = ops_at (&k, s.dbranch)[i];

        dropped += out[i] == 0;
        wrong += out[i] != 0 && fabsf (out[i] - 2 * x) > 1e-6f;
        wrong += out[i] == 0 ? dx != 0 : fabsf (dx - 2 * ops_at (&k, s.dout)[i]) > 1e-6f;
    }
    is_int (wrong, 0, "the rest counts twice, and so does its gradient");
    ok (dropped > N / 4 && dropped < 3 * N / 4, "about half is dropped (%d of %d)", dropped, N);
    k.spec.phase[0].which = 1;
    ops_forward (&k);
    for (int i = 0; i < N; i++)
        same += (ops_at (&k, s.out)[i] == 0) == (out[i] == 0);
    ok (same < N, "another phase of the layer drops others");
    ops_close (&k);
}

static void test_copy (void)
{
    struct ops_kit k;
    int x, y;

    ops_open (&k, (struct model_config){ .num_layers = 1 }, BATCH);
    x = ops_random (&k, "x", ROWS, HIDDEN);
    y = ops_zeros (&k, "y", MG_FLOAT32, ROWS, HIDDEN);
    ops_phase (&k, &(struct phase){ .op = &op_copy, .operand = { [COPY_X] = x, [COPY_Y] = y } });
    ops_forward (&k);
    ok (memcmp (ops_at (&k, x), ops_at (&k, y), N * sizeof (float)) == 0,
        "a chunk without layers copies its input");
    ok (!layer_runs_backward (&k.spec.phase[0]), "and has no backward half");
    ops_close (&k);
}

int main (void)
{
    test_sum (false);
    test_sum (true);
    test_dropout ();
    test_copy ();
    return done_testing ();
}
