/* bias_dropout_add - bias_dropout_add and position, both directions: exact coordinates, aliased
 * operands, absent operands, the share of what is dropped
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum alias { NONE, X, RESIDUAL };

/* Positions of the rows: 0, 1, ...; later ones; others for every entry, some more than once. */
enum positions { PLAIN, OFFSET, ENTRIES, NUM_POSITIONS };

struct problem {
    int64_t batch, tokens, cols; /* tokens = positions x batch */
    struct kern_dropout dropout;
    bool bias, residual;
    enum alias alias;
    float *x, *b, *r, *table, *before;
    int64_t positions; /* rows of the table */
    int32_t *at;
};

static const int64_t samples[8] = { 5, 6, 1234567890123, 0, 77, 78, 79, 80 };

static const struct {
    int64_t positions, batch, cols;
} shapes[] = {
    { 0, 1, 4 },  { 1, 1, 1 },    { 3, 2, 5 },    { 2, 3, 31 },   { 5, 1, 32 },
    { 4, 2, 33 }, { 17, 4, 255 }, { 9, 8, 256 },  { 3, 2, 257 },  { 40, 2, 300 },
    { 2, 1, 1030 },
};

static void set_positions (struct problem *a, enum positions kind)
{
    int64_t rows = a->tokens / a->batch;
    bool each = kind == ENTRIES;

    free (a->at);
    a->at = kit_alloc ((size_t)a->tokens, sizeof (int32_t));
    for (int64_t b = 0; b < (each ? a->batch : 1); b++)
        for (int64_t s = 0; s < rows; s++)
            a->at[b * rows + s] = (int32_t)(each ? (s / 2 + 5 * b) % a->positions : 7 + s);
    a->dropout.position = (struct kern_positions){ .at = kind == PLAIN ? NULL : a->at,
                                                   .stride_s = 1,
                                                   .stride_b = each ? rows : 0 };
}

static int64_t position_of (const struct kern_dropout *d, int64_t row)
{
    const struct kern_positions *p = &d->position;
    int64_t s = row / d->batch, b = row % d->batch;

    return p->at ? p->at[s * p->stride_s + b * p->stride_b] : s;
}

static struct problem problem_new (size_t shape, double p)
{
    struct problem a = { .batch = shapes[shape].batch,
                         .tokens = shapes[shape].positions * shapes[shape].batch,
                         .cols = shapes[shape].cols,
                         .positions = shapes[shape].positions + 9 };
    size_t n = (size_t)(a.tokens * a.cols), table = (size_t)(a.positions * a.cols);

    a.dropout = (struct kern_dropout){ .p = p,
                                       .key = rng_key (3, RNG_DROPOUT_HIDDEN, 1, shape),
                                       .sample = samples,
                                       .batch = a.batch };
    set_positions (&a, OFFSET);
    a.x = kit_alloc (n, sizeof (float));
    a.r = kit_alloc (n, sizeof (float));
    a.b = kit_alloc ((size_t)a.cols, sizeof (float));
    a.table = kit_alloc (table, sizeof (float));
    a.before = kit_alloc (table, sizeof (float));
    kit_random (a.x, n, 1);
    kit_random (a.r, n, 2);
    kit_random (a.b, (size_t)a.cols, 3);
    kit_random (a.table, table, 4);
    kit_random (a.before, table, 5);
    return a;
}

static void problem_free (struct problem *a)
{
    free (a->x);
    free (a->r);
    free (a->b);
    free (a->table);
    free (a->at);
    free (a->before);
}

/* The definition in kernels.h. */
static double factor (const struct kern_dropout *d, int64_t row, int64_t col)
{
    uint32_t bits[4];

    if (d->p == 0)
        return 1;
    rng_philox (d->key, (uint32_t)(col / 4),
                (uint32_t)position_of (d, row),
                (uint64_t)d->sample[row % d->batch], bits);
    return bits[col % 4] < rng_threshold (d->p) ? 0 : 1 / (1 - d->p);
}

static size_t size (const struct problem *a)
{
    return (size_t)(a->tokens * a->cols);
}

static int run_fwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *a = arg;
    struct kern_bias_dropout_add_fwd f = { .rows = a->tokens,
                                           .cols = a->cols,
                                           .x = a->alias == X ? out : a->x,
                                           .bias = a->bias ? a->b : NULL,
                                           .residual = a->alias == RESIDUAL ? out
                                                       : a->residual        ? a->r
                                                                            : NULL,
                                           .dropout = a->dropout,
                                           .y = out };

    if (a->alias != NONE)
        memcpy (out, a->alias == X ? a->x : a->r, size (a) * sizeof (float));
    return kern_bias_dropout_add_fwd (k, &f, NULL, NULL);
}

