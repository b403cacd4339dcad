/* attention - code that the operations of attention share: the places of queries, keys
 * and values, and the call of the kernel.
 *
 * Queries, keys and values are "local" first: in the tensors of this rank's rows, which are the
 * fused product, or tensors of their own.  Exchanges of context parallelism make "packed" tensors
 * of them, whose rows are [group][queries of the group, key, value], or [group][key, value] where
 * the queries stay local.  Gradients are at the same places as the values.
 */
#ifndef LIBCORE_OPS_ATTENTION_H
#define LIBCORE_OPS_ATTENTION_H

#include "libcore/ops/ops.h"

/* Queries, keys or values in a tensor. */
struct attention_heads {
    const struct tensor *t;
    int64_t first;    /* element of the tensor, the first of group 0 in row 0 */
    int64_t stride;   /* between rows */
    int64_t stride_g; /* between groups */
    int64_t width;    /* elements of a group, which follow each other */
};

/* Queries, keys and values, or their gradients. */
struct attention_operands {
    struct attention_heads q, k, v;
};

/* Returns where queries, keys and values, or their gradients, are in tensors of this rank's rows.
 */
struct attention_operands attention_local (const struct nn *nn, const struct tensor *query,
                                           const struct tensor *key, const struct tensor *value);

/* Returns where queries, keys and values, or without 'queries' keys and values, are in a tensor
 * that has them packed from element 'first' on, with 'groups' groups.
 */
struct attention_operands attention_packed (const struct nn *nn, const struct tensor *t,
                                            int64_t first, int64_t groups, bool queries);

/* Returns the elements of a packed group. */
int64_t attention_width (const struct nn *nn, bool queries);

/* Copy heads of 'rows' rows, 'groups' groups each. */
int attention_move (const struct pass *pass, const struct attention_heads *from,
                    const struct attention_heads *to, int64_t rows, int64_t groups,
                    struct mg_error *err);

/* Copy keys and values of 'rows' rows, 'groups' groups each. */
int attention_move_keys (const struct pass *pass, const struct attention_operands *from,
                         const struct attention_operands *to, int64_t rows, int64_t groups,
                         struct mg_error *err);

/* Returns the heads from a group on. */
struct attention_heads attention_from (const struct attention_heads *h, int64_t group);

/* Return the calls of a phase, forward and backward.  In a ring the keys are this rank's own. */
struct kern_attention_fwd attention_describe (const struct pass *pass, const struct phase *phase);
struct kern_attention_bwd attention_describe_bwd (const struct pass *pass,
                                                  const struct phase *phase);

/* Return where a phase of attention finds queries, keys and values, and leaves their gradients. */
struct attention_operands attention_values (const struct pass *pass, const struct phase *phase);
struct attention_operands attention_gradients (const struct pass *pass,
                                               const struct phase *phase);

/* Returns the positions from element 'first' of shape->positions on. */
struct kern_positions attention_positions (const struct pass *pass, int64_t first);

/* Set the keys and values of a call. */
void attention_set_keys (struct kern_attention_fwd *a, const struct attention_operands *x,
                         int64_t batch);

/* The accesses of both operations of attention to their operands. */
#define ATTENTION_OPERANDS                                                                   \
    [ATTENTION_QUERY] = { "query", false, OPERAND_READ, OPERAND_READ },                      \
    [ATTENTION_KEY] = { "key", false, OPERAND_READ, OPERAND_READ },                          \
    [ATTENTION_VALUE] = { "value", false, OPERAND_READ, OPERAND_READ },                      \
    [ATTENTION_OUT] = { "out", false, OPERAND_WRITE, OPERAND_READ },                         \
    [ATTENTION_LSE] = { "lse", false, OPERAND_WRITE, OPERAND_READ },                         \
    [ATTENTION_DOUT] = { "dout", false, 0, OPERAND_READ },                                   \
    [ATTENTION_DQUERY] = { "dquery", false, 0, OPERAND_WRITE },                              \
    [ATTENTION_DKEY] = { "dkey", false, 0, OPERAND_WRITE },                                  \
    [ATTENTION_DVALUE] = { "dvalue", false, 0, OPERAND_WRITE },                              \
    [ATTENTION_SAMPLES] = { "samples", false, OPERAND_READ, OPERAND_READ },                  \
    [ATTENTION_STARTS] = { "starts", false, OPERAND_READ, OPERAND_READ },                    \
    [ATTENTION_SINK] = { "sink", true, OPERAND_READ, OPERAND_READ | OPERAND_ADD }

/* Operations of 'pairs' pairs of a query's and a key's position. */
double attention_pair_flops (const struct nn *nn, double pairs);
double attention_flops (const struct layer_spec *spec, const struct phase *phase,
                        const struct nn *nn, const struct nn_shape *shape);

#endif /* LIBCORE_OPS_ATTENTION_H */
