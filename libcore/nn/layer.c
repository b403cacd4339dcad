/* layer.c - specifications and the loops over their phases
 *
 * Indices of parameters and tensors begin with 1, so that 0 is an operand that is not there.
 * Passes look at what a phase has made only where they are asked to (struct check).
 */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "libcore/device/graph.h"
#include "libcore/nn/layer.h"
#include "libcore/nn/layer_graph.h"

/* --- making a specification --- */

int layer_add_param (struct layer_spec *spec, const struct layer_param *param)
{
    if (spec->num_params == LAYER_MAX_PARAMS) {
        spec->full = true;
        return LAYER_NONE;
    }
    spec->param[++spec->num_params] = *param;
    return spec->num_params;
}

int layer_add_tensor (struct layer_spec *spec, const struct layer_tensor *tensor)
{
    if (spec->num_tensors == LAYER_MAX_TENSORS) {
        spec->full = true;
        return LAYER_NONE;
    }
    spec->tensor[++spec->num_tensors] = *tensor;
    return spec->num_tensors;
}

void layer_add_phase (struct layer_spec *spec, const struct phase *phase)
{
    if (spec->num_phases == LAYER_MAX_PHASES)
        spec->full = true;
    else
        spec->phase[spec->num_phases++] = *phase;
}

int layer_find (const struct layer_spec *spec, enum layer_life life)
{
    for (int t = 1; t <= spec->num_tensors; t++) {
        if (spec->tensor[t].life == life)
            return t;
    }
    return LAYER_NONE;
}

/* --- operands of a phase, names --- */

int layer_num_operands (const struct layer_op *op)
{
    int n = LAYER_MAX_OPERANDS;

    while (n > 0 && !op->operand[n - 1].name)
        n--;
    return n;
}

/* Returns the accesses of a half, forward or backward, to an operand; 0 if the half does not run.
 */
static unsigned access_of (const struct phase *phase, int i, bool backward)
{
    const struct layer_operand *o = &phase->op->operand[i];
    unsigned access = backward ? o->bwd : o->fwd;

    if (phase->operand[i] == LAYER_NONE)
        return 0;
    if (backward && phase->frozen)
        access = access & OPERAND_TRAIN ? 0 : o->param ? access & ~(unsigned)OPERAND_ADD : access;
    if (access & OPERAND_RESULT)
        access |= phase->adds ? OPERAND_READ | OPERAND_WRITE : OPERAND_WRITE;
    return access & ~(unsigned)(OPERAND_RESULT | OPERAND_TRAIN);
}

bool layer_runs_backward (const struct phase *phase)
{
    if (!phase->frozen || !phase->op->bwd)
        return phase->op->bwd != NULL;
    for (int i = 0, n = layer_num_operands (phase->op); i < n; i++) {
        if (access_of (phase, i, true) & (OPERAND_WRITE | OPERAND_ADD))
            return true;
    }
    return false;
}

unsigned layer_access (const struct phase *phase, int i, bool backward)
{
    return backward && !layer_runs_backward (phase) ? 0 : access_of (phase, i, backward);
}

void layer_text (const struct layer *layer, char text[LAYER_TEXT_MAX])
{
    const char *name = layer->spec->name;

    if (layer->mtp > 0)
        snprintf (text, LAYER_TEXT_MAX, "mtp %s %d", name, layer->mtp - 1);
    else if (layer->number < 0)
        snprintf (text, LAYER_TEXT_MAX, "%s", name);
    else
        snprintf (text, LAYER_TEXT_MAX, "%s %d", name, layer->number);
}

/* --- which phases are captured? --- */

static int check_capturable (const struct layer_spec *spec, const struct phase *phase,
                             struct mg_error *err)
{
    if ((phase->op->flags & PHASE_CAPTURABLE) || phase->fixed)
        return 0;
    return mg_error_set (err, EINVAL, "%s: a graph cannot have %s: the host has to wait for its "
                         "counts", spec->name, phase->name);
}

