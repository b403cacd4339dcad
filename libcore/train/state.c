/* state.c - weights and checkpoints of a run
 *
 * Lists of pieces (tensor/piece.h) are made once, at the start: weights, gradients, the
 * contents of a checkpoint, the contents of its copy, and the pieces that a load fills.
 * Names and order are the same under every layout.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/safetensors.h"
#include "libcore/device/bounce.h"
#include "libcore/ops/router.h"
#include "libcore/args/model_notes.h"
#include "libcore/train/state_private.h"

void state_name_values (struct checkpoint_value *values, int n)
{
    static const struct checkpoint_value named[NUM_VALUES] = {
        [VALUE_ITERATION] = { .name = "iteration" },
        [VALUE_SAMPLES] = { .name = "consumed_samples" },
        [VALUE_VALID_SAMPLES] = { .name = "consumed_valid_samples" },
        [VALUE_SKIPPED_SAMPLES] = { .name = "skipped_samples" },
        [VALUE_STEPS] = { .name = "optimizer_steps" },
        [VALUE_LOSS_SCALE] = { .name = "loss_scale", .type = CHECKPOINT_REAL },
        [VALUE_GROWTH] = { .name = "loss_scale_good_iterations" },
        [VALUE_HYSTERESIS] = { .name = "loss_scale_overflows_left" },
        [VALUE_HEADS] = { .name = "num_attention_heads" },
        [VALUE_LR] = { .name = "lr", .type = CHECKPOINT_REAL },
        [VALUE_MIN_LR] = { .name = "min_lr", .type = CHECKPOINT_REAL },
        [VALUE_WARMUP] = { .name = "lr_warmup_samples", .type = CHECKPOINT_REAL },
        [VALUE_DECAY] = { .name = "lr_decay_samples" },
        [VALUE_STYLE] = { .name = "lr_decay_style", .type = CHECKPOINT_TEXT },
        [VALUE_WD_START] = { .name = "start_weight_decay", .type = CHECKPOINT_REAL },
        [VALUE_WD_END] = { .name = "end_weight_decay", .type = CHECKPOINT_REAL },
        [VALUE_WD_INCR] = { .name = "weight_decay_incr_samples" },
        [VALUE_WD_STYLE] = { .name = "weight_decay_incr_style", .type = CHECKPOINT_TEXT },
        [VALUE_DECOUPLED_LR] = { .name = "decoupled_lr", .type = CHECKPOINT_REAL },
        [VALUE_DECOUPLED_MIN_LR] = { .name = "decoupled_min_lr", .type = CHECKPOINT_REAL },
        [VALUE_WORLD] = { .name = "world_size" },
        [VALUE_TP] = { .name = "tensor_model_parallel_size" },
        [VALUE_PP] = { .name = "pipeline_model_parallel_size" },
        [VALUE_VPP] = { .name = "virtual_pipeline_model_parallel_size" },
        [VALUE_DP] = { .name = "data_parallel_size" },
        [VALUE_CP] = { .name = "context_parallel_size" },
        [VALUE_EP] = { .name = "expert_model_parallel_size" },
        [VALUE_ETP] = { .name = "expert_tensor_parallel_size" },
    };

    for (int i = 0; i < n; i++) {
        values[i] = named[i];
        values[i].optional = i >= VALUE_HEADS;
    }
    values[n].name = NULL;
}

/* The arguments that describe the model, after the first 'n' values. */
static void add_notes (const struct notes *notes, struct checkpoint_value *values, int n)
{
    for (size_t i = 0; i < notes->num; i++)
        values[n++] = (struct checkpoint_value){ .name = notes->note[i].name,
                                                 .type = CHECKPOINT_TEXT,
                                                 .long_text = notes->note[i].value };
    values[n].name = NULL;
}

/* The layout under which a checkpoint was written. */
static void describe_layout (const struct state *s, struct checkpoint_value *values)
{
    const struct geometry *g = grid_geometry (job_grid (s->job));

    values[VALUE_HEADS].integer = s->heads;
    values[VALUE_WORLD].integer = job_world (s->job);
    values[VALUE_TP].integer = g->tp;
    values[VALUE_PP].integer = g->pp;
    values[VALUE_VPP].integer = g->vpp ? g->vpp : 1;
    values[VALUE_DP].integer = job_world (s->job) / (g->tp * g->pp * g->cp);
    values[VALUE_CP].integer = g->cp;
    values[VALUE_EP].integer = g->ep;
    values[VALUE_ETP].integer = geometry_etp (g);
}

