/* buffers.c - megatron plan buffers: where parameters and gradients lie
 *
 * The parameters come from a file that lists them, or from the model that the arguments of
 * megatron train describe: what is no option of this command is left to those.
 */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/plan/buffers.h"
#include "cmd/plan/plan.h"
#include "libcore/base/parse.h"
#include "libcore/file/outfile.h"
#include "libcore/model/model_params.h"
#include "libcore/train/config.h"

struct buffers_request {
    const char *params, *svg;
    int dp, edp, world, instances; /* 0: not given */
    int pp_rank;
    int64_t bucket_size, num_buckets; /* 0: not given */
    bool sharded, overlap, high_busbw, average, disabled, per_token;
    bool grad_float32, grad_bfloat16, bfloat16, float16, float8;
};

static const struct field {
    const char *key;
    size_t offset;
    int min;
} fields[] = {
    { "dp", offsetof (struct buffers_request, dp), 1 },
    { "edp", offsetof (struct buffers_request, edp), 1 },
    { "world", offsetof (struct buffers_request, world), 1 },
    { "instances", offsetof (struct buffers_request, instances), 1 },
    { "pp-rank", offsetof (struct buffers_request, pp_rank), 0 },
    { "size", offsetof (struct buffers_request, bucket_size), 1 },
    { "buckets", offsetof (struct buffers_request, num_buckets), 1 },
    { "sharded", offsetof (struct buffers_request, sharded), 0 },
    { "overlap", offsetof (struct buffers_request, overlap), 0 },
    { "busbw", offsetof (struct buffers_request, high_busbw), 0 },
    { "average", offsetof (struct buffers_request, average), 0 },
    { "disabled", offsetof (struct buffers_request, disabled), 0 },
    { "per-token", offsetof (struct buffers_request, per_token), 0 },
    { "grad-float32", offsetof (struct buffers_request, grad_float32), 0 },
    { "grad-bfloat16", offsetof (struct buffers_request, grad_bfloat16), 0 },
    { "bfloat16", offsetof (struct buffers_request, bfloat16), 0 },
    { "float16", offsetof (struct buffers_request, float16), 0 },
    { "float8", offsetof (struct buffers_request, float8), 0 },
};

static const struct field *find_field (const struct cmd_option *option)
{
    const struct field *f = fields;

    while (strcmp (f->key, option->key) != 0)
        f++;
    return f;
}

static int set_number (void *target, const struct cmd_option *option, const char *what,
                       const char *value, struct mg_error *err)
{
    const struct field *f = find_field (option);

    return parse_int (what, value, f->min, GEOMETRY_SIZE_MAX,
                      (int *)((char *)target + f->offset), err);
}

static int set_count (void *target, const struct cmd_option *option, const char *what,
                      const char *value, struct mg_error *err)
{
    const struct field *f = find_field (option);

    return parse_int64 (what, value, f->min, INT64_C (1000000000000000),
                        (int64_t *)((char *)target + f->offset), err);
}

static int set_flag (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    (void)what, (void)value, (void)err;
    *(bool *)((char *)target + find_field (option)->offset) = true;
    return 0;
}

static int set_text (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    struct buffers_request *r = target;

    if (strcmp (option->key, "svg") == 0)
        r->svg = value;
    else
        r->params = value;
    return *value ? 0 : mg_error_set (err, EINVAL, "%s: the value is empty", what);
}

