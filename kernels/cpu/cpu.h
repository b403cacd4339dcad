/* cpu - what the files of the CPU backend share: its state, the functions of its table
 * (contracts in kernels.h), helpers.
 */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#ifdef _OPENMP
#include <omp.h>
#endif

#include "kernels/cpu/isa.h"
#include "kernels/kernels.h"

/* The k of products that are made ready for any k. */
enum { CPU_ANY_DEPTH = -1 };

/* A library that multiplies matrices. Without one, and for what it cannot do, there is
 * cpu_gemm_ref().
 */
struct cpu_gemm {
    const char *name;
    /* 'emulate': take 16-bit types that the processor does not multiply, too, however slow.
     * NULL and a text on failure.
     */
    void *(*create) (int threads, bool emulate, struct mg_error *err);
    void (*destroy) (void *impl);
    /* One product, sizes at least 1, with scratch from cpu_scratch (k).  -1 with errno ENOTSUP
     * and no text: not for me.
     */
    int (*run) (void *impl, const struct kernels *k, const struct kern_gemm *a,
                struct mg_error *err);
    /* Make ready what run() keeps for a product of these sizes, and tell how much scratch it
     * takes. Fails as run() does.
     */
    int (*plan) (void *impl, const struct kern_gemm *a, size_t *scratch,
                 struct mg_error *err);

    /* Products that a single thread computes, while other threads compute other products.
     * The caller has set the number of OpenMP threads to 1 (cpu_set_threads()).
     *
     * block(): make ready, and keep, products of these sizes and types; k may be CPU_ANY_DEPTH.
     * *scratch = the bytes that each takes.  NULL with errno ENOTSUP and no text: not for me.
     * run_block(): such a product, without a bias, -1 if it fails; 'thread' is the number of the
     * thread.  single(): a product of float32 of any sizes, without a bias and with nothing to make
     * ready; -1 if it fails.
     */
    const void *(*block) (void *impl, const struct kern_gemm *a, size_t *scratch,
                          struct mg_error *err);
    int (*run_block) (void *impl, const void *block, int thread, void *scratch,
                      const struct kern_gemm *a);
    int (*single) (const struct kern_gemm *a);
};

extern const struct cpu_gemm cpu_gemm_onednn;

/* One compilation of the table. */
struct cpu_isa {
    const char *name;
    bool (*usable) (void); /* may run on this machine */
    const struct kern_ops *ops;
};

/* What kernels->impl points to. */
struct cpu {
    int threads;
    const struct cpu_isa *isa;
    const struct cpu_gemm *gemm; /* NULL: none */
    void *gemm_impl;
    struct cpu_scratch {
        const struct mg_stream *stream;
        void *memory;
        size_t size;
    } own, given[KERN_SCRATCH_STREAMS]; /* see cpu_scratch(); the latter are the callers' */
    int num_given;
    const struct mg_stream *stream; /* of the call, if some was given */
    int entered;  /* kernels_cpu_enter() without its leave */
    uint64_t *modes; /* [threads] the earlier modes of the threads */
};

/* Compilation 'i', the best first, whether usable or not; NULL from the last on. */
const struct cpu_isa *cpu_isa_get (size_t i);

/* The code that multiplies matrices: our own loops; a library for products that it computes fast on
 * this machine, else our loops; a library for all types that it knows.
 */
enum cpu_library { CPU_NO_LIBRARY, CPU_LIBRARY, CPU_LIBRARY_ALWAYS };

/* kernels_cpu_create(), which is with CPU_LIBRARY, with a certain compilation: for tests, so
 * that every machine runs what others would.
 */
struct kernels *cpu_create (int threads, const struct cpu_isa *isa, enum cpu_library library,
                            struct mg_error *err);

/* At least 'size' bytes, aligned to 64, for the call that asks: the next call of any op on its
 * stream may overwrite or move them.  Allocates only if no scratch was given for the stream and
 * 'size' is the largest so far.  NULL and a text on failure.
 */
void *cpu_scratch (const struct kernels *k, size_t size, struct mg_error *err);

/* Scratch of a product by our own loops. */
size_t cpu_gemm_ref_scratch (const struct kernels *, const struct kern_gemm *);

/* Number of this thread in a parallel region, from 0. */
static inline int cpu_thread (void)
{
#ifdef _OPENMP
    return omp_get_thread_num ();
#else
    return 0;
#endif
}

/* Set the calling thread's number of OpenMP threads, and return what it was. */
static inline int cpu_set_threads (int now)
{
    int before = 1;

#ifdef _OPENMP
    before = omp_get_max_threads ();
    if (before != now)
        omp_set_num_threads (now);
#else
    (void)now;
#endif
    return before;
}

static inline struct cpu *cpu_of (const struct kernels *k)
{
    return k->impl;
}