/* The schedule of the run. */
static void describe_schedule (const struct lr_config *lr, struct checkpoint_value *values)
{
    values[VALUE_LR].real = lr->max;
    values[VALUE_MIN_LR].real = lr->min;
    values[VALUE_WARMUP].real = lr->warmup;
    values[VALUE_DECAY].integer = lr->decay;
    snprintf (values[VALUE_STYLE].text, sizeof (values->text), "%s", lr_style_name (lr->style));
    values[VALUE_WD_START].real = lr->wd_start;
    values[VALUE_WD_END].real = lr->wd_end;
    values[VALUE_WD_INCR].integer = lr->wd_incr;
    values[VALUE_DECOUPLED_LR].real = lr->decoupled ? lr->decoupled_max : -1;
    values[VALUE_DECOUPLED_MIN_LR].real = lr->decoupled ? lr->decoupled_min : -1;
    snprintf (values[VALUE_WD_STYLE].text, sizeof (values->text), "%s",
              wd_style_name (lr->wd_style));
}

/* The progress of the run. */
static void describe_progress (const struct state *s, const struct train_progress *p,
                               struct checkpoint_value *values)
{
    const struct grad_scaler *scaler = &p->scaler;

    values[VALUE_ITERATION].integer = p->iteration;
    values[VALUE_SAMPLES].integer = p->consumed_samples;
    values[VALUE_VALID_SAMPLES].integer = p->consumed_valid_samples;
    values[VALUE_SKIPPED_SAMPLES].integer = p->skipped_samples;
    values[VALUE_STEPS].integer = optimizer_steps (s->optimizer);
    values[VALUE_LOSS_SCALE].real = scaler->config.constant ? 0 : (double)scaler->scale;
    values[VALUE_GROWTH].integer = scaler->growth_tracker;
    values[VALUE_HYSTERESIS].integer = scaler->hysteresis_tracker;
}

/* True if the optimizer has room for a copy. */
static bool has_snapshot (const struct state *s)
{
    return s->optimizer && optimizer_has_snapshot (s->optimizer);
}

/* Room for 'wholes' pieces of whole parameters, 'parts' pieces of ranges, and 'routers' pieces of
 * routers' state.
 */
static int allocate (struct state *s, size_t wholes, size_t parts, size_t routers)
{
    const size_t copied = (has_snapshot (s) ? 3 * parts : 0) + routers;
    const struct {
        struct list *list;
        size_t max;
    } lists[] = {
        { &s->weight, wholes + parts + routers }, { &s->gradient, wholes + parts },
        { &s->saved, 3 * parts + routers }, { &s->copied, copied },
        { &s->loaded, wholes + 3 * parts + routers },
    };

    if (!(s->kept = calloc (2 * wholes + 8 * parts + copied + 4 * routers + 1,
                            sizeof (*s->kept))))
        return -1;

    for (size_t i = 0; i < sizeof (lists) / sizeof (lists[0]); i++) {
        if (!(lists[i].list->piece = calloc (lists[i].max + 1, sizeof (struct piece))))
            return -1;
    }
    return 0;
}

/* This rank's place among those that cut the parameter. */
static int tp_rank_of (const struct state *s, const struct param *p)
{
    return job_group_rank (s->job, p->expert ? GROUP_ETP : GROUP_TP);
}

/* Name a tensor first.  Tensors are written in the order in which they are first named. */
static void add_name (struct list *list, const struct param *p)
{
    for (size_t i = 0; i < param_num_tensors (p); i++)
        param_name_piece (p, i, &list->piece[list->n++]);
}

static int read_plain (const struct piece *p, int64_t from, int64_t n, void *out,
                       struct mg_error *err)
{
    const struct kept *k = p->source;
    const size_t size = mg_dtype_size (p->dtype);

    return bounce_read (buffers_bounce (k->state->buffers), k->state->stream, out,
                        k->plain + (size_t)from * size, (size_t)n * size, err);
}

/* Read a piece of a copy in host memory.  May run on any thread. */
static int read_host (const struct piece *p, int64_t from, int64_t n, void *out,
                      struct mg_error *err)
{
    const struct kept *k = p->source;
    const size_t size = mg_dtype_size (p->dtype);

    (void)err;
    memcpy (out, k->plain + (size_t)from * size, (size_t)n * size);
    return 0;
}

static int write_plain (const struct piece *p, int64_t from, int64_t n, const void *in,
                        struct mg_error *err)
{
    const struct kept *k = p->source;
    const size_t size = mg_dtype_size (p->dtype);

    return bounce_write (buffers_bounce (k->state->buffers), k->state->stream,
                         k->plain + (size_t)from * size, in, (size_t)n * size, err);
}

