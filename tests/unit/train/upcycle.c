/* upcycle - which part of the dense layer an expert is, and the scale of its weights */

#include <errno.h>
#include <math.h>
#include <string.h>

#include "libcore/train/upcycle.h"
#include "tests/tap/tap.h"

enum { HIDDEN = 6, FFN = 4, PARTS = 2, EXPERTS = 4 };

static struct model_config config_of (bool gated, enum kern_score score)
{
    return (struct model_config){
        .num_layers = 1, .hidden_size = HIDDEN, .ffn_hidden_size = 99, .gated = gated,
        .moe = { .experts = EXPERTS, .topk = 2, .ffn_hidden_size = FFN, .score = score,
                 .upcycling_granularity = PARTS },
    };
}

/* A piece that is a whole tensor of ones. */
static struct piece piece_of (const char *name, float *data, int64_t rows, int64_t cols)
{
    struct piece p = { .dtype = MG_FLOAT32, .ndims = cols ? 2 : 1, .global = { rows, cols },
                       .extent = { rows, cols }, .data = data };

    strcpy (p.name, name);
    for (int64_t i = 0; i < rows * (cols ? cols : 1); i++)
        data[i] = 1;
    return p;
}

#define EXPERT "decoder.layers.0.mlp.experts.local_experts."

static void test (bool gated)
{
    const struct model_config c = config_of (gated, KERN_SOFTMAX);
    const int64_t first = gated ? 2 * FFN : FFN;
    const double s = EXPERTS * PARTS / 2.0, want = pow (s, gated ? 1.0 / 3 : 1.0 / 2);
    static float data[4][2 * FFN * HIDDEN];
    struct piece p[] = {
        piece_of (EXPERT "3.linear_fc1.weight", data[0], first, HIDDEN),
        piece_of (EXPERT "2.linear_fc2.weight", data[1], HIDDEN, FFN),
        piece_of ("decoder.layers.0.mlp.router.weight", data[2], EXPERTS, HIDDEN),
        piece_of ("decoder.layers.0.input_layernorm.weight", data[3], HIDDEN, 0),
    };
    struct mg_error err = { "" };
    struct upcycle u;

    if (gated) /* tensor parallelism may make a piece of one half of the rows */
        p[0].offset[0] = p[0].extent[0] = FFN;
    is_int (upcycle_begin (&u, &c, p, 4, &err), 0, "begin %s", err.text);
    is_str (p[0].name, "decoder.layers.0.mlp.linear_fc1.weight", "an expert has the dense name");
    ok (p[0].global[0] == PARTS * first && p[0].global[1] == HIDDEN, "and is a part of its rows");
    is_int (p[0].offset[0], gated ? FFN * PARTS + FFN : FFN,
            "expert 3 is the second part%s", gated ? " of the half that it is in" : "");
    ok (p[1].global[1] == PARTS * FFN && p[1].offset[1] == 0 && p[1].global[0] == HIDDEN,
        "of the second matrix columns: expert 2 is the first part");
    ok (p[2].optional && !p[1].optional, "the dense model has no router");
    is_str (p[3].name, "decoder.layers.0.input_layernorm.weight", "other tensors stay");
    is_int (upcycle_end (&u, p, 4, 0, &err), 0, "end %s", err.text);
    is_str (p[0].name, EXPERT "3.linear_fc1.weight", "pieces are what they were");
    ok (p[0].global[0] == first && !p[2].optional, "in all");
    is_near ((double)data[0][0], want, 1e-6, "weights of experts are scaled");
    ok (data[1][0] == data[0][0] && data[2][0] == 1 && data[3][0] == 1, "others are not");
}

/* A load that failed scales nothing. */
static void test_failed (void)
{
    const struct model_config c = config_of (false, KERN_SIGMOID);
    float data[FFN * HIDDEN];
    struct piece p = piece_of (EXPERT "0.linear_fc1.weight", data, FFN, HIDDEN);
    struct mg_error err = { "" };
    struct upcycle u;

    if (upcycle_begin (&u, &c, &p, 1, &err) < 0)
        bail_out ("%s", err.text);
    errno = EIO;
    ok (upcycle_end (&u, &p, 1, -1, &err) == -1 && errno == EIO && data[0] == 1,
        "a load that failed stays one, with its errno");
    is_str (p.name, EXPERT "0.linear_fc1.weight", "the piece is what it was");
}

int main (void)
{
    const struct model_config c = config_of (true, KERN_SOFTMAX), dense = upcycle_dense (&c);

    ok (dense.ffn_hidden_size == FFN * PARTS && dense.moe.experts == 0
            && dense.hidden_size == HIDDEN && dense.gated,
        "the dense model has a layer of all parts");
    test (false);
    test (true);
    test_failed ();
    return done_testing ();
}
