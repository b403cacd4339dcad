/* layout - the place of every parameter and its gradient in contiguous buffers.  A layout
 * is computed once.  Gradient reduction, optimizer and checkpoint read it.  A layout does
 * not allocate the memory of the buffers.  The rules are those of Megatron-LM's
 * DistributedDataParallel and DistributedOptimizer (core/distributed,
 * core/optimizer/param_layout.py):
 *
 * - A buffer holds the parameters of one model chunk that have the same storage type, the
 *   same gradient type, and are all dense or all expert.
 * - The parameters of a buffer are in reverse registration order, since gradients become ready
 *   from the last layer to the first.
 * - A bucket, the unit of communication, closes after the parameter that takes it to the
 *   bucket size.
 * - With a sharded optimizer (ZeRO-1, Rajbhandari et al. 2020) a parameter starts at a
 *   multiple of 64 elements, a bucket ends at a multiple of lcm (ranks, 128), a shared
 *   embedding is alone in its bucket, and rank r owns the r-th of the equal contiguous
 *   shards of every bucket, even if a shard ends inside a parameter.  Without a sharded
 *   optimizer there is no padding.
 */
#ifndef LIBCORE_OPTIM_LAYOUT_H
#define LIBCORE_OPTIM_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "megatron/dtype.h"
#include "megatron/error.h"

/* The properties of a parameter that the layout depends on. */
struct layout_param {
    int64_t numel;
    enum mg_dtype logical; /* the type that computations use */
    enum mg_dtype storage; /* the type in the buffer: MG_UINT8 for fp8, else the same */
    bool expert;           /* the gradient is reduced over the expert-data-parallel group */
    bool shared_embedding; /* needs a bucket of its own */
    int chunk;             /* model chunk of the rank, from 0, in ascending order */
};

enum { LAYOUT_ONE_BUCKET = -1 }; /* a bucket size */

struct layout_config {
    bool sharded;         /* distributed optimizer */
    bool high_busbw;      /* buckets also end at multiples of 2^16 */
    bool grad_float32;    /* gradients are float32, else of the parameters' logical type */
    int64_t bucket_size;  /* elements of a bucket of the first chunk; other chunks have
                           * one bucket */
    bool one_group;       /* all buckets of the first chunk form one group, as those of
                           * other chunks do */
    int shards[2];        /* number of ranks that share dense parameters, and expert
                             parameters; with a sharded optimizer each of these ranks owns
                             one shard of a bucket */
};

/* A parameter's elements [start, end) of the buffer, and its bucket. */
struct layout_entry {
    size_t param; /* index in the list that the layout was made of */
    int64_t start, end;
    int bucket; /* number of the bucket in its buffer */
};

struct layout_bucket {
    int64_t start, end; /* in the buffer, padding included */
    int64_t unpadded;   /* elements up to the end of the last parameter; before a shared
                           embedding, up to the place where the next parameter would
                           start */
    size_t first, num_entries; /* the bucket's part of the buffer's entries */
};

struct layout_buffer {
    enum mg_dtype param_dtype, grad_dtype;
    bool expert;
    int chunk;
    int shards;                 /* as in the configuration */
    struct layout_entry *entry; /* reverse registration order */
    size_t *index; /* [num_entries] for the buffer's parameters in registration order: the
                      number of each among all parameters of the same logical and gradient
                      types, whatever their storage type is */
    size_t num_entries;
    struct layout_bucket *bucket;
    int num_buckets;
    int64_t numel, unpadded; /* of all buckets */
};

/* Buckets that communicate together. */
struct layout_member {
    int buffer, bucket;
};
struct layout_group {
    struct layout_member *member; /* into layout->member */
    int num_members;
    bool expert;
    int chunk;
};

struct layout {
    bool sharded;
    struct layout_buffer *buffer; /* by chunk; dense ones first, then by first parameter */
    int num_buffers;
    struct layout_group *group; /* by chunk; dense ones first */
    int num_groups;
    struct layout_member *member;
};

/* Elements [world[0], world[1]) of a buffer, as ranges of other things. */
struct layout_ranges {
    int64_t world[2];  /* in the buffer */
    int64_t bucket[2]; /* in the bucket */
    int64_t local[2];  /* in the rank's shard of the bucket */
    int64_t param[2];  /* in the parameter */
};

/* Bucket size by Megatron-LM's rules. */
struct layout_bucket_rule {
    int64_t bucket_size; /* elements that the user has given, 0: none */
    int64_t num_buckets; /* number that the user has given, 0: none; counts before
                          * bucket_size */
    int64_t num_params;  /* elements of all parameters of the rank */
    int dp;              /* size of the dp-cp group */
    bool overlap;        /* reduction overlaps the backward pass; without overlap one
                          * bucket is enough */
    int pp_rank;         /* stages after the first are not on the critical path, and have
                          * one bucket */
    bool disabled;
};

/* Returns the elements of a bucket, or LAYOUT_ONE_BUCKET.  *resolved is the size without
 * regard to pp_rank and 'disabled'; 'resolved' may be NULL.
 */
int64_t layout_bucket_size (const struct layout_bucket_rule *rule, int64_t *resolved);

/* Returns the factor of gradients before they are summed, or with 'average' averaged,
 * over edp ranks if 'expert', else over dp ranks.  With this factor the result is the
 * mean over dp ranks, or the sum with 'per_token'.
 */
double layout_grad_scale (bool per_token, bool average, bool expert, int dp, int edp);

/* Lay out n parameters.  NULL and a text on failure: EINVAL if a number is out of range,
 * EOVERFLOW if sizes exceed int64_t, ENOMEM.
 */
struct layout *layout_create (const struct layout_config *config,
                              const struct layout_param *params, size_t n,
                              struct mg_error *err);
void layout_destroy (struct layout *layout);

/* The number of elements that one rank owns of a bucket, and of all buckets of a buffer.
 * A layout that is not sharded has one shard with all elements.
 */
int64_t layout_shard (const struct layout *layout, const struct layout_buffer *buffer,
                      int bucket);
int64_t layout_shard_total (const struct layout *layout, const struct layout_buffer *buffer);

/* Find the part of an entry that 'rank' owns.  False if 'rank' owns no part; *out then
 * stays. */
bool layout_ranges (const struct layout *layout, const struct layout_buffer *buffer,
                    const struct layout_entry *entry, int rank, struct layout_ranges *out);

#endif /* LIBCORE_OPTIM_LAYOUT_H */
