/* The shape of a pass: counts of rows on a rank, the planned shape, what fits into it, and the live
 * rows of tensors and inputs.
 */

#include <errno.h>
#include <string.h>

#include "libcore/nn/layer.h"
#include "tests/tap/tap.h"

/* Rank of a group of 2 tensor-parallel and 2 context-parallel ranks, with 4 experts on 2 ranks. */
static struct nn rank (double capacity)
{
    struct nn nn = {
        .config = { .num_layers = 2, .hidden_size = 8, .ffn_hidden_size = 8, .num_heads = 2,
                    .kv_channels = 4, .seq_length = 16, .max_positions = 16, .vocab_size = 8,
                    .padded_vocab_size = 8,
                    .moe = { .experts = 4, .ffn_hidden_size = 8, .topk = 2,
                             .capacity_factor = capacity } },
        .tp_size = 2, .cp_size = 2, .sequence_parallel = true,
        .experts = { .ep_size = 2, .etp_size = 1 },
    };

    nn_set_sizes (&nn);
    return nn;
}

static void test_counts (void)
{
    static const struct {
        enum nn_unit unit;
        int64_t count;
        const char *text;
    } want[] = {
        { NN_ONE, 3, "one" },
        { NN_SEQUENCES, 3 * 3, "sequences" },
        { NN_ROWS, 3 * 12, "this rank's rows" },
        { NN_TOKENS, 3 * 24, "tokens" },
        { NN_WHOLE_TOKENS, 3 * 48, "tokens of all ranks" },
        { NN_CHOICES, 3 * 24, "choices" },
        { NN_RECEIVED, 3 * 24, "received rows" },
        { NN_EXPERT_ROWS, 3 * 24, "rows of experts" },
    };
    const struct nn nn = rank (1);
    struct nn_shape shape;

    nn_shape_init (&shape, &nn, 3, 16);
    is_int (shape.seq, 8, "half of a sequence is on this rank");
    is_int (shape.experts.capacity, 6, "of 24 choices each of 4 experts takes 6");
    for (size_t i = 0; i < sizeof (want) / sizeof (want[0]); i++) {
        const struct nn_extent e = nn_times (nn_extent (want[i].unit, 1), 3);
        const struct layer_tensor row = { .ndims = 2, .shape = { 1000, 5 }, .rows = e };

        is_int (nn_count (&shape, e), want[i].count, "%s", want[i].text);
        is_int (layer_live (&row, &shape), want[i].count, "live rows of a tensor");
    }
    ok (layer_live (&(struct layer_tensor){ .ndims = 1, .shape = { 7 } }, &shape) == 7,
        "a tensor of no unit has the same rows in every pass");
}

/* Counts that are largest in different shapes. */
static void test_plan (void)
{
    const struct nn nn = rank (0);
    struct nn_shape planned = { 0 }, few, many;
    struct mg_error err = { "" };

    nn_shape_init (&few, &nn, 1, 64);
    nn_shape_init (&many, &nn, 8, 16);
    nn_plan_shape (&planned, &few);
    ok (nn_same_counts (&planned, &few), "the first shape is what is planned");
    ok (nn_fits (&planned, &few, &err) == 0, "it fits");
    errno = 0;
    ok (nn_fits (&planned, &many, &err) == -1 && errno == EINVAL, "another does not");
    is_str (err.text, "a pass of 8 sequences: the model was planned for 1", "says so");
    nn_plan_shape (&planned, &many);
    ok (nn_fits (&planned, &few, &err) == 0 && nn_fits (&planned, &many, &err) == 0,
        "both fit what is planned for both");
    ok (planned.batch == 8 && planned.seq == 32 && planned.tokens == 64 && planned.rows == 32,
        "the largest counts");
    is_int (nn_count (&planned, nn_extent (NN_WHOLE_TOKENS, 1)), 128, "of all ranks, too");
    ok (!nn_same_counts (&planned, &many), "which no pass has");
    few.experts.rows = planned.experts.rows + 1;
    ok (nn_fits (&planned, &few, &err) == -1 && strstr (err.text, "rows of experts"), "%s",
        err.text);
}

/* Parts of an input follow each other without a gap. */
static void test_inputs (void)
{
    const struct nn nn = rank (0);
    struct nn_inputs in = { .n = 0 };
    const struct nn_input tokens = { "tokens", 3, { .dtype = MG_INT32, .ndims = 1,
                                                    .shape = { 300 }, .live = 300 },
                                     nn_extent (NN_TOKENS, 1) };
    const struct nn_input other = { "tokens", 3, tokens.tensor, nn_extent (NN_ROWS, 1) };
    const struct nn_input fixed = { "fixed", 1, { .dtype = MG_INT32, .ndims = 1, .shape = { 2 },
                                                  .live = 2 }, { .times = 0 } };
    struct nn_shape shape;

    nn_shape_init (&shape, &nn, 1, 16);
    nn_inputs_add (&in, &tokens, NULL);
    nn_inputs_add (&in, &fixed, NULL);
    ok (nn_inputs_add (&in, &other, NULL) == -1, "an input of another unit is another input");
    nn_inputs_shape (&in, &shape);
    is_int (in.input[0].tensor.live, 3 * 8, "three parts of the tokens of a pass");
    is_int (in.input[0].tensor.shape[0], 300, "there is room for more");
    is_int (in.input[1].tensor.live, 2, "what no shape changes");
}

/* With sequence parallelism rows are filled up, to what the ranks can share. */
static void test_sequences (void)
{
    static const struct nn_sequence sequence[] = { { 1, 4, 1 }, { 0, 0, 4 } };
    struct nn nn = rank (0);
    struct mg_error err = { "" };
    struct nn_shape shape;

    nn.cp_size = 1;
    nn.cache = (struct nn_cache){ .sequences = 2, .length = 8 };
    nn_shape_continue (&shape, &nn, sequence, 2, 2);
    ok (shape.batch == 1 && shape.tokens == 6 && shape.rows == 3 && shape.wanted == 2,
        "5 rows of two sequences are 6 on two ranks");
    ok (nn_check_sequences (&nn, &shape, &err) == 0, "they have places %s", err.text);
    nn.cache.length = 4;
    ok (nn_check_sequences (&nn, &shape, &err) == -1, "%s", err.text);
    nn.cache.length = 0;
    ok (nn_check_sequences (&nn, &shape, &err) == -1, "%s", err.text);
    nn_shape_init (&shape, &nn, 1, 8);
    ok (nn_check_sequences (&nn, &shape, &err) == 0, "without caches there are no sequences");
}

int main (void)
{
    test_counts ();
    test_plan ();
    test_inputs ();
    test_sequences ();
    return done_testing ();
}
