/* roster.c - the global tensors and the parts that they are stored in
 *
 * Tensors are found by a hash of their names.  Parts of a tensor must not overlap and must cover
 * it exactly, which roster_check_cover() proves by sorting them.  What other ranks send is
 * checked like a file.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <xxhash.h>

#include "libcore/checkpoint/roster.h"
#include "libcore/comm/exchange.h"

enum { FIRST_SLOTS = 64 }; /* a power of two */

/* A piece as ranks tell each other; the name follows. */
struct told {
    int64_t global[PIECE_MAX_DIMS], offset[PIECE_MAX_DIMS], extent[PIECE_MAX_DIMS];
    int32_t dtype;
    uint8_t ndims, owner, name_len, unused;
};

struct roster *roster_create (struct mg_error *err)
{
    struct roster *roster;

    if (!(roster = calloc (1, sizeof (*roster)))
        || !(roster->slots = calloc (FIRST_SLOTS, sizeof (*roster->slots)))) {
        mg_error_set (err, ENOMEM, "out of memory");
        roster_destroy (roster);
        return NULL;
    }
    roster->num_slots = FIRST_SLOTS;
    return roster;
}

void roster_destroy (struct roster *roster)
{
    if (roster) {
        int saved_errno = errno;

        for (size_t i = 0; i < roster->num_tensors; i++) {
            struct roster_tensor *t = &roster->tensors[i];

            for (size_t k = 0; k < t->num_parts; k++)
                free (t->parts[k].sums);
            free (t->parts);
            free (t->name);
        }
        free (roster->tensors);
        free (roster->slots);
        free (roster);
        errno = saved_errno;
    }
}

/* Returns the name's slot in the hash table, or the empty slot in which it would be put. */
static size_t *find_slot (const struct roster *roster, const char *name)
{
    size_t at = XXH3_64bits (name, strlen (name)) & (roster->num_slots - 1);

    while (roster->slots[at]
           && strcmp (roster->tensors[roster->slots[at] - 1].name, name) != 0)
        at = (at + 1) & (roster->num_slots - 1);
    return &roster->slots[at];
}

struct roster_tensor *roster_find (const struct roster *roster, const char *name)
{
    size_t *slot = find_slot (roster, name);

    return *slot ? &roster->tensors[*slot - 1] : NULL;
}

/* Room for one more tensor: the table stays at most half full. */
static int grow (struct roster *roster)
{
    if (roster->num_tensors == roster->max_tensors) {
        size_t max = roster->max_tensors * 2 + 16;
        struct roster_tensor *tensors;

        if (!(tensors = realloc (roster->tensors, max * sizeof (*tensors))))
            return -1;
        roster->tensors = tensors;
        roster->max_tensors = max;
    }
    if (roster->num_tensors >= roster->num_slots / 2) {
        size_t *slots = calloc (roster->num_slots * 2, sizeof (*slots));

        if (!slots)
            return -1;
        free (roster->slots);
        roster->slots = slots;
        roster->num_slots *= 2;
        for (size_t i = 0; i < roster->num_tensors; i++)
            *find_slot (roster, roster->tensors[i].name) = i + 1;
    }
    return 0;
}

static bool same_tensor (const struct roster_tensor *t, enum mg_dtype dtype, int ndims,
                         const int64_t *global)
{
    return t->dtype == dtype && t->ndims == ndims
           && memcmp (t->global, global, sizeof (*global) * (size_t)ndims) == 0;
}

struct roster_tensor *roster_add (struct roster *roster, const char *name,
                                  enum mg_dtype dtype, int ndims, const int64_t *global,
                                  const char *who, struct mg_error *err)
{
    char shown[BOX_NAME_MAX], had[BOX_TEXT_MAX], has[BOX_TEXT_MAX];
    struct roster_tensor *t = roster_find (roster, name);

    if (t && !same_tensor (t, dtype, ndims, global)) {
        mg_error_set (err, EINVAL, "tensor %s: %s says %s %s, another said %s %s",
                      box_name_text (shown, name), who, mg_dtype_name (dtype),
                      box_shape_text (has, global, ndims), mg_dtype_name (t->dtype),
                      box_shape_text (had, t->global, t->ndims));
        return NULL;
    }
    if (t)
        return t;
    if (grow (roster) < 0)
        goto nomem;
    t = &roster->tensors[roster->num_tensors];
    *t = (struct roster_tensor){ .dtype = dtype, .ndims = ndims };
    memcpy (t->global, global, sizeof (*global) * (size_t)ndims);
    if (!(t->name = strdup (name)))
        goto nomem;
    *find_slot (roster, name) = ++roster->num_tensors;
    return t;
nomem:
    mg_error_set (err, ENOMEM, "out of memory for %zu tensors", roster->num_tensors + 1);
    return NULL;
}

