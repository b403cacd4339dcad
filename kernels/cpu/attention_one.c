/* attention_one.c - attention of one query: each row of k and v is read from memory once
 *
 * A text that is generated has one query for each token, and all keys before it.  The queries of
 * attention.c lie across vectors, so they would leave most of a vector empty.  Here the elements of
 * a row lie across vectors: a score is a dot product.  The partial sums of VEC scores are
 * transposed and added, so that the scores lie in one vector.
 *
 * One task is some of the heads that use the same kv head.  It goes through blocks of keys as
 * attention.c does, with the same m, l and o for each head.  Meanwhile the rows of the next block
 * are fetched: rows lie in memory far apart, so the processor does not do it by itself.
 *
 * The order of a sum depends neither on other heads nor on the number of threads.
 */

#include <math.h>

#include "kernels/cpu/flash.h"

enum {
    KEYS = 64,  /* of a block */
    HEADS = 16, /* of a task at most */
    ROWS = 4,   /* of k, whose products are computed together; divides VEC */
    COLS = 4,   /* vectors of a row of v that are added together */
};

/* The state of a head after some blocks. */
struct one_head {
    float *q; /* [head_dim], whole vectors that end with zeros: the query times scale log2 e */
    float *o; /* [head_dim_v], whole vectors */
    float m, l;
};

/* Heads of a kv head of a batch entry. */
struct one_task {
    const struct kern_attention_fwd *a; /* with its defaults filled in */
    struct flash_queries query;         /* its count is 1 */
    int64_t k, v;                       /* element 0 of the rows of key 0 */
    int64_t first, heads;               /* numbers of the heads */
    int64_t from, end;                  /* keys; all others are hidden */
    struct one_head head[HEADS];
    float score[KEYS]; /* of a block: times log2 e, then probabilities relative to m */
};

bool cpu_attention_is_one (const struct kern_attention_fwd *a)
{
    return a->heads > 0 && a->seq_q == 1 && a->seq_k > 1 && a->dropout_p == 0 && !a->max_logit;
}

static int64_t whole (int64_t n)
{
    return (n + VEC - 1) / VEC * VEC;
}

/* Floats of a head. */
static int64_t head_floats (const struct kern_attention_fwd *a)
{
    return whole (a->head_dim) + whole (flash_dim_v (a));
}

/* Heads of a task: all of a kv head, or fewer if threads would have nothing to do. */
static int64_t count_heads (const struct kernels *k, const struct kern_attention_fwd *a)
{
    int64_t group = a->heads / a->kv_heads, n = cpu_min (group, HEADS);

    while (n > 1 && a->batch * a->kv_heads * flash_blocks (group, n) < cpu_of (k)->threads)
        n = (n + 1) / 2;
    return n;
}

/* --- scores --- */

static int64_t k_row (const struct one_task *t, int64_t key)
{
    return t->k + key * t->a->kv_stride_s;
}

static int64_t v_row (const struct one_task *t, int64_t key)
{
    return t->v + key * t->a->v_stride_s;
}

/* Prefetch the 'cols' elements of 'x' from element 'at' on into the second-level cache. */
VEC_INLINE void fetch (const void *x, int64_t at, int64_t cols, const enum mg_dtype type)
{
    const char *row = (const char *)x + (size_t)at * cpu_size (type);

    for (int64_t i = 0; i < cols * (int64_t)cpu_size (type); i += CACHE_LINE)
        __builtin_prefetch (row + i, 0, 2);
}

/* Partial sums of the scores of ROWS keys.  Rows behind the last key repeat the last key. */
VEC_INLINE void add_rows (const struct one_task *t, const float *q, int64_t key, vf sum[ROWS],
                          const enum mg_dtype type)
{
    int64_t dim = t->a->head_dim, from[ROWS];

    VEC_UNROLL for (int r = 0; r < ROWS; r++)
    {
        from[r] = k_row (t, cpu_min (key + r, t->end - 1));
        sum[r] = (vf){ 0 };
    }
    for (int64_t d = 0; d < dim; d += VEC) {
        vf x = vec_load (q + d);

        if (dim - d >= VEC) {
            VEC_UNROLL for (int r = 0; r < ROWS; r++)
                sum[r] += x * vec_get (t->a->k, from[r] + d, VEC, type);
        } else {
            VEC_UNROLL for (int r = 0; r < ROWS; r++)
                sum[r] += x * vec_get (t->a->k, from[r] + d, dim - d, type);
        }
    }
}

/* As float16 rounds them after a division by coeff (flash.c). */
static vf round_scores (const struct kern_attention_fwd *a, vf score)
{
    const float factor = (float)(a->coeff * FLASH_LOG2E);
    const float inverse = (float)(1 / (a->coeff * FLASH_LOG2E));

    return factor * vec_from_fp16 (vec_to_fp16 (inverse * score));
}

