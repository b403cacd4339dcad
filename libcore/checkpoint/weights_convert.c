/* weights_convert.c - pieces whose elements are copied out of a source when they are read */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/box.h"
#include "libcore/checkpoint/elements.h"
#include "libcore/checkpoint/weights.h"

enum { BUF_ELEMENTS = 2048 }; /* that are converted at once */

/* The source of a piece. */
struct weights_view {
    const struct names *names;
    const struct names_tensor *tensor; /* to make; NULL: the parameter 'param' is */
    size_t param;
    enum mg_dtype dtype; /* of the source */
    const void *data[LAYER_MAX_PARTS]; /* the whole parameter; the foreign tensors of one */
    enum mg_dtype part[LAYER_MAX_PARTS]; /* their types */
    bool mixed;                          /* they differ */
};

static void copy (const struct weights_view *v, int64_t from, int64_t n, void *out)
{
    size_t size = mg_dtype_size (v->dtype);

    if (v->tensor)
        names_export (v->tensor, v->data[0], size, from, n, out);
    else
        names_import (v->names, v->param, v->data, size, from, n, out);
}

static int refuse_element (const struct piece *p, int64_t i, struct mg_error *err)
{
    return mg_error_set (err, ERANGE, "tensor %s: element %" PRId64 " is too large for %s", p->name,
                         i, mg_dtype_name (p->dtype));
}

/* Convert each run of elements that follow each other in a foreign tensor. */
static int read_mixed (const struct piece *p, int64_t from, int64_t n, void *out,
                       struct mg_error *err)
{
    const struct weights_view *v = p->source;
    const size_t size = mg_dtype_size (p->dtype);
    int64_t some, at, stride;
    size_t part;

    for (int64_t done = 0; done < n; done += some) {
        const char *in;

        some = names_locate (v->names, v->param, from + done, &part, &at, &stride);
        some = stride > 1 ? 1 : some < n - done ? some : n - done;
        in = (const char *)v->data[part] + (size_t)at * mg_dtype_size (v->part[part]);
        at = elements_convert ((char *)out + (size_t)done * size, p->dtype, in, v->part[part],
                               some);
        if (at < some)
            return refuse_element (p, from + done + at, err);
    }
    return 0;
}

static int read_view (const struct piece *p, int64_t from, int64_t n, void *out,
                      struct mg_error *err)
{
    const struct weights_view *v = p->source;
    size_t size = mg_dtype_size (p->dtype);
    double raw[BUF_ELEMENTS]; /* room for any type */
    int64_t some, good;

    if (v->mixed)
        return read_mixed (p, from, n, out, err);
    if (p->dtype == v->dtype) {
        copy (v, from, n, out);
        return 0;
    }
    for (int64_t done = 0; done < n; done += some) {
        some = n - done < BUF_ELEMENTS ? n - done : BUF_ELEMENTS;
        copy (v, from + done, some, raw);
        good = elements_convert ((char *)out + (size_t)done * size, p->dtype, raw, v->dtype, some);
        if (good < some)
            return refuse_element (p, from + done + good, err);
    }
    return 0;
}

/* --- making them --- */

static int allocate (struct weights_conversion *c, const struct names_scheme *scheme,
                     const struct model_config *config, struct mg_error *err)
{
    size_t n;

    *c = (struct weights_conversion){ .view = NULL };
    if (!(c->names = names_create (scheme, config, err)))
        return -1;
    n = c->names->num_params > c->names->num_tensors ? c->names->num_params
                                                      : c->names->num_tensors;
    if (!(c->view = calloc (n + 1, sizeof (*c->view))))
        return mg_error_set (err, ENOMEM, "out of memory for %zu tensors", n);
    return pieces_allocate (&c->pieces, n, err);
}

static bool is_widened (enum mg_dtype type)
{
    return type == MG_FLOAT32 || type == MG_BFLOAT16 || type == MG_FLOAT16;
}

/* Take the data of a tensor for part 'i' of a view.  If the parts have several types, 'dtype' is
 * the type of the result.
 */
static int take (struct weights_view *v, const struct weights *w, const char *name, size_t i,
                 int dtype, struct mg_error *err)
{
    struct weights_tensor t;

    if (!weights_find (w, name, &t))
        return mg_error_set (err, EINVAL, "tensor %s is not in it", name);
    if (!t.data && t.shape[0] > 0)
        return mg_error_set (err, EINVAL, "tensor %s has no data", name);
    if (i > 0 && t.dtype != v->dtype
        && (dtype == WEIGHTS_AS_IS
            || (dtype == WEIGHTS_WIDENED && !(is_widened (t.dtype) && is_widened (v->dtype)))))
        return mg_error_set (err, EINVAL, "tensor %s has data type %s, others of the same "
                             "parameter have %s: want one type, as --dtype makes it", name,
                             mg_dtype_name (t.dtype), mg_dtype_name (v->dtype));
    if (t.dtype == MG_INT32 || t.dtype == MG_INT64 || t.dtype == MG_UINT8)
        return mg_error_set (err, EINVAL, "tensor %s has data type %s, want a floating-point type",
                             name, mg_dtype_name (t.dtype));
    if (dtype >= 0 && !elements_can_convert (t.dtype, (enum mg_dtype)dtype))
        return mg_error_set (err, EINVAL, "tensor %s has data type %s, which does not convert to "
                             "%s", name, mg_dtype_name (t.dtype),
                             mg_dtype_name ((enum mg_dtype)dtype));
    v->mixed = v->mixed || (i > 0 && t.dtype != v->dtype);
    v->dtype = v->part[i] = t.dtype;
    v->data[i] = t.data;
    return 0;
}

