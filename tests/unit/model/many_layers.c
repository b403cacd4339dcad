/* The work of describing a model grows with its layers, not with their square: calls are counted.
 */

#include <stdlib.h>

#include "libcore/model/gpt.h"
#include "libcore/model/model_params.h"
#include "tests/tap/tap.h"

enum gpt_layer __real_gpt_kind (const struct nn *nn, int layer);
enum gpt_layer __wrap_gpt_kind (const struct nn *nn, int layer);

static size_t calls;

/* Called for each layer that something is counted of. */
enum gpt_layer __wrap_gpt_kind (const struct nn *nn, int layer)
{
    calls++;
    return __real_gpt_kind (nn, layer);
}

/* Calls while both pipeline ranks of such a model are described. */
static size_t count (int layers, int mtp, int vpp)
{
    const struct model_config c = {
        .num_layers = layers, .hidden_size = 8, .ffn_hidden_size = 8, .num_heads = 2,
        .kv_channels = 4, .seq_length = 4, .max_positions = 4, .vocab_size = 8,
        .padded_vocab_size = 8, .positions = MODEL_ROPE, .mtp_num_layers = mtp,
    };
    const struct stages_config split = { .num_layers = layers, .mtp_layers = mtp, .pp = 2,
                                         .vpp = vpp };
    const struct geometry g = { .tp = 1, .pp = 2, .cp = 1, .ep = 1, .etp = 1 };
    struct mg_error err = { "" };
    struct stages *stages = stages_create (&split, &err);
    int last = -1, wrong = 0;

    if (!stages)
        bail_out ("%s", err.text);
    calls = 0;
    for (int rank = 0; rank < 2; rank++) {
        size_t n;
        struct param *p = model_stage_params (&c, &g, false, stages, rank, &n, &err);

        if (!p)
            bail_out ("%s", err.text);
        for (size_t i = 1; i < n; i++)
            wrong += p[i].order <= p[i - 1].order && p[i].order != 0;
        last = p[n - 1].order;
        free (p);
    }
    ok (wrong == 0 && last > layers, "%d + %d layers, %d stages a rank: %d tensors, in order",
        layers, mtp, vpp, last + 1);
    stages_destroy (stages);
    return calls;
}

static void check (int layers, int mtp, int vpp)
{
    size_t few = count (layers, mtp, vpp), many = count (4 * layers, 4 * mtp, vpp);

    ok (few > 0 && many <= 5 * few, "%zu calls, and %zu for four times as many layers", few, many);
}

int main (void)
{
    check (256, 0, 1);
    check (256, 0, 64);
    check (2, 256, 1);
    return done_testing ();
}
