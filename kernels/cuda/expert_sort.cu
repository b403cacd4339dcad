/* expert_sort.cu - where the rows of choices go, and the order of received chunks
 *
 * Choices are sorted by (expert, choice); a dropped choice counts as one of expert 'experts'.  So
 * a choice's place among those of its expert is its place in the order less that of the expert's
 * first choice, which a binary search finds.
 *
 * Received chunks: a block has a part and adds up the counts of its chunks.  Then one block adds up
 * the chunks in the wanted order, and each row finds its chunk by a binary search.
 */

#include "kernels/cuda/sort.h"

/* --- sort by expert --- */

/* The keys in order, and first[e] = the place of the first choice of expert e or a later one. */
struct sorted {
    uint64_t *key;
    int64_t *first; /* [experts + 1] */
    int64_t count;  /* of keys */
};

static __device__ inline int64_t num_choices (const struct kern_expert_sort &a)
{
    return a.tokens * a.topk;
}

__global__ void __launch_bounds__ (CUDA_THREADS)
    choice_keys (struct kern_expert_sort a, struct sorted s)
{
    for (int64_t c = cuda_thread (); c < s.count; c += cuda_num_threads ()) {
        uint64_t key = ~0ull;

        if (c < num_choices (a)) {
            int64_t e = a.index[c] - a.first;

            if (a.index[c] < 0 || e < 0 || e >= a.experts)
                e = a.experts;
            key = (uint64_t)e << 32 | (uint64_t)c;
        }
        s.key[c] = key;
    }
}

__global__ void __launch_bounds__ (CUDA_THREADS)
    find_experts (struct kern_expert_sort a, struct sorted s)
{
    for (int64_t e = cuda_thread (); e <= a.experts; e += cuda_num_threads ()) {
        int64_t low = 0, high = num_choices (a); // the place is in low .. high

        while (low < high) {
            int64_t middle = (low + high) / 2;

            if ((int64_t)(s.key[middle] >> 32) < e)
                low = middle + 1;
            else
                high = middle;
        }
        s.first[e] = low;
    }
}

/* The first row of expert e, of all rows, also those that 'limit' leaves out; for e = experts the
 * number of rows.
 */
static __device__ inline int64_t first_row (const struct kern_expert_sort &a,
                                            const struct sorted &s, int64_t e)
{
    return a.capacity ? e * a.capacity : s.first[e];
}

/* Choices of expert e that have a row. */
static __device__ inline int64_t count_of (const struct kern_expert_sort &a,
                                           const struct sorted &s, int64_t e)
{
    int64_t n = s.first[e + 1] - s.first[e];

    return a.capacity ? min (n, a.capacity) : n;
}

/* The wanted row that row 'row' is, or the nearest one.  *wanted says whether 'row' is wanted. */
static __device__ inline int64_t wanted_row (const struct kern_expert_sort &a, int64_t row,
                                             bool *wanted)
{
    int64_t limit = a.limit > 0 ? a.limit : INT64_MAX, begin = a.limit > 0 ? a.begin : 0;

    *wanted = row >= begin && row - begin < limit;
    return row < begin ? 0 : min (row - begin, limit);
}

/* Store the number of rows of each expert and of each rank. */
__global__ void __launch_bounds__ (CUDA_THREADS)
    store_counts (struct kern_expert_sort a, struct sorted s)
{
    int64_t share = a.rank_count ? a.experts / a.ranks : 0;
    bool wanted;

    for (int64_t e = cuda_thread (); e <= a.experts; e += cuda_num_threads ()) {
        int64_t begin = first_row (a, s, e);

        if (a.offset)
            a.offset[e] = wanted_row (a, begin, &wanted);
        if (e == a.experts)
            break;
        if (a.count)
            a.count[e] = first_row (a, s, e + 1) - begin;
        if (a.tally)
            a.tally[e] += (float)count_of (a, s, e);
    }
    for (int64_t r = cuda_thread (); a.rank_count && r < a.ranks; r += cuda_num_threads ())
        a.rank_count[r] = first_row (a, s, (r + 1) * share) - first_row (a, s, r * share);
}

