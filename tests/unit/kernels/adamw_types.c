/* adamw_types - updates of what is stored in every type, step by step against double */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/half.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { STEPS = 12, MAX = 20011 };

/* How parameters, moments and gradients are stored; HALVES is no element type. */
enum { HALVES = MG_NUM_DTYPES };
struct types {
    int param, m, v, grad;
};

static const struct types all[] = {
    { MG_FLOAT32, MG_FLOAT32, MG_FLOAT32, MG_BFLOAT16 },
    { HALVES, MG_FLOAT32, MG_FLOAT32, MG_FLOAT32 },
    { HALVES, MG_BFLOAT16, MG_BFLOAT16, MG_FLOAT32 },
    { HALVES, MG_BFLOAT16, MG_FLOAT32, MG_BFLOAT16 },
    { HALVES, MG_FLOAT8_E4M3, MG_BFLOAT16, MG_FLOAT32 },
    { HALVES, MG_FLOAT8_E4M3, MG_FLOAT8_E4M3, MG_BFLOAT16 },
    { MG_FLOAT16, MG_FLOAT16, MG_FLOAT16, MG_FLOAT16 },
    { MG_FLOAT16, MG_FLOAT32, MG_FLOAT8_E4M3, MG_FLOAT32 },
    { MG_FLOAT32, MG_FLOAT16, MG_BFLOAT16, MG_FLOAT32 },
    { MG_FLOAT32, MG_FLOAT8_E4M3, MG_FLOAT16, MG_FLOAT32 },
};

static const char *name_of (int type)
{
    return type == HALVES ? "halves" : mg_dtype_name ((enum mg_dtype)type);
}

/* An optimizer's memory for n parameters. */
struct memory {
    struct kern_state state[3]; /* param, m, v */
    uint16_t *copy;
    void *data[3];
};

static void memory_open (struct memory *mem, const struct types *t)
{
    const int types[3] = { t->param, t->m, t->v };

    memset (mem, 0, sizeof (*mem));
    mem->copy = kit_alloc (MAX, 2);
    for (int i = 0; i < 3; i++) {
        mem->data[i] = kit_alloc (MAX, 4);
        mem->state[i] = (struct kern_state){ .data = mem->data[i], .positive = i == 2 };
        if (types[i] == HALVES)
            mem->state[i].upper = mem->copy;
        else
            mem->state[i].dtype = (enum mg_dtype)types[i];
    }
}

static void memory_close (struct memory *mem)
{
    for (int i = 0; i < 3; i++)
        free (mem->data[i]);
    free (mem->copy);
}

/* Start from parameters, and take steps with gradients [STEPS][n] of a type. */
struct problem {
    const struct types *types;
    int n;
    const float *param;
    const void *grad;
};

static struct kern_adamw settings (const struct problem *p, struct memory *mem, int step)
{
    return (struct kern_adamw){
        .n = p->n,
        .param = mem->state[0],
        .m = mem->state[1],
        .v = mem->state[2],
        .copy = p->types->param == HALVES ? NULL : mem->copy,
        .copy_dtype = MG_BFLOAT16,
        .grad = (const char *)p->grad
                + (size_t)((step - 1) * p->n) * mg_dtype_size ((enum mg_dtype)p->types->grad),
        .grad_dtype = (enum mg_dtype)p->types->grad,
        .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1,
        .c1 = 1 - pow (0.9, step), .c2 = 1 - pow (0.95, step), .grad_scale = 0.5,
    };
}

/* The formula in double, in place. */
static void solve (const struct kern_adamw *a, const float *grad, double *p, double *m,
                   double *v)
{
    for (int64_t i = 0; i < a->n; i++) {
        double g = grad[i] * a->grad_scale;

        m[i] = a->beta1 * m[i] + (1 - a->beta1) * g;
        v[i] = a->beta2 * v[i] + (1 - a->beta2) * g * g;
        p[i] = p[i] * (1 - a->lr * a->weight_decay)
               - a->lr * (m[i] / a->c1) / (sqrt (v[i] / a->c2) + a->eps);
    }
}

/* --- one step from what is stored: only its rounding is between us and double --- */

/* Half a last place: a part of the value, and of the scale where numbers are subnormal (a
 * whole one where a value may be raised to the least).
 */
