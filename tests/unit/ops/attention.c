/* attention - causal attention of grouped heads in the fused product: the formula in double, all
 * gradients, windows, documents, a learnable softmax
 */

#include <math.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/ops/kit.h"

enum { SEQ = 5, BATCH = 2, TOKENS = SEQ * BATCH, DIM = 6, GROUPS = 2, HEADS = 4,
       WIDTH = GROUPS * 4 * DIM, OUT = HEADS * DIM };

struct attention {
    int qkv, out, dout, dqkv, sink, starts;
};

static struct attention open_attention (struct ops_kit *k, struct model_config c, bool documents)
{
    struct attention a = { .starts = LAYER_NONE, .sink = LAYER_NONE };
    int lse, samples;

    c.num_heads = HEADS;
    c.num_groups = GROUPS;
    c.kv_channels = DIM;
    c.reset_attention = documents;
    ops_open (k, c, BATCH);
    a.qkv = ops_random (k, "qkv", TOKENS, WIDTH);
    a.out = ops_zeros (k, "out", MG_FLOAT32, TOKENS, OUT);
    a.dout = ops_random (k, "dout", TOKENS, OUT);
    a.dqkv = ops_zeros (k, "dqkv", MG_FLOAT32, TOKENS, WIDTH);
    lse = ops_zeros (k, "lse", MG_FLOAT32, TOKENS, HEADS);
    samples = ops_zeros (k, "samples", MG_INT64, BATCH, 1);
    if (c.softmax == MODEL_LEARNABLE)
        a.sink = ops_param (k, "sink", HEADS, 0);
    if (documents)
        a.starts = ops_zeros (k, "starts", MG_INT32, TOKENS, 1);
    ops_phase (k, &(struct phase){
                      .op = &op_attention,
                      .operand = { [ATTENTION_QUERY] = a.qkv, [ATTENTION_KEY] = a.qkv,
                                   [ATTENTION_VALUE] = a.qkv, [ATTENTION_OUT] = a.out,
                                   [ATTENTION_LSE] = lse, [ATTENTION_DOUT] = a.dout,
                                   [ATTENTION_DQUERY] = a.dqkv, [ATTENTION_DKEY] = a.dqkv,
                                   [ATTENTION_DVALUE] = a.dqkv, [ATTENTION_SAMPLES] = samples,
                                   [ATTENTION_STARTS] = a.starts, [ATTENTION_SINK] = a.sink } });
    return a;
}

/* Operand 'part' (queries 0 and 1, key 2, value 3) of a group at a position of a sequence. */
static const float *row_of (const struct ops_kit *k, const struct attention *a, int s, int b,
                            int group, int part)
{
    return ops_at (k, a->qkv) + ((s * BATCH + b) * GROUPS * 4 + group * 4 + part) * DIM;
}

/* Position s of head h sees positions 'first' to s. */
static void solve_row (const struct ops_kit *k, const struct attention *a, int s, int b, int h,
                       int first, double *out)
{
    double weight[SEQ], sum = a->sink ? exp ((double)ops_value (k, a->sink)[h]) : 0;
    const float *q = row_of (k, a, s, b, h / 2, h % 2);

    for (int t = first; t <= s; t++) {
        const float *key = row_of (k, a, t, b, h / 2, 2);
        double score = 0;

        for (int i = 0; i < DIM; i++)
            score += (double)q[i] * (double)key[i] / sqrt (DIM);
        weight[t] = exp (score);
        sum += weight[t];
    }
    for (int i = 0; i < DIM; i++) {
        out[i] = 0;
        for (int t = first; t <= s; t++)
            out[i] += weight[t] / sum * (double)row_of (k, a, t, b, h / 2, 3)[i];
    }
}

static void check (const char *what, struct model_config c, bool documents)
{
    double want[TOKENS * OUT];
    struct ops_kit k;
    struct attention a = open_attention (&k, c, documents);

    if (documents) {
        for (int t = 0; t < TOKENS; t++) /* a document begins at position 2 of sequence 1 */
            ((int32_t *)k.tensor[a.starts].data)[t] = t % BATCH == 1 && t / BATCH >= 2 ? 2 : 0;
    }
    for (int t = 0; t < TOKENS; t++) {
        for (int h = 0; h < HEADS; h++) {
            int s = t / BATCH, first = 0;

            if (c.window.on)
                first = s > c.window.left ? s - (int)c.window.left : 0;
            if (documents)
                first = ((int32_t *)k.tensor[a.starts].data)[t];
            solve_row (&k, &a, s, t % BATCH, h, first, want + t * OUT + h * DIM);
        }
    }
    ops_forward (&k);
    ok (ops_difference (ops_at (&k, a.out), want, TOKENS * OUT) < 1e-5, "%s", what);
    ops_backward (&k);
    ops_check_slopes (&k, a.out, ops_at (&k, a.dout),
                      (struct ops_slope[]){
                          { "queries, keys and values", ops_at (&k, a.qkv), ops_at (&k, a.dqkv),
                            TOKENS * WIDTH },
                          { "the softmax", a.sink ? ops_value (&k, a.sink) : NULL,
                            a.sink ? ops_grad (&k, a.sink) : NULL, HEADS },
                      },
                      a.sink ? 2 : 1);
    ops_close (&k);
}

/* The largest score of the layer is told if it is asked for. */
static void test_largest (void)
{
    struct ops_kit k;
    struct attention a = open_attention (&k, (struct model_config){ .num_layers = 1 }, false);
    float largest = -1;

    memset (ops_at (&k, a.qkv), 0, TOKENS * WIDTH * sizeof (float));
    *(float *)row_of (&k, &a, 3, 1, 1, 0) = 2;
    *(float *)row_of (&k, &a, 1, 1, 1, 2) = 5;
    k.pass.max_logit = &largest;
    ops_forward (&k);
    is_near ((double)largest, 10 / sqrt (DIM), 1e-5, "the largest logit");
    ops_close (&k);
}

int main (void)
{
    check ("causal attention", (struct model_config){ .num_layers = 1 }, false);
    check ("a window",
           (struct model_config){ .window = { .on = true, .left = 1, .right = 0 } }, false);
    check ("documents", (struct model_config){ .num_layers = 1 }, true);
    check ("a learnable softmax", (struct model_config){ .softmax = MODEL_LEARNABLE }, false);
    test_largest ();
    return done_testing ();
}
