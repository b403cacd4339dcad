/* embedding - rows of the word and position tables, their gradients, dropout, frozen phases */

#include <math.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/ops/kit.h"

enum { SEQ = 5, BATCH = 2, TOKENS = SEQ * BATCH, HIDDEN = 12, VOCAB = 8, N = TOKENS * HIDDEN };

static const int32_t ids[TOKENS] = { 3, 0, 7, 3, 3, 1, 0, 6, 5, 3 };

static void test_word (bool frozen)
{
    double want[VOCAB * HIDDEN] = { 0 };
    struct ops_kit k;
    int tokens, out, dout, table, wrong = 0;

    ops_open (&k, (struct model_config){ .num_layers = 1 }, BATCH);
    tokens = ops_zeros (&k, "tokens", MG_INT32, TOKENS, 1);
    out = ops_zeros (&k, "out", MG_FLOAT32, TOKENS, HIDDEN);
    dout = ops_random (&k, "dout", TOKENS, HIDDEN);
    table = ops_param (&k, "table", VOCAB, HIDDEN);
    memcpy (k.tensor[tokens].data, ids, sizeof (ids));
    ops_phase (&k, &(struct phase){ .op = &op_word, .frozen = frozen,
                                    .operand = { [WORD_OUT] = out, [WORD_TABLE] = table,
                                                 [WORD_DOUT] = frozen ? LAYER_NONE : dout,
                                                 [WORD_TOKENS] = tokens } });
    ops_forward (&k);
    for (int t = 0; t < TOKENS; t++)
        wrong += memcmp (ops_at (&k, out) + t * HIDDEN, ops_value (&k, table) + ids[t] * HIDDEN,
                         HIDDEN * sizeof (float)) != 0;
    is_int (wrong, 0, "tokens become rows of the table");
    ops_backward (&k);
    for (int i = 0; i < N && !frozen; i++)
        want[ids[i / HIDDEN] * HIDDEN + i % HIDDEN] += (double)ops_at (&k, dout)[i];
    ok (ops_difference (ops_grad (&k, table), want, VOCAB * HIDDEN) < 1e-5,
        frozen ? "a frozen table has no gradient" : "a row has the sum of its tokens' gradients");
    ops_close (&k);
}

static int add_samples (struct ops_kit *k)
{
    int samples = ops_zeros (k, "samples", MG_INT64, BATCH, 1);

    ((int64_t *)k->tensor[samples].data)[1] = 1;
    return samples;
}

static void test_position (bool reset)
{
    double want[N];
    struct ops_kit k;
    int x, out, dout, table, samples, at = LAYER_NONE, wrong = 0;
    float dy[N];

    ops_open (&k, (struct model_config){ .hidden_dropout = 0.5 }, BATCH);
    x = ops_random (&k, "x", TOKENS, HIDDEN);
    out = ops_zeros (&k, "out", MG_FLOAT32, TOKENS, HIDDEN);
    dout = ops_random (&k, "dout", TOKENS, HIDDEN);
    table = ops_param (&k, "table", SEQ, HIDDEN);
    samples = add_samples (&k);
    memcpy (dy, ops_at (&k, dout), sizeof (dy));
    if (reset)
        at = ops_zeros (&k, "at", MG_INT32, TOKENS, 1); /* all tokens are at position 0 */
    ops_phase (&k, &(struct phase){ .op = &op_position,
                                    .operand = { [POSITION_X] = x, [POSITION_OUT] = out,
                                                 [POSITION_TABLE] = table,
                                                 [POSITION_DOUT] = dout,
                                                 [POSITION_SAMPLES] = samples,
                                                 [POSITION_AT] = at } });
    for (int i = 0; i < N; i++) {
        int row = reset ? 0 : i / HIDDEN / BATCH;

        want[i] = (double)ops_at (&k, x)[i] + (double)ops_value (&k, table)[row * HIDDEN
                                                                           + i % HIDDEN];
    }
    ops_forward (&k);
    ok (ops_difference (ops_at (&k, out), want, N) < 1e-6, "%s positions are added",
        reset ? "given" : "plain");
    k.pass.training = true;
    ops_forward (&k);
    ops_backward (&k);
    for (int i = 0; i < N; i++) {
        bool dropped = ops_at (&k, out)[i] == 0;

        wrong += fabs ((double)ops_at (&k, out)[i] - (dropped ? 0 : 2 * want[i])) > 1e-5;
        wrong += fabsf (ops_at (&k, dout)[i] - (dropped ? 0 : 2 * dy[i])) > 1e-6f;
    }
    is_int (wrong, 0, "what is dropped has no gradient, the rest is doubled");
    memset (want, 0, sizeof (want));
    for (int i = 0; i < N; i++)
        want[(reset ? 0 : i / HIDDEN / BATCH) * HIDDEN + i % HIDDEN]
            += (double)ops_at (&k, dout)[i];
    ok (ops_difference (ops_grad (&k, table), want, SEQ * HIDDEN) < 1e-5,
        "a position has the sum of its tokens' gradients");
    ops_close (&k);
}

static void test_dropout (void)
{
    struct ops_kit k;
    int x, out, dout, samples, wrong = 0;
    float first[N], dy[N];

    ops_open (&k, (struct model_config){ .hidden_dropout = 0.5 }, BATCH);
    x = ops_random (&k, "x", TOKENS, HIDDEN);
    out = ops_zeros (&k, "out", MG_FLOAT32, TOKENS, HIDDEN);
    dout = ops_random (&k, "dout", TOKENS, HIDDEN);
    samples = add_samples (&k);
    memcpy (dy, ops_at (&k, dout), sizeof (dy));
    k.pass.training = true;
    ops_phase (&k, &(struct phase){ .op = &op_embedding_dropout,
                                    .operand = { [DROPOUT_X] = x, [DROPOUT_OUT] = out,
                                                 [DROPOUT_DOUT] = dout,
                                                 [DROPOUT_SAMPLES] = samples } });
    ops_forward (&k);
    ops_backward (&k);
    memcpy (first, ops_at (&k, out), sizeof (first));
    for (int i = 0; i < N; i++)
        wrong += ops_at (&k, dout)[i] != (first[i] == 0 ? 0 : 2 * dy[i]);
    is_int (wrong, 0, "gradients are dropped as rows are");
    k.layer.mtp = 1;
    ops_forward (&k);
    ok (memcmp (first, ops_at (&k, out), sizeof (first)) != 0,
        "a layer for multi-token prediction drops others");
    k.spec.phase[0].frozen = true;
    k.spec.phase[0].operand[DROPOUT_DOUT] = LAYER_NONE;
    memcpy (dy, ops_at (&k, dout), sizeof (dy));
    ops_backward (&k);
    ok (memcmp (dy, ops_at (&k, dout), sizeof (dy)) == 0, "a frozen phase has no backward half");
    ops_close (&k);
}

int main (void)
{
    test_word (false);
    test_word (true);
    test_position (false);
    test_position (true);
    test_dropout ();
    return done_testing ();
}
