/* gpt2.c - the tensors of a GPT by our names and by those of Hugging Face's GPT-2 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/box.h"
#include "libcore/checkpoint/gpt2.h"

enum { MAX_LAYERS = 1 << 20, HF_PREFIX_MAX = 16 };

/* How a tensor differs between the two. */
enum kind { SAME, MATRIX, QKV_WEIGHT, QKV_BIAS };

/* A size of a tensor, by what it is; a factor for the rows of q, k and v. */
enum size { NONE, HIDDEN, ATTENTION, QKV, FFN, VOCAB, POSITIONS };

struct row {
    const char *ours, *hf;
    enum kind kind;
    enum size rows, cols; /* ours */
};

static const struct row layer_rows[] = {
    { "input_layernorm.weight", "ln_1.weight", SAME, HIDDEN, NONE },
    { "input_layernorm.bias", "ln_1.bias", SAME, HIDDEN, NONE },
    { "self_attention.linear_proj.weight", "attn.c_proj.weight", MATRIX, HIDDEN, ATTENTION },
    { "self_attention.linear_proj.bias", "attn.c_proj.bias", SAME, HIDDEN, NONE },
    { "self_attention.linear_qkv.weight", "attn.c_attn.weight", QKV_WEIGHT, QKV, HIDDEN },
    { "self_attention.linear_qkv.bias", "attn.c_attn.bias", QKV_BIAS, QKV, NONE },
    { "pre_mlp_layernorm.weight", "ln_2.weight", SAME, HIDDEN, NONE },
    { "pre_mlp_layernorm.bias", "ln_2.bias", SAME, HIDDEN, NONE },
    { "mlp.linear_fc1.weight", "mlp.c_fc.weight", MATRIX, FFN, HIDDEN },
    { "mlp.linear_fc1.bias", "mlp.c_fc.bias", SAME, FFN, NONE },
    { "mlp.linear_fc2.weight", "mlp.c_proj.weight", MATRIX, HIDDEN, FFN },
    { "mlp.linear_fc2.bias", "mlp.c_proj.bias", SAME, HIDDEN, NONE },
};

static const struct row first_rows[] = {
    { "embedding.word_embeddings.weight", "wte.weight", SAME, VOCAB, HIDDEN },
    { "embedding.position_embeddings.weight", "wpe.weight", SAME, POSITIONS, HIDDEN },
};

static const struct row last_rows[] = {
    { "decoder.final_layernorm.weight", "ln_f.weight", SAME, HIDDEN, NONE },
    { "decoder.final_layernorm.bias", "ln_f.bias", SAME, HIDDEN, NONE },
    { "output_layer.weight", "lm_head.weight", SAME, VOCAB, HIDDEN },
};

enum {
    NUM_LAYER = sizeof (layer_rows) / sizeof (layer_rows[0]),
    NUM_FIRST = sizeof (first_rows) / sizeof (first_rows[0]),
    NUM_LAST = sizeof (last_rows) / sizeof (last_rows[0])
};

/* One tensor of a model: both names without prefixes, our shape. */
struct spec {
    char ours[PIECE_NAME_MAX], hf[PIECE_NAME_MAX];
    enum kind kind;
    int ndims;
    int64_t shape[PIECE_MAX_DIMS];
};

static int64_t size_of (const struct gpt2_shape *g, enum size size)
{
    switch (size) {
    case NONE: return 1;
    case HIDDEN: return g->hidden;
    case ATTENTION: return g->attention;
    case QKV: return 3 * g->attention;
    case FFN: return g->ffn;
    case VOCAB: return g->vocab;
    case POSITIONS: return g->positions;
    }
    return 0;
}

static size_t num_specs (const struct gpt2_shape *g)
{
    return NUM_FIRST + (size_t)g->layers * NUM_LAYER + NUM_LAST - (g->tied ? 1 : 0);
}

/* Tensor 'i' of the model, in the order of the layers. */
static struct spec spec_at (const struct gpt2_shape *g, size_t i)
{
    const size_t layers = (size_t)g->layers * NUM_LAYER;
    const struct row *row;
    struct spec s;

