/* nn.c - into and out of tensor-parallel regions */

#include "libcore/nn/nn.h"

const void *nn_enter (const struct nn *nn, const void *x, struct mg_error *err)
{
    if (nn->rows == nn->tokens)
        return x;
    if (nn->planning)
        return nn->gathered;
    if (mg_comm_all_gather (nn->tp, x, nn->gathered, (size_t)(nn->rows * nn->hidden),
                            nn->dtype, nn->compute, err) < 0)
        return NULL;
    return nn->gathered;
}

void *nn_own_rows (const struct nn *nn, void *all)
{
    size_t before = nn->rows == nn->tokens ? 0 : (size_t)(nn->tp_rank * nn->rows);

    return (char *)all + before * (size_t)nn->hidden * mg_dtype_size (nn->dtype);
}

static int reduce (const struct nn *nn, void *partial, struct mg_stream *stream,
                   struct mg_error *err)
{
    if (nn->planning)
        return 0;
    if (nn->rows == nn->tokens)
        return mg_comm_all_reduce (nn->tp, partial, (size_t)(nn->tokens * nn->hidden),
                                   nn->dtype, MG_SUM, stream, err);
    return mg_comm_reduce_scatter (nn->tp, partial, nn_own_rows (nn, partial),
                                   (size_t)(nn->rows * nn->hidden), nn->dtype, MG_SUM,
                                   stream, err);
}

int nn_leave (const struct nn *nn, void *partial, struct mg_error *err)
{
    return reduce (nn, partial, nn->compute, err);
}

int nn_leave_start (const struct nn *nn, void *partial, struct mg_error *err)
{
    mg_event_record (nn->computed, nn->compute);
    if (mg_stream_wait_event (nn->tp_stream, nn->computed, err) < 0
        || reduce (nn, partial, nn->tp_stream, err) < 0)
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
    if (nn->planning)
        return 0;
    return mg_comm_all_reduce (nn->tp, buf, (size_t)count, MG_FLOAT32, op, nn->compute, err);
}
