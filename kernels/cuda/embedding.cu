/* embedding.cu - rows of a vocabulary shard, and positions added to them
 *
 * Gradients of rows that share an id are added in the order of the tokens.  So tokens are sorted by
 * (id, token).  Then the first token of each id adds up the others.
 */

#include "kernels/cuda/philox.h"
#include "kernels/cuda/sort.h"

#define NOWHERE (~0ull) /* the key of a token that no row has */

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) embedding_fwd (struct kern_embedding_fwd a)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = cuda_packs<T> (a.cols);

    for (int64_t i = cuda_thread (); i < a.tokens * packs; i += cuda_num_threads ()) {
        int64_t pack, t = cuda_divide (i, packs, &pack), col = pack * SIZE, left = a.cols - col;
        int64_t row = (int64_t)a.id[t] - a.first;
        cuda_pack<T> x = {};

        if (row >= 0 && row < a.count)
            x = cuda_load<WIDE> ((const T *)a.table + row * a.cols + col, left);
        cuda_store<WIDE> ((T *)a.out + t * a.cols + col, x, left);
    }
}

template <typename T>
static int launch_fwd (const struct cuda_call *call, const struct kern_embedding_fwd *a,
                       struct mg_error *err)
{
    int64_t stride = a->cols * (int64_t)sizeof (T), n = a->tokens * cuda_packs<T> (a->cols);

    return cuda_is_wide (a->table, stride) && cuda_is_wide (a->out, stride)
               ? cuda_launch_each<embedding_fwd<T, true>> (call, "embedding_fwd", err, n, *a)
               : cuda_launch_each<embedding_fwd<T, false>> (call, "embedding_fwd", err, n, *a);
}

int cuda_embedding_fwd (const struct cuda_call *call, const struct kern_embedding_fwd *a,
                        struct mg_error *err)
{
    return CUDA_TYPED (a->dtype, launch_fwd, call, a, err);
}

/* --- tokens by id --- */

static __device__ inline uint64_t key_of (int64_t row, int64_t count, int64_t t)
{
    return row >= 0 && row < count ? (uint64_t)row << 32 | (uint64_t)t : NOWHERE;
}

__global__ void __launch_bounds__ (CUDA_THREADS)
    embedding_keys (struct kern_embedding_bwd a, uint64_t *key, int64_t count)
{
    for (int64_t t = cuda_thread (); t < count; t += cuda_num_threads ())
        key[t] = key_of (t < a.tokens ? (int64_t)a.id[t] - a.first : -1, a.count, t);
}

__global__ void __launch_bounds__ (CUDA_THREADS)
    position_keys (struct kern_position_bwd a, uint64_t *key, int64_t count)
{
    const struct kern_positions &entry = a.entry.at ? a.entry : a.dropout.position;

    for (int64_t t = cuda_thread (); t < count; t += cuda_num_threads ()) {
        int64_t b, s = cuda_divide (t, a.dropout.batch, &b);

        key[t] = key_of (t < a.tokens ? cuda_position (entry, s, b) : -1, a.count, t);
    }
}

/* A thread has a pack of columns of sorted token i.  If the token is the first of its row, the
 * thread adds the tokens of the row in order.
 */
template <typename T, typename GRAD, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS)
    add_tokens (const uint64_t *key, int64_t tokens, int64_t cols, const T *dout, GRAD *dtable)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = cuda_packs<T> (cols);

    for (int64_t i = cuda_thread (); i < tokens * packs; i += cuda_num_threads ()) {
        int64_t pack, k = cuda_divide (i, packs, &pack), col = pack * SIZE, left = cols - col;
        uint64_t mine = key[k];
        GRAD *out = dtable + (int64_t)(mine >> 32) * cols + col;
        float sum[SIZE] = {};

        if (mine == NOWHERE || (k > 0 && key[k - 1] >> 32 == mine >> 32))
            continue;
#pragma unroll
        for (int j = 0; j < SIZE; j++)
            sum[j] = j < left ? cuda_float (out[j]) : 0;
        for (; k < tokens && key[k] != NOWHERE && key[k] >> 32 == mine >> 32; k++) {
            const T *row = dout + (int64_t)(uint32_t)key[k] * cols + col;
            cuda_pack<T> d = cuda_load<WIDE> (row, left);

#pragma unroll
            for (int j = 0; j < SIZE; j++)
                sum[j] += cuda_float (d.x[j]);
        }
#pragma unroll
        for (int j = 0; j < SIZE; j++)
            if (j < left)
                out[j] = cuda_rounded<GRAD> (sum[j]);
    }
}

struct additions {
    const uint64_t *key;
    int64_t tokens, cols;
    const void *dout;
    void *dtable;
    enum mg_dtype grad_dtype;
    const char *op;
};

template <typename T, typename GRAD>
static int launch_add (const struct cuda_call *call, const struct additions *a,
                       struct mg_error *err)
{
    int64_t n = a->tokens * cuda_packs<T> (a->cols);

    return cuda_is_wide (a->dout, a->cols * (int64_t)sizeof (T))
               ? cuda_launch_each<add_tokens<T, GRAD, true>> (call, a->op, err, n, a->key,
                                                              a->tokens, a->cols,
                                                              (const T *)a->dout,
                                                              (GRAD *)a->dtable)
               : cuda_launch_each<add_tokens<T, GRAD, false>> (call, a->op, err, n, a->key,
                                                               a->tokens, a->cols,
                                                               (const T *)a->dout,
                                                               (GRAD *)a->dtable);
}

