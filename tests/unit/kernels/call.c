/* call - the one way of a kernel call: it runs, or a taker or a tape has it; what no table has is
 * refused
 */

#include <errno.h>
#include <string.h>

#include "kernels/tape.h"
#include "tests/tap/tap.h"

struct seen {
    const struct kernels *k;
    enum kern_op op;
    const void *args;
    int times, rc;
};

static int take (void *arg, const struct kernels *k, const struct kern_call *call,
                 struct mg_error *err)
{
    struct seen *seen = arg;

    (void)err;
    seen->k = k;
    seen->op = call->op;
    seen->args = call->args;
    seen->times++;
    return seen->rc;
}

static int runs;

static int run (const struct kernels *k, const void *args, struct mg_stream *stream,
                struct mg_error *err)
{
    (void)k, (void)args, (void)stream, (void)err;
    runs++;
    return 0;
}

static int ask (const struct kernels *k, const void *args, size_t *bytes, struct mg_error *err)
{
    (void)k, (void)err;
    *bytes = (size_t)((const struct kern_gemm *)args)->m;
    return 0;
}

int main (void)
{
    struct kern_ops ops = { .name = "test" };
    struct seen seen = { .times = 0 };
    struct kern_taker taker = { .take = take, .arg = &seen };
    struct kern_tape tape = { .count = 0 };
    struct kernels k = { .ops = &ops };
    struct kern_gemm gemm = { .m = 77 };
    struct kern_cast cast = { .n = 1 };
    struct mg_error err = { "" };
    size_t bytes = 9;

    ops.run[KERN_GEMM] = run;
    ops.scratch[KERN_GEMM] = ask;
    ok (kern_gemm (&k, &gemm, NULL, &err) == 0 && runs == 1, "a call runs");
    errno = 0;
    ok (kern_cast (&k, &cast, NULL, &err) == -1 && errno == ENOTSUP, "one without code is refused");
    is_str (err.text, "kernel cast: the test device has none, or is only planned", "by its name");
    k.tape = &tape;
    ok (kern_gemm (&k, &gemm, NULL, &err) == 0 && kern_cast (&k, &cast, NULL, &err) == 0
            && runs == 1 && tape.count == 2,
        "a tape counts calls, and none runs");
    is_int (kern_tape_scratch (&tape, NULL), 77, "with the scratch memory that they need");
    k.taker = &taker;
    seen.rc = -1;
    ok (kern_gemm (&k, &gemm, NULL, &err) == -1 && seen.times == 1 && tape.count == 2,
        "a taker comes before the tape, and what it says counts");
    ok (seen.k == &k && seen.op == KERN_GEMM && seen.args == &gemm, "it gets the call");
    ok (kern_scratch (&k, &(struct kern_call){ KERN_GEMM, &gemm, NULL }, &bytes, &err) == 0
            && bytes == 77 && seen.times == 1,
        "to ask for scratch memory is no call");
    ok (kern_scratch (&k, &(struct kern_call){ KERN_CAST, &cast, NULL }, &bytes, &err) == 0
            && bytes == 0, "most need none");
    for (int op = 0; op < KERN_NUM_OPS; op++)
        ok (kern_op_name ((enum kern_op)op)[0] && kern_op_size ((enum kern_op)op) > 0,
            "%s has arguments", kern_op_name ((enum kern_op)op));
    is_int (kern_op_size (KERN_GEMM), sizeof (struct kern_gemm), "of the size of their struct");
    return done_testing ();
}
