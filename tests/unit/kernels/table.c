/* table - the backend as such: a full table, life and death, scratch */

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

/* A new op cannot be forgotten in a table. */
static int count_empty (const struct kern_ops *ops)
{
    int empty = 0;

    for (int op = 0; op < KERN_NUM_OPS; op++)
        empty += !ops->run[op];
    return empty;
}

static void test_full (const struct kit_variant *v)
{
    is_int (count_empty (v->k->ops), 0, "%s: all %d ops are there", v->name, KERN_NUM_OPS);
    is_str (v->k->ops->name, "cpu", "%s: name", v->name);
}

/* The pointer of an op at a byte; NULL: there is none. */
static const struct kern_pointer *pointer_at (enum kern_op op, size_t at)
{
    size_t count;
    const struct kern_pointer *list = kern_op_pointers (op, &count);

    for (size_t i = 0; i < count; i++) {
        if (list[i].at == at)
            return &list[i];
    }
    return NULL;
}

static void test_pointers (void)
{
    static const struct {
        enum kern_op op;
        size_t at;
        bool written;
    } rows[] = {
        { KERN_GEMM, offsetof (struct kern_gemm, bias), false },
        { KERN_GEMM, offsetof (struct kern_gemm, c), true },
        { KERN_NORM_BWD, offsetof (struct kern_norm_bwd, weight), false },
        { KERN_ROPE, offsetof (struct kern_rope, position.at), false },
        { KERN_ATTENTION_BWD, offsetof (struct kern_attention_bwd, fwd.pos_k.at), false },
        { KERN_ATTENTION_BWD, offsetof (struct kern_attention_bwd, dv), true },
        { KERN_ADAMW_LARGEST, offsetof (struct kern_adamw_largest, update.m.upper), true },
        { KERN_EXPERT_GEMM, offsetof (struct kern_expert_gemm, w), true },
    };

    for (int op = 0; op < KERN_NUM_OPS; op++) {
        size_t count, last = 0;
        const struct kern_pointer *list = kern_op_pointers ((enum kern_op)op, &count);
        bool inside = count > 0;

        for (size_t i = 0; i < count; i++) {
            inside = inside && list[i].at + sizeof (void *) <= kern_op_size ((enum kern_op)op)
                     && (i == 0 || list[i].at > last);
            last = list[i].at;
        }
        ok (inside, "%s has %zu pointers, one behind the other", kern_op_name ((enum kern_op)op),
            count);
    }
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        const struct kern_pointer *pointer = pointer_at (rows[i].op, rows[i].at);

        ok (pointer && pointer->written == rows[i].written, "%s: the one at byte %zu",
            kern_op_name (rows[i].op), rows[i].at);
    }
    ok (!pointer_at (KERN_GEMM, 0), "a number is no pointer");
}

static void test_create (void)
{
    struct mg_error err = { "" };
    struct kernels *k = kernels_cpu_create (2, &err);

    ok (k != NULL, "create %s", err.text);
    errno = 99;
    kernels_cpu_destroy (k);
    kernels_cpu_destroy (NULL);
    is_int (errno, 99, "destroy keeps errno");
    for (int threads = 0; threads >= -1; threads--) {
        errno = 0;
        ok (!kernels_cpu_create (threads, &err) && errno == EINVAL
                && strstr (err.text, "want at least 1"),
            "%d threads: %s", threads, err.text);
    }
}

static void test_scratch (void)
{
    struct kernels *k = kernels_cpu_create (1, NULL);
    struct mg_error err = { "" };
    char *a, *b;

    if (!k)
        bail_out ("create");
    a = cpu_scratch (k, 1000, &err);
    ok (a && (uintptr_t)a % 64 == 0, "scratch is aligned");
    memset (a, 1, 1000);
    b = cpu_scratch (k, 10, &err);
    ok (a == b, "less is what there is");
    b = cpu_scratch (k, 100000, &err);
    ok (b != NULL, "more is more");
    memset (b, 2, 100000);
    errno = 0;
    ok (!cpu_scratch (k, SIZE_MAX, &err) && errno == ENOMEM, "too much: %s", err.text);
    ok (cpu_scratch (k, 100000, &err) == b, "and what there was is still there");
    kernels_cpu_destroy (k);
}

int main (void)
{
    struct kit kit;

    kit_open_cpu (&kit);
    for (size_t i = 0; i < kit.count; i++)
        test_full (&kit.variants[i]);
    kit_close (&kit);
    test_pointers ();
    test_create ();
    test_scratch ();
    return done_testing ();
}
