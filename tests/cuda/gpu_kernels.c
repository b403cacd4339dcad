/* gpu_kernels.c - the cases of cases.h on a device: the same bits each time, and seconds
 *
 *     gpu-kernels [--small] repeat COUNT    TAP: each case COUNT times with the same operands
 *     gpu-kernels [--small] bench [SHARES]  lines of JSON: floors, then each case
 *
 * The floors are a copy inside of the device's memory and a square product of bfloat16.  The share
 * of a case is the time of its bytes or products at the floors' rates, whichever takes longer,
 * divided by its time.  SHARES is a file of "tests/cuda/report --shares", whose figures are printed
 * beside.
 * --small: operands of some KiB, for tests.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/cases.h"
#include "tests/cuda/place.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { MAX_OPERANDS = 24 };

static struct {
    char *p, *first; /* on the device; on the host: its bytes before the call */
    size_t size;
} operands[MAX_OPERANDS];
static int num_operands, rounds = 8;

static void must_run (enum kern_op op, const void *args)
{
    struct mg_error err = { "" };

    if (place_run (op, args, &err) < 0)
        bail_out ("%s: %s", kern_op_name (op), err.text);
}

static void *operand (size_t size)
{
    if (num_operands == MAX_OPERANDS)
        bail_out ("more than %d operands", MAX_OPERANDS);
    operands[num_operands].size = size;
    operands[num_operands].first = NULL;
    return operands[num_operands++].p = place_alloc (size, 0);
}

static void *make_numbers (size_t n, enum mg_dtype dtype, float value)
{
    void *made = operand (n * mg_dtype_size (dtype));

    if (dtype == MG_FLOAT64)
        return made;
    if (value == value)
        must_run (KERN_FILL, &(struct kern_fill){ .n = (int64_t)n, .value = value, .out = made,
                                                  .dtype = dtype });
    else
        must_run (KERN_FILL_NORMAL,
                  &(struct kern_fill_normal){ .rows = 1, .cols = (int64_t)n, .ld = (int64_t)n,
                                              .key = (uint64_t)num_operands, .std = 0.5,
                                              .out = made, .dtype = dtype });
    return made;
}

static void *make_bytes (size_t size, const void *from)
{
    void *made = operand (size), *zeros = NULL;

    if (!from)
        from = zeros = kit_alloc (size + 1, 1);
    place_write (made, from, size);
    free (zeros);
    return made;
}

static const struct cases_memory memory = { make_numbers, make_bytes };

static void free_operands (void)
{
    while (num_operands > 0) {
        free (operands[--num_operands].first);
        place_free (operands[num_operands].p);
    }
}

/* --- the same bits --- */

static uint64_t add_bytes (uint64_t sum, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i += sizeof (sum)) {
        uint64_t word = 0;

        memcpy (&word, bytes + i, size - i < sizeof (word) ? size - i : sizeof (word));
        sum = (sum ^ word) * UINT64_C (0x100000001b3);
        sum ^= sum >> 32;
    }
    return sum;
}

/* Run the case with its first operands.  Returns a checksum of all operands after the call. */
static uint64_t run_again (const struct cases_row *row, const struct cases_call *c, char *room)
{
    uint64_t sum = UINT64_C (0xcbf29ce484222325);

    for (int i = 0; i < num_operands; i++)
        place_write (operands[i].p, operands[i].first, operands[i].size);
    must_run (row->op, c->args);
    for (int i = 0; i < num_operands; i++) {
        place_read (room, operands[i].p, operands[i].size);
        sum = add_bytes (sum, room, operands[i].size);
    }
    return sum;
}

static void repeat (const struct cases_row *row, const struct cases_size *size, int count)
{
    struct cases_call c = { .size = size, .memory = &memory };
    size_t most = 0;
    uint64_t first = 0;
    int others = 0;
    char *room;

    cases_make (row, &c);
    for (int i = 0; i < num_operands; i++) {
        operands[i].first = kit_alloc (operands[i].size + 1, 1);
        place_read (operands[i].first, operands[i].p, operands[i].size);
        most = operands[i].size > most ? operands[i].size : most;
    }
    room = kit_alloc (most + 1, 1);
    for (int i = 0; i < count; i++) {
        uint64_t sum = run_again (row, &c, room);

        first = i == 0 ? sum : first;
        others += sum != first;
    }
    ok (others == 0, "%s: the same bits %d times", row->name, count);
    free (room);
    free_operands ();
}

