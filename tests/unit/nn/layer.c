/* layer - specifications: what does not fit, names, shapes of a rank's parameters, uses of tensors
 */

#include <errno.h>
#include <string.h>

#include "libcore/nn/layer.h"
#include "tests/tap/tap.h"

static const struct layer_op op_use = {
    .name = "use",
    .operand = { { "x", false, OPERAND_READ, 0 }, { "y", false, OPERAND_WRITE, OPERAND_READ },
                 { "w", true, OPERAND_READ, OPERAND_ADD } },
};

/* One parameter, tensor or phase too many: the specification is refused. */
static void test_full (void)
{
    struct layer_spec spec = { .name = "layer" };
    const struct layer_param param = { .name = "w", .ndims = 1, .global = { 1 } };
    const struct layer_tensor tensor = { .name = "t", .life = LIFE_SHARED };
    struct mg_error err;

    for (int i = 1; i <= LAYER_MAX_PARAMS; i++)
        is_int (layer_add_param (&spec, &param), i, "parameter %d", i);
    for (int i = 0; i < LAYER_MAX_TENSORS; i++)
        layer_add_tensor (&spec, &tensor);
    ok (!spec.full && spec.num_tensors == LAYER_MAX_TENSORS, "as many as there is room for");
    layer_add_param (&spec, &param);
    ok (spec.full && spec.num_params == LAYER_MAX_PARAMS, "one more does not fit");
    errno = 0;
    ok (layer_spec_check (&spec, &err) == -1 && errno == EINVAL && strstr (err.text, "more than"),
        "which the check says: %s", err.text);
    spec.full = false;
    for (int i = 0; i <= LAYER_MAX_PHASES; i++)
        layer_add_phase (&spec, &(struct phase){ .name = "p", .op = &op_use });
    ok (spec.full && spec.num_phases == LAYER_MAX_PHASES, "nor does a further phase");
    spec.full = false;
    layer_add_tensor (&spec, &tensor);
    ok (spec.full && spec.num_tensors == LAYER_MAX_TENSORS, "nor a tensor");
}

static void test_names (void)
{
    struct layer_spec spec = { .name = "layer", .prefix = "decoder.layers.%d.",
                               .mtp_prefix = "mtp.layers.%d.part." };
    struct layer layer = { .spec = &spec, .number = 12 };
    char name[PIECE_NAME_MAX], text[LAYER_TEXT_MAX], small[8];

    layer_name (&layer, "mlp.weight", name);
    is_str (name, "decoder.layers.12.mlp.weight", "a layer's number is in its names");
    layer_text (&layer, text);
    is_str (text, "layer 12", "and in texts");
    layer.mtp = 2;
    layer_name (&layer, "mlp.weight", name);
    is_str (name, "mtp.layers.1.part.mlp.weight", "for multi-token prediction that among these");
    layer_text (&layer, text);
    is_str (text, "mtp layer 1", "in texts, too");
    layer = (struct layer){ .spec = &spec, .number = -1 };
    spec.name = "embedding";
    layer_text (&layer, text);
    is_str (text, "embedding", "what is no transformer layer has no number");
    layer_format ("output.weight", 3, name, sizeof (name));
    is_str (name, "output.weight", "a name without a place for it stays");
    layer_format ("layers.%d.weight", 3, small, sizeof (small));
    is_str (small, "layers.", "one without room is cut");
}

static void test_counts (void)
{
    const struct nn nn = { .tp_size = 4, .tp_rank = 1,
                           .experts = { .ep_size = 2, .etp_size = 1, .local = 3 } };
    const struct layer_param whole = { .ndims = 2, .global = { 8, 12 } };
    struct layer_param rows = whole, cols = whole, padded = whole, gate = whole, vector = whole;
    struct layer_param experts = whole;

    rows.split = padded.split = gate.split = SPLIT_ROWS;
    cols.split = SPLIT_COLS;
    padded.padded = 16;
    gate.blocks = 2;
    vector.ndims = 1;
    experts.experts = 6;
    is_int (layer_param_count (&whole, &nn), 96, "a parameter that all have");
    is_int (layer_param_count (&rows, &nn), 24, "a quarter of the rows");
    is_int (layer_param_count (&cols, &nn), 24, "or of the columns");
    is_int (layer_param_count (&padded, &nn), 48, "padding counts");
    is_int (layer_param_count (&gate, &nn), 24, "a quarter of each block");
    is_int (layer_param_count (&vector, &nn), 8, "a vector");
    is_int (layer_param_count (&experts, &nn), 288, "those of this rank's experts");
    is_near (layer_product_flops (&whole, &(struct nn_shape){ .tokens = 5 }), 2 * 96 * 5, 0,
             "a product has two operations for each element and token");
}

static void test_passes (void)
{
    struct layer_spec spec = { .name = "layer", .num_tensors = 3, .num_phases = 2 };
    struct layer layer = { .spec = &spec };

    spec.tensor[1].life = LIFE_INPUT;
    spec.tensor[2].life = LIFE_SAVED;
    spec.phase[0] = (struct phase){ .name = "a", .op = &op_use, .operand = { 1, 2 } };
    spec.phase[1] = (struct phase){ .name = "b", .op = &op_use, .operand = { 2, 3 } };
    is_int (layer_find (&spec, LIFE_INPUT), 1, "a tensor is found by its life");
    is_int (layer_find (&spec, LIFE_LOSS), LAYER_NONE, "or not");
    is_int (layer_num_operands (&op_use), 3, "operands up to the last one with a name");
    ok (layer_access (&spec.phase[0], 0, false) == OPERAND_READ
            && layer_access (&spec.phase[0], 1, false) == OPERAND_WRITE
            && layer_access (&spec.phase[0], 2, false) == 0,
        "what a phase does to its operands; to one that it lacks, nothing");
    ok (layer_access (&spec.phase[0], 1, true) == 0 && !layer_runs_backward (&spec.phase[0]),
        "an operation without a backward half does nothing backward");
    is_int (layer_tensor_passes (&layer, 1), LAYER_FORWARD, "an input of forward passes alone");
    spec.again[1] = 1;
    is_int (layer_tensor_passes (&layer, 1), LAYER_FORWARD | LAYER_BACKWARD,
            "backward as well if the phase runs again");
    is_int (layer_again (&layer), 1, "phases that run again");
    layer.unit = (struct layer_unit){ .size = 2, .place = 0 };
    ok (layer_again (&layer) == UINT64_MAX, "in a unit all but the last layer's do");
}

int main (void)
{
    test_full ();
    test_names ();
    test_counts ();
    test_passes ();
    return done_testing ();
}
