/* safetensors_save.c - gather tensors from all ranks into one safetensors file
 *
 * Rank 0 writes the file from its first byte to its last, a slab of a tensor at a time,
 * in one buffer: for each slab it receives the elements in the slab from every owner of a
 * part.  It sends each rank once the order in which it will receive that rank's pieces;
 * slabs follow from the shape, so no further messages are needed.
 */

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "libcore/checkpoint/box.h"
#include "libcore/checkpoint/leftover.h"
#include "libcore/checkpoint/roster.h"
#include "libcore/checkpoint/safetensors.h"
#include "libcore/checkpoint/safetensors_format.h"
#include "libcore/comm/exchange.h"
#include "libcore/file/durable.h"
#include "libcore/file/outfile.h"

enum { SLAB_BYTES = 4 << 20 };

struct output { /* rank 0's file */
    const char *path; /* its name */
    const struct notes *notes; /* its metadata, NULL: none */
    int *held; /* for leftover_hold_file(), NULL: the file is not held */
    struct outfile file;
    char *staging;       /* what other ranks send of a slab, one after another */
    struct mg_p2p *list; /* a receive for each */
    int errnum;          /* 0, or the first failure, */
    struct mg_error err; /* and its text */
};

static int64_t slab_elements (size_t size)
{
    return SLAB_BYTES / (int64_t)size;
}

/* One tensor's line of the header; *at is advanced over its data. */
static json_t *describe (const struct roster_tensor *t, int64_t *at)
{
    int64_t begin = *at;
    json_t *shape = json_array ();

    *at += box_count (roster_whole (t)) * (int64_t)mg_dtype_size (t->dtype);
    for (int i = 0; i < t->ndims; i++)
        json_array_append_new (shape, json_integer (t->global[i]));
    return json_pack ("{s:s, s:o, s:[I,I]}", "dtype", safetensors_type_name (t->dtype),
                      "shape", shape, "data_offsets", (json_int_t)begin, (json_int_t)*at);
}

/* The metadata come first, as in files of others. */
static json_t *begin_header (const struct notes *notes)
{
    json_t *root = json_object (), *metadata;

    if (!root || !notes || notes->num == 0)
        return root;
    metadata = json_object ();
    for (size_t i = 0; metadata && i < notes->num; i++) {
        if (json_object_set_new (metadata, notes->note[i].name,
                                 json_string (notes->note[i].value)) < 0)
            goto error;
    }
    if (json_object_set_new (root, "__metadata__", metadata) == 0)
        return root;
    metadata = NULL;
error:
    json_decref (metadata);
    json_decref (root);
    return NULL;
}

/* The header with its length in front, padded with blanks to a multiple of 8 bytes. */
static char *make_header (const struct roster *roster, const struct notes *notes, size_t *len,
                          struct mg_error *err)
{
    json_t *root = begin_header (notes);
    char *text = NULL, *header = NULL;
    int64_t at = 0;
    uint64_t padded;

    for (size_t i = 0; root && i < roster->num_tensors; i++) {
        const struct roster_tensor *t = &roster->tensors[i];

        if (json_object_set_new (root, t->name, describe (t, &at)) < 0)
            goto nomem;
    }
    if (!root || !(text = json_dumps (root, JSON_COMPACT)))
        goto nomem;
    padded = (strlen (text) + 7) / 8 * 8;
    if (padded > SAFETENSORS_HEADER_MAX) {
        mg_error_set (err, EFBIG, "a header of %" PRIu64 " bytes, at most %d are allowed",
                      padded, SAFETENSORS_HEADER_MAX);
        goto done;
    }
    if (!(header = malloc (8 + padded)))
        goto nomem;
    memset (header, ' ', 8 + padded);
    memcpy (header, &(uint64_t){ htole64 (padded) }, 8);
    memcpy (header + 8, text, strlen (text));
    *len = 8 + padded;
    goto done;
nomem:
    mg_error_set (err, ENOMEM, "out of memory for the header");
done:
    free (text);
    json_decref (root);
    return header;
}

/* Tell every rank the places of its owned pieces in the order of the file. */
static int send_orders (const struct roster *roster, int64_t *order, struct mg_comm *comm,
                        struct mg_error *err)
{
    const int size = mg_comm_size (comm);

