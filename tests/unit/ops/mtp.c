/* mtp - operations of layers for multi-token prediction: the projection of two inputs, a tensor
 * that two layers read
 */

#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/ops/kit.h"

enum { SEQ = 5, BATCH = 2, TOKENS = SEQ * BATCH, HIDDEN = 12, N = TOKENS * HIDDEN };

static void test_pair (void)
{
    double want[N];
    struct ops_kit k;
    int a, b, both, sum, out, dout, columns, da, db, w;

    ops_open (&k, (struct model_config){ .num_layers = 1 }, BATCH);
    a = ops_random (&k, "a", TOKENS, HIDDEN);
    b = ops_random (&k, "b", TOKENS, HIDDEN);
    both = ops_zeros (&k, "both", MG_FLOAT32, TOKENS, 2 * HIDDEN);
    sum = ops_zeros (&k, "sum", MG_FLOAT32, TOKENS, HIDDEN);
    out = ops_zeros (&k, "out", MG_FLOAT32, TOKENS, HIDDEN);
    dout = ops_random (&k, "dout", TOKENS, HIDDEN);
    columns = ops_zeros (&k, "columns", MG_FLOAT32, TOKENS, HIDDEN);
    da = ops_zeros (&k, "da", MG_FLOAT32, TOKENS, HIDDEN);
    db = ops_zeros (&k, "db", MG_FLOAT32, TOKENS, HIDDEN);
    w = ops_param (&k, "weight", HIDDEN, 2 * HIDDEN);
    for (int i = 0; i < N; i++) {
        want[i] = 0;
        for (int l = 0; l < 2 * HIDDEN; l++)
            want[i] += (double)ops_at (&k, l < HIDDEN ? a : b)[i / HIDDEN * HIDDEN + l % HIDDEN]
                       * (double)ops_value (&k, w)[i % HIDDEN * 2 * HIDDEN + l];
    }
    ops_phase (&k, &(struct phase){ .op = &op_project_pair,
                                    .operand = { [PAIR_A] = a, [PAIR_B] = b, [PAIR_BOTH] = both,
                                                 [PAIR_SUM] = sum, [PAIR_OUT] = out,
                                                 [PAIR_WEIGHT] = w, [PAIR_DOUT] = dout,
                                                 [PAIR_COLUMNS] = columns, [PAIR_DA] = da,
                                                 [PAIR_DB] = db } });
    ops_forward (&k);
    ok (ops_difference (ops_at (&k, out), want, N) < 1e-5, "the product of both inputs");
    ops_backward (&k);
    ops_check_slopes (&k, out, ops_at (&k, dout),
                      (struct ops_slope[]){
                          { "the first input", ops_at (&k, a), ops_at (&k, da), N },
                          { "the second one", ops_at (&k, b), ops_at (&k, db), N },
                          { "the weight", ops_value (&k, w), ops_grad (&k, w),
                            HIDDEN * 2 * HIDDEN },
                      },
                      3);
    ops_close (&k);
}

static void test_readers (void)
{
    double want[N];
    struct ops_kit k;
    int dx, dy;

    ops_open (&k, (struct model_config){ .num_layers = 1 }, BATCH);
    dx = ops_random (&k, "dx", TOKENS, HIDDEN);
    dy = ops_random (&k, "dy", TOKENS, HIDDEN);
    for (int i = 0; i < N; i++)
        want[i] = (double)(ops_at (&k, dx)[i] + ops_at (&k, dy)[i]);
    ops_phase (&k, &(struct phase){ .op = &op_two_readers,
                                    .operand = { [READERS_DX] = dx, [READERS_DY] = dy } });
    ops_forward (&k);
    ops_backward (&k);
    is_near (ops_difference (ops_at (&k, dx), want, N), 0, 0, "gradients of two readers are added");
    ops_close (&k);
}

int main (void)
{
    test_pair ();
    test_readers ();
    return done_testing ();
}
