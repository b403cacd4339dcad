/* Graphs of a layer: planted operations that cannot be captured are named, and passes that are not
 * those of the capture are refused.
 */

#include <errno.h>
#include <string.h>

#include "libcore/device/device.h"
#include "libcore/nn/layer_graph.h"
#include "tests/tap/tap.h"

enum { ROWS = 4 };

/* A layer of two phases, the second of which is captured: y = 1 and y = 2, gradient += 3. */
struct rig {
    struct mg_device *device;
    struct nn nn;
    struct nn_side *side;
    bool open;
    struct layer_spec spec;
    struct layer layer;
    struct param param;
    struct tensor tensor[3];
    struct pass pass;
    float *memory; /* [3][ROWS] */
};

static struct mg_error err;

static int fill (const struct pass *pass, void *out, float value)
{
    const struct kern_fill k = { .n = ROWS, .value = value, .out = out, .dtype = MG_FLOAT32 };

    return kern_fill (pass->nn->kern, &k, pass->nn->compute, &err);
}

/* What a captured phase must not do. */
enum { GOOD, WAIT, ALLOCATE, PAGEABLE, OTHER_STREAM, NO_JOIN };

static int plant (const struct pass *pass, int what, struct mg_error *e)
{
    static float host;
    const struct rig *r = (const struct rig *)pass->shape;
    void *data = pass->tensor[1].data;
    const struct nn_side *side = &pass->nn->tp_side;

    switch (what) {
    case WAIT:
        return mg_stream_synchronize (pass->nn->compute, e);
    case ALLOCATE:
        if (!(data = device_alloc (r->device, 8, e)))
            return -1;
        device_free (r->device, data);
        return 0;
    case PAGEABLE:
        return device_upload (pass->nn->compute, data, &host, sizeof (host), e);
    case OTHER_STREAM:
        return device_set (side->stream, data, 0, 4, e);
    case NO_JOIN:
        if (nn_side_begin (pass->nn, side, e) < 0 || device_set (side->stream, data, 0, 4, e) < 0)
            return -1;
        nn_side_end (side);
        return 0;
    default:
        return 0;
    }
}

static int fwd (const struct pass *pass, const struct phase *phase, struct mg_error *e)
{
    if (plant (pass, phase->which, e) < 0)
        return -1;
    return fill (pass, pass->tensor[phase->operand[1]].data, (float)(phase->operand[1]));
}

static int bwd (const struct pass *pass, const struct phase *phase, struct mg_error *e)
{
    if (plant (pass, phase->which, e) < 0)
        return -1;
    return fill (pass, pass_param (pass, phase, 2)->grad, 3);
}

static const struct layer_op op = {
    .name = "planted",
    .flags = PHASE_CAPTURABLE,
    .starts_fwd = NN_TP_SIDE,
    .starts_bwd = NN_TP_SIDE,
    .operand = { { "x", false, OPERAND_READ, 0 }, { "y", false, OPERAND_WRITE, 0 },
                 { "weight", true, 0, OPERAND_ADD } },
    .fwd = fwd,
    .bwd = bwd,
};
static const struct layer_op waits = {
    .name = "waits",
    .operand = { { "y", false, OPERAND_WRITE, 0 } },
    .fwd = fwd,
};

static void setup_streams (struct rig *r)
{
    const struct device_config config = { .threads = 1, .timeout = 10 };
    struct nn_side *side = &r->nn.tp_side;

    r->device = device_create (&config, &err);
    r->nn.kern = device_kernels (r->device);
    r->nn.compute = mg_stream_create (r->device, MG_STREAM_COMPUTE, "main", &err);
    side->stream = mg_stream_create (r->device, MG_STREAM_COMM, "side", &err);
    side->computed = mg_event_create (r->device, &err);
    side->communicated = mg_event_create (r->device, &err);
    side->open = &r->open;
    r->memory = device_alloc (r->device, 3 * ROWS * sizeof (float), &err);
    if (!side->stream || !side->computed || !side->communicated || !r->memory)
        bail_out ("%s", err.text);
}

