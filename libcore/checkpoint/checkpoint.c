/* checkpoint.c - find checkpoints, and remove old ones
 *
 * A checkpoint is complete if its manifest is good and every shard has its length.  The newest
 * complete one is never removed, and nothing here changes a checkpoint.
 */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "libcore/checkpoint/checkpoint.h"
#include "libcore/checkpoint/manifest.h"
#include "libcore/checkpoint/manifest_format.h"
#include "libcore/checkpoint/store.h"
#include "libcore/file/durable.h"

/* Check that a checkpoint is complete: a good manifest, and every shard with its length.
 * Returns 1 if so, 0 if a file is missing, truncated, damaged or foreign, -1 with a text
 * if this cannot be found out.
 */
static int is_complete (const char *path, int64_t iteration, struct mg_error *err)
{
    struct manifest *m = NULL;
    char *text = NULL;
    size_t len;
    int rc = -1, errnum;

    if (manifest_read (path, &text, &len, err) < 0)
        goto done;
    if (!(m = manifest_decode (text, len, err))) {
        mg_error_prefix (err, "%s: manifest", path);
        goto done;
    }
    if (m->id.iteration != iteration)
        mg_error_set (err, EBADMSG, "%s: manifest: it is of iteration %" PRId64, path,
                      m->id.iteration);
    else
        rc = manifest_check_shards (m, path, err);
done:
    errnum = errno;
    manifest_destroy (m);
    free (text);
    if (rc == 0)
        return 1;
    if (errnum == ENOENT || errnum == EBADMSG || errnum == ENOTDIR)
        return 0;
    errno = errnum;
    return -1;
}

/* The same for an iteration by its number. */
static int has_complete (const char *dir, int64_t iteration, struct mg_error *err)
{
    char *path;
    int rc;

    if (!(path = store_find (dir, iteration, err)))
        return errno == ENOENT ? 0 : -1;
    rc = is_complete (path, iteration, err);
    free (path);
    return rc;
}

/* Returns the highest complete iteration, or -1 if there is none.  *why, if it is empty,
 * becomes the reason for the first incomplete one.  -2 if this cannot be found out.
 */
static int64_t highest (const char *dir, struct mg_error *why, struct mg_error *err)
{
    struct store_entry *entries;
    int64_t found = -1;
    size_t n;
    int rc = 0;

    if (store_scan (dir, &entries, &n, err) < 0)
        return -2;
    for (size_t i = 0; rc >= 0 && found < 0 && i < n; i++) {
        if (entries[i].kind == STORE_TMP)
            continue;
        rc = has_complete (dir, entries[i].iteration, err);
        if (rc > 0)
            found = entries[i].iteration;
        else if (rc == 0 && !why->text[0])
            *why = *err;
    }
    free (entries);
    return rc < 0 ? -2 : found;
}

/* True if 'dir' is one checkpoint.  The directory that holds it is wanted. */
static bool is_checkpoint (const char *dir)
{
    char path[PATH_MAX];

    return snprintf (path, sizeof (path), "%s/%s", dir, MANIFEST_NAME) < PATH_MAX
           && access (path, F_OK) == 0;
}

int64_t checkpoint_latest (const char *dir, struct mg_error *err)
{
    struct mg_error why = { .text = "" }, other;
    int64_t found = -1;
    int rc;

    if (!err)
        err = &other;
    rc = store_read_latest (dir, &found, err);
    if (rc < 0 && errno != ENOENT && errno != EBADMSG)
        return -1;
    if (rc == 0)
        rc = has_complete (dir, found, err);
    else
        rc = errno == EBADMSG ? 0 : -2; // -2: there is none
    if (rc == -1)
        return -1;
    if (rc == 0)
        why = *err;
    if (rc <= 0)
        found = highest (dir, &why, err);
    if (found == -1 && why.text[0])
        mg_error_set (err, EBADMSG, "%s: no complete checkpoint there: %s", dir, why.text);
    else if (found == -1 && is_checkpoint (dir))
        mg_error_set (err, EINVAL, "%s is a checkpoint itself: want the directory that it is in",
                      dir);
    else if (found == -1)
        mg_error_set (err, ENOENT, "%s: no complete checkpoint there", dir);
    else if (found >= 0)
        *err = why;
    return found < 0 ? -1 : found;
}

/* Sort, newest first: the checkpoint of the latest file, then lower iterations, then
 * higher iterations of an abandoned continuation.
 */
static bool is_newer (int64_t a, int64_t b, int64_t latest)
{
    if ((a <= latest) != (b <= latest))
        return a <= latest;
    return a > b;
}

/* Remove checkpoint 'i' of the list if enough complete ones are newer. */
static int prune_one (const char *dir, const struct store_entry *list,
                      const bool *complete, size_t n, size_t i, int64_t latest,
                      const struct checkpoint_keep *keep, struct mg_error *err)
{
    int64_t newer = 0;

    if (keep->every > 0 && list[i].iteration % keep->every == 0)
        return 0;
    for (size_t k = 0; k < n; k++)
        newer += k != i && complete[k]
                 && is_newer (list[k].iteration, list[i].iteration, latest);
    return newer >= keep->last ? store_remove (dir, &list[i], err) : 0;
}

int checkpoint_prune (const char *dir, const struct checkpoint_keep *keep,
                      struct mg_error *err)
{
    struct store_entry *list = NULL;
    bool *complete = NULL;
    int64_t latest;
    size_t n;
    int rc = -1;

    if (keep->last < 0 || keep->every < 0)
        return mg_error_set (err, EINVAL, "%s: cannot keep the last %" PRId64 " checkpoints and"
                             " those of every %" PRId64 " iterations", dir, keep->last,
                             keep->every);
    if (store_clean (dir, err) < 0)
        return -1;
    if (keep->last == 0)
        return 0;
    latest = checkpoint_latest (dir, err);
    if (latest < 0)
        return errno == ENOENT || errno == EBADMSG ? 0 : -1; /* nothing is complete */
    if (store_scan (dir, &list, &n, err) < 0)
        return -1;
    if (!(complete = calloc (n + 1, sizeof (*complete)))) {
        mg_error_set (err, ENOMEM, "%s: out of memory", dir);
        goto done;
    }
    for (size_t i = 0; i < n; i++) {
        int there = list[i].kind == STORE_CHECKPOINT
                        ? has_complete (dir, list[i].iteration, err)
                        : 0;

        if (there < 0 && errno != ENOTSUP) /* a checkpoint of another version is not judged */
            goto done;
        complete[i] = there > 0;
    }
    rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (complete[i])
            rc = prune_one (dir, list, complete, n, i, latest, keep, err);
    }
done:
    free (complete);
    free (list);
    return rc;
}
