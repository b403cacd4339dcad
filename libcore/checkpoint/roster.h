/* roster - the global tensors, and the parts in which they are stored.
 *
 * To write a file, rank 0 makes the roster from the pieces of all ranks.  To read a file,
 * the roster is made from a manifest.  Tensors are in the order in which they were first
 * named.
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
    int rank;          /* the rank that owns or wrote the part */
    size_t index;      /* number in the array of pieces of this rank */
    int64_t offset;    /* in the shard file */
    uint64_t *sums;    /* checksums of its slabs, or NULL; the roster owns them */
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
    size_t *slots; /* hash table: number in tensors + 1, or 0 */
    size_t num_slots;
};

/* Make an empty roster.  NULL and a text if out of memory. */
struct roster *roster_create (struct mg_error *err);
void roster_destroy (struct roster *roster);

/* Returns the tensor of a name, or NULL.  Valid until the next tensor is added. */
struct roster_tensor *roster_find (const struct roster *roster, const char *name);

/* Returns the tensor of a name, which is added if it is new.  NULL with EINVAL and a text
 * if the tensor has another type or shape; the text names 'who' as the source of the new
 * one.  Names are UTF-8.
 */
struct roster_tensor *roster_add (struct roster *roster, const char *name,
                                  enum mg_dtype dtype, int ndims, const int64_t *global,
                                  const char *who, struct mg_error *err);

/* Add a part.  The roster owns the part's sums from the call on, also if the call fails. */
int roster_add_part (struct roster_tensor *tensor, const struct roster_part *part,
                     struct mg_error *err);

/* Returns the box of the whole tensor. */
struct box roster_whole (const struct roster_tensor *tensor);

/* Check that the parts cover every tensor exactly once.  Sorts the parts by place.  -1
 * with EINVAL and a text that names the tensor and the fault.
 */
int roster_check_cover (struct roster *roster, struct mg_error *err);

/* Returns every part, sorted by rank, then index, in an array of *n that the caller
 * frees.  NULL if out of memory. */
struct roster_ref {
    const struct roster_tensor *tensor;
    struct roster_part *part;
};
struct roster_ref *roster_by_rank (const struct roster *roster, size_t *n,
                                   struct mg_error *err);

/* Add to a 'roster' the pieces that a rank has sent (an exchange_take_f): -1 with EPROTO
 * if the bytes are no list of pieces, EINVAL if a piece is wrong or contradicts a piece
 * of another rank.
 */
int roster_receive (void *roster, int rank, const void *data, size_t len, struct mg_error *err);

/* Check the pieces, send their descriptions to rank 0, and check that the owned pieces
 * cover each tensor exactly once.  Collective; all ranks get the same result. *out is set
 * on rank 0 only.
 */
int roster_gather (const struct piece *pieces, size_t n, struct mg_comm *comm,
                   struct roster **out, struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_ROSTER_H */
