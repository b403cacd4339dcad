/* request.c - one communicator call in words */

#include <stdio.h>

#include "libcore/comm/comm_ops.h"

static const char *const call_names[MG_NUM_CALLS] = {
    [MG_CALL_ALL_REDUCE] = "all-reduce",
    [MG_CALL_REDUCE_SCATTER] = "reduce-scatter",
    [MG_CALL_ALL_GATHER] = "all-gather",
    [MG_CALL_ALL_TO_ALL] = "all-to-all",
    [MG_CALL_BROADCAST] = "broadcast",
    [MG_CALL_P2P] = "transfer",
    [MG_CALL_BARRIER] = "barrier",
};

const char *comm_call_name (enum mg_comm_call call)
{
    return call_names[call];
}

static void describe_p2p (const struct comm_request *req, char *text, size_t max)
{
    const struct mg_p2p *first = req->list;
    char others[48] = "";

    if (req->n > 1)
        snprintf (others, sizeof (others), " and %d other transfer%s", req->n - 1,
                  req->n == 2 ? "" : "s");
    snprintf (text, max, "%s %d of %zu %s%s on %s",
              first->kind == MG_SEND ? "send to" : "receive from", first->peer,
              first->count, mg_dtype_name (first->dtype), others, req->name);
}

void comm_request_describe (const struct comm_request *req, char *text, size_t max)
{
    if (req->call == MG_CALL_P2P)
        describe_p2p (req, text, max);
    else if (req->call == MG_CALL_BARRIER)
        snprintf (text, max, "barrier on %s", req->name);
    else if (req->send_counts)
        snprintf (text, max, "all-to-allv of %s on %s", mg_dtype_name (req->dtype),
                  req->name);
    else
        snprintf (text, max, "%s of %zu %s on %s", call_names[req->call], req->count,
                  mg_dtype_name (req->dtype), req->name);
}
