/* store.c - directories of checkpoints
 *
 * Only names of our own forms are read or removed.  A directory gets a checkpoint's name
 * only when it is complete; the old checkpoint of the same iteration is first renamed,
 * and removed only when the new one and the latest file are in place.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/base/parse.h"
#include "libcore/checkpoint/manifest_format.h"
#include "libcore/checkpoint/shard.h"
#include "libcore/checkpoint/store.h"
#include "libcore/file/outfile.h"

static const char latest[] = "latest_checkpointed_iteration.txt";

enum { LATEST_MAX = 64 }; /* bytes of that file */

void store_name (char *name, enum store_kind kind, int64_t iteration, const char *id)
{
    static const char *const suffix[] = { "", "", ".old-", ".tmp-" };

    snprintf (name, STORE_NAME_MAX, "iter_%07" PRId64 "%s%s", iteration, suffix[kind],
              kind == STORE_CHECKPOINT ? "" : id);
}

static bool is_id (const char *text)
{
    return strlen (text) == DURABLE_ID_MAX - 1
           && strspn (text, "0123456789abcdef") == DURABLE_ID_MAX - 1;
}

/* The part after the name itself. */
static enum store_kind parse_suffix (const char *suffix)
{
    if (*suffix == '\0')
        return STORE_CHECKPOINT;
    if (strncmp (suffix, ".tmp-", 5) == 0 && is_id (suffix + 5))
        return STORE_TMP;
    if (strncmp (suffix, ".old-", 5) == 0 && is_id (suffix + 5))
        return STORE_OLD;
    return STORE_OTHER;
}

enum store_kind store_parse (const char *name, struct store_entry *entry)
{
    char digits[24], again[STORE_NAME_MAX];
    size_t n;

    *entry = (struct store_entry){ .kind = STORE_OTHER, .iteration = -1 };
    if (strlen (name) >= STORE_NAME_MAX)
        return STORE_OTHER;
    snprintf (entry->name, sizeof (entry->name), "%s", name);
    if (strncmp (name, latest, sizeof (latest) - 1) == 0) {
        if (parse_suffix (name + sizeof (latest) - 1) == STORE_TMP)
            entry->kind = STORE_TMP;
        return entry->kind;
    }
    if (strncmp (name, "iter_", 5) != 0)
        return STORE_OTHER;
    n = strspn (name + 5, "0123456789");
    if (n >= sizeof (digits))
        return STORE_OTHER;
    memcpy (digits, name + 5, n);
    digits[n] = '\0';
    if (parse_int64 ("iteration", digits, 0, INT64_MAX, &entry->iteration, NULL) < 0)
        return STORE_OTHER;
    store_name (again, STORE_CHECKPOINT, entry->iteration, NULL);
    if (strlen (again) == 5 + n) /* else with more zeros than we write */
        entry->kind = parse_suffix (name + 5 + n);
    return entry->kind;
}

static int compare_entries (const void *a, const void *b)
{
    const struct store_entry *x = a, *y = b;

    if (x->iteration != y->iteration)
        return x->iteration > y->iteration ? -1 : 1;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp (x->name, y->name);
}

static int read_entries (DIR *d, struct store_entry **entries, size_t *n)
{
    struct store_entry entry, *more;
    struct dirent *found;
    size_t max = 0;

    while ((errno = 0, found = readdir (d))) {
        if (store_parse (found->d_name, &entry) == STORE_OTHER)
            continue;
        if (*n == max) {
            max = max * 2 + 16;
            if (!(more = realloc (*entries, max * sizeof (*more)))) {
                errno = ENOMEM;
                return -1;
            }
            *entries = more;
        }
        (*entries)[(*n)++] = entry;
    }
    return errno ? -1 : 0;
}

int store_scan (const char *dir, struct store_entry **entries, size_t *n,
                struct mg_error *err)
{
    DIR *d = opendir (dir);
    int rc, errnum;

    *entries = NULL;
    *n = 0;
    if (!d)
        return mg_error_set (err, errno, "cannot open %s: %s", dir, strerror (errno));
    rc = read_entries (d, entries, n);
    errnum = errno;
    closedir (d);
    if (rc < 0) {
        free (*entries);
        *entries = NULL;
        return mg_error_set (err, errnum, "cannot read %s: %s", dir, strerror (errnum));
    }
    if (*n > 1)
        qsort (*entries, *n, sizeof (**entries), compare_entries);
    return 0;
}

int store_read_latest (const char *dir, int64_t *iteration, struct mg_error *err)
{
    char *path, *text;
    size_t len;
    int rc;

    if (!(path = durable_path (err, "%s/%s", dir, latest)))
        return -1;
    rc = durable_read (path, LATEST_MAX, &text, &len, err);
    if (rc == 0) {
        text[strcspn (text, "\r\n \t")] = '\0';
        rc = parse_int64 (path, text, 0, INT64_MAX, iteration, err);
        free (text);
    }
    if (rc < 0 && (errno == EINVAL || errno == ERANGE || errno == EFBIG))
        errno = EBADMSG;
    free (path);
    return rc;
}

