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

/* For three ranks of a node. */
static int check (const struct memory_plan *plan, double available,
                  const struct memory_advice *advice, struct mg_error *err)
{
    const struct memory_room room = { .ranks = 3, .device = available };

    return memory_check (plan, &room, advice, err);
}

/* Each rank has a device with memory of its own; pinned memory is the node's. */
static void test_apart (void)
{
    const int64_t gib = 1 << 30;
    const struct memory_plan plan = { .bytes = { [MEMORY_PARAMETERS] = 2 * gib,
                                                 [MEMORY_CHECKPOINT] = gib } };
    const struct memory_advice all = { true, true, true, true, true };
    struct memory_room room = { .ranks = 3, .device = 2.0 * (double)gib, .apart = true,
                                .host = 3.0 * (double)gib };
    struct mg_error err = { "" };

    is_int (memory_check (&plan, &room, &all, &err), 0, "just enough of both");
    room.device -= 1;
    ok (memory_check (&plan, &room, &all, &err) < 0 && errno == ENOMEM
            && strstr (err.text, "2.00 GiB are needed of the device (2.00 GiB parameters")
            && strstr (err.text, "less; --use-distributed-optimizer, more"), "%s", err.text);
    room.device = 2.0 * (double)gib;
    room.host = 2.5 * (double)gib;
    ok (memory_check (&plan, &room, &all, &err) < 0 && errno == ENOMEM
            && strstr (err.text, "3 x 1.00 GiB of pinned host memory are needed by the ranks")
            && strstr (err.text, "it has 2.50 GiB, 0.50 GiB less; no --async-save, more nodes"),
        "%s", err.text);
    room.host = 0;
    is_int (memory_check (&plan, &room, &all, &err), 0, "nobody knows");
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

    is_int (check (&state, 6.0 * (double)gib, &all, &err), 0, "just enough");
    is_int (check (&state, 0, &all, &err), 0, "nobody knows");
    ok (check (&state, 5.0 * (double)gib, &none, &err) < 0 && errno == ENOMEM
            && strstr (err.text, "3 x 2.00 GiB are needed")
            && strstr (err.text, "it has 5.00 GiB, 1.00 GiB less; more tensor"), "%s", err.text);
    ok (check (&state, 1, &all, &err) < 0
            && strstr (err.text, "less; no --async-save, --use-distributed-optimizer, more "),
        "%s", err.text);
    ok (check (&activations, 1, &all, &err) < 0
            && strstr (err.text, "no --async-save, a smaller --micro-batch-size, "
                                 "--sequence-parallel, more "), "%s", err.text);
    ok (check (&activations, 1, &bf16, &err) < 0
            && strstr (err.text, "less; --bf16, more "), "%s", err.text);
    ok (check (&kept, 1, &none, &err) < 0
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
    test_apart ();
    test_check ();
    test_advice ();
    return done_testing ();
}
