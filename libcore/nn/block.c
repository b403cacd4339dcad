/* block.c - tables of a layer's tensors and phases, and the loops over them */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "libcore/device/stream.h"
#include "libcore/nn/attention.h"
#include "libcore/nn/block.h"
#include "libcore/nn/check.h"
#include "libcore/nn/mlp.h"

static int64_t hidden_count (const struct nn *nn)
{
    return nn->rows * nn->hidden;
}

/* Summands of all tokens, before they leave the tensor-parallel region. */
static int64_t partial_count (const struct nn *nn)
{
    return nn->tokens * nn->hidden;
}

static int64_t stat_count (const struct nn *nn)
{
    return 2 * nn->rows;
}

static int64_t attention_count (const struct nn *nn)
{
    return nn->tokens * nn->local_attention;
}

static int64_t qkv_count (const struct nn *nn)
{
    return 3 * nn->tokens * nn->local_attention;
}

static int64_t lse_count (const struct nn *nn)
{
    return nn->tokens * nn->local_heads;
}

static int64_t ffn_count (const struct nn *nn)
{
    return nn->tokens * nn->local_ffn;
}

const struct block_tensor block_acts[BLOCK_NUM_ACTS] = {
    [ACT_INPUT] = { "input", LIFE_EXTERNAL, false, hidden_count },
    [ACT_NORM1] = { "norm1", LIFE_SAVED, false, hidden_count },
    [ACT_STAT1] = { "stat1", LIFE_SAVED, true, stat_count },
    [ACT_QKV] = { "qkv", LIFE_SAVED, false, qkv_count },
    [ACT_LSE] = { "lse", LIFE_SAVED, true, lse_count },
    [ACT_CONTEXT] = { "context", LIFE_SAVED, false, attention_count },
    [ACT_RESIDUAL] = { "residual", LIFE_SAVED, false, hidden_count },
    [ACT_NORM2] = { "norm2", LIFE_SAVED, false, hidden_count },
    [ACT_STAT2] = { "stat2", LIFE_SAVED, true, stat_count },
    [ACT_FC1] = { "fc1", LIFE_SAVED, false, ffn_count },
    [ACT_GELU] = { "gelu", LIFE_SAVED, false, ffn_count },
    [ACT_OUTPUT] = { "output", LIFE_EXTERNAL, false, hidden_count },
    [ACT_BRANCH] = { "branch", LIFE_SHARED, false, partial_count },
};

const struct block_tensor block_grads[BLOCK_NUM_GRADS] = {
    [GRAD_HIDDEN] = { "hidden", LIFE_EXTERNAL, false, hidden_count },
    [GRAD_BRANCH] = { "branch", LIFE_SHARED, false, hidden_count },
    [GRAD_NORM] = { "norm", LIFE_SHARED, false, partial_count },
    [GRAD_FFN] = { "ffn", LIFE_SHARED, false, ffn_count },
    [GRAD_QKV] = { "qkv", LIFE_SHARED, false, qkv_count },
    [GRAD_CONTEXT] = { "context", LIFE_SHARED, false, attention_count },
};

const struct block_phase block_phases[] = {
    { "input_layernorm", PHASE_CAPTURABLE, ACT_BIT (ACT_INPUT),
      ACT_BIT (ACT_NORM1) | ACT_BIT (ACT_STAT1), attention_norm_fwd, attention_norm_bwd },
    { "linear_qkv", PHASE_CAPTURABLE, ACT_BIT (ACT_NORM1), ACT_BIT (ACT_QKV),
      attention_qkv_fwd, attention_qkv_bwd },
    { "core_attention", PHASE_CAPTURABLE, ACT_BIT (ACT_QKV),
      ACT_BIT (ACT_CONTEXT) | ACT_BIT (ACT_LSE), attention_core_fwd, attention_core_bwd },
    { "linear_proj", PHASE_CAPTURABLE, ACT_BIT (ACT_CONTEXT), ACT_BIT (ACT_BRANCH),
      attention_proj_fwd, attention_proj_bwd },
    { "attention_reduce", PHASE_CAPTURABLE, ACT_BIT (ACT_BRANCH), ACT_BIT (ACT_BRANCH),
      block_reduce_fwd, NULL },
    { "self_attn_bda", PHASE_CAPTURABLE, ACT_BIT (ACT_BRANCH) | ACT_BIT (ACT_INPUT),
      ACT_BIT (ACT_RESIDUAL), attention_bda_fwd, attention_bda_bwd },
    { "pre_mlp_layernorm", PHASE_CAPTURABLE, ACT_BIT (ACT_RESIDUAL),
      ACT_BIT (ACT_NORM2) | ACT_BIT (ACT_STAT2), mlp_norm_fwd, mlp_norm_bwd },
    { "linear_fc1", PHASE_CAPTURABLE, ACT_BIT (ACT_NORM2), ACT_BIT (ACT_FC1), mlp_fc1_fwd,
      mlp_fc1_bwd },
    { "gelu", PHASE_CAPTURABLE, ACT_BIT (ACT_FC1), ACT_BIT (ACT_GELU), mlp_gelu_fwd,
      mlp_gelu_bwd },
    { "linear_fc2", PHASE_CAPTURABLE, ACT_BIT (ACT_GELU), ACT_BIT (ACT_BRANCH), mlp_fc2_fwd,
      mlp_fc2_bwd },
    { "mlp_reduce", PHASE_CAPTURABLE, ACT_BIT (ACT_BRANCH), ACT_BIT (ACT_BRANCH),
      block_reduce_fwd, NULL },
    { "mlp_bda", PHASE_CAPTURABLE, ACT_BIT (ACT_BRANCH) | ACT_BIT (ACT_RESIDUAL),
      ACT_BIT (ACT_OUTPUT), mlp_bda_fwd, mlp_bda_bwd },
};

