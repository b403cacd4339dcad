/* attention_logits - the largest logit that attention tells, and scores that are rounded to
 * float16 after a division by the layer's number, both against plain loops in double
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/half.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { HEADS = 4, GROUPS = 2, DIM = 12, SEQ = 150, ROWS = HEADS * SEQ, COEFF = 3 };
enum { QUERIES = ROWS * DIM, KEYS = GROUPS * SEQ * DIM };

/* Everything of one call.  q and out are [SEQ][HEADS][DIM], k and v are [SEQ][GROUPS][DIM]. */
struct problem {
    struct kern_attention_fwd a; /* without outputs */
    int32_t start[SEQ];
    float sink[HEADS];
    float q[QUERIES], k[KEYS], v[KEYS], dout[QUERIES];
    uint16_t narrow[4][QUERIES]; /* the same in float16 */
    double prob[ROWS][SEQ];      /* wanted probabilities */
    double lse[ROWS], most;      /* wanted; 'most': the largest score */
};

/* Whole numbers from -8 to 8, whose products are exact in float32. */
static void draw (float *x, size_t n, uint64_t seed)
{
    kit_random (x, n, seed);
    for (size_t i = 0; i < n; i++)
        x[i] = rintf (8 * x[i]);
}

static struct problem *problem_create (void)
{
    struct problem *p = kit_alloc (1, sizeof (*p));
    const float *from[] = { p->q, p->k, p->v, p->dout };

    draw (p->q, QUERIES, 1);
    draw (p->k, KEYS, 2);
    draw (p->v, KEYS, 3);
    draw (p->dout, QUERIES, 4);
    for (int i = 0; i < HEADS; i++)
        p->sink[i] = 900;
    for (int i = 0; i < SEQ; i++)
        p->start[i] = i < 97 ? 0 : 97;
    for (int x = 0; x < 4; x++)
        for (int i = 0; i < (x == 1 || x == 2 ? KEYS : QUERIES); i++)
            p->narrow[x][i] = half_to_fp16 (from[x][i]);
    p->a = (struct kern_attention_fwd){
        .batch = 1, .heads = HEADS, .kv_heads = GROUPS, .seq_q = SEQ, .seq_k = SEQ,
        .head_dim = DIM, .scale = 1.0 / 256, .causal = true, .dtype = MG_FLOAT32,
        .q = p->q, .k = p->k, .v = p->v,
        .q_stride_s = HEADS * DIM, .q_stride_g = HEADS / GROUPS * DIM, .q_stride_h = DIM,
        .kv_stride_s = GROUPS * DIM, .kv_stride_g = DIM,
        .out_stride_s = HEADS * DIM, .out_stride_h = DIM,
    };
    return p;
}

static bool is_visible (const struct problem *p, int i, int j)
{
    const struct kern_window *w = &p->a.window;

    return (!p->a.causal || j <= i) && (!p->a.start.at || j >= p->start[i])
           && (!w->set || w->left < 0 || j >= i - w->left);
}

static double score (const struct problem *p, int head, int i, int j)
{
    const float *q = p->q + (i * HEADS + head) * DIM, *k = p->k + (j * GROUPS + head / 2) * DIM;
    double sum = 0;

    for (int d = 0; d < DIM; d++)
        sum += (double)q[d] * (double)k[d];
    sum *= p->a.scale;
    if (p->a.coeff == 0 || p->a.dtype != MG_FLOAT16)
        return sum;
    return p->a.coeff * (double)half_from_fp16 (half_to_fp16 ((float)(sum / p->a.coeff)));
}

static void solve (struct problem *p)
{
    p->most = -INFINITY;
    for (int row = 0; row < ROWS; row++) {
        int head = row / SEQ, i = row % SEQ;
        double most = p->a.has_sink ? p->sink[head] : -INFINITY, sum = 0;

        for (int j = 0; j < SEQ; j++) {
            p->prob[row][j] = is_visible (p, i, j) ? score (p, head, i, j) : -INFINITY;
            p->most = fmax (p->most, p->prob[row][j]);
            most = fmax (most, p->prob[row][j]);
        }
        for (int j = 0; j < SEQ; j++)
            sum += p->prob[row][j] = exp (p->prob[row][j] - most);
        sum += p->a.has_sink ? exp (p->sink[head] - most) : 0;
        for (int j = 0; j < SEQ; j++)
            p->prob[row][j] /= sum;
        p->lse[row] = most + log (sum);
    }
}

