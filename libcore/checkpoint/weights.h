/* weights - the tensors of a model in a file or in memory, by our names or by foreign ones.
 *
 * A source is a mapped safetensors file, or several, a list in memory, or the roster of a
 * checkpoint, which has no data.  Its tensors follow a scheme of names (model/names.h).
 * If a GPT-2 comes without a configuration, its sizes can be found from the shapes of its
 * tensors.
 */
#ifndef LIBCORE_CHECKPOINT_WEIGHTS_H
#define LIBCORE_CHECKPOINT_WEIGHTS_H

#include "libcore/checkpoint/pieces.h"
#include "libcore/checkpoint/roster.h"
#include "libcore/checkpoint/safetensors.h"
#include "libcore/model/names.h"

/* Exactly one of the first four is set.  weights_sizes() and weights_find_prefix() set 'bare'
 * and 'by_output'. */
struct weights {
    const struct safetensors *file;
    const struct safetensors_set *set;
    const struct pieces *pieces;
    const struct roster *roster;
    const char *in_front; /* prefix of every name, which no scheme has; NULL: none */
    const struct names_scheme *scheme;
    bool bare; /* the names lack the prefix of the scheme */
    bool untied;   /* the output layer is known to be a parameter of its own */
    bool by_output; /* only the output layer's name exists, and is the word embedding:
                       safetensors.torch.save_model() writes one of two tied tensors */
};

/* Several files.  If several files have a tensor, the last file counts. */
struct safetensors_set {
    struct safetensors **file;
    size_t num;
};

/* A tensor of a source. */
struct weights_tensor {
    enum mg_dtype dtype;
    int ndims;
    int64_t shape[8];
    const void *data; /* of any alignment; NULL if the source has none */
};

/* True if a file has the names of a scheme: the name of the word embedding decides. */
bool weights_follow (const struct safetensors *file, const struct names_scheme *scheme);

/* Look up a tensor by its name in the scheme.  False if it is not there. */
bool weights_find (const struct weights *w, const char *name, struct weights_tensor *t);

/* True if the source has a tensor of this name, of any type.  weights_find() only finds
 * tensors whose type can be read. */
bool weights_has (const struct weights *w, const char *name);

/* The number of tensors of a source. */
size_t weights_count (const struct weights *w);

/* Set 'bare' and 'by_output'. */
void weights_find_prefix (struct weights *w);

/* Find the sizes of a GPT.  weights->scheme may become scheme->other.  The output layer
 * is tied if the source has none, or if it equals the word embedding bit for bit and does
 * not have our own name.  No tensor has the number of heads: c->num_heads is 1 if 'heads'
 * is 0.  Values that do not follow from sizes are 0.  -1, EINVAL and a text if a tensor
 * that is needed is missing or of an impossible shape.
 */
int weights_sizes (struct weights *w, int heads, struct model_config *c, struct mg_error *err);

/* Refuse a model that has more layers or experts than the source has tensors, before lists as long
 * as the model are made: -1, EINVAL and a text.
 */
int weights_check_count (const struct weights *w, const struct model_config *c,
                         struct mg_error *err);

/* True if a source of our own names lacks this state of a router, as it may. */
bool weights_may_lack (const struct weights *w, const struct names_param *p);

/* Check that a source has all foreign tensors of a model in their shapes, except those
 * that it may lack, and no unknown tensor: -1, EINVAL and a text that names the tensor.
 * A copy of a parameter (names.h) may be missing.  A copy that is there must be equal to
 * its original, so both are read.  A source may have a bias of zeros beside a weight of
 * the model.
 */
int weights_check (const struct weights *w, const struct names *names, struct mg_error *err);

/* Values of 'dtype'.  WEIGHTS_AS_IS: each tensor keeps its type.  WEIGHTS_WIDENED: each
 * tensor keeps its type, but a parameter is float32 if its foreign tensors have several
 * of the types float32, bfloat16 and float16.
 */
enum { WEIGHTS_AS_IS = -1, WEIGHTS_WIDENED = -2 };

/* A conversion of all tensors of a source.  It holds no tensor in memory: the pieces have read(),
 * which copies elements out of the source.
 */
struct weights_conversion {
    struct pieces pieces; /* in the order of the model */
    struct names *names;
    struct weights_view *view;
};

/* Convert the tensors of a source of any scheme to the parameters of a model with our
 * names.  'dtype' is their type: float32, bfloat16 or float16 (elements.h), WEIGHTS_AS_IS
 * or WEIGHTS_WIDENED; the state of routers is float32 instead of a 16-bit type.  A finite
 * element that this type cannot hold makes read() fail, with ERANGE and a text that names
 * the tensor.  The source must stay.  -1 and a text as weights_check(), and with EINVAL
 * if a tensor has integers or does not convert to the type.
 */
int weights_import (const struct weights *w, const struct model_config *c, int dtype,
                    struct weights_conversion *conversion, struct mg_error *err);

/* Convert a source of our own names to the foreign tensors of a scheme. */
int weights_export (const struct weights *w, const struct names_scheme *scheme,
                    const struct model_config *c, int dtype,
                    struct weights_conversion *conversion, struct mg_error *err);

/* Fill the pieces, each by its name, from a conversion that has all of them in their shapes and of
 * type float32.  -1, EINVAL and a text that names the piece.
 */
int weights_fill (const struct weights_conversion *conversion, const struct piece *pieces, size_t n,
                  struct mg_error *err);

void weights_clear (struct weights_conversion *conversion);

#endif /* LIBCORE_CHECKPOINT_WEIGHTS_H */
