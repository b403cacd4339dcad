/* hf_dir - a model in a directory as Hugging Face's transformers has it: config.json, and tensors
 * in model.safetensors, or in several files with model.safetensors.index.json.
 */
#ifndef LIBCORE_CHECKPOINT_HF_DIR_H
#define LIBCORE_CHECKPOINT_HF_DIR_H

#include <stdbool.h>

#include "libcore/checkpoint/notes.h"
#include "libcore/checkpoint/weights.h"
#include "libcore/model/names.h"

#define HF_CONFIG_NAME "config.json"

/* All zero: not open. */
struct hf_dir {
    struct notes args; /* that describe the model, see hf_config.h */
    const struct names_scheme *scheme;
    struct safetensors_set set;
};

/* 1 if the path is a directory with a config.json, 0 if it is anything else.  -1 and a text if
 * checkpoints are in that directory, too (EINVAL), or if it has the weights of such a model alone
 * (ENOENT).
 */
int hf_dir_probe (const char *path, struct mg_error *err);

/* Add the arguments of the model to the notes, as hf_dir_open() finds them.  config.json alone has
 * to be there if it speaks of no layers for multi-token prediction.  -1 and a text that names the
 * file.
 */
int hf_dir_read_args (const char *path, struct notes *args, struct mg_error *err);

/* Read config.json and open the files.  -1 and a text that names the file.  The names of tensors
 * say whether the layers for multi-token prediction that config.json speaks of are there, and
 * whether the experts of a layer are in one tensor.
 */
int hf_dir_open (struct hf_dir *d, const char *path, struct mg_error *err);
void hf_dir_close (struct hf_dir *d);

/* The tensors of an open directory. */
struct weights hf_dir_weights (const struct hf_dir *d);

/* Check that no file that hf_dir_save() may write in the directory 'path' is the file 'input' or
 * one in that directory (outfile_check_input()).  Succeeds if there is no directory 'path'.
 */
int hf_dir_check_input (const char *path, const char *input, struct mg_error *err);

/* Write the pieces and the text of a config.json into a directory, which is made if it is missing
 * and must have neither a config.json nor checkpoints; other files of the same names are replaced,
 * so that the call may be repeated after SIGKILL.  A file holds 'max_bytes' of tensors at most, or
 * a single tensor.  config.json is written last.  After a failure, the files that were written are
 * gone, and so they are after leftover_remove_open(): until config.json is there, a descriptor is
 * open for each of them.  One process.
 */
int hf_dir_save (const char *path, const char *config, const struct piece *pieces, size_t n,
                 int64_t max_bytes, struct mg_comm *comm, struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_HF_DIR_H */