/* Hide the keys, of 'count' from 'key' on, that the query does not see.  Keys without positions of
 * their own are all seen (find_keys()).
 */
static void hide (struct one_task *t, int64_t key, int64_t count)
{
    const struct kern_attention_fwd *a = t->a;

    for (int64_t j = 0; a->pos_k.at && j < count; j++) {
        int64_t position = cpu_position (&a->pos_k, key + j, t->query.entry);

        if (position < t->query.low[0] || position > t->query.high[0])
            t->score[j] = -INFINITY;
    }
    for (int64_t j = count; j < whole (count); j++)
        t->score[j] = -INFINITY;
}

/* Set the scores of a block for a head.  'ahead': fetch the keys behind the block, too. */
VEC_INLINE void find_scores (struct one_task *t, const struct one_head *head, int64_t key,
                             int64_t count, bool ahead, const enum mg_dtype type)
{
    const struct kern_attention_fwd *a = t->a;

    for (int64_t j = 0; j < count; j += VEC) {
        vf sum[VEC], score;

        for (int i = 0; ahead && i < VEC && key + KEYS + j + i < t->end; i++)
            fetch (a->k, k_row (t, key + KEYS + j + i), a->head_dim, type);
        VEC_UNROLL for (int i = 0; i < VEC; i += ROWS)
            add_rows (t, head->q, key + j + i, sum + i, type);
        score = vec_sum_rows (sum);
        if (a->coeff > 0 && type == MG_FLOAT16)
            score = round_scores (a, score);
        vec_store (t->score + j, score);
    }
    hide (t, key, count);
}

/* --- probabilities --- */

static float find_largest (const float *score, int64_t count, float before)
{
    vf m = vec_set (before);

    for (int64_t j = 0; j < count; j += VEC)
        m = vec_max (vec_load (score + j), m);
    for (int i = 0; i < VEC; i++)
        before = m[i] > before ? m[i] : before;
    return before;
}

/* Scores to probabilities relative to m, after m and l have taken the block in.  Returns the factor
 * by which o must be multiplied.
 */
static float soften (struct one_task *t, struct one_head *head, int64_t count)
{
    float m = find_largest (t->score, count, head->m), base = m == -INFINITY ? 0 : m;
    float less = vec_exp2 (vec_set (head->m - base))[0];
    vf sum = { 0 };

    head->m = m;
    head->l *= less;
    for (int64_t j = 0; j < count; j += VEC) {
        vf p = vec_exp2 (vec_load (t->score + j) - base);

        vec_store (t->score + j, p);
        sum += p;
    }
    for (int i = 0; i < VEC; i++)
        head->l += sum[i];
    return less;
}

/* o[d ..] = less o[d ..] + sum_j p[j] v[j][d ..], for 'cols' vectors of elements.  'part': the row
 * ends inside the last vector.
 */
VEC_INLINE void add_cols (const struct one_task *t, float *o, int64_t d, int64_t key,
                          int64_t count, float less, const int cols, bool part,
                          const enum mg_dtype type)
{
    int64_t dim = t->a->head_dim_v;
    vf sum[COLS];

    VEC_UNROLL for (int c = 0; c < cols; c++)
        sum[c] = less * vec_load (o + d + c * VEC);
    for (int64_t j = 0; j < count; j++) {
        int64_t at = v_row (t, key + j) + d;
        float p = t->score[j];

        VEC_UNROLL for (int c = 0; c < cols; c++)
            sum[c] += p * vec_get (t->a->v, at + c * VEC, part ? dim - d - c * VEC : VEC, type);
    }
    VEC_UNROLL for (int c = 0; c < cols; c++)
        vec_store (o + d + c * VEC, sum[c]);
}

VEC_INLINE void add_values (const struct one_task *t, struct one_head *head, int64_t key,
                            int64_t count, float less, bool ahead, const enum mg_dtype type)
{
    const struct kern_attention_fwd *a = t->a;
    int64_t dim = a->head_dim_v, d = 0;

    for (int64_t j = key + KEYS; ahead && j < cpu_min (key + 2 * KEYS, t->end); j++)
        fetch (a->v, v_row (t, j), dim, type);
    for (; d + COLS * VEC <= dim; d += COLS * VEC)
        add_cols (t, head->o, d, key, count, less, COLS, false, type);
    for (; d + VEC <= dim; d += VEC)
        add_cols (t, head->o, d, key, count, less, 1, false, type);
    if (d < dim)
        add_cols (t, head->o, d, key, count, less, 1, true, type);
}

/* --- tasks --- */

