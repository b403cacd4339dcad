/* norm - norms of hidden states, of heads in a fused product and of latents: their
 * formula in double, gradients, columns that are copied, gradients that are added to
 */

#include <math.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/ops/kit.h"

/* y of one row, by the formula. */
static void solve (const struct ops_kit *k, const float *x, int64_t n, const float *weight,
                   const float *bias, double *y)
{
    bool centred = k->nn.config.norm == KERN_LAYER_NORM;
    double mean = 0, square = 0;

    for (int64_t i = 0; i < n && centred; i++)
        mean += (double)x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        square += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
    for (int64_t i = 0; i < n; i++)
        y[i] = ((double)x[i] - mean) / sqrt (square + k->nn.config.norm_epsilon)
                   * (double)weight[i]
               + (bias ? (double)bias[i] : 0);
}

/* The operands of a norm over n columns. */
struct norm {
    int x, y, stat, weight, bias, dy, dx;
    int64_t n;
};

/* x has 'rows' of 'wide' columns; y has 'normed_rows' of 'y_cols' columns. */
static struct norm norm_of (struct ops_kit *k, int64_t rows, int64_t wide, int64_t normed_rows,
                            int64_t y_cols, int64_t cols)
{
    const struct kern_norm_kind *kind = &kern_norm_kinds[k->nn.config.norm];

    return (struct norm){
        .x = ops_random (k, "x", rows, wide),
        .y = ops_zeros (k, "y", MG_FLOAT32, normed_rows, y_cols),
        .stat = ops_zeros (k, "stat", MG_FLOAT32, kind->stats, normed_rows),
        .weight = ops_param (k, "weight", cols, 0),
        .bias = kind->bias ? ops_param (k, "bias", cols, 0) : LAYER_NONE,
        .dy = ops_random (k, "dy", normed_rows, y_cols),
        .dx = ops_zeros (k, "dx", MG_FLOAT32, rows, wide),
        .n = cols,
    };
}

static void add_phase (struct ops_kit *k, const struct norm *n, struct phase phase)
{
    const int operand[] = { [NORM_X] = n->x, [NORM_Y] = n->y, [NORM_STAT] = n->stat,
                            [NORM_WEIGHT] = n->weight, [NORM_BIAS] = n->bias, [NORM_DY] = n->dy,
                            [NORM_DX] = n->dx };

    memcpy (phase.operand, operand, sizeof (operand));
    phase.op = &op_norm;
    ops_phase (k, &phase);
}

static void check_slopes (struct ops_kit *k, const struct norm *n)
{
    struct ops_slope slope[3] = {
        { "x", ops_at (k, n->x), ops_at (k, n->dx), tensor_count (&k->tensor[n->x]) },
        { "the weight", ops_value (k, n->weight), ops_grad (k, n->weight), n->n },
    };

    if (n->bias)
        slope[2] = (struct ops_slope){ "the bias", ops_value (k, n->bias), ops_grad (k, n->bias),
                                       n->n };
    ops_check_slopes (k, n->y, ops_at (k, n->dy), slope, n->bias ? 3 : 2);
}

static const float *bias_of (const struct ops_kit *k, const struct norm *n)
{
    return n->bias ? ops_value (k, n->bias) : NULL;
}

static void test_hidden (enum kern_norm kind)
{
    enum { HIDDEN = 12, ROWS = 10 };
    struct ops_kit k;
    struct norm n;
    double want[ROWS * HIDDEN];
    float first[ROWS * HIDDEN];
    bool added = true;

    ops_open (&k, (struct model_config){ .norm = kind }, 2);
    n = norm_of (&k, ROWS, HIDDEN, ROWS, HIDDEN, HIDDEN);
    add_phase (&k, &n, (struct phase){ .name = "norm" });
    for (int r = 0; r < ROWS; r++)
        solve (&k, ops_at (&k, n.x) + r * HIDDEN, HIDDEN, ops_value (&k, n.weight),
               bias_of (&k, &n), want + r * HIDDEN);
    ops_forward (&k);
    ok (ops_difference (ops_at (&k, n.y), want, ROWS * HIDDEN) < 1e-5, "%s by its formula",
        kern_norm_kinds[kind].name);
    ops_backward (&k);
    check_slopes (&k, &n);
    memcpy (first, ops_at (&k, n.dx), sizeof (first));
    add_phase (&k, &n, (struct phase){ .name = "norm", .adds = true });
    ops_backward (&k);
    for (int i = 0; i < ROWS * HIDDEN; i++)
        added &= fabsf (ops_at (&k, n.dx)[i] - 2 * first[i]) < 1e-5f;
    ok (added, "dx is added to if the phase says so");
    ops_close (&k);
}

