/* state_tensor.c - one parameter of a run by its name
 *
 * Elements are brought together as sums of their bits: exactly one rank has the bits of an element,
 * and the others have zeros.  So every value arrives as it is, -0 and denormals included.
 *
 * Invariant: all ranks go through the same collectives.  A rank that fails on the way goes on with
 * zeros, and the ranks agree at the end.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/comm/exchange.h"
#include "libcore/train/state_private.h"
#include "libcore/train/state_tensor.h"

/* A rectangle of a tensor, and elements [from, to) of the tensor in row-major order. */
struct rect {
    int64_t row, column, rows, columns;
};
struct span {
    int64_t from, to;
};

/* Elements that a rectangle and a span have in common and that are neighbours in both: 'n' from
 * element 'in_rect' of the rectangle and from element 'in_span' of the span on.
 */
typedef int (*common_f) (void *arg, int64_t in_rect, int64_t in_span, int64_t n,
                         struct mg_error *err);

/* One row of a rectangle, which begins at element 'at' of the tensor. */
static int visit_row (int64_t at, int64_t n, int64_t in_rect, const struct span *span, common_f f,
                      void *arg, struct mg_error *err)
{
    int64_t from = at > span->from ? at : span->from;
    int64_t to = at + n < span->to ? at + n : span->to;

    return from < to ? f (arg, in_rect + from - at, from - span->from, to - from, err) : 0;
}

static int visit_common (struct rect r, int64_t columns, const struct span *span, common_f f,
                         void *arg, struct mg_error *err)
{
    int64_t first, last;

    if (r.rows < 1 || r.columns < 1)
        return 0;
    if (r.columns == columns) // all its rows stand one behind the other
        return visit_row (r.row * columns, r.rows * columns, 0, span, f, arg, err);
    first = span->from / columns > r.row ? span->from / columns : r.row;
    last = span->to / columns < r.row + r.rows - 1 ? span->to / columns : r.row + r.rows - 1;
    for (int64_t row = first; row <= last; row++) {
        if (visit_row (row * columns + r.column, r.columns, (row - r.row) * r.columns, span, f,
                       arg, err)
            < 0)
            return -1;
    }
    return 0;
}

/* --- what ranks have --- */

/* A piece without the padding that it may have behind the tensor. */
static struct rect rect_of (const struct piece *p)
{
    bool matrix = p->ndims == 2;
    struct rect r = { p->offset[0], matrix ? p->offset[1] : 0, p->extent[0],
                      matrix ? p->extent[1] : 1 };

    if (r.row + r.rows > p->global[0])
        r.rows = p->global[0] > r.row ? p->global[0] - r.row : 0;
    return r;
}

static int tp_rank_of (const struct state *s, const struct param *p)
{
    return job_group_rank (s->job, p->expert ? GROUP_ETP : GROUP_TP);
}

/* Add a run of a part, each of which has as many rows as the first. */
static void add_run (struct state_tensor *t, const struct piece *p)
{
    struct rect r = rect_of (p);

    if (t->part_rows == 0) {
        t->first_row = r.row;
        t->first_column = r.column;
        t->run_rows = r.rows > 0 ? r.rows : 1;
        t->run_stride = t->run_rows;
    }
    else if (t->part_rows == t->run_rows)
        t->run_stride = r.row - t->first_row;
    t->part_rows += r.rows;
    t->part_columns = r.rows > 0 ? r.columns : 0;
    t->owner = p->owner;
}

static void shape_of (struct state_tensor *t, const struct piece *p)
{
    t->rows = p->global[0];
    t->columns = p->ndims == 2 ? p->global[1] : 1;
}

/* The tensor among those of a parameter. */
static bool find_in_param (const struct state *s, const struct param *p, struct state_tensor *t)
{
    bool writer = job_group_rank (s->job, p->expert ? GROUP_EDP : GROUP_DP_CP) == 0;
    struct piece piece;
    bool found = false;

    if (!p->expert && strcmp (p->name, t->name) != 0)
        return false;
    for (int64_t from = 0; from < p->numel;) {
        from = param_piece (p, "", from, p->numel, writer, tp_rank_of (s, p), &piece);
        if (strcmp (piece.name, t->name) != 0)
            continue;
        shape_of (t, &piece);
        add_run (t, &piece);
        found = true;
    }
    return found;
}

