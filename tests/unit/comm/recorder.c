/* The flight recorder. */

#include <string.h>

#include "libcore/comm/recorder.h"
#include "tests/tap/tap.h"

static void add (struct recorder *r, int place, enum mg_comm_call call, size_t count)
{
    struct mg_p2p p = { .kind = MG_RECV, .peer = 3, .count = count, .dtype = MG_BFLOAT16 };
    struct comm_request req = { .call = call, .count = count, .dtype = MG_FLOAT32 };

    if (call == MG_CALL_P2P) {
        req.list = &p;
        req.n = 1;
    }
    recorder_add (r, place, &req, 64, NULL, 0);
}

int main (void)
{
    struct recorder *r = recorder_create (NULL);
    struct record last[RECORDER_SIZE + 1];
    struct record_count count[RECORDER_COMMS];
    char text[128];
    int tp, pp;

    ok (r != NULL, "a recorder");
    is_int (recorder_last (r, last, 5), 0, "which is empty");
    tp = recorder_place (r, "tp");
    pp = recorder_place (r, "a name that is too long");
    ok (tp == 0 && pp == 1, "two places");
    add (r, tp, MG_CALL_ALL_REDUCE, 64);
    add (r, pp, MG_CALL_P2P, 7);
    add (r, tp, MG_CALL_BARRIER, 0);
    is_int (recorder_last (r, last, 5), 3, "three calls");
    record_describe (&last[0], text, sizeof (text));
    is_str (text, "barrier #2 on tp", "the newest first");
    record_describe (&last[1], text, sizeof (text));
    is_str (text, "receive from 3 of 7 bfloat16 on a name that is ", "a transfer");
    record_describe (&last[2], text, sizeof (text));
    is_str (text, "all-reduce #1 of 64 float32 on tp", "a collective");
    ok (last[0].state == RECORD_ENQUEUED && last[0].seconds >= 0, "without a lane no more");
    is_int (recorder_last (r, last, 2), 2, "no more than are asked for");
    is_int (recorder_counts (r, count), 2, "two communicators");
    ok (count[0].collectives == 2 && count[1].collectives == 0 && strcmp (count[0].name, "tp") == 0,
        "collectives are counted");
    for (int i = 0; i < 3 * RECORDER_SIZE; i++)
        add (r, tp, MG_CALL_ALL_GATHER, (size_t)i);
    is_int (recorder_last (r, last, RECORDER_SIZE + 1), RECORDER_SIZE, "the ring is full");
    ok (last[0].count == 3 * RECORDER_SIZE - 1
            && last[RECORDER_SIZE - 1].count == 2 * RECORDER_SIZE, "with the last calls");
    for (int i = 2; i < RECORDER_COMMS; i++)
        recorder_place (r, "x");
    is_int (recorder_place (r, "y"), -1, "no room for another communicator");
    last[0].call = 99;
    record_describe (&last[0], text, sizeof (text));
    is_str (text, "call 99 on tp", "no call");
    recorder_destroy (r);
    recorder_destroy (NULL);
    return done_testing ();
}
