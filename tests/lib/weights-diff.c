/* weights-diff FILE REFERENCE TOLERANCE [--absolute] [--skip-key-bias HEADS] [--skip WORD] -
 * compare a safetensors file of float32 tensors with another, or with the arrays PREFIX... of a
 * numpy archive ("FILE.npz:PREFIX"): the same names and shapes, and for each the L2 norm
 * of the difference within TOLERANCE of the reference's norm, or with --absolute every
 * element within TOLERANCE.  --skip-key-bias leaves out the key rows of linear_qkv.bias,
 * whose true gradient is zero; --skip leaves out the tensors of FILE whose name has WORD.
 * Exit status 0 or 1, 2 if it cannot compare.
 */

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/safetensors.h"
#include "tests/lib/npz.h"

struct tensor {
    int ndims;
    int64_t shape[NPZ_MAX_DIMS];
    size_t count;
    double *value;
};

struct reference {
    struct safetensors *st; /* one of them */
    struct npz *npz;
    char prefix[100]; /* of names in npz */
};

struct options {
    double tolerance;
    bool absolute;
    int heads;
    const char *skip; /* a word in names, or NULL */
};

/* Element i of a linear_qkv.bias belongs to a key: [q, k, v] of each head. */
static bool is_key (int64_t i, int64_t n, int heads)
{
    int64_t dim = n / (3 * heads);

    return i / dim % 3 == 1;
}

/* Largest relative or absolute difference. */
static double difference (const struct safetensors_entry *a, const struct tensor *b,
                          const struct options *options)
{
    bool bias = options->heads > 0 && strstr (a->name, "linear_qkv.bias");
    double diff = 0, norm = 0, most = 0;

    for (size_t i = 0; i < b->count; i++) {
        float x;
        double d;

        if (bias && is_key ((int64_t)i, (int64_t)b->count, options->heads))
            continue;
        memcpy (&x, (const char *)a->data + i * sizeof (float), sizeof (x));
        d = (double)x - b->value[i];
        diff += d * d;
        norm += b->value[i] * b->value[i];
        if (!(fabs (d) <= most))
            most = fabs (d);
    }
    if (options->absolute)
        return most;
    if (diff == 0)
        return 0;
    return norm > 0 ? sqrt (diff / norm) : INFINITY;
}

static bool same_shape (const struct safetensors_entry *a, const struct tensor *b)
{
    return a->dtype == MG_FLOAT32 && a->ndims == b->ndims
           && memcmp (a->shape, b->shape, (size_t)a->ndims * sizeof (a->shape[0])) == 0;
}

static void fail (const char *text)
{
    fprintf (stderr, "weights-diff: %s\n", text);
    exit (2);
}

static void reference_open (struct reference *r, char *name)
{
    struct mg_error err = { "" };
    char *mark = strstr (name, ".npz:");

    *r = (struct reference){ NULL };
    if (mark) {
        snprintf (r->prefix, sizeof (r->prefix), "%s", mark + strlen (".npz:"));
        mark[strlen (".npz")] = '\0';
        r->npz = npz_open (name, &err);
    }
    else
        r->st = safetensors_open (name, &err);
    if (!r->npz && !r->st)
        fail (err.text);
}

static size_t reference_count (const struct reference *r)
{
    return r->st ? safetensors_count (r->st) : npz_count (r->npz, r->prefix);
}

/* The tensor of a name; false if there is none of floats. Free value. */
static bool reference_get (const struct reference *r, const char *name, struct tensor *t)
{
    const struct safetensors_entry *e;

    *t = (struct tensor){ 0 };
    if (r->npz) {
        char full[300];
        const struct npz_array *array;

        snprintf (full, sizeof (full), "%s%s", r->prefix, name);
        if (!(array = npz_find (r->npz, full)))
            return false;
        t->ndims = array->ndim;
        memcpy (t->shape, array->shape, sizeof (t->shape));
        return (t->value = npz_doubles (r->npz, full, &t->count, NULL)) != NULL;
    }
    if (!(e = safetensors_find (r->st, name)) || e->dtype != MG_FLOAT32)
        return false;
    t->ndims = e->ndims;
    memcpy (t->shape, e->shape, sizeof (t->shape));
    t->count = e->size / sizeof (float);
    if (!(t->value = calloc (t->count + 1, sizeof (double))))
        fail ("out of memory");
    for (size_t i = 0; i < t->count; i++) {
        float y;

        memcpy (&y, (const char *)e->data + i * sizeof (float), sizeof (y));
        t->value[i] = y;
    }
    return true;
}

static int compare (const struct safetensors *a, const struct reference *b,
                    const struct options *options)
{
    size_t n = 0;
    double worst = 0;
    int bad = 0;

    for (size_t i = 0; i < safetensors_count (a); i++) {
        const struct safetensors_entry *x = safetensors_at (a, i);
        struct tensor y;
        double d = INFINITY;

        if (options->skip && strstr (x->name, options->skip))
            continue;
        n++;
        if (reference_get (b, x->name, &y) && same_shape (x, &y))
            d = difference (x, &y, options);
        free (y.value);
        if (!(d <= options->tolerance)) {
            printf ("%s: difference %.2e\n", x->name, d);
            bad = 1;
        }
        if (!(d <= worst))
            worst = d;
    }
    if (n != reference_count (b)) {
        printf ("%zu tensors against %zu\n", n, reference_count (b));
        bad = 1;
    }
    printf ("%zu tensors, largest %s difference %.2e\n", n,
            options->absolute ? "absolute" : "relative L2", worst);
    return bad;
}

int main (int argc, char **argv)
{
    struct options options = { 0 };
    struct mg_error err = { "" };
    struct safetensors *a;
    struct reference b;
    int rc;

    for (int i = 4; i < argc; i++) {
        if (strcmp (argv[i], "--absolute") == 0)
            options.absolute = true;
        else if (strcmp (argv[i], "--skip-key-bias") == 0 && i + 1 < argc)
            options.heads = atoi (argv[++i]);
        else if (strcmp (argv[i], "--skip") == 0 && i + 1 < argc)
            options.skip = argv[++i];
        else
            argc = 0;
    }
    if (argc < 4)
        fail ("usage: weights-diff FILE REFERENCE TOLERANCE [--absolute] "
              "[--skip-key-bias HEADS] [--skip WORD]");
    options.tolerance = atof (argv[3]);
    if (!(a = safetensors_open (argv[1], &err)))
        fail (err.text);
    reference_open (&b, argv[2]);
    rc = compare (a, &b, &options);
    safetensors_close (a);
    safetensors_close (b.st);
    npz_close (b.npz);
    return rc;
}
