/* gpt-reference KEY=VALUE... - train a GPT in double precision with plain loops, sharing
 * nothing with the library, for tests to compare with
 *
 * Writes to the current directory: init.safetensors and batches.safetensors, random weights
 * and batches to start from, and what comes of them: reference.json (metrics, a JSON line
 * an iteration), gradients.safetensors (first iteration, before clipping) and
 * weights.safetensors.  Formulas: Radford et al. 2019 (the model), Ba et al. 2016 (layer
 * norm), Hendrycks, Gimpel 2016 (GeLU by tanh), Loshchilov, Hutter 2019 (AdamW).
 *
 * The loss of an iteration is the mean over its microbatches, each 'micro' samples in
 * order, of the mean over the microbatch's tokens weighted by the mask; with per-token=1
 * it is the mean over all tokens of the iteration, weighted by the mask.
 */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = 200, LAYER_TENSORS = 12 };

static struct { /* numbers of the command line, with what they are otherwise */
    double layers, hidden, heads, dim, ffn, seq, positions, vocab, tied;
    double micro, global, batches, iters, seed, per_token;
    double lr, min_lr, warmup, decay, clip, beta1, beta2, eps;
} o = {
    .layers = 2, .hidden = 16, .heads = 2, .dim = 8, .ffn = 64, .seq = 8, .positions = 8,
    .vocab = 32, .tied = 1, .micro = 1, .global = 1, .batches = 1, .iters = 1, .seed = 1,
    .lr = 1e-3, .min_lr = 0, .warmup = 0, .decay = 0.01, .clip = 1, .beta1 = 0.9,
    .beta2 = 0.999, .eps = 1e-8,
};

static const struct {
    const char *name;
    double *value;
} options[] = {
    { "layers", &o.layers }, { "hidden", &o.hidden }, { "heads", &o.heads },
    { "dim", &o.dim }, { "ffn", &o.ffn }, { "seq", &o.seq }, { "positions", &o.positions },
    { "vocab", &o.vocab }, { "tied", &o.tied }, { "micro", &o.micro },
    { "global", &o.global }, { "batches", &o.batches }, { "iters", &o.iters },
    { "seed", &o.seed }, { "per-token", &o.per_token },
    { "lr", &o.lr }, { "min-lr", &o.min_lr }, { "warmup", &o.warmup },
    { "decay", &o.decay }, { "clip", &o.clip }, { "beta1", &o.beta1 },
    { "beta2", &o.beta2 }, { "eps", &o.eps },
};

struct tensor {
    char name[80];
    int rows, cols; /* cols 0: one dimension */
    int n;
    double *w, *g, *m, *v;
};

/* Of a layer, in this order behind the two embeddings. */
enum { NORM1_W, NORM1_B, QKV_W, QKV_B, PROJ_W, PROJ_B, NORM2_W, NORM2_B, FC1_W, FC1_B,
       FC2_W, FC2_B };

static struct tensor tensors[MAX_TENSORS];
static int num_tensors;
static int S, H, A, F, V; /* sequence, hidden, heads x dim, MLP, vocabulary */

/* What the backward pass of one sample needs of one layer. */
struct acts {
    double *x, *norm1, *hat1, *rstd1, *qkv, *prob, *context;
    double *residual, *norm2, *hat2, *rstd2, *fc1, *gelu;
};

static void fail (const char *text)
{
    fprintf (stderr, "gpt-reference: %s\n", text);
    exit (2);
}

static double *zeros (size_t n)
{
    double *p = calloc (n + 1, sizeof (*p));

    if (!p)
        fail ("out of memory");
    return p;
}

/* --- random numbers: splitmix64 --- */

static uint64_t state;

