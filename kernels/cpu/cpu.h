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
};

extern const struct cpu_gemm cpu_gemm_onednn;

/* One compilation of the table. */
struct cpu_isa {
    const char *name;
    bool (*usable) (void); /* may run on this machine */
    const struct kern_ops *ops;
    const struct kern_ops *plan; /* the same ops, which only note their scratch */
};

/* What kernels->impl points to. */
struct cpu {
    int threads;
    const struct cpu_isa *isa;
    const struct cpu_gemm *gemm; /* NULL: none */
    void *gemm_impl;
    void *scratch; /* see cpu_scratch() */
    size_t scratch_size;
    bool given;   /* scratch is the caller's, and all there is */
    size_t noted; /* most bytes since planning began */
    int entered;  /* kernels_cpu_enter() without its leave */
    uint64_t *modes; /* [threads] that they had before */
};

/* Compilation 'i', the best first, whether usable or not; NULL from the last on. */
const struct cpu_isa *cpu_isa_get (size_t i);

/* Who multiplies matrices: our own loops; a library, for what it is good at on this machine;
 * a library, for all types that it knows.
 */
enum cpu_library { CPU_NO_LIBRARY, CPU_LIBRARY, CPU_LIBRARY_ALWAYS };

/* kernels_cpu_create(), which is with CPU_LIBRARY, with a certain compilation: for tests, so
 * that every machine runs what others would.
 */
struct kernels *cpu_create (int threads, const struct cpu_isa *isa, enum cpu_library library,
                            struct mg_error *err);

/* At least 'size' bytes, aligned to 64, for the call that asks: the next call of any op
 * may overwrite or move them.  Allocates only if no scratch was given and 'size' is the
 * largest so far.  NULL and a text on failure.
 */
void *cpu_scratch (const struct kernels *k, size_t size, struct mg_error *err);

/* What a call will ask of cpu_scratch(), by op, for the table of planning; cpu_plan_gemm() as
 * an op, since a library may fail.
 */
int cpu_plan_gemm (const struct kernels *, const struct kern_gemm *, struct mg_stream *,
                   struct mg_error *);
size_t cpu_gemm_ref_scratch (const struct kernels *, const struct kern_gemm *);
size_t cpu_norm_bwd_scratch (const struct kern_norm_bwd *);
size_t cpu_attention_fwd_scratch (const struct kernels *, const struct kern_attention *);
size_t cpu_attention_bwd_scratch (const struct kernels *, const struct kern_attention_bwd *);
size_t cpu_col_sum_scratch (int64_t rows, int64_t cols);
size_t cpu_embedding_bwd_scratch (const struct kern_embedding_bwd *);

/* A call will ask for 'size' bytes. */
static inline void cpu_note (const struct kernels *k, size_t size)
{
    struct cpu *cpu = k->impl;

    if (size > cpu->noted)
        cpu->noted = size;
}

