/* Layouts: order, buckets, and the plain (not sharded) cases of the reference data. */

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/optim/layout.h"
#include "tests/tap/tap.h"

static void test_buckets (void)
{
    /* ten parameters of 9025 elements: bucket size, elements of the first bucket, count */
    static const struct {
        int64_t size, first;
        int count;
    } cases[] = {
        { 0, 90250, 1 },     { 9000, 9025, 10 },  { 9025, 9025, 10 }, { 9026, 18050, 5 },
        { 18049, 18050, 5 }, { 18050, 18050, 5 }, { 18051, 27075, 4 }, { 90250, 90250, 1 },
        { 90251, 90250, 1 },
    };
    struct param params[10] = { 0 };

    for (int i = 0; i < 10; i++)
        params[i].numel = 9025;
    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        struct layout *l = layout_create (params, 10, cases[i].size, NULL);

        if (!l)
            bail_out ("layout_create failed");
        is_int (l->num_buckets, cases[i].count, "bucket size %lld: buckets",
                (long long)cases[i].size);
        is_int (l->bucket[0].end, cases[i].first, "and the first one's elements");
        is_int (l->bucket[l->num_buckets - 1].end, l->numel, "and the last one's end");
        layout_destroy (l);
    }
}

static void test_badparam (void)
{
    struct param p = { .numel = 1 };
    struct mg_error err = { "" };

    struct layout *none = layout_create (&p, 0, 0, &err);

    ok (none && none->numel == 0 && none->num_buckets == 0, "no parameters, no buckets");
    layout_destroy (none);
    ok (!layout_create (&p, 1, -1, &err) && errno == EINVAL, "bucket size -1: %s", err.text);
    errno = 0;
    layout_destroy (NULL);
    is_int (errno, 0, "layout_destroy (NULL) keeps errno");
}

/* The parameters of a list that have the buffer's type: numel by place in the list. */
static size_t read_params (json_t *list, struct param *params, int *mixed)
{
    size_t i;
    json_t *row;

    *mixed = 0;
    json_array_foreach (list, i, row) {
        json_t *shape = json_object_get (row, "shape"), *dim;
        size_t d;

        params[i].numel = 1;
        json_array_foreach (shape, d, dim)
            params[i].numel *= json_integer_value (dim);
        if (json_object_get (row, "dtype") || json_is_true (json_object_get (row, "expert")))
            *mixed = 1;
    }
    return json_array_size (list);
}

static bool same_map (const struct layout *l, json_t *map)
{
    size_t i;
    json_t *row;

    json_array_foreach (map, i, row) {
        const struct layout_entry *e = &l->entry[i];

        if (json_integer_value (json_array_get (row, 0)) != (json_int_t)e->param
            || json_integer_value (json_array_get (row, 1)) != e->start
            || json_integer_value (json_array_get (row, 2)) != e->end
            || json_integer_value (json_array_get (row, 3)) != e->bucket)
            return false;
    }
    return true;
}

static void check_case (json_t *lists, json_t *c)
{
    const char *name = json_string_value (json_object_get (c, "param_list"));
    json_t *list = json_object_get (lists, name);
    json_t *buffer = json_array_get (json_object_get (c, "buffers"), 0);
    json_t *map = json_object_get (buffer, "param_index_map");
    struct param *params = calloc (json_array_size (list), sizeof (*params));
    struct layout *l = NULL;
    int mixed;
    size_t n;

    if (!params)
        bail_out ("out of memory");
    n = read_params (list, params, &mixed);
    if (mixed)
        skip (1, "%s: several buffers", name);
    else if (!(l = layout_create (params, n,
                   json_integer_value (json_object_get (c, "bucket_size_used")), NULL)))
        bail_out ("layout_create failed");
    else
        ok (l->numel == json_integer_value (json_object_get (buffer, "numel"))
                && l->num_buckets == json_integer_value (json_object_get (buffer, "n_buckets"))
                && (!map || same_map (l, map)),
            "%s: as the reference, %d buckets", name, l->num_buckets);
    layout_destroy (l);
    free (params);
}

static void test_golden (void)
{
    char path[4096];
    json_t *root, *cases, *c;
    size_t i;

    if (!shared_file (path, sizeof (path), "golden/04_ddp_buffers.json")) {
        skip (1, "no %s", path);
        return;
    }
    if (!(root = json_load_file (path, 0, NULL)))
        bail_out ("%s: not JSON", path);
    cases = json_object_get (root, "cases");
    json_array_foreach (cases, i, c)
        if (!json_is_true (json_object_get (c, "use_distributed_optimizer")))
            check_case (json_object_get (root, "param_lists"), c);
    json_decref (root);
}

int main (void)
{
    test_buckets ();
    test_badparam ();
    test_golden ();
    return done_testing ();
}