template <typename T>
static int add (const struct cuda_call *call, const struct additions *a, struct mg_error *err)
{
    return CUDA_TYPED_WITH (T, a->grad_dtype, launch_add, call, a, err);
}

int cuda_embedding_bwd (const struct cuda_call *call, const struct kern_embedding_bwd *a,
                        struct mg_error *err)
{
    const char *op = "embedding_bwd";
    uint64_t *key = (uint64_t *)call->scratch;
    int64_t count = cuda_sort_count (a->tokens);
    const struct additions what
        = { key, a->tokens, a->cols, a->dout, a->dtable, a->grad_dtype, op };

    if (a->tokens == 0 || a->cols == 0)
        return 0;
    if (cuda_launch_each<embedding_keys> (call, op, err, count, *a, key, count) < 0
        || cuda_sort (call, op, key, count, err) < 0)
        return -1;
    return CUDA_TYPED (a->dtype, add, call, &what, err);
}

/* --- positions --- */

/* y of a pack: dropout (x + table), or dropout (x) without a table. */
template <typename T, bool WIDE>
static __device__ inline cuda_pack<T> drop (const T *x, const T *table,
                                            const struct kern_dropout &d, int64_t row, int64_t col,
                                            int64_t left)
{
    const int SIZE = cuda_pack<T>::SIZE;
    cuda_pack<T> y = cuda_load<WIDE> (x, left), added = {};
    float factor[SIZE];

    if (table)
        added = cuda_load<WIDE> (table, left);
    if (d.p > 0)
        cuda_dropout_factors (cuda_dropout_row (d, row), col, factor);
    if (!table && d.p == 0)
        return y;
#pragma unroll
    for (int j = 0; j < SIZE; j++) {
        float v = cuda_float (y.x[j]);

        v = table ? v + cuda_float (added.x[j]) : v;
        y.x[j] = cuda_rounded<T> (d.p > 0 ? v * factor[j] : v);
    }
    return y;
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) position_fwd (struct kern_position_fwd a)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = cuda_packs<T> (a.cols);

    for (int64_t i = cuda_thread (); i < a.tokens * packs; i += cuda_num_threads ()) {
        int64_t pack, row = cuda_divide (i, packs, &pack), col = pack * SIZE, b;
        int64_t s = cuda_divide (row, a.dropout.batch, &b), at = row * a.cols + col;
        int64_t entry = cuda_position (a.entry.at ? a.entry : a.dropout.position, s, b);

        cuda_store<WIDE> ((T *)a.y + at,
                          drop<T, WIDE> ((const T *)a.x + at,
                                         (const T *)a.table + entry * a.cols + col, a.dropout, row,
                                         col, a.cols - col),
                          a.cols - col);
    }
}

template <typename T>
static int launch_position (const struct cuda_call *call, const struct kern_position_fwd *a,
                            struct mg_error *err)
{
    int64_t stride = a->cols * (int64_t)sizeof (T), n = a->tokens * cuda_packs<T> (a->cols);

    return cuda_is_wide (a->x, stride) && cuda_is_wide (a->table, stride)
                   && cuda_is_wide (a->y, stride)
               ? cuda_launch_each<position_fwd<T, true>> (call, "position_fwd", err, n, *a)
               : cuda_launch_each<position_fwd<T, false>> (call, "position_fwd", err, n, *a);
}

int cuda_position_fwd (const struct cuda_call *call, const struct kern_position_fwd *a,
                       struct mg_error *err)
{
    return CUDA_TYPED (a->dtype, launch_position, call, a, err);
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) position_dx (struct kern_position_bwd a)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = cuda_packs<T> (a.cols);

    for (int64_t i = cuda_thread (); i < a.tokens * packs; i += cuda_num_threads ()) {
        int64_t pack, row = cuda_divide (i, packs, &pack), col = pack * SIZE;
        int64_t at = row * a.cols + col, left = a.cols - col;

        cuda_store<WIDE> ((T *)a.dx + at,
                          drop<T, WIDE> ((const T *)a.dy + at, (const T *)nullptr, a.dropout, row,
                                         col, left),
                          left);
    }
}

template <typename T>
static int launch_dx (const struct cuda_call *call, const struct kern_position_bwd *a,
                      struct mg_error *err)
{
    int64_t stride = a->cols * (int64_t)sizeof (T), n = a->tokens * cuda_packs<T> (a->cols);

    return cuda_is_wide (a->dy, stride) && cuda_is_wide (a->dx, stride)
               ? cuda_launch_each<position_dx<T, true>> (call, "position_bwd", err, n, *a)
               : cuda_launch_each<position_dx<T, false>> (call, "position_bwd", err, n, *a);
}

/* dx first; then its rows are added as stored. */
int cuda_position_bwd (const struct cuda_call *call, const struct kern_position_bwd *a,
                       struct mg_error *err)
{
    const char *op = "position_bwd";
    uint64_t *key = (uint64_t *)call->scratch;
    int64_t count = cuda_sort_count (a->tokens);
    const struct additions what = { key, a->tokens, a->cols, a->dx, a->dtable, a->grad_dtype, op };

    if (a->tokens == 0 || a->cols == 0)
        return 0;
    if (CUDA_TYPED (a->dtype, launch_dx, call, a, err) < 0
        || cuda_launch_each<position_keys> (call, op, err, count, *a, key, count) < 0
        || cuda_sort (call, op, key, count, err) < 0)
        return -1;
    return CUDA_TYPED (a->dtype, add, call, &what, err);
}
