/* train_build.c - make the parts of a run that compute
 *
 * Invariant: everything whose memory is planned is made here, and is bound later without
 * changes.
 */

#include "libcore/train/train_build.h"

static int make_model (struct train_parts *p, const struct run_config *c, const struct job *job,
                       const struct num_microbatches *batches, int64_t evaluation,
                       struct mg_error *err)
{
    struct model_spec spec = c->model;

    spec.sequence_parallel &= c->geometry.tp > 1;
    if (!(p->model = model_create (&spec, job, err))
        || !(p->passes = passes_create (p->model, job, batches, c->microbatch_group, evaluation,
                                        c->length.skip_train, err)))
        return -1;
    return 0;
}

/* Layers for multi-token prediction that are detached are clipped by themselves. */
static struct optimizer_config optimizer_of (const struct train_parts *p,
                                             const struct run_config *c)
{
    struct optimizer_config config = c->optimizer;

    if (c->model.config.mtp_detached) {
        config.apart = model_sizes_of (p->model)->first_mtp;
        config.num_apart = model_sizes_of (p->model)->mtp_tensors;
    }
    return config;
}

/* Parameters and what belongs to them; a run that only evaluates has no optimizer. */
static int make_buffers (struct train_parts *p, const struct run_config *c,
                         const struct job *job, struct mg_error *err)
{
    size_t n;
    struct param *params = model_params (p->model, &n);
    const struct buffers_config config
        = run_config_buffers (c, job_group_size (job, GROUP_DP_CP),
                              grid_coord (job_grid (job), false, MG_AXIS_PP, job_rank (job)),
                              params, n);
    const struct optimizer_config optimizer = optimizer_of (p, c);

    if (!(p->buffers = buffers_create (&config, job, model_stream (p->model), params, n,
                                       model_sizes_of (p->model)->tensors, err))
        || !(p->main = main_params_create (&c->main, p->buffers, err)))
        return -1;
    if (!c->length.skip_train
        && !(p->optimizer = optimizer_create (&optimizer, p->buffers, p->main, err)))
        return -1;
    return 0;
}

int train_build (struct train_parts *p, const struct run_config *c, const struct job *job,
                 const struct num_microbatches *batches, int64_t evaluation,
                 struct memory_plan *memory, struct mg_error *err)
{
    struct memory_parts parts;

    if (make_model (p, c, job, batches, evaluation, err) < 0
        || make_buffers (p, c, job, err) < 0)
        return -1;
    parts = (struct memory_parts){
        .model = p->model,
        .slots = passes_slots (p->passes),
        .staging = passes_staging_bytes (p->passes),
        .buffers = p->buffers,
        .main = p->main,
        .optimizer = p->optimizer,
        .job = job,
        .reserve = c->device_reserve,
        .comm_reserve = c->comm_reserve,
        .shards = c->buffers.sharded ? mg_comm_size (job_comm_shard (job, false)) : 1,
    };
    return memory_plan (memory, &parts, err);
}

int train_bind (struct train_parts *p, struct mg_error *err)
{
    if (buffers_bind (p->buffers, err) < 0 || main_params_bind (p->main, err) < 0)
        return -1;
    if (p->optimizer && optimizer_bind (p->optimizer, err) < 0)
        return -1;
    return model_bind (p->model, passes_slots (p->passes), err);
}

void train_parts_destroy (struct train_parts *p)
{
    passes_destroy (p->passes);
    optimizer_destroy (p->optimizer);
    main_params_destroy (p->main);
    buffers_destroy (p->buffers);
    model_destroy (p->model);
}

struct memory_advice train_advice (const struct run_config *c, const struct job *job)
{
    return (struct memory_advice){
        .async_save = c->save.async,
        .shard = job_group_size (job, GROUP_DP_CP) > 1 && !c->buffers.sharded,
        .smaller_batch = c->model.micro_batch_size > 1,
        .sequence_parallel = c->geometry.tp > 1 && !c->model.sequence_parallel,
        .bf16 = c->model.dtype == MG_FLOAT32,
    };
}
