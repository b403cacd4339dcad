/* safetensors - the weight file format: u64 length, JSON header, raw little-endian data.
 *
 * Reading maps the file and checks every number in the header against it before use.
 */
#ifndef LIBCORE_CHECKPOINT_SAFETENSORS_H
#define LIBCORE_CHECKPOINT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/checkpoint/notes.h"
#include "libcore/tensor/piece.h"
#include "megatron/comm.h"

struct safetensors; /* an open file, read only */

struct safetensors_entry {
    const char *name;
    enum mg_dtype dtype;
    int ndims; /* 0 to 8 */
    int64_t shape[8];
    const void *data; /* in the mapping, possibly unaligned for its type */
    size_t size;      /* bytes */
};

/* Open and check. The text of a failure names the file and the field at fault. */
struct safetensors *safetensors_open (const char *path, struct mg_error *err);
void safetensors_close (struct safetensors *st);

const char *safetensors_path (const struct safetensors *st);
/* The metadata of the file, up to 1000 of them. */
const struct notes *safetensors_notes (const struct safetensors *st);
/* The number of entries, and entry i, in the order of their data in the file.  NULL for i
 * >= count. */
size_t safetensors_count (const struct safetensors *st);
const struct safetensors_entry *safetensors_at (const struct safetensors *st, size_t i);

/* Find an entry by name.  NULL with errno ENOENT if there is none, ENOTSUP if the tensor
 * has a data type other than F64 F32 BF16 F16 I64 I32 U8 or more than 8 dimensions;
 * safetensors_count() and safetensors_at() leave such tensors out.
 */
const struct safetensors_entry *safetensors_find (const struct safetensors *st,
                                                  const char *name);

/* The names of all tensors, also of those that safetensors_find() refuses, in the order of their
 * data; NULL for i >= count.
 */
size_t safetensors_count_names (const struct safetensors *st);
const char *safetensors_name_at (const struct safetensors *st, size_t i);

/* The type of any tensor as written in the file; NULL if there is no tensor of that name. */
const char *safetensors_type (const struct safetensors *st, const char *name);

/* Fill the pieces from the file, each by its name.  Shapes must equal the global shapes:
 * more or fewer rows than piece->global[0] are refused.  float32 pieces accept F32, F64,
 * BF16 and F16 data.  All missing names are reported at once: the first few names, and
 * their number.  Names in the file that no piece has are ignored.  Parts of a piece
 * outside the global tensor stay as they are.  Local, not collective.
 */
int safetensors_load (const struct safetensors *st, const struct piece *pieces, size_t n,
                      struct mg_error *err);

/* Convert 'n' elements of any alignment to float32.  The types F32, F64 (which is
 * rounded), BF16 and F16 can be converted.
 */
bool safetensors_can_widen (enum mg_dtype dtype);
void safetensors_widen (float *dst, const void *data, int64_t n, enum mg_dtype dtype);

/* Write whole tensors, gathered from the owned pieces of all ranks, into one file.
 * Tensors are in the order in which rank 0, then rank 1 ... first names them.  The file
 * is written under a temporary name in the same directory, fsynced and renamed.
 * Collective over 'comm'; only rank 0 writes the file.  Every rank gets the same result:
 * success, or the text of rank 0.
 */
int safetensors_save (const char *path, const struct piece *pieces, size_t n,
                      struct mg_comm *comm, struct mg_error *err);

/* The same with the notes of rank 0 as metadata.  NULL, or empty notes: without metadata. */
int safetensors_save_notes (const char *path, const struct notes *notes,
                            const struct piece *pieces, size_t n, struct mg_comm *comm,
                            struct mg_error *err);

/* The same, and *held is what leftover_hold_file() returns for the file before it has its final
 * name; -1 on failure and on the other ranks.  'held' may be NULL.
 */
int safetensors_save_held (const char *path, const struct notes *notes,
                           const struct piece *pieces, size_t n, int *held, struct mg_comm *comm,
                           struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_SAFETENSORS_H */