static inline int64_t cpu_min (int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Bytes of an element of float32, bfloat16, float16, float8. */
static inline size_t cpu_size (enum mg_dtype dtype)
{
    return dtype == MG_FLOAT32 ? 4 : dtype == MG_FLOAT8_E4M3 ? 1 : 2;
}

/* Position of row 's' of batch entry 'b'. */
static inline int64_t cpu_position (const struct kern_positions *p, int64_t s, int64_t b)
{
    return p->at ? p->at[s * p->stride_s + b * p->stride_b] : s;
}

/* Loops over fewer elements than this run on one thread: waking others costs more. */
enum { CPU_SERIAL = 16384 };

/* Elements of a vector that one thread takes at a time. */
enum { CPU_BLOCK = 8192 };

static inline int64_t cpu_blocks (int64_t n)
{
    return (n + CPU_BLOCK - 1) / CPU_BLOCK;
}

extern const struct kern_ops cpu_ops;

/* The ops run inside the call, so they know nothing of streams. */
#define CPU_RUN(OP, op) \
    int cpu_##op (const struct kernels *, const struct kern_##op *, struct mg_error *);
KERN_OPS (CPU_RUN)
#undef CPU_RUN

/* Ops that take scratch, and how much a call will ask of cpu_scratch().  That of a product is a
 * function of its own, since a library may fail.
 */
#define CPU_SCRATCH_OPS(OP)                         \
    OP (NORM_BWD, norm_bwd)                         \
    OP (BIAS_DROPOUT_ADD_BWD, bias_dropout_add_bwd) \
    OP (ATTENTION_FWD, attention_fwd)               \
    OP (ATTENTION_BWD, attention_bwd)               \
    OP (EMBEDDING_BWD, embedding_bwd)               \
    OP (POSITION_BWD, position_bwd)                 \
    OP (COL_SUM, col_sum)                           \
    OP (GEMM_DOUBLE, gemm_double)                   \
    OP (ROUTER_FWD, router_fwd)                     \
    OP (ROUTER_BWD, router_bwd)                     \
    OP (ROUTER_SUMS, router_sums)                   \
    OP (ROUTER_LOSS_BWD, router_loss_bwd)           \
    OP (ROUTER_SINKHORN, router_sinkhorn)           \
    OP (ROUTER_QUANTILE, router_quantile)           \
    OP (ROUTER_CAPACITY, router_capacity)           \
    OP (EXPERT_SORT, expert_sort)                   \
    OP (EXPERT_CHUNKS, expert_chunks)

#define CPU_SCRATCH(OP, op) \
    size_t cpu_##op##_scratch (const struct kernels *, const struct kern_##op *);
CPU_SCRATCH_OPS (CPU_SCRATCH)
#undef CPU_SCRATCH

int cpu_gemm_scratch (const struct kernels *, const struct kern_gemm *, size_t *bytes,
                      struct mg_error *);

int cpu_expert_gemm_scratch (const struct kernels *, const struct kern_expert_gemm *,
                             size_t *bytes, struct mg_error *);

/* A product by our own loops of at most CPU_BLOCK_ROWS x CPU_BLOCK_COLS elements of C, in the
 * calling thread, and the floats of memory that it takes.
 */
enum { CPU_BLOCK_ROWS = 256, CPU_BLOCK_COLS = 384 };
size_t cpu_gemm_block_floats (const struct kern_gemm *a);
void cpu_gemm_block (const struct kern_gemm *a, float *work);

/* The product by our own loops: any type and size. */
int cpu_gemm_ref (const struct kernels *k, const struct kern_gemm *a,
                  struct mg_error *err);

/* The product of few rows: m 1 to CPU_FEW_ROWS, A as it is stored, B transposed, k 1 at least, any
 * types and any n (cpu_gemm_is_few()).  cpu_gemm() has these products computed here on every
 * machine, whether there is a library or not.
 *
 * Promise: the order of the sum that is an element of C depends on k and the instruction set alone.
 * So a row of C has the same bits whatever other rows are in the product, in every place, and with
 * every number of threads.
 */
enum { CPU_FEW_ROWS = 8 };
bool cpu_gemm_is_few (const struct kern_gemm *a);
size_t cpu_gemm_few_scratch (const struct kern_gemm *a);
int cpu_gemm_few (const struct kernels *k, const struct kern_gemm *a, struct mg_error *err);

/* Attention of one query over several keys, without dropout and without max_logit
 * (cpu_attention_is_one()).  cpu_attention_fwd() has these calls computed here, after its checks.
 * They take less scratch than cpu_attention_fwd_scratch() says.
 */
bool cpu_attention_is_one (const struct kern_attention_fwd *a);
int cpu_attention_one (const struct kernels *k, const struct kern_attention_fwd *a,
                       struct mg_error *err);

/* C[i][0..n) (+)= sum_l A(i, l) B[l][0..n), A(i, l) = a[i * a_row + l * a_col]; n is a
 * multiple of VEC, ldb and ldc are the row lengths of b and c.  If 'accumulate' and 'scale' are
 * set, C[i][j] is multiplied by scale[j] before the sum is added.  One thread.
 */
struct cpu_tile {
    int64_t m, n, k;
    const float *a;
    int64_t a_row, a_col;
    const float *b;
    int64_t ldb;
    float *c;
    int64_t ldc;
    bool accumulate;
    const float *scale;
};
void cpu_tile (const struct cpu_tile *t);

#endif /* KERNELS_CPU_CPU_H */