int store_check_input (const char *dir, const char *input, struct mg_error *err)
{
    char *path = durable_path (err, "%s/%s", dir, latest);
    int rc = path ? outfile_check_input (path, input, err) : -1;

    free (path);
    return rc;
}

static bool exists (const char *path)
{
    struct stat st;

    return lstat (path, &st) == 0;
}

char *store_find (const char *dir, int64_t iteration, struct mg_error *err)
{
    struct store_entry *entries;
    char *path = NULL;
    size_t n, i;

    if (store_scan (dir, &entries, &n, err) < 0)
        return NULL;
    for (i = 0; i < n; i++) {
        if (entries[i].iteration == iteration && entries[i].kind != STORE_TMP)
            break;
    }
    if (i < n)
        path = durable_path (err, "%s/%s", dir, entries[i].name);
    else
        mg_error_set (err, ENOENT, "%s: no checkpoint of iteration %" PRId64, dir,
                      iteration);
    free (entries);
    return path;
}

/* Unlink our files in a directory that is open.  A link of such a name is unlinked itself. */
static int empty_dir (DIR *d)
{
    struct dirent *found;

    while ((errno = 0, found = readdir (d))) {
        if ((strcmp (found->d_name, MANIFEST_NAME) == 0
             || shard_rank (found->d_name) >= 0)
            && unlinkat (dirfd (d), found->d_name, 0) < 0)
            return -1;
    }
    return errno ? -1 : 0;
}

/* Remove 'name' of the directory that is open as 'at'.  A link is removed, and what it leads to
 * stays: others may write in that directory, and may put a link in the place of ours at any time.
 */
