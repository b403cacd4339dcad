/* roster - the global tensors and the parts that they are stored in.
 *
 * Made on rank 0 from what all ranks say that they hold (to write a file), or from a
 * manifest (to read one).  Tensors are in the order in which they were first named.
 */
#ifndef LIBCORE_CHECKPOINT_ROSTER_H
#define LIBCORE_CHECKPOINT_ROSTER_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/checkpoint/box.h"
#include "libcore/tensor/piece.h"
#include "megatron/comm.h"

struct roster_part {
    struct box box;    /* inside the tensor, not empty */
    int rank;          /* who owns it, or wrote it */
    size_t index;      /* in that rank's array of pieces */
    int64_t offset;    /* in the shard file */
    uint64_t *sums;    /* checksums of its slabs, or NULL; the roster's */
    int64_t num_sums;
};

struct roster_tensor {
    char *name;
    enum mg_dtype dtype;
    int ndims;
    int64_t global[PIECE_MAX_DIMS];
    struct roster_part *parts;
    size_t num_parts, max_parts;
};

struct roster {
    struct roster_tensor *tensors;
    size_t num_tensors, max_tensors;
    size_t *slots; /* hash table: place in tensors + 1, or 0 */
    size_t num_slots;
};

/* An empty one; NULL and a text if out of memory. */
struct roster *roster_create (struct mg_error *err);
void roster_destroy (struct roster *roster);

/* The tensor of that name, or NULL. Good until the next tensor is added. */
struct roster_tensor *roster_find (const struct roster *roster, const char *name);

/* The tensor of that name, added if it is new; NULL with EINVAL and a text if it has been
 * given with another type or shape ('who' says by whom now).  Names are UTF-8.
 */
struct roster_tensor *roster_add (struct roster *roster, const char *name,
                                  enum mg_dtype dtype, int ndims, const int64_t *global,
                                  const char *who, struct mg_error *err);

/* Add a part (its sums become the roster's, on failure too). */
int roster_add_part (struct roster_tensor *tensor, const struct roster_part *part,
                     struct mg_error *err);

/* The whole tensor. */
struct box roster_whole (const struct roster_tensor *tensor);

/* Do the parts cover every tensor exactly once? Sorts the parts by place. -1 with EINVAL
 * and a text that names the tensor and what is wrong.
 */
int roster_check_cover (struct roster *roster, struct mg_error *err);

/* Every part, sorted by rank, then index: an array of *n to free. NULL: out of memory. */
struct roster_ref {
    const struct roster_tensor *tensor;
    struct roster_part *part;
};
struct roster_ref *roster_by_rank (const struct roster *roster, size_t *n,
                                   struct mg_error *err);

/* Add to a 'roster' the pieces that a rank has sent (an exchange_take_f): -1 with EPROTO if
 * the bytes are no such list, EINVAL if a piece makes no sense or contradicts another rank's.
 */
int roster_take (void *roster, int rank, const void *data, size_t len, struct mg_error *err);

/* Check the pieces, tell rank 0 of them, and check that the owned ones cover each tensor
 * exactly once. Collective; the result is agreed on. *out is set on rank 0 only.
 */
int roster_gather (const struct piece *pieces, size_t n, struct mg_comm *comm,
                   struct roster **out, struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_ROSTER_H */
