/* names.c - lists of foreign tensors, and elements on their way between the two layouts
 *
 * Everything is about rows: a parameter is [rows, columns], a vector has one column.  A foreign
 * tensor has runs of the parameter's rows, and inside a run rows follow each other in both.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/model/model_params.h"
#include "libcore/model/names.h"

const struct names_scheme names_own = { .name = "a GPT" };

void names_format (char name[PIECE_NAME_MAX], const char *pattern, int number, int expert)
{
    const int numbers[] = { number, expert };
    const char *at;
    int len = 0;

    *name = '\0';
    for (int i = 0; i < 2 && len < PIECE_NAME_MAX && (at = strstr (pattern, "%d")); i++) {
        len += snprintf (name + len, PIECE_NAME_MAX - (size_t)len, "%.*s%d", (int)(at - pattern),
                         pattern, numbers[i]);
        pattern = at + 2;
    }
    if (len < PIECE_NAME_MAX)
        snprintf (name + len, PIECE_NAME_MAX - (size_t)len, "%s", pattern);
}

/* The table that follows a table of a scheme. */
static const struct names_row *next_table (const struct names_scheme *scheme,
                                           const struct names_row *table)
{
    return table == scheme->row ? scheme->more : NULL;
}

const struct names_row *names_row_of (const struct names_scheme *scheme, const char *ours)
{
    for (const struct names_row *table = scheme->row; table; table = next_table (scheme, table)) {
        for (const struct names_row *row = table; row->ours; row++) {
            if (strcmp (row->ours, ours) == 0)
                return row;
        }
    }
    return NULL;
}

static int count_numbers (const char *pattern)
{
    int n = 0;

    for (; (pattern = strstr (pattern, "%d")); pattern += 2)
        n++;
    return n;
}

const char names_expert_fc1[] = "decoder.layers.%d.mlp.experts.local_experts.%d.linear_fc1.weight";

bool names_are_fused (const struct names_scheme *scheme)
{
    const struct names_row *row = names_row_of (scheme, names_expert_fc1);

    return row && count_numbers (row->theirs) == 1;
}

/* --- lists --- */

/* The parameter for which a row is looked up. */
struct place {
    char pattern[PIECE_NAME_MAX]; /* of our name */
    char key[PIECE_NAME_MAX];     /* the name that the parameter has in tables */
    int number, expert;
    int foreign; /* number of the layer in foreign names */
};

/* The place of parameter 'name' of layer 'number', whose names begin with 'prefix'. */
static struct place place_of (const struct names *names, const struct names_scheme *scheme,
                              const char *prefix, const char *name, int number)
{
    static const char mtp[] = "mtp.", transformer[] = "mtp.layers.%d.mtp_model_layer.";
    static const char layer[] = "decoder.layers.%d.";
    const size_t len = sizeof (transformer) - 1;
    struct place at = { .number = number, .foreign = number };

    snprintf (at.pattern, sizeof (at.pattern), "%s%s", prefix, name);
    memcpy (at.key, at.pattern, sizeof (at.key));
    if (strncmp (at.pattern, mtp, sizeof (mtp) - 1) == 0)
        at.foreign += names->first_mtp;
    if (scheme->copy && strncmp (at.pattern, transformer, len) == 0)
        snprintf (at.key, sizeof (at.key), "%s%.*s", layer, (int)(sizeof (at.key) - sizeof (layer)),
                  at.pattern + len);
    return at;
}

/* Make room for one more element in an array.  NULL if out of memory; the array then stays. */
static void *grow (void *array, size_t n, size_t *max, size_t size)
{
    size_t want = n < 32 ? 64 : 2 * n;
    void *more;

    if (n < *max)
        return array;
    if ((more = realloc (array, want * size)))
        *max = want;
    return more;
}

static struct names_param *add_param (struct names *names, const struct layer_param *p,
                                      const struct place *at, struct mg_error *err)
{
    struct names_param *more = grow (names->param, names->num_params, &names->max_params,
                                     sizeof (*more));

    if (!more) {
        mg_error_set (err, ENOMEM, "out of memory for %zu tensors", names->num_params);
        return NULL;
    }
    names->param = more;
    more += names->num_params++;
    *more = (struct names_param){ .ndims = p->ndims, .first = names->num_tensors,
                                  .shape = { p->global[0], p->ndims == 2 ? p->global[1] : 1 } };
    names_format (more->name, at->pattern, at->number, at->expert);
    return more;
}

