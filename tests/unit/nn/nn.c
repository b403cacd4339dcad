/* nn - sizes of a rank's shards, where heads are, own rows, side streams */

#include <string.h>

#include "libcore/nn/nn.h"
#include "tests/tap/tap.h"

static struct nn rank_of (int heads, int groups, int tp, int rank)
{
    struct nn nn = {
        .config = { .num_layers = 2, .hidden_size = 48, .ffn_hidden_size = 96, .num_heads = heads,
                    .num_groups = groups, .kv_channels = 6, .seq_length = 8, .max_positions = 8,
                    .vocab_size = 30, .padded_vocab_size = 32 },
        .tp_size = tp, .tp_rank = rank, .cp_size = 1,
        .experts = { .ep_size = 1, .etp_size = 1 },
    };

    nn_set_sizes (&nn);
    return nn;
}

static void test_sizes (void)
{
    struct nn nn = rank_of (8, 4, 2, 1);

    ok (nn.hidden == 48 && nn.local_heads == 4 && nn.local_groups == 2 && nn.group_ranks == 1,
        "two ranks have half of the heads and groups each");
    ok (nn.local_ffn == 48 && nn.local_vocab == 16 && nn.local_attention == 24
            && nn.head_dim == 6 && nn.head_dim_v == 6,
        "and of the other sizes that are split");
    nn = rank_of (8, 2, 4, 1);
    ok (nn.local_heads == 2 && nn.local_groups == 1 && nn.group_ranks == 2,
        "two of four ranks share a group");
}

static void same (struct nn_heads h, struct nn_heads want, const char *what)
{
    ok (memcmp (&h, &want, sizeof (h)) == 0,
        "%s: first %d, %d groups of %d, %d and %d apart", what, (int)h.first, (int)h.groups,
        (int)h.heads, (int)h.stride_g, (int)h.stride_h);
}

static void test_heads (void)
{
    struct nn nn = rank_of (8, 4, 2, 0); /* [group of 2][2 queries, key, value] */

    same (nn_heads (&nn, HEADS_BOTH, true), (struct nn_heads){ 0, 2, 3, 24, 6 },
          "queries and keys in the fused product");
    same (nn_heads (&nn, HEADS_QUERIES, true), (struct nn_heads){ 0, 2, 2, 24, 6 }, "queries");
    same (nn_heads (&nn, HEADS_KEYS, true), (struct nn_heads){ 12, 2, 1, 24, 6 }, "keys");
    same (nn_heads (&nn, HEADS_QUERIES, false), (struct nn_heads){ 0, 2, 2, 12, 6 },
          "queries alone");
    same (nn_heads (&nn, HEADS_KEYS, false), (struct nn_heads){ 0, 2, 1, 6, 6 }, "keys alone");
    nn.config.latent = (struct model_latent){ .on = true, .kv_rank = 5, .qk_dim = 7,
                                              .rope_dim = 4, .v_dim = 3 };
    nn_set_sizes (&nn);
    ok (nn.head_dim == 11 && nn.head_dim_v == 3, "sizes of heads with latents");
    same (nn_heads (&nn, HEADS_LATENT_QUERIES, false), (struct nn_heads){ 7, 1, 4, 44, 11 },
          "the rotated end of each query");
    same (nn_heads (&nn, HEADS_LATENT_KEY, false), (struct nn_heads){ 5, 1, 1, 9, 9 },
          "the one key of all heads");
}

static void test_rows (void)
{
    const struct nn nn = rank_of (8, 4, 2, 1);
    const struct nn_shape whole = { .batch = 2, .seq = 8, .tokens = 16, .rows = 16 };
    const struct nn_shape part = { .batch = 2, .seq = 8, .tokens = 16, .rows = 8 };
    float memory[16 * 3];
    const struct tensor all = { .data = memory, .ndims = 2, .shape = { 16, 3 }, .live = 16 };
    const struct tensor own = { .data = memory, .ndims = 2, .shape = { 8, 3 }, .live = 8 };

    is_int (nn_own_row (&nn, &whole), 0, "a rank with all rows begins with the first");
    is_int (nn_own_row (&nn, &part), 8, "the second of two with half of them");
    ok (nn_own_rows (&nn, &part, &all) == memory + 24, "in a tensor of all rows");
    ok (nn_own_rows (&nn, &part, &own) == memory && nn_own_rows (&nn, &whole, &all) == memory,
        "and of its own");
    ok (nn_pattern_number (&nn, 1) == 1 && nn_pattern_number (&nn, 2) == 0,
        "layers for multi-token prediction begin again in patterns");
}

static void test_sides (void)
{
    struct nn nn = rank_of (8, 4, 1, 0);
    struct mg_error err = { "" };
    bool tp = false, ep = true;

    is_int (nn_open_sides (&nn), 0, "without side streams no work is open");
    is_int (nn_await (&nn, NN_ALL_SIDES, &err), 0, "and none is awaited");
    nn.tp_side.stream = nn.experts.side.stream = (struct mg_stream *)&tp; /* nobody uses it */
    nn.tp_side.open = &tp;
    nn.experts.side.open = &ep;
    is_int (nn_open_sides (&nn), NN_EP_SIDE, "work on one of them");
    nn_forget_sides (&nn);
    is_int (nn_open_sides (&nn), 0, "is forgotten");
    is_str (nn_side_text (NN_TP_SIDE | NN_EP_SIDE), "tensor-parallel",
            "the first of a set by name");
}

int main (void)
{
    test_sizes ();
    test_heads ();
    test_rows ();
    test_sides ();
    return done_testing ();
}
