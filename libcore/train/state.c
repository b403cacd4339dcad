/* state.c - weights and checkpoints of a run */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/checkpoint.h"
#include "libcore/checkpoint/exchange.h"
#include "libcore/checkpoint/safetensors.h"
#include "libcore/train/state.h"

/* A list that grows up to its capacity. */
struct list {
    struct piece *piece;
    size_t n;
};

/* Where the elements of a piece are that the optimizer keeps in its own way. */
struct kept {
    struct optimizer *optimizer;
    size_t range;
    enum optimizer_value value;
    int64_t first; /* of the range */
    bool copied;   /* as the optimizer's copy has it */
};

struct state {
    const struct job *job;
    struct optimizer *optimizer;
    int heads; /* of attention, in the whole model */
    struct list weight;   /* named as the parameters, whole, or main parameters' ranges */
    struct list gradient; /* the same names, what this rank has the sums of */
    struct list saved;    /* parameters and both moments that this rank updates */
    struct list copied;   /* the same in the optimizer's copy, where it has one */
    struct list loaded;   /* parameters as in 'weight', and the same moments */
    struct kept *kept;
    size_t num_kept;
};

/* Values of the manifest, by place. */
enum {
    VALUE_ITERATION, VALUE_SAMPLES, VALUE_VALID_SAMPLES, VALUE_SKIPPED_SAMPLES, VALUE_STEPS,
    VALUE_LOSS_SCALE, VALUE_GROWTH, VALUE_HYSTERESIS, NUM_VALUES,
    VALUE_HEADS = NUM_VALUES, /* compared by a load, where it is there */
    /* for people and tools: no load needs them */
    VALUE_WORLD, VALUE_TP, VALUE_PP, VALUE_VPP, VALUE_DP, NUM_SAVED
};

/* Under which layout a checkpoint was written. */
static void describe_layout (const struct state *s, struct checkpoint_value *values)
{
    const struct geometry *g = grid_geometry (job_grid (s->job));
    const struct checkpoint_value layout[] = {
        { .name = "num_attention_heads", .integer = s->heads },
        { .name = "world_size", .integer = job_world (s->job) },
        { .name = "tensor_model_parallel_size", .integer = g->tp },
        { .name = "pipeline_model_parallel_size", .integer = g->pp },
        { .name = "virtual_pipeline_model_parallel_size", .integer = g->vpp ? g->vpp : 1 },
        { .name = "data_parallel_size",
          .integer = job_world (s->job) / (g->tp * g->pp * g->cp) },
    };

    for (int i = VALUE_HEADS; i < NUM_SAVED; i++)
        values[i] = layout[i - VALUE_HEADS];
}

static int allocate (struct state *s, size_t params, size_t ranges)
{
    const size_t parts = PARAM_MAX_PIECES * ranges;
    const size_t copied = optimizer_has_snapshot (s->optimizer) ? 3 * parts : 0;
    const struct {
        struct list *list;
        size_t max;
    } lists[] = {
        { &s->weight, params + parts }, { &s->gradient, params + parts },
        { &s->saved, 3 * parts }, { &s->copied, copied }, { &s->loaded, params + 3 * parts },
    };

    if (!(s->kept = calloc (8 * parts + copied + 1, sizeof (*s->kept))))
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
    return mg_comm_rank (job_comm (s->job, p->expert ? GROUP_ETP : GROUP_TP));
}

/* Name a tensor, as they are written in the order in which they are first named. */
static void add_name (struct list *list, const struct param *p)
{
    struct piece *piece = &list->piece[list->n++];

    param_piece (p, "", NULL, false, 0, piece);
    piece->extent[0] = 0;
}

/* Whole tensors: float32 parameters, which every rank has. */
static void add_param (struct state *s, const struct param *p)
{
    bool writer = mg_comm_rank (job_comm (s->job, p->expert ? GROUP_EDP : GROUP_DP_CP)) == 0;
    int tp_rank = tp_rank_of (s, p);

    add_name (&s->gradient, p);
    if (p->storage != MG_FLOAT32) {
        add_name (&s->weight, p);
        return;
    }
    param_piece (p, "", p->data, writer, tp_rank, &s->weight.piece[s->weight.n++]);
    param_piece (p, "model.", p->data, writer, tp_rank, &s->loaded.piece[s->loaded.n++]);
}

