/* context.c - heads and keys change hands between context-parallel ranks
 *
 * With an all-to-all a rank keeps a part of the heads and gives its rows of the others to its
 * neighbours.  It gets their rows of its own part (Jacobs et al. 2023).  With an all-gather a rank
 * gets the keys and values of all rows.  Data are packed before they are sent (attention.h).
 */

#include "libcore/ops/attention.h"

/* --- a part of the heads --- */

/* Copy queries, keys and values of this rank's rows to 'n' parts, or 'back'.  Part i has the i-th
 * part of the heads, which neighbour i works on.
 */
static int move_parts (const struct pass *pass, const struct attention_operands *own,
                       const struct tensor *parts, int n, bool back, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct attention_heads *const local[] = { &own->q, &own->k, &own->v };
    int64_t rows = pass->shape->tokens, groups = nn->local_groups / n;
    int64_t size = rows * groups * attention_width (nn, true);

    for (int i = 0; i < n; i++) {
        const struct attention_operands x = attention_packed (nn, parts, i * size, groups, true);
        const struct attention_heads *const packed[] = { &x.q, &x.k, &x.v };

        for (int k = 0; k < 3; k++) {
            const struct attention_heads heads = attention_from (local[k], i * groups);

            if (attention_move (pass, back ? packed[k] : &heads, back ? &heads : packed[k], rows,
                                groups, err) < 0)
                return -1;
        }
    }
    return 0;
}

/* Part i of 'from' goes to neighbour i; part i of 'to' comes from it. */
static int all_to_all (const struct pass *pass, const struct nn_exchange *c,
                       const struct tensor *from, const struct tensor *to, struct mg_error *err)
{
    const struct nn *nn = pass->nn;

    return mg_comm_all_to_all (c->inner_comm, tensor_at (from, 0), tensor_at (to, 0),
                               (size_t)(tensor_count (from) / c->inner), nn->dtype, nn->compute,
                               err);
}

static int deal_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn_exchange *c = &pass->layer->exchange;
    const struct tensor *parts = pass_tensor (pass, phase, DEAL_PARTS);
    const struct attention_operands own =
        attention_local (pass->nn, pass_tensor (pass, phase, DEAL_QUERY),
                         pass_tensor (pass, phase, DEAL_KEY),
                         pass_tensor (pass, phase, DEAL_VALUE));

    if (move_parts (pass, &own, parts, c->inner, false, err) < 0)
        return -1;
    return all_to_all (pass, c, parts, pass_tensor (pass, phase, DEAL_ALL), err);
}

static int deal_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn_exchange *c = &pass->layer->exchange;
    const struct tensor *parts = pass_tensor (pass, phase, DEAL_DPARTS);
    const struct attention_operands own =
        attention_local (pass->nn, pass_tensor (pass, phase, DEAL_DQUERY),
                         pass_tensor (pass, phase, DEAL_DKEY),
                         pass_tensor (pass, phase, DEAL_DVALUE));

    if (all_to_all (pass, c, pass_tensor (pass, phase, DEAL_DALL), parts, err) < 0)
        return -1;
    return move_parts (pass, &own, parts, c->inner, true, err);
}

const struct layer_op op_deal_heads = {
    .name = "deal_heads",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [DEAL_QUERY] = { "query", false, OPERAND_READ, 0 },
        [DEAL_KEY] = { "key", false, OPERAND_READ, 0 },
        [DEAL_VALUE] = { "value", false, OPERAND_READ, 0 },
        [DEAL_ALL] = { "all", false, OPERAND_WRITE, 0 },
        [DEAL_PARTS] = { "parts", false, OPERAND_SCRATCH, 0 },
        [DEAL_DQUERY] = { "dquery", false, 0, OPERAND_WRITE },
        [DEAL_DKEY] = { "dkey", false, 0, OPERAND_WRITE },
        [DEAL_DVALUE] = { "dvalue", false, 0, OPERAND_WRITE },
        [DEAL_DALL] = { "dall", false, 0, OPERAND_READ },
        [DEAL_DPARTS] = { "dparts", false, 0, OPERAND_SCRATCH },
    },
    .fwd = deal_fwd,
    .bwd = deal_bwd,
};

/* Copy the context in 'n' parts to the tensor of this rank's rows, or 'back'.  Part i has the
 * columns of the i-th part of the heads.
 */
