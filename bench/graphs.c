/* graphs.c - what graphs save on a layer's passes, and what they cost
 *
 *     bench/graphs [-t THREADS] [-s SECONDS]
 *
 * Each line is about passes forward and backward through a transformer layer.  A pass that replays
 * graphs is compared with an eager one, in alternating pairs for SECONDS (3).  Value and floor are
 * the medians of both, the ratio is the median over the pairs.
 *
 * "no work": the captured phases alone, with kernels that return at once.  Eagerly, they are only
 * calls of the phases' operations.  So the floor is the least time that the host takes to enqueue
 * the kernels.  The ratio should be 0.2 at most.
 * "whole": the layer as a run has it, with its eager phases.  The ratio should be 1.02 at most.
 *
 * The collectives of one rank have nothing to do, and return at once.  Times are CPU times of all
 * THREADS (1): other processes would disturb one pass of a pair and not the other.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libcore/device/device_ops.h"
#include "libcore/model/model_private.h"
#include "libcore/nn/layer_graph.h"
#include "libcore/optim/buffers.h"

enum { VOCAB = 512, MAX_PAIRS = 100000, MIN_PAIRS = 5 };

static const struct model_mode mode = { .training = true, .loss_weight = 1 };

struct size {
    const char *name;
    int hidden, seq, batch;
    int experts; /* 0: a dense layer */
};

struct rig {
    const char *name;
    struct job *job;
    struct model *model;
    struct buffers *buffers;
    struct mg_device *device;
    const struct kern_ops *kernels; /* the device's own */
    int layer;                      /* in chunk 0 */
    int rounds;                     /* passes of a time */
    double seconds;
    struct pass pass[2];            /* forward, backward */
    const struct layer_graph *graph[2];
};

struct bench {
    int threads;
    double seconds;
};

