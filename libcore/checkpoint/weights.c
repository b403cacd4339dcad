/* weights.c - sources of tensors: look-ups, sizes of the model, completeness */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/box.h"
#include "libcore/checkpoint/safetensors_format.h"
#include "libcore/checkpoint/weights.h"

enum { MAX_LAYERS = 1 << 20 };

/* --- look-ups --- */

static const char word_embedding[] = "embedding.word_embeddings.weight";
static const char output_layer[] = "output_layer.weight";

/* The name that a tensor of the scheme has in the source. */
static void full_name (const struct weights *w, const char *name, char full[2 * PIECE_NAME_MAX])
{
    const char *prefix = w->scheme->prefix;

    if (w->by_output && strcmp (name, names_row_of (w->scheme, word_embedding)->theirs) == 0)
        name = names_row_of (w->scheme, output_layer)->theirs;
    if (w->bare && strncmp (name, prefix, strlen (prefix)) == 0)
        name += strlen (prefix);
    snprintf (full, 2 * PIECE_NAME_MAX, "%s%s", w->in_front ? w->in_front : "", name);
}

static void set (struct weights_tensor *t, enum mg_dtype dtype, int ndims, const int64_t *shape,
                 const void *data)
{
    *t = (struct weights_tensor){ .dtype = dtype, .ndims = ndims, .data = data };
    memcpy (t->shape, shape, (size_t)ndims * sizeof (*shape));
}

static const struct safetensors_entry *find_entry (const struct weights *w, const char *full)
{
    const struct safetensors_entry *e = w->file ? safetensors_find (w->file, full) : NULL;

    for (size_t i = w->set ? w->set->num : 0; i-- > 0;) {
        if (safetensors_type (w->set->file[i], full))
            return safetensors_find (w->set->file[i], full);
    }
    return e;
}

bool weights_find (const struct weights *w, const char *name, struct weights_tensor *t)
{
    char full[2 * PIECE_NAME_MAX];
    const struct safetensors_entry *e;
    const struct roster_tensor *r;
    const struct piece *p;

    full_name (w, name, full);
    if ((e = find_entry (w, full)))
        set (t, e->dtype, e->ndims, e->shape, e->data);
    else if (w->pieces && (p = pieces_find (w->pieces, full)))
        set (t, p->dtype, p->ndims, p->global, p->data);
    else if (w->roster && (r = roster_find (w->roster, full)))
        set (t, r->dtype, r->ndims, r->global, NULL);
    else
        return false;
    return true;
}

/* The type of a tensor as its file has it; NULL: no file has the tensor. */
static const char *find_type (const struct weights *w, const char *full)
{
    const char *type = w->file ? safetensors_type (w->file, full) : NULL;

    for (size_t i = w->set ? w->set->num : 0; !type && i-- > 0;)
        type = safetensors_type (w->set->file[i], full);
    return type;
}

bool weights_has (const struct weights *w, const char *name)
{
    char full[2 * PIECE_NAME_MAX];
    struct weights_tensor t;

    full_name (w, name, full);
    return find_type (w, full) || weights_find (w, name, &t);
}

/* Set the text of weights_find() not finding a tensor. */
static int refuse_tensor (const struct weights *w, const char *name, struct mg_error *err)
{
    char full[2 * PIECE_NAME_MAX], text[BOX_NAME_MAX];
    const char *type;

    full_name (w, name, full);
    if (!(type = find_type (w, full)))
        return mg_error_set (err, EINVAL, "not %s: tensor %s is not in it", w->scheme->name,
                             full);
    for (int i = 0; i < MG_NUM_DTYPES; i++) {
        if (strcmp (type, safetensors_type_name ((enum mg_dtype)i)) == 0)
            return mg_error_set (err, EINVAL, "not %s: tensor %s has more than %d dimensions",
                                 w->scheme->name, full, SAFETENSORS_MAX_DIMS);
    }
    return mg_error_set (err, EINVAL, "not %s: tensor %s has data type %s, want F32, BF16, F16, "
                         "F64 or F8_E4M3", w->scheme->name, full, box_name_text (text, type));
}

