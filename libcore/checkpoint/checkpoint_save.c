/* checkpoint_save.c - write a checkpoint
 *
 * All ranks send descriptions of their pieces to rank 0; rank 0 makes the temporary
 * directory; every rank writes its shard into it; rank 0 writes the manifest and renames
 * the directory.  After each of these steps the ranks agree on the result.  Only the
 * writing of shards has no messages, and uses only data of the save.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "libcore/checkpoint/checkpoint.h"
#include "libcore/checkpoint/leftover.h"
#include "libcore/checkpoint/manifest.h"
#include "libcore/checkpoint/manifest_format.h"
#include "libcore/checkpoint/roster.h"
#include "libcore/checkpoint/shard.h"
#include "libcore/checkpoint/store.h"
#include "libcore/comm/exchange.h"
#include "libcore/file/durable.h"

struct checkpoint_save {
    char *dir;
    struct mg_comm *comm;
    int rank;
    struct piece *pieces;
    size_t n;
    struct shard_id id;
    struct store_entry tmp; /* the directory being filled */
    char *path;             /* its path */
    bool made;              /* by this rank */
    int held;               /* leftover_hold_dir() of it, or -1 */
    struct manifest *manifest; /* rank 0's */
    uint64_t *sums; /* of this rank's shard */
    size_t num_sums;
    int rc, errnum; /* result of writing the shard */
    struct mg_error why;
};

/* The state of rank 0 while it receives the ranks' checksums, in rank order. */
struct taking {
    struct manifest *manifest;
    struct roster_ref *refs;
    size_t num_refs, next;
};

static int make_manifest (struct checkpoint_save *s, struct roster *roster,
                          const struct checkpoint_value *values, struct mg_error *err)
{
    struct manifest *m;

    if (!(m = calloc (1, sizeof (*m)))) {
        roster_destroy (roster);
        return mg_error_set (err, ENOMEM, "out of memory");
    }
    s->manifest = m;
    m->roster = roster;
    m->slab_bytes = SHARD_SLAB_BYTES;
    m->id = s->id;
    m->shards = calloc ((size_t)mg_comm_size (s->comm), sizeof (*m->shards));
    m->values = json_object ();
    if (!m->shards || !m->values)
        return mg_error_set (err, ENOMEM, "out of memory");
    return manifest_set_values (m, values, err);
}

/* Rank 0: the directory to fill, and no leftovers of earlier saves beside it. */
static int make_directory (struct checkpoint_save *s, struct mg_error *err)
{
    if (durable_make_dirs (s->dir, err) < 0)
        return -1;
    store_clean (s->dir, NULL); /* leftovers that cannot be removed do no harm */
    if (mkdir (s->path, 0777) < 0)
        return mg_error_set (err, errno, "cannot create %s: %s", s->path,
                             strerror (errno));
    s->made = true;
    s->held = leftover_hold_dir (s->path);
    return 0;
}

/* Agree on the save's id and with it on the directory. */
static int agree (struct checkpoint_save *s, struct roster *roster,
                  const struct checkpoint_value *values, struct mg_error *err)
{
    const bool root = s->rank == 0;
    int rc = 0;

    if (root)
        durable_make_id (s->id.save);
    if (mg_comm_broadcast (s->comm, s->id.save, sizeof (s->id.save), MG_UINT8, 0, NULL,
                           err) < 0) {
        roster_destroy (roster);
        return -1;
    }
    s->tmp = (struct store_entry){ .kind = STORE_TMP, .iteration = s->id.iteration };
    store_name (s->tmp.name, STORE_TMP, s->id.iteration, s->id.save);
    s->path = durable_path (err, "%s/%s", s->dir, s->tmp.name);
    if (root)
        rc = make_manifest (s, roster, values, err);
    if (!s->path)
        rc = mg_error_set (err, ENOMEM, "out of memory");
    if (root && rc == 0)
        rc = make_directory (s, err);
    return exchange_result (s->comm, rc, err);
}

/* Rank 0: a rank's checksums go to its parts, whose places in the shard follow from their
 * order and sizes.
 */
static int copy_sums (void *arg, int rank, const void *data, size_t len,
                      struct mg_error *err)
{
    struct taking *t = arg;
    const char *at = data;
    int64_t end = 0;

    for (; t->next < t->num_refs && t->refs[t->next].part->rank == rank; t->next++) {
        struct roster_part *part = t->refs[t->next].part;
        const size_t element = mg_dtype_size (t->refs[t->next].tensor->dtype);
        size_t bytes;

        part->num_sums = box_num_slabs (part->box,
                                        shard_slab (SHARD_SLAB_BYTES, element));
        bytes = (size_t)part->num_sums * sizeof (*part->sums);
        if (bytes > len || !shard_place (&end, box_count (part->box) * (int64_t)element,
                                         &part->offset))
            return mg_error_set (err, EPROTO, "rank %d: its list of checksums is cut",
                                 rank);
        if (!(part->sums = malloc (bytes)))
            return mg_error_set (err, ENOMEM, "out of memory");
        memcpy (part->sums, at, bytes);
        at += bytes;
        len -= bytes;
    }
    if (end > 0)
        t->manifest->shards[t->manifest->num_shards++]
            = (struct manifest_shard){ rank, end };
    return 0;
}