int roster_add_part (struct roster_tensor *tensor, const struct roster_part *part,
                     struct mg_error *err)
{
    if (tensor->num_parts == tensor->max_parts) {
        size_t max = tensor->max_parts * 2 + 1;
        struct roster_part *parts = realloc (tensor->parts, max * sizeof (*parts));

        if (!parts) {
            free (part->sums);
            return mg_error_set (err, ENOMEM, "out of memory for %zu parts", max);
        }
        tensor->parts = parts;
        tensor->max_parts = max;
    }
    tensor->parts[tensor->num_parts++] = *part;
    return 0;
}

struct box roster_whole (const struct roster_tensor *tensor)
{
    return box_of_shape (tensor->global, tensor->ndims);
}

static int compare_place (const void *a, const void *b)
{
    const struct roster_part *x = a, *y = b;

    if (x->box.row != y->box.row)
        return x->box.row < y->box.row ? -1 : 1;
    if (x->box.col != y->box.col)
        return x->box.col < y->box.col ? -1 : 1;
    return x->rank != y->rank ? x->rank - y->rank : x->index < y->index ? -1 : 1;
}

static int check_tensor (struct roster_tensor *t, struct mg_error *err)
{
    char name[BOX_NAME_MAX], text[BOX_TEXT_MAX], text2[BOX_TEXT_MAX];
    int64_t left = box_count (roster_whole (t));
    struct box both;

    if (t->num_parts > 1)
        qsort (t->parts, t->num_parts, sizeof (*t->parts), compare_place);
    for (size_t i = 0; i < t->num_parts; i++) {
        const struct roster_part *a = &t->parts[i];

        /* Sorted by first row: what starts below this part cannot overlap it. */
        for (size_t k = i + 1; k < t->num_parts; k++) {
            const struct roster_part *b = &t->parts[k];

            if (b->box.row >= a->box.row + a->box.rows)
                break;
            if (box_intersect (a->box, b->box, &both))
                return mg_error_set (err, EINVAL, "tensor %s: part %s of rank %d and "
                                     "part %s of rank %d overlap",
                                     box_name_text (name, t->name),
                                     box_text (text, a->box, t->ndims), a->rank,
                                     box_text (text2, b->box, t->ndims), b->rank);
        }
        left -= box_count (a->box);
    }
    if (left != 0)
        return mg_error_set (err, EINVAL, "tensor %s: %" PRId64 " of its %" PRId64
                             " elements are in nobody's part",
                             box_name_text (name, t->name), left,
                             box_count (roster_whole (t)));
    return 0;
}

int roster_check_cover (struct roster *roster, struct mg_error *err)
{
    for (size_t i = 0; i < roster->num_tensors; i++) {
        if (check_tensor (&roster->tensors[i], err) < 0)
            return -1;
    }
    return 0;
}

static int compare_rank (const void *a, const void *b)
{
    const struct roster_part *x = ((const struct roster_ref *)a)->part;
    const struct roster_part *y = ((const struct roster_ref *)b)->part;

    return x->rank != y->rank ? x->rank - y->rank : x->index < y->index ? -1 : 1;
}

struct roster_ref *roster_by_rank (const struct roster *roster, size_t *n,
                                   struct mg_error *err)
{
    struct roster_ref *list;
    size_t count = 0;

    for (size_t i = 0; i < roster->num_tensors; i++)
        count += roster->tensors[i].num_parts;
    if (!(list = calloc (count + 1, sizeof (*list)))) {
        mg_error_set (err, ENOMEM, "out of memory for %zu parts", count);
        return NULL;
    }
    *n = count;
    count = 0;
    for (size_t i = 0; i < roster->num_tensors; i++) {
        const struct roster_tensor *t = &roster->tensors[i];

        for (size_t k = 0; k < t->num_parts; k++)
            list[count++] = (struct roster_ref){ t, &t->parts[k] };
    }
    if (count > 1)
        qsort (list, count, sizeof (*list), compare_rank);
    return list;
}