static int move_columns (const struct pass *pass, const struct tensor *own,
                         const struct tensor *parts, int n, bool back, struct mg_error *err)
{
    int64_t rows = pass->shape->tokens, cols = own->shape[1] / n;
    struct kern_copy k = { .rows = rows, .heads = n, .cols = cols,
                           .x = tensor_at (parts, 0), .x_stride = cols, .x_stride_h = rows * cols,
                           .y = tensor_at (own, 0), .y_stride = n * cols, .y_stride_h = cols,
                           .dtype = pass->nn->dtype };

    if (back)
        k = (struct kern_copy){ .rows = rows, .heads = n, .cols = cols,
                                .x = k.y, .x_stride = k.y_stride, .x_stride_h = k.y_stride_h,
                                .y = tensor_at (parts, 0), .y_stride = k.x_stride,
                                .y_stride_h = k.x_stride_h, .dtype = k.dtype };
    return kern_copy (pass->nn->kern, &k, pass->nn->compute, err);
}

static int collect_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn_exchange *c = &pass->layer->exchange;
    const struct tensor *parts = pass_tensor (pass, phase, COLLECT_PARTS);

    if (all_to_all (pass, c, pass_tensor (pass, phase, COLLECT_X), parts, err) < 0)
        return -1;
    return move_columns (pass, pass_tensor (pass, phase, COLLECT_Y), parts, c->inner, false, err);
}

static int collect_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn_exchange *c = &pass->layer->exchange;
    const struct tensor *parts = pass_tensor (pass, phase, COLLECT_DPARTS);

    if (move_columns (pass, pass_tensor (pass, phase, COLLECT_DY), parts, c->inner, true, err) < 0)
        return -1;
    return all_to_all (pass, c, parts, pass_tensor (pass, phase, COLLECT_DX), err);
}

const struct layer_op op_collect_heads = {
    .name = "collect_heads",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [COLLECT_X] = { "x", false, OPERAND_READ, 0 },
        [COLLECT_Y] = { "y", false, OPERAND_WRITE, 0 },
        [COLLECT_PARTS] = { "parts", false, OPERAND_SCRATCH, 0 },
        [COLLECT_DY] = { "dy", false, 0, OPERAND_READ },
        [COLLECT_DX] = { "dx", false, 0, OPERAND_WRITE },
        [COLLECT_DPARTS] = { "dparts", false, 0, OPERAND_SCRATCH },
    },
    .fwd = collect_fwd,
    .bwd = collect_bwd,
};

/* --- all keys and values --- */

/* Move the keys and values of this rank's rows into a tensor of their own, or back. */
static int move_keys (const struct pass *pass, const struct tensor *key,
                      const struct tensor *value, const struct tensor *packed, bool back,
                      struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct attention_operands own = attention_local (nn, key, key, value);
    const struct attention_operands x = attention_packed (nn, packed, 0, nn->local_groups, false);

    return attention_move_keys (pass, back ? &x : &own, back ? &own : &x, pass->shape->tokens,
                                nn->local_groups, err);
}

static int keys_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *own = pass_tensor (pass, phase, KEYS_OWN);

    if (move_keys (pass, pass_tensor (pass, phase, KEYS_KEY),
                   pass_tensor (pass, phase, KEYS_VALUE), own, false, err) < 0)
        return -1;
    return mg_comm_all_gather (nn->cp, tensor_at (own, 0), pass_data (pass, phase, KEYS_ALL),
                               (size_t)tensor_count (own), nn->dtype, nn->compute, err);
}

static int keys_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *own = pass_tensor (pass, phase, KEYS_DOWN);

    if (mg_comm_reduce_scatter (nn->cp, pass_data (pass, phase, KEYS_DALL), tensor_at (own, 0),
                                   (size_t)tensor_count (own), nn->dtype, MG_SUM, nn->compute,
                                   err) < 0)
        return -1;
    return move_keys (pass, pass_tensor (pass, phase, KEYS_DKEY),
                      pass_tensor (pass, phase, KEYS_DVALUE), own, true, err);
}

const struct layer_op op_gather_keys = {
    .name = "gather_keys",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [KEYS_KEY] = { "key", false, OPERAND_READ, 0 },
        [KEYS_VALUE] = { "value", false, OPERAND_READ, 0 },
        [KEYS_ALL] = { "all", false, OPERAND_WRITE, 0 },
        [KEYS_OWN] = { "own", false, OPERAND_SCRATCH, 0 },
        [KEYS_DKEY] = { "dkey", false, 0, OPERAND_WRITE },
        [KEYS_DVALUE] = { "dvalue", false, 0, OPERAND_WRITE },
        [KEYS_DALL] = { "dall", false, 0, OPERAND_READ },
        [KEYS_DOWN] = { "down", false, 0, OPERAND_SCRATCH },
    },
    .fwd = keys_fwd,
    .bwd = keys_bwd,
};
