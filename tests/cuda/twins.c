/* twins.c - each CUDA kernel on the double against the CPU's
 *
 * With the argument "bits" the program also prints a checksum of each operand after each check.
 */

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/direct.h"
#include "tests/cuda/kernels.h"
#include "tests/cuda/launch.h"
#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"
#include "tests/unit/kernels/typed.h"

const enum mg_dtype twins_dtypes[TWINS_DTYPES] = { MG_FLOAT32, MG_BFLOAT16, MG_FLOAT16 };

enum { MAX_OPERANDS = 24, ALIGNMENT = 256 };

struct operand {
    void *base; /* memory of the CPU's copy */
    char *host, *device;
    size_t n, bytes;
    bool numbers; /* 'dtype' holds; else values without a type */
    enum mg_dtype dtype;
};

static struct kernels *cpu, *cuda;
static bool print_bits;
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
    o->device = direct_alloc (n * size, shift * size);
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
    memcpy (o->device, o->host, o->bytes);
    return o->host;
}

void *twins_numbers (size_t n, enum mg_dtype dtype, size_t shift, const float *x)
{
    struct operand *o = operand_create (n, mg_dtype_size (dtype), shift);
    struct typed view = { .x = o->host, .n = n, .dtype = dtype };

    o->numbers = true;
    o->dtype = dtype;
    typed_set (&view, x);
    memcpy (o->device, o->host, o->bytes);
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

    if (memcmp (o->host, o->device, o->bytes) == 0)
        return 0;
    if (!o->numbers)
        return INFINITY;
    want = kit_alloc (o->n, sizeof (*want));
    got = kit_alloc (o->n, sizeof (*got));
    typed_get (&(struct typed){ .x = o->host, .n = o->n, .dtype = o->dtype }, want);
    typed_get (&(struct typed){ .x = o->device, .n = o->n, .dtype = o->dtype }, got);
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
        sum = sum * 31 + (unsigned char)o->device[i];
    printf ("%zu bytes: %016llx\n", o->bytes, (unsigned long long)sum);
}

static void operands_destroy (void)
{
    for (int i = 0; i < num_operands; i++) {
        free (operands[i].base);
        direct_free (operands[i].device);
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
    struct kern_call call = { op, copy, NULL };
    int rc;

    memcpy (copy, args, kern_op_size (op));
    point_to_device (op, copy);
    rc = kern_run (cuda, &call, err);
    free (copy);
    return rc;
}

void twins_check (enum kern_op op, const void *args, double tolerance, const char *fmt, ...)
{
    struct kern_call call = { op, args, NULL };
    struct mg_error err = { "" };
    char name[200];
    double worst = 0;
    int rc;
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (name, sizeof (name), fmt, ap);
    va_end (ap);
    rc = run_cuda (op, args, &err) < 0 || kern_run (cpu, &call, &err) < 0;
    for (int i = 0; i < num_operands; i++) {
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

    launch_count_reset ();
    if (run_cuda (op, args, &err) < 0)
        bail_out ("%s: %s", kern_op_name (op), err.text);
    launch_count (counts);
    operands_destroy ();
    if (counts->requests == 0)
        skip (1, "the kernels are not instrumented");
    return counts->requests > 0;
}

int main (int argc, char **argv)
{
    struct mg_error err = { "" };

    print_bits = argc > 1 && strcmp (argv[1], "bits") == 0;
    cuda = cuda_double_kernels ();
    if (!(cpu = kernels_cpu_create (1, &err)))
        bail_out ("%s", err.text);
    twins_act ();
    twins_adamw ();
    twins_attention ();
    twins_copy ();
    twins_dropout ();
    twins_embedding ();
    twins_expert_bias ();
    twins_expert_gemm ();
    twins_expert_sort ();
    twins_gemm_double ();
    twins_norm ();
    twins_reduce ();
    twins_rope ();
    twins_router ();
    twins_router_balance ();
    twins_router_loss ();
    twins_row ();
    kernels_cpu_destroy (cpu);
    return done_testing ();
}
