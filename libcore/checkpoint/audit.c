/* audit.c - read a whole checkpoint and report all its faults
 *
 * Goes through manifest, shards, parts and gaps in this order, and reports every fault with its
 * kind.  Only a lack of memory ends it early.  Nothing in a file is trusted before it is checked.
 */

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libcore/checkpoint/audit.h"
#include "libcore/checkpoint/manifest.h"
#include "libcore/checkpoint/manifest_format.h"
#include "libcore/checkpoint/roster.h"
#include "libcore/checkpoint/shard.h"
#include "libcore/file/durable.h"

struct auditor {
    const char *path;
    struct manifest *manifest;
    struct roster_ref *refs; /* all parts by shard and offset */
    size_t num_refs;
    char *buf; /* a slab */
    audit_fault_f fault;
    void *arg;
    struct audit *audit;
};

const char *audit_kind_name (enum audit_kind kind)
{
    static const char *const names[] = {
        [AUDIT_MISSING] = "missing",     [AUDIT_TRUNCATED] = "truncated",
        [AUDIT_DAMAGED] = "damaged",     [AUDIT_FOREIGN] = "foreign",
        [AUDIT_VERSION] = "other-version", [AUDIT_UNREADABLE] = "unreadable",
    };

    return names[kind];
}

static void tell (struct auditor *a, enum audit_kind kind, const char *file,
                  const char *text)
{
    a->audit->faults++;
    a->fault (a->arg, kind, file, text);
}

/* Find the fault of bytes that manifest_decode() refused with EBADMSG. */
static enum audit_kind judge_manifest (const char *text, size_t len)
{
    static const char end[] = ",\"checksum\":\"";
    const size_t first = sizeof (MANIFEST_BEGIN) - 1;

    if (memcmp (text, MANIFEST_BEGIN, len < first ? len : first) != 0)
        return AUDIT_FOREIGN;
    if (len < first + MANIFEST_END
        || memcmp (text + len - MANIFEST_END, end, sizeof (end) - 1) != 0)
        return AUDIT_TRUNCATED;
    return AUDIT_DAMAGED;
}

/* Read the manifest, or report its fault and leave a->manifest NULL.  -1: out of memory. */
static int audit_manifest (struct auditor *a, int64_t iteration, struct mg_error *err)
{
    char *text, mismatch[80];
    size_t len;
    int errnum;

    if (manifest_read (a->path, &text, &len, err) < 0) {
        if (errno == ENOMEM)
            return -1;
        tell (a, errno == ENOENT ? AUDIT_MISSING : AUDIT_UNREADABLE, MANIFEST_NAME,
              err->text);
        return 0;
    }
    a->manifest = manifest_decode (text, len, err);
    errnum = a->manifest ? 0 : errno;
    if (errnum == ENOTSUP)
        tell (a, AUDIT_VERSION, MANIFEST_NAME, err->text);
    else if (errnum != 0 && errnum != ENOMEM)
        tell (a, judge_manifest (text, len), MANIFEST_NAME, err->text);
    else if (a->manifest && a->manifest->id.iteration != iteration) {
        snprintf (mismatch, sizeof (mismatch), "it is of iteration %" PRId64,
                  a->manifest->id.iteration);
        tell (a, AUDIT_FOREIGN, MANIFEST_NAME, mismatch);
    }
    if (a->manifest)
        a->audit->bytes += (int64_t)len;
    free (text);
    errno = errnum;
    return errnum == ENOMEM ? -1 : 0;
}

static int compare_refs (const void *a, const void *b)
{
    const struct roster_ref *x = a, *y = b;

    if (x->part->rank != y->part->rank)
        return x->part->rank < y->part->rank ? -1 : 1;
    return x->part->offset < y->part->offset ? -1 : x->part->offset > y->part->offset;
}

/* Check every slab of a part, and report one fault at most. */
static void audit_part (struct auditor *a, const char *file, struct shard *shard,
                        const struct roster_ref *ref)
{
    const struct roster_part *part = ref->part;
    const size_t size = mg_dtype_size (ref->tensor->dtype);
    char name[BOX_NAME_MAX];
    struct mg_error why;
    struct box slab;
    int64_t done = 0, before = 0;

    for (int64_t i = 0; box_next_slab (part->box, shard_slab (a->manifest->slab_bytes, size),
                                       &done, &slab); i++) {
        const size_t len = (size_t)(done - before) * size;

        if (shard_read (shard, part->offset + before * (int64_t)size, a->buf, len,
                        part->sums[i], &why) < 0) {
            enum audit_kind kind = errno == EBADMSG ? AUDIT_DAMAGED : AUDIT_UNREADABLE;

            mg_error_prefix (&why, "tensor %s", box_name_text (name, ref->tensor->name));
            tell (a, kind, file, why.text);
            return;
        }
        a->audit->bytes += (int64_t)len;
        before = done;
    }
}

