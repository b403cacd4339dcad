/* optimizer_sums.c - main gradients: made of reduced gradients, and summed over the ranks that
 * have another part of a parameter's gradient
 *
 * Tensor-parallel ranks that cut sequences saw their own rows only, and the first and the last
 * stage both use a tied embedding.  These sums are made of main gradients, since they are formed
 * in a wider type than 16-bit gradients are reduced in.
 *
 * Invariant: the ranks of such a group own the same ranges of the parameters concerned.  A tied
 * embedding is alone in its bucket on all ranks of the embedding group.
 */

#include "libcore/optim/optimizer_private.h"

static int64_t length (const struct buffers_range *r)
{
    return r->to - r->from;
}

/* --- data-parallel ranks --- */

/* Main gradients of gradients, where they are not the same. */
static int copy_grads (struct optimizer *o, struct mg_error *err)
{
    const struct owned *main_grad = &o->value[OPTIMIZER_MAIN_GRAD];
    const struct buffers *b = o->buffers;

    for (size_t i = 0; i < b->num_ranges; i++) {
        const struct buffers_range *r = &b->range[i];

        if (main_grad->place[i].data != r->grad
            && kern_cast (b->kern,
                          &(struct kern_cast){ .n = length (r), .scale = 1, .x = r->grad,
                                               .from = buffers_grad_dtype (b, i),
                                               .y = main_grad->place[i].data,
                                               .to = owned_dtype (main_grad, i) },
                          b->stream, err) < 0)
            return -1;
    }
    return 0;
}

static int reduce_data (struct optimizer *o, struct mg_error *err)
{
    return buffers_reduce (o->buffers, err) < 0 ? -1 : copy_grads (o, err);
}

/* --- tensor-parallel ranks --- */

/* True if a range is packed: of sequence-parallel parameters, dense or expert. */
static bool is_packed (const struct buffers *b, size_t range, bool expert)
{
    const struct param *p = buffers_param (b, range);

    return p->sequence_parallel && p->expert == expert;
}

static int64_t count_packed (const struct buffers *b, bool expert)
{
    int64_t n = 0;

    for (size_t i = 0; i < b->num_ranges; i++)
        n += is_packed (b, i, expert) ? length (&b->range[i]) : 0;
    return n;
}

/* Copy the main gradients of sequence-parallel parameters into the packed buffer, or back. */
static int pack (struct optimizer *o, bool expert, bool back, struct mg_error *err)
{
    const struct owned *main_grad = &o->value[OPTIMIZER_MAIN_GRAD];
    const struct buffers *b = o->buffers;
    float *next = o->packed[expert].grad;

    for (size_t i = 0; i < b->num_ranges; i++) {
        enum mg_dtype dtype = owned_dtype (main_grad, i);
        void *grad = main_grad->place[i].data;
        int64_t n = length (&b->range[i]);

        if (!is_packed (b, i, expert))
            continue;
        if (kern_cast (b->kern,
                       &(struct kern_cast){ .n = n, .scale = 1, .x = back ? next : grad,
                                            .from = back ? MG_FLOAT32 : dtype,
                                            .y = back ? grad : next,
                                            .to = back ? dtype : MG_FLOAT32 },
                       b->stream, err) < 0)
            return -1;
        next += n;
    }
    return 0;
}

static int reduce_sequence (struct optimizer *o, struct mg_error *err)
{
    for (int e = 0; e < 2; e++) {
        const struct optimizer_packed *p = &o->packed[e];

        if (p->n > 0
            && (pack (o, e, false, err) < 0
                || mg_comm_all_reduce (o->buffers->peers[e].tp, p->grad, (size_t)p->n,
                                       MG_FLOAT32, MG_SUM, o->buffers->stream, err) < 0
                || pack (o, e, true, err) < 0))
            return mg_error_prefix (err, "sequence-parallel gradients");
    }
    return 0;
}

int optimizer_sums_bind (struct optimizer *o, struct mg_error *err)
{
    for (int e = 0; e < 2; e++) {
        struct optimizer_packed *p = &o->packed[e];

        p->n = count_packed (o->buffers, e);
        if (p->n > 0
            && !(p->grad = device_alloc (o->buffers->device, (size_t)p->n * sizeof (float),
                                         err)))
            return mg_error_prefix (err, "sequence-parallel gradients");
    }
    return 0;
}

int64_t optimizer_sums_bytes (const struct optimizer *o)
{
    return (count_packed (o->buffers, false) + count_packed (o->buffers, true))
           * (int64_t)sizeof (float);
}

void optimizer_sums_clear (struct optimizer *o)
{
    device_free (o->buffers->device, o->packed[0].grad);
    device_free (o->buffers->device, o->packed[1].grad);
}

/* --- the embedding group --- */

static int reduce_embedding (struct optimizer *o, struct mg_error *err)
{
    const struct owned *main_grad = &o->value[OPTIMIZER_MAIN_GRAD];
    const struct buffers *b = o->buffers;

    for (size_t i = 0; o->embd && i < b->num_ranges; i++) {
        if (buffers_param (b, i)->shared_embedding
            && mg_comm_all_reduce (o->embd, main_grad->place[i].data,
                                   (size_t)length (&b->range[i]), owned_dtype (main_grad, i),
                                   MG_SUM, b->stream, err) < 0)
            return mg_error_prefix (err, "gradient of the tied embedding");
    }
    return 0;
}

/* --- all of them --- */

int optimizer_reduce_share (struct optimizer *o, enum optimizer_share share,
                            struct mg_error *err)
{
    static int (*const reduce[OPTIMIZER_NUM_SHARES]) (struct optimizer *, struct mg_error *)
        = { [OPTIMIZER_DATA] = reduce_data,
            [OPTIMIZER_SEQUENCE] = reduce_sequence,
            [OPTIMIZER_EMBEDDING] = reduce_embedding };

    return reduce[share] (o, err);
}

int optimizer_reduce_grads (struct optimizer *o, struct mg_error *err)
{
    for (int i = 0; i < OPTIMIZER_NUM_SHARES; i++) {
        if (optimizer_reduce_share (o, (enum optimizer_share)i, err) < 0)
            return -1;
    }
    return 0;
}