/* A router's state, which is no parameter, but is in files of weights. */
static bool find_in_files (const struct state *s, struct state_tensor *t)
{
    for (size_t i = 0; i < s->weight.n; i++) {
        const struct piece *p = &s->weight.piece[i];

        if (!p->source || strcmp (p->name, t->name) != 0)
            continue;
        shape_of (t, p);
        add_run (t, p);
        return true;
    }
    return false;
}

/* A rank may have a parameter twice.  Of two equal ones, the one that counts is used. */
static void find_part (const struct state *s, struct state_tensor *t)
{
    const struct state_tensor none = *t;
    struct state_tensor best = none;
    size_t n;
    const struct param *params = model_params (s->model, &n);
    bool found = false;

    for (size_t i = 0; i < n; i++) {
        *t = none;
        if (find_in_param (s, &params[i], t) && (!found || t->owner)) {
            best = *t;
            found = true;
        }
    }
    *t = best;
    if (!found)
        find_in_files (s, t);
}

int state_find_tensor (struct state *s, const char *name, struct state_tensor *t,
                       struct mg_error *err)
{
    int64_t shape[2];

    *t = (struct state_tensor){ .name = name, .run_rows = 1, .run_stride = 1 };
    find_part (s, t);
    shape[0] = t->rows;
    shape[1] = t->columns;
    if (mg_comm_all_reduce (job_control (s->job), shape, 2, MG_INT64, MG_MAX, NULL, err) < 0)
        return -1;
    t->rows = shape[0];
    t->columns = shape[1];
    if (t->rows > 0)
        return 0;
    return mg_error_set (err, ENOENT, "the model has no parameter %.160s", name);
}

/* --- names --- */

static bool has_name (const struct state *s, const char *name, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp (s->names[i], name) == 0)
            return true;
    }
    return false;
}

/* Tensors of parameters and of routers.  Only the parameters that two stages have may be there
 * twice, so that names are compared for these alone.
 */
static int list_names (struct state *s)
{
    size_t n, max = s->weight.n;
    const struct param *params = model_params (s->model, &n);
    struct piece piece;

    for (size_t i = 0; i < n; i++)
        max += param_num_tensors (&params[i]);
    if (!(s->names = calloc (max + 1, sizeof (*s->names))))
        return -1;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < param_num_tensors (&params[i]); k++) {
            param_name_piece (&params[i], k, &piece);
            if (!params[i].shared_embedding || !has_name (s, piece.name, s->num_names))
                memcpy (s->names[s->num_names++], piece.name, sizeof (piece.name));
        }
    }
    for (size_t i = 0; i < s->weight.n; i++) {
        const struct piece *p = &s->weight.piece[i];

        if (p->source && p->optional)
            memcpy (s->names[s->num_names++], p->name, sizeof (p->name));
    }
    return 0;
}

int state_num_tensors (struct state *s)
{
    return !s->names && list_names (s) < 0 ? -1 : s->num_names;
}

const char *state_tensor_name (struct state *s, int i)
{
    return i >= 0 && i < state_num_tensors (s) ? s->names[i] : NULL;
}

/* --- pieces of a tensor --- */

/* A piece that is brought together on all ranks. */
struct chunk {
    struct span span;
    float *value; /* [STATE_TENSOR_CHUNK] */
    const struct piece *piece;
    const float *in; /* the rectangle's values, or where they go to */
    float *out;
};

static int read_piece (void *arg, int64_t in_rect, int64_t in_span, int64_t n,
                       struct mg_error *err)
{
    const struct chunk *c = arg;

    return c->piece->read (c->piece, in_rect, n, c->value + in_span, err);
}

static int write_piece (void *arg, int64_t in_rect, int64_t in_span, int64_t n,
                        struct mg_error *err)
{
    const struct chunk *c = arg;
    const struct piece *p = c->piece;

    if (!p->data)
        return p->write (p, in_rect, n, c->value + in_span, err);
    memcpy ((float *)p->data + in_rect, c->value + in_span, (size_t)n * sizeof (float));
    return 0;
}