static double rounding (int type, double x, float scale)
{
    switch (type) {
    case MG_BFLOAT16:
        return fabs (x) * 0x1p-8;
    case MG_FLOAT16:
        return fabs (x) * 0x1p-11 + scale * 0x1p-24;
    case MG_FLOAT8_E4M3:
        return fabs (x) * 0x1p-4 + scale * 0x1p-9;
    default:
        return 0;
    }
}

static int set_param (const struct kernels *k, struct memory *mem, int n, const float *param)
{
    float largest;

    kit_max_abs (k, n, param, MG_FLOAT32, &largest);
    mem->state[0].scale = kern_scale (mem->state[0].dtype, largest);
    return kit_state_store (k, n, param, MG_FLOAT32, &mem->state[0]);
}

/* With scales for the new values. */
static int take_step (const struct kernels *k, struct memory *mem, struct kern_adamw *a)
{
    struct kern_three largest;

    if (kern_adamw_largest (k,
            &(struct kern_adamw_largest){ .update = *a, .out = &largest },
            NULL, NULL) < 0)
        return -1;
    a->scale.param = kern_scale (a->param.dtype, largest.param);
    a->scale.m = kern_scale (a->m.dtype, largest.m);
    a->scale.v = kern_scale (a->v.dtype, largest.v);
    if (kern_adamw (k, a, NULL, NULL) < 0)
        return -1;
    mem->state[0].scale = a->scale.param;
    mem->state[1].scale = a->scale.m;
    mem->state[2].scale = a->scale.v;
    return 0;
}

static void load_all (const struct kernels *k, struct memory *mem, int n, float *out)
{
    for (int i = 0; i < 3; i++)
        kit_state_load (k, n, &mem->state[i], out + i * n, MG_FLOAT32);
}

static int copies_wrong (const struct problem *p, const struct memory *mem, const float *param)
{
    int wrong = 0;

    for (int i = 0; i < p->n; i++) {
        bool tie = (half_bits_of (param[i]) & 0x1ffff) == 0x8000;

        wrong += mem->copy[i] != half_to_bf16 (param[i]) + (p->types->param == HALVES && tie);
    }
    return wrong;
}

static void test_steps (const struct kit_variant *v, const struct problem *p)
{
    const int types[3] = { p->types->param, p->types->m, p->types->v };
    int n = p->n, far = 0, negative = 0, copies = 0;
    float *grad = kit_alloc (MAX, 4), *now = kit_alloc (3 * MAX, 4);
    double *want = kit_alloc (3 * MAX, sizeof (double)), worst = 0;
    struct memory mem;

    memory_open (&mem, p->types);
    set_param (v->k, &mem, n, p->param);
    for (int step = 1; step <= STEPS; step++) {
        struct kern_adamw a = settings (p, &mem, step);

        load_all (v->k, &mem, n, now);
        for (int i = 0; i < 3 * n; i++)
            want[i] = now[i];
        kit_cast (v->k, n, a.grad, a.grad_dtype, grad, MG_FLOAT32);
        solve (&a, grad, want, want + n, want + 2 * n);
        take_step (v->k, &mem, &a);
        load_all (v->k, &mem, n, now);
        for (int i = 0; i < 3 * n; i++) {
            double off = fabs (now[i] - want[i])
                         - rounding (types[i / n], want[i], mem.state[i / n].scale);

            worst = fmax (worst, off / (1 + fabs (want[i])));
            far += !(off <= 5e-7 * (1 + fabs (want[i])));
        }
        for (int i = 2 * n; i < 3 * n; i++)
            negative += now[i] < 0 || (want[i] > 0 && now[i] == 0);
        copies += copies_wrong (p, &mem, now);
    }
    ok (far == 0 && negative == 0,
        "%s: %s, moments %s and %s, gradients %s, %d: each step within a rounding and %.1e",
        v->name, name_of (types[0]), name_of (types[1]), name_of (types[2]),
        name_of (p->types->grad), n, worst);
    is_int (copies, 0, "%s: the model's are roundings of what is stored", v->name);
    memory_close (&mem);
    free (grad);
    free (now);
    free (want);
}

/* --- all steps --- */

