/* weights-diff FILE REFERENCE TOLERANCE [--skip-key-bias HEADS] - compare two safetensors
 * files of float32 tensors: the same names and shapes, and for each the L2 norm of the
 * difference within TOLERANCE of the reference's norm.  --skip-key-bias leaves out the
 * key rows of linear_qkv.bias, whose true gradient is zero.  Exit status 0 or 1.
 */

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/safetensors.h"

/* Element i of a linear_qkv.bias belongs to a key: [q, k, v] of each head. */
static bool is_key (int64_t i, int64_t n, int heads)
{
    int64_t dim = n / (3 * heads);

    return i / dim % 3 == 1;
}

static double difference (const struct safetensors_entry *a,
                          const struct safetensors_entry *b, int heads)
{
    size_t n = a->size / sizeof (float);
    bool bias = heads > 0 && strstr (a->name, "linear_qkv.bias");
    double diff = 0, norm = 0;

    for (size_t i = 0; i < n; i++) {
        float x, y;

        if (bias && is_key ((int64_t)i, (int64_t)n, heads))
            continue;
        memcpy (&x, (const char *)a->data + i * sizeof (float), sizeof (x));
        memcpy (&y, (const char *)b->data + i * sizeof (float), sizeof (y));
        diff += ((double)x - y) * ((double)x - y);
        norm += (double)y * y;
    }
    if (diff == 0)
        return 0;
    return norm > 0 ? sqrt (diff / norm) : INFINITY;
}

static bool same_shape (const struct safetensors_entry *a,
                        const struct safetensors_entry *b)
{
    return a->dtype == MG_FLOAT32 && b->dtype == MG_FLOAT32 && a->ndims == b->ndims
           && memcmp (a->shape, b->shape, (size_t)a->ndims * sizeof (a->shape[0])) == 0;
}

int main (int argc, char **argv)
{
    struct mg_error err = { "" };
    struct safetensors *a, *b;
    double tolerance, worst = 0;
    int heads = 0, bad = 0;

    if (argc != 4 && !(argc == 6 && strcmp (argv[4], "--skip-key-bias") == 0)) {
        fprintf (stderr, "usage: weights-diff FILE REFERENCE TOLERANCE "
                 "[--skip-key-bias HEADS]\n");
        return 2;
    }
    tolerance = atof (argv[3]);
    if (argc == 6)
        heads = atoi (argv[5]);
    if (!(a = safetensors_open (argv[1], &err)) || !(b = safetensors_open (argv[2], &err))) {
        fprintf (stderr, "%s\n", err.text);
        return 2;
    }
    if (safetensors_count (a) != safetensors_count (b)) {
        printf ("%zu tensors against %zu\n", safetensors_count (a), safetensors_count (b));
        bad = 1;
    }
    for (size_t i = 0; i < safetensors_count (a); i++) {
        const struct safetensors_entry *x = safetensors_at (a, i);
        const struct safetensors_entry *y = safetensors_find (b, x->name);
        double d = y && same_shape (x, y) ? difference (x, y, heads) : INFINITY;

        if (!(d <= tolerance)) {
            printf ("%s: difference %.2e\n", x->name, d);
            bad = 1;
        }
        if (!(d <= worst))
            worst = d;
    }
    printf ("%zu tensors, largest relative L2 difference %.2e\n", safetensors_count (a), worst);
    safetensors_close (a);
    safetensors_close (b);
    return bad;
}
