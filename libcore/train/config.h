/* config - what follows from the arguments of "megatron train" for a run. */
#ifndef LIBCORE_TRAIN_CONFIG_H
#define LIBCORE_TRAIN_CONFIG_H

#include <stdint.h>

#include "libcore/nn/config.h"
#include "libcore/optim/grad_scaler.h"
#include "libcore/optim/lr.h"
#include "libcore/optim/num_microbatches.h"
#include "libcore/topo/geometry.h"
#include "libcore/topo/stages.h"
#include "libcore/train/args.h"
#include "megatron/dtype.h"
#include "megatron/error.h"

/* Sizes that the job gave through the environment (MEGATRON_TP_SIZE ...) are the defaults
 * of the parallel sizes; an argument that contradicts one is an error.
 */
int train_geometry (const struct train_args *args, struct geometry *geometry,
                    struct mg_error *err);

/* The rules of a model's arguments on a geometry (topo/margs.h), whose world may be 0: its rules
 * are then left out.  'data_seq_length' and 'rows' are the length of the samples of a file of
 * batches and the samples of a batch, 0: there is no such file.  -1, EINVAL and a text on the
 * first rule that is broken.
 */
int train_check_rules (const struct train_args *args, const struct geometry *geometry,
                       int data_seq_length, int64_t rows, struct mg_error *err);

/* Read the files of --tokenizer-type and set *size to its vocabulary size; 0 if the argument is
 * not given, or is not needed since --vocab-size is given.
 */
int train_tokenizer_size (const struct train_args *args, int *size, struct mg_error *err);

/* The model that the arguments describe, for a tensor-parallel size. 'data_seq_length' is that
 * of the data where --seq-length was not given (0: unknown), 'tokenizer_size' that of
 * train_tokenizer_size().  Reads no file.
 */
int train_model (const struct train_args *args, int tp, int data_seq_length, int tokenizer_size,
                 struct model_config *model, struct mg_error *err);

/* Layers of every pipeline stage, for the geometry's pipeline.  Leaves the virtual stages
 * that they give in the geometry, whose rules may then be broken.  NULL and a text on
 * failure.
 */
struct stages *train_stages (const struct train_args *args, struct geometry *geometry,
                             struct mg_error *err);

/* Type of parameters and activations. */
enum mg_dtype train_dtype (const struct train_args *args);

/* Type of gradients as they are added up and reduced, by Megatron-LM's rules: float32; with
 * --bf16 --grad-reduce-in-bf16 or --main-grads-dtype bf16 bfloat16; with --fp16 float16, unless
 * --accumulate-allreduce-grads-in-fp32.
 */
enum mg_dtype train_grad_dtype (const struct train_args *args);

/* What the loss is scaled by: dynamic with --fp16, or as --loss-scale says, else 1. */
struct grad_scaler_config train_grad_scaler (const struct train_args *args);

/* Samples of a microbatch. */
int train_micro_batch (const struct train_args *args);

/* Global batch sizes over the run for a data-parallel size. 'rows' are the samples of a
 * batch in a file of them, 0: there is none.  NULL and a text on failure.
 */
struct num_microbatches *train_batches (const struct train_args *args, int dp, int64_t rows,
                                        int seq_length, struct mg_error *err);

/* Iterations of the whole run. */
int64_t train_iterations (const struct train_args *args,
                          const struct num_microbatches *batches);

/* Learning rate and weight decay over samples. */
int train_lr (const struct train_args *args, const struct num_microbatches *batches,
              struct lr_config *lr, struct mg_error *err);

#endif /* LIBCORE_TRAIN_CONFIG_H */