int layer_spec_check_capture (const struct layer_spec *spec, struct mg_error *err)
{
    uint64_t again = 0;

    for (int i = spec->graph_begin; i < spec->graph_end; i++)
        again |= spec->again[i];
    for (int i = 0; i < spec->num_phases; i++) {
        if ((again & UINT64_C (1) << i) && check_capturable (spec, &spec->phase[i], err) < 0)
            return -1;
    }
    return 0;
}

int layer_spec_capture (struct layer_spec *spec, unsigned scopes, struct mg_error *err)
{
    spec->graph_begin = spec->graph_end = 0;
    for (int i = 0; i < spec->num_phases; i++) {
        const struct phase *phase = &spec->phase[i];

        if (!(phase->scopes & scopes))
            continue;
        if (check_capturable (spec, phase, err) < 0)
            return -1;
        if (spec->graph_end == 0)
            spec->graph_begin = i;
        else if (spec->graph_end < i)
            return mg_error_set (err, EINVAL, "%s: a graph cannot have %s without %s before it",
                                 spec->name, phase->name, spec->phase[i - 1].name);
        spec->graph_end = i + 1;
    }
    return 0;
}

double layer_flops (const struct layer_spec *spec, const struct nn *nn,
                    const struct nn_shape *shape)
{
    double sum = 0;

    for (int i = 0; i < spec->num_phases; i++) {
        const struct phase *phase = &spec->phase[i];

        if (phase->op->flops)
            sum += phase->op->flops (spec, phase, nn, shape);
    }
    return sum;
}

double layer_product_flops (const struct layer_param *weight, const struct nn_shape *shape)
{
    int64_t rows = weight->padded ? weight->padded : weight->global[0];

    return 2.0 * (double)shape->tokens * (double)rows * (double)weight->global[1];
}

/* Set reads[t] for each tensor that phases read: backward, or forward where they run again. */
static void find_reads (const struct layer_spec *spec, bool again, bool *reads)
{
    uint64_t phases = 0;

    for (int i = 0; again && i < spec->num_phases; i++)
        phases |= spec->again[i];
    for (int i = 0; i < spec->num_phases; i++) {
        const struct phase *phase = &spec->phase[i];

        for (int k = 0, n = layer_num_operands (phase->op); k < n; k++) {
            const struct layer_operand *o = &phase->op->operand[k];
            unsigned access = layer_access (phase, k, !again);

            if (!o->param && (access & OPERAND_READ) && (!again || (phases & UINT64_C (1) << i)))
                reads[phase->operand[k]] = true;
        }
    }
}

int layer_spec_trim (struct layer_spec *spec, struct mg_error *err)
{
    bool backward[LAYER_MAX_TENSORS + 1] = { false }, trimmed[LAYER_MAX_TENSORS + 1];
    bool changed = true;

    find_reads (spec, false, backward);
    for (int t = 1; t <= spec->num_tensors; t++) {
        trimmed[t] = spec->tensor[t].life == LIFE_SAVED && !backward[t];
        if (trimmed[t])
            spec->tensor[t].life = LIFE_RECOMPUTED;
    }
    while (changed) {
        bool again[LAYER_MAX_TENSORS + 1] = { false };

        changed = false;
        if (layer_spec_check (spec, err) < 0)
            return -1;
        find_reads (spec, true, again);
        for (int t = 1; t <= spec->num_tensors; t++) {
            if (!trimmed[t] || !again[t])
                continue;
            spec->tensor[t].life = LIFE_SAVED;
            trimmed[t] = false;
            changed = true;
        }
    }
    return 0;
}

int layer_spec_recompute (struct layer_spec *spec, unsigned modules, struct mg_error *err)
{
    for (int t = 1; t <= spec->num_tensors; t++) {
        struct layer_tensor *tensor = &spec->tensor[t];

        if (tensor->life == LIFE_SAVED && !tensor->keep
            && (modules == RECOMPUTE_ALL || (tensor->modules & modules)))
            tensor->life = LIFE_RECOMPUTED;
    }
    return layer_spec_check (spec, err);
}