/* --- seconds --- */

struct floors {
    double bytes, flops; /* a second */
};

/* A copy of half of the bytes that a large case has. */
static double copy_rate (const struct cases_size *size)
{
    struct kern_copy a = { .rows = size->rows, .heads = 1, .cols = size->cols,
                           .x_stride = size->cols, .y_stride = size->cols, .dtype = MG_FLOAT32 };
    size_t n = (size_t)(size->rows * size->cols);
    double seconds;

    a.x = make_numbers (n, MG_FLOAT32, 1);
    a.y = make_numbers (n, MG_FLOAT32, 2);
    seconds = place_time (KERN_COPY, &a, rounds);
    free_operands ();
    return 8 * (double)n / seconds;
}

static double product_rate (const struct cases_size *size)
{
    int64_t n = size == &cases_large ? 8192 : 64;
    struct kern_gemm g = { .trans_b = true, .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n,
                           .dtype = MG_BFLOAT16, .c_dtype = MG_BFLOAT16 };
    double seconds;

    g.a = make_numbers ((size_t)(n * n), MG_BFLOAT16, NAN);
    g.b = make_numbers ((size_t)(n * n), MG_BFLOAT16, NAN);
    g.c = make_numbers ((size_t)(n * n), MG_BFLOAT16, NAN);
    seconds = place_time (KERN_GEMM, &g, rounds);
    free_operands ();
    return 2 * (double)n * (double)n * (double)n / seconds;
}

/* The figure of a case in a file of shares, -1 if it has none. */
static double share_in (const char *path, const char *name)
{
    FILE *f = path ? fopen (path, "r") : NULL;
    double share = -1, figure;
    char line[80], word[40];

    if (path && !f)
        bail_out ("%s cannot be opened", path);
    while (f && fgets (line, sizeof (line), f))
        if (sscanf (line, "%39s %lf", word, &figure) == 2 && strcmp (word, name) == 0)
            share = figure;
    if (f)
        fclose (f);
    return share;
}

static void bench (const struct cases_row *row, const struct cases_size *size,
                   const struct floors *floors, const char *shares)
{
    struct cases_call c = { .size = size, .memory = &memory };
    double seconds, least, reported = share_in (shares, row->name);

    cases_make (row, &c);
    seconds = place_time (row->op, c.args, rounds);
    least = fmax (c.bytes / floors->bytes, c.flops / floors->flops);
    printf ("{\"kernel\": \"%s\", \"seconds\": %.3e, \"GB/s\": %.1f, \"TFLOP/s\": %.2f, "
            "\"share\": %.3f, \"report\": ",
            row->name, seconds, 1e-9 * c.bytes / seconds, 1e-12 * c.flops / seconds,
            least / seconds);
    if (reported < 0)
        printf ("null}\n");
    else
        printf ("%.3f}\n", reported);
    fflush (stdout);
    free_operands ();
}

static void bench_all (const struct cases_size *size, const char *shares)
{
    struct floors floors = { copy_rate (size), product_rate (size) };

    printf ("{\"floor\": \"copy\", \"GB/s\": %.1f}\n", 1e-9 * floors.bytes);
    printf ("{\"floor\": \"bf16 product\", \"TFLOP/s\": %.2f}\n", 1e-12 * floors.flops);
    for (size_t i = 0; i < cases_count; i++)
        bench (&cases[i], size, &floors, shares);
}

int main (int argc, char **argv)
{
    const struct cases_size *small = NULL;
    long count = 0;

    if (argc > 1 && strcmp (argv[1], "--small") == 0) {
        small = &cases_tiny;
        argc--;
        argv++;
    }
    if (argc == 3 && strcmp (argv[1], "repeat") == 0 && (count = atol (argv[2])) > 0) {
        place_open ((size_t)64 << 20);
        for (size_t i = 0; i < cases_count; i++)
            repeat (&cases[i], small ? small : &cases_middle, (int)count);
        place_close ();
        return done_testing ();
    }
    if ((argc == 2 || argc == 3) && strcmp (argv[1], "bench") == 0) {
        rounds = small ? 1 : rounds;
        place_open (small ? (size_t)64 << 20 : (size_t)4 << 30);
        bench_all (small ? small : &cases_large, argc == 3 ? argv[2] : NULL);
        place_close ();
        return 0;
    }
    fprintf (stderr, "usage: gpu-kernels [--small] repeat COUNT | bench [SHARES]\n");
    return 2;
}