    for (int r = 1; r < size; r++) {
        int64_t n = 0;

        for (size_t i = 0; i < roster->num_tensors; i++) {
            const struct roster_tensor *t = &roster->tensors[i];

            for (size_t k = 0; k < t->num_parts; k++) {
                if (t->parts[k].rank == r)
                    order[n++] = (int64_t)t->parts[k].index;
            }
        }
        if (exchange_send (comm, r, &n, sizeof (n), err) < 0
            || exchange_send (comm, r, order, (size_t)n * sizeof (*order), err) < 0)
            return -1;
    }
    return 0;
}

/* A rank's side: its pieces of one tensor, 'n' of them at order[], slab by slab. */
static int send_tensor (const struct piece *pieces, const int64_t *order, int64_t n,
                        char *buf, struct mg_comm *comm, struct mg_error *err)
{
    const struct piece *first = &pieces[order[0]];
    const size_t size = mg_dtype_size (first->dtype);
    struct box slab, part;
    int64_t done = 0;

    while (box_next_slab (box_of_global (first), slab_elements (size), &done, &slab)) {
        for (int64_t k = 0; k < n; k++) {
            const struct piece *p = &pieces[order[k]];

            if (!box_intersect (box_of_inside (p), slab, &part))
                continue;
            if (box_copy_piece (buf, part, p, part, err) < 0
                || exchange_send (comm, 0, buf, (size_t)box_count (part) * size, err) < 0)
                return -1;
        }
    }
    return 0;
}

/* The order that rank 0 wants of this rank, which has 'count' pieces. */
static int receive_order (int64_t *order, int64_t *n, size_t count, struct mg_comm *comm,
                          struct mg_error *err)
{
    if (exchange_recv (comm, 0, n, sizeof (*n), err) < 0)
        return -1;
    if (*n < 0 || (uint64_t)*n > count)
        return mg_error_set (err, EPROTO, "rank 0 wants %" PRId64 " of %zu pieces", *n,
                             count);
    if (exchange_recv (comm, 0, order, (size_t)*n * sizeof (*order), err) < 0)
        return -1;
    for (int64_t i = 0; i < *n; i++) {
        if (order[i] < 0 || (uint64_t)order[i] >= count)
            return mg_error_set (err, EPROTO, "rank 0 wants piece %" PRId64 " of %zu",
                                 order[i], count);
    }
    return 0;
}

static int send_pieces (const struct piece *pieces, size_t count, int64_t *order,
                        char *buf, struct mg_comm *comm, struct mg_error *err)
{
    int64_t n, next;

    if (receive_order (order, &n, count, comm, err) < 0)
        return -1;
    for (int64_t i = 0; i < n; i = next) {
        for (next = i + 1; next < n; next++) {
            if (strcmp (pieces[order[next]].name, pieces[order[i]].name) != 0)
                break;
        }
        if (send_tensor (pieces, order + i, next - i, buf, comm, err) < 0)
            return -1;
    }
    return 0;
}

/* Write, or keep the error: the data of ranks that send must be received in any case. */
static void put (struct output *out, const void *data, size_t len)
{
    if (out->errnum == 0 && durable_write (out->file.fd, out->path, data, len, &out->err) < 0)
        out->errnum = errno;
}

/* Rank 0's side of one slab: receive what others have, then lay out all of it. */
static int write_slab (struct output *out, const struct roster_tensor *t, struct box slab,
                       const struct piece *pieces, char *buf, struct mg_comm *comm,
                       struct mg_error *err)
{
    const size_t size = mg_dtype_size (t->dtype);
    char *at = out->staging;
    struct box part;
    int n = 0;

    for (size_t k = 0; k < t->num_parts; k++) {
        if (t->parts[k].rank == 0 || !box_intersect (t->parts[k].box, slab, &part))
            continue;
        out->list[n] = (struct mg_p2p){ MG_RECV, t->parts[k].rank, at,
                                        (size_t)box_count (part) * size, MG_UINT8 };
        at += out->list[n++].count;
    }
    if (n > 0 && mg_comm_p2p (comm, out->list, n, NULL, err) < 0)
        return -1;
    at = out->staging;
    for (size_t k = 0; k < t->num_parts; k++) {
        const struct roster_part *p = &t->parts[k];

        if (!box_intersect (p->box, slab, &part))
            continue;
        if (p->rank == 0) {
            if (box_copy_piece (buf, slab, &pieces[p->index], part, err) < 0)
                return -1;
            continue;
        }
        box_copy (buf, slab, at, part, part, size);
        at += (size_t)box_count (part) * size;
    }
    put (out, buf, (size_t)box_count (slab) * size);
    return 0;
}