static double uniform (void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static double normal (void)
{
    double u = 1 - uniform ();

    return sqrt (-2 * log (u)) * cos (2 * M_PI * uniform ());
}

/* --- files --- */

/* safetensors: length of the header, header, data. */
static FILE *begin_file (const char *name, const char *header)
{
    FILE *f = fopen (name, "wb");
    uint64_t len = strlen (header);

    if (!f || fwrite (&len, 8, 1, f) != 1 || fwrite (header, len, 1, f) != 1)
        fail (name);
    return f;
}

static void end_file (FILE *f, const char *name)
{
    if (fclose (f) != 0)
        fail (name);
}

/* All weights, or all gradients, as float32. */
static void write_tensors (const char *name, bool gradients)
{
    static char header[MAX_TENSORS * 200];
    size_t at = 0, len = 0;
    FILE *f;

    for (int i = 0; i < num_tensors; i++) {
        const struct tensor *t = &tensors[i];
        char shape[40];

        snprintf (shape, sizeof (shape), t->cols ? "%d,%d" : "%d", t->rows, t->cols);
        len += (size_t)snprintf (header + len, sizeof (header) - len,
                                 "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],"
                                 "\"data_offsets\":[%zu,%zu]}", i ? "," : "{", t->name,
                                 shape, at, at + (size_t)t->n * 4);
        at += (size_t)t->n * 4;
    }
    snprintf (header + len, sizeof (header) - len, "}");
    f = begin_file (name, header);
    for (int i = 0; i < num_tensors; i++) {
        for (int k = 0; k < tensors[i].n; k++) {
            float x = (float)(gradients ? tensors[i].g[k] : tensors[i].w[k]);
            fwrite (&x, 4, 1, f);
        }
    }
    end_file (f, name);
}

/* Batches: random tokens, each token's label the next one plus noise, some of weight 0 or
 * one half, one sample in seven of weight 0 altogether.
 */
static void make_batches (int32_t *token, int32_t *label, float *mask, int samples)
{
    for (int s = 0; s < samples; s++) {
        for (int t = 0; t < S; t++) {
            int i = s * S + t;
            double u = uniform ();

            token[i] = (int32_t)(uniform () * V);
            label[i] = uniform () < 0.7 ? (token[i] * 3 + 1) % V : (int32_t)(uniform () * V);
            mask[i] = u < 0.25 || s % 7 == 4 ? 0.0f : u < 0.4 ? 0.5f : 1.0f;
        }
    }
}

static void write_batches (const char *name, const int32_t *token, const int32_t *label,
                           const float *mask)
{
    size_t n = (size_t)o.batches * (size_t)o.global * (size_t)S;
    char header[600];
    FILE *f;

    snprintf (header, sizeof (header),
              "{\"tokens\":{\"dtype\":\"I32\",\"shape\":[%d,%d,%d],\"data_offsets\":[0,%zu]},"
              "\"labels\":{\"dtype\":\"I32\",\"shape\":[%d,%d,%d],\"data_offsets\":[%zu,%zu]},"
              "\"loss_mask\":{\"dtype\":\"F32\",\"shape\":[%d,%d,%d],"
              "\"data_offsets\":[%zu,%zu]}}", (int)o.batches, (int)o.global, S, n * 4,
              (int)o.batches, (int)o.global, S, n * 4, n * 8, (int)o.batches, (int)o.global,
              S, n * 8, n * 12);
    f = begin_file (name, header);
    fwrite (token, 4, n, f);
    fwrite (label, 4, n, f);
    fwrite (mask, 4, n, f);
    end_file (f, name);
}

/* --- parameters --- */

static void add_tensor (const char *prefix, const char *name, int rows, int cols, double mean,
                        double std)
{
    struct tensor *t = &tensors[num_tensors++];

    snprintf (t->name, sizeof (t->name), "%s%s", prefix, name);
    t->rows = rows;
    t->cols = cols;
    t->n = rows * (cols ? cols : 1);
    t->w = zeros ((size_t)t->n);
    t->g = zeros ((size_t)t->n);
    t->m = zeros ((size_t)t->n);
    t->v = zeros ((size_t)t->n);
    for (int i = 0; i < t->n; i++)
        t->w[i] = (float)(mean + std * normal ());
}

static void make_tensors (void)
{
    add_tensor ("embedding.", "word_embeddings.weight", V, H, 0, 0.3);
    add_tensor ("embedding.", "position_embeddings.weight", (int)o.positions, H, 0, 0.3);
    for (int l = 0; l < (int)o.layers; l++) {
        char p[40];

        snprintf (p, sizeof (p), "decoder.layers.%d.", l);
        add_tensor (p, "input_layernorm.weight", H, 0, 1, 0.2);
        add_tensor (p, "input_layernorm.bias", H, 0, 0, 0.2);
        add_tensor (p, "self_attention.linear_qkv.weight", 3 * A, H, 0, 0.3);
        add_tensor (p, "self_attention.linear_qkv.bias", 3 * A, 0, 0, 0.2);
        add_tensor (p, "self_attention.linear_proj.weight", H, A, 0, 0.3);
        add_tensor (p, "self_attention.linear_proj.bias", H, 0, 0, 0.2);
        add_tensor (p, "pre_mlp_layernorm.weight", H, 0, 1, 0.2);
        add_tensor (p, "pre_mlp_layernorm.bias", H, 0, 0, 0.2);
        add_tensor (p, "mlp.linear_fc1.weight", F, H, 0, 0.3);
        add_tensor (p, "mlp.linear_fc1.bias", F, 0, 0, 0.2);
        add_tensor (p, "mlp.linear_fc2.weight", H, F, 0, 0.3);
        add_tensor (p, "mlp.linear_fc2.bias", H, 0, 0, 0.2);
    }
    add_tensor ("decoder.", "final_layernorm.weight", H, 0, 1, 0.2);
    add_tensor ("decoder.", "final_layernorm.bias", H, 0, 0, 0.2);
    if (!o.tied)
        add_tensor ("", "output_layer.weight", V, H, 0, 0.3);
}

static struct tensor *of_layer (int layer, int which)
{
    return &tensors[2 + layer * LAYER_TENSORS + which];
}

static struct tensor *final_norm (int which)
{
    return &tensors[2 + (int)o.layers * LAYER_TENSORS + which];
}

static struct tensor *output_weight (void)
{
    return o.tied ? &tensors[0] : final_norm (2);
}

/* --- operations on S rows, forward and backward; gradients are added --- */

/* y = x W^T + b. */
static void linear (double *y, const double *x, const struct tensor *w,
                    const struct tensor *b)
{
    for (int s = 0; s < S; s++) {
        for (int r = 0; r < w->rows; r++) {
            double sum = b ? b->w[r] : 0;

            for (int c = 0; c < w->cols; c++)
                sum += x[s * w->cols + c] * w->w[r * w->cols + c];
            y[s * w->rows + r] = sum;
        }
    }
}

static void linear_back (double *dx, const double *dy, const double *x, struct tensor *w,
                         struct tensor *b)
{
    for (int s = 0; s < S; s++) {
        for (int r = 0; r < w->rows; r++) {
            double d = dy[s * w->rows + r];

            for (int c = 0; c < w->cols; c++) {
                dx[s * w->cols + c] += d * w->w[r * w->cols + c];
                w->g[r * w->cols + c] += d * x[s * w->cols + c];
            }
            if (b)
                b->g[r] += d;
        }
    }
}

static void norm (double *y, double *hat, double *rstd, const double *x,
                  const struct tensor *w, const struct tensor *b)
{
    for (int s = 0; s < S; s++) {
        double mean = 0, var = 0;

        for (int c = 0; c < H; c++)
            mean += x[s * H + c] / H;
        for (int c = 0; c < H; c++)
            var += (x[s * H + c] - mean) * (x[s * H + c] - mean) / H;
        rstd[s] = 1 / sqrt (var + 1e-5);
        for (int c = 0; c < H; c++) {
            hat[s * H + c] = (x[s * H + c] - mean) * rstd[s];
            y[s * H + c] = hat[s * H + c] * w->w[c] + b->w[c];
        }
    }
}

static void norm_back (double *dx, const double *dy, const double *hat, const double *rstd,
                       struct tensor *w, struct tensor *b)
{
    for (int s = 0; s < S; s++) {
        double mean = 0, dot = 0;

        for (int c = 0; c < H; c++) {
            double g = dy[s * H + c] * w->w[c];

            mean += g / H;
            dot += g * hat[s * H + c] / H;
            w->g[c] += dy[s * H + c] * hat[s * H + c];
            b->g[c] += dy[s * H + c];
        }
        for (int c = 0; c < H; c++)
            dx[s * H + c] += rstd[s] * (dy[s * H + c] * w->w[c] - mean - hat[s * H + c] * dot);
    }
}

/* Element c of q (0), k (1) or v (2) of head h at position s. */
static int at (int s, int h, int which, int c)
{
    int dim = (int)o.dim;

    return (s * 3 * A) + (h * 3 + which) * dim + c;
}

/* prob[h][s][t] = softmax over t <= s of q k / sqrt (dim); context = prob v. */
static void attention (struct acts *a)
{
    int dim = (int)o.dim;

    for (int h = 0; h < (int)o.heads; h++) {
        for (int s = 0; s < S; s++) {
            double *p = a->prob + (h * S + s) * S, sum = 0;

            for (int t = 0; t <= s; t++) {
                double dot = 0;

                for (int c = 0; c < dim; c++)
                    dot += a->qkv[at (s, h, 0, c)] * a->qkv[at (t, h, 1, c)];
                sum += p[t] = exp (dot / sqrt (dim));
            }
            for (int t = 0; t <= s; t++)
                p[t] /= sum;
            for (int c = 0; c < dim; c++) {
                double *out = &a->context[s * A + h * dim + c];

                *out = 0;
                for (int t = 0; t <= s; t++)
                    *out += p[t] * a->qkv[at (t, h, 2, c)];
            }
        }
    }
}

static void attention_back (double *dqkv, const double *dcontext, const struct acts *a)
{
    int dim = (int)o.dim;

    for (int h = 0; h < (int)o.heads; h++) {
        for (int s = 0; s < S; s++) {
            const double *p = a->prob + (h * S + s) * S, *d = dcontext + s * A + h * dim;
            double all = 0;

            for (int c = 0; c < dim; c++)
                all += d[c] * a->context[s * A + h * dim + c];
            for (int t = 0; t <= s; t++) {
                double dp = 0, ds;

                for (int c = 0; c < dim; c++) {
                    dp += d[c] * a->qkv[at (t, h, 2, c)];
                    dqkv[at (t, h, 2, c)] += d[c] * p[t];
                }
                ds = p[t] * (dp - all) / sqrt (dim);
                for (int c = 0; c < dim; c++) {
                    dqkv[at (s, h, 0, c)] += ds * a->qkv[at (t, h, 1, c)];
                    dqkv[at (t, h, 1, c)] += ds * a->qkv[at (s, h, 0, c)];
                }
            }
        }
    }
}

static double gelu_tanh (double x)
{
    return tanh (sqrt (2 / M_PI) * (x + 0.044715 * x * x * x));
}

static double gelu_slope (double x)
{
    double t = gelu_tanh (x);

    return 0.5 * (1 + t)
           + 0.5 * x * (1 - t * t) * sqrt (2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

/* --- one layer --- */

static struct acts make_acts (void)
{
    size_t sh = (size_t)S * (size_t)H, sa = (size_t)S * (size_t)A, sf = (size_t)S * (size_t)F;

    return (struct acts){
        .x = zeros (sh), .norm1 = zeros (sh), .hat1 = zeros (sh), .rstd1 = zeros ((size_t)S),
        .qkv = zeros (3 * sa), .prob = zeros ((size_t)o.heads * (size_t)S * (size_t)S),
        .context = zeros (sa), .residual = zeros (sh), .norm2 = zeros (sh),
        .hat2 = zeros (sh), .rstd2 = zeros ((size_t)S), .fc1 = zeros (sf), .gelu = zeros (sf),
    };
}

static void layer (double *y, struct acts *a, int l)
{
    norm (a->norm1, a->hat1, a->rstd1, a->x, of_layer (l, NORM1_W), of_layer (l, NORM1_B));
    linear (a->qkv, a->norm1, of_layer (l, QKV_W), of_layer (l, QKV_B));
    attention (a);
    linear (a->residual, a->context, of_layer (l, PROJ_W), of_layer (l, PROJ_B));
    for (int i = 0; i < S * H; i++)
        a->residual[i] += a->x[i];
    norm (a->norm2, a->hat2, a->rstd2, a->residual, of_layer (l, NORM2_W),
          of_layer (l, NORM2_B));
    linear (a->fc1, a->norm2, of_layer (l, FC1_W), of_layer (l, FC1_B));
    for (int i = 0; i < S * F; i++)
        a->gelu[i] = 0.5 * a->fc1[i] * (1 + gelu_tanh (a->fc1[i]));
    linear (y, a->gelu, of_layer (l, FC2_W), of_layer (l, FC2_B));
    for (int i = 0; i < S * H; i++)
        y[i] += a->residual[i];
}

/* d: gradient of the output, then of the input. */
static void layer_back (double *d, const struct acts *a, int l)
{
    double *dgelu = zeros ((size_t)S * (size_t)F), *dnorm = zeros ((size_t)S * (size_t)H);
    double *dcontext = zeros ((size_t)S * (size_t)A), *dqkv = zeros (3 * (size_t)S * (size_t)A);

    linear_back (dgelu, d, a->gelu, of_layer (l, FC2_W), of_layer (l, FC2_B));
    for (int i = 0; i < S * F; i++)
        dgelu[i] *= gelu_slope (a->fc1[i]);
    linear_back (dnorm, dgelu, a->norm2, of_layer (l, FC1_W), of_layer (l, FC1_B));
    norm_back (d, dnorm, a->hat2, a->rstd2, of_layer (l, NORM2_W), of_layer (l, NORM2_B));
    linear_back (dcontext, d, a->context, of_layer (l, PROJ_W), of_layer (l, PROJ_B));
    attention_back (dqkv, dcontext, a);
    memset (dnorm, 0, (size_t)S * (size_t)H * sizeof (*dnorm));
    linear_back (dnorm, dqkv, a->norm1, of_layer (l, QKV_W), of_layer (l, QKV_B));
    norm_back (d, dnorm, a->hat1, a->rstd1, of_layer (l, NORM1_W), of_layer (l, NORM1_B));
    free (dgelu);
    free (dnorm);
    free (dcontext);
    free (dqkv);
}

/* --- one sample --- */

/* Sums over an iteration: loss of tokens and number of tokens, both by the mask. */
static double token_loss, token_count;

/* Softmax and its gradient: returns sum over tokens of weight x loss. */
static double cross_entropy (double *logits, const int32_t *label, const double *weight,
                             const float *mask)
{
    double total = 0;

    for (int s = 0; s < S; s++) {
        double *row = logits + s * V, max = row[0], sum = 0;

        for (int v = 1; v < V; v++)
            max = fmax (max, row[v]);
        for (int v = 0; v < V; v++)
            sum += exp (row[v] - max);
        total += weight[s] * (log (sum) + max - row[label[s]]);
        token_loss += mask[s] * (log (sum) + max - row[label[s]]);
        token_count += mask[s];
        for (int v = 0; v < V; v++)
            row[v] = weight[s] * (exp (row[v] - max) / sum - (v == label[s] ? 1 : 0));
    }
    return total;
}

/* Forward and backward pass; weight: of every token in the loss. */
static double sample (struct acts *acts, const int32_t *token, const int32_t *label,
                      const double *weight, const float *mask)
{
    size_t sh = (size_t)S * (size_t)H;
    double *x = zeros (sh), *hat = zeros (sh), *rstd = zeros ((size_t)S), *d = zeros (sh);
    double *normed = zeros (sh), *logits = zeros ((size_t)S * (size_t)V), loss;

    for (int s = 0; s < S; s++)
        for (int c = 0; c < H; c++)
            x[s * H + c] = tensors[0].w[token[s] * H + c] + tensors[1].w[s * H + c];
    for (int l = 0; l < (int)o.layers; l++) {
        memcpy (acts[l].x, x, sh * sizeof (*x));
        layer (x, &acts[l], l);
    }
    norm (normed, hat, rstd, x, final_norm (0), final_norm (1));
    linear (logits, normed, output_weight (), NULL);
    loss = cross_entropy (logits, label, weight, mask);

    memset (x, 0, sh * sizeof (*x)); /* from here on the gradient of 'normed' */
    linear_back (x, logits, normed, output_weight (), NULL);
    norm_back (d, x, hat, rstd, final_norm (0), final_norm (1));
    for (int l = (int)o.layers; l-- > 0;)
        layer_back (d, &acts[l], l);
    for (int s = 0; s < S; s++) {
        for (int c = 0; c < H; c++) {
            tensors[0].g[token[s] * H + c] += d[s * H + c];
            tensors[1].g[s * H + c] += d[s * H + c];
        }
    }
    free (x);
    free (hat);
    free (rstd);
    free (d);
    free (normed);
    free (logits);
    return loss;
}

/* --- training --- */

/* Linear warm-up, then half a cosine down to the minimum at the last iteration. */
static double learning_rate (int iteration)
{
    double done = iteration, ratio;

    if (o.warmup > 0 && done <= o.warmup)
        return o.lr * done / o.warmup;
    ratio = (done - o.warmup) / (o.iters - o.warmup);
    return o.min_lr + (o.lr - o.min_lr) * 0.5 * (1 + cos (M_PI * ratio));
}

static double gradient_norm (void)
{
    double sum = 0;

    for (int i = 0; i < num_tensors; i++)
        for (int k = 0; k < tensors[i].n; k++)
            sum += tensors[i].g[k] * tensors[i].g[k];
    return sqrt (sum);
}

static void update (int step, double lr, double norm)
{
    double scale = fmin (1, o.clip / (norm + 1e-6));

    for (int i = 0; i < num_tensors; i++) {
        struct tensor *t = &tensors[i];

        for (int k = 0; k < t->n; k++) {
            double g = t->g[k] * scale;

            t->m[k] = o.beta1 * t->m[k] + (1 - o.beta1) * g;
            t->v[k] = o.beta2 * t->v[k] + (1 - o.beta2) * g * g;
            if (t->cols) /* not of biases and norms */
                t->w[k] -= lr * o.decay * t->w[k];
            t->w[k] -= lr * (t->m[k] / (1 - pow (o.beta1, step)))
                       / (sqrt (t->v[k] / (1 - pow (o.beta2, step))) + o.eps);
            t->g[k] = 0;
        }
    }
}

static double iteration (struct acts *acts, const int32_t *token, const int32_t *label,
                         const float *mask)
{
    int micro = (int)o.micro, rounds = (int)o.global / micro;
    double *weight = zeros ((size_t)S), loss = 0, all = 0;

    for (int i = 0; i < rounds * micro * S; i++)
        all += mask[i];
    for (int m = 0; m < rounds; m++) {
        double count = 0;

        for (int i = m * micro * S; i < (m + 1) * micro * S; i++)
            count += mask[i];
        for (int b = m * micro; b < (m + 1) * micro; b++) {
            for (int s = 0; s < S; s++)
                weight[s] = o.per_token ? mask[b * S + s] / fmax (all, 1)
                                        : mask[b * S + s] / fmax (count, 1) / rounds;
            loss += sample (acts, token + b * S, label + b * S, weight, mask + b * S);
        }
    }
    free (weight);
    return loss;
}

static void train (const int32_t *token, const int32_t *label, const float *mask)
{
    struct acts *acts = calloc ((size_t)o.layers, sizeof (*acts));
    FILE *f = fopen ("reference.json", "w");

    if (!acts || !f)
        fail ("reference.json");
    for (int l = 0; l < (int)o.layers; l++)
        acts[l] = make_acts ();
    for (int i = 0; i < (int)o.iters; i++) {
        int first = i % (int)o.batches * (int)o.global * S;
        double loss, norm, lr = learning_rate (i);

        token_loss = token_count = 0;
        loss = iteration (acts, token + first, label + first, mask + first);
        norm = gradient_norm ();
        if (i == 0)
            write_tensors ("gradients.safetensors", true);
        update (i + 1, lr, norm);
        fprintf (f, "{\"iteration\": %d, \"lm loss\": %.12g, \"lm loss tokens\": %.12g, "
                 "\"grad norm\": %.12g, \"learning rate used\": %.12g}\n", i + 1, loss,
                 token_loss / token_count, norm, lr);
    }
    end_file (f, "reference.json");
    write_tensors ("weights.safetensors", false);
}

static void parse (int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *mark = strchr (argv[i], '=');
        bool known = false;

        for (size_t k = 0; mark && k < sizeof (options) / sizeof (options[0]); k++) {
            if (strlen (options[k].name) == (size_t)(mark - argv[i])
                && strncmp (options[k].name, argv[i], strlen (options[k].name)) == 0) {
                *options[k].value = atof (mark + 1);
                known = true;
            }
        }
        if (!known)
            fail (argv[i]);
    }
    S = (int)o.seq;
    H = (int)o.hidden;
    A = (int)o.heads * (int)o.dim;
    F = (int)o.ffn;
    V = (int)o.vocab;
    if (2 + (int)o.layers * LAYER_TENSORS + 3 > MAX_TENSORS)
        fail ("too many layers");
}

int main (int argc, char **argv)
{
    int samples;
    int32_t *token, *label;
    float *mask;

    parse (argc, argv);
    state = (uint64_t)o.seed;
    samples = (int)o.batches * (int)o.global;
    token = calloc ((size_t)samples * (size_t)S, sizeof (*token));
    label = calloc ((size_t)samples * (size_t)S, sizeof (*label));
    mask = calloc ((size_t)samples * (size_t)S, sizeof (*mask));
    if (!token || !label || !mask)
        fail ("out of memory");
    make_batches (token, label, mask, samples);
    make_tensors ();
    write_batches ("batches.safetensors", token, label, mask);
    write_tensors ("init.safetensors", false);
    train (token, label, mask);
    return 0;
}