/* Number of this thread in a parallel region, from 0. */
static inline int cpu_thread (void)
{
#ifdef _OPENMP
    return omp_get_thread_num ();
#else
    return 0;
#endif
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

/* Loops over fewer elements than this run on one thread: waking others costs more. */
enum { CPU_SERIAL = 16384 };

/* Elements of a vector that one thread takes at a time. */
enum { CPU_BLOCK = 8192 };

static inline int64_t cpu_blocks (int64_t n)
{
    return (n + CPU_BLOCK - 1) / CPU_BLOCK;
}

extern const struct kern_ops cpu_ops, cpu_plan_ops;

int cpu_gemm (const struct kernels *, const struct kern_gemm *, struct mg_stream *,
              struct mg_error *);
int cpu_norm_fwd (const struct kernels *, const struct kern_norm_fwd *,
                  struct mg_stream *, struct mg_error *);
int cpu_norm_bwd (const struct kernels *, const struct kern_norm_bwd *,
                  struct mg_stream *, struct mg_error *);
int cpu_bias_dropout_add_fwd (const struct kernels *,
                              const struct kern_bias_dropout_add_fwd *,
                              struct mg_stream *, struct mg_error *);
int cpu_bias_dropout_add_bwd (const struct kernels *,
                              const struct kern_bias_dropout_add_bwd *,
                              struct mg_stream *, struct mg_error *);
int cpu_gelu_fwd (const struct kernels *, const struct kern_gelu_fwd *,
                  struct mg_stream *, struct mg_error *);
int cpu_gelu_bwd (const struct kernels *, const struct kern_gelu_bwd *,
                  struct mg_stream *, struct mg_error *);
int cpu_attention_fwd (const struct kernels *, const struct kern_attention *,
                       struct mg_stream *, struct mg_error *);
int cpu_attention_bwd (const struct kernels *, const struct kern_attention_bwd *,
                       struct mg_stream *, struct mg_error *);
int cpu_embedding_fwd (const struct kernels *, const struct kern_embedding_fwd *,
                       struct mg_stream *, struct mg_error *);
int cpu_embedding_bwd (const struct kernels *, const struct kern_embedding_bwd *,
                       struct mg_stream *, struct mg_error *);
int cpu_position_fwd (const struct kernels *, const struct kern_position_fwd *,
                      struct mg_stream *, struct mg_error *);
int cpu_position_bwd (const struct kernels *, const struct kern_position_bwd *,
                      struct mg_stream *, struct mg_error *);
int cpu_xent_max (const struct kernels *, const struct kern_xent_max *,
                  struct mg_stream *, struct mg_error *);
int cpu_xent_sum (const struct kernels *, const struct kern_xent_sum *,
                  struct mg_stream *, struct mg_error *);
int cpu_xent_loss (const struct kernels *, const struct kern_xent_loss *,
                   struct mg_stream *, struct mg_error *);
int cpu_xent_bwd (const struct kernels *, const struct kern_xent_bwd *,
                  struct mg_stream *, struct mg_error *);
int cpu_adamw (const struct kernels *, const struct kern_adamw *, struct mg_stream *,
               struct mg_error *);
int cpu_adamw_largest (const struct kernels *, const struct kern_adamw *,
                       struct kern_three *out, struct mg_stream *, struct mg_error *);
int cpu_state_load (const struct kernels *, int64_t n, const struct kern_state *state,
                    void *out, enum mg_dtype dtype, struct mg_stream *, struct mg_error *);
int cpu_state_store (const struct kernels *, int64_t n, const void *in, enum mg_dtype dtype,
                     const struct kern_state *state, struct mg_stream *, struct mg_error *);
int cpu_fill_normal (const struct kernels *, const struct kern_fill_normal *,
                     struct mg_stream *, struct mg_error *);
int cpu_fill (const struct kernels *, int64_t n, float value, void *out, enum mg_dtype dtype,
              struct mg_stream *, struct mg_error *);
int cpu_col_sum (const struct kernels *, int64_t rows, int64_t cols, const void *x,
                 enum mg_dtype dtype, void *out, enum mg_dtype grad_dtype,
                 struct mg_stream *, struct mg_error *);
int cpu_sum_sq (const struct kernels *, int64_t n, const void *x, enum mg_dtype dtype,
                double *out, struct mg_stream *, struct mg_error *);
int cpu_max_abs (const struct kernels *, int64_t n, const void *x, enum mg_dtype dtype,
                 float *out, struct mg_stream *, struct mg_error *);
int cpu_count_zeros (const struct kernels *, int64_t n, const void *x, enum mg_dtype dtype,
                     double *out, struct mg_stream *, struct mg_error *);
int cpu_cast (const struct kernels *, int64_t n, const void *x, enum mg_dtype from,
              void *y, enum mg_dtype to, struct mg_stream *, struct mg_error *);
int cpu_cast_scaled (const struct kernels *, int64_t n, float scale, const void *x,
                     enum mg_dtype from, void *y, enum mg_dtype to, struct mg_stream *,
                     struct mg_error *);

/* The product by our own loops: any type and size. */
int cpu_gemm_ref (const struct kernels *k, const struct kern_gemm *a,
                  struct mg_error *err);

/* C[i][0..n) (+)= sum_l A(i, l) B[l][0..n), A(i, l) = a[i * a_row + l * a_col]; n is a
 * multiple of VEC, ldb and ldc are the row lengths of b and c.  One thread.
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
};
void cpu_tile (const struct cpu_tile *t);

#endif /* KERNELS_CPU_CPU_H */
