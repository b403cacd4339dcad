/* hf_config - config.json of Hugging Face's models, and the arguments that describe the same model.
 *
 * Files of transformers 4 and 5 can be read.  Files are written in the form of transformers 4,
 * which both versions read.  A field that is not in a file has the default that transformers has
 * for the kind of model.  A setting that no argument can express, and that would change what the
 * model computes, is refused by name.
 *
 * num_nextn_predict_layers becomes mtp-num-layers.  transformers keeps the field when it drops the
 * layers, so hf_dir_open() checks that their tensors are there.
 *
 * Besides arguments, the notes have "hf-model-type" and "hf-config".  The latter has, as
 * JSON, the fields of config.json that do not affect what the model computes.
 */
#ifndef LIBCORE_CHECKPOINT_HF_CONFIG_H
#define LIBCORE_CHECKPOINT_HF_CONFIG_H

#include <stddef.h>

#include "libcore/checkpoint/notes.h"
#include "libcore/model/names.h"
#include "libcore/tensor/piece.h"

/* Add the arguments of a config.json of 'len' bytes to the notes; *scheme gets the names of its
 * tensors.  -1, EINVAL or ENOTSUP and a text that names the field.
 */
int hf_config_parse (const char *text, size_t len, struct notes *args,
                     const struct names_scheme **scheme, struct mg_error *err);

/* The text of a config.json, to be freed, for a model of these arguments, whose tensors have this
 * type.  NULL and a text if no kind of model has them.  Arguments that have no field in
 * config.json are left out.  So the caller must parse the text by hf_config_parse() and
 * compare the arguments.
 */
char *hf_config_format (const struct notes *args, enum mg_dtype dtype,
                        const struct names_scheme **scheme, struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_HF_CONFIG_H */