/* By the name that a parameter has in tables: the foreign name of the tensor that holds it. */
static void foreign_name (const struct weights *w, const char *ours, int number,
                          char name[PIECE_NAME_MAX])
{
    const struct names_row *row = names_row_of (w->scheme, ours);

    names_format (name, row ? row->theirs : ours, number, 0);
}

void weights_find_prefix (struct weights *w)
{
    char name[PIECE_NAME_MAX];

    w->bare = w->by_output = false;
    foreign_name (w, word_embedding, 0, name);
    if (!w->scheme->prefix || weights_has (w, name))
        return;
    w->bare = true;
    if (weights_has (w, name) || w->untied || !names_row_of (w->scheme, output_layer))
        return;
    foreign_name (w, output_layer, 0, name);
    w->by_output = weights_has (w, name);
    foreign_name (w, "decoder.layers.%d.input_layernorm.weight", 0, name);
    if (w->by_output && !weights_has (w, name)) {
        w->bare = false;
        w->by_output = weights_has (w, name); // else these are tensors of another scheme
        w->bare = !w->by_output;
    }
}

bool weights_follow (const struct safetensors *file, const struct names_scheme *scheme)
{
    struct weights w = { .file = file, .scheme = scheme };
    char name[PIECE_NAME_MAX];

    weights_find_prefix (&w);
    foreign_name (&w, word_embedding, 0, name);
    return weights_has (&w, name);
}

/* --- sizes --- */

static bool is_transposed (const struct weights *w, const char *ours)
{
    const struct names_row *row = names_row_of (w->scheme, ours);

    return row && row->transposed && !w->scheme->as_is;
}

/* The shape that a parameter has with us: a matrix. */
static int read_shape (const struct weights *w, const char *ours, int64_t shape[2],
                       struct mg_error *err)
{
    char name[PIECE_NAME_MAX], full[2 * PIECE_NAME_MAX];
    struct weights_tensor t;
    bool transposed = is_transposed (w, ours);

    foreign_name (w, ours, 0, name);
    full_name (w, name, full);
    if (!weights_find (w, name, &t))
        return refuse_tensor (w, name, err);
    if (t.ndims != 2)
        return mg_error_set (err, EINVAL, "not %s: tensor %s has %d dimensions, want 2",
                             w->scheme->name, full, t.ndims);
    for (int i = 0; i < 2; i++) {
        shape[i] = t.shape[transposed ? 1 - i : i];
        if (shape[i] < 1 || shape[i] > INT32_MAX)
            return mg_error_set (err, EINVAL, "not %s: tensor %s has %" PRId64
                                 " rows or columns", w->scheme->name, full, shape[i]);
    }
    return 0;
}

static int count_layers (const struct weights *w)
{
    char name[PIECE_NAME_MAX];
    int n = 0;

    for (; n < MAX_LAYERS; n++) {
        foreign_name (w, "decoder.layers.%d.input_layernorm.weight", n, name);
        if (!weights_has (w, name))
            break;
    }
    return n;
}

/* Bit for bit. */
static bool is_copy (const struct weights_tensor *a, const struct weights_tensor *b)
{
    return a->data && b->data && a->dtype == b->dtype && a->ndims == b->ndims
           && memcmp (a->shape, b->shape, sizeof (a->shape)) == 0
           && memcmp (a->data, b->data,
                      (size_t)box_count (box_of_shape (a->shape, 2)) * mg_dtype_size (a->dtype))
                  == 0;
}

static bool is_tied (const struct weights *w)
{
    char name[PIECE_NAME_MAX];
    struct weights_tensor word, output;

    foreign_name (w, output_layer, 0, name);
    if (!weights_find (w, name, &output))
        return true;
    foreign_name (w, word_embedding, 0, name);
    return w->scheme->row && weights_find (w, name, &word) && is_copy (&word, &output);
}