    if (i < NUM_FIRST || i >= NUM_FIRST + layers) {
        row = i < NUM_FIRST ? &first_rows[i] : &last_rows[i - NUM_FIRST - layers];
        snprintf (s.ours, sizeof (s.ours), "%s", row->ours);
        snprintf (s.hf, sizeof (s.hf), "%s", row->hf);
    }
    else {
        row = &layer_rows[(i - NUM_FIRST) % NUM_LAYER];
        snprintf (s.ours, sizeof (s.ours), "decoder.layers.%zu.%s",
                  (i - NUM_FIRST) / NUM_LAYER, row->ours);
        snprintf (s.hf, sizeof (s.hf), "h.%zu.%s", (i - NUM_FIRST) / NUM_LAYER, row->hf);
    }
    s.kind = row->kind;
    s.ndims = row->cols == NONE ? 1 : 2;
    s.shape[0] = size_of (g, row->rows);
    s.shape[1] = size_of (g, row->cols);
    return s;
}

/* --- lists of tensors --- */

void gpt2_clear (struct gpt2_tensors *tensors)
{
    int saved_errno = errno;

    for (size_t i = 0; i < tensors->n; i++)
        free (tensors->piece[i].data);
    free (tensors->piece);
    *tensors = (struct gpt2_tensors){ .n = 0 };
    errno = saved_errno;
}

int gpt2_allocate (struct gpt2_tensors *tensors, size_t n, struct mg_error *err)
{
    tensors->n = 0;
    if (!(tensors->piece = calloc (n + 1, sizeof (*tensors->piece))))
        return mg_error_set (err, ENOMEM, "out of memory for %zu tensors", n);
    return 0;
}

struct piece *gpt2_add (struct gpt2_tensors *tensors, const char *name,
                        enum mg_dtype dtype, int ndims, const int64_t *shape,
                        struct mg_error *err)
{
    struct piece *p = &tensors->piece[tensors->n];

    *p = (struct piece){ .dtype = dtype, .ndims = ndims, .data = p, .owner = true };
    snprintf (p->name, sizeof (p->name), "%s", name);
    memcpy (p->global, shape, (size_t)ndims * sizeof (*shape));
    memcpy (p->extent, shape, (size_t)ndims * sizeof (*shape));
    if (box_check_piece (p, err) < 0)
        return NULL;
    if (!(p->data = calloc ((size_t)box_count (box_of_piece (p)) + 1, mg_dtype_size (dtype)))) {
        mg_error_set (err, ENOMEM, "out of memory for tensor %s", name);
        return NULL;
    }
    tensors->n++;
    return p;
}

static struct piece *find (const struct gpt2_tensors *tensors, const char *name)
{
    for (size_t i = 0; i < tensors->n; i++) {
        if (strcmp (tensors->piece[i].name, name) == 0)
            return &tensors->piece[i];
    }
    return NULL;
}

/* --- the shape, from the names and shapes of what is there --- */

/* Where names are looked up: exactly one is set. */
struct source {
    const struct roster *roster;
    const struct gpt2_tensors *tensors;
    const char *prefix;
};

static bool look_up (const struct source *src, const char *name, int *ndims, int64_t *shape)
{
    char full[2 * PIECE_NAME_MAX];
    const struct roster_tensor *t;
    const struct piece *p;

    snprintf (full, sizeof (full), "%s%s", src->prefix, name);
    shape[0] = shape[1] = 0;
    if (src->roster) {
        if (!(t = roster_find (src->roster, full)))
            return false;
        *ndims = t->ndims;
        memcpy (shape, t->global, (size_t)t->ndims * sizeof (*shape));
        return true;
    }
    if (!(p = find (src->tensors, full)))
        return false;
    *ndims = p->ndims;
    memcpy (shape, p->global, (size_t)p->ndims * sizeof (*shape));
    return true;
}

/* A tensor of a form that tells sizes. */
static int read_shape (const struct source *src, const char *name, int want, int64_t *shape,
                       struct mg_error *err)
{
    int ndims;

    if (!look_up (src, name, &ndims, shape))
        return mg_error_set (err, EINVAL, "not a GPT: no tensor %s%s", src->prefix, name);
    if (ndims != want)
        return mg_error_set (err, EINVAL, "not a GPT: tensor %s%s has %d dimensions, want %d",
                             src->prefix, name, ndims, want);
    return 0;
}