int layer_spec_forward_only (struct layer_spec *spec, struct mg_error *err)
{
    spec->forward_only = true;
    for (int t = 1; t <= spec->num_tensors; t++) {
        struct layer_tensor *tensor = &spec->tensor[t];

        if (tensor->gradient || tensor->life == LIFE_GRADIENT) {
            tensor->shape[0] = 0;
            tensor->rows = (struct nn_extent){ .times = 0 };
        } else if (tensor->life == LIFE_SAVED)
            tensor->life = LIFE_RECOMPUTED;
    }
    return layer_spec_check (spec, err);
}

/* --- what phases cost --- */

/* Operations that a norm, an activation or dropout takes for each element that it writes. */
enum { FLOPS_EACH = 10 };

static double written_flops (const struct layer_spec *spec, const struct phase *phase,
                             const struct nn_shape *shape)
{
    double elements = 0;

    for (int i = 0, num = layer_num_operands (phase->op); i < num; i++) {
        const struct layer_operand *o = &phase->op->operand[i];
        const struct layer_tensor *t = &spec->tensor[phase->operand[i]];
        double n;

        if (o->param || !(layer_access (phase, i, false) & OPERAND_WRITE))
            continue;
        n = (double)layer_live (t, shape);
        for (int d = 1; d < t->ndims; d++)
            n *= (double)t->shape[d];
        elements += n;
    }
    return FLOPS_EACH * elements;
}

double layer_cost (const struct layer_spec *spec, uint64_t phases, const struct nn *nn,
                   const struct nn_shape *shape)
{
    double cost = 0;

    for (int i = 0; i < spec->num_phases; i++) {
        const struct phase *phase = &spec->phase[i];

        double flops = phase->op->flops ? phase->op->flops (spec, phase, nn, shape) : 0;

        if (phases & UINT64_C (1) << i)
            cost += flops > 0 ? flops / nn->tp_size : written_flops (spec, phase, shape);
    }
    return cost;
}

/* --- its parameters and tensors on this rank --- */

/* This rank's experts, one behind the other; the expert-tensor-parallel ranks have a part each. */
static void set_expert_shape (struct param *p, const struct layer_param *row, const struct nn *nn)
{
    const struct nn_experts *x = &nn->experts;
    int split = row->split == SPLIT_COLS ? 1 : 0, blocks = row->blocks > 1 ? row->blocks : 1;
    int64_t part[2] = { row->global[0], row->ndims == 2 ? row->global[1] : 1 };
    int64_t first[2] = { 0 };

    if (row->split != SPLIT_NONE) {
        part[split] /= x->etp_size;
        first[split] = part[split] * x->etp_rank;
    }
    p->expert = true;
    p->ndims = row->ndims;
    p->global[0] = row->global[0];
    p->global[1] = row->global[1];
    p->extent[0] = x->local * part[0];
    p->extent[1] = row->ndims == 2 ? part[1] : 0;
    p->numel = x->local * part[0] * part[1];
    p->runs = (struct param_runs){
        .offset = { x->ep_rank * x->local * row->global[0] + first[0] / blocks, first[1] },
        .rows = part[0] / blocks,
        .count = x->local * blocks,
        .stride = row->global[0] / blocks,
    };
}

static void set_shape (struct param *p, const struct layer_param *row, const struct nn *nn)
{
    int split = row->split == SPLIT_COLS ? 1 : 0, blocks = row->blocks > 1 ? row->blocks : 1;
    int64_t first[2] = { 0 };

    p->ndims = row->ndims;
    p->numel = 1;
    for (int d = 0; d < p->ndims; d++) {
        p->global[d] = row->global[d];
        p->extent[d] = d == 0 && row->padded ? row->padded : row->global[d];
        if (row->split != SPLIT_NONE && d == split) {
            p->extent[d] /= nn->tp_size;
            first[d] = p->extent[d] * nn->tp_rank;
        }
        p->numel *= p->extent[d];
    }
    p->runs = (struct param_runs){ /* each block of rows is dealt out alone */
        .offset = { first[0] / blocks, first[1] },
        .rows = p->extent[0] / blocks,
        .count = blocks,
        .stride = row->global[0] / blocks,
    };
}

