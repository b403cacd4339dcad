/* checkpoint_load.c - read a checkpoint, under whatever layout it was written
 *
 * Rank 0 finds and reads the manifest, and sends it to all ranks.  From then on each rank
 * works alone: it checks its values and pieces against the manifest before it changes
 * any, then reads the slabs that overlap its pieces.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/checkpoint.h"
#include "libcore/checkpoint/manifest.h"
#include "libcore/checkpoint/roster.h"
#include "libcore/checkpoint/shard.h"
#include "libcore/checkpoint/store.h"
#include "libcore/comm/exchange.h"
#include "libcore/file/durable.h"

enum {
    NAMED_MAX = 3, /* tensors that a message names */
    NAMES_MAX = NAMED_MAX * (BOX_NAME_MAX + 2)
};

struct errand { /* read what a stored part and a piece share */
    const struct roster_tensor *tensor;
    const struct roster_part *part;
    const struct piece *piece;
};

struct load {
    char *path; /* of the checkpoint's directory */
    struct manifest *manifest;
    struct errand *errands;
    size_t num_errands, max_errands;
};

/* Rank 0: the path, a zero byte, the manifest's text. */
static int find_manifest (const char *dir, int64_t iteration, char **data, size_t *len,
                          struct mg_error *err)
{
    char *path, *text = NULL;
    size_t size, first;
    int rc = -1;

    if (!(path = store_find (dir, iteration, err)))
        return -1;
    first = strlen (path) + 1;
    if (manifest_read (path, &text, &size, err) < 0)
        goto done;
    if (!(*data = malloc (first + size))) {
        mg_error_set (err, ENOMEM, "out of memory");
        goto done;
    }
    memcpy (*data, path, first);
    memcpy (*data + first, text, size);
    *len = first + size;
    rc = 0;
done:
    free (text);
    free (path);
    return rc;
}

/* Collective: all ranks get the path and the manifest. */
static int get_manifest (struct load *load, const char *dir, int64_t iteration,
                         struct mg_comm *comm, struct mg_error *err)
{
    char *data = NULL;
    size_t len = 0, first;
    int rc = 0;

    if (mg_comm_rank (comm) == 0)
        rc = find_manifest (dir, iteration, &data, &len, err);
    rc = exchange_result (comm, rc, err);
    if (rc == 0)
        rc = exchange_broadcast (comm, &data, &len, err);
    if (rc == 0) {
        first = strnlen (data, len) + 1;
        if (!(load->path = strdup (data)))
            rc = mg_error_set (err, ENOMEM, "out of memory");
        else if (!(load->manifest = manifest_decode (data + first, len - first, err)))
            rc = mg_error_prefix (err, "%s: manifest", load->path);
        else if (load->manifest->id.iteration != iteration)
            rc = mg_error_set (err, EBADMSG, "%s: manifest: it is of iteration %" PRId64,
                               load->path, load->manifest->id.iteration);
        rc = exchange_result (comm, rc, err);
    }
    free (data);
    return rc;
}

static int check_piece (const struct load *load, const struct piece *p,
                        const struct roster_tensor *t, struct mg_error *err)
{
    char name[BOX_NAME_MAX], have[BOX_TEXT_MAX], want[BOX_TEXT_MAX];

    if (t->ndims != p->ndims
        || memcmp (t->global, p->global, sizeof (p->global[0]) * (size_t)p->ndims) != 0)
        return mg_error_set (err, EINVAL, "%s: tensor %s has shape %s, want %s",
                             load->path, box_name_text (name, p->name),
                             box_shape_text (have, t->global, t->ndims),
                             box_shape_text (want, p->global, p->ndims));
    if (t->dtype != p->dtype)
        return mg_error_set (err, EINVAL, "%s: tensor %s has data type %s, want %s",
                             load->path, box_name_text (name, p->name),
                             mg_dtype_name (t->dtype), mg_dtype_name (p->dtype));
    return 0;
}