static int set_heads (struct model_config *c, int64_t attention, int heads, struct mg_error *err)
{
    if (heads < 1 || attention % heads != 0)
        return mg_error_set (err, EINVAL, "%d attention heads do not divide the attention's "
                             "size %" PRId64, heads, attention);
    c->num_heads = heads;
    c->kv_channels = (int)(attention / heads);
    return 0;
}

int weights_sizes (struct weights *w, int heads, struct model_config *c, struct mg_error *err)
{
    static const char linear_qkv[] = "decoder.layers.%d.self_attention.linear_qkv.weight";
    int64_t word[2], position[2], qkv[2] = { 0 }, fc1[2] = { 0 };

    *c = (struct model_config){ .num_layers = 0 };
    weights_find_prefix (w);
    if (read_shape (w, word_embedding, word, err) < 0
        || read_shape (w, "embedding.position_embeddings.weight", position, err) < 0)
        return -1;
    c->num_layers = count_layers (w);
    if (c->num_layers > 0 && read_shape (w, linear_qkv, qkv, err) < 0)
        return -1;
    if (c->num_layers > 0 && qkv[1] != word[1] && w->scheme->other) {
        w->scheme = w->scheme->other;
        if (read_shape (w, linear_qkv, qkv, err) < 0)
            return -1;
    }
    if (c->num_layers > 0
        && read_shape (w, "decoder.layers.%d.mlp.linear_fc1.weight", fc1, err) < 0)
        return -1;
    if (qkv[0] % 3 != 0)
        return mg_error_set (err, EINVAL, "not %s: linear_qkv.weight has %" PRId64
                             " rows, want a multiple of 3", w->scheme->name, qkv[0]);
    c->vocab_size = c->padded_vocab_size = (int)word[0];
    c->hidden_size = (int)word[1];
    c->seq_length = c->max_positions = (int)position[0];
    c->ffn_hidden_size = (int)fc1[0];
    c->tied_embeddings = is_tied (w);
    return set_heads (c, qkv[0] / 3, heads == 0 ? 1 : heads, err);
}

/* --- is all there? --- */

size_t weights_count (const struct weights *w)
{
    size_t n = 0;

    if (w->file)
        return safetensors_count_names (w->file);
    for (size_t i = 0; w->set && i < w->set->num; i++)
        n += safetensors_count_names (w->set->file[i]);
    if (w->set)
        return n;
    if (w->pieces)
        return w->pieces->n;
    for (size_t i = 0; i < w->roster->num_tensors; i++)
        n += !w->in_front
             || strncmp (w->roster->tensors[i].name, w->in_front, strlen (w->in_front)) == 0;
    return n;
}

static const char *name_at (const struct weights *w, size_t i)
{
    if (w->file)
        return safetensors_name_at (w->file, i);
    for (size_t k = 0; w->set && k < w->set->num; k++) {
        size_t n = safetensors_count_names (w->set->file[k]);

        if (i < n)
            return safetensors_name_at (w->set->file[k], i);
        i -= n;
    }
    return w->pieces ? w->pieces->piece[i].name : w->roster->tensors[i].name;
}

static bool is_ignored (const struct names_scheme *scheme, const char *name)
{
    size_t n = strlen (name);

    for (const char *const *end = scheme->ignored; end && *end; end++) {
        size_t len = strlen (*end);

        if (n > len && strcmp (name + n - len, *end) == 0)
            return true;
    }
    return false;
}

static int compare_names (const void *a, const void *b)
{
    return strcmp (*(const char *const *)a, *(const char *const *)b);
}

/* The full names of all tensors of the model and of the copy that a tied output layer may be, in
 * order, to be freed in one; NULL: out of memory.
 */
static char **list_names (const struct weights *w, const struct names *names, size_t *num)
{
    size_t known = names->num_tensors + (*names->tied != '\0');
    char **list = malloc (known * (sizeof (*list) + 2 * PIECE_NAME_MAX) + 1);

    if (!list)
        return NULL;
    for (size_t k = 0; k < known; k++) {
        list[k] = (char *)(list + known) + k * 2 * PIECE_NAME_MAX;
        full_name (w, k < names->num_tensors ? names->tensor[k].name : names->tied, list[k]);
    }
    qsort (list, known, sizeof (*list), compare_names);
    *num = known;
    return list;
}