static void setup (struct rig *r, int which)
{
    const struct layer_tensor row = { .name = "y", .ndims = 1, .shape = { ROWS } };
    struct layer_tensor x = row;

    *r = (struct rig){ .spec = { .name = "layer" } };
    setup_streams (r);
    x.name = "x";
    layer_add_tensor (&r->spec, &x);
    layer_add_tensor (&r->spec, &row);
    layer_add_param (&r->spec, &(struct layer_param){ .name = "weight", .ndims = 1,
                                                      .global = { ROWS } });
    layer_add_phase (&r->spec, &(struct phase){ .name = "first", .op = &waits,
                                                .operand = { 1, 1 } });
    layer_add_phase (&r->spec, &(struct phase){ .name = "second", .op = &op, .which = which,
                                                .scopes = GRAPH_BIT (GRAPH_ATTN),
                                                .operand = { 1, 2, 1 } });
    if (layer_spec_capture (&r->spec, GRAPH_BIT (GRAPH_ATTN), &err) < 0)
        bail_out ("%s", err.text);
    for (int i = 1; i <= 2; i++)
        r->tensor[i] = (struct tensor){ .data = r->memory + (i - 1) * ROWS, .ndims = 1,
                                        .shape = { ROWS }, .live = ROWS };
    r->param = (struct param){ .name = "weight", .grad = r->memory + 2 * ROWS };
    r->layer = (struct layer){ .spec = &r->spec, .number = 3, .param = { NULL, &r->param } };
    r->pass = (struct pass){ .nn = &r->nn, .layer = &r->layer, .tensor = r->tensor,
                             .training = true, .shape = (const struct nn_shape *)r };
}

static void teardown (struct rig *r)
{
    const struct nn_side *side = &r->nn.tp_side;

    mg_event_destroy (side->computed);
    mg_event_destroy (side->communicated);
    mg_stream_destroy (side->stream);
    mg_stream_destroy (r->nn.compute);
    device_free (r->device, r->memory);
    device_destroy (r->device);
}

static void test_passes (void)
{
    static struct rig r;
    struct layer_graph *g[2];

    setup (&r, GOOD);
    for (int i = 0; i < 2; i++) {
        if (!(g[i] = layer_graph_create (&r.pass, i, &err)))
            bail_out ("%s", err.text);
        is_int ((int64_t)layer_graph_nodes (g[i]), 1, "a node");
        ok (layer_graph_bytes (g[i]) > sizeof (struct kern_fill), "its memory");
    }
    ok (r.memory[ROWS] == 0 && r.memory[2 * ROWS] == 0, "nothing has run");
    r.pass.graph = g[0];
    is_int (layer_fwd (&r.pass, &err), 0, "forward %s", err.text);
    ok (r.memory[0] == 1 && r.memory[ROWS] == 2, "both phases");
    r.pass.graph = g[1];
    is_int (layer_bwd (&r.pass, &err), 0, "backward");
    ok (r.memory[2 * ROWS] == 3, "the gradient");
    layer_graph_destroy (g[0]);
    layer_graph_destroy (g[1]);
    teardown (&r);
}

/* Work that was left on the side stream is joined before a capture and before a replay. */
static void test_open (void)
{
    static struct rig r;
    struct layer_graph *g;

    setup (&r, GOOD);
    plant (&r.pass, NO_JOIN, &err);
    g = layer_graph_create (&r.pass, false, &err);
    ok (g && !r.open, "a side that was open is joined before the capture");
    plant (&r.pass, NO_JOIN, &err);
    ok (r.open && layer_graph_replay (g, &r.pass, &err) == 0 && !r.open, "and before a replay");
    layer_graph_destroy (g);
    teardown (&r);
}

