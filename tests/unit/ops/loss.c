/* loss - cross entropy of masked tokens: the sums, the gradient that replaces the logits, columns
 * of padding, the mean and the sum over tokens
 */

#include <math.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/ops/kit.h"

enum { SEQ = 5, BATCH = 2, TOKENS = SEQ * BATCH, VOCAB = 7, COLS = 8, N = TOKENS * COLS };

static const float mask[TOKENS] = { 1, 0, 1, 1, 0.5f, 1, 1, 1, 0, 1 };
static const int32_t labels[TOKENS] = { 0, 1, 2, 3, 4, 5, 6, 0, 3, 2 };

struct loss {
    int logits, total;
};

static struct loss open_loss (struct ops_kit *k, const double *weight)
{
    struct loss l;
    int label, masks, max, sums, scale, count;

    ops_open (k, (struct model_config){ .vocab_size = VOCAB, .padded_vocab_size = COLS }, BATCH);
    l.logits = ops_random (k, "logits", TOKENS, COLS);
    l.total = ops_zeros (k, "total", MG_FLOAT64, 3, 1);
    label = ops_zeros (k, "labels", MG_INT32, TOKENS, 1);
    masks = ops_zeros (k, "mask", MG_FLOAT32, TOKENS, 1);
    max = ops_zeros (k, "max", MG_FLOAT32, TOKENS, 1);
    sums = ops_zeros (k, "sums", MG_FLOAT32, 2, TOKENS);
    scale = ops_zeros (k, "scale", MG_FLOAT32, TOKENS, 1);
    count = ops_zeros (k, "count", MG_FLOAT64, 1, 1);
    memcpy (k->tensor[label].data, labels, sizeof (labels));
    memcpy (k->tensor[masks].data, mask, sizeof (mask));
    for (int t = 0; t < TOKENS; t++)
        *(double *)k->tensor[count].data += (double)mask[t];
    k->pass.loss_weight = k->pass.factored_weight = weight;
    ops_phase (k, &(struct phase){ .op = &op_cross_entropy,
                                   .operand = { [LOSS_LOGITS] = l.logits, [LOSS_MAX] = max,
                                                [LOSS_SUMS] = sums, [LOSS_SCALE] = scale,
                                                [LOSS_LABELS] = label, [LOSS_MASK] = masks,
                                                [LOSS_COUNT] = count, [LOSS_TOTAL] = l.total } });
    return l;
}

/* The sum of masked losses of the true vocabulary, and its slope in each logit. */
static double solve (const float *logits, double *slope)
{
    double total = 0;

    for (int t = 0; t < TOKENS; t++) {
        const float *x = logits + t * COLS;
        double sum = 0;

        for (int c = 0; c < VOCAB; c++)
            sum += exp ((double)x[c]);
        total += (double)mask[t] * (log (sum) - (double)x[labels[t]]);
        for (int c = 0; c < COLS; c++)
            slope[t * COLS + c] = c < VOCAB ? (double)mask[t] * (exp ((double)x[c]) / sum
                                                                 - (c == labels[t]))
                                            : 0;
    }
    return total;
}

static void test (bool per_token)
{
    const double weight = 0.25;
    double slope[N], want, tokens = 0;
    struct ops_kit k;
    struct loss l = open_loss (&k, &weight);
    const double *total = k.tensor[l.total].data;

    for (int t = 0; t < TOKENS; t++) {
        tokens += (double)mask[t];
        ops_at (&k, l.logits)[t * COLS + VOCAB] = 50; /* padding, which must not count */
    }
    k.pass.per_token_loss = per_token;
    want = solve (ops_at (&k, l.logits), slope);
    for (int i = 0; i < N; i++)
        slope[i] *= weight / (per_token ? 1 : tokens);
    ops_forward (&k);
    is_near (total[0], want * weight / (per_token ? 1 : tokens), 1e-6, "the weighted loss");
    is_near (total[1], want, 1e-5, "the sum of the tokens' losses");
    is_near (total[2], tokens, 0, "the number of tokens");
    ops_backward (&k);
    ok (ops_difference (ops_at (&k, l.logits), slope, N) < 1e-6,
        "gradients of the %s, none of padding", per_token ? "sum" : "mean");
    ops_close (&k);
}

int main (void)
{
    test (false);
    test (true);
    return done_testing ();
}
