/* captured.c - calls of a communicator in a graph, for tests */

#include <errno.h>
#include <string.h>

#include "libcore/device/device.h"
#include "libcore/device/device_ops.h"
#include "libcore/device/graph.h"
#include "libcore/device/stream.h"
#include "tests/unit/comm/captured.h"

enum { OWN, SUM, LEFT, SUM_SEEN, LEFT_SEEN, EAGER, N };

struct rig {
    struct mg_device *device;
    struct mg_comm *comm;
    struct mg_stream *compute, *a, *b;
    struct mg_event *fork, *join[2];
    float *memory; /* [N] of the device */
    float *pinned; /* [N] */
};

static bool setup (struct rig *r, struct mg_error *err)
{
    return (r->compute = mg_stream_create (r->device, MG_STREAM_COMPUTE, "main", err))
           && (r->a = mg_stream_create (r->device, MG_STREAM_COMM, "sums", err))
           && (r->b = mg_stream_create (r->device, MG_STREAM_COMM, "ring", err))
           && (r->fork = mg_event_create (r->device, err))
           && (r->join[0] = mg_event_create (r->device, err))
           && (r->join[1] = mg_event_create (r->device, err))
           && (r->memory = device_alloc (r->device, N * sizeof (float), err))
           && (r->pinned = device_host_alloc (r->device, N * sizeof (float), err));
}

static void teardown (struct rig *r)
{
    mg_event_destroy (r->fork);
    mg_event_destroy (r->join[0]);
    mg_event_destroy (r->join[1]);
    mg_stream_destroy (r->a);
    mg_stream_destroy (r->b);
    mg_stream_destroy (r->compute);
    device_free (r->device, r->memory);
    device_host_free (r->device, r->pinned);
}

static int set (const struct rig *r, int at, float value, struct mg_error *err)
{
    const struct kern_fill k = { .n = 1, .value = value, .out = r->memory + at,
                                 .dtype = MG_FLOAT32 };

    return kern_fill (device_kernels (r->device), &k, r->compute, err);
}

static int fork_to (const struct rig *r, struct mg_stream *stream, struct mg_error *err)
{
    mg_event_record (r->fork, r->compute);
    return mg_stream_wait_event (stream, r->fork, err);
}

static int join_from (const struct rig *r, int which, struct mg_error *err)
{
    mg_event_record (r->join[which], which ? r->b : r->a);
    return mg_stream_wait_event (r->compute, r->join[which], err);
}

static int sum (const struct rig *r, int at, struct mg_stream *stream, struct mg_error *err)
{
    return mg_comm_all_reduce (r->comm, r->memory + at, 1, MG_FLOAT32, MG_SUM, stream, err);
}

static int pass_on (const struct rig *r, struct mg_error *err)
{
    int size = mg_comm_size (r->comm), rank = mg_comm_rank (r->comm);
    struct mg_p2p list[] = {
        { MG_SEND, (rank + 1) % size, r->memory + OWN, 1, MG_FLOAT32 },
        { MG_RECV, (rank + size - 1) % size, r->memory + LEFT, 1, MG_FLOAT32 },
    };

    return mg_comm_p2p (r->comm, list, 2, r->b, err);
}

static int copy (const struct rig *r, int to, int from, struct mg_error *err)
{
    return device_copy (r->compute, r->memory + to, r->memory + from, sizeof (float), err);
}

static struct device_graph *capture (const struct rig *r, struct mg_error *err)
{
    int rc = graph_begin (r->compute, err);

    if (rc < 0)
        return NULL;
    if (copy (r, SUM, OWN, err) < 0 || fork_to (r, r->a, err) < 0 || fork_to (r, r->b, err) < 0
        || sum (r, SUM, r->a, err) < 0 || pass_on (r, err) < 0 || join_from (r, 0, err) < 0
        || join_from (r, 1, err) < 0 || copy (r, SUM_SEEN, SUM, err) < 0
        || copy (r, LEFT_SEEN, LEFT, err) < 0)
        rc = -1;
    return graph_finish (rc, err);
}