static int gather_sums (struct checkpoint_save *s, struct mg_error *err)
{
    struct taking t = { .manifest = s->manifest };
    int rc = 0;

    if (s->manifest && !(t.refs = roster_by_rank (s->manifest->roster, &t.num_refs, err)))
        rc = -1;
    rc = exchange_result (s->comm, rc, err);
    if (rc == 0)
        rc = exchange_gather (s->comm, s->sums, s->num_sums * sizeof (*s->sums),
                              copy_sums, &t, err);
    free (t.refs);
    return rc;
}

static int write_file (const char *path, const char *text, size_t len,
                       struct mg_error *err)
{
    int fd, rc;

    if ((fd = durable_create (path, err)) < 0)
        return -1;
    rc = durable_write (fd, path, text, len, err);
    if (rc < 0)
        durable_close (fd, path, NULL);
    else
        rc = durable_close (fd, path, err);
    return rc;
}

/* Rank 0: the manifest, then the name. */
static int publish (struct checkpoint_save *s, struct mg_error *err)
{
    char *text, *path = NULL;
    size_t len;
    int rc = -1;

    if (manifest_check_shards (s->manifest, s->path, err) < 0
        || !(text = manifest_encode (s->manifest, &len, err)))
        return -1;
    if ((path = durable_path (err, "%s/" MANIFEST_NAME, s->path))
        && write_file (path, text, len, err) == 0
        && durable_sync_dir (s->path, err) == 0)
        rc = store_publish (s->dir, s->tmp.name, s->id.iteration, s->id.save, err);
    free (text);
    free (path);
    return rc;
}

/* Free everything and keep errno; rank 0 removes the files of a failed save. */
static void end (struct checkpoint_save *s, int rc)
{
    int saved_errno = errno;

    if (!s)
        return;
    if (s->made && rc < 0)
        store_remove (s->dir, &s->tmp, NULL);
    if (s->held >= 0)
        close (s->held);
    manifest_destroy (s->manifest);
    free (s->dir);
    free (s->pieces);
    free (s->path);
    free (s->sums);
    free (s);
    errno = saved_errno;
}

static int not_saved (struct mg_error *err, int64_t iteration, const struct mg_error *why)
{
    return mg_error_set (err, errno, "checkpoint %" PRId64 " not saved: %s", iteration,
                         why->text);
}

/* A save of which nothing is done yet. */
static struct checkpoint_save *prepare (const char *dir, int64_t iteration,
                                        const struct piece *pieces, size_t n,
                                        struct mg_comm *comm)
{
    struct checkpoint_save *s;

    if (!(s = calloc (1, sizeof (*s))))
        return NULL;
    s->held = -1;
    s->comm = comm;
    s->rank = mg_comm_rank (comm);
    s->id.iteration = iteration;
    s->n = n;
    if (!(s->dir = strdup (dir)) || !(s->pieces = calloc (n + 1, sizeof (*pieces)))) {
        end (s, 0);
        return NULL;
    }
    if (n > 0)
        memcpy (s->pieces, pieces, n * sizeof (*pieces));
    return s;
}

struct checkpoint_save *checkpoint_save_begin (const char *dir, int64_t iteration,
                                               const struct checkpoint_value *values,
                                               const struct piece *pieces, size_t n,
                                               struct mg_comm *comm, struct mg_error *err)
{
    struct checkpoint_save *s = prepare (dir, iteration, pieces, n, comm);
    struct roster *roster = NULL;
    struct mg_error why;
    int rc = 0;

    if (!s)
        rc = mg_error_set (&why, ENOMEM, "out of memory");
    else if (iteration < 0)
        rc = mg_error_set (&why, EINVAL, "no such iteration");
    rc = exchange_result (comm, rc, &why);
    if (rc == 0)
        rc = roster_gather (s->pieces, n, comm, &roster, &why);
    if (rc == 0)
        rc = agree (s, roster, values, &why);
    if (rc == 0)
        return s;
    end (s, rc);
    not_saved (err, iteration, &why);
    return NULL;
}

void checkpoint_save_write (struct checkpoint_save *s)
{
    char name[SHARD_NAME_MAX], *path;

    shard_name (name, s->rank);
    if (!(path = durable_path (&s->why, "%s/%s", s->path, name)))
        s->rc = -1;
    else
        s->rc = shard_write (path, &s->id, s->rank, s->pieces, s->n, &s->sums, &s->num_sums,
                             &s->why);
    if (s->rc == 0 && s->num_sums > 0)
        s->rc = durable_sync_dir (s->path, &s->why);
    s->errnum = errno;
    if (s->rc < 0)
        mg_error_prefix (&s->why, "rank %d", s->rank);
    free (path);
}

int checkpoint_save_finish (struct checkpoint_save *s, struct mg_error *err)
{
    const int64_t iteration = s->id.iteration;
    struct mg_error why = s->why;
    int rc;

    errno = s->errnum;
    rc = exchange_result (s->comm, s->rc, &why);
    if (rc == 0)
        rc = gather_sums (s, &why);
    if (rc == 0)
        rc = exchange_result (s->comm, s->manifest ? publish (s, &why) : 0, &why);
    end (s, rc);
    return rc < 0 ? not_saved (err, iteration, &why) : 0;
}

int checkpoint_save (const char *dir, int64_t iteration,
                     const struct checkpoint_value *values, const struct piece *pieces,
                     size_t n, struct mg_comm *comm, struct mg_error *err)
{
    struct checkpoint_save *s
        = checkpoint_save_begin (dir, iteration, values, pieces, n, comm, err);

    if (!s)
        return -1;
    checkpoint_save_write (s);
    return checkpoint_save_finish (s, err);
}
