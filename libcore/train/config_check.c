/* config_check.c - check that the configurations of a run's modules agree
 *
 * Each rule looks at what arguments say, not at files or at the number of ranks, and reports the
 * first that is broken.  Rules that look at arguments only are in args/check.c.
 */

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "libcore/comm/nccl_config.h"
#include "libcore/device/device.h"
#include "libcore/train/config.h"
#include "libcore/train/phases.h"
#include "libcore/train/skip.h"

/* Phases follow from iterations if batches have one size. */
static int check_phases (const struct run_config *c, struct mg_error *err)
{
    const struct batch_config *b = &c->batches;
    struct phases phases;

    if (!c->length.phases)
        return 0;
    if (b->steps || b->ramp_start > 0)
        return mg_error_set (err, EINVAL, "--phase-transition-iterations wants one global batch "
                             "size: it excludes %s", b->steps ? "--step-batch-size-schedule"
                                                              : "--rampup-batch-size");
    if (c->data.batches)
        return mg_error_set (err, EINVAL, "--phase-transition-iterations and --batches exclude "
                             "each other");
    if (c->data.from_program[SPLIT_TRAIN])
        return mg_error_set (err, EINVAL, "--phase-transition-iterations and samples that the "
                             "program makes exclude each other");
    if (phases_parse (c->length.phases, &phases, err) < 0)
        return -1;
    phases_clear (&phases);
    return 0;
}

/* Each module checks its configuration. */
static int check_modules (const struct run_config *c, struct mg_error *err)
{
    if (train_data_check (&c->data, err) < 0 || check_phases (c, err) < 0)
        return -1;
    if (c->length.skip_train && (c->save.dir || c->outputs.gradients))
        return mg_error_set (err, EINVAL, "--skip-train excludes --save and --save-gradients: "
                             "nothing changes");
    if (evaluate_check (&c->evaluation, &c->data, err) < 0 || report_check (&c->report, err) < 0)
        return -1;
    return tensorboard_check (&c->tensorboard, err);
}

/* A file of settings is read here for its faults; the job reads it once more. */
static int check_nccl (const struct train_args *args, struct mg_error *err)
{
    struct nccl_config *config;

    if (!args->nccl_config)
        return 0;
    if (!(config = nccl_config_read (args->nccl_config, err)))
        return mg_error_prefix (err, "--nccl-communicator-config-path");
    nccl_config_destroy (config);
    return 0;
}

/* The device, and how a run ends. */
static int check_process (const struct train_args *args, struct mg_error *err)
{
    const char *backend = run_config_backend (args);
    struct device_choice device;
    sigset_t signals;

    if (backend && strcmp (backend, "mpi") != 0 && strcmp (backend, "ucx") != 0
        && strcmp (backend, "nccl") != 0)
        return mg_error_set (err, EINVAL, "--distributed-backend: \"%.40s\" is not mpi, ucx or "
                             "nccl; gloo, and nccl without --device cuda, stand for the default",
                             backend);
    if (args->device && device_choose (args->device, false, &device, err) < 0)
        return mg_error_prefix (err, "--device");
    if (check_nccl (args, err) < 0)
        return -1;
    if (args->exit_on_signal && args->ignore_signals)
        return mg_error_set (err, EINVAL, "--exit-signal-handler and --no-exit-signal-handler "
                             "exclude each other");
    if (args->overlap_p2p && args->no_overlap_p2p)
        return mg_error_set (err, EINVAL, "--overlap-p2p-communication and its --no- exclude each "
                             "other");
    if (args->check_nan && args->no_check_nan)
        return mg_error_set (err, EINVAL, "--check-for-nan-in-loss-and-grad and its --no- "
                             "exclude each other");
    if (stop_signals (args->exit_signals, &signals, err) < 0)
        return mg_error_prefix (err, "--exit-signal");
    return 0;
}

int train_args_check_together (const struct train_args *args, struct mg_error *err)
{
    struct run_config c;
    int64_t range[2];

    run_config_init (&c, args);
    if (skip_check (&c.length.skip, err) < 0 || check_modules (&c, err) < 0
        || check_process (args, err) < 0
        || trace_iterations_parse (c.trace.iterations, range, err) < 0
        || train_args_check_load (args, err) < 0
        || train_args_check_recompute (args, err) < 0
        || train_args_check_types (args, err) < 0 || run_config_check_buffers (&c, err) < 0)
        return -1;
    if (args->save_interval != TRAIN_UNSET && !args->save)
        return mg_error_set (err, EINVAL, "--save-interval or --persistent-save-interval wants "
                             "--save DIR");
    if ((args->save_retain_interval != TRAIN_UNSET || args->keep_last != TRAIN_UNSET)
        && !args->save)
        return mg_error_set (err, EINVAL, "--%s wants --save DIR",
                             args->keep_last != TRAIN_UNSET ? "keep-last-n-checkpoints"
                                                            : "save-retain-interval");
    if (args->decoupled_min_lr != TRAIN_UNSET && args->decoupled_lr == TRAIN_UNSET)
        return mg_error_set (err, EINVAL, "--decoupled-min-lr wants --decoupled-lr");
    if (args->async_save && !args->save)
        return mg_error_set (err, EINVAL, "--async-save wants --save DIR");
    return train_args_check_moe (args, err);
}

int train_args_check (const struct train_args *args, struct mg_error *err)
{
    return train_args_check_required (args, err) < 0 ? -1 : train_args_check_together (args, err);
}

int train_args_parse (int argc, char **argv, struct train_args *args, struct mg_error *err)
{
    return train_args_read_run (argc, argv, args, err) < 0 ? -1 : train_args_check (args, err);
}
