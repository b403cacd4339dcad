/* twins_embedding.c - embeddings, positions and cross entropy on the double against the CPU's */

#include <stdlib.h>

#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { FIRST = 100, COUNT = 11, BATCH = 2 };

/* Ids: many are the same, and some are of another shard. */
static const int32_t *ids (int64_t tokens)
{
    int32_t *x = kit_alloc ((size_t)tokens + 1, sizeof (*x));
    const int32_t *made;

    for (int64_t i = 0; i < tokens; i++)
        x[i] = (int32_t)(FIRST - 1 + i * i * 7 % (COUNT + 2));
    made = twins_values ((size_t)tokens, sizeof (*x), 0, x);
    free (x);
    return made;
}

static void test_embedding (enum mg_dtype dtype, enum mg_dtype grad_dtype, int64_t tokens,
                            int64_t cols, size_t shift)
{
    size_t n = (size_t)(tokens * cols), table = (size_t)(COUNT * cols);
    struct kern_embedding_fwd f = { .tokens = tokens, .cols = cols, .first = FIRST,
                                    .count = COUNT, .dtype = dtype };
    struct kern_embedding_bwd b = { .tokens = tokens, .cols = cols, .first = FIRST,
                                    .count = COUNT, .dtype = dtype, .grad_dtype = grad_dtype };

    f.id = ids (tokens);
    f.table = twins_random (table, dtype, shift, 1);
    f.out = twins_random (n, dtype, shift, 2);
    twins_check (KERN_EMBEDDING_FWD, &f, TWINS_EXACT, "embedding_fwd %s %dx%d+%zu",
                 mg_dtype_name (dtype), (int)tokens, (int)cols, shift);
    b.id = ids (tokens);
    b.dout = twins_random (n, dtype, shift, 3);
    b.dtable = twins_random (table, grad_dtype, shift, 4);
    twins_check (KERN_EMBEDDING_BWD, &b, TWINS_EXACT, "embedding_bwd %s to %s %dx%d+%zu",
                 mg_dtype_name (dtype), mg_dtype_name (grad_dtype), (int)tokens, (int)cols, shift);
}

static struct kern_dropout dropout (double p)
{
    static const int64_t sample[BATCH] = { 5, INT64_C (0x123456789ab) };
    struct kern_dropout d = { .p = p, .key = UINT64_C (0x123456789abcdef), .batch = BATCH };

    d.sample = twins_values (BATCH, sizeof (sample[0]), 0, sample);
    return d;
}

/* Batch entries that do not ascend; or none, and the entry of a row is the row's number. */
static struct kern_positions entries (int64_t tokens, bool listed)
{
    struct kern_positions p = { .stride_s = BATCH, .stride_b = 1 };
    int32_t at[64];

    for (int64_t i = 0; i < tokens; i++)
        at[i] = (int32_t)(i * 5 % 7);
    if (!listed)
        return (struct kern_positions){ 0 };
    p.at = twins_values ((size_t)tokens, sizeof (at[0]), 0, at);
    return p;
}

static void test_position (enum mg_dtype dtype, int64_t cols, size_t shift, double p, bool listed)
{
    enum { TOKENS = 34 };
    size_t n = (size_t)(TOKENS * cols), table = (size_t)(TOKENS * cols);
    struct kern_position_fwd f = { .tokens = TOKENS, .cols = cols, .count = TOKENS,
                                   .dtype = dtype };
    struct kern_position_bwd b = { .tokens = TOKENS, .cols = cols, .count = TOKENS,
                                   .dtype = dtype, .grad_dtype = MG_FLOAT32 };

    f.dropout = dropout (p);
    f.entry = entries (TOKENS, listed);
    f.x = twins_random (n, dtype, shift, 1);
    f.table = twins_random (table, dtype, shift, 2);
    f.y = listed ? (void *)f.x : twins_random (n, dtype, shift, 3);
    twins_check (KERN_POSITION_FWD, &f, twins_tolerance (dtype), "position_fwd %s %d+%zu p %g%s",
                 mg_dtype_name (dtype), (int)cols, shift, p, listed ? " listed" : "");
    b.dropout = dropout (p);
    b.entry = entries (TOKENS, listed);
    b.dy = twins_random (n, dtype, shift, 4);
    b.dx = listed ? (void *)b.dy : twins_random (n, dtype, shift, 5);
    b.dtable = twins_random (table, MG_FLOAT32, shift, 6);
    twins_check (KERN_POSITION_BWD, &b, twins_tolerance (dtype), "position_bwd %s %d+%zu p %g%s",
                 mg_dtype_name (dtype), (int)cols, shift, p, listed ? " listed" : "");
}

static const int32_t *labels (int64_t tokens)
{
    int32_t x[16];

    for (int64_t i = 0; i < tokens; i++)
        x[i] = (int32_t)(FIRST - 2 + i * 9);
    return twins_values ((size_t)tokens, sizeof (x[0]), 0, x);
}