const size_t block_num_phases = sizeof (block_phases) / sizeof (block_phases[0]);

int block_reduce_fwd (const struct block_run *run, struct mg_error *err)
{
    return nn_leave (run->nn, run->act[ACT_BRANCH], err);
}

/* --- checking: what a phase has made --- */

enum { WHERE_MAX = 64 };

static struct check_place place_of (const struct block_run *run, enum check_pass pass,
                                    size_t phase, char where[WHERE_MAX])
{
    int layer = run->block->layer;
    bool forward = pass == CHECK_FORWARD;

    snprintf (where, WHERE_MAX, "layer %d: %s", layer, block_phases[phase].name);
    return (struct check_place){
        .pass = pass,
        .step = forward ? 1 + layer : run->nn->config.num_layers - layer,
        .phase = (int)(forward ? phase : block_num_phases - 1 - phase),
        .where = where,
    };
}

static enum mg_dtype dtype_of (const struct nn *nn, const struct block_tensor *t)
{
    return t->wide ? MG_FLOAT32 : nn->dtype;
}

static int check_fwd (const struct block_run *run, size_t phase, struct mg_error *err)
{
    char where[WHERE_MAX];
    struct check_place place = place_of (run, CHECK_FORWARD, phase, where);

    for (int a = 0; run->nn->check && a < BLOCK_NUM_ACTS; a++)
        if (block_phases[phase].writes & ACT_BIT (a)
            && check_tensor (run->nn->check, &place, "activation", block_acts[a].name,
                             block_acts[a].count (run->nn), run->act[a],
                             dtype_of (run->nn, &block_acts[a]), err)
                   < 0)
            return -1;
    return 0;
}

/* The table does not tell which gradients a phase writes: look at all of them. */
static int check_bwd (const struct block_run *run, size_t phase, struct mg_error *err)
{
    char where[WHERE_MAX];
    struct check_place place = place_of (run, CHECK_BACKWARD, phase, where);
    const struct param *p = run->block->norm1_weight; /* the first of the layer's */

    if (!run->nn->check)
        return 0;
    if (nn_leave_wait (run->nn, err) < 0)
        return -1;
    for (int g = 0; g < BLOCK_NUM_GRADS; g++)
        if (check_tensor (run->nn->check, &place, "gradient", block_grads[g].name,
                          block_grads[g].count (run->nn), run->grad[g],
                          dtype_of (run->nn, &block_grads[g]), err)
            < 0)
            return -1;
    for (int i = 0; i < BLOCK_NUM_PARAMS; i++)
        if (check_tensor (run->nn->check, &place, "gradient of", p[i].name, p[i].numel,
                          p[i].grad, p[i].grad_dtype, err) < 0)
            return -1;
    return 0;
}

/* What is left there by another layer must not be taken for this one's. */
static int clear_shared (const struct block_run *run, struct mg_error *err)
{
    const struct nn *nn = run->nn;
    int64_t size = (int64_t)mg_dtype_size (nn->dtype);

    for (int g = 0; nn->check && g < BLOCK_NUM_GRADS; g++) {
        /* As floats; the memory behind an odd number of halves is nobody's. */
        int64_t n = (block_grads[g].count (nn) * size + 3) / 4;

        if (block_grads[g].life == LIFE_SHARED
            && kern_fill (nn->kern,
                          &(struct kern_fill){ .n = n, .value = 0, .out = run->grad[g],
                                               .dtype = MG_FLOAT32 },
                          nn->compute, err)
                   < 0)
            return -1;
    }
    return 0;
}

