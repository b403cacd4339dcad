/* config_model - which variants of a transformer layer the arguments ask for. */
#ifndef LIBCORE_TRAIN_CONFIG_MODEL_H
#define LIBCORE_TRAIN_CONFIG_MODEL_H

#include "libcore/nn/config.h"
#include "libcore/train/args.h"

/* Fill in norms, activation, heads, windows, positions and experts of a model whose sizes are
 * known.  The arguments' texts must outlive it.  -1, EINVAL or ENOTSUP and a text that names the
 * argument.
 */
int train_model_variants (const struct train_args *args, struct model_config *m,
                          struct mg_error *err);

/* Of that, the experts, for a model whose number of layers and MLP size are known. */
int train_model_moe (const struct train_args *args, struct model_config *m, struct mg_error *err);

#endif /* LIBCORE_TRAIN_CONFIG_MODEL_H */