static int read_kept (const struct piece *p, int64_t from, int64_t n, void *out,
                      struct mg_error *err)
{
    const struct kept *k = p->source;

    if (k->copied)
        return optimizer_snapshot_read (k->optimizer, k->range, k->value, k->first + from, n,
                                        out, err);
    return optimizer_read (k->optimizer, k->range, k->value, k->first + from, n, out, err);
}

/* Add the pieces of a value of a range. */
static void add_pieces (struct state *s, struct list *list, const struct param *p,
                        size_t range, const char *prefix, enum optimizer_value value)
{
    const struct optimizer_range *r = optimizer_range_at (s->optimizer, range);
    const bool copied = list == &s->copied;
    float *plain = copied ? optimizer_snapshot_plain (s->optimizer, range, value)
                          : optimizer_plain (s->optimizer, range, value);
    struct piece *piece = list->piece + list->n;
    size_t n = param_range_pieces (p, prefix, r->from, r->to, plain,
                                   optimizer_counts (s->optimizer, p->expert),
                                   tp_rank_of (s, p), piece);
    int64_t first = 0;

    list->n += n;
    for (size_t i = 0; !plain && i < n; i++) {
        struct kept *k = &s->kept[s->num_kept++];

        *k = (struct kept){ s->optimizer, range, value, first, copied };
        piece[i].read = read_kept;
        piece[i].source = k;
        first += piece[i].extent[0] * (piece[i].ndims == 2 ? piece[i].extent[1] : 1);
    }
}

/* What a checkpoint is made of. */
static void add_saved (struct state *s, struct list *list, const struct param *p, size_t range)
{
    add_pieces (s, list, p, range, "model.", OPTIMIZER_MAIN_PARAM);
    add_pieces (s, list, p, range, "optimizer.exp_avg.", OPTIMIZER_EXP_AVG);
    add_pieces (s, list, p, range, "optimizer.exp_avg_sq.", OPTIMIZER_EXP_AVG_SQ);
}

/* What an optimizer that updates has besides parameters. */
static void add_state (struct state *s, const struct param *p, size_t range)
{
    add_pieces (s, &s->gradient, p, range, "", OPTIMIZER_MAIN_GRAD);
    add_saved (s, &s->saved, p, range);
    if (optimizer_has_snapshot (s->optimizer))
        add_saved (s, &s->copied, p, range);
    add_pieces (s, &s->loaded, p, range, "optimizer.exp_avg.", OPTIMIZER_EXP_AVG);
    add_pieces (s, &s->loaded, p, range, "optimizer.exp_avg_sq.", OPTIMIZER_EXP_AVG_SQ);
}

static void add_range (struct state *s, const struct param *p, size_t range)
{
    if (p->storage != MG_FLOAT32) {
        add_pieces (s, &s->weight, p, range, "", OPTIMIZER_MAIN_PARAM);
        add_pieces (s, &s->loaded, p, range, "model.", OPTIMIZER_MAIN_PARAM);
    }
    if (optimizer_has (s->optimizer, OPTIMIZER_EXP_AVG))
        add_state (s, p, range);
}

struct state *state_create (struct model *model, struct optimizer *optimizer,
                            const struct job *job, struct mg_error *err)
{
    struct param *params;
    struct state *s;
    size_t num_params, num_ranges = optimizer_num_ranges (optimizer);

    params = model_params (model, &num_params);
    if ((s = calloc (1, sizeof (*s)))) {
        s->job = job;
        s->optimizer = optimizer;
    }
    if (!s || allocate (s, num_params, num_ranges) < 0) {
        mg_error_set (err, ENOMEM, "checkpoint state: out of memory");
        state_destroy (s);
        return NULL;
    }
    s->heads = model_num_heads (model);
    for (size_t i = 0; i < num_params; i++)
        add_param (s, &params[i]);
    for (size_t i = 0; i < num_ranges; i++)
        add_range (s, &params[optimizer_range_at (optimizer, i)->param], i);
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
        free (s);
    }
    errno = saved_errno;
}

/* --- loading --- */

/* Give pieces that the optimizer keeps in its own way memory to be loaded into, which holds
 * what is there now (padding stays as it is).
 */