/* --- the largest logit --- */

static void test_largest (const struct kit_variant *v, struct problem *p, const char *name)
{
    struct kern_attention_fwd a = p->a;
    float *out = kit_alloc (2 * QUERIES, sizeof (*out)), lse[ROWS], most = -INFINITY;
    float large = 1e6f;

    solve (p);
    a.out = out;
    a.lse = lse;
    ok (kern_attention_fwd (v->k, &a, NULL, NULL) == 0, "%s: %s", v->name, name);
    a.out = out + QUERIES;
    a.max_logit = &most;
    kern_attention_fwd (v->k, &a, NULL, NULL);
    is_near ((double)most, p->most, 1e-6 * fabs (p->most), "the largest logit");
    ok (memcmp (out, out + QUERIES, QUERIES * sizeof (*out)) == 0,
        "the context has the same bits with it and without");
    a.max_logit = &large;
    kern_attention_fwd (v->k, &a, NULL, NULL);
    ok (large == 1e6f, "a larger one stays");
    free (out);
}

static void test_all_largest (const struct kit_variant *v)
{
    struct problem *p = problem_create ();

    test_largest (v, p, "causal");
    p->a.scale *= -1;
    test_largest (v, p, "negative scores");
    p->a.scale *= -1;
    p->a.has_sink = true;
    p->a.sink = p->sink;
    test_largest (v, p, "a sink above all scores, which is no logit");
    p->a.has_sink = false;
    p->a.window = (struct kern_window){ true, 3, -1 };
    test_largest (v, p, "a window");
    p->a.window.set = false;
    p->a.start = (struct kern_starts){ p->start, 1, 0 };
    test_largest (v, p, "documents");
    p->a.start.at = NULL;
    p->a.causal = false;
    test_largest (v, p, "all keys");
    free (p);
}

/* --- scores of float16 --- */

/* dq, dk, dv by the formulas in attention_bwd.c, with the probabilities that were solved. */
static void differentiate (const struct problem *p, double *dq, double *dk, double *dv)
{
    for (int row = 0; row < ROWS; row++) {
        int head = row / SEQ, i = row % SEQ, at = (i * HEADS + head) * DIM;
        double dp[SEQ], delta = 0;

        for (int j = 0; j < SEQ; j++) {
            int key = (j * GROUPS + head / 2) * DIM;

            dp[j] = 0;
            for (int d = 0; d < DIM; d++) {
                dp[j] += (double)p->dout[at + d] * (double)p->v[key + d];
                dv[key + d] += p->prob[row][j] * (double)p->dout[at + d];
            }
            delta += p->prob[row][j] * dp[j];
        }
        for (int j = 0; j < SEQ; j++) {
            int key = (j * GROUPS + head / 2) * DIM;
            double ds = p->a.scale * p->prob[row][j] * (dp[j] - delta);

            for (int d = 0; d < DIM; d++) {
                dq[at + d] += ds * (double)p->k[key + d];
                dk[key + d] += ds * (double)p->q[at + d];
            }
        }
    }
}

/* The largest error of float16 results, in parts of the largest wanted one. */
static double error_of (const uint16_t *got, const double *want, int n)
{
    double worst = 0, most = 0;

    for (int i = 0; i < n; i++) {
        worst = fmax (worst, fabs ((double)half_from_fp16 (got[i]) - want[i]));
        most = fmax (most, fabs (want[i]));
    }
    return worst / most;
}