/* --- passes --- */

int block_fwd (const struct block_run *run, struct mg_error *err)
{
    for (size_t i = 0; i < block_num_phases; i++)
        if ((block_phases[i].fwd && block_phases[i].fwd (run, err) < 0)
            || check_fwd (run, i, err) < 0)
            return mg_error_prefix (err, "layer %d: %s: forward", run->block->layer,
                                    block_phases[i].name);
    return 0;
}

int block_bwd (const struct block_run *run, struct mg_error *err)
{
    if (clear_shared (run, err) < 0)
        return -1;
    for (size_t i = block_num_phases; i-- > 0;)
        if ((block_phases[i].bwd && block_phases[i].bwd (run, err) < 0)
            || check_bwd (run, i, err) < 0)
            return mg_error_prefix (err, "layer %d: %s: backward", run->block->layer,
                                    block_phases[i].name);
    return 0;
}

/* Take the tensors of a table that live so long. */
static void carve (const struct nn *nn, const struct block_tensor *table, int n,
                   enum block_life life, struct arena *a, void **out)
{
    for (int i = 0; i < n; i++) {
        if (table[i].life == life)
            out[i] = arena_take (a, table[i].count (nn),
                                 mg_dtype_size (dtype_of (nn, &table[i])));
    }
}

void block_carve_saved (const struct nn *nn, struct arena *a, void **act)
{
    carve (nn, block_acts, BLOCK_NUM_ACTS, LIFE_SAVED, a, act);
}

void block_carve_shared (const struct nn *nn, struct arena *a, void **act, void **grad)
{
    carve (nn, block_acts, BLOCK_NUM_ACTS, LIFE_SHARED, a, act);
    carve (nn, block_grads, BLOCK_NUM_GRADS, LIFE_SHARED, a, grad);
}

/* How a tensor is split over the tensor-parallel group. */
enum split { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLS };

/* Place among the layer's parameters; the registration order of Megatron-core's block. */
enum {
    NORM1_WEIGHT, NORM1_BIAS, PROJ_WEIGHT, PROJ_BIAS, QKV_WEIGHT, QKV_BIAS,
    NORM2_WEIGHT, NORM2_BIAS, FC1_WEIGHT, FC1_BIAS, FC2_WEIGHT, FC2_BIAS,
};

/* One row a parameter; sizes refer to the whole tensor. */
struct param_row {
    const char *name;
    enum split split;
    enum { INIT_ZERO, INIT_ONE, INIT_NORMAL, INIT_SCALED } init;
};

static const struct param_row param_rows[BLOCK_NUM_PARAMS] = {
    [NORM1_WEIGHT] = { "input_layernorm.weight", SPLIT_NONE, INIT_ONE },
    [NORM1_BIAS] = { "input_layernorm.bias", SPLIT_NONE, INIT_ZERO },
    [PROJ_WEIGHT] = { "self_attention.linear_proj.weight", SPLIT_COLS, INIT_SCALED },
    [PROJ_BIAS] = { "self_attention.linear_proj.bias", SPLIT_NONE, INIT_ZERO },
    [QKV_WEIGHT] = { "self_attention.linear_qkv.weight", SPLIT_ROWS, INIT_NORMAL },
    [QKV_BIAS] = { "self_attention.linear_qkv.bias", SPLIT_ROWS, INIT_ZERO },
    [NORM2_WEIGHT] = { "pre_mlp_layernorm.weight", SPLIT_NONE, INIT_ONE },
    [NORM2_BIAS] = { "pre_mlp_layernorm.bias", SPLIT_NONE, INIT_ZERO },
    [FC1_WEIGHT] = { "mlp.linear_fc1.weight", SPLIT_ROWS, INIT_NORMAL },
    [FC1_BIAS] = { "mlp.linear_fc1.bias", SPLIT_ROWS, INIT_ZERO },
    [FC2_WEIGHT] = { "mlp.linear_fc2.weight", SPLIT_COLS, INIT_SCALED },
    [FC2_BIAS] = { "mlp.linear_fc2.bias", SPLIT_NONE, INIT_ZERO },
};