VEC_INLINE void begin_head (const struct one_task *t, int64_t number, float *memory,
                            struct one_head *head, const enum mg_dtype type)
{
    const struct kern_attention_fwd *a = t->a;
    struct flash_queries query = { .entry = t->query.entry, .head = number };
    int64_t from = flash_q_row (a, &query, 0);

    *head = (struct one_head){ .q = memory, .o = memory + whole (a->head_dim), .m = -INFINITY };
    for (int64_t d = 0; d < a->head_dim; d += VEC)
        vec_store (head->q + d, (float)(a->scale * FLASH_LOG2E)
                                    * vec_get (a->q, from + d, a->head_dim - d, type));
    memset (head->o, 0, (size_t)whole (a->head_dim_v) * sizeof (float));
    if (!a->has_sink)
        return;
    head->m = a->sink ? (float)(vec_one (a->sink, number, type) * FLASH_LOG2E) : 0;
    head->l = 1;
}

VEC_INLINE void end_head (const struct one_task *t, int64_t number, const struct one_head *head,
                          const enum mg_dtype type)
{
    const struct kern_attention_fwd *a = t->a;
    struct flash_queries query = { .entry = t->query.entry, .head = number };
    float over_l = head->l == 0 ? 0 : 1 / head->l;
    int64_t to = flash_out_row (a, &query, 0);

    for (int64_t d = 0; d < a->head_dim_v; d += VEC)
        vec_put (a->out, to + d, over_l * vec_load (head->o + d), a->head_dim_v - d, type);
    a->lse[flash_lse (a, &query)] = head->l == 0 ? -INFINITY
                                                 : (float)(head->m / FLASH_LOG2E) + logf (head->l);
}

/* Set the keys that the query sees, or all of them if they have positions of their own. */
static void find_keys (struct one_task *t)
{
    const struct kern_attention_fwd *a = t->a;

    t->from = 0;
    t->end = a->seq_k;
    if (a->pos_k.at)
        return;
    t->from = t->query.low[0];
    t->end = cpu_min (a->seq_k, (int64_t)t->query.high[0] + 1);
}

VEC_INLINE void do_task (struct one_task *t, float *memory, const enum mg_dtype type)
{
    const struct kern_attention_fwd *a = t->a;

    for (int64_t i = 0; i < t->heads; i++)
        begin_head (t, t->first + i, memory + i * head_floats (a), &t->head[i], type);
    for (int64_t key = t->from; key < t->end; key += KEYS) {
        int64_t count = cpu_min (KEYS, t->end - key);

        for (int64_t i = 0; i < t->heads; i++) {
            struct one_head *head = &t->head[i];
            float less;

            find_scores (t, head, key, count, i == 0, type);
            less = soften (t, head, count);
            add_values (t, head, key, count, less, i == 0, type);
        }
    }
    for (int64_t i = 0; i < t->heads; i++)
        end_head (t, t->first + i, &t->head[i], type);
}

/* Task 'part' of a kv head, with 'heads' heads at most. */
static void run_task (const struct kern_attention_fwd *a, int64_t entry, int64_t kv_head,
                      int64_t part, int64_t heads, float *memory)
{
    int64_t group = a->heads / a->kv_heads;
    struct flash_keys key = { .entry = entry, .head = kv_head };
    struct one_task t = { .a = a,
                          .k = flash_k_row (a, &key, 0),
                          .v = flash_v_row (a, &key, 0),
                          .first = kv_head * group + part * heads,
                          .heads = cpu_min (heads, group - part * heads) };

    flash_set_queries (a, entry, t.first, 0, &t.query);
    find_keys (&t);
    VEC_TYPED (a->dtype, do_task, &t, memory);
}

int cpu_attention_one (const struct kernels *k, const struct kern_attention_fwd *a,
                       struct mg_error *err)
{
    int64_t heads = count_heads (k, a), parts = flash_blocks (a->heads / a->kv_heads, heads);
    int64_t tasks = a->batch * a->kv_heads * parts;
    int64_t floats = heads * head_floats (a);
    float *memory = cpu_scratch (k, (size_t)(cpu_of (k)->threads * floats) * sizeof (float), err);
    struct kern_attention_fwd all;

    if (!memory)
        return -1;
    flash_complete (a, &all);
#pragma omp parallel for num_threads (cpu_of (k)->threads) schedule (dynamic) \
    if (a->batch * a->heads * a->seq_k * a->head_dim > CPU_SERIAL)
    for (int64_t task = 0; task < tasks; task++) {
        int64_t head = task / parts;

        run_task (&all, head / a->kv_heads, head % a->kv_heads, task % parts, heads,
                  memory + cpu_thread () * floats);
    }
    return 0;
}
