/* latent - parts of multi-latent attention: products between wider rows, keys that share an end,
 * gathering on one rank
 */

#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/ops/kit.h"

enum { SEQ = 5, BATCH = 2, TOKENS = SEQ * BATCH, RANK = 4, ROPE = 4, QK = 6, V = 5, HEADS = 2 };

static const struct model_config config = {
    .positions = MODEL_ROPE, .num_heads = HEADS,
    .rope = { .base = 10000, .percent = 1, .interpolation = 1, .factor = 1, .original = 8 },
    .latent = { .on = true, .kv_rank = RANK, .qk_dim = QK, .rope_dim = ROPE, .v_dim = V },
};

/* Operands may have more columns than the product has. */
static void test_plain (void)
{
    enum { IN = 4, X = 6, OUT = 3, Y = 5 };
    double want[TOKENS * Y];
    struct ops_kit k;
    int x, y, dy, dx, w, kept = 0;
    float first[TOKENS * X];

    ops_open (&k, config, BATCH);
    x = ops_random (&k, "x", TOKENS, X);
    y = ops_random (&k, "y", TOKENS, Y);
    dy = ops_random (&k, "dy", TOKENS, Y);
    dx = ops_zeros (&k, "dx", MG_FLOAT32, TOKENS, X);
    w = ops_param (&k, "weight", OUT, IN);
    for (int i = 0; i < TOKENS * Y; i++) {
        want[i] = i % Y < OUT ? 0 : (double)ops_at (&k, y)[i];
        for (int l = 0; l < IN && i % Y < OUT; l++)
            want[i] += (double)ops_at (&k, x)[i / Y * X + l]
                       * (double)ops_value (&k, w)[i % Y * IN + l];
        if (i % Y >= OUT)
            ops_at (&k, dy)[i] = 0;
    }
    ops_phase (&k, &(struct phase){ .op = &op_linear_plain,
                                    .operand = { [PLAIN_X] = x, [PLAIN_Y] = y, [PLAIN_WEIGHT] = w,
                                                 [PLAIN_DY] = dy, [PLAIN_DX] = dx } });
    ops_forward (&k);
    ok (ops_difference (ops_at (&k, y), want, TOKENS * Y) < 1e-5,
        "a product between wider rows, whose other columns stay");
    ops_backward (&k);
    ops_check_slopes (&k, y, ops_at (&k, dy),
                      (struct ops_slope[]){
                          { "x", ops_at (&k, x), ops_at (&k, dx), TOKENS * X },
                          { "the weight", ops_value (&k, w), ops_grad (&k, w), OUT * IN },
                      },
                      2);
    memcpy (first, ops_at (&k, dx), sizeof (first));
    k.spec.phase[0].adds = true;
    ops_backward (&k);
    for (int i = 0; i < TOKENS * X; i++)
        kept += ops_at (&k, dx)[i] - 2 * first[i] > 1e-5f
                || 2 * first[i] - ops_at (&k, dx)[i] > 1e-5f;
    is_int (kept, 0, "dx is added to if the phase says so");
    ops_close (&k);
}

static void test_keys (void)
{
    enum { PART = HEADS * (QK + V), LATENT = RANK + ROPE, DIM = QK + ROPE, KEY = HEADS * DIM };
    double want[TOKENS * KEY];
    struct ops_kit k;
    int part, latent, key, dkey, dpart, dlatent;

    ops_open (&k, config, BATCH);
    part = ops_random (&k, "part", TOKENS, PART);
    latent = ops_random (&k, "latent", TOKENS, LATENT);
    key = ops_zeros (&k, "key", MG_FLOAT32, TOKENS, KEY);
    dkey = ops_random (&k, "dkey", TOKENS, KEY);
    dpart = ops_zeros (&k, "dpart", MG_FLOAT32, TOKENS, PART);
    dlatent = ops_zeros (&k, "dlatent", MG_FLOAT32, TOKENS, LATENT);
    for (int i = 0; i < TOKENS * KEY; i++) {
        int t = i / KEY, head = i % KEY / DIM, at = i % DIM;

        want[i] = (double)(at < QK ? ops_at (&k, part)[t * PART + head * (QK + V) + at]
                                   : ops_at (&k, latent)[t * LATENT + RANK + at - QK]);
    }
    ops_phase (&k, &(struct phase){ .op = &op_join_keys,
                                    .operand = { [JOIN_PART] = part, [JOIN_LATENT] = latent,
                                                 [JOIN_KEY] = key, [JOIN_DKEY] = dkey,
                                                 [JOIN_DPART] = dpart,
                                                 [JOIN_DLATENT] = dlatent } });
    ops_forward (&k);
    is_near (ops_difference (ops_at (&k, key), want, TOKENS * KEY), 0, 0,
             "a key is its head's part and the end of the latent");
    ops_backward (&k);
    ops_check_slopes (&k, key, ops_at (&k, dkey),
                      (struct ops_slope[]){
                          { "the parts of heads", ops_at (&k, part), ops_at (&k, dpart),
                            TOKENS * PART },
                          { "the latent, whose end all heads share", ops_at (&k, latent),
                            ops_at (&k, dlatent), TOKENS * LATENT },
                      },
                      2);
    ops_close (&k);
}

/* One rank has all rows: y is x, and the sum over ranks is what it was. */
static void test_gather (void)
{
    struct ops_kit k;
    float before[TOKENS * RANK];
    int x, dy;

    ops_open (&k, config, BATCH);
    x = ops_random (&k, "x", TOKENS, RANK);
    dy = ops_random (&k, "dy", TOKENS, RANK);
    memcpy (before, ops_at (&k, dy), sizeof (before));
    ops_phase (&k, &(struct phase){ .op = &op_gather,
                                    .operand = { [GATHER_X] = x, [GATHER_Y] = x,
                                                 [GATHER_DY] = dy } });
    ops_forward (&k);
    ops_backward (&k);
    ok (memcmp (before, ops_at (&k, dy), sizeof (before)) == 0, "one rank gathers nothing");
    ops_close (&k);
}

int main (void)
{
    test_plain ();
    test_keys ();
    test_gather ();
    return done_testing ();
}
