/* twins.c - each CUDA kernel against the CPU's, on the double or on a GPU
 *
 *     twins [bits] [FAMILY]...
 *
 * With "bits" the program also prints a checksum of each operand after each check.  A family is a
 * file twins_FAMILY.c; all run if none is named.
 */

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/launch.h"
#include "tests/cuda/place.h"
#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"
#include "tests/unit/kernels/typed.h"

const enum mg_dtype twins_dtypes[TWINS_DTYPES] = { MG_FLOAT32, MG_BFLOAT16, MG_FLOAT16 };

enum { MAX_OPERANDS = 24, ALIGNMENT = 256, OPERANDS = 32 << 20 };

struct operand {
    void *base; /* memory of the CPU's copy */
    char *host, *device;
    char *got; /* the bytes of the device's copy after a call */
    size_t n, bytes;
    bool numbers; /* of 'dtype'; else values without a type */
    enum mg_dtype dtype;
};

static struct kernels *cpu;
static bool print_bits, flushes;
static struct operand operands[MAX_OPERANDS];
static int num_operands;

static struct operand *operand_create (size_t n, size_t size, size_t shift)
{
    struct operand *o = &operands[num_operands++];
    size_t room = ((n + shift) * size + ALIGNMENT) / ALIGNMENT * ALIGNMENT;

    if (num_operands > MAX_OPERANDS)
        bail_out ("more than %d operands", MAX_OPERANDS);
    if (!(o->base = aligned_alloc (ALIGNMENT, room)))
        bail_out ("out of memory");
    memset (o->base, 0, room);
    o->host = (char *)o->base + shift * size;
    o->device = place_alloc (n * size, shift * size);
    o->got = kit_alloc (n * size + 1, 1);
    o->n = n;
    o->bytes = n * size;
    o->numbers = false;
    return o;
}

void *twins_values (size_t n, size_t size, size_t shift, const void *from)
{
    struct operand *o = operand_create (n, size, shift);

    if (from)
        memcpy (o->host, from, o->bytes);
    place_write (o->device, o->host, o->bytes);
    return o->host;
}

void *twins_numbers (size_t n, enum mg_dtype dtype, size_t shift, const float *x)
{
    struct operand *o = operand_create (n, mg_dtype_size (dtype), shift);
    struct typed view = { .x = o->host, .n = n, .dtype = dtype };

    o->numbers = true;
    o->dtype = dtype;
    typed_set (&view, x);
    place_write (o->device, o->host, o->bytes);
    return o->host;
}

void *twins_random (size_t n, enum mg_dtype dtype, size_t shift, uint64_t seed)
{
    float *x = kit_alloc (n + 1, sizeof (*x));
    void *operand;

    kit_random (x, n, seed);
    operand = twins_numbers (n, dtype, shift, x);
    free (x);
    return operand;
}

void *twins_logits (size_t n, enum mg_dtype dtype, size_t shift, float scale, const float *odd)
{
    float *x = kit_alloc (n + 1, sizeof (*x));
    void *operand;

    kit_random (x, n, 1);
    for (size_t i = 0; i < n; i++)
        x[i] = odd ? odd[i * i % 47 % 12] : scale * x[i];
    operand = twins_numbers (n, dtype, shift, x);
    free (x);
    return operand;
}

double twins_tolerance (enum mg_dtype dtype)
{
    return dtype == MG_FLOAT32 || dtype == MG_FLOAT64 ? 1e-5 : 1e-2;
}

/* The relative norm of the difference; infinity where a number is not finite on one side only. */
static double difference (const struct operand *o)
{
    float *want, *got;
    double sum = 0, all = 0;

    if (memcmp (o->host, o->got, o->bytes) == 0)
        return 0;
    if (!o->numbers)
        return INFINITY;
    want = kit_alloc (o->n, sizeof (*want));
    got = kit_alloc (o->n, sizeof (*got));
    typed_get (&(struct typed){ .x = o->host, .n = o->n, .dtype = o->dtype }, want);
    typed_get (&(struct typed){ .x = o->got, .n = o->n, .dtype = o->dtype }, got);
    for (size_t i = 0; i < o->n; i++) {
        double w = (double)want[i], d = (double)got[i] - w;

        if (isfinite (w) != isfinite (got[i]))
            sum = INFINITY;
        if (!isfinite (d) || !isfinite (w))
            continue;
        sum += d * d;
        all += w * w;
    }
    free (want);
    free (got);
    return all > 0 ? sqrt (sum / all) : sqrt (sum);
}