/* Whole shape of parameter i; returns the number of dimensions. */
static int param_shape (const struct model_config *c, int i, int64_t shape[2])
{
    int64_t attention = (int64_t)c->num_heads * c->kv_channels;
    const int64_t shapes[BLOCK_NUM_PARAMS][2] = {
        [NORM1_WEIGHT] = { c->hidden_size }, [NORM1_BIAS] = { c->hidden_size },
        [PROJ_WEIGHT] = { c->hidden_size, attention }, [PROJ_BIAS] = { c->hidden_size },
        [QKV_WEIGHT] = { 3 * attention, c->hidden_size }, [QKV_BIAS] = { 3 * attention },
        [NORM2_WEIGHT] = { c->hidden_size }, [NORM2_BIAS] = { c->hidden_size },
        [FC1_WEIGHT] = { c->ffn_hidden_size, c->hidden_size },
        [FC1_BIAS] = { c->ffn_hidden_size },
        [FC2_WEIGHT] = { c->hidden_size, c->ffn_hidden_size },
        [FC2_BIAS] = { c->hidden_size },
    };

    shape[0] = shapes[i][0];
    shape[1] = shapes[i][1];
    return shape[1] ? 2 : 1;
}

static void describe (struct param *p, const struct nn *nn, int layer, int i, int order)
{
    const struct param_row *row = &param_rows[i];
    const struct model_config *c = &nn->config;
    int split_dim = row->split == SPLIT_COLS ? 1 : 0;
    char name[sizeof (p->name)];

    snprintf (name, sizeof (name), "decoder.layers.%d.%s", layer, row->name);
    *p = (struct param){
        .dtype = nn->dtype,
        .storage = nn->dtype,
        .tp_sharded = row->split != SPLIT_NONE,
        .sequence_parallel = row->split == SPLIT_NONE && nn->rows < nn->tokens,
        .order = order + i,
        .init_value = row->init == INIT_ONE ? 1.0f : 0.0f,
        .init_key = rng_key (c->seed, RNG_INIT, (uint64_t)i, (uint64_t)layer),
    };
    memcpy (p->name, name, sizeof (name));
    if (row->init == INIT_NORMAL)
        p->init_std = c->init_std;
    else if (row->init == INIT_SCALED) /* before a residual: Radford et al. 2019 */
        p->init_std = c->init_std / sqrt (2.0 * c->num_layers);
    p->ndims = param_shape (c, i, p->global);
    p->decay = p->ndims == 2;
    if (p->ndims == 2)
        p->storage = nn->weight_storage;
    p->numel = 1;
    for (int d = 0; d < p->ndims; d++) {
        p->extent[d] = p->global[d];
        if (row->split != SPLIT_NONE && d == split_dim) {
            p->extent[d] /= nn->tp_size;
            p->offset[d] = p->extent[d] * nn->tp_rank;
        }
        p->numel *= p->extent[d];
    }
}

void block_init (struct block *b, const struct nn *nn, int layer, struct param *p, int order)
{
    uint64_t seed = nn->config.seed;

    *b = (struct block){
        .layer = layer,
        .norm1_weight = &p[NORM1_WEIGHT], .norm1_bias = &p[NORM1_BIAS],
        .norm2_weight = &p[NORM2_WEIGHT], .norm2_bias = &p[NORM2_BIAS],
        .qkv = { .weight = &p[QKV_WEIGHT], .bias = &p[QKV_BIAS] },
        .proj = { .weight = &p[PROJ_WEIGHT] },
        .fc1 = { .weight = &p[FC1_WEIGHT], .bias = &p[FC1_BIAS] },
        .fc2 = { .weight = &p[FC2_WEIGHT] },
        .proj_bias = &p[PROJ_BIAS], .fc2_bias = &p[FC2_BIAS],
        .hidden_key = { rng_key (seed, RNG_DROPOUT_HIDDEN, 0, (uint64_t)layer),
                        rng_key (seed, RNG_DROPOUT_HIDDEN, 1, (uint64_t)layer) },
    };
    for (int i = 0; i < BLOCK_NUM_PARAMS; i++)
        describe (&p[i], nn, layer, i, order);
}

int block_make_keys (struct block *b, const struct nn *nn, struct mg_error *err)
{
    const size_t size = (size_t)nn->local_heads * sizeof (uint64_t);
    uint64_t *key = malloc (size + 1);
    int rc = -1;

    if (!key)
        return mg_error_set (err, ENOMEM, "layer %d: out of memory", b->layer);
    for (int64_t h = 0; h < nn->local_heads; h++)
        key[h] = rng_key (nn->config.seed, RNG_DROPOUT_ATTENTION,
                          (uint64_t)(nn->tp_rank * nn->local_heads + h), (uint64_t)b->layer);
    if ((b->attention_key = device_alloc_apart (stream_device (nn->compute), size, err))
        && device_upload (nn->compute, b->attention_key, key, size, err) == 0)
        rc = mg_stream_synchronize (nn->compute, err);
    free (key);
    return rc < 0 ? mg_error_prefix (err, "layer %d", b->layer) : 0;
}

void block_clear (struct block *b, struct mg_device *device)
{
    device_free (device, b->attention_key);
    b->attention_key = NULL;
}
