/* twins_expert_gemm.c - the products of experts on the double against the CPU's */

#include <math.h>
#include <stdlib.h>

#include "tests/cuda/launch.h"
#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { MAX_EXPERTS = 40, BEYOND = 5 /* rows that are not live */ };

/* Operand 1 is x, operand 2 the weights, operand 3 y: 'shift' elements behind an aligned address,
 * or one element if 'odd' is the operand.
 */
struct shape {
    int64_t in, out;
    int64_t experts, rows[MAX_EXPERTS];
    int64_t gap; /* elements between weights */
    size_t shift;
    int odd;
};

static const struct shape shapes[] = {
    { 1, 1, 1, { 1 }, 0, 0, 0 },
    { 40, 24, 4, { 17, 0, 1, 40 }, 0, 0, 0 },
    { 24, 40, 3, { 0, 3, 0 }, 8, 0, 0 },
    { 40, 40, 2, { 20, 9 }, 0, 0, 1 },
    { 40, 40, 2, { 20, 9 }, 0, 0, 2 },
    { 40, 40, 2, { 20, 9 }, 0, 0, 3 },
    { 33, 21, 3, { 17, 0, 30 }, 0, 0, 0 },
    { 34, 22, 2, { 17, 5 }, 0, 2, 0 },
    { 136, 72, 2, { 130, 5 }, 0, 0, 0 },
    { 72, 136, 2, { 5, 130 }, 3, 0, 0 },
    { 200, 131, 2, { 2, 200 }, 0, 1, 0 },
    { 16, 8, MAX_EXPERTS, { 1, 0, 2, 3, 0, [32] = 1, 4, 0, [39] = 2 }, 0, 0, 0 },
    { 0, 6, 2, { 3, 4 }, 0, 0, 0 },
    { 16, 0, 2, { 3, 4 }, 0, 0, 0 },
    { 16, 24, 2, { 0, 0 }, 0, 0, 0 },
    { 9, 9, 0, { 0 }, 0, 0, 0 },
};
enum { SHAPES = sizeof (shapes) / sizeof (shapes[0]) };

static size_t shift_of (const struct shape *s, int operand)
{
    return s->odd == operand ? 1 : s->shift;
}

/* n random numbers; those from 'live' on are NaN. */
static void *make_rows (int64_t n, int64_t live, enum mg_dtype dtype, size_t shift, uint64_t seed)
{
    float *x = kit_alloc ((size_t)n + 1, sizeof (*x));
    void *operand;

    kit_random (x, (size_t)n, seed);
    for (int64_t i = live; i < n; i++)
        x[i] = NAN;
    operand = twins_numbers ((size_t)n, dtype, shift, x);
    free (x);
    return operand;
}

/* The call, with operands. */
static struct kern_expert_gemm make_call (const struct shape *s, enum kern_expert_form form,
                                          bool accumulate, enum mg_dtype dtype,
                                          enum mg_dtype c_dtype)
{
    struct kern_expert_gemm a = { .form = form, .accumulate = accumulate, .experts = s->experts,
                                  .in = s->in, .out = s->out, .dtype = dtype,
                                  .c_dtype = c_dtype };
    const enum mg_dtype x = form == KERN_EXPERT_DGRAD ? c_dtype : dtype;
    const enum mg_dtype w = form == KERN_EXPERT_WGRAD ? c_dtype : dtype;
    const enum mg_dtype y = form == KERN_EXPERT_FWD ? c_dtype : dtype;
    int64_t offset[MAX_EXPERTS + 1] = { 0 }, live, stride = s->in * s->out + s->gap;