static int stage (struct list *list, struct mg_error *err)
{
    float *whole = NULL;

    for (size_t i = 0; i < list->n; i++) {
        const struct kept *k = list->piece[i].source;
        const struct optimizer_range *r;
        int64_t n;

        if (!k)
            continue;
        r = optimizer_range_at (k->optimizer, k->range);
        n = r->to - r->from;
        if (k->first == 0) {
            if (!(whole = malloc ((size_t)n * sizeof (float))))
                return mg_error_set (err, ENOMEM, "out of memory for %s", list->piece[i].name);
            list->piece[i].data = whole;
            if (optimizer_read (k->optimizer, k->range, k->value, 0, n, whole, err) < 0)
                return -1;
        }
        list->piece[i].data = whole + k->first;
    }
    return 0;
}

/* Take that memory back, 'rc' being 0 store what was loaded there.  Returns rc, or -1. */
static int unstage (struct list *list, int rc, struct mg_error *err)
{
    int saved_errno = errno;

    for (size_t i = 0; i < list->n; i++) {
        const struct kept *k = list->piece[i].source;

        if (!k)
            continue;
        if (k->first == 0) {
            if (rc == 0
                && optimizer_write (k->optimizer, k->range, k->value, list->piece[i].data, err)
                       < 0) {
                rc = -1;
                saved_errno = errno;
            }
            free (list->piece[i].data);
        }
        list->piece[i].data = NULL;
    }
    errno = saved_errno;
    return rc;
}

/* What this rank does of it alone. */
static int read_weights (struct state *s, const char *path, struct mg_error *err)
{
    struct safetensors *file = safetensors_open (path, err);
    int rc;

    if (!file)
        return -1;
    rc = stage (&s->weight, err);
    if (rc == 0)
        rc = safetensors_load (file, s->weight.piece, s->weight.n, err);
    rc = unstage (&s->weight, rc, err);
    safetensors_close (file);
    return rc;
}

int state_load_weights (struct state *s, const char *path, struct mg_error *err)
{
    if (exchange_agree (job_comm (s->job, GROUP_WORLD), read_weights (s, path, err), err) < 0)
        return -1;
    return optimizer_give_params (s->optimizer, err);
}

int state_save_weights (struct state *s, const char *path, struct mg_error *err)
{
    if (optimizer_params_wait (s->optimizer, err) < 0)
        return -1;
    return safetensors_save (path, s->weight.piece, s->weight.n,
                             job_comm (s->job, GROUP_WORLD), err);
}

int state_save_gradients (struct state *s, const char *path, struct mg_error *err)
{
    return safetensors_save (path, s->gradient.piece, s->gradient.n,
                             job_comm (s->job, GROUP_WORLD), err);
}

struct checkpoint_save *state_save_begin (struct state *s, const char *dir,
                                          const struct train_progress *progress, bool snapshot,
                                          struct mg_error *err)
{
    const struct list *pieces = snapshot ? &s->copied : &s->saved;
    const struct grad_scaler *scaler = &progress->scaler;
    struct checkpoint_value values[NUM_SAVED + 1] = {
        [VALUE_ITERATION] = { .name = "iteration", .integer = progress->iteration },
        [VALUE_SAMPLES] = { .name = "consumed_samples",
                            .integer = progress->consumed_samples },
        [VALUE_VALID_SAMPLES] = { .name = "consumed_valid_samples",
                                  .integer = progress->consumed_valid_samples },
        [VALUE_SKIPPED_SAMPLES] = { .name = "skipped_samples",
                                    .integer = progress->skipped_samples },
        [VALUE_STEPS] = { .name = "optimizer_steps",
                          .integer = optimizer_steps (s->optimizer) },
        [VALUE_LOSS_SCALE] = { .name = "loss_scale", .type = CHECKPOINT_REAL,
                               .real = scaler->config.constant ? 0 : (double)scaler->scale },
        [VALUE_GROWTH] = { .name = "loss_scale_good_iterations",
                           .integer = scaler->growth_tracker },
        [VALUE_HYSTERESIS] = { .name = "loss_scale_overflows_left",
                               .integer = scaler->hysteresis_tracker },
    };

    describe_layout (s, values);
    return checkpoint_save_begin (dir, progress->iteration, values, pieces->piece, pieces->n,
                                  job_comm (s->job, GROUP_WORLD), err);
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
                      struct mg_comm *comm, struct mg_error *err)
{
    struct checkpoint_value values[] = {
        { .name = "iteration" }, { .name = "consumed_samples" },
        { .name = "consumed_valid_samples" }, { .name = "skipped_samples" },
        { .name = "optimizer_steps" },
        { .name = "loss_scale", .type = CHECKPOINT_REAL },
        { .name = "loss_scale_good_iterations" }, { .name = "loss_scale_overflows_left" },
        { .name = heads > 0 ? "num_attention_heads" : NULL, .integer = heads },
        { .name = NULL },
    };
    struct list list = { .n = 0 };
    int rc = 0;

