/* tape - calls are taken down instead of run, and replayed: the same results, in order */

#include <errno.h>
#include <string.h>

#include "kernels/tape.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { N = 300 };

/* out = (x doubled), then its sum of squares; as two calls, the second of what the first made. */
static void call_twice (const struct kernels *k, const float *x, float *out, double *sum)
{
    struct kern_cast cast = { .n = N, .scale = 2, .x = x, .y = out };
    struct kern_sum_sq sq = { .n = N, .x = out, .out = sum };
    int rc = kern_cast (k, &cast, NULL, NULL) | kern_sum_sq (k, &sq, NULL, NULL);

    /* a tape has copies: what the caller does with its own is its business */
    memset (&cast, 0xff, sizeof (cast));
    memset (&sq, 0xff, sizeof (sq));
    ok (rc == 0, "two calls");
}

static void test_replay (const struct kernels *k)
{
    struct kernels taping = *k;
    float x[N], direct[N], replayed[N] = { 0 };
    double want, got = -1;
    struct kern_call call;

    kit_random (x, N, 1);
    call_twice (k, x, direct, &want);
    taping.tape = kern_tape_create (true, NULL);
    if (!taping.tape)
        bail_out ("tape");
    call_twice (&taping, x, replayed, &got);
    ok (got == -1 && replayed[0] == 0, "nothing has run");
    is_int (kern_tape_count (taping.tape), 2, "two calls are on the tape");
    call = kern_tape_get (taping.tape, 1);
    ok (call.op == KERN_SUM_SQ && ((const struct kern_sum_sq *)call.args)->out == &got,
        "the second with its arguments");
    ok (kern_tape_replay (taping.tape, k, NULL) == 0 && got == want
            && memcmp (direct, replayed, sizeof (direct)) == 0,
        "the replay has the same results");
    kit_random (x, N, 2);
    call_twice (k, x, direct, &want);
    ok (kern_tape_replay (taping.tape, k, NULL) == 0 && got == want
            && memcmp (direct, replayed, sizeof (direct)) == 0,
        "another replay works on what is there then");
    errno = 77;
    kern_tape_destroy (taping.tape);
    kern_tape_destroy (NULL);
    is_int (errno, 77, "destroy keeps errno");
}

/* More calls than a tape has room for at first. */
static void test_many (const struct kernels *k)
{
    enum { MANY = 1000 };
    struct kernels taping = *k;
    static float x[MANY];
    bool same = true;

    taping.tape = kern_tape_create (true, NULL);
    for (int i = 0; i < MANY; i++) {
        struct kern_fill fill = { .n = 1, .value = (float)i, .out = &x[i] };

        if (kern_fill (&taping, &fill, NULL, NULL) < 0)
            bail_out ("fill");
    }
    kern_tape_replay (taping.tape, k, NULL);
    for (int i = 0; i < MANY; i++)
        same &= x[i] == (float)i;
    ok (same && kern_tape_count (taping.tape) == MANY, "%d calls", MANY);
    kern_tape_destroy (taping.tape);
}

static void test_scratch (const struct kernels *k)
{
    struct kernels taping = *k;
    struct kern_col_sum sum = { .rows = 100, .cols = 10 };
    struct kern_fill fill = { .n = 5 };
    struct kern_call call = { KERN_COL_SUM, &sum, NULL };
    struct kern_gemm wrong = { .m = -1 };
    struct mg_error err = { "" };
    size_t want = 0, none = 1;

    ok (kern_scratch (k, &call, &want, NULL) == 0 && want > 0, "column sums take scratch");
    taping.tape = kern_tape_create (false, NULL);
    ok (kern_col_sum (&taping, &sum, NULL, NULL) == 0
            && kern_fill (&taping, &fill, NULL, NULL) == 0,
        "a tape that keeps nothing takes calls");
    is_int (kern_tape_scratch (taping.tape), want, "and knows the most that one of them takes");
    is_int (kern_tape_count (taping.tape), 2, "and how many there were");
    ok (kern_tape_replay (taping.tape, k, NULL) == 0, "there is nothing to replay");
    ok (kern_gemm (&taping, &wrong, NULL, &err) == -1 && strstr (err.text, "negative size"),
        "a wrong call is refused: %s", err.text);
    kern_tape_destroy (taping.tape);
    call = (struct kern_call){ KERN_FILL, &fill, NULL };
    ok (kern_scratch (k, &call, &none, NULL) == 0 && none == 0, "constants take none");
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
    test_replay (k);
    test_many (k);
    test_scratch (k);
    kernels_cpu_destroy (k);
    return done_testing ();
}