    for (int64_t e = 0; e < s->experts; e++)
        offset[e + 1] = offset[e] + s->rows[e];
    live = offset[s->experts];
    a.rows = live + BEYOND;
    a.w_stride = s->gap ? stride : 0;
    a.offset = twins_values ((size_t)s->experts + 1, sizeof (*offset), 0, offset);
    a.x = make_rows (a.rows * s->in, live * s->in, x, shift_of (s, 1), 1);
    a.w = twins_random ((size_t)(s->experts * stride), w, shift_of (s, 2), 2);
    a.y = make_rows (a.rows * s->out, live * s->out, y, shift_of (s, 3), 3);
    return a;
}

static const char *const forms[] = { "fwd", "dgrad", "wgrad" };

static void test (int i, int form, bool accumulate, enum mg_dtype dtype, enum mg_dtype c_dtype)
{
    const struct shape *s = &shapes[i];
    struct kern_expert_gemm a
        = make_call (s, (enum kern_expert_form)form, accumulate, dtype, c_dtype);

    twins_check (KERN_EXPERT_GEMM, &a, twins_tolerance (c_dtype),
                 "expert_gemm %s %s to %s of %d experts, %d to %d, gap %d+%zu.%d%s", forms[form],
                 mg_dtype_name (dtype), mg_dtype_name (c_dtype), (int)s->experts, (int)s->in,
                 (int)s->out, (int)s->gap, s->shift, s->odd, accumulate ? ", added" : "");
}

/* --- what instrumented kernels move --- */

enum { SIDE = 128, DEPTH = 64 };

/* A tile of one expert: m and n are SIDE, k is DEPTH. */
static struct shape tile_of (enum kern_expert_form form)
{
    switch (form) {
    case KERN_EXPERT_FWD: return (struct shape){ DEPTH, SIDE, 1, { SIDE }, 0, 0, 0 };
    case KERN_EXPERT_DGRAD: return (struct shape){ SIDE, DEPTH, 1, { SIDE }, 0, 0, 0 };
    default: return (struct shape){ SIDE, SIDE, 1, { DEPTH }, 0, 0, 0 };
    }
}

/* Accesses of 16 bytes take 4 passes over the banks, those of 4 bytes one. */
static void test_counts (enum kern_expert_form form)
{
    struct shape s = tile_of (form);
    struct kern_expert_gemm a = make_call (&s, form, false, MG_BFLOAT16, MG_BFLOAT16);
    uint64_t needed = (2 * SIDE * DEPTH + SIDE * SIDE) * 2;
    struct launch_counts c;

    if (!twins_count (KERN_EXPERT_GEMM, &a, &c))
        return;
    is_int ((int64_t)c.mma, SIDE / 16 * (SIDE / 8) * (DEPTH / 16), "%s: mma of one tile",
            forms[form]);
    if (!ok (c.wavefronts <= 4 * c.shared_requests, "%s: no bank conflicts", forms[form]))
        diag ("%llu passes for %llu accesses", (unsigned long long)c.wavefronts,
              (unsigned long long)c.shared_requests);
    if (!ok (c.read_bytes + c.written_bytes <= needed + needed / 5, "%s: each element once",
             forms[form]))
        diag ("%llu bytes, %llu are needed",
              (unsigned long long)(c.read_bytes + c.written_bytes), (unsigned long long)needed);
}

void twins_expert_gemm (void)
{
    for (int i = 0; i < SHAPES; i++)
        for (int form = 0; form < 3; form++)
            for (int accumulate = 0; accumulate < 2; accumulate++) {
                if ((i + form) % 2 == accumulate)
                    test (i, form, accumulate, MG_FLOAT32, MG_FLOAT32);
                test (i, form, accumulate, MG_BFLOAT16, MG_BFLOAT16);
            }
    for (int d = 0; d < TWINS_DTYPES; d++)
        for (int c = 0; c < TWINS_DTYPES; c++)
            for (int form = 0; form < 3; form++) {
                test (1, form, form == 2, twins_dtypes[d], twins_dtypes[c]);
                test (6, form, form == 0, twins_dtypes[d], twins_dtypes[c]);
            }
    for (int form = 0; form < 3; form++)
        test_counts ((enum kern_expert_form)form);
}