static int copy_in (void *arg, int64_t in_rect, int64_t in_span, int64_t n, struct mg_error *err)
{
    const struct chunk *c = arg;

    (void)err;
    memcpy (c->value + in_span, c->in + in_rect, (size_t)n * sizeof (float));
    return 0;
}

static int copy_out (void *arg, int64_t in_rect, int64_t in_span, int64_t n, struct mg_error *err)
{
    const struct chunk *c = arg;

    (void)err;
    memcpy (c->out + in_rect, c->value + in_span, (size_t)n * sizeof (float));
    return 0;
}

/* All runs of this rank's part; copies do not fail. */
static void visit_part (const struct state_tensor *t, struct chunk *c, common_f f)
{
    const float *in = c->in;
    float *out = c->out;

    for (int64_t i = 0; i * t->run_rows < t->part_rows; i++) {
        struct rect r = { t->first_row + i * t->run_stride, t->first_column, t->run_rows,
                          t->part_columns };
        int64_t before = i * t->run_rows * t->part_columns;

        c->in = in ? in + before : NULL;
        c->out = out ? out + before : NULL;
        visit_common (r, t->columns, &c->span, f, c, NULL);
    }
    c->in = in;
    c->out = out;
}

/* All pieces of the tensor in a list, or those that this rank counts for. */
static int visit_pieces (const struct list *list, const struct state_tensor *t, struct chunk *c,
                         bool owned, common_f f, struct mg_error *err)
{
    for (size_t i = 0; i < list->n; i++) {
        c->piece = &list->piece[i];
        if (c->piece->source && (c->piece->owner || !owned)
            && strcmp (c->piece->name, t->name) == 0
            && visit_common (rect_of (c->piece), t->columns, &c->span, f, c, err) < 0)
            return -1;
    }
    return 0;
}

/* Sums of bits over all ranks. */
static int bring_together (const struct state *s, struct chunk *c, struct mg_error *err)
{
    return mg_comm_all_reduce (job_control (s->job), c->value,
                               (size_t)(c->span.to - c->span.from), MG_INT32, MG_SUM, NULL, err);
}

static void next_chunk (const struct state_tensor *t, struct chunk *c)
{
    int64_t all = t->rows * t->columns;

    c->span.from = c->span.to;
    c->span.to = all - c->span.from > STATE_TENSOR_CHUNK ? c->span.from + STATE_TENSOR_CHUNK : all;
}

/* Memory for a chunk: on all ranks or on none. */
static int make_chunk (const struct state *s, const struct state_tensor *t, struct chunk *c,
                       struct mg_error *err)
{
    int64_t all = t->rows * t->columns, most = STATE_TENSOR_CHUNK;
    size_t n = (size_t)(all < most ? all : most);
    int rc = 0;

    if (!(c->value = malloc (n * sizeof (float))))
        rc = mg_error_set (err, ENOMEM, "%s: out of memory", t->name);
    if (exchange_agree (job_control (s->job), rc, err) < 0) {
        free (c->value);
        return -1;
    }
    return 0;
}

static void clear_chunk (struct chunk *c)
{
    memset (c->value, 0, (size_t)(c->span.to - c->span.from) * sizeof (float));
}

/* The first failure of a rank that goes on. */
static void note (int *rc, int *errnum, struct mg_error *first, int result,
                  const struct mg_error *why)
{
    if (*rc < 0 || result == 0)
        return;
    *rc = -1;
    *errnum = errno;
    *first = *why;
}

int state_read_tensor (struct state *s, const struct state_tensor *t, int root, float *out,
                       struct mg_error *err)
{
    const bool whole = root == job_rank (s->job);
    struct chunk c = { .out = out };
    struct mg_error why, first;
    int rc = 0, errnum = 0;

