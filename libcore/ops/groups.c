/* groups.c - fewer groups of query heads than tensor-parallel ranks
 *
 * The fused weight is dealt out evenly by rows, as with more groups, so that buffers, optimizer,
 * norms and files know nothing of this.  The parts of group_ranks consecutive ranks make up one
 * group, [queries, key, value].  The product is gathered, and each rank takes what it works on:
 * its own queries, and the key and value of its group.  In the backward pass each rank sends the
 * gradients of these columns to the ranks that have the columns.  Those of key and value are
 * summed over the ranks that used them.
 */

#include "libcore/ops/ops.h"

/* Columns of the group that this rank uses: 'n' columns from 'first' on, which are at 'own' in its
 * tensor.
 */
struct span {
    int64_t first, own, n;
};

enum { NUM_SPANS = 2 };

/* Queries, then key and value. */
static void find_spans (const struct nn *nn, struct span span[NUM_SPANS])
{
    int64_t queries = nn->local_heads * nn->head_dim;

    span[0] = (struct span){ .first = nn->tp_rank % nn->group_ranks * queries, .n = queries };
    span[1] = (struct span){ .first = nn->group_ranks * queries, .own = queries,
                             .n = 2 * nn->head_dim };
}

/* Copy the columns between the parts of all ranks and this rank's tensor, or back. */
static int move_columns (const struct pass *pass, const struct tensor *all,
                         const struct tensor *own, int64_t width, bool back,
                         struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    int64_t tokens = pass->shape->tokens;
    int64_t first = nn->tp_rank / nn->group_ranks * nn->group_ranks; // rank of the group
    struct span span[NUM_SPANS];

    find_spans (nn, span);
    for (int i = 0; i < NUM_SPANS; i++) {
        for (int64_t done = 0, n; done < span[i].n; done += n) {
            int64_t at = span[i].first + done, part = first + at / width;
            void *theirs = tensor_at (all, part * tokens * width + at % width);
            void *mine = tensor_at (own, span[i].own + done);
            struct kern_copy k = { .rows = tokens, .heads = 1, .dtype = nn->dtype,
                                   .x = back ? mine : theirs, .y = back ? theirs : mine };

            n = width - at % width < span[i].n - done ? width - at % width : span[i].n - done;
            k.cols = n;
            k.x_stride = back ? own->shape[1] : width;
            k.y_stride = back ? width : own->shape[1];
            if (kern_copy (nn->kern, &k, nn->compute, err) < 0)
                return -1;
        }
    }
    return 0;
}

static int groups_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *x = pass_tensor (pass, phase, GROUPS_X);
    const struct tensor *all = pass_tensor (pass, phase, GROUPS_ALL);

    if (mg_comm_all_gather (nn->tp, tensor_at (x, 0), tensor_at (all, 0),
                               (size_t)tensor_count (x), nn->dtype, nn->compute, err) < 0)
        return -1;
    return move_columns (pass, all, pass_tensor (pass, phase, GROUPS_Y), x->shape[1], false,
                         err);
}

static int groups_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *dx = pass_tensor (pass, phase, GROUPS_DX);
    const struct tensor *all = pass_tensor (pass, phase, GROUPS_ALL);
    const struct kern_fill zero = { .n = tensor_count (all), .out = tensor_at (all, 0),
                                    .dtype = nn->dtype };

    if (kern_fill (nn->kern, &zero, nn->compute, err) < 0
        || move_columns (pass, all, pass_tensor (pass, phase, GROUPS_DY), dx->shape[1], true,
                         err) < 0)
        return -1;
    return mg_comm_reduce_scatter (nn->tp, tensor_at (all, 0), tensor_at (dx, 0),
                                   (size_t)tensor_count (dx), nn->dtype, MG_SUM, nn->compute,
                                   err);
}

const struct layer_op op_share_groups = {
    .name = "share_groups",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [GROUPS_X] = { "x", false, OPERAND_READ, 0 },
        [GROUPS_Y] = { "y", false, OPERAND_WRITE, 0 },
        [GROUPS_ALL] = { "all", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [GROUPS_DY] = { "dy", false, 0, OPERAND_READ },
        [GROUPS_DX] = { "dx", false, 0, OPERAND_WRITE },
    },
    .fwd = groups_fwd,
    .bwd = groups_bwd,
};