/* A thread has a choice, by its place in the order. */
__global__ void __launch_bounds__ (CUDA_THREADS)
    place_choices (struct kern_expert_sort a, struct sorted s)
{
    for (int64_t i = cuda_thread (); i < num_choices (a); i += cuda_num_threads ()) {
        int64_t c = (int64_t)(uint32_t)s.key[i], e = (int64_t)(s.key[i] >> 32), row = -1;

        if (e < a.experts && i - s.first[e] < count_of (a, s, e)) {
            bool wanted;

            row = wanted_row (a, first_row (a, s, e) + i - s.first[e], &wanted);
            row = wanted ? row : -1;
        }
        if (a.row)
            a.row[c] = (int32_t)row;
        if (a.source && row >= 0)
            a.source[row] = (int32_t)c;
    }
}

/* With a capacity: the rows that no choice has. */
__global__ void __launch_bounds__ (CUDA_THREADS)
    pad_experts (struct kern_expert_sort a, struct sorted s)
{
    for (int64_t row = cuda_thread (); row < a.experts * a.capacity; row += cuda_num_threads ()) {
        int64_t at, e = cuda_divide (row, a.capacity, &at);

        if (at >= count_of (a, s, e))
            a.source[row] = -1;
    }
}

int cuda_expert_sort (const struct cuda_call *call, const struct kern_expert_sort *a,
                      struct mg_error *err)
{
    const char *op = "expert_sort";
    int64_t n = a->tokens * a->topk, each = a->experts + 1;
    struct sorted s;

    if (kern_expert_sort_check (a, err) < 0)
        return -1;
    s.key = (uint64_t *)call->scratch;
    s.count = cuda_sort_count (n);
    s.first = (int64_t *)(s.key + s.count);
    if (a->rank_count && a->ranks > each)
        each = a->ranks;
    if ((n > 0
         && (cuda_launch_each<choice_keys> (call, op, err, s.count, *a, s) < 0
             || cuda_sort (call, op, s.key, s.count, err) < 0))
        || cuda_launch_each<find_experts> (call, op, err, a->experts + 1, *a, s) < 0
        || cuda_launch_each<store_counts> (call, op, err, each, *a, s) < 0)
        return -1;
    if ((a->row || a->source) && cuda_launch_each<place_choices> (call, op, err, n, *a, s) < 0)
        return -1;
    if (!a->source || !a->capacity)
        return 0;
    return cuda_launch_each<pad_experts> (call, op, err, a->experts * a->capacity, *a, s);
}

/* --- chunks --- */

/* Scratch memory, cuda_expert_chunks_scratch(). */
struct chunks {
    int64_t in_part; /* chunks of a part: sources experts */
    int64_t *begin;  /* [parts][in_part + 1] first row of each chunk in its part, of the rows that
                        are there; behind the last chunk: the rows of the part */
    int64_t *part;   /* [parts + 1] first received row of each part, and the number of rows */
    int64_t *wanted; /* [experts][parts][sources] first row in the wanted order */
};

/* On a block: before (i, the sum of value (0) to value (i - 1)) for all i up to n. */
template <typename VALUE, typename BEFORE>
static __device__ inline void scan (int64_t n, const VALUE &value, const BEFORE &before)
{
    enum { EACH = 8 };
    int64_t total = 0; // of the pieces that are done

    for (int64_t first = 0; first < n; first += EACH * CUDA_THREADS) {
        int64_t at = first + threadIdx.x * EACH, x[EACH], mine = 0, all, sum;

#pragma unroll
        for (int j = 0; j < EACH; j++) {
            x[j] = at + j < n ? value (at + j) : 0;
            mine += x[j];
        }
        sum = total + cuda_block_before (mine, &all);
        total += all;
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            if (at + j < n)
                before (at + j, sum);
            sum += x[j];
        }
    }
    if (threadIdx.x == 0)
        before (n, total);
}

/* Rows of a part before its row 'at' that are there. */
static __device__ inline int64_t rows_before (const struct kern_expert_chunks &a, int64_t at)
{
    return at <= a.begin ? 0 : min (at - a.begin, a.limit);
}