/* The pieces of a whole float32 parameter. */
static void add_whole (struct state *s, struct list *list, const struct param *p,
                       const char *prefix, bool writer, int tp_rank)
{
    for (int64_t from = 0, end; from < p->numel; from = end) {
        struct piece *piece = &list->piece[list->n++];
        struct kept *k = &s->kept[s->num_kept++];

        end = param_piece (p, prefix, from, p->numel, writer, tp_rank, piece);
        *k = (struct kept){ .state = s, .plain = (char *)((float *)p->data + from) };
        piece->read = read_plain;
        piece->write = write_plain;
        piece->source = k;
    }
}

/* Whole tensors: float32 parameters, which every rank has. */
static void add_param (struct state *s, const struct param *p)
{
    bool writer = job_group_rank (s->job, p->expert ? GROUP_EDP : GROUP_DP_CP) == 0;
    int tp_rank = tp_rank_of (s, p);

    add_name (&s->gradient, p);
    if (p->storage != MG_FLOAT32) {
        add_name (&s->weight, p);
        return;
    }
    add_whole (s, &s->weight, p, "", writer, tp_rank);
    add_whole (s, &s->loaded, p, "model.", writer, tp_rank);
}

static int read_kept (const struct piece *p, int64_t from, int64_t n, void *out,
                      struct mg_error *err)
{
    const struct kept *k = p->source;
    const struct state *s = k->state;

    from += k->first;
    if (k->copied)
        return optimizer_snapshot_read (s->optimizer, k->range, k->value, from, n, out, err);
    if (k->value == OPTIMIZER_MAIN_PARAM)
        return main_params_read (s->main, k->range, from, n, out, err);
    return optimizer_read (s->optimizer, k->range, k->value, from, n, out, err);
}

/* The device address of a value of a range if it is float32, else NULL.  Copies are read by
 * another thread, in one way.
 */
static float *find_plain (const struct state *s, bool copied, size_t range,
                          enum optimizer_value value)
{
    if (copied)
        return NULL;
    return value == OPTIMIZER_MAIN_PARAM ? main_params_plain (s->main, range)
                                         : optimizer_plain (s->optimizer, range, value);
}

/* Add the pieces of a value of a range. */
static void add_pieces (struct state *s, struct list *list, const struct param *p,
                        size_t range, const char *prefix, enum optimizer_value value)
{
    const struct buffers_range *r = buffers_range_at (s->buffers, range);
    const bool copied = list == &s->copied;
    float *plain = find_plain (s, copied, range, value);
    bool writer = buffers_counts (s->buffers, p->expert);
    int tp_rank = tp_rank_of (s, p);

    for (int64_t from = r->from, end; from < r->to; from = end) {
        struct piece *piece = &list->piece[list->n++];
        struct kept *k = &s->kept[s->num_kept++];
        int64_t first = from - r->from;

        end = param_piece (p, prefix, from, r->to, writer, tp_rank, piece);
        *k = (struct kept){ s, plain ? (char *)(plain + first) : NULL, range, value, first,
                            copied };
        piece->read = plain ? read_plain : read_kept;
        piece->write = plain ? write_plain : NULL;
        piece->source = k;
    }
}

/* The contents of a checkpoint. */
static void add_saved (struct state *s, struct list *list, const struct param *p, size_t range)
{
    add_pieces (s, list, p, range, "model.", OPTIMIZER_MAIN_PARAM);
    add_pieces (s, list, p, range, "optimizer.exp_avg.", OPTIMIZER_EXP_AVG);
    add_pieces (s, list, p, range, "optimizer.exp_avg_sq.", OPTIMIZER_EXP_AVG_SQ);
}

/* Main parameters that are no parameters of the model. */
static void add_main (struct state *s, const struct param *p, size_t range)
{
    if (p->storage == MG_FLOAT32)
        return;
    add_pieces (s, &s->weight, p, range, "", OPTIMIZER_MAIN_PARAM);
    add_pieces (s, &s->loaded, p, range, "model.", OPTIMIZER_MAIN_PARAM);
}

/* The values of an optimizer besides parameters. */
static void add_state (struct state *s, const struct param *p, size_t range)
{
    add_pieces (s, &s->gradient, p, range, "", OPTIMIZER_MAIN_GRAD);
    add_saved (s, &s->saved, p, range);
    if (has_snapshot (s))
        add_saved (s, &s->copied, p, range);
    add_pieces (s, &s->loaded, p, range, "optimizer.exp_avg.", OPTIMIZER_EXP_AVG);
    add_pieces (s, &s->loaded, p, range, "optimizer.exp_avg_sq.", OPTIMIZER_EXP_AVG_SQ);
}