static int read_sizes (const struct source *src, struct gpt2_shape *g, struct mg_error *err)
{
    char name[PIECE_NAME_MAX];
    int64_t word[2], position[2], qkv[2] = { 0 }, fc1[2] = { 0 }, any[2];
    int ndims;

    *g = (struct gpt2_shape){ .layers = 0 };
    if (read_shape (src, first_rows[0].ours, 2, word, err) < 0
        || read_shape (src, first_rows[1].ours, 2, position, err) < 0)
        return -1;
    do
        snprintf (name, sizeof (name), "decoder.layers.%d.%s", g->layers, layer_rows[0].ours);
    while (look_up (src, name, &ndims, any) && ++g->layers < MAX_LAYERS);
    if (g->layers > 0
        && (read_shape (src, "decoder.layers.0.self_attention.linear_qkv.weight", 2, qkv, err) < 0
            || read_shape (src, "decoder.layers.0.mlp.linear_fc1.weight", 2, fc1, err) < 0))
        return -1;
    if (qkv[0] % 3 != 0)
        return mg_error_set (err, EINVAL, "not a GPT: linear_qkv.weight has %" PRId64
                             " rows, want a multiple of 3", qkv[0]);
    g->vocab = word[0];
    g->hidden = word[1];
    g->positions = position[0];
    g->attention = qkv[0] / 3;
    g->ffn = fc1[0];
    g->tied = !look_up (src, last_rows[NUM_LAST - 1].ours, &ndims, any);
    return 0;
}

/* Every tensor of the model must be there; 'count' are in the source. */
static int check_shape (const struct source *src, struct gpt2_shape *g, size_t count,
                        struct mg_error *err)
{
    char have[BOX_TEXT_MAX], want[BOX_TEXT_MAX];
    int64_t shape[2];

    if (read_sizes (src, g, err) < 0)
        return -1;
    for (size_t i = 0; i < num_specs (g); i++) {
        struct spec s = spec_at (g, i);

        if (read_shape (src, s.ours, s.ndims, shape, err) < 0)
            return -1;
        if (memcmp (shape, s.shape, (size_t)s.ndims * sizeof (*shape)) != 0)
            return mg_error_set (err, EINVAL, "not a GPT: tensor %s has shape %s, want %s",
                                 s.ours, box_shape_text (have, shape, s.ndims),
                                 box_shape_text (want, s.shape, s.ndims));
        g->parameters += shape[0] * (s.ndims == 2 ? shape[1] : 1);
    }
    if (count != num_specs (g))
        return mg_error_set (err, EINVAL, "not a GPT: %zu tensors, want %zu", count,
                             num_specs (g));
    return 0;
}

int gpt2_shape_of_roster (const struct roster *roster, const char *prefix,
                          struct gpt2_shape *shape, struct mg_error *err)
{
    struct source src = { .roster = roster, .prefix = prefix };
    size_t count = 0;

    for (size_t i = 0; i < roster->num_tensors; i++)
        count += strncmp (roster->tensors[i].name, prefix, strlen (prefix)) == 0;
    return check_shape (&src, shape, count, err);
}

int gpt2_shape_of_tensors (const struct gpt2_tensors *tensors, struct gpt2_shape *shape,
                           struct mg_error *err)
{
    struct source src = { .tensors = tensors, .prefix = "" };

    return check_shape (&src, shape, tensors->n, err);
}

int gpt2_sort (struct gpt2_tensors *tensors, struct mg_error *err)
{
    struct gpt2_shape g;

    if (gpt2_shape_of_tensors (tensors, &g, err) < 0)
        return -1;
    for (size_t i = 0; i < tensors->n; i++) {
        struct piece *wanted = find (tensors, spec_at (&g, i).ours), other = tensors->piece[i];

        tensors->piece[i] = *wanted;
        *wanted = other;
    }
    return 0;
}

/* --- rows and columns --- */

/* Row of linear_qkv that is row 'r' of [q of all heads; k; v]. */
static int64_t qkv_row (const struct gpt2_shape *g, int heads, int64_t r)
{
    const int64_t dim = g->attention / heads, part = r / g->attention;

    return r % g->attention / dim * 3 * dim + part * dim + r % dim;
}

/* Which way, and whether the other side's matrices are [input, output]. */
struct turn {
    const struct gpt2_shape *shape;
    int heads;
    bool to_hf, transposed;
};

/* Between our [rows, cols] and theirs. */
static void copy_tensor (const struct turn *t, const struct spec *s, void *ours, void *hf,
                         size_t size)
{
    const bool qkv = s->kind == QKV_WEIGHT || s->kind == QKV_BIAS;
    const bool transposed = t->transposed && s->ndims == 2 && s->kind != SAME;
    const int64_t rows = s->shape[0], cols = s->ndims == 2 ? s->shape[1] : 1;

    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = qkv ? qkv_row (t->shape, t->heads, r) : r;

        for (int64_t c = 0; c < cols; c++) {
            char *a = (char *)ours + (size_t)(at * cols + c) * size;
            char *b = (char *)hf + (size_t)(transposed ? c * rows + r : r * cols + c) * size;

            memcpy (t->to_hf ? b : a, t->to_hf ? a : b, size);
        }
    }
}