static void test_rounded (const struct kit_variant *v)
{
    struct problem *p = problem_create ();
    uint16_t *out = kit_alloc (4 * QUERIES, sizeof (*out));
    double *want = kit_alloc (3 * QUERIES, sizeof (*want)), worst = 0, apart = 0;
    float lse[ROWS], plain[ROWS];
    struct kern_attention_bwd g = { .dout = p->narrow[3], .dq = out + QUERIES,
                                    .dk = out + 2 * QUERIES, .dv = out + 3 * QUERIES };

    p->a.dtype = MG_FLOAT16;
    p->a.coeff = COEFF;
    g.fwd = p->a;
    g.fwd.q = p->narrow[0];
    g.fwd.k = p->narrow[1];
    g.fwd.v = p->narrow[2];
    g.fwd.out = out;
    g.fwd.coeff = 0;
    g.fwd.lse = plain;
    ok (kern_attention_fwd (v->k, &g.fwd, NULL, NULL) == 0, "%s: float16", v->name);
    g.fwd.coeff = COEFF;
    g.fwd.lse = lse;
    ok (kern_attention_fwd (v->k, &g.fwd, NULL, NULL) == 0
            && kern_attention_bwd (v->k, &g, NULL, NULL) == 0, "with scores that are rounded");
    solve (p);
    for (int i = 0; i < ROWS; i++) {
        worst = fmax (worst, fabs ((double)lse[i] - p->lse[i]));
        apart = fmax (apart, fabs ((double)plain[i] - p->lse[i]));
    }
    ok (worst < 1e-5, "lse is that of rounded scores (%.2g)", worst);
    ok (apart > 5e-5, "and not that of exact ones (%.2g)", apart);
    differentiate (p, want, want + QUERIES, want + 2 * QUERIES);
    worst = fmax (fmax (error_of (g.dq, want, QUERIES), error_of (g.dk, want + QUERIES, KEYS)),
                  error_of (g.dv, want + 2 * QUERIES, KEYS));
    ok (worst < 1e-3, "gradients pass the rounding (%.2g)", worst);
    free (want);
    free (out);
    free (p);
}

/* Scores of up to 3 65504 are finite with coeff 3, larger ones are not. */
static void test_range (const struct kit_variant *v)
{
    static const struct {
        double scale, coeff;
        bool finite;
    } rows[] = { { 150000, COEFF, true }, { 150000, 1, false }, { 150000, 0, true } };
    uint16_t one[DIM] = { half_to_fp16 (1) }, out[DIM];

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        float lse = 0;
        const struct kern_attention_fwd a = {
            .batch = 1, .heads = 1, .kv_heads = 1, .seq_q = 1, .seq_k = 1, .head_dim = DIM,
            .scale = rows[i].scale, .coeff = rows[i].coeff, .causal = true,
            .dtype = MG_FLOAT16, .q = one, .k = one, .v = one, .out = out, .lse = &lse,
        };

        kern_attention_fwd (v->k, &a, NULL, NULL);
        ok (isfinite (lse) == rows[i].finite, "%s: a score of %g with coeff %g: %g", v->name,
            rows[i].scale, rows[i].coeff, (double)lse);
    }
}

/* Other types are as they were. */
static void test_other_types (const struct kit_variant *v)
{
    struct problem *p = problem_create ();
    float *out = kit_alloc (2 * QUERIES, sizeof (*out)), lse[ROWS];
    struct kern_attention_fwd a = p->a;

    a.lse = lse;
    a.out = out;
    kern_attention_fwd (v->k, &a, NULL, NULL);
    a.out = out + QUERIES;
    a.coeff = COEFF;
    kern_attention_fwd (v->k, &a, NULL, NULL);
    ok (memcmp (out, out + QUERIES, QUERIES * sizeof (*out)) == 0,
        "%s: float32 does not read coeff", v->name);
    free (out);
    free (p);
}

int main (void)
{
    struct kit kit;

    kit_open (&kit);
    for (size_t i = 0; i < kit.count; i++) {
        test_all_largest (&kit.variants[i]);
        test_rounded (&kit.variants[i]);
        test_range (&kit.variants[i]);
        test_other_types (&kit.variants[i]);
    }
    kit_close (&kit);
    return done_testing ();
}
