/* checkpoint.c - megatron checkpoint: the table of its parts, and what they share
 *
 * Finds the part by its name and runs it.  The options that parts share, and the search for one
 * checkpoint in a directory, are here.  checkpoint_find() also accepts the path of a single
 * checkpoint, iter_NNNNNNN.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/checkpoint/checkpoint.h"
#include "cmd/cmd.h"
#include "libcore/base/parse.h"
#include "libcore/checkpoint/manifest.h"
#include "libcore/checkpoint/store.h"

/* In the order of --help, closed by a row without a name. */
static const struct cmd_part parts[] = {
    { "inspect", "what is in a checkpoint", checkpoint_inspect },
    { "verify", "read all of a checkpoint, tell what is wrong", checkpoint_verify },
    { "convert", "checkpoints and files of weights", checkpoint_convert },
    { NULL, NULL, NULL },
};

static int set_dir (void *target, const struct cmd_option *option, const char *what,
                    const char *value, struct mg_error *err)
{
    struct checkpoint_common *common = target;

    (void)option;
    if (common->dir)
        return mg_error_set (err, EINVAL, "%s: \"%.60s\" is one too many", what, value);
    common->dir = value;
    return 0;
}

const struct cmd_option checkpoint_common_options[] = {
    { .name = "", .arg = "DIR",
      .help = "a checkpoint, or the directory that checkpoints are saved in",
      .set = set_dir, .required = true },
    { .name = "iteration", .arg = "N",
      .help = "the checkpoint of iteration N (default the latest)", .set = cmd_set_int64,
      .at = offsetof (struct checkpoint_common, iteration), .min = 0, .max = INT64_MAX },
    { .name = "json", .help = "print JSON", .set = cmd_set_flag,
      .at = offsetof (struct checkpoint_common, json) },
    { .name = "help", .help = "print this help", .set = cmd_set_flag,
      .at = offsetof (struct checkpoint_common, help) },
    { .name = NULL },
};

/* Set the iteration of the latest checkpoint in 'dir'. */
static int choose_iteration (const char *dir, int64_t *iteration, struct mg_error *err)
{
    struct store_entry *entries;
    size_t n;
    int rc = -1;

    if (store_read_latest (dir, iteration, err) == 0)
        return 0;
    if (errno != ENOENT && errno != EBADMSG)
        return -1;
    if (store_scan (dir, &entries, &n, err) < 0)
        return -1;
    for (size_t i = 0; rc < 0 && i < n; i++) {
        if (entries[i].kind != STORE_TMP) {
            *iteration = entries[i].iteration;
            rc = 0;
        }
    }
    free (entries);
    return rc < 0 ? mg_error_set (err, ENOENT, "%s: no checkpoint there", dir) : 0;
}

/* Cut a path without slashes at its end into the directory and the last name. */
static const char *split (char *path, const char **dir)
{
    char *slash = strrchr (path, '/');

    if (!slash) {
        *dir = ".";
        return path;
    }
    *slash = '\0';
    *dir = slash == path ? "/" : path;
    return slash + 1;
}

/* 'name' is a checkpoint's own directory. */
static int find_own (const char *name, const char *dir, int64_t iteration,
                     const struct store_entry *entry, struct checkpoint_place *place,
                     struct mg_error *err)
{
    if (iteration >= 0 && iteration != entry->iteration)
        return mg_error_set (err, EINVAL, "%s is not of iteration %" PRId64, name,
                             iteration);
    place->iteration = entry->iteration;
    if (!(place->dir = strdup (dir)) || !(place->path = strdup (name)))
        return mg_error_set (err, ENOMEM, "out of memory");
    return 0;
}

int checkpoint_find (const char *name, int64_t iteration, struct checkpoint_place *place,
                     struct mg_error *err)
{
    struct store_entry entry;
    const char *dir, *last;
    char *copy = strdup (name);
    int rc;

    *place = (struct checkpoint_place){ .iteration = iteration };
    if (!copy)
        return mg_error_set (err, ENOMEM, "out of memory");
    for (size_t n = strlen (copy); n > 1 && copy[n - 1] == '/'; n--)
        copy[n - 1] = '\0';
    last = split (copy, &dir);
    if (store_parse (last, &entry) == STORE_CHECKPOINT)
        rc = find_own (name, dir, iteration, &entry, place, err);
    else {
        rc = iteration >= 0 ? 0 : choose_iteration (name, &place->iteration, err);
        if (rc == 0 && !(place->path = store_find (name, place->iteration, err)))
            rc = -1;
        if (rc == 0 && !(place->dir = strdup (name)))
            rc = mg_error_set (err, ENOMEM, "out of memory");
    }
    free (copy);
    if (rc < 0)
        checkpoint_release (place);
    return rc;
}

void checkpoint_release (struct checkpoint_place *place)
{
    int saved_errno = errno;

    free (place->dir);
    free (place->path);
    *place = (struct checkpoint_place){ .iteration = -1 };
    errno = saved_errno;
}

struct manifest *checkpoint_manifest (const struct checkpoint_place *place,
                                      struct mg_error *err)
{
    struct manifest *m;
    char *text;
    size_t len;

    if (manifest_read (place->path, &text, &len, err) < 0)
        return NULL;
    m = manifest_decode (text, len, err);
    free (text);
    if (!m)
        mg_error_prefix (err, "%s: manifest", place->path);
    return m;
}

int checkpoint_usage_error (const char *part, const struct mg_error *err)
{
    return cmd_part_usage ("checkpoint", part, err->text);
}

int checkpoint_failure (const char *part, const struct mg_error *err)
{
    fprintf (stderr, "megatron: checkpoint %s: %s\n", part, err->text);
    return CHECKPOINT_FAILED;
}

int cmd_checkpoint (int argc, char **argv)
{
    static const char purpose[] = "Look at checkpoints, check and convert them.";

    return cmd_part_run ("checkpoint", purpose, parts, argc, argv);
}