/* Call 'add' for every range of this rank. */
static void for_ranges (struct state *s, const struct param *params,
                        void (*add) (struct state *s, const struct param *p, size_t range))
{
    for (size_t i = 0; i < buffers_num_ranges (s->buffers); i++)
        add (s, &params[buffers_range_at (s->buffers, i)->param], i);
}

/* Pieces of whole parameters, and of ranges. */
static void count_pieces (const struct buffers *buffers, const struct param *params, size_t n,
                          size_t *wholes, size_t *parts)
{
    *wholes = *parts = 0;
    for (size_t i = 0; i < n; i++)
        *wholes += param_num_pieces (&params[i], 0, params[i].numel);
    for (size_t i = 0; i < buffers_num_ranges (buffers); i++) {
        const struct buffers_range *r = buffers_range_at (buffers, i);

        *parts += param_num_pieces (&params[r->param], r->from, r->to);
    }
}

/* A vector of a router's state, which every rank of its stage has.  'copy': where it is in host
 * memory, NULL: the tensor itself is meant.
 */
static void add_vector (struct state *s, struct list *list, const char *prefix, const char *name,
                        const struct tensor *t, float *copy)
{
    struct piece *piece = &list->piece[list->n++];
    struct kept *k = &s->kept[s->num_kept++];

    *piece = (struct piece){ .dtype = MG_FLOAT32, .ndims = 1, .global = { t->shape[0] },
                             .extent = { t->shape[0] }, .optional = true,
                             .owner = job_group_rank (s->job, GROUP_TP_DP_CP) == 0,
                             .read = copy ? read_host : read_plain,
                             .write = copy ? NULL : write_plain, .source = k };
    snprintf (piece->name, sizeof (piece->name), "%s%s", prefix, name);
    *k = (struct kept){ .state = s, .plain = copy ? (char *)copy : tensor_at (t, 0) };
}

static void add_routers (struct state *s, struct model *model)
{
    const struct model_moe *moe = &s->config->moe;
    int n;
    const struct router_state *r = model_routers (model, &n);

    for (int i = 0; i < n; i++) {
        for (int beta = 0; beta < 2; beta++) {
            const char *name = beta ? r[i].beta_name : r[i].bias_name;
            const struct tensor *t = beta ? &r[i].beta : &r[i].bias;

            if (beta ? moe->choice != MOE_QUANTILE : !moe->expert_bias)
                continue;
            add_vector (s, &s->weight, "", name, t, NULL);
            add_vector (s, &s->saved, "model.", name, t, NULL);
            add_vector (s, &s->loaded, "model.", name, t, NULL);
            add_vector (s, &s->copied, "model.", name, t,
                        beta ? r[i].host.beta_copy : r[i].host.bias_copy);
        }
    }
}

struct state *state_create (struct model *model, struct buffers *buffers,
                            struct main_params *main, struct optimizer *optimizer,
                            const struct job *job, struct mg_error *err)
{
    struct param *params;
    struct state *s;
    size_t num_params, wholes, parts;
    int routers;

    model_routers (model, &routers);
    params = model_params (model, &num_params);
    count_pieces (buffers, params, num_params, &wholes, &parts);
    if ((s = calloc (1, sizeof (*s)))) {
        s->job = job;
        s->buffers = buffers;
        s->main = main;
        s->stream = model_stream (model);
        s->config = model_config_of (model);
        s->model = model;
        s->optimizer = optimizer;
    }
    if (!s || allocate (s, wholes, parts, 2 * (size_t)routers) < 0
        || !(s->values = calloc (NUM_VALUES + MAX_NOTES + 1, sizeof (*s->values)))
        || model_notes_make (model_config_of (model), &s->notes, NULL) < 0) {
        mg_error_set (err, ENOMEM, "checkpoint state: out of memory");
        state_destroy (s);
        return NULL;
    }
    s->heads = model_config_of (model)->num_heads;
    for (size_t i = 0; i < num_params; i++)
        add_param (s, &params[i]);
    for_ranges (s, params, add_main);
    add_routers (s, model);
    s->loaded_params = s->loaded.n;
    if (optimizer)
        for_ranges (s, params, add_state);
    return s;
}

void state_destroy (struct state *s)
{
    int saved_errno = errno;

    if (s) {
        free (s->weight.piece);
        free (s->gradient.piece);
        free (s->saved.piece);
        free (s->copied.piece);
        free (s->loaded.piece);
        free (s->kept);
        free (s->names);
        notes_clear (&s->notes);
        free (s->values);
        free (s);
    }
    errno = saved_errno;
}