static const struct cmd_option buffer_options[] = {
    { .name = "params", .arg = "FILE",
      .help = "JSON list of parameters, in place of a model's arguments", .key = "params",
      .set = set_text },
    { .name = "dp", .arg = "N",
      .help = "ranks that share dense parameters (data times context parallel)",
      .key = "dp", .set = set_number },
    { .name = "edp", .arg = "N",
      .help = "ranks that share expert parameters, default --dp", .key = "edp",
      .set = set_number },
    { .name = "world-size", .arg = "N",
      .help = "ranks of the job, with a model: gives --dp", .key = "world",
      .set = set_number },
    { .name = "pp-rank", .arg = "R", .help = "pipeline rank, default 0", .key = "pp-rank",
      .set = set_number },
    { .name = "use-distributed-optimizer", .help = "shard the optimizer's state",
      .key = "sharded", .set = set_flag },
    { .name = "num-distributed-optimizer-instances", .arg = "N",
      .help = "shard within each of N parts of --dp", .key = "instances",
      .set = set_number },
    { .name = "overlap-grad-reduce", .help = "reduce bucket by bucket; else there is one",
      .key = "overlap", .set = set_flag },
    { .name = "ddp-bucket-size", .alias = "bucket-size", .arg = "N",
      .help = "elements of a bucket", .key = "size", .set = set_count },
    { .name = "ddp-num-buckets", .alias = "num-buckets", .arg = "N",
      .help = "buckets, in place of their size", .key = "buckets", .set = set_count },
    { .name = "ddp-pad-buckets-for-high-nccl-busbw",
      .alias = "pad-buckets-for-high-nccl-busbw",
      .help = "buckets end at multiples of 65536", .key = "busbw", .set = set_flag },
    { .name = "ddp-average-in-collective", .alias = "average-in-collective",
      .help = "average in the reduction, not before", .key = "average", .set = set_flag },
    { .name = "disable-bucketing", .alias = "overlap-param-gather-with-optimizer-step",
      .help = "one bucket, one group", .key = "disabled", .set = set_flag },
    { .name = "calculate-per-token-loss", .help = "gradients are summed",
      .key = "per-token", .set = set_flag },
    { .name = "accumulate-allreduce-grads-in-fp32", .alias = "grad-reduce-in-fp32",
      .help = "float32 gradients (the default, but for --fp16)", .key = "grad-float32",
      .set = set_flag },
    { .name = "grad-reduce-in-bf16", .help = "gradients of the parameters' type",
      .key = "grad-bfloat16", .set = set_flag },
    { .name = "bf16", .help = "a model's parameters are bfloat16, not float32",
      .key = "bfloat16", .set = set_flag },
    { .name = "fp16", .help = "they are float16", .key = "float16", .set = set_flag },
    { .name = "fp8-param-gather",
      .help = "a model's layers' matrices are stored in float8, as uint8",
      .key = "float8", .set = set_flag },
    { .name = "svg", .arg = "FILE", .help = "also draw a map", .key = "svg",
      .set = set_text },
    { .name = NULL },
};

static const char usage[] =
    "Usage: megatron plan buffers --params FILE.json --dp N [OPTION...]\n"
    "       megatron plan buffers MODEL-ARGUMENT... [OPTION...]\n\n"
    "Print where the parameters and gradients of a pipeline rank lie in contiguous\n"
    "buffers, how these are cut into buckets, and which rank owns what.\n"
    "A MODEL-ARGUMENT is one of megatron train's.\n\n";

/* --- parameters of a model --- */

static int copy_params (struct plan_buffers *b, const struct param *params, size_t n,
                        enum mg_dtype dtype, struct mg_error *err)
{
    if (plan_buffers_allocate (b, n, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        char name[PIECE_NAME_MAX];

        b->param[i] = (struct layout_param){
            .numel = params[i].numel, .logical = dtype,
            .storage = params[i].storage == MG_FLOAT8_E4M3 ? MG_UINT8 : dtype,
            .shared_embedding = params[i].shared_embedding, .chunk = params[i].chunk,
            .expert = params[i].expert,
        };
        param_text (&params[i], name);
        if (!(b->name[i] = strdup (name)))
            return mg_error_set (err, ENOMEM, "out of memory");
    }
    return 0;
}

/* Ranks that share expert parameters are found like those that share dense ones, in the other grid.
 */
static int count_expert_ranks (struct buffers_request *r, const struct geometry *g,
                               struct mg_error *err)
{
    int dp = r->dp ? r->dp : 1, parts = geometry_etp (g) * g->ep;
    int edp = r->world ? geometry_edp (g) : dp * g->tp / parts;

