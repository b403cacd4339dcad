/* weights - the tensors of a model wherever they lie, by our names or by foreign ones.
 *
 * A source is a mapped safetensors file, or several, a list in memory, or the roster of a
 * checkpoint, which has no data.  Its tensors follow a scheme of names (model/names.h).  The
 * sizes of a GPT-2 can be found from the shapes of its tensors, where no configuration comes
 * with them.
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
    const char *in_front; /* of every name, which no scheme knows of; NULL: nothing */
    const struct names_scheme *scheme;
    bool bare; /* the names lack the prefix of the scheme */
    bool untied;   /* the output layer is known to be a parameter of its own */
    bool by_output; /* the word embedding is there by the name of the output layer alone: of tied
                       tensors, safetensors.torch.save_model() writes one */
};

/* Several files.  Of a tensor that several of them have, the last one counts. */
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

/* True if a file has the names of a scheme, which its word embedding shows. */
bool weights_follow (const struct safetensors *file, const struct names_scheme *scheme);

/* Look up a tensor by its name in the scheme.  False if it is not there. */
bool weights_find (const struct weights *w, const char *name, struct weights_tensor *t);

/* Is a tensor there, of whatever type?  weights_find() finds those that can be read. */
bool weights_has (const struct weights *w, const char *name);

/* The number of tensors of a source. */
size_t weights_count (const struct weights *w);

/* Set 'bare' and 'by_output'. */
void weights_find_prefix (struct weights *w);

/* Find the sizes of a GPT.  weights->scheme may become scheme->other.  The output layer is tied if
 * there is none, or if it equals the word embedding bit for bit and is not there by our own name.
 * The number of heads is not in a tensor: c->num_heads is 1 if 'heads' is 0.  What sizes do not say
 * is 0.  -1, EINVAL and a text if a tensor that is needed is missing or of an impossible shape.
 */
int weights_sizes (struct weights *w, int heads, struct model_config *c, struct mg_error *err);

/* Refuse a model that has more layers or experts than the source has tensors, before lists as long
 * as the model are made: -1, EINVAL and a text.
 */
int weights_check_count (const struct weights *w, const struct model_config *c,
                         struct mg_error *err);

/* True if a source of our own names lacks this state of a router, as it may. */
bool weights_may_lack (const struct weights *w, const struct names_param *p);

/* Prove that a source has all foreign tensors of a model in their shapes, but those that it may
 * lack, and no tensor that none knows of: -1, EINVAL and a text that names the tensor.  A copy of a
 * parameter (names.h) may be missing.  A copy that is there must be equal to its original, so both
 * are read.  A bias of zeros beside a weight of the model may be there, too.
 */
int weights_check (const struct weights *w, const struct names *names, struct mg_error *err);

/* A type: that of each tensor in the source; the same, but float32 for a parameter whose foreign
 * tensors have several of the types float32, bfloat16 and float16.
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

/* The parameters of a model by our names, out of the source, whose scheme is any.  'dtype' is their
 * type: float32, bfloat16 or float16 (elements.h), WEIGHTS_AS_IS or WEIGHTS_WIDENED; the state of
 * routers is float32 instead of a 16-bit type.  A finite element that this type cannot hold makes
 * read() fail, with ERANGE and a text that names the tensor.  The source must stay.  -1 and a text
 * as weights_check(), and with EINVAL if a tensor has integers or does not convert to the type.
 */
int weights_import (const struct weights *w, const struct model_config *c, int dtype,
                    struct weights_conversion *conversion, struct mg_error *err);

/* The foreign tensors of a scheme, out of a source of our own names. */
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
