/* moe_shared - the gate of shared experts: its score, what it scales, rows that are added */

#include <math.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/ops/kit.h"

enum { TOKENS = 10, HIDDEN = 12, N = TOKENS * HIDDEN };

static void test_score (void)
{
    double want[TOKENS];
    struct ops_kit k;
    int x, dx, w, logit, dlogit, index, score, dscore;
    float before[N];

    ops_open (&k, (struct model_config){ .num_layers = 1 }, 2);
    x = ops_random (&k, "x", TOKENS, HIDDEN);
    dx = ops_random (&k, "dx", TOKENS, HIDDEN);
    w = ops_param (&k, "weight", 1, HIDDEN);
    logit = ops_zeros (&k, "logit", MG_FLOAT32, TOKENS, 1);
    dlogit = ops_zeros (&k, "dlogit", MG_FLOAT32, TOKENS, 1);
    index = ops_zeros (&k, "index", MG_INT32, TOKENS, 1);
    score = ops_zeros (&k, "score", MG_FLOAT32, TOKENS, 1);
    dscore = ops_random (&k, "dscore", TOKENS, 1);
    memcpy (before, ops_at (&k, dx), sizeof (before));
    ops_phase (&k, &(struct phase){ .op = &op_gate_score,
                                    .operand = { [GATE_X] = x, [GATE_DX] = dx, [GATE_WEIGHT] = w,
                                                 [GATE_LOGIT] = logit, [GATE_DLOGIT] = dlogit,
                                                 [GATE_INDEX] = index, [GATE_SCORE] = score,
                                                 [GATE_DSCORE] = dscore } });
    for (int t = 0; t < TOKENS; t++) {
        double sum = 0;

        for (int i = 0; i < HIDDEN; i++)
            sum += (double)ops_at (&k, x)[t * HIDDEN + i] * (double)ops_value (&k, w)[i];
        want[t] = 1 / (1 + exp (-sum));
    }
    ops_forward (&k);
    ok (ops_difference (ops_at (&k, score), want, TOKENS) < 1e-6, "a score between 0 and 1");
    ops_backward (&k);
    for (int i = 0; i < N; i++)
        ops_at (&k, dx)[i] -= before[i];
    ops_check_slopes (&k, score, ops_at (&k, dscore),
                      (struct ops_slope[]){
                          { "x, to which it adds", ops_at (&k, x), ops_at (&k, dx), N },
                          { "the weight", ops_value (&k, w), ops_grad (&k, w), HIDDEN },
                      },
                      2);
    ops_close (&k);
}

static void test_gate (void)
{
    double want[N];
    struct ops_kit k;
    int x, score, y, dy, dx, dscore;

    ops_open (&k, (struct model_config){ .num_layers = 1 }, 2);
    x = ops_random (&k, "x", TOKENS, HIDDEN);
    score = ops_random (&k, "score", TOKENS, 1);
    y = ops_zeros (&k, "y", MG_FLOAT32, TOKENS, HIDDEN);
    dy = ops_random (&k, "dy", TOKENS, HIDDEN);
    dx = ops_zeros (&k, "dx", MG_FLOAT32, TOKENS, HIDDEN);
    dscore = ops_zeros (&k, "dscore", MG_FLOAT32, TOKENS, 1);
    ops_phase (&k, &(struct phase){ .op = &op_gate,
                                    .operand = { [SCALE_X] = x, [SCALE_SCORE] = score,
                                                 [SCALE_Y] = y, [SCALE_DY] = dy, [SCALE_DX] = dx,
                                                 [SCALE_DSCORE] = dscore } });
    for (int i = 0; i < N; i++)
        want[i] = (double)ops_at (&k, x)[i] * (double)ops_at (&k, score)[i / HIDDEN];
    ops_forward (&k);
    ok (ops_difference (ops_at (&k, y), want, N) < 1e-6, "rows times their scores");
    ops_backward (&k);
    ops_check_slopes (&k, y, ops_at (&k, dy),
                      (struct ops_slope[]){
                          { "x", ops_at (&k, x), ops_at (&k, dx), N },
                          { "the scores", ops_at (&k, score), ops_at (&k, dscore), TOKENS },
                      },
                      2);
    ops_close (&k);
}

static void test_own (void)
{
    double want[N];
    struct ops_kit k;
    int x, y;

    ops_open (&k, (struct model_config){ .num_layers = 1 }, 2);
    x = ops_random (&k, "x", TOKENS, HIDDEN);
    y = ops_random (&k, "y", TOKENS, HIDDEN);
    for (int i = 0; i < N; i++)
        want[i] = (double)(ops_at (&k, x)[i] + ops_at (&k, y)[i]);
    ops_phase (&k, &(struct phase){ .op = &op_own, .adds = true,
                                    .operand = { [OWN_X] = x, [OWN_Y] = y } });
    ops_forward (&k);
    is_near (ops_difference (ops_at (&k, y), want, N), 0, 0, "rows are added");
    k.spec.phase[0].adds = false;
    ops_forward (&k);
    ok (memcmp (ops_at (&k, x), ops_at (&k, y), N * sizeof (float)) == 0, "or written");
    ops_close (&k);
}

int main (void)
{
    test_score ();
    test_gate ();
    test_own ();
    return done_testing ();
}
