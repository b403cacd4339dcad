/* npz - read the arrays of a numpy .npz file: a ZIP archive of .npy files, stored without
 * compression (numpy.savez), little endian, C order.
 */
#ifndef TESTS_LIB_NPZ_H
#define TESTS_LIB_NPZ_H

#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

enum { NPZ_MAX_DIMS = 8 };

struct npz_array {
    char *name;      /* without ".npy" */
    char type;       /* 'f', 'i' or 'u' */
    int size;        /* bytes of an element */
    int ndim;
    int64_t shape[NPZ_MAX_DIMS];
    size_t count;    /* elements: the product of the shape */
    const void *data; /* in the file's image, not aligned */
};

struct npz;

/* Read the whole file. NULL and a text on failure; every length in it is checked. */
struct npz *npz_open (const char *path, struct mg_error *err);
void npz_close (struct npz *npz);

/* The array of a name; NULL if there is none. */
const struct npz_array *npz_find (const struct npz *npz, const char *name);

/* Arrays whose names begin with 'prefix'. */
size_t npz_count (const struct npz *npz, const char *prefix);

/* The elements of an array as double or float, calloc()ed for the caller. NULL and a text
 * if there is no such array or its type is not one of f4, f8, i4, i8, u1.
 */
double *npz_doubles (const struct npz *npz, const char *name, size_t *count,
                     struct mg_error *err);
float *npz_floats (const struct npz *npz, const char *name, size_t *count,
                   struct mg_error *err);

#endif /* TESTS_LIB_NPZ_H */
