/* npy.c - NumPy's files: an array that is read is inside the file, and what is written of it
 * is read as the same
 *
 * Input: the file.
 */

#include <stdlib.h>
#include <string.h>

#include "libcore/data/npy.h"
#include "tests/fuzz/fuzz.h"

static void run (const uint8_t *data, size_t size)
{
    const char *path = fuzz_file ("a.npy", (struct fuzz_input){ data, size });
    struct npy npy, again;
    size_t bytes;

    if (npy_open (path, &npy, NULL) < 0) {
        fuzz_check (!npy.path && !npy.map, "a failure leaves something");
        return;
    }
    fuzz_check (npy.array.dims >= 1 && npy.array.dims <= NPY_MAX_DIMS, "dimensions");
    fuzz_check (npy.array.shape[0] >= 0 && npy.array.shape[1] >= 0, "a shape below 0");
    bytes = (size_t)(npy.array.shape[0] * npy.array.shape[1]) * npy_size (npy.array.type);
    fuzz_check (bytes <= size, "more elements than bytes");
    fuzz_check (npy_write (fuzz_path ("b.npy"), &npy.array, NULL) == 0, "not written");
    fuzz_check (npy_open (fuzz_path ("b.npy"), &again, NULL) == 0, "not read again");
    fuzz_check (again.array.type == npy.array.type && again.array.dims == npy.array.dims
                    && again.array.shape[0] == npy.array.shape[0]
                    && again.array.shape[1] == npy.array.shape[1]
                    && (bytes == 0 || memcmp (again.array.data, npy.array.data, bytes) == 0),
                "another array");
    npy_close (&again);
    npy_close (&npy);
}

const struct fuzz_target fuzz_npy = { "npy", run };
