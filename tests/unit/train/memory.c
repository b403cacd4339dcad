/* The plan adds up what modules say, and what it says where memory is short. */

#include <errno.h>
#include <string.h>

#include "libcore/device/device.h"
#include "tests/tap/tap.h"
#include "tests/unit/train/run.h"

static const char *const plain[] = { NULL };
static const char *const sixteen[] = { "--bf16", "--save=d", "--async-save", NULL };
static const char *const sharded[] = { "--bf16", "--use-distributed-optimizer",
                                       "--use-precision-aware-optimizer", NULL };

static void test_plan (const char *const *more, const char *name)
{
    const struct train_parts *p;
    const int64_t *bytes;
    struct run r;

    run_create (&r, more);
    p = &r.parts;
    bytes = r.memory.bytes;
    is_int (memory_total (&r.memory) - memory_host (&r.memory),
            device_allocated (job_device (r.job)), "%s: as many bytes as are allocated", name);
    is_int (bytes[MEMORY_PARAMETERS], buffers_bytes (p->buffers, BUFFERS_PARAMS), "parameters");
    is_int (bytes[MEMORY_GRADIENTS], buffers_bytes (p->buffers, BUFFERS_GRADS), "gradients");
    is_int (bytes[MEMORY_MAIN], main_params_bytes (p->main), "main parameters");
    is_int (bytes[MEMORY_MOMENTS], optimizer_bytes (p->optimizer, OPTIMIZER_PART_MOMENTS),
            "moments");
    ok ((bytes[MEMORY_CHECKPOINT] > 0) == r.config.save.async, "a copy for checkpoints");
    is_int (r.memory.elements + r.memory.padding, buffers_elements (p->buffers), "elements");
    is_int (r.memory.shards, 1, "of one rank");
    run_destroy (&r);
}

static void test_check (void)
{
    const int64_t gib = 1 << 30;
    const struct memory_plan state = { .bytes = { [MEMORY_PARAMETERS] = 2 * gib } };
    const struct memory_plan activations = { .bytes = { [MEMORY_ACTIVATIONS] = 2 * gib } };
    const struct memory_plan kept = { .bytes = { [MEMORY_ACTIVATIONS] = 2 * gib },
                                      .forward_cost = 1 };
    const struct memory_advice none = { false }, all = { true, true, true, true, true };
    const struct memory_advice bf16 = { .bf16 = true };
    struct mg_error err = { "" };

    is_int (memory_check (&state, 3, 6.0 * (double)gib, &all, &err), 0, "just enough");
    is_int (memory_check (&state, 3, 0, &all, &err), 0, "nobody knows");
    ok (memory_check (&state, 3, 5.0 * (double)gib, &none, &err) < 0 && errno == ENOMEM
            && strstr (err.text, "3 x 2.00 GiB are needed")
            && strstr (err.text, "it has 5.00 GiB, 1.00 GiB less; more tensor"), "%s", err.text);
    ok (memory_check (&state, 3, 1, &all, &err) < 0
            && strstr (err.text, "less; no --async-save, --use-distributed-optimizer, more "),
        "%s", err.text);
    ok (memory_check (&activations, 3, 1, &all, &err) < 0
            && strstr (err.text, "no --async-save, a smaller --micro-batch-size, "
                                 "--sequence-parallel, more "), "%s", err.text);
    ok (memory_check (&activations, 3, 1, &bf16, &err) < 0
            && strstr (err.text, "less; --bf16, more "), "%s", err.text);
    ok (memory_check (&kept, 3, 1, &none, &err) < 0
            && strstr (err.text, "less; recomputation (megatron plan memory --fit finds which), "),
        "%s", err.text);
}

static void test_advice (void)
{
    struct memory_advice advice;
    struct run r;

    run_create (&r, sixteen);
    advice = train_advice (&r.config, r.job);
    ok (advice.async_save && !advice.shard && advice.smaller_batch && !advice.sequence_parallel
            && !advice.bf16, "what one rank in bfloat16 could do");
    run_destroy (&r);
}

int main (void)
{
    test_plan (plain, "float32");
    test_plan (sixteen, "bfloat16, with a copy");
    test_plan (sharded, "a distributed optimizer");
    test_check ();
    test_advice ();
    return done_testing ();
}