/* Parts of a parameter, and rows of a group. */
static int count_parts (const struct layer_param *p, int64_t *group)
{
    int n = 0;

    for (*group = 0; n < LAYER_MAX_PARTS && p->part[n] > 0; n++)
        *group += p->part[n];
    return n;
}

/* The rows that a row of the table wants, and bits of the parts that they are; 0: there are none
 * such.
 */
static unsigned find_rows (const struct layer_param *p, int part, struct names_tensor *t)
{
    int64_t group, before = 0;
    int n = count_parts (p, &group), wanted = part - NAMES_PART;

    t->num_runs = 0;
    if (part == NAMES_WHOLE) {
        t->runs[t->num_runs++] = (struct names_runs){ 0, p->global[0], p->global[0], 1 };
        return ~0u;
    }
    if (n == 0 || p->global[0] % group != 0 || (part != NAMES_IN_TURN && wanted >= n))
        return 0;
    for (int i = 0; i < n; i++) {
        if (part == NAMES_IN_TURN || i == wanted)
            t->runs[t->num_runs++] = (struct names_runs){ before, p->part[i], group,
                                                          p->global[0] / group };
        before += p->part[i];
    }
    return part == NAMES_IN_TURN ? ~0u : 1u << wanted;
}

static int append (struct names *names, const struct names_tensor *t, struct mg_error *err)
{
    struct names_tensor *more = grow (names->tensor, names->num_tensors, &names->max_tensors,
                                      sizeof (*more));

    if (!more)
        return mg_error_set (err, ENOMEM, "out of memory for %zu tensors", names->num_tensors);
    names->tensor = more;
    names->tensor[names->num_tensors++] = *t;
    return 0;
}

static int add_tensor (struct names *names, const struct names_scheme *scheme,
                       const struct layer_param *p, const struct names_row *row,
                       const struct place *at, unsigned *held, struct mg_error *err)
{
    const char *ours = names->param[names->num_params - 1].name;
    struct names_tensor t = { .ndims = p->ndims, .param = names->num_params - 1 };
    int64_t rows = 0, cols = p->ndims == 2 ? p->global[1] : 1;
    unsigned parts = find_rows (p, row->part, &t);

    names_format (t.name, row->theirs, at->foreign, at->expert);
    if (p->experts > 0 && count_numbers (row->theirs) == 1) {
        t.slice = at->expert;
        t.slices = p->experts;
    }
    if (parts == 0 || (parts & *held))
        return mg_error_set (err, EINVAL, "%s: %s %s", scheme->name, ours,
                             parts ? "is there twice" : "has no such part");
    *held |= parts;
    t.transposed = p->ndims == 2 && row->transposed && !scheme->as_is;
    for (int i = 0; i < t.num_runs; i++)
        rows += t.runs[i].rows * t.runs[i].count;
    t.shape[0] = t.transposed ? cols : rows;
    t.shape[1] = t.transposed ? rows : cols;
    names->param[t.param].num++;
    return append (names, &t, err);
}

/* Add every foreign tensor that has rows of the last parameter, by a table. */
static int add_tensors (struct names *names, const struct names_scheme *scheme,
                        const struct names_row *table, const struct layer_param *p,
                        const struct place *at, unsigned *held, struct mg_error *err)
{
    for (const struct names_row *row = table; row->ours; row++) {
        if (strcmp (row->ours, at->key) == 0
            && add_tensor (names, scheme, p, row, at, held, err) < 0)
            return -1;
    }
    return 0;
}

/* Add a parameter, and every foreign tensor that has rows of it. */
static int add_named (struct names *names, const struct names_scheme *scheme,
                      const struct layer_param *p, const struct place *at, struct mg_error *err)
{
    const struct names_row same[] = { { .ours = at->key, .theirs = at->pattern },
                                      { .ours = NULL } };
    int64_t group;
    unsigned all = (1u << count_parts (p, &group)) - 1, held = 0;

    if (!add_param (names, p, at, err))
        return -1;
    for (const struct names_row *table = scheme->row ? scheme->row : same; table;
         table = next_table (scheme, table)) {
        if (add_tensors (names, scheme, table, p, at, &held, err) < 0)
            return -1;
    }
    if (held == 0 || (held & all) != all)
        return mg_error_set (err, EINVAL, "%s has no tensor for %s%s", scheme->name,
                             held ? "a part of " : "", names->param[names->num_params - 1].name);
    return 0;
}

