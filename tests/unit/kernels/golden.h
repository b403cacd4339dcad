/* golden - cases of the reference data: a JSON file that lists them, and an .npz file with their
 * arrays.  Every function ends the test if something is not there.
 */
#ifndef TESTS_UNIT_KERNELS_GOLDEN_H
#define TESTS_UNIT_KERNELS_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tests/lib/npz.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

/* One case: its parameters and arrays. */
struct golden {
    const char *prefix; /* of the arrays' names, "c012." */
    const char *fn;
    json_t *params;
    const struct npz *npz;
    float *owned[64]; /* freed at the end of the case */
    int count;
};

static inline const struct npz_array *find (const struct golden *g, const char *name)
{
    char full[100];
    const struct npz_array *a;

    snprintf (full, sizeof (full), "%s%s", g->prefix, name);
    if (!(a = npz_find (g->npz, full)))
        bail_out ("no array %s", full);
    return a;
}

/* n floats that live as long as the case. */
static inline float *room (struct golden *g, size_t n)
{
    return g->owned[g->count++] = kit_alloc (n, sizeof (float));
}

static inline float *floats (struct golden *g, const char *name)
{
    struct mg_error err = { "" };
    size_t count;
    float *x = npz_floats (g->npz, find (g, name)->name, &count, &err);

    if (!x)
        bail_out ("%s", err.text);
    kit_known (x, count * sizeof (float));
    return g->owned[g->count++] = x;
}

static inline int32_t *ids (struct golden *g, const char *name)
{
    size_t n = find (g, name)->count;
    float *x = floats (g, name);
    int32_t *id = (int32_t *)room (g, n);

    for (size_t i = 0; i < n; i++)
        id[i] = (int32_t)x[i];
    return id;
}

static inline void release (struct golden *g)
{
    for (int i = 0; i < g->count; i++)
        free (g->owned[i]);
    g->count = 0;
}

static inline void compare (const struct golden *g, const char *name, const float *got,
                     double tol)
{
    const struct npz_array *a = find (g, name);
    size_t count;
    double *want = npz_doubles (g->npz, a->name, &count, NULL);
    double error = kit_error (got, want, count);

    ok (count > 0 && error <= tol, "%s%s of %s (%zu values, error %.2g)", g->prefix, name,
        g->fn, count, error);
    free (want);
}

static inline struct npz *open_npz (const char *name)
{
    char path[1000];
    struct mg_error err = { "" };
    struct npz *npz;

    if (!shared_file (path, sizeof (path), name))
        skip_all ("no %s", path);
    if (!(npz = npz_open (path, &err)))
        bail_out ("%s", err.text);
    return npz;
}

static inline json_t *open_json (const char *name)
{
    char path[1000];
    json_t *root;

    if (!shared_file (path, sizeof (path), name))
        skip_all ("no %s", path);
    if (!(root = json_load_file (path, 0, NULL)))
        bail_out ("cannot read %s", path);
    return root;
}

/* What tests a function of the reference. */
struct golden_test {
    const char *fn;
    void (*run) (struct golden *g);
};

/* Run the cases of 'root'; each test of the table must have one. */
static inline void run_cases (const struct npz *npz, json_t *root, const struct golden_test *table,
                              size_t n)
{
    int *counts = kit_alloc (n, sizeof (*counts));
    json_t *item;
    size_t i;

    json_array_foreach (json_object_get (root, "cases"), i, item) {
        char prefix[16];
        struct golden g = { .prefix = prefix,
                            .fn = json_string_value (json_object_get (item, "fn")),
                            .params = json_object_get (item, "params"),
                            .npz = npz };

        snprintf (prefix, sizeof (prefix), "c%03d.",
                  (int)json_integer_value (json_object_get (item, "id")));
        for (size_t t = 0; t < n; t++) {
            if (strcmp (g.fn, table[t].fn) == 0) {
                table[t].run (&g);
                counts[t]++;
            }
        }
        release (&g);
    }
    for (size_t t = 0; t < n; t++)
        ok (counts[t] > 0, "there are cases of %s", table[t].fn);
    free (counts);
}

#endif /* TESTS_UNIT_KERNELS_GOLDEN_H */