static int write_tensors (struct output *out, const struct roster *roster,
                          const struct piece *pieces, char *buf, struct mg_comm *comm,
                          struct mg_error *err)
{
    for (size_t i = 0; i < roster->num_tensors; i++) {
        const struct roster_tensor *t = &roster->tensors[i];
        struct box slab;
        int64_t done = 0;

        while (box_next_slab (roster_whole (t), slab_elements (mg_dtype_size (t->dtype)),
                              &done, &slab)) {
            if (write_slab (out, t, slab, pieces, buf, comm, err) < 0)
                return -1;
        }
    }
    return 0;
}

static int open_output (struct output *out, const struct roster *roster,
                        struct mg_error *err)
{
    size_t most = 1, len;
    char *header;
    int rc;

    for (size_t i = 0; i < roster->num_tensors; i++) {
        if (roster->tensors[i].num_parts > most)
            most = roster->tensors[i].num_parts;
    }
    if (!(out->staging = malloc (SLAB_BYTES))
        || !(out->list = calloc (most, sizeof (*out->list))))
        return mg_error_set (err, ENOMEM, "out of memory");
    if (!(header = make_header (roster, out->notes, &len, err)))
        return -1;
    rc = outfile_create (&out->file, out->path, OUTFILE_WHOLE, err);
    if (rc == 0)
        rc = durable_write (out->file.fd, out->path, header, len, err);
    free (header);
    return rc;
}

/* Make the file known by its name, or remove it. */
static int close_output (struct output *out, int rc, struct mg_error *err)
{
    int errnum = errno;

    if (rc == 0 && out->errnum != 0) {
        rc = mg_error_set (err, out->errnum, "%s", out->err.text);
        errnum = errno;
    }
    if (rc == 0 && out->held)
        *out->held = leftover_hold_file (out->file.fd);
    if (rc == 0 && (rc = outfile_commit (&out->file, err)) < 0)
        errnum = errno;
    outfile_drop (&out->file);
    free (out->staging);
    free (out->list);
    errno = errnum;
    return rc;
}

static int transfer (struct output *out, const struct roster *roster,
                     const struct piece *pieces, size_t n, struct mg_comm *comm,
                     struct mg_error *err)
{
    const bool root = mg_comm_rank (comm) == 0;
    size_t most = n;
    int64_t *order = NULL;
    char *buf = NULL;
    int rc = 0;

    if (root) { /* its list has room for any rank's order */
        for (size_t i = 0; i < roster->num_tensors; i++)
            most += roster->tensors[i].num_parts;
    }
    if (!(buf = malloc (SLAB_BYTES)) || !(order = calloc (most + 1, sizeof (*order))))
        rc = mg_error_set (err, ENOMEM, "out of memory");
    rc = exchange_result (comm, rc, err);
    if (rc == 0 && root) {
        rc = send_orders (roster, order, comm, err);
        if (rc == 0)
            rc = write_tensors (out, roster, pieces, buf, comm, err);
    }
    else if (rc == 0)
        rc = send_pieces (pieces, n, order, buf, comm, err);
    free (buf);
    free (order);
    return rc;
}

int safetensors_save (const char *path, const struct piece *pieces, size_t n,
                      struct mg_comm *comm, struct mg_error *err)
{
    return safetensors_save_notes (path, NULL, pieces, n, comm, err);
}

int safetensors_save_notes (const char *path, const struct notes *notes,
                            const struct piece *pieces, size_t n, struct mg_comm *comm,
                            struct mg_error *err)
{
    return safetensors_save_held (path, notes, pieces, n, NULL, comm, err);
}

int safetensors_save_held (const char *path, const struct notes *notes,
                           const struct piece *pieces, size_t n, int *held, struct mg_comm *comm,
                           struct mg_error *err)
{
    const bool root = mg_comm_rank (comm) == 0;
    struct output out = { .path = path, .notes = notes, .held = held };
    struct roster *roster = NULL;
    struct mg_error why;
    int rc;

    if (held)
        *held = -1;
    rc = roster_gather (pieces, n, comm, &roster, &why);
    if (rc == 0) {
        if (root)
            rc = open_output (&out, roster, &why);
        rc = exchange_result (comm, rc, &why);
        if (rc == 0)
            rc = transfer (&out, roster, pieces, n, comm, &why);
        if (root)
            rc = close_output (&out, rc, &why);
        rc = exchange_result (comm, rc, &why);
    }
    roster_destroy (roster);
    if (rc == 0)
        return 0;
    return mg_error_set (err, errno, "%s%s%s", strstr (why.text, path) ? "" : path,
                         strstr (why.text, path) ? "" : ": ", why.text);
}