static int run (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct memory mem;
    int rc;

    memory_open (&mem, p->types);
    rc = set_param (k, &mem, p->n, p->param);
    for (int step = 1; rc == 0 && step <= STEPS; step++) {
        struct kern_adamw a = settings (p, &mem, step);

        rc = take_step (k, &mem, &a);
    }
    load_all (k, &mem, p->n, out);
    memory_close (&mem);
    return rc;
}

/* What roundings of all steps may add up to: of parameters that move by 1e-2 a step, and of
 * moments below 1.
 */
static double tolerance (const struct types *t)
{
    const int types[3] = { t->param, t->m, t->v };
    double worst = 5e-7;

    for (int i = 0; i < 3; i++)
        worst = fmax (worst, types[i] == MG_BFLOAT16    ? 4e-3
                             : types[i] == MG_FLOAT16   ? 4e-3
                             : types[i] == MG_FLOAT8_E4M3 ? 0.15
                                                          : 0);
    return worst;
}

static void test_run (const struct kit *kit, const struct problem *p)
{
    size_t n = (size_t)p->n;
    double *want = kit_alloc (3 * n, sizeof (double));
    float *grad = kit_alloc (n, sizeof (float));
    struct memory mem;

    memory_open (&mem, p->types);
    for (size_t i = 0; i < n; i++)
        want[i] = p->param[i];
    for (int step = 1; step <= STEPS; step++) {
        struct kern_adamw a = settings (p, &mem, step);
        const struct kernels *k = kit->variants[0].k;

        kit_cast (k, a.n, a.grad, a.grad_dtype, grad, MG_FLOAT32);
        solve (&a, grad, want, want + n, want + 2 * n);
    }
    memory_close (&mem);
    kit_check (kit, run, p, 3 * n, want, tolerance (p->types),
               "%s, moments %s and %s, gradients %s, %d: all steps", name_of (p->types->param),
               name_of (p->types->m), name_of (p->types->v), name_of (p->types->grad), p->n);
    free (want);
    free (grad);
}

/* Halves are the same float32 as a float32 parameter. */
static void test_halves (const struct kit_variant *v, const struct problem *halves)
{
    struct types types = *halves->types;
    struct problem plain = *halves;
    float *a = kit_alloc (3 * MAX, 4), *b = kit_alloc (3 * MAX, 4);

    types.param = MG_FLOAT32;
    plain.types = &types;
    run (v->k, halves, a);
    run (v->k, &plain, b);
    ok (memcmp (a, b, (size_t)(3 * halves->n) * 4) == 0,
        "%s: halves are float32, moments %s and %s", v->name, name_of (types.m),
        name_of (types.v));
    free (a);
    free (b);
}

/* Gradients of all sizes, some of them always 0, rounded to a type. */
static void *make_grads (int n, int type, const struct kernels *k)
{
    float *wide = kit_alloc (MAX * STEPS, 4);
    void *grad = kit_alloc (MAX * STEPS, 4);

    kit_random (wide, (size_t)(n * STEPS), 5);
    for (int i = 0; i < n * STEPS; i++)
        wide[i] = i % n % 5 == 0 ? 0 : ldexpf (wide[i], -(i % n % 12));
    kit_cast (k, n * STEPS, wide, MG_FLOAT32, grad, (enum mg_dtype)type);
    free (wide);
    return grad;
}

int main (void)
{
    static const int sizes[] = { 1, 1023, MAX };
    float *param = kit_alloc (MAX, 4);
    struct kit kit;

    kit_open (&kit);
    kit_random (param, MAX, 3);
    for (size_t t = 0; t < sizeof (all) / sizeof (all[0]); t++) {
        for (size_t s = 0; s < sizeof (sizes) / sizeof (sizes[0]); s++) {
            void *grad = make_grads (sizes[s], all[t].grad, kit.variants[0].k);
            struct problem p = { &all[t], sizes[s], param, grad };

            test_run (&kit, &p);
            for (size_t i = 0; i < kit.count; i++) {
                test_steps (&kit.variants[i], &p);
                if (all[t].param == HALVES)
                    test_halves (&kit.variants[i], &p);
            }
            free (grad);
        }
    }
    free (param);
    kit_close (&kit);
    return done_testing ();
}