static void test_xent (int64_t cols, int64_t valid, size_t shift)
{
    enum { TOKENS = 7 };
    size_t n = (size_t)(TOKENS * cols);
    struct kern_xent_max m = { .tokens = TOKENS, .cols = cols, .valid = valid };
    struct kern_xent_sum s = { .tokens = TOKENS, .cols = cols, .valid = valid, .first = FIRST };

    m.logits = twins_random (n, MG_FLOAT32, shift, 1);
    m.max = twins_random (TOKENS, MG_FLOAT32, 0, 2);
    twins_check (KERN_XENT_MAX, &m, TWINS_EXACT, "xent_max %d of %d+%zu", (int)valid, (int)cols,
                 shift);
    s.logits = twins_random (n, MG_FLOAT32, shift, 1);
    s.max = twins_random (TOKENS, MG_FLOAT32, 0, 2);
    s.label = labels (TOKENS);
    s.sum = twins_random (TOKENS, MG_FLOAT32, 0, 3);
    s.target = twins_random (TOKENS, MG_FLOAT32, 0, 4);
    twins_check (KERN_XENT_SUM, &s, 1e-5, "xent_sum %d of %d+%zu", (int)valid, (int)cols, shift);
    for (int d = 0; d < TWINS_DTYPES; d++) {
        struct kern_xent_bwd b = { .tokens = TOKENS, .cols = cols, .valid = valid,
                                   .first = FIRST, .dtype = twins_dtypes[d] };
        float sum[TOKENS];

        for (int t = 0; t < TOKENS; t++)
            sum[t] = (float)(t + 20);
        b.max = twins_random (TOKENS, MG_FLOAT32, 0, 2);
        b.sum = twins_numbers (TOKENS, MG_FLOAT32, 0, sum);
        b.label = labels (TOKENS);
        b.scale = twins_random (TOKENS, MG_FLOAT32, 0, 5);
        if (b.dtype == MG_FLOAT32) {
            b.logits = twins_random (n, MG_FLOAT32, shift, 1);
            twins_check (KERN_XENT_BWD, &b, 1e-5, "xent_bwd %d of %d+%zu", (int)valid, (int)cols,
                         shift);
        } else { // 16-bit elements in a row of floats, behind which logits are left
            b.logits = twins_random (2 * n, b.dtype, 2 * shift, 1);
            twins_check (KERN_XENT_BWD, &b, 1e-2, "xent_bwd %s %d of %d+%zu",
                         mg_dtype_name (b.dtype), (int)valid, (int)cols, shift);
        }
    }
}

static void test_loss (int64_t tokens, bool per_token, bool given)
{
    static const double count = 5, weight = 3, times = 0.25;
    struct kern_xent_loss a = { .tokens = tokens, .per_token = per_token };
    float sum[600], mask[600];

    for (int64_t t = 0; t < tokens; t++) {
        sum[t] = (float)(1 + t % 13);
        mask[t] = t % 3 == 1 ? 0.0f : 1.0f;
    }
    a.sum = twins_numbers ((size_t)tokens, MG_FLOAT32, 0, sum);
    a.target = twins_random ((size_t)tokens, MG_FLOAT32, 0, 2);
    a.mask = twins_numbers ((size_t)tokens, MG_FLOAT32, 0, mask);
    a.scale = twins_random ((size_t)tokens, MG_FLOAT32, 0, 3);
    a.out = twins_random (3, MG_FLOAT64, 0, 4);
    if (given) {
        a.count = twins_values (1, sizeof (count), 0, &count);
        a.weight = twins_values (1, sizeof (weight), 0, &weight);
        a.times = twins_values (1, sizeof (times), 0, &times);
    }
    twins_check (KERN_XENT_LOSS, &a, 1e-5, "xent_loss of %d%s%s", (int)tokens,
                 per_token ? " each" : "", given ? " weighed" : "");
}

void twins_embedding (void)
{
    for (int d = 0; d < TWINS_DTYPES; d++) {
        test_embedding (twins_dtypes[d], MG_FLOAT32, 37, 64, 0);
        test_embedding (twins_dtypes[d], twins_dtypes[d], 37, 13, 1);
        test_embedding (twins_dtypes[d], MG_FLOAT32, 0, 8, 0);
        for (int listed = 0; listed < 2; listed++) {
            test_position (twins_dtypes[d], 64, 0, 0.3, listed);
            test_position (twins_dtypes[d], 13, 1, 0.3, listed);
            test_position (twins_dtypes[d], 64, 0, 0, listed);
        }
    }
    test_embedding (MG_FLOAT32, MG_FLOAT32, 4100, 4, 0); // keys that no block sorts alone
    test_xent (1032, 1032, 0);
    test_xent (3000, 2900, 0);
    test_xent (37, 33, 1);
    test_xent (8, 0, 0);
    test_loss (0, false, false);
    test_loss (7, true, false);
    test_loss (600, false, false);
    test_loss (600, false, true);
}
