/* nn.c - into and out of tensor-parallel regions; where heads are */

#include "libcore/nn/nn.h"

const void *nn_enter (const struct nn *nn, const struct nn_shape *shape, const void *x,
                      struct mg_error *err)
{
    void *gathered = tensor_at (&nn->gathered, 0);

    if (shape->rows == shape->tokens)
        return x;
    if (!nn->kern->tape
        && mg_comm_all_gather (nn->tp, x, gathered, (size_t)(shape->rows * nn->hidden),
                               nn->dtype, nn->compute, err) < 0)
        return NULL;
    return gathered;
}

void *nn_own_rows (const struct nn *nn, const struct nn_shape *shape,
                   const struct tensor *all)
{
    int64_t before = shape->rows == shape->tokens ? 0 : nn->tp_rank * shape->rows;

    return tensor_at (all, before * nn->hidden);
}

static int reduce (const struct nn *nn, const struct nn_shape *shape, struct tensor *partial,
                   struct mg_stream *stream, struct mg_error *err)
{
    if (nn->kern->tape)
        return 0;
    if (shape->rows == shape->tokens)
        return mg_comm_all_reduce (nn->tp, partial->data,
                                   (size_t)(shape->tokens * nn->hidden), nn->dtype, MG_SUM,
                                   stream, err);
    return mg_comm_reduce_scatter (nn->tp, partial->data, nn_own_rows (nn, shape, partial),
                                   (size_t)(shape->rows * nn->hidden), nn->dtype, MG_SUM,
                                   stream, err);
}

int nn_leave (const struct nn *nn, const struct nn_shape *shape, struct tensor *partial,
              struct mg_error *err)
{
    return reduce (nn, shape, partial, nn->compute, err);
}

int nn_leave_start (const struct nn *nn, const struct nn_shape *shape, struct tensor *partial,
                    struct mg_error *err)
{
    mg_event_record (nn->computed, nn->compute);
    if (mg_stream_wait_event (nn->tp_stream, nn->computed, err) < 0
        || reduce (nn, shape, partial, nn->tp_stream, err) < 0)
        return -1;
    mg_event_record (nn->communicated, nn->tp_stream);
    return 0;
}

int nn_leave_wait (const struct nn *nn, struct mg_error *err)
{
    return mg_stream_wait_event (nn->compute, nn->communicated, err);
}

int nn_all_reduce (const struct nn *nn, float *buf, int64_t count, enum mg_reduce_op op,
                   struct mg_error *err)
{
    if (nn->kern->tape)
        return 0;
    return mg_comm_all_reduce (nn->tp, buf, (size_t)count, MG_FLOAT32, op, nn->compute, err);
}

struct nn_heads nn_heads (const struct nn *nn, enum heads which, bool fused)
{
    int64_t dim = nn->head_dim, queries = nn->local_heads / nn->local_groups;
    int64_t heads = (which & HEADS_QUERIES ? queries : 0) + (which & HEADS_KEYS ? 1 : 0);

    return (struct nn_heads){
        .first = fused && which == HEADS_KEYS ? queries * dim : 0,
        .groups = nn->local_groups,
        .heads = heads,
        .stride_g = (fused ? queries + 2 : heads) * dim,
        .stride_h = dim,
    };
}