static bool is_right (const struct rig *r, int round, struct mg_error *err)
{
    int size = mg_comm_size (r->comm), rank = mg_comm_rank (r->comm);
    int left = (rank + size - 1) % size;

    if (device_fetch (r->compute, r->pinned, r->memory, N * sizeof (float), err) < 0)
        return false;
    if ((int)r->pinned[SUM_SEEN] == size * (size - 1) / 2 + size * round
        && (int)r->pinned[LEFT_SEEN] == left + round && (int)r->pinned[EAGER] == size * round)
        return true;
    mg_error_set (err, EIO, "round %d: sum %g, left %g, without a graph %g", round,
                  (double)r->pinned[SUM_SEEN], (double)r->pinned[LEFT_SEEN],
                  (double)r->pinned[EAGER]);
    return false;
}

bool captured_replays (struct mg_device *device, struct mg_comm *comm, struct mg_error *err)
{
    struct rig r = { .device = device, .comm = comm };
    struct device_graph *graph = NULL;
    bool pass = setup (&r, err) && set (&r, EAGER, 0, err) == 0 && (graph = capture (&r, err));

    for (int round = 1; pass && round <= 3; round++)
        pass = set (&r, OWN, (float)(mg_comm_rank (comm) + round), err) == 0
               && graph_replay (graph, err) == 0 && set (&r, EAGER, (float)round, err) == 0
               && fork_to (&r, r.a, err) == 0 && sum (&r, EAGER, r.a, err) == 0
               && join_from (&r, 0, err) == 0 && is_right (&r, round, err);
    graph_destroy (graph);
    teardown (&r);
    return pass;
}

/* --- what is refused --- */

static int plant_wait (struct rig *r, struct mg_error *err)
{
    return sum (r, OWN, NULL, err);
}

static int plant_elsewhere (struct rig *r, struct mg_error *err)
{
    return sum (r, OWN, r->a, err);
}

static int plant_no_join (struct rig *r, struct mg_error *err)
{
    return fork_to (r, r->a, err) < 0 ? -1 : sum (r, OWN, r->a, err);
}

static int plant_barrier (struct rig *r, struct mg_error *err)
{
    return mg_comm_barrier (r->comm, NULL, err);
}

static const struct plant {
    int (*run) (struct rig *r, struct mg_error *err);
    const char *text;
} plants[] = {
    { plant_wait, "a graph cannot have a wait of the host for communicator " },
    { plant_barrier, "a graph cannot have a wait of the host for communicator " },
    { plant_elsewhere,
      "a graph cannot have all-reduce on stream sums, which was not forked into the capture" },
    { plant_no_join,
      "a graph cannot have work on stream sums that stream main does not wait for" },
};

/* A call before the forbidden one is in the capture already, and never runs. */
static bool is_refused (struct rig *r, const struct plant *plant, struct mg_error *err)
{
    struct device_graph *graph;

    if (graph_begin (r->compute, err) < 0 || sum (r, OWN, r->compute, err) < 0)
        return false;
    plant->run (r, err);
    if ((graph = graph_end (err))) {
        graph_destroy (graph);
        mg_error_set (err, EIO, "not refused: %s", plant->text);
        return false;
    }
    return errno == EPERM && strstr (err->text, plant->text) && !graph_capturing ();
}

bool captured_refusals (struct mg_device *device, struct mg_comm *comm, struct mg_error *err)
{
    struct rig r = { .device = device, .comm = comm };
    bool pass = setup (&r, err);

    for (size_t i = 0; pass && i < sizeof (plants) / sizeof (plants[0]); i++)
        pass = set (&r, OWN, 1, err) == 0 && is_refused (&r, &plants[i], err)
               && fork_to (&r, r.a, err) == 0 && sum (&r, OWN, r.a, err) == 0
               && join_from (&r, 0, err) == 0
               && device_fetch (r.compute, r.pinned, r.memory, sizeof (float), err) == 0
               && (int)r.pinned[OWN] == mg_comm_size (comm);
    teardown (&r);
    return pass;
}