/* The bytes between parts must be the zeros that were written. */
static void audit_gap (struct auditor *a, const char *file, struct shard *shard,
                       int64_t from, int64_t to)
{
    struct mg_error why;

    if (from >= to)
        return;
    if (shard_read_zeros (shard, from, to, &why) < 0)
        tell (a, errno == EBADMSG ? AUDIT_DAMAGED : AUDIT_UNREADABLE, file, why.text);
    else
        a->audit->bytes += to - from;
}

static struct shard *open_shard (struct auditor *a, const struct manifest_shard *listed,
                                 const char *file, char *path)
{
    struct shard *shard;
    struct mg_error why;
    struct stat st;
    enum audit_kind kind;

    if ((shard = shard_open (path, &a->manifest->id, listed->rank, listed->size, &why)))
        return shard;
    if (errno == ENOENT)
        kind = AUDIT_MISSING;
    else if (errno == ENOTSUP)
        kind = AUDIT_VERSION;
    else if (errno != EBADMSG)
        kind = AUDIT_UNREADABLE;
    else if (shard_is_foreign (path, &a->manifest->id, listed->rank))
        kind = AUDIT_FOREIGN;
    else if (stat (path, &st) == 0 && st.st_size < listed->size)
        kind = AUDIT_TRUNCATED;
    else
        kind = AUDIT_DAMAGED;
    tell (a, kind, file, why.text);
    return NULL;
}

/* One shard: its header and the parts from refs[*next] on, which is moved behind them. */
static int audit_shard (struct auditor *a, const struct manifest_shard *listed,
                        size_t *next, struct mg_error *err)
{
    int64_t end = SHARD_HEADER_BYTES;
    char file[SHARD_NAME_MAX], *path;
    struct shard *shard;

    shard_name (file, listed->rank);
    if (!(path = durable_path (err, "%s/%s", a->path, file)))
        return -1;
    shard = open_shard (a, listed, file, path);
    for (; *next < a->num_refs && a->refs[*next].part->rank == listed->rank; ++*next) {
        const struct roster_ref *ref = &a->refs[*next];

        if (!shard)
            continue;
        audit_gap (a, file, shard, end, ref->part->offset);
        audit_part (a, file, shard, ref);
        end = ref->part->offset
              + box_count (ref->part->box) * (int64_t)mg_dtype_size (ref->tensor->dtype);
    }
    if (shard) {
        a->audit->bytes += SHARD_HEADER_BYTES;
        audit_gap (a, file, shard, end, listed->size);
    }
    shard_close (shard);
    free (path);
    return 0;
}

/* Report files that the manifest does not list. */
static int audit_names (struct auditor *a, struct mg_error *err)
{
    DIR *d = opendir (a->path);
    struct dirent *found;

    if (!d)
        return mg_error_set (err, errno, "cannot open %s: %s", a->path, strerror (errno));
    while ((found = readdir (d))) {
        const char *name = found->d_name;
        const int rank = shard_rank (name);
        char shown[BOX_NAME_MAX];

        if (strcmp (name, ".") == 0 || strcmp (name, "..") == 0
            || strcmp (name, MANIFEST_NAME) == 0
            || (rank >= 0 && (!a->manifest || manifest_shard (a->manifest, rank))))
            continue;
        tell (a, AUDIT_FOREIGN, box_name_text (shown, name),
              "no part of this checkpoint");
    }
    closedir (d);
    return 0;
}

static int audit_shards (struct auditor *a, struct mg_error *err)
{
    const struct manifest *m = a->manifest;
    size_t next = 0;

    if (!(a->refs = roster_by_rank (m->roster, &a->num_refs, err)))
        return -1;
    /* A slab has at least one element, whatever slab_bytes is. */
    if (!(a->buf = malloc ((size_t)m->slab_bytes + 8)))
        return mg_error_set (err, ENOMEM, "out of memory");
    if (a->num_refs > 1)
        qsort (a->refs, a->num_refs, sizeof (*a->refs), compare_refs);
    a->audit->files = 1 + (int64_t)m->num_shards;
    a->audit->tensors = (int64_t)m->roster->num_tensors;
    for (size_t i = 0; i < m->num_shards; i++) {
        if (audit_shard (a, &m->shards[i], &next, err) < 0)
            return -1;
    }
    return 0;
}

int audit_checkpoint (const char *path, int64_t iteration, audit_fault_f fault, void *arg,
                      struct audit *audit, struct mg_error *err)
{
    struct auditor a = { .path = path, .fault = fault, .arg = arg, .audit = audit };
    struct mg_error why;
    int rc, errnum;

    *audit = (struct audit){ 0 };
    rc = audit_manifest (&a, iteration, &why);
    if (rc == 0)
        rc = audit_names (&a, &why);
    if (rc == 0 && a.manifest)
        rc = audit_shards (&a, &why);
    errnum = errno;
    manifest_destroy (a.manifest);
    free (a.refs);
    free (a.buf);
    return rc < 0 ? mg_error_set (err, errnum, "%s", why.text) : 0;
}