int64_t layer_param_count (const struct layer_param *row, const struct nn *nn)
{
    struct param p = { .ndims = row->ndims };

    if (row->experts > 0)
        set_expert_shape (&p, row, nn);
    else
        set_shape (&p, row, nn);
    return p.numel;
}

void layer_format (const char *name, int number, char *out, size_t size)
{
    const char *at = strstr (name, "%d");

    if (at)
        snprintf (out, size, "%.*s%d%s", (int)(at - name), name, number, at + 2);
    else
        snprintf (out, size, "%s", name);
}

void layer_name (const struct layer *layer, const char *name, char out[PIECE_NAME_MAX])
{
    const char *prefix = layer->mtp > 0 ? layer->spec->mtp_prefix : layer->spec->prefix;
    size_t n;

    layer_format (prefix, layer->mtp > 0 ? layer->mtp - 1 : layer->number, out, PIECE_NAME_MAX);
    n = strlen (out);
    snprintf (out + n, PIECE_NAME_MAX - n, "%s", name);
}

/* The coordinate of initial values that tells layers apart.  All copies of a word embedding have
 * the same values.
 */
static uint64_t init_number (const struct layer *layer, const struct layer_param *row,
                             const struct model_config *c)
{
    if (row->embedding || (layer->number < 0 && layer->mtp == 0))
        return 0;
    return (uint64_t)(layer->mtp > 0 ? c->num_layers + layer->mtp - 1 : layer->number);
}

static void describe (struct param *p, const struct layer *layer, const struct nn *nn,
                      bool sequence_parallel, int i, int order)
{
    const struct layer_param *row = &layer->spec->param[i];
    const struct model_config *c = &nn->config;
    bool expert = row->experts > 0;

    *p = (struct param){
        .dtype = nn->dtype,
        .storage = row->matrix ? nn->weight_storage : nn->dtype,
        .tp_sharded = row->split != SPLIT_NONE,
        .sequence_parallel = !expert && row->split == SPLIT_NONE
                             && (sequence_parallel || row->partial),
        .product = row->matrix || row->product,
        .decay = row->ndims == 2,
        .vocabulary = row->embedding || row->output,
        .order = order + i - 1,
        .init_repeat = row->repeat,
        .init_value = row->init == INIT_ONE ? 1.0f : 0.0f,
        .init_key = rng_key (c->seed, RNG_INIT, (uint64_t)row->kind, init_number (layer, row, c)),
    };
    if (row->whole_name)
        snprintf (p->name, sizeof (p->name), "%s", row->name);
    else
        layer_name (layer, row->name, p->name);
    p->qk_norm = strstr (p->name, ".q_layernorm.") || strstr (p->name, ".k_layernorm.");
    if (expert)
        set_expert_shape (p, row, nn);
    else
        set_shape (p, row, nn);
    if (row->init == INIT_NORMAL)
        p->init_std = c->init_std;
    else if (row->init == INIT_EMBEDDING)
        p->init_std = c->embedding_init_std > 0 ? c->embedding_init_std : c->init_std;
    else if (row->init == INIT_SCALED)
        p->init_std = c->init_std / sqrt (2.0 * c->num_layers);
}

void layer_describe (struct layer *layer, const struct nn *nn, bool sequence_parallel,
                     struct param *p, int order)
{
    for (int i = 1; i <= layer->spec->num_params; i++) {
        describe (&p[i - 1], layer, nn, sequence_parallel, i, order);
        layer->param[i] = &p[i - 1];
    }
    layer->num_own = (size_t)layer->spec->num_params;
    if (layer->number >= 0)
        layer->exchange = nn_exchange (nn, context_comm_at (&nn->context,
                                                            nn_pattern_number (nn, layer->number)));
}

uint64_t layer_again (const struct layer *layer)
{
    const struct layer_spec *spec = layer->spec;
    uint64_t again = 0;

    if (layer->unit.place + 1 < layer->unit.size)
        return UINT64_MAX;
    for (int i = 0; i < spec->num_phases; i++)
        again |= spec->again[i];
    return again;
}

