/* model_notes_read.c - notes that describe a model, wherever its weights are */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "libcore/checkpoint/checkpoint.h"
#include "libcore/checkpoint/hf_dir.h"
#include "libcore/checkpoint/manifest.h"
#include "libcore/checkpoint/safetensors.h"
#include "libcore/checkpoint/store.h"
#include "libcore/args/model_notes.h"

int model_notes_of_manifest (const struct manifest *m, struct notes *notes, struct mg_error *err)
{
    const char *name;
    json_t *value;

    json_object_foreach (m->values, name, value) {
        if (json_is_string (value) && (train_arg_find (name) || strncmp (name, "hf-", 3) == 0)
            && notes_set (notes, name, json_string_value (value), err) < 0)
            return -1;
    }
    return 0;
}

static int read_file (const char *path, struct notes *notes, struct mg_error *err)
{
    struct safetensors *file = safetensors_open (path, err);
    int rc;

    if (!file)
        return -1;
    rc = notes_add (notes, safetensors_notes (file), err);
    safetensors_close (file);
    return rc;
}

static struct manifest *read_manifest (const char *path, struct mg_error *err)
{
    struct manifest *m = NULL;
    char *text = NULL;
    size_t len;

    if (manifest_read (path, &text, &len, err) < 0)
        return NULL;
    if (!(m = manifest_decode (text, len, err)))
        mg_error_prefix (err, "%s: manifest", path);
    free (text);
    return m;
}

struct manifest *model_notes_manifest (const char *dir, int64_t iteration, struct mg_error *err)
{
    struct manifest *m;
    char *path;

    if (iteration < 0 && (iteration = checkpoint_latest (dir, err)) < 0)
        return NULL;
    if (!(path = store_find (dir, iteration, err)))
        return NULL;
    m = read_manifest (path, err);
    free (path);
    return m;
}

static int read_checkpoint (const char *dir, int64_t iteration, struct notes *notes,
                            struct mg_error *err)
{
    struct manifest *m = model_notes_manifest (dir, iteration, err);
    int rc = m ? model_notes_of_manifest (m, notes, err) : -1;

    manifest_destroy (m);
    return rc;
}

int model_notes_read (const char *path, int64_t iteration, struct notes *notes,
                      struct mg_error *err)
{
    struct stat st;
    int hf, rc;

    if (stat (path, &st) < 0)
        return mg_error_set (err, errno, "%s: %s", path, strerror (errno));
    if ((hf = hf_dir_probe (path, err)) < 0)
        return -1;
    if (!S_ISDIR (st.st_mode))
        rc = read_file (path, notes, err);
    else if (hf)
        rc = hf_dir_read_args (path, notes, err);
    else
        rc = read_checkpoint (path, iteration, notes, err);
    if (rc < 0 || model_notes_given (notes))
        return rc;
    return mg_error_set (err, EINVAL, "%s does not say of which model it is", path);
}