__global__ void __launch_bounds__ (CUDA_THREADS)
    scan_parts (struct kern_expert_chunks a, struct chunks s)
{
    for (int64_t p = blockIdx.x; p < a.parts; p += gridDim.x) {
        const int64_t *count = a.count + p * a.stride_part;
        int64_t *begin = s.begin + p * (s.in_part + 1);

        scan (
            s.in_part,
            [&] (int64_t i) {
                int64_t e, source = cuda_divide (i, a.experts, &e);

                return count[source * a.stride_source + e];
            },
            [&] (int64_t i, int64_t sum) { begin[i] = rows_before (a, sum); });
    }
}

__global__ void __launch_bounds__ (CUDA_THREADS)
    scan_wanted (struct kern_expert_chunks a, struct chunks s)
{
    scan (
        a.parts, [&] (int64_t p) { return s.begin[p * (s.in_part + 1) + s.in_part]; },
        [&] (int64_t p, int64_t sum) { s.part[p] = sum; });
    scan (
        a.parts * s.in_part,
        [&] (int64_t i) {
            int64_t source, outer = cuda_divide (i, a.sources, &source);
            int64_t p, e = cuda_divide (outer, a.parts, &p);
            const int64_t *begin = s.begin + p * (s.in_part + 1) + source * a.experts + e;

            return begin[1] - begin[0];
        },
        [&] (int64_t i, int64_t sum) {
            int64_t in_expert = a.parts * a.sources, rest = 0;
            int64_t e = in_expert > 0 ? cuda_divide (i, in_expert, &rest) : 0;

            if (i < a.parts * s.in_part)
                s.wanted[i] = sum;
            if (a.offset && rest == 0)
                a.offset[e] = sum;
        });
    if (a.offset && a.parts * a.sources == 0)
        for (int64_t e = threadIdx.x; e <= a.experts; e += CUDA_THREADS)
            a.offset[e] = 0;
}

/* The last of n ascending values that is at most 'x'; the first one is. */
static __device__ inline int64_t last_up_to (const int64_t *value, int64_t n, int64_t x)
{
    int64_t low = 0, high = n; // value[low] <= x, and value[high] > x or high is n

    while (high - low > 1) {
        int64_t middle = (low + high) / 2;

        if (value[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    return low;
}

__global__ void __launch_bounds__ (CUDA_THREADS)
    place_rows (struct kern_expert_chunks a, struct chunks s)
{
    int64_t rows = s.part[a.parts];

    for (int64_t j = cuda_thread (); j < rows; j += cuda_num_threads ()) {
        int64_t p = last_up_to (s.part, a.parts, j);
        const int64_t *begin = s.begin + p * (s.in_part + 1);
        int64_t at = j - s.part[p], chunk = last_up_to (begin, s.in_part, at);
        int64_t e, source = cuda_divide (chunk, a.experts, &e);
        int64_t row = s.wanted[(e * a.parts + p) * a.sources + source] + at - begin[chunk];

        if (a.row)
            a.row[j] = (int32_t)row;
        if (a.source)
            a.source[row] = (int32_t)j;
    }
}

int cuda_expert_chunks (const struct cuda_call *call, const struct kern_expert_chunks *a,
                        struct mg_error *err)
{
    const char *op = "expert_chunks";
    cudaLaunchConfig_t parts = cuda_config (call, cuda_blocks (a->parts), CUDA_THREADS, 0);
    cudaLaunchConfig_t one = cuda_config (call, 1, CUDA_THREADS, 0);
    struct chunks s;

    s.in_part = a->sources * a->experts;
    s.begin = (int64_t *)call->scratch;
    s.part = s.begin + a->parts * (s.in_part + 1);
    s.wanted = s.part + a->parts + 1;
    if (a->parts > 0
        && cuda_launched (cudaLaunchKernelEx (&parts, cuda_kernel<scan_parts> (), *a, s), op, err)
               < 0)
        return -1;
    if (cuda_launched (cudaLaunchKernelEx (&one, cuda_kernel<scan_wanted> (), *a, s), op, err) < 0)
        return -1;
    if ((!a->row && !a->source) || s.in_part == 0)
        return 0;
    return cuda_launch_each<place_rows> (call, op, err, a->parts * a->limit, *a, s);
}
