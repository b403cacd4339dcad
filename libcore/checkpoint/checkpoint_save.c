/* checkpoint_save.c - write a checkpoint
 *
 * All ranks tell rank 0 what they hold; rank 0 makes the temporary directory; every rank
 * writes its shard into it; rank 0 writes the manifest and renames the directory.  After
 * each of these steps the ranks agree on how it went.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "libcore/checkpoint/checkpoint.h"
#include "libcore/checkpoint/durable.h"
#include "libcore/checkpoint/exchange.h"
#include "libcore/checkpoint/manifest.h"
#include "libcore/checkpoint/manifest_format.h"
#include "libcore/checkpoint/roster.h"
#include "libcore/checkpoint/shard.h"
#include "libcore/checkpoint/store.h"

struct save {
    const char *dir;
    struct mg_comm *comm;
    struct shard_id id;
    struct store_entry tmp; /* the directory being filled */
    char *path;             /* its path */
    bool made;              /* by this rank */
    struct manifest *manifest;
    uint64_t *sums; /* of this rank's shard */
    size_t num_sums;
};

/* What rank 0 needs while it takes the ranks' checksums, in rank order. */
struct taking {
    struct manifest *manifest;
    struct roster_ref *refs;
    size_t num_refs, next;
};

static int make_manifest (struct save *s, struct roster *roster,
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
static int make_directory (struct save *s, struct mg_error *err)
{
    if (durable_make_dirs (s->dir, err) < 0)
        return -1;
    store_clean (s->dir, NULL); /* what cannot be removed harms nobody */
    if (mkdir (s->path, 0777) < 0)
        return mg_error_set (err, errno, "cannot create %s: %s", s->path,
                             strerror (errno));
    s->made = true;
    return 0;
}

/* Agree on the save's id and with it on the directory. */
static int begin (struct save *s, struct roster *roster,
                  const struct checkpoint_value *values, struct mg_error *err)
{
    const bool root = mg_comm_rank (s->comm) == 0;
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

static int write_shard (struct save *s, const struct piece *pieces, size_t n,
                        struct mg_error *err)
{
    const int rank = mg_comm_rank (s->comm);
    char name[SHARD_NAME_MAX], *path;
    int rc;

    shard_name (name, rank);
    if (!(path = durable_path (err, "%s/%s", s->path, name)))
        rc = -1;
    else
        rc = shard_write (path, &s->id, rank, pieces, n, &s->sums, &s->num_sums, err);
    if (rc == 0 && s->num_sums > 0)
        rc = durable_sync_dir (s->path, err);
    free (path);
    return exchange_result (s->comm, rc, err);
}

/* Rank 0: a rank's checksums go to its parts, whose places in the shard follow from their
 * order and sizes.
 */
static int take_sums (void *arg, int rank, const void *data, size_t len,
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

static int gather_sums (struct save *s, struct mg_error *err)
{
    struct taking t = { .manifest = s->manifest };
    int rc = 0;

    if (s->manifest && !(t.refs = roster_by_rank (s->manifest->roster, &t.num_refs, err)))
        rc = -1;
    rc = exchange_result (s->comm, rc, err);
    if (rc == 0)
        rc = exchange_gather (s->comm, s->sums, s->num_sums * sizeof (*s->sums),
                              take_sums, &t, err);
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
static int publish (struct save *s, struct mg_error *err)
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

/* Give everything back, keep errno; rank 0 removes what a failed save left. */
static void end (struct save *s, int rc)
{
    int saved_errno = errno;

    if (s->made && rc < 0)
        store_remove (s->dir, &s->tmp, NULL);
    manifest_destroy (s->manifest);
    free (s->path);
    free (s->sums);
    errno = saved_errno;
}

int checkpoint_save (const char *dir, int64_t iteration,
                     const struct checkpoint_value *values, const struct piece *pieces,
                     size_t n, struct mg_comm *comm, struct mg_error *err)
{
    struct save s = { .dir = dir, .comm = comm, .id.iteration = iteration };
    struct roster *roster = NULL;
    struct mg_error why;
    int rc = 0;

    if (iteration < 0)
        rc = mg_error_set (&why, EINVAL, "no such iteration");
    rc = exchange_result (comm, rc, &why);
    if (rc == 0)
        rc = roster_gather (pieces, n, comm, &roster, &why);
    if (rc == 0)
        rc = begin (&s, roster, values, &why);
    if (rc == 0)
        rc = write_shard (&s, pieces, n, &why);
    if (rc == 0)
        rc = gather_sums (&s, &why);
    if (rc == 0)
        rc = exchange_result (comm, s.manifest ? publish (&s, &why) : 0, &why);
    end (&s, rc);
    if (rc < 0)
        return mg_error_set (err, errno, "checkpoint %" PRId64 " not saved: %s",
                             iteration, why.text);
    return 0;
}
