/* kernel_tests.c - the unit tests of kernels (tests/unit/kernels) as one program, which is small
 *
 *     kernel-tests             print their names
 *     kernel-tests NAME        run one
 *
 * The tests' objects are those of the unit tests, whose main() is renamed to test_NAME().
 */

#include <stdio.h>
#include <string.h>

/* Those that run on any device (MG_TEST_DEVICE); gpu_kernels of Makemodule.am has the same. */
#define KERNEL_TESTS(TEST) \
    TEST (act) \
    TEST (adamw) \
    TEST (adamw_types) \
    TEST (attention) \
    TEST (attention_logits) \
    TEST (bias_dropout_add) \
    TEST (cast) \
    TEST (copy) \
    TEST (embedding) \
    TEST (expert_act) \
    TEST (expert_gemm) \
    TEST (expert_sort) \
    TEST (fill) \
    TEST (gemm) \
    TEST (gemm_double) \
    TEST (gemm_large) \
    TEST (norm) \
    TEST (reduce) \
    TEST (rope) \
    TEST (router) \
    TEST (router_balance) \
    TEST (router_loss) \
    TEST (router_many) \
    TEST (row) \
    TEST (state) \
    TEST (xent)

#define DECLARE(NAME) int test_##NAME (void);
KERNEL_TESTS (DECLARE)
#undef DECLARE

static const struct {
    const char *name;
    int (*run) (void);
} tests[] = {
#define ROW(NAME) { #NAME, test_##NAME },
    KERNEL_TESTS (ROW)
#undef ROW
};

enum { COUNT = sizeof (tests) / sizeof (tests[0]) };

int main (int argc, char **argv)
{
    for (int i = 0; i < COUNT; i++) {
        if (argc == 1)
            puts (tests[i].name);
        else if (strcmp (argv[1], tests[i].name) == 0)
            return tests[i].run ();
    }
    if (argc == 1)
        return 0;
    fprintf (stderr, "kernel-tests: there is no test %s\n", argv[1]);
    return 2;
}
