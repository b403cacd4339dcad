/* args.c - arguments of megatron train, and what follows from them for a run
 *
 * Input: the words, one a line.
 */

#include <stdlib.h>
#include <string.h>

#include "libcore/nn/config.h"
#include "libcore/optim/lr.h"
#include "libcore/optim/num_microbatches.h"
#include "libcore/topo/geometry.h"
#include "libcore/topo/stages.h"
#include "libcore/train/args.h"
#include "libcore/train/config.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_STAGES = 1 << 12 };

/* Sizes of batches go on rising with samples, and come back to the same number of them. */
static void check_batches (const struct train_args *args, const struct num_microbatches *n)
{
    struct batch_size size;
    struct lr_config lr;

    num_microbatches_at (n, 0, &size);
    fuzz_check (size.running >= 0 && size.num_microbatches >= 0, "a batch below 0");
    num_microbatches_at (n, INT64_MAX, &size);
    num_microbatches_check (n, &size, NULL);
    for (size_t i = 1; i < num_microbatches_count (n); i++)
        fuzz_check (num_microbatches_from (n, i - 1) < num_microbatches_from (n, i),
                    "step %zu of the batch size", i);
    if (train_lr (args, n, &lr, NULL) == 0)
        train_iterations (args, n);
}

static void check_run (const struct train_args *args)
{
    struct num_microbatches *batches;
    struct geometry geometry;
    struct model_config model;
    struct stages *stages;
    int layers = 0;

    if (train_geometry (args, &geometry, NULL) < 0)
        return;
    if (train_model (args, geometry.tp, 8, 256, &model, NULL) == 0)
        fuzz_check (model.padded_vocab_size % geometry.tp == 0, "a vocabulary that is cut");
    if ((int64_t)geometry.pp * (geometry.vpp > 1 ? geometry.vpp : 1) <= MAX_STAGES
        && args->layers_per_vpp == TRAIN_UNSET
        && (stages = train_stages (args, &geometry, NULL))) {
        for (int i = 0; i < stages->pp * stages->vpp; i++)
            layers += stages->stage[i].num_layers;
        fuzz_check (layers == args->num_layers, "stages have %d layers", layers);
        stages_destroy (stages);
    }
    batches = train_batches (args, 1, 0, 8, NULL);
    if (batches)
        check_batches (args, batches);
    num_microbatches_destroy (batches);
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    struct train_args args;
    char **words;
    int count, kept = 1;

    words = fuzz_words (&in, "train", &count);
    for (int i = 1; i < count; i++) { // whatever file is named there
        if (!strstr (words[i], "args-file"))
            words[kept++] = words[i];
    }
    words[kept] = NULL;
    if (train_args_read (kept, words, &args, NULL) == 0) {
        train_args_fingerprint (&args);
        if (train_args_check (&args, NULL) == 0)
            check_run (&args);
    }
    train_args_clear (&args);
    free (words);
}

const struct fuzz_target fuzz_args = { "args", run };
