/* cuda - what the files of the CUDA backend share: the functions of its table (contracts in
 * kernels.h), scratch memory, launches.
 *
 * The basenames of the .cu files are those of kernels/cpu/.  A function of the table enqueues its
 * kernels on the stream of the call and returns; it neither allocates nor waits.
 */
#ifndef KERNELS_CUDA_CUDA_H
#define KERNELS_CUDA_CUDA_H

#include <stddef.h>

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* What a device can do: its compute capability, 10 major + minor, and the bytes of shared memory
 * that a block may ask for.
 */
struct cuda_limits {
    int capability;
    size_t shared;
};

/* Those of the current device.  -1 and a text on failure. */
int cuda_limits_of (struct cuda_limits *limits, struct mg_error *err);

/* Where a call runs.  'scratch' has as many bytes as the op's scratch function returns, and is
 * aligned to 256; the next call on the stream may overwrite it.  NULL: the op needs none.
 */
struct cuda_call {
    struct CUstream_st *stream;
    void *scratch;
    struct cuda_limits limits; // of the stream's device
};

/* The ops that have kernels: those that need no scratch memory, and those that need some.
 * OP (ENUM, name) as in KERN_OPS, in that order.
 */
#define CUDA_PLAIN_OPS(OP)                          \
    OP (NORM_FWD, norm_fwd)                         \
    OP (BIAS_DROPOUT_ADD_FWD, bias_dropout_add_fwd) \
    OP (ACT_FWD, act_fwd)                           \
    OP (ACT_BWD, act_bwd)                           \
    OP (ROPE, rope)                                 \
    OP (COPY, copy)                                 \
    OP (ATTENTION_FWD, attention_fwd)               \
    OP (ATTENTION_MERGE, attention_merge)           \
    OP (EMBEDDING_FWD, embedding_fwd)               \
    OP (POSITION_FWD, position_fwd)                 \
    OP (XENT_MAX, xent_max)                         \
    OP (XENT_SUM, xent_sum)                         \
    OP (XENT_LOSS, xent_loss)                       \
    OP (XENT_BWD, xent_bwd)                         \
    OP (ADAMW, adamw)                               \
    OP (STATE_LOAD, state_load)                     \
    OP (STATE_STORE, state_store)                   \
    OP (FILL_NORMAL, fill_normal)                   \
    OP (FILL, fill)                                 \
    OP (CAST, cast)                                 \
    OP (GEMM_DOUBLE, gemm_double)                   \
    OP (ROUTER_LOSS, router_loss)                   \
    OP (ROUTER_BETA, router_beta)                   \
    OP (ROUTER_BIAS, router_bias)                   \
    OP (ROUTER_RANDOM, router_random)               \
    OP (JITTER, jitter)                             \
    OP (ROW_GATHER, row_gather)                     \
    OP (ROW_COMBINE, row_combine)                   \
    OP (ROW_DOT, row_dot)                           \
    OP (EXPERT_GEMM, expert_gemm)                   \
    OP (EXPERT_BIAS_FWD, expert_bias_fwd)           \
    OP (EXPERT_BIAS_BWD, expert_bias_bwd)           \
    OP (EXPERT_ACT_FWD, expert_act_fwd)             \
    OP (EXPERT_ACT_BWD, expert_act_bwd)

#define CUDA_SCRATCH_OPS(OP)                        \
    OP (NORM_BWD, norm_bwd)                         \
    OP (BIAS_DROPOUT_ADD_BWD, bias_dropout_add_bwd) \
    OP (ATTENTION_BWD, attention_bwd)               \
    OP (EMBEDDING_BWD, embedding_bwd)               \
    OP (POSITION_BWD, position_bwd)                 \
    OP (ADAMW_LARGEST, adamw_largest)               \
    OP (COL_SUM, col_sum)                           \
    OP (SUM_SQ, sum_sq)                             \
    OP (MAX_ABS, max_abs)                           \
    OP (COUNT_ZEROS, count_zeros)                   \
    OP (ROUTER_FWD, router_fwd)                     \
    OP (ROUTER_BWD, router_bwd)                     \
    OP (ROUTER_SUMS, router_sums)                   \
    OP (ROUTER_LOSS_BWD, router_loss_bwd)           \
    OP (ROUTER_SINKHORN, router_sinkhorn)           \
    OP (ROUTER_QUANTILE, router_quantile)           \
    OP (ROUTER_CAPACITY, router_capacity)           \
    OP (EXPERT_SORT, expert_sort)                   \
    OP (EXPERT_CHUNKS, expert_chunks)

#define CUDA_OPS(OP) CUDA_PLAIN_OPS (OP) CUDA_SCRATCH_OPS (OP)

#define CUDA_RUN(OP, op) \
    int cuda_##op (const struct cuda_call *, const struct kern_##op *, struct mg_error *);