int state_keep_notes (struct state *s, const struct notes *notes, struct mg_error *err)
{
    for (size_t i = 0; i < notes->num; i++) {
        const struct note *n = &notes->note[i];

        if (strncmp (n->name, "hf-", 3) == 0
            && notes_set (&s->notes, n->name, n->value, err) < 0)
            return -1;
    }
    return 0;
}

int state_take_snapshot (struct state *s, struct mg_error *err)
{
    if (model_copy_routers (s->model, err) < 0)
        return -1;
    return optimizer_take_snapshot (s->optimizer, err); // which waits for both
}

int state_save_weights (struct state *s, const char *path, struct mg_error *err)
{
    if (buffers_params_wait (s->buffers, err) < 0)
        return -1;
    return safetensors_save_notes (path, &s->notes, s->weight.piece, s->weight.n,
                                   job_control (s->job), err);
}

int state_save_gradients (struct state *s, const char *path, struct mg_error *err)
{
    return safetensors_save (path, s->gradient.piece, s->gradient.n,
                             job_control (s->job), err);
}

struct checkpoint_save *state_save_begin (struct state *s, const char *dir,
                                          const struct train_progress *progress, bool snapshot,
                                          struct mg_error *err)
{
    const struct list *pieces = snapshot ? &s->copied : &s->saved;
    struct checkpoint_value *values = s->values;

    state_name_values (values, NUM_VALUES);
    describe_progress (s, progress, values);
    describe_schedule (&progress->lr, values);
    describe_layout (s, values);
    add_notes (&s->notes, values, NUM_VALUES);
    return checkpoint_save_begin (dir, progress->iteration, values, pieces->piece, pieces->n,
                                  job_control (s->job), err);
}

/* Whole moments of zeros and the whole parameter, for piece 'p' of weights. */
static int add_fresh (struct list *list, const struct piece *p, struct mg_error *err)
{
    static const char *const prefixes[] = { "model.", "optimizer.exp_avg.",
                                            "optimizer.exp_avg_sq." };
    size_t count = (size_t)(p->global[0] * (p->ndims == 2 ? p->global[1] : 1));

    for (int i = 0; i < 3; i++) {
        struct piece *piece = &list->piece[list->n];
        int n;

        if (i > 0 && router_has_name (p->name)) // no optimizer changes it
            break;
        *piece = *p;
        n = snprintf (piece->name, sizeof (piece->name), "%s%s", prefixes[i], p->name);
        if (n < 0 || (size_t)n >= sizeof (piece->name))
            return mg_error_set (err, EINVAL, "tensor %s: its name is too long", p->name);
        if (i > 0 && !(piece->data = calloc (count + 1, sizeof (float))))
            return mg_error_set (err, ENOMEM, "out of memory for the moments of %s", p->name);
        list->n++;
    }
    return 0;
}

int state_save_fresh (const char *dir, const struct piece *weights, size_t n, int heads,
                      const struct notes *notes, struct mg_comm *comm, struct mg_error *err)
{
    struct checkpoint_value *values;
    struct list list = { .n = 0 };
    int rc = 0;

    if (notes->num > MAX_NOTES)
        return mg_error_set (err, EINVAL, "%zu arguments of a model, at most %d are kept",
                             notes->num, MAX_NOTES);
    values = calloc (VALUE_HEADS + MAX_NOTES + 2, sizeof (*values));
    list.piece = calloc (3 * n + 1, sizeof (*list.piece));
    if (!values || !list.piece) {
        free (values);
        free (list.piece);
        return mg_error_set (err, ENOMEM, "out of memory for %zu tensors", n);
    }
    state_name_values (values, VALUE_HEADS + (heads > 0));
    values[VALUE_HEADS].integer = heads;
    add_notes (notes, values, VALUE_HEADS + (heads > 0));
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (weights[i].dtype != MG_FLOAT32)
            rc = mg_error_set (err, EINVAL, "tensor %s has data type %s, want float32",
                               weights[i].name, mg_dtype_name (weights[i].dtype));
        else
            rc = add_fresh (&list, &weights[i], err);
    }
    if (rc == 0)
        rc = checkpoint_save (dir, 0, values, list.piece, list.n, comm, err);
    for (size_t i = 0; i < list.n; i++) {
        if (strncmp (list.piece[i].name, "optimizer.", strlen ("optimizer.")) == 0)
            free (list.piece[i].data);
    }
    free (list.piece);
    free (values);
    return rc;
}