unsigned layer_tensor_passes (const struct layer *layer, int i)
{
    const struct layer_spec *spec = layer->spec;
    uint64_t again = layer_again (layer);
    unsigned passes = 0;

    for (int p = 0; p < spec->num_phases; p++) {
        const struct phase *phase = &spec->phase[p];

        for (int k = 0, n = layer_num_operands (phase->op); k < n; k++) {
            const struct layer_operand *o = &phase->op->operand[k];

            if (o->param || phase->operand[k] != i)
                continue;
            passes |= (o->fwd ? LAYER_FORWARD : 0u)
                      | (layer_access (phase, k, true) ? LAYER_BACKWARD : 0u);
            if (o->fwd && (again & UINT64_C (1) << p))
                passes |= LAYER_BACKWARD;
        }
    }
    return passes;
}

static enum mg_dtype type_of (const struct nn *nn, enum layer_type type)
{
    static const enum mg_dtype types[] = {
        [LAYER_FLOAT32] = MG_FLOAT32, [LAYER_FLOAT64] = MG_FLOAT64, [LAYER_INT32] = MG_INT32,
        [LAYER_INT64] = MG_INT64,
    };

    return type == LAYER_OF_MODEL ? nn->dtype : types[type];
}

int64_t layer_live (const struct layer_tensor *row, const struct nn_shape *shape)
{
    return row->rows.times > 0 ? nn_count (shape, row->rows) : row->shape[0];
}

struct tensor layer_tensor_of (const struct nn *nn, const struct layer_spec *spec, int i)
{
    const struct layer_tensor *row = &spec->tensor[i];
    struct tensor t = {
        .dtype = type_of (nn, row->type),
        .ndims = row->ndims,
        .live = row->shape[0],
    };

    memcpy (t.shape, row->shape, sizeof (t.shape));
    return t;
}

/* --- operands --- */

/* The index of the operand for which a phase asks. */
static int ask (const struct pass *pass, const struct phase *phase, int operand)
{
    if (pass->asked)
        pass->asked[operand / 64] |= UINT64_C (1) << operand % 64;
    return phase->operand[operand];
}

struct tensor *pass_tensor (const struct pass *pass, const struct phase *phase, int operand)
{
    int t = ask (pass, phase, operand);

    return t == LAYER_NONE ? NULL : &pass->tensor[t];
}

struct param *pass_param (const struct pass *pass, const struct phase *phase, int operand)
{
    return pass->layer->param[ask (pass, phase, operand)];
}

void *pass_data (const struct pass *pass, const struct phase *phase, int operand)
{
    const struct tensor *t = pass_tensor (pass, phase, operand);

    return t ? tensor_at (t, 0) : NULL;
}

/* --- checking: what a phase has made --- */

enum { WHERE_MAX = 64 };

static struct check_place place_of (const struct pass *pass, bool forward, int phase,
                                    char where[WHERE_MAX])
{
    const struct layer *layer = pass->layer;
    int n = layer->spec->num_phases;
    char text[LAYER_TEXT_MAX];

    layer_text (layer, text);
    if (layer->mtp == 0 && layer->number < 0)
        snprintf (where, WHERE_MAX, "%.63s", text);
    else
        snprintf (where, WHERE_MAX, "%.31s: %.30s", text, layer->spec->phase[phase].name);
    return (struct check_place){
        .pass = forward ? CHECK_FORWARD : CHECK_BACKWARD,
        .step = forward ? layer->step : CHECK_STEPS - 1 - layer->step,
        .phase = forward ? phase : n - 1 - phase,
        .where = where,
    };
}

/* The gradient that a backward pass puts in place of a float32 tensor: its rows begin where those
 * of the tensor did.
 */
static int check_in_place (const struct pass *pass, const struct check_place *place,
                           const struct tensor *t, const char *name, struct mg_error *err)
{
    enum mg_dtype dtype = pass->nn->dtype;
    int64_t cols = t->shape[t->ndims - 1];

    if (dtype == MG_FLOAT32)
        return check_tensor (pass->check, place, "gradient of", name, tensor_count (t),
                             tensor_at (t, 0), dtype, err);
    for (int64_t i = 0; i < tensor_count (t); i += cols) {
        if (check_tensor (pass->check, place, "gradient of", name, cols, tensor_at (t, i),
                          dtype, err) < 0)
            return -1;
    }
    return 0;
}

