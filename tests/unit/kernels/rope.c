/* rope - rotary position embedding against a loop in double, for heads side by side and in groups,
 * any position, and back
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { COUNT = 64 }; /* positions */

struct problem {
    struct kern_rope rope; /* without x */
    size_t n;
    float *x;
};

static int run (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct kern_rope a = p->rope;

    memcpy (out, p->x, p->n * sizeof (float));
    a.x = out;
    return kern_rope (k, &a, NULL, NULL);
}

static int64_t position_of (const struct kern_rope *a, int64_t t)
{
    const struct kern_positions *p = &a->position;

    return p->at ? p->at[t / a->batch * p->stride_s + t % a->batch * p->stride_b]
                 : t / a->batch;
}

static void expect (const struct problem *p, double *want)
{
    const struct kern_rope *a = &p->rope;

    for (size_t i = 0; i < p->n; i++)
        want[i] = (double)p->x[i];
    for (int64_t row = 0; row < a->tokens * a->groups * a->heads; row++) {
        int64_t group = row / a->heads, t = group / a->groups;
        double *x = want + group * a->stride_g + row % a->heads * a->stride_h;
        const float *table = a->table + position_of (a, t) * 2 * a->half;

        for (int64_t i = 0; i < a->half; i++) {
            int64_t one = a->interleaved ? 2 * i : i;
            int64_t two = a->interleaved ? 2 * i + 1 : a->half + i;
            double c = (double)table[i], s = (double)table[a->half + i], low = x[one];

            s = a->inverse ? -s : s;
            x[one] = c * low - s * x[two];
            x[two] = s * low + c * x[two];
        }
    }
}

static void test (const struct kit *kit, struct kern_rope rope, const char *name)
{
    size_t count = (size_t)(COUNT * 2 * rope.half);
    struct problem p = { .rope = rope,
                         .n = (size_t)(rope.tokens * rope.groups * rope.stride_g) };
    float *table = kit_alloc (count, sizeof (float));
    double *want = kit_alloc (p.n, sizeof (double));

    p.x = kit_alloc (p.n, sizeof (float));
    kit_random (p.x, p.n, 5);
    kit_random (table, count, 6);
    p.rope.table = table;
    p.rope.count = COUNT;
    for (int way = 0; way < 4; way++) {
        p.rope.interleaved = way & 1;
        p.rope.inverse = way >> 1;
        expect (&p, want);
        kit_check (kit, run, &p, p.n, want, 3e-7, "%s%s%s", name,
                   p.rope.interleaved ? ", interleaved" : "",
                   p.rope.inverse ? ", inverse" : "");
    }
    free (table);
    free (p.x);
    free (want);
}

int main (void)
{
    static int32_t at[COUNT];
    struct kit kit;

    for (int i = 0; i < COUNT; i++)
        at[i] = (i * 29 + 5) % COUNT;
    kit_open (&kit);
    test (&kit, (struct kern_rope){ .tokens = 12, .batch = 3, .groups = 4, .heads = 1, .half = 8,
                                    .stride_g = 16 }, "whole heads");
    test (&kit, (struct kern_rope){ .tokens = 10, .batch = 2, .groups = 2, .heads = 3, .half = 5,
                                    .stride_g = 4 * 13, .stride_h = 13,
                                    .position = { at, 1, 0 } },
          "parts of heads in groups, any positions");
    test (&kit, (struct kern_rope){ .tokens = 66, .batch = 2, .groups = 5, .heads = 2,
                                    .half = 33, .stride_g = 200, .stride_h = 70,
                                    .position = { at, 1, 33 - 2 } },
          "positions by batch entry");
    test (&kit, (struct kern_rope){ .tokens = 4, .batch = 1, .groups = 1, .heads = 1, .half = 0,
                                    .stride_g = 3 }, "nothing");
    kit_close (&kit);
    return done_testing ();
}
