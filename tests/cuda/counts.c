/* counts.c - what instrumented kernels move, each of them in one call (cases.h)
 *
 * Prints TAP: a check for each streaming kernel, which must move at most 1.1 times the bytes that
 * it needs and have no bank conflicts, unless its case has a reason.  Prints also what
 * tests/cuda/report reads, in fields with tabs between them:
 *
 *     count NAME KIND BYTES FLOPS L2 MEMORY WAVEFRONTS LEAST EXPS MMA REASON
 *     launch SYMBOL THREADS SHARED
 *
 * BYTES and FLOPS are what the call needs; L2 are the bytes of the sectors of all requests, MEMORY
 * those bytes if the L2 cache keeps what a launch has touched; WAVEFRONTS are passes over the banks
 * of shared memory, LEAST the fewest; SHARED are bytes of dynamic shared memory.
 */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/cases.h"
#include "tests/cuda/direct.h"
#include "tests/cuda/kernels.h"
#include "tests/cuda/launch.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"
#include "tests/unit/kernels/typed.h"

enum { MAX_OPERANDS = 24 };

static void *operands[MAX_OPERANDS];
static int num_operands;

static void *operand (size_t size)
{
    if (num_operands == MAX_OPERANDS)
        bail_out ("more than %d operands", MAX_OPERANDS);
    return operands[num_operands++] = direct_alloc (size, 0);
}

static void *make_numbers (size_t n, enum mg_dtype dtype, float value)
{
    float *x = kit_alloc (n + 1, sizeof (*x));
    void *made = operand (n * mg_dtype_size (dtype));

    kit_random (x, n, (uint64_t)num_operands);
    for (size_t i = 0; value == value && i < n; i++)
        x[i] = value;
    typed_set (&(struct typed){ .x = made, .n = n, .dtype = dtype }, x);
    free (x);
    return made;
}

static void *make_bytes (size_t size, const void *from)
{
    void *made = operand (size);

    if (from)
        memcpy (made, from, size);
    else
        memset (made, 0, size);
    return made;
}

static const struct cases_memory memory = { make_numbers, make_bytes };

static void free_operands (void)
{
    while (num_operands > 0)
        direct_free (operands[--num_operands]);
}

static void print_launch (const struct launch_request *r)
{
    Dl_info info;

    if (dladdr (r->kernel, &info) == 0 || !info.dli_sname)
        bail_out ("a kernel has no symbol: link with -export-dynamic");
    printf ("launch\t%s\t%u\t%zu\n", info.dli_sname, r->block[0] * r->block[1] * r->block[2],
            r->shared);
}

static const char *const kinds[] = { "stream", "product", "other" };

static void check (const struct cases_row *row, const struct cases_call *c,
                   const struct launch_counts *n)
{
    double l2 = 32.0 * (double)n->sectors, moved = 32.0 * (double)n->memory_sectors;
    bool fits = l2 <= 1.1 * c->bytes && n->wavefronts == n->least_wavefronts;

    printf ("count\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%llu\t%llu\t%llu\t%llu\t%s\n", row->name,
            kinds[row->kind], c->bytes, c->flops, l2, moved, (unsigned long long)n->wavefronts,
            (unsigned long long)n->least_wavefronts, (unsigned long long)n->exps,
            (unsigned long long)n->mma, row->reason ? row->reason : "");
    if (row->kind != CASES_STREAM)
        return;
    if (!ok (fits == !row->reason && moved >= 0.9 * c->bytes, "%s %s", row->name,
             row->reason ? "needs its reason" : "moves what it needs"))
        diag ("needed %.0f bytes, moved %.0f, of L2 %.0f; %llu passes over banks, least %llu",
              c->bytes, moved, l2, (unsigned long long)n->wavefronts,
              (unsigned long long)n->least_wavefronts);
}

static void run (struct kernels *k, const struct cases_row *row)
{
    struct cases_call c = { .size = &cases_small, .memory = &memory };
    struct kern_call call = { row->op, c.args, NULL };
    struct mg_error err = { "" };
    struct launch_counts counts;

    cases_make (row, &c);
    launch_count_reset ();
    if (kern_run (k, &call, &err) < 0)
        bail_out ("%s: %s", row->name, err.text);
    launch_count (&counts);
    free_operands ();
    if (counts.requests == 0)
        bail_out ("the kernels are not instrumented");
    check (row, &c, &counts);
}

int main (void)
{
    struct kernels *k = cuda_double_kernels ();

    launch_tell (print_launch);
    for (size_t i = 0; i < cases_count; i++)
        run (k, &cases[i]);
    for (int op = 0; op < KERN_NUM_OPS; op++) {
        bool has = false;

        for (size_t i = 0; i < cases_count; i++)
            has = has || cases[i].op == (enum kern_op)op;
        if (!has)
            printf ("uncounted\t%s\n", kern_op_name ((enum kern_op)op));
        ok (has != cases_lack ((enum kern_op)op), "%s has %s", kern_op_name ((enum kern_op)op),
            has ? "a case" : "none");
    }
    return done_testing ();
}