static void test_planted (void)
{
    static const char *const texts[] = {
        [WAIT] = "a wait of the host for stream main",
        [ALLOCATE] = "an allocation of 8 bytes",
        [PAGEABLE] = "a copy from host memory",
        [OTHER_STREAM] = "set on stream side, which was not forked into the capture",
        [NO_JOIN] = "work on stream side that stream main does not wait for",
    };

    for (int i = 2 * WAIT; i <= 2 * NO_JOIN + 1; i++) {
        static struct rig r;

        setup (&r, i / 2);
        err.text[0] = '\0';
        ok (!layer_graph_create (&r.pass, i % 2, &err) && strstr (err.text, texts[i / 2])
                && strstr (err.text, "layer 3: second: "), "refused: %s", err.text);
        ok (!r.open, "nothing is left of it");
        is_int (i % 2 ? layer_bwd (&r.pass, &err) : layer_fwd (&r.pass, &err), 0,
                "and it runs without a graph");
        ok (r.open == (i / 2 == NO_JOIN) && nn_await (&r.nn, NN_ALL_SIDES, &err) == 0 && !r.open,
            "with work that can be joined %s", err.text);
        teardown (&r);
    }
}

/* --- passes that have changed --- */

static void move_tensor (struct rig *r)
{
    r->tensor[2].data = r->memory;
}

static void shrink_tensor (struct rig *r)
{
    r->tensor[1].live = ROWS - 1;
}

static void move_gradient (struct rig *r)
{
    r->param.grad = r->memory;
}

static void make_fresh (struct rig *r)
{
    r->param.fresh = true;
}

static void evaluate (struct rig *r)
{
    r->pass.training = false;
}

static void test_changed (void)
{
    static const struct {
        void (*change) (struct rig *r);
        const char *text;
    } rows[] = {
        { move_tensor, "layer 3: second: y: its address is not as it was" },
        { shrink_tensor, "layer 3: second: x: its number of rows is not as it was" },
        { move_gradient, "layer 3: second: weight: its address is not as it was" },
        { make_fresh, "layer 3: second: weight: whether a product adds to its gradient" },
        { evaluate, "layer 3: second: the pass: its mode is not as it was" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        static struct rig r;
        struct layer_graph *g;

        setup (&r, GOOD);
        g = layer_graph_create (&r.pass, false, &err);
        rows[i].change (&r);
        ok (g && layer_graph_replay (g, &r.pass, &err) < 0 && errno == EPERM
                && strstr (err.text, rows[i].text), "refused: %s", err.text);
        ok (r.memory[ROWS] == 0, "and nothing has run");
        layer_graph_destroy (g);
        teardown (&r);
    }
}

/* --- which phases --- */

static void test_scopes (void)
{
    static struct rig r;

    setup (&r, GOOD);
    is_int (r.spec.graph_begin, 1, "the second phase");
    is_int (r.spec.graph_end, 2, "alone");
    is_int (layer_spec_capture (&r.spec, GRAPH_BIT (GRAPH_MLP), &err), 0, "no phase");
    is_int (r.spec.graph_end, 0, "no graph");
    r.spec.phase[0].scopes = GRAPH_BIT (GRAPH_ATTN);
    ok (layer_spec_capture (&r.spec, GRAPH_BIT (GRAPH_ATTN), &err) < 0
            && strstr (err.text, "layer: a graph cannot have first: the host has to wait"),
        "refused: %s", err.text);
    r.spec.phase[0].fixed = true;
    is_int (layer_spec_capture (&r.spec, GRAPH_BIT (GRAPH_ATTN), &err), 0, "with known counts");
    is_int (r.spec.graph_begin, 0, "both phases");
    layer_add_phase (&r.spec, &(struct phase){ .name = "third", .op = &op });
    layer_add_phase (&r.spec, &(struct phase){ .name = "fourth", .op = &op,
                                               .scopes = GRAPH_BIT (GRAPH_ATTN) });
    ok (layer_spec_capture (&r.spec, GRAPH_BIT (GRAPH_ATTN), &err) < 0
            && strstr (err.text, "a graph cannot have fourth without third"), "refused: %s",
        err.text);
    teardown (&r);
}

int main (void)
{
    test_passes ();
    test_open ();
    test_planted ();
    test_changed ();
    test_scopes ();
    return done_testing ();
}
