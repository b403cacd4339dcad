/* kernels - what the files of the kernels' benchmark share */
#ifndef BENCH_KERNELS_H
#define BENCH_KERNELS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/kernels.h"

struct bench {
    struct kernels *k;
    int threads;
    double seconds;
    float *a, *b, *c, *d; /* 'n' elements each */
    int64_t n;
};

static inline double now (void)
{
    struct timespec ts;

    clock_gettime (CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static inline void die (const char *text)
{
    fprintf (stderr, "bench: %s\n", text);
    exit (1);
}

/* Best time of a call. */
static inline double best_of (int (*call) (struct bench *, const void *), struct bench *bench,
                       const void *what)
{
    double best = INFINITY, begin = now ();

    for (int i = 0; i < 5 || (now () - begin < bench->seconds); i++) {
        double t = now ();

        if (call (bench, what) < 0)
            die ("a kernel failed");
        t = now () - t;
        best = t < best ? t : best;
    }
    return best;
}

/* GFLOP/s of a product. */
double gemm_rate (struct bench *b, const struct kern_gemm *g);

/* GFLOP/s of the fastest square product of a type. */
double square_rate (struct bench *b, enum mg_dtype dtype);

/* Fill the operands a and b of a product with numbers of its type.  Bits that are no usual numbers
 * may be slow.
 */
void bench_fill (struct bench *b, enum mg_dtype dtype);

/* Routers, rows and products of mixture-of-experts layers. */
void bench_moe (struct bench *b);
void bench_layers (struct bench *b);

#endif /* BENCH_KERNELS_H */