static int check_operand (const struct pass *pass, const struct check_place *place, int i,
                          struct mg_error *err)
{
    const struct layer_tensor *row = &pass->layer->spec->tensor[i];
    const struct tensor *t = &pass->tensor[i];
    bool forward = place->pass == CHECK_FORWARD;
    bool gradient = row->gradient || row->life == LIFE_GRADIENT;

    if (row->type > LAYER_FLOAT32) // indices and counts; logits in float64, which make others
        return 0;
    if (!forward && !gradient)
        return check_in_place (pass, place, t, row->name, err);
    return check_tensor (pass->check, place, forward ? "activation" : "gradient", row->name,
                         tensor_count (t), tensor_at (t, 0), t->dtype, err);
}

/* All tensors that the phase has written, and gradients of parameters that it has added to. */
static int check_phase_of (const struct pass *pass, bool forward, int phase,
                           struct mg_error *err)
{
    const struct phase *ph = &pass->layer->spec->phase[phase];
    char where[WHERE_MAX];
    struct check_place place = place_of (pass, forward, phase, where);
    int n = layer_num_operands (ph->op);

    if (nn_await (pass->nn, NN_ALL_SIDES, err) < 0)
        return -1;
    for (int i = 0; i < n; i++) {
        const struct layer_operand *o = &ph->op->operand[i];
        unsigned access = layer_access (ph, i, !forward);
        const struct param *p;

        if (!(access & (OPERAND_WRITE | OPERAND_ADD)))
            continue;
        if (!o->param) {
            if (check_operand (pass, &place, ph->operand[i], err) < 0)
                return -1;
            continue;
        }
        p = pass_param (pass, ph, i);
        if (check_param (pass->check, &place, "gradient of", p, 0, p->numel, p->grad,
                         p->grad_dtype, err) < 0)
            return -1;
    }
    return 0;
}

/* Some phases write a part of a shared tensor, and others the rest later: what earlier layers left
 * there must not be taken for a result.
 */
static int clear_shared (const struct pass *pass, struct mg_error *err)
{
    const struct layer_spec *spec = pass->layer->spec;

    for (int i = 1; pass->check && i <= spec->num_tensors; i++) {
        const struct tensor *t = &pass->tensor[i];
        const struct kern_fill zero = { .n = tensor_count (t), .out = tensor_at (t, 0),
                                        .dtype = t->dtype };

        if (spec->tensor[i].life == LIFE_SHARED
            && kern_fill (pass->nn->kern, &zero, pass->nn->compute, err) < 0)
            return -1;
    }
    return 0;
}

/* --- passes --- */

enum { ASKED_WORDS = (LAYER_MAX_OPERANDS + 63) / 64 };

static int fail (const struct pass *pass, int phase, const char *way, struct mg_error *err)
{
    const struct layer *layer = pass->layer;
    char text[LAYER_TEXT_MAX];

    layer_text (layer, text);
    if (layer->mtp == 0 && layer->number < 0)
        return mg_error_prefix (err, "%s: %s", text, way);
    return mg_error_prefix (err, "%s: %s: %s", text, layer->spec->phase[phase].name, way);
}

/* Tell a capture where it is. */
static void place (const struct pass *pass, const struct phase *phase)
{
    char text[LAYER_TEXT_MAX];

    if (!graph_capturing ())
        return;
    layer_text (pass->layer, text);
    graph_place (text, phase->name);
}

/* Check that the table of the operation has every operand for which a half asks. */
static int check_asked (const struct phase *phase, bool backward,
                        const uint64_t asked[ASKED_WORDS], struct mg_error *err)
{
    for (int w = 0; w < ASKED_WORDS; w++) {
        for (uint64_t left = asked[w]; left != 0; left &= left - 1) {
            int i = 64 * w + __builtin_ctzll (left);
            const char *name = phase->op->operand[i].name;

            if (name && (phase->operand[i] == LAYER_NONE
                         || layer_access (phase, i, backward) != 0))
                continue;
            return mg_error_set (err, EINVAL, "%s uses operand %d, %s, which its table does not "
                                 "say", phase->op->name, i, name ? name : "a further one");
        }
    }
    return 0;
}