int names_add_layer (struct names *names, const struct names_scheme *scheme,
                     const struct layer_spec *spec, int number, struct mg_error *err)
{
    for (int i = 1; i <= spec->num_params; i++) {
        const struct layer_param *p = &spec->param[i];
        struct place at = place_of (names, scheme, p->whole_name ? "" : spec->prefix, p->name,
                                    number);

        for (; at.expert < (p->experts > 0 ? p->experts : 1); at.expert++) {
            if (add_named (names, scheme, p, &at, err) < 0)
                return -1;
        }
    }
    return 0;
}

/* Add the state of a router, which is no parameter. */
static int add_router (struct names *names, const struct names_scheme *scheme,
                       const struct model_moe *moe, const char *prefix, int number,
                       struct mg_error *err)
{
    const struct {
        const char *name;
        bool there;
    } rows[] = { { "mlp.router.expert_bias", moe->expert_bias },
                 { "mlp.router.qb_beta", moe->choice == MOE_QUANTILE } };
    const struct layer_param p = { .ndims = 1, .global = { moe->experts } };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        const struct place at = place_of (names, scheme, prefix, rows[i].name, number);

        if (!rows[i].there)
            continue;
        if (add_named (names, scheme, &p, &at, err) < 0)
            return -1;
        names->param[names->num_params - 1].state = true;
    }
    return 0;
}

/* Drop parameters that are in the list already: the word embedding, and the output layer. */
static void drop_shared (struct layer_spec *spec)
{
    int kept = 0;

    for (int i = 1; i <= spec->num_params; i++) {
        if (!spec->param[i].embedding && !spec->param[i].output)
            spec->param[++kept] = spec->param[i];
    }
    spec->num_params = kept;
}

/* The output layer is the word embedding. */
static void tie (struct names *names, const struct names_scheme *scheme, struct layer_spec *head)
{
    const struct names_row *row = names_row_of (scheme, "output_layer.weight");

    drop_shared (head);
    if (row)
        names_format (names->tied, row->theirs, 0, 0);
}

static int add_layers (struct names *names, const struct names_scheme *scheme,
                       const struct model_config *c, struct mg_error *err)
{
    struct model_list list;
    int rc = model_list_describe (&list, c, err);

    for (int i = 0; rc == 0 && i < list.n; i++) {
        const struct model_place *at = &list.place[i];
        struct layer_spec *spec = &list.spec[at->spec];
        int number = at->mtp > 0 ? at->mtp - 1 : at->number;

        if (at->same > 0)
            continue;
        if (at->mtp > 0) { // which come last
            drop_shared (spec);
            spec->prefix = spec->mtp_prefix;
        } else if (at->step > 0 && spec->param[spec->num_params].embedding)
            tie (names, scheme, spec);
        rc = names_add_layer (names, scheme, spec, number, err);
        if (rc == 0 && spec->router)
            rc = add_router (names, scheme, &c->moe, spec->prefix, number, err);
    }
    model_list_clear (&list);
    return rc;
}

/* Add the copies that each layer for multi-token prediction has of a parameter.  If the output
 * layer is the word embedding, the first parameter, copies of the output layer are copies of that
 * parameter.
 */
static int add_copies (struct names *names, const struct names_row *row, int layers,
                       struct mg_error *err)
{
    size_t param = names->num_params - 1;
    struct names_tensor t;

    while (param > 0 && strcmp (names->param[param].name, row->ours) != 0)
        param--;
    t = *names_first_of (names, param);
    for (int i = 0; i < layers; i++) {
        names_format (t.name, row->theirs, names->first_mtp + i, 0);
        if (append (names, &t, err) < 0)
            return -1;
        names->num_copies++;
    }
    return 0;
}

static int add_all (struct names *names, const struct names_scheme *scheme,
                    const struct model_config *c, struct mg_error *err)
{
    int rc = add_layers (names, scheme, c, err);

    for (const struct names_row *row = scheme->copy; rc == 0 && row && row->ours; row++)
        rc = add_copies (names, row, model_mtp_own (c), err);
    return rc;
}

const struct names_tensor *names_first_of (const struct names *names, size_t param)
{
    return &names->tensor[names->param[param].first];
}