/* out: dx, dbias (if wanted) */
static int run_bwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *a = arg;
    float *dbias = out + size (a);
    struct kern_bias_dropout_add_bwd b = { .rows = a->tokens,
                                           .cols = a->cols,
                                           .dy = a->alias == X ? out : a->x,
                                           .dropout = a->dropout,
                                           .dx = out,
                                           .dbias = a->bias ? dbias : NULL };

    if (a->alias == X)
        memcpy (out, a->x, size (a) * sizeof (float));
    if (a->bias)
        memcpy (dbias, a->before, (size_t)a->cols * sizeof (float));
    return kern_bias_dropout_add_bwd (k, &b, NULL, NULL);
}

static int run_position_fwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *a = arg;
    struct kern_position_fwd f = { .tokens = a->tokens,
                                   .cols = a->cols,
                                   .x = a->alias == X ? out : a->x,
                                   .table = a->table,
                                   .count = a->positions,
                                   .dropout = a->dropout,
                                   .y = out };

    if (a->alias == X)
        memcpy (out, a->x, size (a) * sizeof (float));
    return kern_position_fwd (k, &f, NULL, NULL);
}

/* out: dx, dposition */
static int run_position_bwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *a = arg;
    struct kern_position_bwd b = { .tokens = a->tokens,
                                   .cols = a->cols,
                                   .dy = a->alias == X ? out : a->x,
                                   .dropout = a->dropout,
                                   .dx = out,
                                   .dtable = out + size (a),
                                   .count = a->positions };

    if (a->alias == X)
        memcpy (out, a->x, size (a) * sizeof (float));
    memcpy (out + size (a), a->before,
            (size_t)(a->positions * a->cols) * sizeof (float));
    return kern_position_bwd (k, &b, NULL, NULL);
}

static void test_bias_dropout_add (const struct kit *kit, size_t shape, double p)
{
    struct problem a = problem_new (shape, p);
    double *want = kit_alloc (size (&a) + (size_t)a.cols, sizeof (double));

    for (int form = 0; form < 6; form++) {
        set_positions (&a, (enum positions)(form % NUM_POSITIONS));
        a.bias = form & 1;
        a.alias = form < 2 ? NONE : form < 4 ? X : RESIDUAL;
        a.residual = form != 0;
        for (int64_t i = 0; i < a.tokens * a.cols; i++)
            want[i] = (a.residual ? a.r[i] : 0)
                      + (a.x[i] + (a.bias ? a.b[i % a.cols] : 0))
                            * factor (&a.dropout, i / a.cols, i % a.cols);
        kit_check (kit, run_fwd, &a, size (&a), want, 2e-7,
                   "forward, shape %zu, p %g, form %d", shape, p, form);
        if (a.alias == RESIDUAL)
            continue;
        for (int64_t c = 0; c < a.cols; c++)
            want[size (&a) + (size_t)c] = a.before[c];
        for (int64_t i = 0; i < a.tokens * a.cols; i++) {
            want[i] = a.x[i] * factor (&a.dropout, i / a.cols, i % a.cols);
            want[(int64_t)size (&a) + i % a.cols] += want[i];
        }
        kit_check (kit, run_bwd, &a, size (&a) + (a.bias ? (size_t)a.cols : 0), want,
                   2e-6, "backward, shape %zu, p %g, form %d", shape, p, form);
    }
    free (want);
    problem_free (&a);
}

static void test_position (const struct kit *kit, size_t shape, double p,
                           enum positions kind)
{
    struct problem a = problem_new (shape, p);
    size_t table = (size_t)(a.positions * a.cols);
    double *want = kit_alloc (size (&a) + table, sizeof (double));

