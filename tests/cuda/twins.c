/* twins.c - each CUDA kernel on the double against the CPU's
 *
 * Operands are arrays of device memory of exactly the bytes that they need, at aligned and at odd
 * addresses.  The program is linked with plain kernels, and with instrumented ones (twins-watch):
 * then nothing may be reported.  With the argument "bits" it also prints a checksum of each result.
 * Relative norms of differences: 1e-5 for float32, 1e-2 for 16 bits.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"
#include "tests/cuda/direct.h"
#include "tests/cuda/launch.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"
#include "tests/unit/kernels/typed.h"

static struct kernels *cpu;
static bool print_bits; /* print a checksum of each result instead of checks */

/* An operand that both sides have: host is the CPU's, device the double's. */
struct operand {
    struct typed host;
    void *device;
    size_t bytes;
};

/* n random elements, 'shift' elements behind an aligned address. */
static struct operand operand (size_t n, enum mg_dtype dtype, size_t shift, uint64_t seed)
{
    size_t size = mg_dtype_size (dtype);
    struct operand o = { .host = typed_create (n, dtype, shift), .bytes = n * size };
    float *x = kit_alloc (n + 1, sizeof (*x));

    kit_random (x, n, seed);
    typed_set (&o.host, x);
    free (x);
    o.device = direct_alloc (o.bytes, shift * size);
    memcpy (o.device, o.host.x, o.bytes);
    return o;
}

/* Free it and return the relative norm of the difference; infinity if a mark is gone. */
static double difference (struct operand *o)
{
    float *want = kit_alloc (o->host.n + 1, sizeof (*want)), *got;
    double sum = 0, all = 0;

    got = kit_alloc (o->host.n + 1, sizeof (*got));
    typed_get (&o->host, want);
    if (print_bits) {
        uint64_t sum = 0;

        for (size_t i = 0; i < o->bytes; i++)
            sum = sum * 31 + ((const unsigned char *)o->device)[i];
        printf ("%zu bytes: %016llx\n", o->bytes, (unsigned long long)sum);
    }
    memcpy (o->host.x, o->device, o->bytes);
    typed_get (&o->host, got);
    for (size_t i = 0; i < o->host.n; i++) {
        sum += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        all += (double)want[i] * want[i];
    }
    free (want);
    free (got);
    direct_free (o->device);
    if (!typed_destroy (&o->host) || !isfinite (sum))
        return INFINITY;
    return all > 0 ? sqrt (sum / all) : sqrt (sum);
}

/* Free n operands, and return the largest difference. */
static double differences (struct operand *o, int n)
{
    double worst = 0;

    for (int i = 0; i < n; i++)
        worst = fmax (worst, difference (&o[i]));
    return worst;
}

static double tolerance (enum mg_dtype dtype)
{
    return dtype == MG_FLOAT32 ? 1e-5 : 1e-2;
}

struct shape {
    int64_t rows, cols;
    size_t shift;
};

/* The last one is too long to be kept in shared memory. */
static const struct shape shapes[]
    = { { 3, 64, 0 }, { 35, 72, 0 }, { 5, 37, 1 }, { 2, 1032, 0 }, { 4, 520, 3 }, { 1, 12328, 0 } };

static void test_norm_fwd (enum kern_norm kind, enum mg_dtype dtype, const struct shape *s)
{
    size_t n = (size_t)(s->rows * s->cols), cols = (size_t)s->cols;
    struct operand o[] = {
        operand (n, dtype, s->shift, 1),    operand (cols, dtype, s->shift, 2),
        operand (cols, dtype, s->shift, 3), operand (n, dtype, s->shift, 4),
        operand ((size_t)(kern_norm_kinds[kind].stats * s->rows), MG_FLOAT32, 0, 5),
    };
    struct kern_norm_fwd a = { .kind = kind, .rows = s->rows, .cols = s->cols, .eps = 1e-5,
                               .one_plus = kind == KERN_RMS_NORM, .dtype = dtype,
                               .x = o[0].host.x, .weight = o[1].host.x,
                               .bias = kind == KERN_LAYER_NORM ? o[2].host.x : NULL,
                               .y = o[3].host.x, .stat = o[4].host.x };
    struct kern_norm_fwd b = a;
    struct cuda_call call = { NULL, NULL };
    struct mg_error err = { "" };
    int rc = kern_norm_fwd (cpu, &a, NULL, &err);

    b.x = o[0].device;
    b.weight = o[1].device;
    b.bias = a.bias ? o[2].device : NULL;
    b.y = o[3].device;
    b.stat = o[4].device;
    rc |= cuda_norm_fwd (&call, &b, &err);
    ok (differences (o, 5) < tolerance (dtype) && rc == 0, "norm_fwd %s %s %dx%d+%zu %s",
        kern_norm_kinds[kind].name, mg_dtype_name (dtype), (int)s->rows, (int)s->cols, s->shift,
        err.text);
}