struct names *names_create (const struct names_scheme *scheme, const struct model_config *c,
                            struct mg_error *err)
{
    struct names *names;

    if (scheme->check && scheme->check (c, err) < 0)
        return NULL;
    if (!(names = calloc (1, sizeof (*names)))) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    names->first_mtp = scheme->copy ? c->num_layers : 0;
    if (add_all (names, scheme, c, err) < 0) {
        names_destroy (names);
        return NULL;
    }
    return names;
}

void names_destroy (struct names *names)
{
    int saved_errno = errno;

    if (!names)
        return;
    free (names->param);
    free (names->tensor);
    free (names);
    errno = saved_errno;
}

/* --- elements --- */

/* Row 'row' of a foreign tensor is row *ours of the parameter: returns for how many rows, from this
 * one on, both go on together.
 */
static int64_t run_of_theirs (const struct names_tensor *t, int64_t row, int64_t *ours)
{
    for (int i = 0; i < t->num_runs; i++) {
        const struct names_runs *r = &t->runs[i];

        if (row < r->rows * r->count) {
            *ours = r->first + row / r->rows * r->stride + row % r->rows;
            return r->rows - row % r->rows;
        }
        row -= r->rows * r->count;
    }
    return 0;
}

/* The same for row 'row' of the parameter: 0 if the foreign tensor does not have it. */
static int64_t run_of_ours (const struct names_tensor *t, int64_t row, int64_t *theirs)
{
    int64_t before = 0;

    for (int i = 0; i < t->num_runs; i++) {
        const struct names_runs *r = &t->runs[i];
        int64_t at = row - r->first;

        if (at >= 0 && at / r->stride < r->count && at % r->stride < r->rows) {
            *theirs = before + at / r->stride * r->rows + at % r->stride;
            return r->rows - at % r->stride;
        }
        before += r->rows * r->count;
    }
    return 0;
}

/* 'n' elements of a column or of a row: every 'stride'-th. */
static void pick (char *out, const char *in, int64_t n, int64_t stride, size_t size)
{
    if (stride == 1) {
        memcpy (out, in, (size_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++, out += size, in += (size_t)stride * size) {
        switch (size) { /* a copy of constant size is one move */
        case 2: memcpy (out, in, 2); break;
        case 4: memcpy (out, in, 4); break;
        default: memcpy (out, in, size);
        }
    }
}

static int64_t least (int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void names_export (const struct names_tensor *tensor, const void *ours, size_t size,
                   int64_t from, int64_t n, void *out)
{
    int64_t width = tensor->shape[1], done;
    int64_t cols = tensor->transposed ? tensor->shape[0] : width;
    char *to = out;

    for (; n > 0; n -= done, from += done, to += (size_t)done * size) {
        int64_t at = from % width, row, rows;

        if (tensor->transposed) { /* along a column of ours */
            rows = run_of_theirs (tensor, at, &row);
            done = least (n, rows);
            pick (to, (const char *)ours + (size_t)(row * cols + from / width) * size, done,
                  cols, size);
            continue;
        }
        rows = run_of_theirs (tensor, from / width, &row);
        done = least (n, rows * cols - at);
        pick (to, (const char *)ours + (size_t)(row * cols + at) * size, done, 1, size);
    }
}

int64_t names_locate (const struct names *names, size_t param, int64_t from, size_t *part,
                      int64_t *at, int64_t *stride)
{
    const struct names_param *p = &names->param[param];
    const struct names_tensor *t = NULL;
    int64_t cols = p->shape[1], row = 0, rows = 0;

    for (*part = 0; rows == 0; ++*part) { /* names_create() has proved that one has it */
        t = &names->tensor[p->first + *part];
        rows = run_of_ours (t, from / cols, &row);
    }
    --*part;
    *stride = t->transposed ? t->shape[1] : 1;
    *at = t->transposed ? from % cols * t->shape[1] + row : row * cols + from % cols;
    return t->transposed ? cols - from % cols : rows * cols - from % cols;
}

void names_import (const struct names *names, size_t param, const void *const *theirs,
                   size_t size, int64_t from, int64_t n, void *out)
{
    int64_t done, at, stride;
    char *to = out;
    size_t part;

    for (; n > 0; n -= done, from += done, to += (size_t)done * size) {
        done = least (n, names_locate (names, param, from, &part, &at, &stride));
        pick (to, (const char *)theirs[part] + (size_t)at * size, done, stride, size);
    }
}
