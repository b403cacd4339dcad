/* parallel_args.c - parallel sizes that come from a checkpoint */

#include <errno.h>
#include <inttypes.h>

#include "libcore/checkpoint/checkpoint.h"
#include "libcore/checkpoint/manifest.h"
#include "libcore/topo/geometry.h"
#include "libcore/args/model_notes.h"
#include "libcore/args/parallel_args.h"

static const char name[] = "--use-mp-args-from-checkpoint-args";

enum { TP, PP, VPP, EP, NUM_SIZES };

/* The names of the sizes in a manifest, and their arguments, in the order of the sizes. */
static const struct {
    const char *value, *argument;
} sizes[NUM_SIZES] = {
    [TP] = { "tensor_model_parallel_size", "tensor-model-parallel-size" },
    [PP] = { "pipeline_model_parallel_size", "pipeline-model-parallel-size" },
    [VPP] = { "virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank" },
    [EP] = { "expert_model_parallel_size", "expert-model-parallel-size" },
};

/* Read the sizes; 0: the checkpoint does not hold it. */
static int read_sizes (const struct train_args *args, int64_t size[NUM_SIZES],
                       struct mg_error *err)
{
    struct manifest *m = model_notes_manifest (args->load, args->ckpt_step, err);
    struct checkpoint_value values[NUM_SIZES + 1] = { { .name = NULL } };
    int rc;

    if (!m)
        return -1;
    for (int i = 0; i < NUM_SIZES; i++)
        values[i] = (struct checkpoint_value){ .name = sizes[i].value, .optional = true };
    if ((rc = manifest_check_values (m, values, err)) == 0)
        manifest_get_values (m, values);
    manifest_destroy (m);
    for (int i = 0; i < NUM_SIZES; i++)
        size[i] = values[i].integer;
    return rc;
}

/* Set one size, which the command line may only repeat. */
static int set_size (int i, int64_t size, int *field, const char *dir, struct mg_error *err)
{
    if (size < 1 || size > GEOMETRY_SIZE_MAX)
        return mg_error_set (err, EINVAL, "%s: the checkpoint in %s does not hold %s (older "
                             "versions did not write it): give the sizes as arguments", name, dir,
                             sizes[i].value);
    if (*field != TRAIN_UNSET && *field != size)
        return mg_error_set (err, EINVAL, "--%s %d contradicts the checkpoint in %s, which was "
                             "written with %" PRId64 ": leave out the argument, or %s",
                             sizes[i].argument, *field, dir, size, name);
    *field = (int)size;
    return 0;
}

int parallel_args_use (struct train_args *args, struct mg_error *err)
{
    int *const fields[NUM_SIZES] = { [TP] = &args->tp, [PP] = &args->pp, [VPP] = &args->vpp,
                                     [EP] = &args->ep };
    int64_t size[NUM_SIZES];

    if (!args->checkpoint_args || !args->load)
        return mg_error_set (err, EINVAL, "%s wants --use-checkpoint-args and --load DIR", name);
    if (read_sizes (args, size, err) < 0)
        return mg_error_prefix (err, "%s", name);
    for (int i = 0; i < NUM_SIZES; i++) {
        // other arguments may deal out the layers; 1 virtual stage is none
        bool elsewhere = i == VPP && args->vpp == TRAIN_UNSET
                         && (args->layers_per_vpp != TRAIN_UNSET || args->layout || size[i] == 1);

        if (!elsewhere && set_size (i, size[i], fields[i], args->load, err) < 0)
            return -1;
    }
    return 0;
}