/* CPU seconds of the process. */
static double now (void)
{
    struct timespec ts;

    clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void die (const struct mg_error *err)
{
    fprintf (stderr, "bench: %s\n", err->text);
    exit (1);
}

/* --- a table of kernels that do nothing --- */

static int nothing (const struct kernels *k, const void *args, struct mg_stream *stream,
                    struct mg_error *err)
{
    (void)k, (void)args, (void)stream, (void)err;
    return 0;
}

static void use_no_kernels (struct rig *r, struct kern_ops *none)
{
    *none = *r->kernels;
    for (int i = 0; i < KERN_NUM_OPS; i++)
        none->run[i] = nothing;
    r->device->kernels->ops = none;
}

/* --- a model of one layer --- */

static struct model_spec spec_of (const struct size *size)
{
    struct model_spec spec = {
        .config = {
            .num_layers = 1, .hidden_size = size->hidden, .ffn_hidden_size = 4 * size->hidden,
            .num_heads = size->hidden / 64, .kv_channels = 64, .seq_length = size->seq,
            .max_positions = size->seq, .vocab_size = VOCAB, .padded_vocab_size = VOCAB,
            .norm_epsilon = 1e-5, .init_std = 0.02, .hidden_dropout = 0.1,
            .attention_dropout = 0.1, .tied_embeddings = true, .seed = 1,
        },
        .micro_batch_size = size->batch,
        .graphs = { GRAPHS_LAYERS, GRAPH_WHOLE_LAYER, 0 },
    };

    if (size->experts == 0)
        return spec;
    spec.config.moe = (struct model_moe){ .experts = size->experts, .topk = 2,
                                          .ffn_hidden_size = 2 * size->hidden,
                                          .aux_coeff = { 1e-2 }, .dispatch = MOE_ALL_TO_ALL };
    spec.graphs.scopes = GRAPH_BIT (GRAPH_ATTN) | GRAPH_BIT (GRAPH_MOE_ROUTER)
                         | GRAPH_BIT (GRAPH_MOE_PREPROCESS);
    return spec;
}

static void fill_inputs (const struct rig *r, const struct size *size)
{
    const struct nn_inputs in = model_inputs (r->model, NULL, 0, 0);
    int64_t *sample = nn_inputs_data (&in, "samples");
    int32_t *token = nn_inputs_data (&in, "tokens"), *label = nn_inputs_data (&in, "labels");
    float *mask = nn_inputs_data (&in, "loss_mask");

    for (int i = 0; i < size->batch; i++)
        sample[i] = i;
    for (int i = 0; i < size->batch * size->seq; i++) {
        token[i] = (int32_t)((uint32_t)i * 2654435761u % VOCAB);
        label[i] = (int32_t)((uint32_t)i * 40503u % VOCAB);
        mask[i] = 1;
    }
}

static void setup (struct rig *r, const struct bench *b, const struct size *size)
{
    const struct model_spec spec = spec_of (size);
    struct job_config config = { .timeout = 60, .threads = b->threads };
    const struct buffers_config buffers = { .grad = MG_FLOAT32 };
    const int slots = 1;
    struct mg_error err = { "" };
    struct param *params;
    size_t n;

    *r = (struct rig){ .name = size->name, .seconds = b->seconds, .rounds = 1 };
    geometry_init (&config.geometry);
    if (!(r->job = job_create (&config, &err))
        || !(r->model = model_create (&spec, r->job, &err)))
        die (&err);
    params = model_params (r->model, &n);
    if (!(r->buffers = buffers_create (&buffers, r->job, model_stream (r->model), params, n,
                                       model_sizes_of (r->model)->tensors, &err))
        || buffers_bind (r->buffers, &err) < 0 || model_bind (r->model, &slots, &err) < 0
        || model_init_params (r->model, &err) < 0 || buffers_zero_grad (r->buffers, &err) < 0)
        die (&err);
    r->device = job_device (r->job);
    r->kernels = r->device->kernels->ops;
    while (r->model->chunk[0].layer[r->layer].spec->graph_end == 0)
        r->layer++;
    fill_inputs (r, size);
}

static void teardown (struct rig *r)
{
    buffers_destroy (r->buffers);
    model_destroy (r->model);
    job_destroy (r->job);
}

/* Graphs of the kernels that the device has now. */
static void capture (struct rig *r)
{
    struct mg_error err = { "" };

    model_drop_graphs (r->model);
    if (model_capture (r->model, &mode, 0, 0, false, &err) < 0
        || model_capture (r->model, &mode, 0, 0, true, &err) < 0)
        die (&err);
    for (int i = 0; i < 2; i++)
        r->graph[i] = model_graph (r->model, 0, 0, r->layer, i);
}

/* --- passes --- */

static void make_passes (struct rig *r)
{
    for (int backward = 0; backward < 2; backward++) {
        r->pass[backward] = model_start (r->model, &mode);
        model_point (r->model, &r->pass[backward], 0, 0, r->layer);
    }
}

/* Through the captured phases alone. */
static int pass_captured (const struct rig *r, bool graphs, struct mg_error *err)
{
    const struct pass *pass = r->pass;
    const struct layer_spec *spec = pass->layer->spec;

    if (graphs)
        return layer_graph_replay (r->graph[0], &pass[0], err) < 0
                       || layer_graph_replay (r->graph[1], &pass[1], err) < 0 ? -1 : 0;
    return layer_fwd_phases (&pass[0], spec->graph_begin, spec->graph_end, err) < 0
                   || layer_bwd_phases (&pass[1], spec->graph_begin, spec->graph_end, err) < 0
               ? -1 : 0;
}

static int pass_whole (const struct rig *r, bool graphs, struct mg_error *err)
{
    struct pass pass[2] = { r->pass[0], r->pass[1] };

    for (int i = 0; i < 2 && graphs; i++)
        pass[i].graph = r->graph[i];
    return layer_fwd (&pass[0], err) < 0 || layer_bwd (&pass[1], err) < 0 ? -1 : 0;
}

/* --- pairs --- */

typedef int pass_fn (const struct rig *r, bool graphs, struct mg_error *err);

/* Of a pass forward and backward. */
static double time_of (const struct rig *r, pass_fn *pass, bool graphs)
{
    struct mg_error err = { "" };
    double begin = now ();

    for (int i = 0; i < r->rounds; i++) {
        if (pass (r, graphs, &err) < 0)
            die (&err);
    }
    if (mg_stream_synchronize (model_stream (r->model), &err) < 0)
        die (&err);
    return (now () - begin) / r->rounds;
}

static int ascending (const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median (double *x, int n)
{
    qsort (x, (size_t)n, sizeof (*x), ascending);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static void compare (const struct rig *r, const char *what, pass_fn *pass)
{
    static double replay[MAX_PAIRS], eager[MAX_PAIRS], ratio[MAX_PAIRS];
    double begin = now ();
    char text[80];
    int n;

    for (int i = 0; i < 2; i++)
        time_of (r, pass, i); // caches
    for (n = 0; n < MAX_PAIRS && (n < MIN_PAIRS || now () - begin < r->seconds); n++) {
        for (int i = 0; i < 2; i++) {
            bool graphs = (n + i) % 2;

            (graphs ? replay : eager)[n] = time_of (r, pass, graphs);
        }
        ratio[n] = replay[n] / eager[n];
    }
    snprintf (text, sizeof (text), "%s, %s", r->name, what);
    printf ("%-46s %9.4g us %9.4g us %8.3f\n", text, 1e6 * median (replay, n),
            1e6 * median (eager, n), median (ratio, n));
}

static void measure (const struct bench *b, const struct size *size)
{
    struct kern_ops none;
    struct mg_error err = { "" };
    struct rig r;

    setup (&r, b, size);
    if (model_begin (r.model, &mode, &err) < 0 || model_forward (r.model, &mode, 0, 0, &err) < 0
        || model_backward (r.model, &mode, 0, 0, &err) < 0)
        die (&err);
    make_passes (&r);
    capture (&r);
    compare (&r, "whole", pass_whole);
    use_no_kernels (&r, &none);
    capture (&r);
    r.rounds = 1000;
    compare (&r, "no work", pass_captured);
    teardown (&r);
}

int main (int argc, char **argv)
{
    static const struct size sizes[] = {
        { "dense, hidden 256, B 1, T 64", 256, 64, 1, 0 },
        { "dense, hidden 768, B 1, T 256", 768, 256, 1, 0 },
        { "8 experts, hidden 256, B 1, T 64", 256, 64, 1, 8 },
        { "8 experts, hidden 768, B 1, T 256", 768, 256, 1, 8 },
    };
    struct bench b = { .threads = 1, .seconds = 3 };
    int option;

    while ((option = getopt (argc, argv, "t:s:")) != -1) {
        if (option == 't')
            b.threads = atoi (optarg);
        else if (option == 's')
            b.seconds = atof (optarg);
        else {
            fprintf (stderr, "usage: graphs [-t THREADS] [-s SECONDS]\n");
            return 2;
        }
    }
    printf ("%-46s %12s %12s %8s\n", "a layer, forward and backward", "value", "floor",
            "ratio");
    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++)
        measure (&b, &sizes[i]);
    return 0;
}
