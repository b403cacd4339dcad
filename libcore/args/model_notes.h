/* model_notes - the arguments that describe a model, as notes of a file of weights.
 *
 * With these notes, a file of weights describes its model (checkpoint/notes.h).  So
 * training continues, and weights are converted back, without these arguments on the
 * command line.
 */
#ifndef LIBCORE_ARGS_MODEL_NOTES_H
#define LIBCORE_ARGS_MODEL_NOTES_H

#include <stdbool.h>

#include "libcore/checkpoint/notes.h"
#include "libcore/nn/config.h"
#include "libcore/args/args.h"

/* Add the arguments that describe a complete model. */
int model_notes_make (const struct model_config *c, struct notes *notes, struct mg_error *err);

/* True if the notes describe a model. */
bool model_notes_given (const struct notes *notes);

/* Add the notes of a file of weights, of a directory of Hugging Face's, or of the newest checkpoint
 * below a directory (of that iteration, if it is not negative).  -1 and a text, with
 * EINVAL if no notes describe a model.
 */
int model_notes_read (const char *path, int64_t iteration, struct notes *notes,
                      struct mg_error *err);

/* Read the manifest of the newest checkpoint below a directory (of that iteration, if it is not
 * negative).  NULL and a text on failure; manifest_destroy() frees it.
 */
struct manifest;
struct manifest *model_notes_manifest (const char *dir, int64_t iteration, struct mg_error *err);

/* Add the notes of a checkpoint's manifest, which may have none.  -1 and ENOMEM on failure. */
int model_notes_of_manifest (const struct manifest *m, struct notes *notes, struct mg_error *err);

/* Set the arguments that the notes contain.  Other notes are ignored.  The notes must
 * outlive the arguments.  -1 and a text that names the argument.
 */
int model_notes_apply (const struct notes *notes, struct train_args *args, struct mg_error *err);

/* Set *c to the model that the notes describe, with its largest sequence length and
 * without padding of the vocabulary.  The notes must outlive the model.  -1, EINVAL and a
 * text if the notes describe no model.
 */
int model_notes_config (const struct notes *notes, struct model_config *c, struct mg_error *err);

/* Refuse arguments that contradict the notes of 'path': -1, EINVAL and a text that names the
 * argument.  Dropout, the deviation of initial values and, with rotary positions, the
 * number of positions are not compared: they are no properties of the model.
 */
int model_notes_compare (const struct notes *notes, const char *path,
                         const struct train_args *args, struct mg_error *err);

/* Returns the name of the first argument that differs between two complete models, or NULL. */
const char *model_notes_difference (const struct model_config *a, const struct model_config *b);

#endif /* LIBCORE_ARGS_MODEL_NOTES_H */
