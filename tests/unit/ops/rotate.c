/* rotate - rotations keep the length of pairs, are undone backward, and leave out what they should:
 * the first position, values, layers without rotation
 */

#include <math.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/ops/kit.h"

enum { SEQ = 5, BATCH = 2, TOKENS = SEQ * BATCH, DIM = 6, GROUPS = 2, HEADS = 4,
       WIDTH = GROUPS * 4 * DIM, N = TOKENS * WIDTH };

static void test (bool interleaved)
{
    const struct model_config c = { .positions = MODEL_ROPE, .num_heads = HEADS,
                                    .num_groups = GROUPS, .kv_channels = DIM,
                                    .rope = { .base = 10000, .percent = 1,
                                              .interleaved = interleaved, .interpolation = 1,
                                              .factor = 1, .original = 8 } };
    struct ops_kit k;
    int x, dx, moved = 0, lengths = 0, values = 0;
    float before[N];

    ops_open (&k, c, BATCH);
    x = ops_random (&k, "x", TOKENS, WIDTH);
    dx = ops_zeros (&k, "dx", MG_FLOAT32, TOKENS, WIDTH);
    memcpy (before, ops_at (&k, x), sizeof (before));
    ops_phase (&k, &(struct phase){ .op = &op_rotate, .which = HEADS_BOTH,
                                    .operand = { [ROTATE_X] = x, [ROTATE_DX] = dx } });
    ops_forward (&k);
    for (int t = 0; t < TOKENS; t++) {
        for (int h = 0; h < GROUPS * 4; h++) {
            const float *y = ops_at (&k, x) + t * WIDTH + h * DIM;
            const float *from = before + t * WIDTH + h * DIM;

            values += h % 4 == 3 && memcmp (y, from, DIM * sizeof (float)) != 0;
            moved += h % 4 != 3
                     && (memcmp (y, from, DIM * sizeof (float)) != 0) != (t / BATCH > 0);
            for (int i = 0; i < DIM / 2; i++) {
                int a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + DIM / 2;

                lengths += fabsf (hypotf (y[a], y[b]) - hypotf (from[a], from[b])) > 1e-5f;
            }
        }
    }
    is_int (values, 0, "values stay");
    is_int (moved, 0, "queries and keys turn, but not at the first position");
    is_int (lengths, 0, "pairs of %s keep their length", interleaved ? "neighbours" : "halves");
    memcpy (ops_at (&k, dx), ops_at (&k, x), sizeof (before));
    ops_backward (&k);
    for (int i = 0; i < N; i++)
        lengths += fabsf (ops_at (&k, dx)[i] - before[i]) > 1e-5f;
    is_int (lengths, 0, "backward is the rotation back");
    ops_close (&k);
}

/* Each second layer does not rotate. */
static void test_layers (void)
{
    struct mg_error err = { "" };
    struct model_config c = { .positions = MODEL_ROPE, .num_heads = HEADS, .num_groups = GROUPS,
                              .kv_channels = DIM, .num_layers = 2,
                              .rope = { .base = 10000, .percent = 1, .interpolation = 1,
                                        .factor = 1, .original = 8 } };
    struct ops_kit k;
    float before[N];
    int x;

    if (pattern_parse ("no-rope-freq", "[0,1]", 2, &c.no_rope, &err) < 0)
        bail_out ("%s", err.text);
    ops_open (&k, c, BATCH);
    x = ops_random (&k, "x", TOKENS, WIDTH);
    memcpy (before, ops_at (&k, x), sizeof (before));
    ops_phase (&k, &(struct phase){ .op = &op_rotate, .which = HEADS_BOTH,
                                    .operand = { [ROTATE_X] = x } });
    k.layer.number = 1;
    ops_forward (&k);
    ok (memcmp (before, ops_at (&k, x), sizeof (before)) == 0, "a layer without rotation");
    k.layer.number = 0;
    ops_forward (&k);
    ok (memcmp (before, ops_at (&k, x), sizeof (before)) != 0, "one with it");
    ops_close (&k);
}

int main (void)
{
    test (false);
    test (true);
    test_layers ();
    return done_testing ();
}
