/* request - a call in words, of each kind */

#include "libcore/comm/comm_ops.h"
#include "tests/tap/tap.h"

int main (void)
{
    static const size_t counts[] = { 1, 2 };
    const struct mg_p2p list[] = {
        { .kind = MG_SEND, .peer = 3, .count = 10, .dtype = MG_BFLOAT16 },
        { .kind = MG_RECV, .peer = 2, .count = 7, .dtype = MG_FLOAT32 },
    };
    const struct {
        struct comm_request request;
        const char *text;
    } rows[] = {
        { { .call = MG_CALL_ALL_REDUCE, .count = 4096, .dtype = MG_FLOAT32 },
          "all-reduce of 4096 float32 on tp" },
        { { .call = MG_CALL_REDUCE_SCATTER, .count = 1, .dtype = MG_FLOAT16 },
          "reduce-scatter of 1 float16 on tp" },
        { { .call = MG_CALL_ALL_GATHER, .count = 0, .dtype = MG_INT64 },
          "all-gather of 0 int64 on tp" },
        { { .call = MG_CALL_ALL_TO_ALL, .count = 3, .dtype = MG_UINT8 },
          "all-to-all of 3 uint8 on tp" },
        { { .call = MG_CALL_ALL_TO_ALL, .dtype = MG_UINT8, .send_counts = counts },
          "all-to-allv of uint8 on tp" },
        { { .call = MG_CALL_BROADCAST, .count = 5, .dtype = MG_INT32 },
          "broadcast of 5 int32 on tp" },
        { { .call = MG_CALL_BARRIER }, "barrier on tp" },
        { { .call = MG_CALL_P2P, .list = list, .n = 1 }, "send to 3 of 10 bfloat16 on tp" },
        { { .call = MG_CALL_P2P, .list = list + 1, .n = 1 },
          "receive from 2 of 7 float32 on tp" },
        { { .call = MG_CALL_P2P, .list = list, .n = 2 },
          "send to 3 of 10 bfloat16 and 1 other transfer on tp" },
    };
    char text[100], small[10];

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct comm_request request = rows[i].request;

        request.name = "tp";
        comm_request_describe (&request, text, sizeof (text));
        is_str (text, rows[i].text, "%s", comm_call_name (request.call));
        comm_request_describe (&request, small, sizeof (small));
        ok (small[9] == '\0' && small[0] == text[0], "a text that has no room is cut");
    }
    for (int call = 0; call < MG_NUM_CALLS; call++)
        ok (comm_call_name ((enum mg_comm_call)call) != NULL, "call %d has a name", call);
    return done_testing ();
}