/* Names end in JSON texts. */
static int check_name (const struct piece *p, struct mg_error *err)
{
    json_t *text = json_string (p->name);
    char name[BOX_NAME_MAX];

    if (!text)
        return mg_error_set (err, EINVAL, "tensor %s: its name is not UTF-8",
                             box_name_text (name, p->name));
    json_decref (text);
    return 0;
}

/* All pieces, not only the owned: a tensor without an owner must be noticed. */
static int tell (const struct piece *pieces, size_t n, char **data, size_t *len,
                 struct mg_error *err)
{
    size_t size = 0;
    char *at;

    for (size_t i = 0; i < n; i++) {
        if (box_check_piece (&pieces[i], err) < 0 || check_name (&pieces[i], err) < 0)
            return -1;
        size += sizeof (struct told) + strlen (pieces[i].name);
    }
    if (!(at = malloc (size + 1)))
        return mg_error_set (err, ENOMEM, "out of memory for %zu pieces", n);
    *data = at;
    *len = size;
    for (size_t i = 0; i < n; i++) {
        const struct piece *p = &pieces[i];
        struct told told = { .dtype = (int32_t)p->dtype, .ndims = (uint8_t)p->ndims,
                             .owner = p->owner, .name_len = (uint8_t)strlen (p->name) };

        memcpy (told.global, p->global, sizeof (told.global[0]) * told.ndims);
        memcpy (told.offset, p->offset, sizeof (told.offset[0]) * told.ndims);
        memcpy (told.extent, p->extent, sizeof (told.extent[0]) * told.ndims);
        memcpy (at, &told, sizeof (told));
        memcpy (at + sizeof (told), p->name, told.name_len);
        at += sizeof (told) + told.name_len;
    }
    return 0;
}

static int note_piece (struct roster *roster, int rank, size_t index,
                       const struct told *told, const char *name, struct mg_error *err)
{
    struct piece p = { .dtype = (enum mg_dtype)told->dtype, .ndims = told->ndims,
                       .data = &p };
    struct roster_part part = { .rank = rank, .index = index };
    struct roster_tensor *tensor;
    char who[32];

    memcpy (p.name, name, told->name_len);
    memcpy (p.global, told->global, sizeof (p.global));
    memcpy (p.offset, told->offset, sizeof (p.offset));
    memcpy (p.extent, told->extent, sizeof (p.extent));
    snprintf (who, sizeof (who), "rank %d", rank);
    if (box_check_piece (&p, err) < 0)
        return mg_error_prefix (err, "%s", who);
    tensor = roster_add (roster, p.name, p.dtype, p.ndims, p.global, who, err);
    if (!tensor)
        return -1;
    part.box = box_of_inside (&p);
    if (!told->owner || box_count (part.box) == 0)
        return 0;
    return roster_add_part (tensor, &part, err);
}

int roster_receive (void *roster, int rank, const void *data, size_t len, struct mg_error *err)
{
    const char *at = data, *end = at + len;

    for (size_t index = 0; at < end; index++) {
        struct told told = { .name_len = 0 };

        if ((size_t)(end - at) < sizeof (told))
            return mg_error_set (err, EPROTO, "rank %d: its list of pieces is cut", rank);
        memcpy (&told, at, sizeof (told));
        at += sizeof (told);
        if (told.name_len >= PIECE_NAME_MAX || end - at < told.name_len)
            return mg_error_set (err, EPROTO, "rank %d: its list of pieces is cut", rank);
        if (note_piece (roster, rank, index, &told, at, err) < 0)
            return -1;
        at += told.name_len;
    }
    return 0;
}

int roster_gather (const struct piece *pieces, size_t n, struct mg_comm *comm,
                   struct roster **out, struct mg_error *err)
{
    struct roster *roster = NULL;
    char *data = NULL;
    size_t len = 0;
    int rc;

    *out = NULL;
    rc = tell (pieces, n, &data, &len, err);
    if (rc == 0 && mg_comm_rank (comm) == 0 && !(roster = roster_create (err)))
        rc = -1;
    rc = exchange_result (comm, rc, err);
    if (rc == 0)
        rc = exchange_gather (comm, data, len, roster_receive, roster, err);
    free (data);
    if (rc == 0) {
        if (roster)
            rc = roster_check_cover (roster, err);
        rc = exchange_result (comm, rc, err);
    }
    if (rc < 0) {
        roster_destroy (roster);
        return -1;
    }
    *out = roster;
    return 0;
}
