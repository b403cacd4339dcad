/* kit.c - what the tests of the kernels share */

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "libcore/device/device.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { MARGIN = 32 }; /* marked floats on each side */

static const float mark = -1234.5f;

static void add (struct kit *kit, const struct cpu_isa *isa, int threads,
                 enum cpu_library library)
{
    static const char *const who[] = { "", ", library", ", library always" };
    struct kit_variant *v = &kit->variants[kit->count++];
    struct mg_error err = { "" };

    snprintf (v->name, sizeof (v->name), "%s, %d thread%s%s", isa->name, threads,
              threads > 1 ? "s" : "", who[library]);
    v->threads = threads;
    v->library = library != CPU_NO_LIBRARY;
    v->k = cpu_create (threads, isa, library, &err);
    if (!v->k)
        bail_out ("%s", err.text);
}

/* The device multiplies by whatever library it has. */
static void add_device (struct kit *kit, const char *name, int threads)
{
    struct kit_variant *v = &kit->variants[kit->count++];

    snprintf (v->name, sizeof (v->name), "%.16s, %d thread%s", name, threads,
              threads > 1 ? "s" : "");
    v->threads = threads;
    v->library = true;
    v->device = kit_device_create (name, threads);
    v->k = kit_device_kernels (v->device);
}

static void open_linked (struct kit *kit)
{
    struct kit_variant *v = kit->variants;

    memset (kit, 0, sizeof (*kit));
    v->k = kit_linked_kernels ();
    v->threads = 1;
    snprintf (v->name, sizeof (v->name), "%.30s", v->k->ops->name);
    kit->count = 1;
}

void kit_open (struct kit *kit)
{
    const char *device = getenv ("MG_TEST_DEVICE");

    if (kit_linked_kernels) {
        open_linked (kit);
        return;
    }
    if (!device) {
        kit_open_cpu (kit);
        return;
    }
    memset (kit, 0, sizeof (*kit));
    add_device (kit, device, 1);
    add_device (kit, device, 3);
}

void kit_open_one (struct kit *kit, int threads)
{
    const char *device = getenv ("MG_TEST_DEVICE");
    struct kit_variant *v = kit->variants;
    struct mg_error err = { "" };

    if (kit_linked_kernels) {
        open_linked (kit);
        return;
    }
    memset (kit, 0, sizeof (*kit));
    if (device) {
        add_device (kit, device, threads);
        return;
    }
    snprintf (v->name, sizeof (v->name), "%d threads", threads);
    v->threads = threads;
    v->library = true;
    if (!(v->k = kernels_cpu_create (threads, &err)))
        bail_out ("%s", err.text);
    kit->count = 1;
}

void kit_open_cpu (struct kit *kit)
{
    const struct cpu_isa *isa, *best = NULL;

    memset (kit, 0, sizeof (*kit));
    for (size_t i = 0; (isa = cpu_isa_get (i)); i++) {
        if (!isa->usable ()) {
            diag ("this machine cannot run %s", isa->name);
            continue;
        }
        best = best ? best : isa;
        add (kit, isa, 1, CPU_NO_LIBRARY);
        add (kit, isa, 3, CPU_NO_LIBRARY);
    }
    add (kit, best, 1, CPU_LIBRARY);
    add (kit, best, 2, CPU_LIBRARY);
    add (kit, best, 1, CPU_LIBRARY_ALWAYS);
    add (kit, best, 2, CPU_LIBRARY_ALWAYS);
}

void kit_close (struct kit *kit)
{
    for (size_t i = 0; i < kit->count && !kit_linked_kernels; i++) {
        if (kit->variants[i].device)
            kit_device_destroy (kit->variants[i].device);
        else
            kernels_cpu_destroy (kit->variants[i].k);
    }
}

bool kit_takes (size_t i)
{
#ifdef __SANITIZE_ADDRESS__
    const char *seed = getenv ("MG_SEED");

    return getenv ("MG_LONG") || i % 3 == (seed ? strtoul (seed, NULL, 10) : 0) % 3;
#else
    (void)i;
    return true;
#endif
}

void kit_enter (struct kernels *k)
{
    if (kit_device_of (k))
        device_enter (kit_device_of (k));
    else if (!kit_linked_kernels)
        kernels_cpu_enter (k);
}

void kit_leave (struct kernels *k)
{
    if (kit_device_of (k))
        device_leave (kit_device_of (k));
    else if (!kit_linked_kernels)
        kernels_cpu_leave (k);
}

struct kit_array kit_array (size_t n, size_t offset)
{
    struct kit_array a = { .n = n };
    size_t size = (MARGIN + offset + n + MARGIN) * sizeof (float);

    if (!(a.base = aligned_alloc (64, (size + 63) / 64 * 64)))
        bail_out ("out of memory");
    kit_known (a.base, size);
    a.x = a.base + MARGIN + offset;
    for (float *p = a.base; p < a.x; p++)
        *p = mark;
    for (size_t i = 0; i < n; i++)
        a.x[i] = NAN; /* what is not written shows */
    for (size_t i = 0; i < MARGIN; i++)
        a.x[n + i] = mark;
    return a;
}

