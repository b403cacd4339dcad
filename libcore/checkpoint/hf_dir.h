/* hf_dir - a model's directory in the form of Hugging Face's transformers: config.json,
 * and tensors in model.safetensors, or in several files with
 * model.safetensors.index.json.
 */
#ifndef LIBCORE_CHECKPOINT_HF_DIR_H
#define LIBCORE_CHECKPOINT_HF_DIR_H

#include <stdbool.h>

#include "libcore/checkpoint/notes.h"
#include "libcore/checkpoint/weights.h"
#include "libcore/model/names.h"

#define HF_CONFIG_NAME "config.json"

/* A struct of zeros is not open. */
struct hf_dir {
    struct notes args; /* arguments that describe the model, see hf_config.h */
    const struct names_scheme *scheme;
    struct safetensors_set set;
};

/* 1 if the path is a directory with a config.json, 0 if it is anything else.  -1 and a text if
 * checkpoints are in that directory, too (EINVAL), or if it has weights of such a model
 * without config.json (ENOENT).
 */
int hf_dir_probe (const char *path, struct mg_error *err);

/* Add the arguments of the model to the notes, as hf_dir_open() finds them.  If
 * config.json has no layers for multi-token prediction, no other file is needed.  -1 and
 * a text that names the file.
 */
int hf_dir_read_args (const char *path, struct notes *args, struct mg_error *err);

/* Read config.json and open the files.  -1 and a text that names the file.  The names of
 * tensors decide whether the layers for multi-token prediction of config.json exist, and
 * whether the experts of a layer are in one tensor.
 */
int hf_dir_open (struct hf_dir *d, const char *path, struct mg_error *err);
void hf_dir_close (struct hf_dir *d);

/* The tensors of an open directory. */
struct weights hf_dir_weights (const struct hf_dir *d);

/* Check that no file that hf_dir_save() may write in the directory 'path' is the file
 * 'input' or a file in the directory 'input' (outfile_check_input()).  Succeeds if there
 * is no directory 'path'.
 */
int hf_dir_check_input (const char *path, const char *input, struct mg_error *err);

/* Write the pieces and the text of a config.json into a directory, which is made if it is missing
 * and must have neither a config.json nor checkpoints; other files of the same names are replaced,
 * so that the call may be repeated after SIGKILL.  A file holds 'max_bytes' of tensors at most, or
 * a single tensor.  config.json is written last.  A failure removes the files that were
 * written.  leftover_remove_open() removes them, too, since a descriptor stays open for
 * each of them until config.json is written.  Called in one process.
 */
int hf_dir_save (const char *path, const char *config, const struct piece *pieces, size_t n,
                 int64_t max_bytes, struct mg_comm *comm, struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_HF_DIR_H */