static bool is_listed (char *const *list, size_t n, const char *name)
{
    return bsearch (&name, list, n, sizeof (*list), compare_names) != NULL;
}

/* True if every element is 0, or -0. */
static bool is_zero (const struct safetensors_entry *e)
{
    const unsigned char *p = e->data;
    const size_t size = mg_dtype_size (e->dtype);

    for (size_t i = 0; i < e->size; i++) {
        if (i % size == size - 1 ? p[i] & 0x7f : p[i])
            return false;
    }
    return true;
}

/* True if the tensor is a bias of zeros of a weight of the model: transformers reads no bias that
 * the model has not, and this one does nothing.
 */
static bool is_zero_bias (const struct weights *w, char *const *list, size_t n, const char *name)
{
    static const char bias[] = ".bias", weight[] = ".weight";
    const struct safetensors_entry *e = find_entry (w, name);
    size_t len = strlen (name), front = len < sizeof (bias) ? 0 : len - (sizeof (bias) - 1);
    char of[2 * PIECE_NAME_MAX];

    if (!e || front == 0 || strcmp (name + front, bias) != 0
        || front + sizeof (weight) > sizeof (of))
        return false;
    memcpy (of, name, front);
    memcpy (of + front, weight, sizeof (weight));
    return is_listed (list, n, of) && is_zero (e);
}

/* Refuse a tensor that would be lost. */
static int name_unknown (const struct weights *w, const struct names *names,
                         struct mg_error *err)
{
    size_t n = w->roster ? w->roster->num_tensors : weights_count (w), known = 0;
    size_t front = w->in_front ? strlen (w->in_front) : 0;
    char **list = list_names (w, names, &known), text[BOX_NAME_MAX];
    int rc = list ? 0 : mg_error_set (err, ENOMEM, "out of memory for %zu names", n);

    for (size_t i = 0; rc == 0 && i < n; i++) {
        const char *name = name_at (w, i);

        if (is_ignored (w->scheme, name)
            || (front > 0 && strncmp (name, w->in_front, front) != 0)
            || is_listed (list, known, name) || is_zero_bias (w, list, known, name))
            continue;
        rc = mg_error_set (err, EINVAL, "tensor %s is none of %s's", box_name_text (text, name),
                           w->scheme->name);
    }
    free (list);
    return rc;
}

/* The shape of the whole tensor, if this is a slice of one. */
static int whole_shape (const struct names_tensor *t, int64_t shape[1 + PIECE_MAX_DIMS])
{
    int front = t->slices > 0;

    shape[0] = t->slices;
    memcpy (shape + front, t->shape, sizeof (t->shape));
    return front + t->ndims;
}

static int check_shape (const struct weights *w, const struct names_tensor *want,
                        struct mg_error *err)
{
    char full[2 * PIECE_NAME_MAX], have_text[BOX_TEXT_MAX], want_text[BOX_TEXT_MAX];
    int64_t shape[1 + PIECE_MAX_DIMS];
    int ndims = whole_shape (want, shape);
    struct weights_tensor t;

    full_name (w, want->name, full);
    if (!weights_find (w, want->name, &t))
        return refuse_tensor (w, want->name, err);
    if (t.ndims != ndims || memcmp (t.shape, shape, (size_t)ndims * sizeof (t.shape[0])) != 0)
        return mg_error_set (err, EINVAL, "not %s: tensor %s has shape %s, want %s",
                             w->scheme->name, full,
                             box_shape_text (have_text, t.shape, t.ndims),
                             box_shape_text (want_text, shape, ndims));
    return 0;
}