    if (edp * parts != dp * g->tp)
        return mg_error_set (err, EINVAL, "--dp %d with tp %d: %d ranks are not shared by etp %d x "
                             "ep %d", dp, g->tp, dp * g->tp, geometry_etp (g), g->ep);
    if (r->edp && r->edp != edp)
        return mg_error_set (err, EINVAL, "--edp %d, but tp %d, dp %d, etp %d and ep %d make it %d",
                             r->edp, g->tp, dp, geometry_etp (g), g->ep, edp);
    r->edp = edp;
    return 0;
}

/* The size of the data-parallel group follows from that of the world. */
static int count_ranks (struct buffers_request *r, struct geometry *g, struct mg_error *err)
{
    g->world = r->world;
    if (geometry_validate (g, err) < 0)
        return -1;
    if (r->pp_rank >= g->pp)
        return mg_error_set (err, EINVAL, "--pp-rank %d is not below the pipeline size %d",
                             r->pp_rank, g->pp);
    if (!r->world)
        return 0;
    if (r->dp && r->dp != geometry_dp (g) * g->cp)
        return mg_error_set (err, EINVAL, "--dp %d, but --world-size %d makes it %d", r->dp,
                             r->world, geometry_dp (g) * g->cp);
    r->dp = geometry_dp (g) * g->cp;
    return 0;
}

static int check_model (const struct train_args *args, struct mg_error *err)
{
    const char *missing = plan_missing_argument (args);

    if (missing)
        return mg_error_set (err, EINVAL, "neither --params nor %s of a model is given", missing);
    return 0;
}

/* Types as megatron train has them, which are options of this command too. */
static void set_types (struct train_args *args, const struct buffers_request *r)
{
    args->bf16 |= r->bfloat16;
    args->fp16 |= r->float16;
    args->grads_float32 |= r->grad_float32;
    args->grads_bfloat16 |= r->grad_bfloat16;
    args->sharded_optimizer |= r->sharded;
    args->fp8_param_gather |= r->float8;
}

static void set_buffers (struct train_args *args, const struct buffers_request *r)
{
    args->average_grads = r->average;
    args->per_token_loss = r->per_token;
    args->optimizer_instances = r->instances ? r->instances : 1;
    if (r->bucket_size)
        args->bucket_size = r->bucket_size;
    if (r->num_buckets)
        args->num_buckets = r->num_buckets;
}

/* Set the types of the model's parameters and gradients. */
static int take_types (struct train_args *args, struct buffers_request *r, enum mg_dtype *dtype,
                       struct mg_error *err)
{
    struct run_config config;

    set_types (args, r);
    run_config_init (&config, args);
    r->grad_bfloat16 = config.buffers.grad != MG_FLOAT32;
    *dtype = config.model.dtype;
    return train_args_check_types (args, err);
}

static int read_model (struct plan_buffers *b, struct buffers_request *r, struct train_args *args,
                       struct mg_error *err)
{
    struct run_config config;
    struct geometry *g = &config.geometry;
    const struct model_config *model = &config.model.config;
    struct param *params = NULL;
    enum mg_dtype dtype;
    size_t n;
    int rc = -1;

    run_config_init (&config, args);
    if (run_config_geometry (&config, err) < 0 || run_config_tokenizer (&config, err) < 0
        || run_config_check_rules (&config, err) < 0 || run_config_model (&config, err) < 0
        || run_config_stages (&config, err) < 0
        || run_config_check_model (&config, err) < 0
        || count_ranks (r, g, err) < 0
        || (model->moe.experts > 0 && count_expert_ranks (r, g, err) < 0)
        || take_types (args, r, &dtype, err) < 0)
        goto done;
    if ((params = model_stage_params (model, g, r->float8, config.stages, r->pp_rank, &n, err)))
        rc = copy_params (b, params, n, dtype, err);
done:
    free (params);
    run_config_clear (&config);
    return rc;
}

/* --- the layout --- */

double plan_buffers_grad_scale (const struct plan_buffers *b,
                                const struct layout_buffer *buffer)
{
    return layout_grad_scale (b->per_token, b->average, buffer->expert, b->dp, b->edp);
}

/* By megatron train's rules; parameters of a file have types of their own. */
static int check_types (const struct buffers_request *r, struct mg_error *err)
{
    struct train_args args;
    struct run_config config;
    int rc;

    if (r->params && r->float8)
        return mg_error_set (err, EINVAL, "--fp8-param-gather wants a model: with --params "
                             "parameters say their type themselves");
    train_args_init (&args);
    set_types (&args, r);
    set_buffers (&args, r);
    args.bf16 |= r->params && !args.fp16;
    run_config_init (&config, &args);
    rc = train_args_check_types (&args, err);
    if (rc == 0)
        rc = run_config_check_buffers (&config, err);
    train_args_clear (&args);
    return rc;
}

static int check_request (void *request, struct mg_error *err)
{
    struct buffers_request *r = request;

    if (check_types (r, err) < 0)
        return -1;
    if (r->params && r->world)
        return mg_error_set (err, EINVAL, "--world-size goes with a model; with --params give "
                             "--dp");
    return 0;
}

static int make_layout (struct plan_buffers *b, const struct buffers_request *r,
                        struct mg_error *err)
{
    struct layout_bucket_rule rule = {
        .bucket_size = r->bucket_size, .num_buckets = r->num_buckets, .dp = b->dp,
        .overlap = r->overlap, .pp_rank = r->pp_rank, .disabled = r->disabled,
    };
    struct layout_config config = {
        .sharded = r->sharded,
        .high_busbw = r->high_busbw,
        .grad_float32 = !r->grad_bfloat16,
        .one_group = r->disabled,
        .shards = { b->dp / b->instances, b->edp / b->instances },
    };

