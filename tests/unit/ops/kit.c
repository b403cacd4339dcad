/* kit.c - kit.h */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/stream.h"
#include "libcore/model/model_private.h"
#include "tests/tap/tap.h"
#include "tests/unit/ops/kit.h"

enum { SCRATCH = 1 << 22 }; /* bytes, also for operations that the model has not */

static void fill_in (struct model_config *c)
{
    c->num_layers = c->num_layers ? c->num_layers : 1;
    c->hidden_size = c->hidden_size ? c->hidden_size : 12;
    c->ffn_hidden_size = c->ffn_hidden_size ? c->ffn_hidden_size : 10;
    c->num_heads = c->num_heads ? c->num_heads : 2;
    c->kv_channels = c->kv_channels ? c->kv_channels : 6;
    c->seq_length = c->seq_length ? c->seq_length : 5;
    c->max_positions = c->seq_length;
    c->vocab_size = c->vocab_size ? c->vocab_size : 7;
    c->padded_vocab_size = c->padded_vocab_size ? c->padded_vocab_size : 8;
    c->norm_epsilon = 1e-5;
    c->init_std = 0.02;
    c->seed = 5;
}

void ops_open (struct ops_kit *k, struct model_config c, int batch)
{
    struct model_spec spec = { .micro_batch_size = batch };
    struct mg_error err;

    memset (k, 0, sizeof (*k));
    fill_in (&c);
    spec.config = c;
    alone_create (&k->alone, &spec);
    if (stream_reserve_scratch (k->alone.model->nn.compute, SCRATCH, &err) < 0)
        bail_out ("%s", err.text);
    k->nn = k->alone.model->nn;
    k->shape = k->alone.model->shape[MODEL_TRAINING];
    k->spec.name = "layer";
    k->layer = (struct layer){ .spec = &k->spec, .exchange = nn_exchange (&k->nn, CONTEXT_P2P) };
    k->pass = (struct pass){ .nn = &k->nn, .shape = &k->shape, .layer = &k->layer,
                             .tensor = k->tensor };
}

void ops_close (struct ops_kit *k)
{
    for (int i = 1; i <= k->spec.num_tensors; i++)
        free (k->tensor[i].data);
    for (int i = 1; i <= k->spec.num_params; i++) {
        free (k->param[i].data);
        free (k->param[i].grad);
    }
    alone_destroy (&k->alone);
}

static void *allocate (int64_t n, size_t size)
{
    void *x = calloc ((size_t)n + 1, size);

    if (!x)
        bail_out ("out of memory");
    return x;
}

void ops_fill (float *x, int64_t n)
{
    static uint64_t seed = 1;

    for (int64_t i = 0; i < n; i++) {
        seed = seed * UINT64_C (6364136223846793005) + UINT64_C (1442695040888963407);
        x[i] = (float)(seed >> 40) / (float)(1 << 23) - 1;
    }
}

int ops_zeros (struct ops_kit *k, const char *name, enum mg_dtype dtype, int64_t rows,
               int64_t cols)
{
    struct layer_tensor row = { .name = name, .life = LIFE_SAVED, .ndims = 2,
                                .shape = { rows, cols } };
    int i = layer_add_tensor (&k->spec, &row);

    if (i > OPS_OPERANDS)
        bail_out ("more than %d tensors", OPS_OPERANDS);
    k->tensor[i] = (struct tensor){ .data = allocate (rows * cols, mg_dtype_size (dtype)),
                                    .dtype = dtype, .ndims = 2, .shape = { rows, cols },
                                    .live = rows };
    return i;
}

int ops_random (struct ops_kit *k, const char *name, int64_t rows, int64_t cols)
{
    int i = ops_zeros (k, name, MG_FLOAT32, rows, cols);

    ops_fill (ops_at (k, i), rows * cols);
    return i;
}

int ops_param (struct ops_kit *k, const char *name, int64_t rows, int64_t cols)
{
    int64_t n = rows * (cols ? cols : 1);
    struct layer_param row = { .name = name, .ndims = cols ? 2 : 1, .global = { rows, cols } };
    int i = layer_add_param (&k->spec, &row);
    struct param *p;

    if (i > OPS_OPERANDS)
        bail_out ("more than %d parameters", OPS_OPERANDS);
    p = &k->param[i];
    *p = (struct param){ .dtype = MG_FLOAT32, .storage = MG_FLOAT32, .grad_dtype = MG_FLOAT32,
                         .ndims = row.ndims, .global = { rows, cols }, .extent = { rows, cols },
                         .numel = n, .data = allocate (n, sizeof (float)),
                         .grad = allocate (n, sizeof (float)) };
    p->runs.rows = rows;
    p->runs.count = 1;
    ops_fill (p->data, n);
    k->layer.param[i] = p;
    return i;
}

float *ops_at (const struct ops_kit *k, int tensor)
{
    return k->tensor[tensor].data;
}

float *ops_value (const struct ops_kit *k, int param)
{
    return k->param[param].data;
}

float *ops_grad (const struct ops_kit *k, int param)
{
    return k->param[param].grad;
}

void ops_phase (struct ops_kit *k, const struct phase *phase)
{
    k->spec.num_phases = 0;
    layer_add_phase (&k->spec, phase);
    if (!k->spec.phase[0].name)
        k->spec.phase[0].name = phase->op->name;
}

void ops_forward (struct ops_kit *k)
{
    struct mg_error err;

    if (layer_fwd (&k->pass, &err) < 0 || nn_await (&k->nn, NN_ALL_SIDES, &err) < 0
        || mg_stream_synchronize (k->nn.compute, &err) < 0)
        bail_out ("%s", err.text);
}

void ops_backward (struct ops_kit *k)
{
    struct mg_error err;

    if (layer_bwd (&k->pass, &err) < 0 || nn_await (&k->nn, NN_ALL_SIDES, &err) < 0
        || mg_stream_synchronize (k->nn.compute, &err) < 0)
        bail_out ("%s", err.text);
}

static double loss (struct ops_kit *k, int y, const float *dy)
{
    double sum = 0;

    ops_forward (k);
    for (int64_t i = 0; i < tensor_count (&k->tensor[y]); i++)
        sum += (double)dy[i] * (double)ops_at (k, y)[i];
    return sum;
}

void ops_check_slopes (struct ops_kit *k, int y, const float *dy, const struct ops_slope *slope,
                       int num)
{
    const float step = 1.0f / 128;

    for (int s = 0; s < num; s++) {
        double worst = 0;

        for (int64_t i = 0; i < slope[s].n; i++) {
            float *x = &slope[s].x[i], before = *x;
            double up, down;

            *x = before + step;
            up = loss (k, y, dy);
            *x = before - step;
            down = loss (k, y, dy);
            *x = before;
            worst = fmax (worst, fabs ((up - down) / (2 * (double)step) - (double)slope[s].dx[i]));
        }
        ok (worst < 4e-3, "%s: gradients of %s are slopes (%.1e)", k->spec.phase[0].op->name,
            slope[s].what, worst);
    }
}

double ops_difference (const float *x, const double *y, int64_t n)
{
    double worst = 0;

    for (int64_t i = 0; i < n; i++)
        worst = fmax (worst, isnan (x[i]) ? INFINITY : fabs ((double)x[i] - y[i]));
    return worst;
}