static void test_norm_bwd (enum kern_norm kind, enum mg_dtype dtype, const struct shape *s)
{
    size_t n = (size_t)(s->rows * s->cols), cols = (size_t)s->cols;
    struct operand o[] = {
        operand (n, dtype, s->shift, 1),    operand (cols, dtype, s->shift, 2),
        operand (n, dtype, s->shift, 3),    operand (n, dtype, s->shift, 4),
        operand (cols, MG_FLOAT32, 0, 5),   operand (cols, MG_FLOAT32, 0, 6),
        operand ((size_t)(kern_norm_kinds[kind].stats * s->rows), MG_FLOAT32, 0, 7),
    };
    bool centred = kind == KERN_LAYER_NORM;
    struct kern_norm_bwd a = { .kind = kind, .rows = s->rows, .cols = s->cols,
                               .accumulate_dx = !centred, .dtype = dtype,
                               .grad_dtype = MG_FLOAT32, .x = o[0].host.x,
                               .weight = o[1].host.x, .dy = o[2].host.x, .dx = o[3].host.x,
                               .dweight = o[4].host.x, .dbias = centred ? o[5].host.x : NULL,
                               .stat = o[6].host.x };
    struct kern_norm_bwd b = a;
    struct cuda_call call = { NULL, direct_alloc (cuda_norm_bwd_scratch (&a), 0) };
    struct mg_error err = { "" };
    int rc = kern_norm_bwd (cpu, &a, NULL, &err);

    b.x = o[0].device;
    b.weight = o[1].device;
    b.dy = o[2].device;
    b.dx = o[3].device;
    b.dweight = o[4].device;
    b.dbias = centred ? o[5].device : NULL;
    b.stat = o[6].device;
    rc |= cuda_norm_bwd (&call, &b, &err);
    direct_free (call.scratch);
    ok (differences (o, 7) < tolerance (dtype) && rc == 0, "norm_bwd %s %s %dx%d+%zu %s",
        kern_norm_kinds[kind].name, mg_dtype_name (dtype), (int)s->rows, (int)s->cols, s->shift,
        err.text);
}

/* What instrumented kernels move: a row is read once, and each request takes whole sectors. */
static void test_counts (void)
{
    enum { ROWS = 8, COLS = 1024 };
    void *x = direct_alloc (ROWS * COLS * 2, 0), *w = direct_alloc (COLS * 2, 0);
    void *y = direct_alloc (ROWS * COLS * 2, 0), *stat = direct_alloc (ROWS * 4, 0);
    struct kern_norm_fwd a = { .kind = KERN_RMS_NORM, .rows = ROWS, .cols = COLS, .eps = 1e-5,
                               .dtype = MG_BFLOAT16, .x = x, .weight = w, .y = y, .stat = stat };
    struct cuda_call call = { NULL, NULL };
    struct mg_error err = { "" };
    struct launch_counts c;

    launch_count_reset ();
    memset (x, 0, ROWS * COLS * 2);
    memset (w, 0, COLS * 2);
    is_int (cuda_norm_fwd (&call, &a, &err), 0, "a norm runs %s", err.text);
    launch_count (&c);
    if (c.requests == 0) {
        skip (4, "the kernels are not instrumented");
        return;
    }
    is_int (c.read_bytes, 2 * ROWS * COLS * 2, "a row and the weight are read once for each row");
    is_int (c.written_bytes, ROWS * COLS * 2 + ROWS * 4, "y and the statistics are written once");
    is_int (c.sectors, (3 * ROWS * COLS * 2) / 32 + ROWS, "sectors are full");
    is_int (c.wavefronts, c.shared_requests * 4 - 3 * (c.shared_requests - 3 * ROWS * 4),
            "shared memory has no bank conflicts");
    direct_free (x);
    direct_free (w);
    direct_free (y);
    direct_free (stat);
}

int main (int argc, char **argv)
{
    static const enum mg_dtype dtypes[] = { MG_FLOAT32, MG_BFLOAT16, MG_FLOAT16 };
    struct mg_error err = { "" };

    print_bits = argc > 1 && strcmp (argv[1], "bits") == 0;
    if (!(cpu = kernels_cpu_create (1, &err)))
        bail_out ("%s", err.text);
    for (int kind = 0; kind < KERN_NUM_NORMS; kind++)
        for (size_t d = 0; d < 3; d++)
            for (size_t i = 0; i < sizeof (shapes) / sizeof (shapes[0]); i++) {
                test_norm_fwd ((enum kern_norm)kind, dtypes[d], &shapes[i]);
                test_norm_bwd ((enum kern_norm)kind, dtypes[d], &shapes[i]);
            }
    test_counts ();
    kernels_cpu_destroy (cpu);
    return done_testing ();
}
