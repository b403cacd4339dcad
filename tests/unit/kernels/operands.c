/* operands - tests of kernels on a device: operands in host memory go there and back */

#include <stdlib.h>
#include <string.h>

#include "libcore/device/device.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { N = 5 };

static const float constant[N] = { 1, 2, 3, 4, 5 };
static float fixed[N + 1];

static int copy (const struct kernels *k, const float *x, float *y, int64_t n)
{
    const struct kern_cast a
        = { .n = n, .scale = 2, .x = x, .y = y, .from = MG_FLOAT32, .to = MG_FLOAT32 };

    return kern_cast (k, &a, NULL, NULL);
}

/* Static memory, the stack, an array in its middle. */
static void test_places (const struct kernels *k)
{
    float stack[N + 2] = { 7, 0, 0, 0, 0, 0, 8 };
    float *heap = kit_alloc (N + 2, sizeof (float));

    is_int (copy (k, constant, stack + 1, N), 0, "constants to the stack");
    ok (stack[0] == 7 && stack[1] == 2 && stack[N] == 10 && stack[N + 1] == 8,
        "its elements and no others are written");
    is_int (copy (k, stack + 1, fixed, N), 0, "the stack to static memory");
    ok (fixed[0] == 4 && fixed[N - 1] == 20 && fixed[N] == 0, "is written");
    is_int (copy (k, fixed, heap + 1, N), 0, "static memory to an array");
    ok (heap[0] == 0 && heap[1] == 8 && heap[N] == 40 && heap[N + 1] == 0, "is written");
    is_int (copy (k, heap + 1, heap + 1, N), 0, "an array to itself");
    ok (heap[0] == 0 && heap[1] == 16 && heap[N] == 80, "is written once");
    is_int (copy (k, constant, heap, 0), 0, "nothing");
    ok (heap[0] == 0 && heap[1] == 16, "changes nothing");
    free (heap);
}

/* A newer array takes the place of one that was freed. */
static void test_known (const struct kernels *k)
{
    float *space = malloc (4 * N * sizeof (float));

    if (!space)
        bail_out ("out of memory");
    memset (space, 0, 4 * N * sizeof (float));
    kit_known (space, N * sizeof (float));
    kit_known (space + N - 1, 3 * N * sizeof (float));
    is_int (copy (k, constant, space + 2 * N, N), 0, "an array over the end of an older one");
    ok (space[2 * N] == 2 && space[3 * N - 1] == 10 && space[0] == 0, "is written");
    free (space);
}

/* An operand without elements may be anywhere. */
static void test_empty (const struct kernels *k)
{
    float *outside = malloc (N * sizeof (float)), y[N] = { 0 };

    if (!outside)
        bail_out ("out of memory");
    for (int i = 0; i < N; i++)
        outside[i] = 3;
    kit_known (outside, 0);
    is_int (copy (k, outside, y, 0), 0, "nothing, from an array that is not known");
    is_int (copy (k, constant, outside, N), 0, "something to it");
    ok (outside[0] == 3 && outside[N - 1] == 3, "does not arrive, so that a test notices");
    free (outside);
}

static void test_device (const char *name)
{
    struct kit_device *d = kit_device_create (name, 2);
    struct kernels *k = kit_device_kernels (d);

    ok (kit_device_of (k) != NULL, "%s: kernels of a device", name);
    is_str (device_name (kit_device_of (k)), name, "%s: of this one", name);
    test_places (k);
    test_known (k);
    test_empty (k);
    ok (device_allocated (kit_device_of (k)) > 0, "%s: its memory was used", name);
    kit_device_destroy (d);
}

int main (void)
{
    struct kernels *k = kernels_cpu_create (1, NULL);

    ok (!kit_device_of (k), "the CPU's kernels are of no device");
    kernels_cpu_destroy (k);
    test_device ("cpu");
    test_device ("guarded");
    test_device ("guarded-pages");
    return done_testing ();
}