static int remove_at (int at, const char *name)
{
    int fd = openat (at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), rc, errnum;
    struct stat st;
    DIR *d;

    if (fd < 0) {
        errnum = errno;
        if (fstatat (at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK (st.st_mode))
            return unlinkat (at, name, 0);
        errno = errnum;
        return -1;
    }
    if (!(d = fdopendir (fd))) {
        errnum = errno;
        close (fd);
        errno = errnum;
        return -1;
    }
    rc = empty_dir (d);
    errnum = errno;
    closedir (d);
    errno = errnum;
    return rc < 0 ? -1 : unlinkat (at, name, AT_REMOVEDIR);
}

static int remove_entry (const char *dir, const char *name, struct mg_error *err)
{
    int at = open (dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc, errnum;

    rc = at < 0 ? -1 : remove_at (at, name);
    errnum = errno;
    if (at >= 0)
        close (at);
    errno = errnum;
    return rc == 0 ? 0
                   : mg_error_set (err, errno, "cannot remove %s/%s: %s", dir, name,
                                   strerror (errno));
}

int store_remove (const char *dir, const struct store_entry *entry, struct mg_error *err)
{
    char name[STORE_NAME_MAX], id[DURABLE_ID_MAX];
    char *path = NULL, *hidden = NULL;
    int rc = -1;

    if (!(path = durable_path (err, "%s/%s", dir, entry->name)))
        return -1;
    if (entry->kind == STORE_TMP && entry->iteration < 0) {
        rc = unlink (path);
        if (rc < 0)
            mg_error_set (err, errno, "cannot remove %s: %s", path, strerror (errno));
    }
    else {
        /* Files are removed only when no reader can find them by a checkpoint's name after a
         * crash.  A save that has failed has just given up such a name.
         */
        if (entry->kind != STORE_TMP) {
            durable_make_id (id);
            store_name (name, STORE_TMP, entry->iteration, id);
            if (!(hidden = durable_path (err, "%s/%s", dir, name))
                || durable_rename (path, hidden, err) < 0)
                goto done;
        }
        rc = durable_sync_dir (dir, err);
        if (rc == 0)
            rc = remove_entry (dir, hidden ? name : entry->name, err);
    }
done:
    free (path);
    free (hidden);
    return rc;
}

static int clean_one (const char *dir, const struct store_entry *entry,
                      struct mg_error *err)
{
    char name[STORE_NAME_MAX];
    char *path, *proper = NULL;
    int rc = -1;

    if (entry->kind == STORE_TMP)
        return store_remove (dir, entry, err);
    store_name (name, STORE_CHECKPOINT, entry->iteration, NULL);
    if ((path = durable_path (err, "%s/%s", dir, entry->name))
        && (proper = durable_path (err, "%s/%s", dir, name)))
        rc = exists (proper) ? store_remove (dir, entry, err)
                             : durable_rename (path, proper, err);
    free (path);
    free (proper);
    return rc;
}

int store_clean (const char *dir, struct mg_error *err)
{
    struct store_entry *entries;
    int rc = 0, errnum = 0;
    size_t n;

    if (store_scan (dir, &entries, &n, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (entries[i].kind != STORE_CHECKPOINT
            && clean_one (dir, &entries[i], rc < 0 ? NULL : err) < 0 && rc == 0) {
            rc = -1;
            errnum = errno;
        }
    }
    free (entries);
    errno = errnum;
    return rc;
}

/* The latest file as it was: its text, NULL if there was none. */
struct before {
    char *text;
    size_t len;
};

/* Read the latest file.  Anything but a small regular file counts as none: the write refuses it. */
static int read_before (const char *path, struct before *before, struct mg_error *err)
{
    struct mg_error unseen;

    *before = (struct before){ .text = NULL };
    if (durable_read (path, LATEST_MAX, &before->text, &before->len, &unseen) == 0
        || errno == ENOENT || errno == EINVAL || errno == EFBIG)
        return 0;
    return mg_error_set (err, errno, "%s", unseen.text);
}

/* Restore the old text of the latest file. */
static int restore_latest (const char *path, const struct before *before)
{
    struct outfile f;
    int rc;

    if (!before->text)
        return unlink (path) == 0 || errno == ENOENT ? 0 : -1;
    if (outfile_create (&f, path, OUTFILE_WHOLE, NULL) < 0)
        return -1;
    rc = durable_write (f.fd, path, before->text, before->len, NULL);
    if (rc == 0)
        rc = outfile_finish (&f, NULL);
    if (rc == 0)
        rc = outfile_publish (&f, NULL);
    outfile_drop (&f);
    return rc;
}

/* Write the number into the latest file.  1: this failed, and the file has the new number, since
 * the old text could not be written back.
 */
static int write_latest (const char *dir, int64_t iteration, struct mg_error *err)
{
    char text[LATEST_MAX], *path;
    struct before before;
    int rc = -1, errnum;

    if (!(path = durable_path (err, "%s/%s", dir, latest)))
        return -1;
    snprintf (text, sizeof (text), "%" PRId64 "\n", iteration);
    if (read_before (path, &before, err) == 0) {
        int64_t found;

        rc = outfile_replace (path, text, strlen (text), err);
        errnum = errno;
        /* An error that came after the rename: the new number is there. */
        if (rc < 0 && store_read_latest (dir, &found, NULL) == 0 && found == iteration
            && !(before.text && strcmp (before.text, text) == 0)) {
            if (restore_latest (path, &before) < 0)
                rc = 1;
            else /* best effort, after an error */
                durable_sync_dir (dir, NULL);
        }
        errno = errnum;
        free (before.text);
    }
    free (path);
    return rc;
}

/* Make the two renames and write the new number.  If one of these steps fails, undo the others.
 * The old number is written back before the renames are undone, so that the latest file never names
 * a checkpoint that does not exist.  If the old number cannot be written back, the renames are not
 * undone: the new checkpoint keeps its name, and the latest file still names it.
 */
static int swap (const char *fresh, const char *proper, const char *aside,
                 const char *dir, int64_t iteration, struct mg_error *err)
{
    const bool replaces = exists (proper);
    int errnum, rc = -1;

    if (replaces && durable_rename (proper, aside, err) < 0)
        return -1;
    if (durable_rename (fresh, proper, err) == 0) {
        if (durable_sync_dir (dir, err) == 0)
            rc = write_latest (dir, iteration, err);
        if (rc >= 0)
            return rc == 0 ? 0 : -1;
        errnum = errno;
        rename (proper, fresh);
    }
    else
        errnum = errno;
    if (replaces)
        rename (aside, proper);
    errno = errnum;
    return -1;
}

int store_publish (const char *dir, const char *tmp, int64_t iteration, const char *id,
                   struct mg_error *err)
{
    struct store_entry old = { .kind = STORE_OLD, .iteration = iteration };
    char name[STORE_NAME_MAX];
    char *fresh = NULL, *proper = NULL, *aside = NULL;
    int rc = -1;

    store_name (name, STORE_CHECKPOINT, iteration, NULL);
    store_name (old.name, STORE_OLD, iteration, id);
    if (!(fresh = durable_path (err, "%s/%s", dir, tmp))
        || !(proper = durable_path (err, "%s/%s", dir, name))
        || !(aside = durable_path (err, "%s/%s", dir, old.name)))
        goto done;
    rc = swap (fresh, proper, aside, dir, iteration, err);
    if (rc == 0 && exists (aside))
        store_remove (dir, &old, NULL); /* if it stays, the next save tries again */
done:
    free (fresh);
    free (proper);
    free (aside);
    return rc;
}