/* "a, b, ..." in names[], of size NAMES_MAX: 'count' are named before. */
static void add_name (char *names, size_t count, const char *tensor)
{
    char name[BOX_NAME_MAX];

    if (count >= NAMED_MAX)
        return;
    strcat (names, count > 0 ? ", " : "");
    strcat (names, box_name_text (name, tensor));
}

static int check_pieces (const struct load *load, const struct piece *pieces, size_t n,
                         struct mg_error *err)
{
    char names[NAMES_MAX] = "";
    size_t missing = 0;

    for (size_t i = 0; i < n; i++) {
        const struct roster_tensor *t;

        if (box_check_piece (&pieces[i], err) < 0)
            return -1;
        t = roster_find (load->manifest->roster, pieces[i].name);
        if (t && check_piece (load, &pieces[i], t, err) < 0)
            return -1;
        if (!t && !pieces[i].optional)
            add_name (names, missing++, pieces[i].name);
    }
    if (missing)
        return mg_error_set (err, EINVAL, "%s: %zu of %zu tensors are not in it: %s%s",
                             load->path, missing, n, names,
                             missing > NAMED_MAX ? ", ..." : "");
    return 0;
}

/* Collective: check that some rank names each of these tensors.  Otherwise a smaller
 * model would load a part of a larger one.
 */
static int check_all_named (const struct load *load, const struct piece *pieces, size_t n,
                            const char *all_of, const char *but, struct mg_comm *comm,
                            struct mg_error *err)
{
    const struct roster *roster = load->manifest->roster;
    char names[NAMES_MAX] = "";
    int64_t *named = calloc (roster->num_tensors + 1, sizeof (*named));
    size_t left = 0;
    int rc = named ? 0 : mg_error_set (err, ENOMEM, "out of memory");

    rc = exchange_result (comm, rc, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct roster_tensor *t = roster_find (roster, pieces[i].name);

        if (t) // the others are optional
            named[t - roster->tensors] = 1;
    }
    if (rc == 0)
        rc = mg_comm_all_reduce (comm, named, roster->num_tensors, MG_INT64, MG_MAX, NULL, err);
    for (size_t i = 0; rc == 0 && i < roster->num_tensors; i++) {
        const char *name = roster->tensors[i].name;

        if (!named[i] && strncmp (name, all_of, strlen (all_of)) == 0
            && (!but || strncmp (name, but, strlen (but)) != 0))
            add_name (names, left++, roster->tensors[i].name);
    }
    if (rc == 0 && left > 0)
        rc = mg_error_set (err, EINVAL, "%s: %zu of its %zu tensors are not of this model: %s%s",
                           load->path, left, roster->num_tensors, names,
                           left > NAMED_MAX ? ", ..." : "");
    free (named);
    return rc;
}

static int add_errand (struct load *load, const struct errand *errand,
                       struct mg_error *err)
{
    if (load->num_errands == load->max_errands) {
        size_t max = load->max_errands * 2 + 64;
        struct errand *more = realloc (load->errands, max * sizeof (*more));

        if (!more)
            return mg_error_set (err, ENOMEM, "out of memory");
        load->errands = more;
        load->max_errands = max;
    }
    load->errands[load->num_errands++] = *errand;
    return 0;
}

/* By place on the disk, so that every shard is opened once and read in order. */
static int compare_errands (const void *a, const void *b)
{
    const struct errand *x = a, *y = b;

    if (x->part->rank != y->part->rank)
        return x->part->rank < y->part->rank ? -1 : 1;
    if (x->part->offset != y->part->offset)
        return x->part->offset < y->part->offset ? -1 : 1;
    return x->piece < y->piece ? -1 : x->piece > y->piece;
}

static int plan (struct load *load, const struct piece *pieces, size_t n,
                 struct mg_error *err)
{
    struct box both;

