/* embedding - shards of a vocabulary, forward exact, backward in the order of tokens */

#include <stdlib.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

struct problem {
    int64_t tokens, cols, first, count;
    const int32_t *id;
    const float *table, *dout, *before;
};

static const struct {
    int64_t tokens, cols, vocab, first, count;
} shapes[] = {
    { 0, 4, 3, 0, 3 },     { 1, 1, 1, 0, 1 },      { 5, 7, 10, 0, 10 },
    { 40, 16, 10, 5, 5 },  { 40, 33, 10, 3, 4 },   { 100, 128, 7, 0, 7 },
    { 64, 129, 50, 25, 25 }, { 300, 700, 40, 0, 20 }, { 9, 12, 5, 5, 0 },
};

static int run_fwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct kern_embedding_fwd a
        = { p->tokens, p->cols, p->id, p->first, p->count, p->table, out, MG_FLOAT32 };

    return kern_embedding_fwd (k, &a, NULL, NULL);
}

static int run_bwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct kern_embedding_bwd a
        = { p->tokens, p->cols, p->id, p->first, p->count, p->dout, out,
            MG_FLOAT32, MG_FLOAT32 };

    memcpy (out, p->before, (size_t)(p->count * p->cols) * sizeof (float));
    return kern_embedding_bwd (k, &a, NULL, NULL);
}

static void test_shape (const struct kit *kit, size_t s)
{
    struct problem p = { .tokens = shapes[s].tokens,
                         .cols = shapes[s].cols,
                         .first = shapes[s].first,
                         .count = shapes[s].count };
    size_t n = (size_t)(p.tokens * p.cols), rows = (size_t)(p.count * p.cols);
    struct kit_array table = kit_array (rows, 1), dout = kit_array (n, 3);
    struct kit_array sum = kit_array (rows, 0), before = kit_array (rows, 2);
    int32_t *id = kit_alloc ((size_t)p.tokens, sizeof (*id));
    double *want = kit_alloc (n + rows, sizeof (double));

    kit_random (table.x, rows, 1);
    kit_random (dout.x, n, 2);
    kit_random (before.x, rows, 3);
    memcpy (sum.x, before.x, rows * sizeof (float));
    p.id = id;
    p.table = table.x;
    p.dout = dout.x;
    p.before = before.x;
    for (int64_t t = 0; t < p.tokens; t++) {
        int64_t row = (id[t] = (int32_t)((t * t + 3 * t) % shapes[s].vocab)) - p.first;
        bool local = row >= 0 && row < p.count;

        for (int64_t c = 0; c < p.cols; c++) {
            want[t * p.cols + c] = local ? table.x[row * p.cols + c] : 0;
            if (local)
                sum.x[row * p.cols + c] += dout.x[t * p.cols + c];
        }
    }
    kit_check (kit, run_fwd, &p, n, want, 0, "forward, shape %zu", s);
    for (size_t i = 0; i < rows; i++)
        want[i] = sum.x[i];
    kit_check (kit, run_bwd, &p, rows, want, 0, "backward, shape %zu", s);
    kit_array_free (&table);
    kit_array_free (&dout);
    kit_array_free (&sum);
    kit_array_free (&before);
    free (id);
    free (want);
}

int main (void)
{
    struct kit kit;

    kit_open (&kit);
    for (size_t s = 0; s < sizeof (shapes) / sizeof (shapes[0]); s++)
        test_shape (&kit, s);
    kit_close (&kit);
    return done_testing ();
}