    if (!(list.piece = calloc (3 * n + 1, sizeof (*list.piece))))
        return mg_error_set (err, ENOMEM, "out of memory for %zu tensors", n);
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
        if (i % 3 != 0)
            free (list.piece[i].data);
    }
    free (list.piece);
    return rc;
}

/* Rank 0's view of the directory counts for all, so that all do the same. */
static int agree_on_latest (struct state *s, const char *dir, int64_t *iteration,
                            struct mg_error *passed, struct mg_error *err)
{
    *iteration = -1;
    passed->text[0] = '\0';
    if (job_rank (s->job) == 0) {
        *iteration = checkpoint_latest (dir, err);
        if (*iteration < 0 && errno != ENOENT)
            *iteration = -2;
        else if (*iteration >= 0)
            *passed = *err;
    }
    if (mg_comm_broadcast (job_comm (s->job, GROUP_WORLD), iteration, 1, MG_INT64, 0, NULL,
                           err) < 0)
        return -1;
    if (*iteration == -2)
        return job_rank (s->job) == 0
                   ? -1
                   : mg_error_set (err, EIO, "%s: rank 0 cannot read it", dir);
    return 0;
}

int state_load (struct state *s, const char *dir, struct train_progress *progress,
                struct mg_error *passed, struct mg_error *err)
{
    struct checkpoint_value values[VALUE_HEADS + 2] = {
        [VALUE_ITERATION] = { .name = "iteration" },
        [VALUE_SAMPLES] = { .name = "consumed_samples" },
        [VALUE_VALID_SAMPLES] = { .name = "consumed_valid_samples" },
        [VALUE_SKIPPED_SAMPLES] = { .name = "skipped_samples" },
        [VALUE_STEPS] = { .name = "optimizer_steps" },
        [VALUE_LOSS_SCALE] = { .name = "loss_scale", .type = CHECKPOINT_REAL },
        [VALUE_GROWTH] = { .name = "loss_scale_good_iterations" },
        [VALUE_HYSTERESIS] = { .name = "loss_scale_overflows_left" },
        [VALUE_HEADS] = { .name = "num_attention_heads", .integer = s->heads,
                          .optional = true },
    };
    struct mg_comm *comm = job_comm (s->job, GROUP_WORLD);
    int64_t iteration;
    int rc;

    if (agree_on_latest (s, dir, &iteration, passed, err) < 0)
        return -1;
    if (iteration < 0)
        return 0;
    rc = exchange_agree (comm, stage (&s->loaded, err), err);
    if (rc == 0)
        rc = checkpoint_load (dir, iteration, values, s->loaded.piece, s->loaded.n, comm, err);
    if (rc == 0 && values[VALUE_HEADS].integer != s->heads)
        rc = mg_error_set (err, EINVAL, "checkpoint %" PRId64 " in %s is of a model with %" PRId64
                           " attention heads, want %d", iteration, dir,
                           values[VALUE_HEADS].integer, s->heads);
    if (rc < 0) /* on all ranks */
        return unstage (&s->loaded, rc, err);
    if (exchange_agree (comm, unstage (&s->loaded, 0, err), err) < 0)
        return -1;
    if (optimizer_give_params (s->optimizer, err) < 0)
        return -1;
    progress->iteration = values[VALUE_ITERATION].integer;
    progress->consumed_samples = values[VALUE_SAMPLES].integer;
    progress->consumed_valid_samples = values[VALUE_VALID_SAMPLES].integer;
    progress->skipped_samples = values[VALUE_SKIPPED_SAMPLES].integer;
    optimizer_set_steps (s->optimizer, values[VALUE_STEPS].integer);
    if (values[VALUE_LOSS_SCALE].real > 0 /* 0: the run had no dynamic one */
        && grad_scaler_restore (&progress->scaler, values[VALUE_LOSS_SCALE].real,
                                values[VALUE_GROWTH].integer,
                                values[VALUE_HYSTERESIS].integer, err) < 0)
        return -1;
    return 1;
}
