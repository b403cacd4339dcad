/* scorer - the losses of samples by a model: what evaluation stands on.
 *
 * A sample (data/sample.h) is a sequence of tokens, labels and weights.  A label counts if its
 * weight is not 0.  Samples go forward through the model as those of a validation do, under
 * every layout of training; data-parallel ranks have different samples.  The scores of a sample do
 * not depend on the samples that share its batch.
 */
#ifndef LIBCORE_INFER_SCORER_H
#define LIBCORE_INFER_SCORER_H

#include <stdint.h>

#include "libcore/data/sample_source.h"
#include "libcore/job/job.h"
#include "libcore/train/train_build.h"
#include "megatron/error.h"

/* The scores of a sample. */
struct scorer_sample {
    double loss;   /* sum over the labels that count of -log p (label) */
    double misses; /* of these labels, those that are not the token with the largest logit, the
                      lowest id among equals; a label may be counted twice */
};

/* The batches that a model and its passes are made for. */
struct scorer_config {
    int micro_batch; /* samples of a pass */
    int64_t batch;   /* samples of the passes of all ranks */
};

struct scorer;

/* Bytes of pinned host memory of a scorer. */
int64_t scorer_host_bytes (const struct model *model);

/* Make a scorer of a model whose memory and passes are bound.  All of them must outlive it.  NULL
 * and a text on failure.
 */
struct scorer *scorer_create (const struct scorer_config *config, const struct train_parts *parts,
                              const struct job *job, struct mg_error *err);
void scorer_destroy (struct scorer *s);

/* Score all samples of a source, whose sequences have the model's length: every rank fills
 * 'score' [source->num_samples] with the same values.  Every rank has the same source.  -1 and a
 * text on failure, also if a loss is not finite.  Collective.
 */
int scorer_run (struct scorer *s, const struct sample_source *source,
                struct scorer_sample *score, struct mg_error *err);

#endif /* LIBCORE_INFER_SCORER_H */