    for (size_t i = 0; i < n; i++) {
        struct errand errand = { .piece = &pieces[i] };

        if (!(errand.tensor = roster_find (load->manifest->roster, pieces[i].name)))
            continue; // optional
        for (size_t k = 0; k < errand.tensor->num_parts; k++) {
            errand.part = &errand.tensor->parts[k];
            if (box_intersect (errand.part->box, box_of_piece (&pieces[i]), &both)
                && add_errand (load, &errand, err) < 0)
                return -1;
        }
    }
    if (load->num_errands > 1)
        qsort (load->errands, load->num_errands, sizeof (*load->errands),
               compare_errands);
    return 0;
}

static int read_part (const struct errand *e, struct shard *shard, int64_t slab_bytes,
                      void *buf, struct mg_error *err)
{
    const size_t size = mg_dtype_size (e->tensor->dtype);
    const struct box have = box_of_piece (e->piece);
    struct box slab, part;
    int64_t done = 0, before = 0;

    for (int64_t i = 0; box_next_slab (e->part->box, shard_slab (slab_bytes, size), &done,
                                       &slab); i++) {
        if (box_intersect (slab, have, &part)) {
            if (shard_read (shard, e->part->offset + before * (int64_t)size, buf,
                            (size_t)box_count (slab) * size, e->part->sums[i], err) < 0)
                return -1;
            if (box_store_piece (e->piece, part, buf, slab, err) < 0)
                return -1;
        }
        before = done;
    }
    return 0;
}

static struct shard *open_shard (const struct load *load, int rank, struct mg_error *err)
{
    const struct manifest_shard *listed = manifest_shard (load->manifest, rank);
    char name[SHARD_NAME_MAX], *path;
    struct shard *shard = NULL;

    shard_name (name, rank);
    if ((path = durable_path (err, "%s/%s", load->path, name)))
        shard = shard_open (path, &load->manifest->id, rank, listed->size, err);
    free (path);
    return shard;
}

static int read_pieces (const struct load *load, struct mg_error *err)
{
    struct shard *shard = NULL;
    char name[BOX_NAME_MAX];
    char *buf;
    int rc = 0, rank = -1;

    /* A slab has at least one element, whatever slab_bytes is. */
    if (!(buf = malloc ((size_t)load->manifest->slab_bytes + 8)))
        return mg_error_set (err, ENOMEM, "out of memory");
    for (size_t i = 0; rc == 0 && i < load->num_errands; i++) {
        const struct errand *e = &load->errands[i];

        if (e->part->rank != rank) {
            shard_close (shard);
            rank = e->part->rank;
            shard = open_shard (load, rank, err);
        }
        rc = shard ? read_part (e, shard, load->manifest->slab_bytes, buf, err) : -1;
        if (rc < 0)
            mg_error_prefix (err, "tensor %s", box_name_text (name, e->tensor->name));
    }
    shard_close (shard);
    free (buf);
    return rc;
}

int checkpoint_load (const char *dir, int64_t iteration, struct checkpoint_value *values,
                     const struct piece *pieces, size_t n, const char *all_of,
                     const char *but, struct mg_comm *comm, struct mg_error *err)
{
    struct load load = { .path = NULL };
    struct mg_error why;
    int rc, errnum;

    rc = get_manifest (&load, dir, iteration, comm, &why);
    if (rc == 0) {
        rc = check_pieces (&load, pieces, n, &why);
        if (rc == 0)
            rc = plan (&load, pieces, n, &why);
        if (rc == 0 && manifest_check_values (load.manifest, values, &why) < 0)
            rc = mg_error_prefix (&why, "%s", load.path);
        rc = exchange_agree (comm, rc, &why);
    }
    if (rc == 0 && all_of)
        rc = check_all_named (&load, pieces, n, all_of, but, comm, &why);
    if (rc == 0)
        rc = exchange_agree (comm, read_pieces (&load, &why), &why);
    if (rc == 0)
        manifest_get_values (load.manifest, values);
    errnum = errno;
    free (load.errands);
    free (load.path);
    manifest_destroy (load.manifest);
    if (rc < 0)
        return mg_error_set (err, errnum, "checkpoint %" PRId64 " not loaded: %s",
                             iteration, why.text);
    return 0;
}
