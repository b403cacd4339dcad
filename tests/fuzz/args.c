/* args.c - arguments of megatron train, and what follows from them for a run
 *
 * Input: the words, one a line.
 */

#include <stdlib.h>
#include <string.h>

#include "libcore/train/config.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_STAGES = 1 << 12 };

/* Sizes of batches go on rising with samples, and come back to the same number of them. */
static void check_batches (const struct run_config *c, const struct num_microbatches *n)
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
    if (run_config_lr (c, n, &lr, NULL) == 0)
        run_config_iterations (c, n);
}

static void check_run (const struct train_args *args)
{
    struct num_microbatches *batches;
    struct run_config c;
    const struct geometry *g = &c.geometry;
    const struct stages *stages;
    int layers = 0;

    run_config_init (&c, args);
    c.file_seq_length = 8;
    c.tokenizer_size = 256;
    if (run_config_geometry (&c, NULL) < 0)
        return;
    if (run_config_model (&c, NULL) == 0)
        fuzz_check (c.model.config.padded_vocab_size % g->tp == 0, "a vocabulary that is cut");
    if ((int64_t)g->pp * (g->vpp > 1 ? g->vpp : 1) <= MAX_STAGES
        && args->layers_per_vpp == TRAIN_UNSET && run_config_stages (&c, NULL) == 0) {
        stages = c.stages;
        for (int i = 0; i < stages->pp * stages->vpp; i++)
            layers += stages->stage[i].num_layers;
        fuzz_check (layers == args->num_layers, "stages have %d layers", layers);
    }
    batches = run_config_batches (&c, 1, NULL);
    if (batches)
        check_batches (&c, batches);
    num_microbatches_destroy (batches);
    run_config_clear (&c);
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
