/* alone - the control communicator of a tool: calls over host memory, begun and ended twice */

#include <errno.h>

#include "libcore/comm/alone.h"
#include "megatron/comm.h"
#include "tests/tap/tap.h"

int main (void)
{
    struct comm_alone a = { NULL };
    struct mg_error err = { "" };

    for (int round = 0; round < 2; round++) {
        double x = 3, all = 0;

        if (comm_alone_begin (&a, "tool", &err) < 0)
            bail_out ("%s", err.text);
        ok (mg_comm_size (a.comm) == 1 && mg_comm_rank (a.comm) == 0, "one rank");
        ok (mg_comm_all_reduce (a.comm, &x, 1, MG_FLOAT64, MG_SUM, NULL, &err) == 0 && x == 3,
            "a sum over it %s", err.text);
        ok (mg_comm_all_gather (a.comm, &x, &all, 1, MG_FLOAT64, NULL, &err) == 0 && all == 3,
            "what it gathers %s", err.text);
        errno = 99;
        comm_alone_end (&a);
        is_int (errno, 99, "the end keeps errno");
    }
    a = (struct comm_alone){ NULL };
    comm_alone_end (&a);
    ok (true, "what was never begun can be ended");
    return done_testing ();
}