/* Run one half of a phase, after the work that it awaits. */
static int run_half (const struct pass *outer, const struct phase *phase, bool backward,
                     struct mg_error *err)
{
    const struct layer_op *op = phase->op;
    uint64_t asked[ASKED_WORDS] = { 0 };
    struct pass own = *outer, *pass = &own;
    int (*half) (const struct pass *, const struct phase *, struct mg_error *)
        = !backward ? op->fwd : layer_runs_backward (phase) ? op->bwd : NULL;
    unsigned before, left;

    place (pass, phase);
    if (nn_await (pass->nn, backward ? op->awaits_bwd : op->awaits_fwd, err) < 0)
        return -1;
    before = nn_open_sides (pass->nn);
    own.asked = asked;
    if (half && (half (pass, phase, err) < 0 || check_asked (phase, backward, asked, err) < 0))
        return -1;
    left = nn_open_sides (pass->nn) & ~before & ~(backward ? op->starts_bwd : op->starts_fwd);
    if (left)
        return mg_error_set (err, EINVAL, "%s leaves work on the %s stream", op->name,
                             nn_side_text (left));
    return 0;
}

int layer_fwd_phases (const struct pass *pass, int begin, int end, struct mg_error *err)
{
    const struct layer_spec *spec = pass->layer->spec;

    for (int i = begin; i < end; i++) {
        if (run_half (pass, &spec->phase[i], false, err) < 0
            || (pass->check && check_phase_of (pass, true, i, err) < 0))
            return fail (pass, i, "forward", err);
    }
    return 0;
}

int layer_fwd (const struct pass *pass, struct mg_error *err)
{
    const struct layer_spec *spec = pass->layer->spec;

    if (!pass->graph)
        return layer_fwd_phases (pass, 0, spec->num_phases, err);
    if (layer_fwd_phases (pass, 0, spec->graph_begin, err) < 0
        || layer_graph_replay (pass->graph, pass, err) < 0)
        return -1;
    return layer_fwd_phases (pass, spec->graph_end, spec->num_phases, err);
}

/* Phases that run again before the backward half of phase 'next'.  They make what they made in the
 * forward pass, so nobody looks at it.
 */
static int run_again (const struct pass *pass, int next, struct mg_error *err)
{
    const struct layer_spec *spec = pass->layer->spec;
    struct pass again = *pass;

    again.again = true;
    for (int i = 0; i < spec->num_phases; i++) {
        const struct phase *phase = &spec->phase[i];

        if (!(spec->again[next] & UINT64_C (1) << i))
            continue;
        if (run_half (&again, phase, false, err) < 0)
            return fail (pass, i, "forward again", err);
    }
    return 0;
}

int layer_bwd_phases (const struct pass *pass, int begin, int end, struct mg_error *err)
{
    const struct layer_spec *spec = pass->layer->spec;

    for (int i = end; i-- > begin;) {
        const struct phase *phase = &spec->phase[i];

        if (layer_runs_backward (phase) && !pass->again_done && run_again (pass, i, err) < 0)
            return -1;
        if (run_half (pass, phase, true, err) < 0
            || (pass->check && layer_runs_backward (phase)
                && check_phase_of (pass, false, i, err) < 0))
            return fail (pass, i, "backward", err);
    }
    return 0;
}

int layer_bwd (const struct pass *pass, struct mg_error *err)
{
    const struct layer_spec *spec = pass->layer->spec;

    if (clear_shared (pass, err) < 0)
        return -1;
    if (!pass->graph)
        return layer_bwd_phases (pass, 0, spec->num_phases, err);
    if (layer_bwd_phases (pass, spec->graph_end, spec->num_phases, err) < 0
        || layer_graph_replay (pass->graph, pass, err) < 0)
        return -1;
    return layer_bwd_phases (pass, 0, spec->graph_begin, err);
}