/* The type of a converted parameter. */
static int type_of (const struct names_param *p, int dtype)
{
    return p->state && dtype >= 0 ? (int)MG_FLOAT32 : dtype;
}

static void describe (struct weights_conversion *c, size_t i, const char *name, int ndims,
                      const int64_t *shape, int dtype)
{
    enum mg_dtype type = dtype >= 0 ? (enum mg_dtype)dtype
                         : c->view[i].mixed ? MG_FLOAT32 : c->view[i].dtype;
    struct piece *p = pieces_describe (&c->pieces, name, type, ndims, shape);

    p->read = read_view;
    p->source = &c->view[i];
}

/* As take(), but from the start of the slice if the tensor is one. */
static int add_foreign (struct weights_view *v, const struct weights *w,
                        const struct names_tensor *t, size_t i, int dtype, struct mg_error *err)
{
    int64_t slice = t->shape[0] * t->shape[1] * (int64_t)t->slice;

    if (take (v, w, t->name, i, dtype, err) < 0)
        return -1;
    v->data[i] = (const char *)v->data[i] + (size_t)slice * mg_dtype_size (v->dtype);
    return 0;
}

static int import (const struct weights *w, const struct model_config *config, int dtype,
                   struct weights_conversion *c, struct mg_error *err)
{
    const struct names *names;

    if (allocate (c, w->scheme, config, err) < 0 || weights_check (w, c->names, err) < 0)
        return -1;
    names = c->names;
    for (size_t i = 0; i < names->num_params; i++) {
        const struct names_param *p = &names->param[i];
        int type = type_of (p, dtype);

        if (weights_may_lack (w, p))
            continue;
        c->view[i] = (struct weights_view){ .names = names, .param = i };
        for (size_t k = 0; k < p->num; k++) {
            if (add_foreign (&c->view[i], w, &names->tensor[p->first + k], k, type, err) < 0)
                return -1;
        }
        describe (c, i, p->name, p->ndims, p->shape, type);
    }
    return 0;
}

int weights_import (const struct weights *w, const struct model_config *config, int dtype,
                    struct weights_conversion *c, struct mg_error *err)
{
    int rc = import (w, config, dtype, c, err);

    if (rc < 0)
        weights_clear (c);
    return rc;
}

static int export (const struct weights *w, const struct names_scheme *scheme,
                   const struct model_config *config, int dtype,
                   struct weights_conversion *c, struct mg_error *err)
{
    struct names *own = names_create (w->scheme, config, err);
    int rc = own ? weights_check (w, own, err) : -1;

    names_destroy (own);
    *c = (struct weights_conversion){ .view = NULL };
    if (rc < 0 || allocate (c, scheme, config, err) < 0)
        return -1;
    for (size_t i = 0; i < c->names->num_tensors; i++) {
        const struct names_tensor *t = &c->names->tensor[i];
        const struct names_param *p = &c->names->param[t->param];
        int type = type_of (p, dtype);

        c->view[i] = (struct weights_view){ .names = c->names, .tensor = t };
        if (take (&c->view[i], w, p->name, 0, type, err) < 0)
            return -1;
        describe (c, i, t->name, t->ndims, t->shape, type);
    }
    return 0;
}

int weights_export (const struct weights *w, const struct names_scheme *scheme,
                    const struct model_config *config, int dtype,
                    struct weights_conversion *c, struct mg_error *err)
{
    int rc = export (w, scheme, config, dtype, c, err);

    if (rc < 0)
        weights_clear (c);
    return rc;
}

static int fill (const struct piece *to, const struct piece *from, struct mg_error *err)
{
    float buf[BUF_ELEMENTS];
    struct box slab;
    int64_t done = 0;

    while (box_next_slab (box_of_inside (to), BUF_ELEMENTS, &done, &slab)) {
        if (box_copy_piece (buf, slab, from, slab, err) < 0
            || box_store_piece (to, slab, buf, slab, err) < 0)
            return -1;
    }
    return 0;
}

int weights_fill (const struct weights_conversion *conversion, const struct piece *pieces, size_t n,
                  struct mg_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct piece *to = &pieces[i], *from = pieces_find (&conversion->pieces, to->name);

        if (!from || from->ndims != to->ndims || from->dtype != MG_FLOAT32
            || to->dtype != MG_FLOAT32
            || memcmp (from->global, to->global, sizeof (to->global[0]) * (size_t)to->ndims) != 0)
            return mg_error_set (err, EINVAL, "tensor %s is not in the conversion", to->name);
        if (fill (to, from, err) < 0)
            return -1;
    }
    return 0;
}

void weights_clear (struct weights_conversion *c)
{
    int saved_errno = errno;

    pieces_clear (&c->pieces);
    names_destroy (c->names);
    free (c->view);
    *c = (struct weights_conversion){ .view = NULL };
    errno = saved_errno;
}