/* Refuse a copy that differs from its original.  A missing copy is accepted. */
static int check_copy (const struct weights *w, const struct names *names,
                       const struct names_tensor *copy, struct mg_error *err)
{
    const struct names_tensor *of = names_first_of (names, copy->param);
    char full[2 * PIECE_NAME_MAX], of_full[2 * PIECE_NAME_MAX];
    struct weights_tensor t, original;

    if (!weights_find (w, copy->name, &t) || !weights_find (w, of->name, &original)
        || is_copy (&t, &original))
        return 0;
    full_name (w, copy->name, full);
    full_name (w, of->name, of_full);
    return mg_error_set (err, EINVAL, "tensor %s is not a copy of %s: the model has one parameter "
                         "for both", full, of_full);
}

/* Check the sizes of the tensor of layer 'i' that holds the first products of all its experts. */
static int check_fused (const struct weights *w, const struct model_config *c, int i,
                        struct mg_error *err)
{
    int64_t want[3] = { c->moe.experts, (int64_t)c->moe.ffn_hidden_size * (c->gated ? 2 : 1),
                        c->moe.latent > 0 ? c->moe.latent : c->hidden_size };
    char name[PIECE_NAME_MAX], full[2 * PIECE_NAME_MAX];
    char have_text[BOX_TEXT_MAX], want_text[BOX_TEXT_MAX];
    struct weights_tensor t;

    foreign_name (w, names_expert_fc1, i, name);
    full_name (w, name, full);
    if (!weights_find (w, name, &t))
        return refuse_tensor (w, name, err);
    if (t.ndims != 3 || memcmp (t.shape, want, sizeof (want)) != 0)
        return mg_error_set (err, EINVAL, "not %s: tensor %s has shape %s, want %s",
                             w->scheme->name, full,
                             box_shape_text (have_text, t.shape, t.ndims),
                             box_shape_text (want_text, want, 3));
    return 0;
}

int weights_check_count (const struct weights *w, const struct model_config *c,
                         struct mg_error *err)
{
    const struct model_moe *moe = &c->moe;
    int64_t layers = (int64_t)c->num_layers + model_mtp_own (c), sparse;
    size_t n = weights_count (w);

    if ((uint64_t)layers > n)
        return mg_error_set (err, EINVAL, "%" PRId64 " layers, but %zu tensors", layers, n);
    sparse = moe_num_layers (moe, c->num_layers);
    if (c->mtp_num_layers > 0 && model_has_experts (c, c->num_layers))
        sparse += model_mtp_own (c);
    if (names_are_fused (w->scheme)) {
        for (int i = 0; i < (int)layers; i++) {
            if (model_has_experts (c, i) && check_fused (w, c, i, err) < 0)
                return -1;
        }
        return 0;
    }
    if (sparse > 0 && (uint64_t)moe->experts > n / (uint64_t)sparse)
        return mg_error_set (err, EINVAL, "%" PRId64 " layers of %d experts, but %zu tensors",
                             sparse, moe->experts, n);
    return 0;
}

bool weights_may_lack (const struct weights *w, const struct names_param *p)
{
    return p->state && !w->scheme->row && !weights_has (w, p->name);
}

int weights_check (const struct weights *w, const struct names *names, struct mg_error *err)
{
    size_t known = names->num_tensors, n = weights_count (w);
    size_t first_copy = names->num_tensors - names->num_copies;
    struct weights_tensor t;

    for (size_t i = 0; i < names->num_tensors; i++) {
        const struct names_tensor *want = &names->tensor[i];

        if (i < first_copy ? weights_may_lack (w, &names->param[want->param])
                       : !weights_has (w, want->name))
            known--;
        else if (check_shape (w, want, err) < 0
                 || (i >= first_copy && check_copy (w, names, want, err) < 0))
            return -1;
        known -= want->slice > 0; // of a tensor that counts already
    }
    if (*names->tied && !w->by_output && weights_has (w, names->tied)) {
        if (!weights_find (w, names->tied, &t))
            return refuse_tensor (w, names->tied, err);
        if (!is_tied (w))
            return mg_error_set (err, EINVAL, "tensor %s is not the word embedding, but the "
                                 "model's output layer is", names->tied);
        known++;
    }
    return n > known ? name_unknown (w, names, err) : 0;
}
