/* tape - calls are counted instead of run, and the most scratch memory of a call */

#include <errno.h>
#include <string.h>

#include "kernels/tape.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { N = 300 };

static int take (void *arg, const struct kernels *k, const struct kern_call *call,
                 struct mg_error *err)
{
    (void)k, (void)call, (void)err;
    ++*(int *)arg;
    return 0;
}

static void test_count (const struct kernels *k)
{
    struct kern_tape tape = { 0 };
    struct kernels taping = *k;
    int taken = 0;
    const struct kern_taker taker = { take, &taken };
    float x[N], out[N] = { 0 };
    double sum = -1;
    const struct kern_cast cast = { .n = N, .scale = 2, .x = x, .y = out };
    const struct kern_sum_sq sq = { .n = N, .x = out, .out = &sum };

    kit_random (x, N, 1);
    taping.tape = &tape;
    ok (kern_cast (&taping, &cast, NULL, NULL) == 0 && kern_sum_sq (&taping, &sq, NULL, NULL) == 0,
        "two calls");
    ok (sum == -1 && out[0] == 0, "nothing has run");
    is_int (tape.count, 2, "two calls are counted");
    taping.taker = &taker;
    kern_cast (&taping, &cast, NULL, NULL);
    ok (taken == 1 && tape.count == 2, "what a graph takes is not on the tape");
}

static void test_scratch (const struct kernels *k)
{
    struct kern_tape tape = { 0 };
    struct kernels taping = *k;
    struct kern_col_sum sum = { .rows = 100, .cols = 10 };
    struct kern_fill fill = { .n = 5 };
    struct kern_call call = { KERN_COL_SUM, &sum, NULL };
    struct kern_gemm wrong = { .m = -1 };
    struct mg_error err = { "" };
    size_t want = 0, none = 1;

    ok (kern_scratch (k, &call, &want, NULL) == 0 && want > 0, "column sums take scratch");
    taping.tape = &tape;
    ok (kern_col_sum (&taping, &sum, NULL, NULL) == 0
            && kern_fill (&taping, &fill, NULL, NULL) == 0,
        "calls without operands");
    is_int (kern_tape_scratch (&tape, NULL), want, "the most that one of them takes");
    is_int (tape.count, 2, "and how many there were");
    ok (kern_gemm (&taping, &wrong, NULL, &err) == -1 && strstr (err.text, "negative size"),
        "a wrong call is refused: %s", err.text);
    call = (struct kern_call){ KERN_FILL, &fill, NULL };
    ok (kern_scratch (k, &call, &none, NULL) == 0 && none == 0, "constants take none");
}

/* Streams are only compared. */
static struct mg_stream *stream_number (size_t i)
{
    static char streams[KERN_SCRATCH_STREAMS + 1];

    return (struct mg_stream *)(void *)&streams[i];
}

/* The tape has the scratch memory of each stream. */
static void test_streams (const struct kernels *k)
{
    struct kern_tape tape = { 0 };
    struct kernels taping = *k;
    struct kern_col_sum small = { .rows = 10, .cols = 2 }, sum = { .rows = 100, .cols = 10 };
    struct kern_call call = { KERN_COL_SUM, &sum, NULL };
    struct mg_error err = { "" };
    size_t want = 0;
    int refused = 0;

    kern_scratch (k, &call, &want, NULL);
    taping.tape = &tape;
    kern_col_sum (&taping, &small, stream_number (0), NULL);
    kern_col_sum (&taping, &sum, stream_number (1), NULL);
    ok (kern_tape_scratch (&tape, stream_number (0)) < want
            && kern_tape_scratch (&tape, stream_number (1)) == want
            && kern_tape_scratch (&tape, NULL) == 0, "each stream has its own scratch");
    for (size_t i = 0; i <= KERN_SCRATCH_STREAMS; i++)
        refused += kern_col_sum (&taping, &sum, stream_number (i), &err) < 0;
    is_int (refused, 1, "one stream too many: %s", err.text);
}

/* Calls on a stream use the memory that was given for it. */
static void test_given (struct kernels *k)
{
    static float x[1000], y[10];
    static char memory[1 << 16] __attribute__ ((aligned (64)));
    struct kern_col_sum sum = { .rows = 100, .cols = 10, .x = x, .out = y, .dtype = MG_FLOAT32,
                                .grad_dtype = MG_FLOAT32 };
    struct kern_call call = { KERN_COL_SUM, &sum, NULL };
    struct mg_error err = { "" };
    size_t want = 0;
    int refused = 0;

    kern_scratch (k, &call, &want, NULL);
    if (want > sizeof (memory) || want <= 64)
        bail_out ("%zu bytes of scratch", want);
    kernels_cpu_set_scratch (k, stream_number (0), memory, 64, &err);
    kernels_cpu_set_scratch (k, stream_number (1), memory, want, &err);
    ok (kern_col_sum (k, &sum, stream_number (0), &err) < 0 && errno == ENOMEM, "too little: %s",
        err.text);
    is_int (kern_col_sum (k, &sum, stream_number (1), &err), 0, "another stream has enough");
    is_int (kern_col_sum (k, &sum, stream_number (2), &err), 0, "one without allocates");
    for (size_t i = 0; i <= KERN_SCRATCH_STREAMS; i++)
        refused += kernels_cpu_set_scratch (k, stream_number (i), memory, 64, &err) < 0;
    is_int (refused, 1, "one stream too many: %s", err.text);
    for (size_t i = 0; i <= KERN_SCRATCH_STREAMS; i++)
        kernels_cpu_set_scratch (k, stream_number (i), NULL, 0, &err);
    is_int (kern_col_sum (k, &sum, stream_number (0), &err), 0, "what was given is gone");
}

static void test_names (void)
{
    is_str (kern_op_name (KERN_GEMM), "gemm", "the name of the first op");
    is_str (kern_op_name (KERN_CAST), "cast", "of the last one");
    is_int (kern_op_size (KERN_FILL), sizeof (struct kern_fill), "the size of arguments");
}

int main (void)
{
    struct kernels *k = kernels_cpu_create (2, NULL);

    if (!k)
        bail_out ("kernels");
    test_names ();
    test_count (k);
    test_scratch (k);
    test_streams (k);
    test_given (k);
    kernels_cpu_destroy (k);
    return done_testing ();
}
