/* nn.c - tensor-parallel reductions of hidden states */

#include "libcore/nn/nn.h"

static size_t hidden_count (const struct nn *nn)
{
    return (size_t)nn->tokens * (size_t)nn->hidden;
}

int nn_tp_all_reduce (const struct nn *nn, float *buf, struct mg_error *err)
{
    return mg_comm_all_reduce (nn->tp, buf, hidden_count (nn), MG_FLOAT32, MG_SUM,
                               nn->compute, err);
}

int nn_tp_all_reduce_start (const struct nn *nn, float *buf, struct mg_error *err)
{
    mg_event_record (nn->computed, nn->compute);
    if (mg_stream_wait_event (nn->tp_stream, nn->computed, err) < 0
        || mg_comm_all_reduce (nn->tp, buf, hidden_count (nn), MG_FLOAT32, MG_SUM,
                               nn->tp_stream, err) < 0)
        return -1;
    mg_event_record (nn->communicated, nn->tp_stream);
    return 0;
}

int nn_tp_wait (const struct nn *nn, struct mg_error *err)
{
    return mg_stream_wait_event (nn->compute, nn->communicated, err);
}
