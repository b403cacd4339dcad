/* kit - what the tests of the kernels share.
 *
 * A variant is one way to run the same table: a compilation that this machine can run, a
 * number of threads, and who multiplies matrices.  Failing to set up ends the test.
 */
#ifndef TESTS_UNIT_KERNELS_KIT_H
#define TESTS_UNIT_KERNELS_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "tests/unit/kernels/kit_device.h"

struct kit_variant {
    char name[40]; /* "v4, 2 threads, library" */
    int threads;
    bool library;
    struct kernels *k;
    struct kit_device *device; /* whose kernels these are; NULL: the CPU's alone */
};

enum { KIT_VARIANTS = 16 };

struct kit {
    struct kit_variant variants[KIT_VARIANTS];
    size_t count;
    bool library_rounds; /* set by a test: with the library, rounding may depend on threads */
};

/* Every compilation with 1 and 3 threads, and the best with a library with 1 and 2, as users
 * have it and for all types.  With MG_TEST_DEVICE, the kernels of that device instead, with 1 and 3
 * threads.
 */
void kit_open (struct kit *kit);

/* One variant: the best compilation as users have it, or MG_TEST_DEVICE. */
void kit_open_one (struct kit *kit, int threads);

/* A program that links kernels of its own defines this function.  Then these kernels are the one
 * variant, with operands in memory of the host, and MG_TEST_DEVICE is not read.
 */
struct kernels *kit_linked_kernels (void) __attribute__ ((weak));

/* For tests of what only the CPU's kernels have, which leave MG_TEST_DEVICE alone. */
void kit_open_cpu (struct kit *kit);
void kit_close (struct kit *kit);

/* True if this run tests case 'i' of a list.  The sanitizers make tests slow: with them, the gate
 * tests a third of the cases, which MG_SEED chooses.
 */
bool kit_takes (size_t i);

/* device_enter() and device_leave() for the kernels of a variant. */
void kit_enter (struct kernels *k);
void kit_leave (struct kernels *k);

/* An array whose first element is 'offset' floats behind a 64-byte boundary, with marked
 * elements before and behind.
 */
struct kit_array {
    float *x;
    size_t n;
    float *base;
};

struct kit_array kit_array (size_t n, size_t offset);

/* Free it; true if the marks are whole. */
bool kit_array_free (struct kit_array *a);

/* Uniform in [-1, 1), a function of the seed. */
void kit_random (float *x, size_t n, uint64_t seed);

/* Largest |got - want| / (1 + |want|); infinity if a NaN stands on one side only. */
double kit_error (const float *got, const double *want, size_t n);

/* The error of a float that is what a double should be, in units of its last place. */
double kit_ulps (float got, double want);

/* Run an op, whose outputs all lie in 'out', which is NaN before; 0 or -1. */
typedef int kit_run_f (const struct kernels *k, const void *arg, float *out);

/* One check for every variant: 'run' succeeds, its 'n' outputs are within 'tol' of 'want'
 * (kit_error), are the same bits for any number of threads and any alignment (but see
 * library_rounds), and nothing is written outside of them.  The rest names the check.
 */
void kit_check (const struct kit *kit, kit_run_f *run, const void *arg, size_t n,
                const double *want, double tol, const char *fmt, ...)
    __attribute__ ((format (printf, 7, 8)));

/* (f (x + h) - f (x - h)) / 2h by x[i], for a function of everything behind 'arg'. */
double kit_slope (double (*f) (const void *arg), const void *arg, float *x);

/* Calls of the smaller ops without a stream: 0 or -1. */
int kit_cast (const struct kernels *k, int64_t n, const void *x, enum mg_dtype from, void *y,
              enum mg_dtype to);
int kit_cast_scaled (const struct kernels *k, int64_t n, float scale, const void *x,
                     enum mg_dtype from, void *y, enum mg_dtype to);
int kit_fill (const struct kernels *k, int64_t n, float value, void *out, enum mg_dtype dtype);
int kit_col_sum (const struct kernels *k, int64_t rows, int64_t cols, const void *x,
                 enum mg_dtype dtype, void *out, enum mg_dtype grad_dtype);
int kit_sum_sq (const struct kernels *k, int64_t n, const void *x, enum mg_dtype dtype,
                double *out);
int kit_max_abs (const struct kernels *k, int64_t n, const void *x, enum mg_dtype dtype,
                 float *out);
int kit_count_zeros (const struct kernels *k, int64_t n, const void *x, enum mg_dtype dtype,
                     double *out);
int kit_state_load (const struct kernels *k, int64_t n, const struct kern_state *state,
                    void *out, enum mg_dtype dtype);
int kit_state_store (const struct kernels *k, int64_t n, const void *in, enum mg_dtype dtype,
                     const struct kern_state *state);

/* calloc() or end the test: memory for operands. */
void *kit_alloc (size_t n, size_t size);

#endif /* TESTS_UNIT_KERNELS_KIT_H */