CUDA_OPS (CUDA_RUN)
#undef CUDA_RUN

/* Bytes of scratch memory that a call needs (scratch.c).  They depend on sizes and types alone.
 * Plain C: a plan needs no CUDA.
 */
#define CUDA_SCRATCH(OP, op) size_t cuda_##op##_scratch (const struct kern_##op *);
CUDA_SCRATCH_OPS (CUDA_SCRATCH)
#undef CUDA_SCRATCH

/* gemm is cuBLASLt's (product.h).  Its scratch memory is cuBLASLt's workspace, then float32 sums if
 * the result is narrowed, then a float32 bias.
 */
enum { CUDA_GEMM_WORKSPACE = 32 << 20 };
size_t cuda_gemm_scratch (const struct kern_gemm *a);

/* True if the product is formed in float32 scratch memory and then rounded. */
static inline bool cuda_gemm_is_narrowed (const struct kern_gemm *a)
{
    return a->c_dtype != MG_FLOAT32 && a->c_dtype != a->dtype;
}

/* Elements of float32 so that what follows is aligned to 256 bytes. */
static inline int64_t cuda_gemm_padded (int64_t n)
{
    return (n + 63) / 64 * 64;
}

/* Put a kernel on the list of those that cuda_load_kernels() loads.  Only before main() or while
 * the module is loaded.  Returns true.
 */
bool cuda_list_kernel (const void *kernel);

/* Load all listed kernels on the current device.  -1 and a text on failure. */
int cuda_load_kernels (struct mg_error *err);

/* The table of a CUDA device that is only planned. */
extern const struct kern_ops kern_cuda_plan_ops;

/* Rows of a norm whose column sums one block forms; rows that one thread sums for col_sum; parts of
 * an array that are summed by themselves, at most.
 */
enum { CUDA_NORM_GROUP = 32, CUDA_COL_GROUP = 64, CUDA_PARTS = 1024 };

/* Keys that are sorted for 'tokens' tokens or choices: a power of two, at least CUDA_SORT_MIN. */
enum { CUDA_SORT_MIN = 2048 };
static inline int64_t cuda_sort_count (int64_t tokens)
{
    int64_t count = CUDA_SORT_MIN;

    while (count < tokens)
        count *= 2;
    return count;
}

/* Parts of an array in scratch memory begin at multiples of 256 bytes: the bytes of n elements.  A
 * negative n, which the op refuses later, has no bytes.
 */
static inline size_t cuda_part_bytes (int64_t n, size_t size)
{
    return n > 0 ? ((size_t)n * size + 255) / 256 * 256 : 0;
}

/* The smallest power of two that is n or more. */
static inline int64_t cuda_power_of_two (int64_t n)
{
    int64_t power = 1;

    while (power < n)
        power *= 2;
    return power;
}

/* What a block of a router's kernel needs for a token: memory for the order of 'experts' values,
 * which are in 'groups' (router.h).  Up to CUDA_ROUTER_SHARED bytes lie in shared memory.  More lie
 * in scratch memory, and then CUDA_ROUTER_BLOCKS blocks run at most.
 */
enum { CUDA_ROUTER_SHARED = 48 << 10, CUDA_ROUTER_BLOCKS = 128 };

static inline size_t cuda_order_bytes (int64_t experts, int64_t groups)
{
    return cuda_part_bytes (experts, sizeof (uint64_t))
           + cuda_part_bytes (cuda_power_of_two (experts), sizeof (int32_t))
           + cuda_part_bytes (groups, sizeof (uint64_t));
}

static inline size_t cuda_token_scratch (int64_t tokens, size_t bytes)
{
    int64_t blocks = CUDA_ROUTER_BLOCKS;

    if (bytes <= CUDA_ROUTER_SHARED || tokens <= 0)
        return 0;
    return (size_t)(tokens < blocks ? tokens : blocks) * bytes;
}

/* Groups of rows whose columns are summed by themselves in float64, and rows of a group. */
enum { CUDA_ROUTER_GROUPS = 64, CUDA_ROUTER_GROUP = 64 };

static inline int64_t cuda_router_group (int64_t rows)
{
    int64_t least = CUDA_ROUTER_GROUP, group = (rows + CUDA_ROUTER_GROUPS - 1) / CUDA_ROUTER_GROUPS;

    return group < least ? least : group;
}

static inline int64_t cuda_router_groups (int64_t rows)
{
    int64_t group = cuda_router_group (rows);

    return (rows + group - 1) / group;
}

static inline int64_t cuda_col_groups (int64_t rows)
{
    return (rows + CUDA_COL_GROUP - 1) / CUDA_COL_GROUP;
}

#ifdef __cplusplus
}
#endif

#endif /* KERNELS_CUDA_CUDA_H */