bool kit_array_free (struct kit_array *a)
{
    bool whole = true;

    for (float *p = a->base; p < a->x; p++)
        whole = whole && *p == mark;
    for (size_t i = 0; i < MARGIN; i++)
        whole = whole && a->x[a->n + i] == mark;
    free (a->base);
    memset (a, 0, sizeof (*a));
    return whole;
}

void kit_random (float *x, size_t n, uint64_t seed)
{
    uint64_t state = seed * 2862933555777941757u + 3037000493u;

    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((double)(state >> 40) * 0x1p-23 - 1);
    }
}

double kit_error (const float *got, const double *want, size_t n)
{
    double worst = 0;

    for (size_t i = 0; i < n; i++) {
        if (isnan (got[i]) != isnan (want[i]))
            return INFINITY;
        if ((double)got[i] == want[i] || isnan (want[i]))
            continue;
        worst = fmax (worst, fabs (got[i] - want[i]) / (1 + fabs (want[i])));
    }
    return worst;
}

double kit_ulps (float got, double want)
{
    int exponent;

    frexp (want, &exponent);
    if (want == 0 || exponent < -125)
        exponent = -125;
    return fabs ((double)got - want) / ldexp (1, exponent - FLT_MANT_DIG);
}

void kit_check (const struct kit *kit, kit_run_f *run, const void *arg, size_t n,
                const double *want, double tol, const char *fmt, ...)
{
    struct kit_array before = { 0 };
    char what[200];
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (what, sizeof (what), fmt, ap);
    va_end (ap);
    for (size_t i = 0; i < kit->count; i++) {
        const struct kit_variant *v = &kit->variants[i];
        struct kit_array out = kit_array (n, i % 4);
        bool works = run (v->k, arg, out.x) == 0;
        double error = kit_error (out.x, want, n);
        bool same
            = i % 2 == 0 || n == 0 || (v->library && kit->library_rounds)
              || memcmp (before.x, out.x, n * sizeof (float)) == 0;

        ok (works && error <= tol && same, "%s: %s (error %.2g%s%s)", v->name, what,
            error, works ? "" : ", fails", same ? "" : ", depends on threads");
        /* 1 thread and more threads take turns */
        if (i % 2 == 0)
            before = out;
        else if (!kit_array_free (&before) || !kit_array_free (&out))
            ok (false, "%s: %s: nothing written outside", v->name, what);
    }
}

double kit_slope (double (*f) (const void *arg), const void *arg, float *x)
{
    const float step = 0x1p-9f, before = *x;
    double up, down;

    *x = before + step;
    up = f (arg);
    *x = before - step;
    down = f (arg);
    *x = before;
    return (up - down) / (2 * (double)step);
}

void *kit_alloc (size_t n, size_t size)
{
    void *p = calloc (n + 1, size);

    if (!p)
        bail_out ("out of memory");
    kit_known (p, (n + 1) * size);
    return p;
}

int kit_cast_scaled (const struct kernels *k, int64_t n, float scale, const void *x,
                     enum mg_dtype from, void *y, enum mg_dtype to)
{
    const struct kern_cast a = { .n = n, .scale = scale, .x = x, .y = y, .from = from, .to = to };

    return kern_cast (k, &a, NULL, NULL);
}

int kit_cast (const struct kernels *k, int64_t n, const void *x, enum mg_dtype from, void *y,
              enum mg_dtype to)
{
    return kit_cast_scaled (k, n, 1, x, from, y, to);
}

int kit_fill (const struct kernels *k, int64_t n, float value, void *out, enum mg_dtype dtype)
{
    const struct kern_fill a = { n, value, out, dtype };

    return kern_fill (k, &a, NULL, NULL);
}

int kit_col_sum (const struct kernels *k, int64_t rows, int64_t cols, const void *x,
                 enum mg_dtype dtype, void *out, enum mg_dtype grad_dtype)
{
    const struct kern_col_sum a = { rows, cols, x, out, dtype, grad_dtype };

    return kern_col_sum (k, &a, NULL, NULL);
}

int kit_sum_sq (const struct kernels *k, int64_t n, const void *x, enum mg_dtype dtype,
                double *out)
{
    const struct kern_sum_sq a = { n, x, dtype, out };

    return kern_sum_sq (k, &a, NULL, NULL);
}

int kit_max_abs (const struct kernels *k, int64_t n, const void *x, enum mg_dtype dtype,
                 float *out)
{
    const struct kern_max_abs a = { n, x, dtype, out };

    return kern_max_abs (k, &a, NULL, NULL);
}

int kit_count_zeros (const struct kernels *k, int64_t n, const void *x, enum mg_dtype dtype,
                     double *out)
{
    const struct kern_count_zeros a = { n, x, dtype, out };

    return kern_count_zeros (k, &a, NULL, NULL);
}

int kit_state_load (const struct kernels *k, int64_t n, const struct kern_state *state,
                    void *out, enum mg_dtype dtype)
{
    const struct kern_state_load a = { n, *state, out, dtype };

    return kern_state_load (k, &a, NULL, NULL);
}

int kit_state_store (const struct kernels *k, int64_t n, const void *in, enum mg_dtype dtype,
                     const struct kern_state *state)
{
    const struct kern_state_store a = { n, in, dtype, *state };

    return kern_state_store (k, &a, NULL, NULL);
}