    set_positions (&a, kind);
    for (int alias = NONE; alias <= X; alias++) {
        a.alias = (enum alias)alias;
        for (int64_t i = 0; i < a.tokens * a.cols; i++) {
            int64_t row = position_of (&a.dropout, i / a.cols);

            want[i] = (a.x[i] + a.table[row * a.cols + i % a.cols])
                      * factor (&a.dropout, i / a.cols, i % a.cols);
        }
        kit_check (kit, run_position_fwd, &a, size (&a), want, 2e-7,
                   "position forward, shape %zu, p %g, positions %d", shape, p, kind);
        for (size_t i = 0; i < table; i++)
            want[size (&a) + i] = a.before[i];
        for (int64_t i = 0; i < a.tokens * a.cols; i++) {
            int64_t row = position_of (&a.dropout, i / a.cols);

            want[i] = a.x[i] * factor (&a.dropout, i / a.cols, i % a.cols);
            want[(int64_t)size (&a) + row * a.cols + i % a.cols] += want[i];
        }
        kit_check (kit, run_position_bwd, &a, size (&a) + table, want, 1e-6,
                   "position backward, shape %zu, p %g, positions %d", shape, p, kind);
    }
    free (want);
    problem_free (&a);
}

/* A shard of the sequence has the same masks as its part of the whole. */
static void test_shards (const struct kit_variant *v)
{
    enum { POSITIONS = 12, BATCH = 2, COLS = 40, N = POSITIONS * BATCH * COLS };
    static const int32_t later[] = { 4, 5, 6, 7, 8 };
    float ones[N], whole[N], part[N];
    struct kern_bias_dropout_add_fwd a = {
        .rows = POSITIONS * BATCH, .cols = COLS, .x = ones, .y = whole,
        .dropout = { .p = 0.3, .key = 99, .sample = samples, .batch = BATCH }
    };

    for (int i = 0; i < N; i++)
        ones[i] = 1;
    kern_bias_dropout_add_fwd (v->k, &a, NULL, NULL);
    a.rows = 5 * BATCH;
    a.dropout.position = (struct kern_positions){ .at = later, .stride_s = 1 };
    a.y = part;
    kern_bias_dropout_add_fwd (v->k, &a, NULL, NULL);
    ok (memcmp (part, whole + 4 * BATCH * COLS, 5 * BATCH * COLS * sizeof (float)) == 0,
        "%s: positions 4 to 8 of the sequence", v->name);
    a.rows = POSITIONS;
    a.dropout.batch = 1;
    a.dropout.position.at = NULL;
    a.dropout.sample = samples + 1;
    kern_bias_dropout_add_fwd (v->k, &a, NULL, NULL);
    ok (memcmp (part + 3 * COLS, whole + (3 * BATCH + 1) * COLS, COLS * sizeof (float))
            == 0,
        "%s: the second entry of the batch", v->name);
}

static void test_statistics (const struct kit_variant *v, double p)
{
    enum { ROWS = 64, COLS = 1000 };
    struct kit_array x = kit_array (ROWS * COLS, 0), y = kit_array (ROWS * COLS, 0);
    struct kern_bias_dropout_add_fwd a = {
        .rows = ROWS, .cols = COLS, .x = x.x, .y = y.x,
        .dropout = { .p = p, .key = 5, .sample = samples, .batch = 4 }
    };
    int dropped = 0, pairs = 0, wrong = 0, n = ROWS * COLS;

    for (int i = 0; i < n; i++)
        x.x[i] = 1;
    kern_bias_dropout_add_fwd (v->k, &a, NULL, NULL);
    for (int i = 0; i < n; i++) {
        dropped += y.x[i] == 0;
        pairs += i >= COLS && y.x[i] == 0 && y.x[i - COLS] == 0;
        wrong += y.x[i] != 0 && y.x[i] != (float)(1 / (1 - p));
    }
    is_int (wrong, 0, "%s: p %g: what is kept is scaled", v->name, p);
    is_near (dropped / (double)n, p, 5 * sqrt (p * (1 - p) / n), "%s: share dropped",
             v->name);
    is_near (pairs / (double)(n - COLS), p * p, 5 * sqrt (p * p / n),
             "%s: rows are independent", v->name);
    kit_array_free (&x);
    kit_array_free (&y);
}

int main (void)
{
    static const double probabilities[] = { 0, 0.1, 0.5 };
    struct kit kit;

    kit_open (&kit);
    for (size_t s = 0; s < sizeof (shapes) / sizeof (shapes[0]); s++) {
        for (int p = 0; p < 3; p++) {
            test_bias_dropout_add (&kit, s, probabilities[p]);
            for (int kind = PLAIN; kind < NUM_POSITIONS; kind++)
                test_position (&kit, s, probabilities[p], (enum positions)kind);
        }
    }
    for (size_t i = 0; i < kit.count; i++) {
        test_shards (&kit.variants[i]);
        test_statistics (&kit.variants[i], 0.1);
        test_statistics (&kit.variants[i], 0.9);
    }
    kit_close (&kit);
    return done_testing ();
}
