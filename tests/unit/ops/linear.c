/* linear - column- and row-parallel products of one rank, with a bias and without, products that
 * make logits, and products of a frozen phase
 */

#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/ops/kit.h"

enum { TOKENS = 10, IN = 12, OUT = 8 };

struct product {
    int x, y, weight, bias, dy, dx;
};

static struct product open_product (struct ops_kit *k, bool bias)
{
    ops_open (k, (struct model_config){ .num_layers = 1 }, 2);
    return (struct product){
        .x = ops_random (k, "x", TOKENS, IN), .y = ops_zeros (k, "y", MG_FLOAT32, TOKENS, OUT),
        .weight = ops_param (k, "weight", OUT, IN),
        .bias = bias ? ops_param (k, "bias", OUT, 0) : LAYER_NONE,
        .dy = ops_random (k, "dy", TOKENS, OUT),
        .dx = ops_zeros (k, "dx", MG_FLOAT32, TOKENS, IN),
    };
}

static void solve (const struct ops_kit *k, const struct product *p, double *want)
{
    for (int i = 0; i < TOKENS * OUT; i++) {
        want[i] = p->bias ? (double)ops_value (k, p->bias)[i % OUT] : 0;
        for (int l = 0; l < IN; l++)
            want[i] += (double)ops_at (k, p->x)[i / OUT * IN + l]
                       * (double)ops_value (k, p->weight)[i % OUT * IN + l];
    }
}

static void check (struct ops_kit *k, const struct product *p, const float *dy)
{
    const struct ops_slope slope[] = {
        { "x", ops_at (k, p->x), ops_at (k, p->dx), TOKENS * IN },
        { "the weight", ops_value (k, p->weight), ops_grad (k, p->weight), OUT * IN },
        { "the bias", p->bias ? ops_value (k, p->bias) : NULL,
          p->bias ? ops_grad (k, p->bias) : NULL, OUT },
    };

    ops_check_slopes (k, p->y, dy, slope, p->bias ? 3 : 2);
}

static void column (struct ops_kit *k, const struct product *p, const struct layer_op *op, int dy,
                    bool frozen)
{
    ops_phase (k, &(struct phase){ .op = op, .frozen = frozen,
                                   .operand = { [COLUMN_X] = p->x, [COLUMN_Y] = p->y,
                                                [COLUMN_WEIGHT] = p->weight,
                                                [COLUMN_BIAS] = p->bias, [COLUMN_DY] = dy,
                                                [COLUMN_DX] = p->dx } });
}

static void test_column (bool bias)
{
    struct ops_kit k;
    struct product p = open_product (&k, bias);
    double want[TOKENS * OUT];
    float grad[OUT * IN];
    bool twice = true;

    column (&k, &p, &op_linear_column, p.dy, false);
    solve (&k, &p, want);
    ops_forward (&k);
    ok (ops_difference (ops_at (&k, p.y), want, TOKENS * OUT) < 1e-5, "a column-parallel product%s",
        bias ? " and a bias" : "");
    ops_backward (&k);
    check (&k, &p, ops_at (&k, p.dy));
    memcpy (grad, ops_grad (&k, p.weight), sizeof (grad));
    ops_backward (&k);
    for (int i = 0; i < OUT * IN; i++)
        twice &= ops_grad (&k, p.weight)[i] - 2 * grad[i] < 1e-5f
                 && 2 * grad[i] - ops_grad (&k, p.weight)[i] < 1e-5f;
    ok (twice, "the next pass adds to the gradient of the weight");
    k.param[p.weight].product = k.param[p.weight].fresh = true;
    memset (ops_grad (&k, p.weight), 0x7f, sizeof (grad));
    ops_backward (&k);
    ok (memcmp (ops_grad (&k, p.weight), grad, sizeof (grad)) == 0, "a fresh one is overwritten");
    ops_close (&k);
}

static void test_row (void)
{
    struct ops_kit k;
    struct product p = open_product (&k, false);
    double want[TOKENS * OUT];

    ops_phase (&k, &(struct phase){ .op = &op_linear_row,
                                    .operand = { [ROW_X] = p.x, [ROW_Y] = p.y,
                                                 [ROW_WEIGHT] = p.weight, [ROW_DY] = p.dy,
                                                 [ROW_DX] = p.dx } });
    solve (&k, &p, want);
    ops_forward (&k);
    ok (ops_difference (ops_at (&k, p.y), want, TOKENS * OUT) < 1e-5, "a row-parallel product");
    ops_backward (&k);
    check (&k, &p, ops_at (&k, p.dy));
    ops_forward (&k);
    ops_phase (&k, &(struct phase){ .op = &op_reduce, .operand = { [REDUCE_X] = p.y } });
    ops_forward (&k);
    ok (ops_difference (ops_at (&k, p.y), want, TOKENS * OUT) < 1e-5,
        "the sum over one rank leaves it");
    ops_close (&k);
}

/* The gradient of logits lies where logits are. */
static void test_logits (bool frozen)
{
    struct ops_kit k;
    struct product p = open_product (&k, false);
    float dy[TOKENS * OUT];
    bool none = true;

    column (&k, &p, &op_linear_logits, p.y, frozen);
    ops_forward (&k);
    memcpy (ops_at (&k, p.y), ops_at (&k, p.dy), sizeof (dy));
    memcpy (dy, ops_at (&k, p.dy), sizeof (dy));
    ops_backward (&k);
    if (!frozen) {
        check (&k, &p, dy);
        ops_close (&k);
        return;
    }
    for (int i = 0; i < OUT * IN; i++)
        none &= ops_grad (&k, p.weight)[i] == 0;
    ok (none, "a frozen phase leaves the weight's gradient alone");
    ops_check_slopes (&k, p.y, dy,
                      &(struct ops_slope){ "x", ops_at (&k, p.x), ops_at (&k, p.dx), TOKENS * IN },
                      1);
    ops_close (&k);
}

int main (void)
{
    test_column (false);
    test_column (true);
    test_row ();
    test_logits (false);
    test_logits (true);
    return done_testing ();
}