static int check_heads (const struct gpt2_shape *g, int heads, struct mg_error *err)
{
    if (heads < 1 || g->hidden % heads != 0)
        return mg_error_set (err, EINVAL, "%d attention heads do not divide hidden size %"
                             PRId64, heads, g->hidden);
    if (g->attention != g->hidden)
        return mg_error_set (err, EINVAL, "attention of %" PRId64 " = heads x size of a head "
                             "is not the hidden size %" PRId64 ", as in every GPT-2",
                             g->attention, g->hidden);
    return 0;
}

/* The shape of a tensor as the other side has it. */
static void hf_shape (const struct spec *s, bool transposed, int64_t *shape)
{
    const bool swap = transposed && s->ndims == 2 && s->kind != SAME;

    shape[0] = s->shape[swap ? 1 : 0];
    shape[1] = s->shape[swap ? 0 : 1];
}

int gpt2_to_hf (const struct gpt2_tensors *ours, int heads, struct gpt2_tensors *hf,
                struct mg_error *err)
{
    struct gpt2_shape g;
    struct turn turn = { .shape = &g, .heads = heads, .to_hf = true, .transposed = true };

    *hf = (struct gpt2_tensors){ .n = 0 };
    if (gpt2_shape_of_tensors (ours, &g, err) < 0 || check_heads (&g, heads, err) < 0
        || gpt2_allocate (hf, num_specs (&g), err) < 0)
        return -1;
    for (size_t i = 0; i < num_specs (&g); i++) {
        const struct spec s = spec_at (&g, i);
        const struct piece *from = find (ours, s.ours);
        char name[PIECE_NAME_MAX + HF_PREFIX_MAX];
        int64_t shape[2];
        struct piece *to;

        hf_shape (&s, true, shape);
        snprintf (name, sizeof (name), "%s%s",
                  strcmp (s.hf, "lm_head.weight") == 0 ? "" : "transformer.", s.hf);
        if (!(to = gpt2_add (hf, name, from->dtype, s.ndims, shape, err))) {
            gpt2_clear (hf);
            return -1;
        }
        copy_tensor (&turn, &s, from->data, to->data, mg_dtype_size (from->dtype));
    }
    return 0;
}

/* --- from a file of Hugging Face's --- */

struct hf_file {
    const struct safetensors *st;
    const char *prefix;
    bool transposed; /* Conv1D */
    bool head; /* has an lm_head */
};

static const struct safetensors_entry *find_hf (const struct hf_file *f, const char *name)
{
    char full[PIECE_NAME_MAX + HF_PREFIX_MAX];

    if (strcmp (name, "lm_head.weight") == 0)
        return safetensors_find (f->st, name);
    snprintf (full, sizeof (full), "%s%s", f->prefix, name);
    return safetensors_find (f->st, full);
}

static const char *prefix_of (const struct safetensors *st)
{
    if (safetensors_find (st, "transformer.wte.weight"))
        return "transformer.";
    return safetensors_find (st, "wte.weight") ? "" : NULL;
}

bool gpt2_is_hf (const struct safetensors *st)
{
    return prefix_of (st) != NULL;
}

static int need (const struct hf_file *f, const char *name, int ndims,
                 const struct safetensors_entry **e, struct mg_error *err)
{
    if (!(*e = find_hf (f, name)))
        return mg_error_set (err, EINVAL, "%s: tensor %s%s is not in it",
                             safetensors_path (f->st), f->prefix, name);
    if ((*e)->ndims != ndims)
        return mg_error_set (err, EINVAL, "%s: tensor %s has %d dimensions, want %d",
                             safetensors_path (f->st), (*e)->name, (*e)->ndims, ndims);
    return 0;
}

/* Sizes, and which of the forms the file has. */
static int read_form (struct hf_file *f, struct gpt2_shape *g, struct mg_error *err)
{
    const struct safetensors_entry *wte, *wpe, *attn, *fc;
    char name[PIECE_NAME_MAX];

    *g = (struct gpt2_shape){ .layers = 0 };
    if (need (f, "wte.weight", 2, &wte, err) < 0 || need (f, "wpe.weight", 2, &wpe, err) < 0
        || need (f, "h.0.attn.c_attn.weight", 2, &attn, err) < 0
        || need (f, "h.0.mlp.c_fc.weight", 2, &fc, err) < 0)
        return -1;
    g->vocab = wte->shape[0];
    g->hidden = g->attention = wte->shape[1];
    g->positions = wpe->shape[0];
    f->transposed = attn->shape[0] == g->hidden;
    g->ffn = fc->shape[f->transposed ? 1 : 0];
    f->head = find_hf (f, "lm_head.weight") != NULL;
    g->tied = !f->head;
    while (g->layers < MAX_LAYERS) {
        snprintf (name, sizeof (name), "h.%d.ln_1.weight", g->layers);
        if (!find_hf (f, name))
            break;
        g->layers++;
    }
    return 0;
}