    if (geometry_check_instances (b->instances, b->dp, b->edp, err) < 0)
        return -1;
    for (size_t i = 0; i < b->n; i++) {
        if (__builtin_add_overflow (rule.num_params, b->param[i].numel, &rule.num_params))
            return mg_error_set (err, EOVERFLOW, "the parameters have more elements than %lld",
                                 (long long)INT64_MAX);
    }
    b->used = config.bucket_size = layout_bucket_size (&rule, &b->resolved);
    b->layout = layout_create (&config, b->param, b->n, err);
    return b->layout ? 0 : -1;
}

static void clear (struct plan_buffers *b)
{
    for (size_t i = 0; b->name && i < b->n; i++)
        free (b->name[i]);
    free (b->name);
    free (b->param);
    layout_destroy (b->layout);
}

static int show (struct buffers_request *r, bool json, struct train_args *args)
{
    struct plan_buffers b = { .n = 0 };
    struct mg_error err = { .text = "" };
    int rc;

    rc = r->params ? plan_buffers_read_file (&b, r->params, &err)
                   : read_model (&b, r, args, &err);
    b.dp = r->dp ? r->dp : 1;
    b.edp = r->edp ? r->edp : b.dp;
    b.instances = r->instances ? r->instances : 1;
    b.pp_rank = r->pp_rank;
    b.sharded = r->sharded;
    b.average = r->average;
    b.per_token = r->per_token;
    if (rc == 0)
        rc = make_layout (&b, r, &err);
    if (rc == 0 && r->svg && r->params)
        rc = outfile_check_input (r->svg, r->params, &err);
    if (rc == 0 && r->svg)
        rc = plan_buffers_draw (&b, r->svg, &err);
    if (rc < 0)
        fprintf (stderr, "megatron: %s\n", err.text);
    else if (json)
        plan_buffers_print_json (&b);
    else
        plan_buffers_print (&b);
    clear (&b);
    return rc < 0 ? PLAN_IMPOSSIBLE : 0;
}

/* --- the command line --- */

/* With a file of parameters, or with a model's arguments. */
static int run_request (struct buffers_request *r, bool json, int argc, char **argv)
{
    struct train_args args = { .files = NULL };
    struct mg_error err;
    int status;

    if (r->params && argc > 1) {
        mg_error_set (&err, EINVAL, "\"%.60s\" does not go with --params", argv[1]);
        return plan_usage_error (argv[0], &err);
    }
    if (!r->params
        && (train_args_read (argc, argv, &args, &err) < 0 || check_model (&args, &err) < 0))
        status = plan_refuse (argv[0], &args, &err);
    else
        status = show (r, json, &args);
    train_args_clear (&args);
    return status;
}

int plan_buffers (int argc, char **argv)
{
    char **words = calloc (2 * (size_t)argc + 2, sizeof (*words)), **rest = words + argc + 1;
    int num_own = 0, num_rest = 0, status;
    struct buffers_request r = { .pp_rank = 0 };
    struct plan_common common = { 0 };
    const struct cmd_option_table tables[] = {
        { buffer_options, &r },
        { plan_common_options, &common },
    };
    const struct cmd_syntax syntax = { "plan", usage, tables, 2, &common.help, check_request, &r };

    if (!words) {
        fprintf (stderr, "megatron: out of memory\n");
        return PLAN_IMPOSSIBLE;
    }
    plan_part_words (buffer_options, argc, argv, &num_own, words, &num_rest, rest);
    status = cmd_part_read (&syntax, num_own, words);
    if (status == CMD_GO)
        status = run_request (&r, common.json, num_rest, rest);
    free (words);
    return status;
}