/* Two heads of queries and one key in each of two groups; values stay out of it. */
static void test_heads (enum heads which)
{
    enum { DIM = 6, GROUPS = 2, WIDTH = GROUPS * 4 * DIM, TOKENS = 5 };
    const struct model_config c = { .norm = KERN_RMS_NORM, .qk_norm = true, .num_heads = 4,
                                    .num_groups = GROUPS, .kv_channels = DIM, .hidden_size = 12 };
    int heads = which == HEADS_QUERIES ? 2 : 1, at = which == HEADS_QUERIES ? 0 : 2;
    double want[TOKENS * GROUPS * 2 * DIM];
    struct ops_kit k;
    struct norm n;
    bool kept = true;

    ops_open (&k, c, 1);
    n = norm_of (&k, TOKENS, WIDTH, TOKENS * GROUPS * heads, DIM, DIM);
    for (int i = 0; i < TOKENS * WIDTH; i++)
        ops_at (&k, n.dx)[i] = i / DIM % 4 >= at && i / DIM % 4 < at + heads ? 0 : 77;
    add_phase (&k, &n, (struct phase){ .norm_rows = NORM_HEADS, .which = (int)which });
    for (int r = 0; r < TOKENS * GROUPS * heads; r++)
        solve (&k, ops_at (&k, n.x) + (r / heads * 4 + at + r % heads) * DIM, DIM,
               ops_value (&k, n.weight), NULL, want + r * DIM);
    ops_forward (&k);
    ok (ops_difference (ops_at (&k, n.y), want, TOKENS * GROUPS * heads * DIM) < 1e-5,
        "heads %d of a fused product", (int)which);
    ops_backward (&k);
    for (int i = 0; i < TOKENS * WIDTH; i++) {
        bool own = i / DIM % 4 >= at && i / DIM % 4 < at + heads;

        kept &= own || ops_at (&k, n.dx)[i] == 77;
        if (!own)
            ops_at (&k, n.dx)[i] = 0;
    }
    ok (kept, "other columns of its gradient stay");
    check_slopes (&k, &n);
    ops_close (&k);
}

/* The rest of the columns is copied, and so is its gradient, as dx and dy are one tensor. */
static void test_latent (void)
{
    enum { COLS = 7, WIDE = 10, TOKENS = 5 };
    double want[TOKENS * WIDE];
    struct ops_kit k;
    struct norm n;
    float dy[TOKENS * WIDE];

    ops_open (&k, (struct model_config){ .norm = KERN_LAYER_NORM }, 1);
    n = norm_of (&k, TOKENS, WIDE, TOKENS, WIDE, COLS);
    n.dx = n.dy;
    memcpy (dy, ops_at (&k, n.dy), sizeof (dy));
    add_phase (&k, &n, (struct phase){ .norm_rows = NORM_LATENT, .norm_cols = COLS });
    for (int r = 0; r < TOKENS; r++) {
        const float *x = ops_at (&k, n.x) + r * WIDE;

        solve (&k, x, COLS, ops_value (&k, n.weight), bias_of (&k, &n), want + r * WIDE);
        for (int c = COLS; c < WIDE; c++)
            want[r * WIDE + c] = (double)x[c];
    }
    ops_forward (&k);
    ok (ops_difference (ops_at (&k, n.y), want, TOKENS * WIDE) < 1e-5,
        "a latent's first columns are normalised, the rest is copied");
    ops_backward (&k);
    ops_check_slopes (&k, n.y, dy,
                      &(struct ops_slope){ "the latent", ops_at (&k, n.x), ops_at (&k, n.dx),
                                           TOKENS * WIDE }, 1);
    ops_close (&k);
}

static void test_one_plus (void)
{
    enum { HIDDEN = 12, ROWS = 5 };
    struct ops_kit k;
    struct norm n;
    float plain[ROWS * HIDDEN];

    ops_open (&k, (struct model_config){ .norm = KERN_RMS_NORM }, 1);
    n = norm_of (&k, ROWS, HIDDEN, ROWS, HIDDEN, HIDDEN);
    add_phase (&k, &n, (struct phase){ .name = "norm" });
    ops_forward (&k);
    memcpy (plain, ops_at (&k, n.y), sizeof (plain));
    for (int i = 0; i < HIDDEN; i++)
        ops_value (&k, n.weight)[i] -= 1;
    k.nn.config.norm_1p = true;
    ops_forward (&k);
    for (int i = 0; i < ROWS * HIDDEN; i++)
        plain[i] -= ops_at (&k, n.y)[i];
    ok (ops_difference (plain, (double[ROWS * HIDDEN]){ 0 }, ROWS * HIDDEN) < 1e-6,
        "weights that count from 1");
    ops_close (&k);
}

int main (void)
{
    test_hidden (KERN_LAYER_NORM);
    test_hidden (KERN_RMS_NORM);
    test_heads (HEADS_QUERIES);
    test_heads (HEADS_KEYS);
    test_latent ();
    test_one_plus ();
    return done_testing ();
}
