/* pieces.c - lists of whole tensors */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/box.h"
#include "libcore/checkpoint/pieces.h"

int pieces_allocate (struct pieces *pieces, size_t n, struct mg_error *err)
{
    *pieces = (struct pieces){ .max = n };
    if (!(pieces->piece = calloc (n + 1, sizeof (*pieces->piece))))
        return mg_error_set (err, ENOMEM, "out of memory for %zu tensors", n);
    return 0;
}

void pieces_clear (struct pieces *pieces)
{
    int saved_errno = errno;

    for (size_t i = 0; i < pieces->n; i++)
        free (pieces->piece[i].data);
    free (pieces->piece);
    *pieces = (struct pieces){ .n = 0 };
    errno = saved_errno;
}

struct piece *pieces_describe (struct pieces *pieces, const char *name, enum mg_dtype dtype,
                               int ndims, const int64_t *shape)
{
    struct piece *p = &pieces->piece[pieces->n++];

    *p = (struct piece){ .dtype = dtype, .ndims = ndims, .owner = true };
    snprintf (p->name, sizeof (p->name), "%s", name);
    memcpy (p->global, shape, (size_t)ndims * sizeof (*shape));
    memcpy (p->extent, shape, (size_t)ndims * sizeof (*shape));
    return p;
}

struct piece *pieces_add (struct pieces *pieces, const char *name, enum mg_dtype dtype, int ndims,
                          const int64_t *shape, struct mg_error *err)
{
    struct piece *p = pieces_describe (pieces, name, dtype, ndims, shape);

    p->data = p; /* there will be some */
    if (box_check_piece (p, err) < 0)
        goto error;
    if (!(p->data = calloc ((size_t)box_count (box_of_piece (p)) + 1, mg_dtype_size (dtype)))) {
        mg_error_set (err, ENOMEM, "out of memory for tensor %s", name);
        goto error;
    }
    return p;
error:
    p->data = NULL;
    pieces->n--;
    return NULL;
}

struct piece *pieces_find (const struct pieces *pieces, const char *name)
{
    for (size_t i = 0; i < pieces->n; i++) {
        if (strcmp (pieces->piece[i].name, name) == 0)
            return &pieces->piece[i];
    }
    return NULL;
}

int pieces_read (struct pieces *out, const struct pieces *in, struct mg_error *err)
{
    if (pieces_allocate (out, in->n, err) < 0)
        return -1;
    for (size_t i = 0; i < in->n; i++) {
        const struct piece *from = &in->piece[i];
        struct box all = box_of_piece (from);
        struct piece *to = pieces_add (out, from->name, from->dtype, from->ndims, from->global,
                                       err);

        if (!to || box_copy_piece (to->data, all, from, all, err) < 0) {
            pieces_clear (out);
            return -1;
        }
    }
    return 0;
}