static void print_checksum (const struct operand *o)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < o->bytes; i++)
        sum = sum * 31 + (unsigned char)o->got[i];
    printf ("%zu bytes: %016llx\n", o->bytes, (unsigned long long)sum);
}

static void operands_destroy (void)
{
    for (int i = 0; i < num_operands; i++) {
        free (operands[i].base);
        free (operands[i].got);
        place_free (operands[i].device);
    }
    num_operands = 0;
}

/* Replace each pointer into the CPU's copy of an operand by the same place in the double's. */
static void point_to_device (enum kern_op op, void *args)
{
    size_t count;
    const struct kern_pointer *pointers = kern_op_pointers (op, &count);

    for (size_t i = 0; i < count; i++) {
        char *p;

        memcpy (&p, (char *)args + pointers[i].at, sizeof (p));
        if (!p)
            continue;
        for (int k = 0; k < num_operands; k++) {
            struct operand *o = &operands[k];

            if (p >= o->host && (p < o->host + o->bytes || p == o->host)) {
                p = o->device + (p - o->host);
                memcpy ((char *)args + pointers[i].at, &p, sizeof (p));
                p = NULL;
                break;
            }
        }
        if (p)
            bail_out ("a pointer of %s points to no operand", kern_op_name (op));
    }
}

static int run_cuda (enum kern_op op, const void *args, struct mg_error *err)
{
    char *copy = kit_alloc (1, kern_op_size (op));
    int rc;

    memcpy (copy, args, kern_op_size (op));
    point_to_device (op, copy);
    rc = place_run (op, copy, err);
    free (copy);
    return rc;
}

void twins_flush (bool flush)
{
    flushes = flush;
}

static int run_cpu (enum kern_op op, const void *args, struct mg_error *err)
{
    struct kern_call call = { op, args, NULL };
    int rc;

    if (flushes)
        kernels_cpu_enter (cpu);
    rc = kern_run (cpu, &call, err);
    if (flushes)
        kernels_cpu_leave (cpu);
    return rc;
}

void twins_check (enum kern_op op, const void *args, double tolerance, const char *fmt, ...)
{
    struct mg_error err = { "" };
    char name[200];
    double worst = 0;
    int rc;
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (name, sizeof (name), fmt, ap);
    va_end (ap);
    rc = run_cuda (op, args, &err) < 0 || run_cpu (op, args, &err) < 0;
    for (int i = 0; i < num_operands; i++) {
        place_read (operands[i].got, operands[i].device, operands[i].bytes);
        worst = fmax (worst, difference (&operands[i]));
        if (print_bits)
            print_checksum (&operands[i]);
    }
    operands_destroy ();
    if (!ok (rc == 0 && worst <= tolerance, "%s", name))
        diag ("the largest difference is %g, %g is allowed %s", worst, tolerance, err.text);
}

bool twins_count (enum kern_op op, const void *args, struct launch_counts *counts)
{
    struct mg_error err = { "" };

    place_count_begin ();
    if (run_cuda (op, args, &err) < 0)
        bail_out ("%s: %s", kern_op_name (op), err.text);
    place_count (counts);
    operands_destroy ();
    if (counts->requests == 0)
        skip (1, "the kernels are not instrumented");
    return counts->requests > 0;
}

static const struct {
    const char *name;
    void (*run) (void);
} families[] = {
    { "act", twins_act },
    { "adamw", twins_adamw },
    { "attention", twins_attention },
    { "copy", twins_copy },
    { "dropout", twins_dropout },
    { "embedding", twins_embedding },
    { "expert_bias", twins_expert_bias },
    { "expert_gemm", twins_expert_gemm },
    { "expert_sort", twins_expert_sort },
    { "gemm_double", twins_gemm_double },
    { "norm", twins_norm },
    { "reduce", twins_reduce },
    { "rope", twins_rope },
    { "router", twins_router },
    { "router_balance", twins_router_balance },
    { "router_loss", twins_router_loss },
    { "row", twins_row },
};

static bool is_chosen (const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp (argv[i], name) == 0)
            return true;
    return argc <= 1;
}

int main (int argc, char **argv)
{
    struct mg_error err = { "" };

    print_bits = argc > 1 && strcmp (argv[1], "bits") == 0;
    argc -= print_bits;
    argv += print_bits;
    place_open (OPERANDS);
    if (!(cpu = kernels_cpu_create (1, &err)))
        bail_out ("%s", err.text);
    for (size_t i = 0; i < sizeof (families) / sizeof (families[0]); i++)
        if (is_chosen (families[i].name, argc, argv))
            families[i].run ();
    kernels_cpu_destroy (cpu);
    place_close ();
    return done_testing ();
}
