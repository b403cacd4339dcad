/* tape - work of every kind is counted on a thread's tape, and none of it is done, whatever the
 * communicator, and whether buffers have memory or not
 */

#include <errno.h>
#include <string.h>

#include "libcore/comm/comm.h"
#include "libcore/device/device.h"
#include "libcore/device/tape.h"
#include "tests/tap/tap.h"

enum { RANKS = 4, N = 10 };

static struct mg_error err;
static struct mg_device *device;
static struct mg_stream *compute, *side;
static struct comm_net *net;

static void never (void *arg, int code)
{
    (void)arg;
    bail_out ("aborted with %d", code);
}

/* Ranks that do not exist, which refuse every call. */
static struct mg_comm *planned (const char *name, int size)
{
    const int tasks[RANKS] = { 0, 1, 2, 3 };
    const struct comm_config config = { .name = name, .size = size, .rank = 1, .tasks = tasks };
    struct mg_comm *comm = comm_create (net, &config, &err);

    if (!comm)
        bail_out ("%s", err.text);
    return comm;
}

static void setup (void)
{
    const struct device_config config = { .threads = 1, .timeout = 10 };

    if (!(device = device_create (&config, &err)))
        bail_out ("%s", err.text);
    compute = mg_stream_create (device, MG_STREAM_COMPUTE, "main", &err);
    side = mg_stream_create (device, MG_STREAM_COMM, "side", &err);
    net = comm_net_create (&(struct comm_net_config){ .backend = "plan", .device = device,
                                                      .size = RANKS, .abort = never }, &err);
    if (!compute || !side || !net)
        bail_out ("%s", err.text);
}

static int kernels_of (void)
{
    const struct kern_fill fill = { .n = N, .value = 3 };

    return kern_fill (device_kernels (device), &fill, compute, &err);
}

static void test_device (struct tape *tape)
{
    struct mg_event *event = mg_event_create (device, &err);
    char host[N] = "as it was";

    is_int (kernels_of (), 0, "a kernel without memory %s", err.text);
    is_int (device_set (compute, NULL, 0, N, &err) | device_copy (compute, NULL, NULL, N, &err)
                | device_fetch (compute, host, NULL, N, &err), 0, "copies %s", err.text);
    is_str (host, "as it was", "the host's buffer stays");
    mg_event_record (event, side);
    is_int (mg_stream_wait_event (compute, event, &err) | mg_event_synchronize (event, &err)
                | mg_stream_synchronize (side, &err), 0, "events and waits %s", err.text);
    is_int (tape->kernels.count, 1, "a kernel");
    ok (tape->copies == 3 && tape->copied_bytes == 3 * N, "three copies and their bytes");
    mg_event_destroy (event);
}

static void test_comm (struct tape *tape, struct mg_comm *tp, struct mg_comm *ep)
{
    const size_t counts[RANKS] = { 1, 2, 3, 4 }, offsets[RANKS] = { 0, 1, 3, 6 };
    const struct mg_p2p list = { MG_SEND, 1, NULL, N, MG_INT32 };
    const struct tape_collective *row = tape->collective;

    for (int i = 0; i < 2; i++)
        is_int (mg_comm_all_reduce (tp, NULL, N, MG_FLOAT32, MG_SUM, compute, &err), 0,
                "all-reduce %s", err.text);
    is_int (mg_comm_all_gather (tp, NULL, NULL, N, MG_FLOAT32, side, &err), 0, "all-gather %s",
            err.text);
    is_int (mg_comm_all_to_allv (ep, NULL, counts, offsets, NULL, counts, offsets, MG_FLOAT32,
                                 side, &err), 0, "all-to-allv %s", err.text);
    is_int (mg_comm_p2p (ep, &list, 1, side, &err), 0, "transfer %s", err.text);
    row = tape->collective;
    if (tape->num_collectives != 4)
        bail_out ("%d kinds of collectives", tape->num_collectives);
    ok (strcmp (row[0].group, "tp") == 0 && strcmp (row[0].call, "all-reduce") == 0
            && row[0].ranks == 2 && row[0].count == 2 && row[0].bytes == 2 * N * 4,
        "two all-reduces of tp in a row");
    ok (strcmp (row[1].call, "all-gather") == 0 && row[1].count == 1, "then another call");
    ok (strcmp (row[2].group, "ep") == 0 && row[2].ranks == RANKS && row[2].bytes == 10 * 4,
        "another communicator");
    ok (mg_comm_all_reduce (tp, NULL, N, (enum mg_dtype)99, MG_SUM, compute, &err) < 0
            && errno == EINVAL, "what is wrong in itself is refused: %s", err.text);
}

static void test_other (void)
{
    struct tape other = { .num_collectives = 0 };

    ok (tape_begin (&other, device, &err) < 0 && errno == EBUSY, "one at a time: %s", err.text);
}

int main (void)
{
    struct tape tape = { .num_collectives = 0 };
    struct mg_comm *tp, *ep;
    float *memory;

    setup ();
    tp = planned ("tp", 2);
    ep = planned ("ep", RANKS);
    ok (!tape_recording () && tape_begin (&tape, device, &err) == 0 && tape_recording (),
        "a tape begins");
    test_device (&tape);
    test_comm (&tape, tp, ep);
    test_other ();
    errno = 77;
    tape_end (&tape);
    ok (errno == 77 && !tape_recording () && tape.kernels.count == 1, "what was recorded stays");
    ok (mg_comm_all_reduce (tp, NULL, N, MG_FLOAT32, MG_SUM, compute, &err) < 0,
        "then calls are made: %s", err.text);
    memory = device_alloc (device, sizeof (*memory), &err);
    ok (device_set (compute, memory, 0xff, sizeof (*memory), &err) == 0 && memory[0] != 0,
        "and work is done");
    tape_clear (&tape);
    ok (!tape.collective, "and it is forgotten");
    device_free (device, memory);
    comm_destroy (ep);
    comm_destroy (tp);
    comm_net_destroy (net);
    mg_stream_destroy (side);
    mg_stream_destroy (compute);
    device_destroy (device);
    return done_testing ();
}
