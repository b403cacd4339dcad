/* npy - NumPy's files of one array, for the integers of indices.
 *
 *     byte 0   6 bytes   "\x93NUMPY"
 *     byte 6   u8, u8    version, 1.0 to 3.0
 *     byte 8   u16 (in version 1) or u32: length of the header that follows, a dict of
 *              Python, {'descr': '<i4', 'fortran_order': False, 'shape': (14, 2), }
 *     then the elements, the last index fastest
 *
 * (NumPy Enhancement Proposal 1, and numpy/lib/format.py.)  Only this machine's byte
 * order is read and written.
 */
#ifndef LIBCORE_DATA_NPY_H
#define LIBCORE_DATA_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

enum npy_type { NPY_INT16, NPY_INT32, NPY_UINT32, NPY_INT64, NPY_NUM_TYPES };

enum { NPY_MAX_DIMS = 2 };

/* An array of one or two dimensions; shape[1] is 1 if there is one. */
struct npy_array {
    enum npy_type type;
    int dims;
    int64_t shape[NPY_MAX_DIMS];
    const void *data;
};

/* A mapped file.  A struct of zeros is no file. */
struct npy {
    struct npy_array array; /* its data may be unaligned, see npy_open */
    char *path;
    void *map;
    size_t map_size;
    size_t mark; /* place of the last byte that is not 0 */
};

/* Bytes of an element. */
size_t npy_size (enum npy_type type);

/* Map a file and check all of its header against its size.  0, or -1 with errno of open,
 * EINVAL (the text names file, field, value and what is allowed; EINVAL also if the
 * elements do not begin at a multiple of their size), or ENOMEM.  After a failure '*npy'
 * is all zeros. */
int npy_open (const char *path, struct npy *npy, struct mg_error *err);

/* Fail with EIO if the file has become shorter within its last page since it was opened;
 * the missing bytes of that page are read as zeros.  Missing whole pages raise SIGBUS.  A
 * struct of zeros is allowed. */
int npy_check (const struct npy *npy, struct mg_error *err);

/* Unmap; all zero is allowed; errno is kept. */
void npy_close (struct npy *npy);

/* Write a file under another name in the same directory, flush it to disk, then rename
 * it.  So a reader finds no file, the older one, or the whole new one. Errors: those of
 * open and write, ENOMEM. */
int npy_write (const char *path, const struct npy_array *array, struct mg_error *err);

#endif /* LIBCORE_DATA_NPY_H */
