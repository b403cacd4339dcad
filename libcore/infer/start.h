/* start - from the arguments of a program that uses a trained model to its generator or scorer.
 *
 * The arguments of the model come from what is loaded: a checkpoint's directory, a file of weights,
 * a directory of Hugging Face's.  Further arguments are those of "megatron train" about layouts,
 * types, devices and tokenizers; if they have --num-layers, they describe the model instead.
 * A scorer's length of sequences, micro batch and global batch are among them.
 * Nothing is trained: there are no gradients, layers for multi-token prediction are left out, and a
 * capacity of experts drops nothing.
 */
#ifndef LIBCORE_INFER_START_H
#define LIBCORE_INFER_START_H

#include <stdio.h>

#include "libcore/infer/generator.h"
#include "libcore/infer/scorer.h"
#include "libcore/train/session.h"
#include "libcore/train/timers.h"

enum { INFER_REQUESTS = 8, INFER_ROWS = 512, INFER_LENGTH = 2560 }; /* defaults, the first and the
                                                                      last are Megatron-LM's */

struct infer_config {
    const char *program; /* for reports */
    const char *load;
    bool scores; /* a scorer is made, no generator: sequences have --seq-length positions, or else
                    those of the model, INFER_LENGTH at most */
    struct generator_config generator; /* length 0: the positions of the model, INFER_LENGTH at
                                          most */
    int argc;     /* further arguments, from the first on */
    char **argv;
    FILE *errors; /* for reports on ranks that die, and the first line */
};

struct infer {
    struct infer_config given;
    char **words; /* all arguments of the model */
    struct train_args args;
    struct run_config config;
    struct session session;
    struct num_microbatches *batches;
    struct timers timers; /* none runs */
    struct generator *generator; /* one of the two */
    struct scorer *scorer;
    bool parsed, failed, misused;
};

/* Join the job, make the model, load its weights, make the generator or the scorer.  The
 * configuration's texts outlive the object.  On failure -1 and a text; infer_leave() then
 * ends this rank's part.  Collective.
 */
int infer_start (struct infer *infer, const struct infer_config *config, struct mg_error *err);

/* Plan the memory that 'rank' of 'world' ranks would allocate for the generator or the scorer of a
 * model of these arguments.  Its weights are not read: config->load, argc and argv are not used.
 * Each rank has *threads compute threads.  If *threads is 0, the number becomes the rank's share of
 * this machine's CPUs.  The caller frees the plan with memory_clear().  -1 and a text on failure.
 */
int infer_plan (const struct infer_config *config, const struct train_args *args, int rank,
                int world, int *threads, struct memory_plan *memory, struct mg_error *err);

/* Print the line that describes the job, the model and rank 0's memory: the bytes of each kind as
 * they are planned, their sum, and the bytes that are allocated.
 */
void infer_describe (const struct infer *infer);

/* After a failure: print the text, if this rank should, and end the job where other ranks may wait.
 * Returns the exit status.
 */
int infer_report (struct infer *infer, const struct mg_error *err);

/* Free all parts.  Collective after success, and if all ranks have failed alike. */
void infer_leave (struct infer *infer);

#endif /* LIBCORE_INFER_START_H */