    if (buffers_params_wait (s->buffers, err) < 0 || make_chunk (s, t, &c, err) < 0)
        return -1;
    while (c.span.to < t->rows * t->columns) {
        next_chunk (t, &c);
        clear_chunk (&c);
        note (&rc, &errnum, &first, visit_pieces (&s->weight, t, &c, true, read_piece, &why),
              &why);
        if (bring_together (s, &c, err) < 0) {
            free (c.value);
            return -1;
        }
        if (whole)
            memcpy (out + c.span.from, c.value,
                    (size_t)(c.span.to - c.span.from) * sizeof (float));
        else if (root < 0)
            visit_part (t, &c, copy_out);
    }
    free (c.value);
    if (rc < 0)
        mg_error_set (err, errnum, "%s", first.text);
    return exchange_agree (job_control (s->job), rc, err);
}

/* --- writing --- */

/* Pieces of a list that are stored together, in one range. */
static size_t end_of_range (const struct list *list, size_t i)
{
    const struct kept *k = list->piece[i].source;
    size_t end = i + 1;

    while (end < list->n && list->piece[end].source && k && !k->plain) {
        const struct kept *other = list->piece[end].source;

        if (other->plain || other->range != k->range || other->first == 0)
            break;
        end++;
    }
    return end;
}

/* Copies of the pieces that are written: those of the tensor, and those in a range with one.  A run
 * without an optimizer keeps no main parameters: there, all ranges are written.
 */
static int choose_pieces (const struct state *s, const struct state_tensor *t, struct list *chosen)
{
    const struct list *all = &s->weight;

    chosen->n = 0;
    if (!(chosen->piece = calloc (all->n + 1, sizeof (*chosen->piece))))
        return -1;
    for (size_t i = 0, end; i < all->n; i = end) {
        bool has = !s->optimizer;

        end = end_of_range (all, i);
        for (size_t k = i; k < end; k++)
            has |= strcmp (all->piece[k].name, t->name) == 0;
        for (size_t k = i; k < end && has; k++) {
            if (all->piece[k].source)
                chosen->piece[chosen->n++] = all->piece[k];
        }
    }
    return 0;
}

/* Fill in a chunk on all ranks: from the root, or from the parts that count. */
static int fill_chunk (const struct state *s, const struct state_tensor *t, int root,
                       struct chunk *c, struct mg_error *err)
{
    size_t n = (size_t)(c->span.to - c->span.from);

    clear_chunk (c);
    if (root == job_rank (s->job))
        memcpy (c->value, c->in + c->span.from, n * sizeof (float));
    if (root >= 0)
        return mg_comm_broadcast (job_control (s->job), c->value, n, MG_INT32, root, NULL, err);
    if (t->owner)
        visit_part (t, c, copy_in);
    return bring_together (s, c, err);
}

static int write_chunks (struct state *s, const struct state_tensor *t, int root,
                         struct list *list, struct chunk *c, struct mg_error *err)
{
    struct mg_error why, first;
    int rc = state_stage (list, &first), errnum = errno;

    while (c->span.to < t->rows * t->columns) {
        next_chunk (t, c);
        if (fill_chunk (s, t, root, c, err) < 0)
            return state_unstage (list, -1, err);
        if (rc == 0)
            note (&rc, &errnum, &first, visit_pieces (list, t, c, false, write_piece, &why), &why);
    }
    if (rc < 0)
        mg_error_set (err, errnum, "%s", first.text);
    rc = exchange_agree (job_control (s->job), rc, err);
    if (rc < 0)
        return state_unstage (list, rc, err);
    return exchange_agree (job_control (s->job), state_unstage (list, 0, err), err);
}

int state_write_tensor (struct state *s, const struct state_tensor *t, int root, const float *in,
                        struct mg_error *err)
{
    struct chunk c = { .in = in };
    struct list list = { .piece = NULL };
    int rc;

    if (buffers_params_wait (s->buffers, err) < 0)
        return -1;
    rc = choose_pieces (s, t, &list);
    if (rc < 0)
        mg_error_set (err, ENOMEM, "%s: out of memory", t->name);
    if (exchange_agree (job_control (s->job), rc, err) < 0 || make_chunk (s, t, &c, err) < 0) {
        free (list.piece);
        return -1;
    }
    rc = write_chunks (s, t, root, &list, &c, err);
    free (c.value);
    free (list.piece);
    return rc < 0 ? -1 : state_make_params (s, err);
}