static bool is_mask (const char *name)
{
    static const char *const ends[] = { ".attn.bias", ".attn.masked_bias" };
    const size_t n = strlen (name);

    for (int i = 0; i < 2; i++) {
        const size_t len = strlen (ends[i]);

        if (n > len && strcmp (name + n - len, ends[i]) == 0)
            return true;
    }
    return false;
}

/* A tensor that would be lost: more layers, other blocks. */
static int check_names (const struct hf_file *f, const struct gpt2_shape *g,
                        struct mg_error *err)
{
    char name[BOX_NAME_MAX];
    size_t others = 0;
    const struct safetensors_entry *e;

    for (size_t i = 0; (e = safetensors_at (f->st, i)); i++)
        others += !is_mask (e->name);
    for (size_t i = 0; others > num_specs (g) && (e = safetensors_at (f->st, i)); i++) {
        bool found = is_mask (e->name);

        for (size_t k = 0; !found && k < num_specs (g); k++)
            found = find_hf (f, spec_at (g, k).hf) == e;
        if (!found)
            return mg_error_set (err, EINVAL, "%s: tensor %s is none of a GPT-2's",
                                 safetensors_path (f->st), box_name_text (name, e->name));
    }
    return 0;
}

/* One tensor, through a float32 copy of what the file has. */
static int take_hf (const struct hf_file *f, const struct turn *turn, const struct spec *s,
                    struct gpt2_tensors *ours, struct mg_error *err)
{
    struct piece *to = gpt2_add (ours, s->ours, MG_FLOAT32, s->ndims, s->shape, err);
    struct gpt2_tensors one = { .n = 0 };
    const struct safetensors_entry *e;
    int64_t shape[2];
    struct piece *from;
    int rc = -1;

    if (!to)
        return -1;
    hf_shape (s, f->transposed, shape);
    if (need (f, s->hf, s->ndims, &e, err) < 0 || gpt2_allocate (&one, 1, err) < 0)
        return -1;
    if ((from = gpt2_add (&one, e->name, MG_FLOAT32, s->ndims, shape, err))
        && safetensors_load (f->st, from, 1, err) == 0) {
        copy_tensor (turn, s, to->data, from->data, sizeof (float));
        rc = 0;
    }
    gpt2_clear (&one);
    return rc;
}

/* Drop an output layer that is the word embedding. */
static void tie (struct gpt2_tensors *ours)
{
    struct piece *word = find (ours, first_rows[0].ours);
    struct piece *head = find (ours, last_rows[NUM_LAST - 1].ours);

    if (word && head && head == &ours->piece[ours->n - 1]
        && memcmp (word->data, head->data,
                   (size_t)box_count (box_of_piece (word)) * sizeof (float)) == 0) {
        free (head->data);
        ours->n--;
    }
}

int gpt2_from_hf (const struct safetensors *st, int heads, struct gpt2_tensors *ours,
                  struct mg_error *err)
{
    struct hf_file f = { .st = st, .prefix = prefix_of (st) };
    struct gpt2_shape g;
    struct turn turn = { .shape = &g, .heads = heads };

    *ours = (struct gpt2_tensors){ .n = 0 };
    if (!f.prefix)
        return mg_error_set (err, EINVAL, "%s: no tensor wte.weight or "
                             "transformer.wte.weight: not a GPT-2", safetensors_path (st));
    if (read_form (&f, &g, err) < 0 || check_heads (&g, heads, err) < 0
        || check_names (&f, &g, err) < 0 || gpt2_allocate (ours, num_specs (&g), err) < 0)
        return -1;
    turn.transposed = f.transposed;
    for (size_t i = 0; i < num_specs (&g); i++) {
        const struct spec s = spec_at (&g, i);

        if (take_hf (&f, &turn, &s, ours, err) < 0) {
            gpt2_clear (ours);
            return -1;
        }
    }
    tie (ours);
    return 0;
}
