/* ring.c - attention while keys and values go round the context-parallel ranks
 * (Liu et al. 2023, "Ring Attention with Blockwise Transformers")
 *
 * In step i a rank attends to the keys and values of the rank i places before it.  Meanwhile it
 * sends them to the next rank, and receives those of step i + 1 from the rank before.  Two buffers
 * are enough: step i reads and sends one, and receives the other.
 *
 * Backward, the gradients of a rank's keys follow their keys one step behind.  A rank computes its
 * own summand in step i while the sum of the ranks before arrives, adds the two, and sends the
 * sum on in step i + 1.  After the last step the sum goes to the rank whose keys they are.
 *
 * The attention to all keys is merged of the parts by their log-sum-exp.  The merge computes in
 * float32; each part is rounded to the model's type before, and each sum of gradients is rounded
 * to it.  A sink counts in step 0 alone.
 */

#include "libcore/ops/attention.h"

/* One pass round the ring. */
struct ring {
    struct nn_exchange c;
    int64_t rows, groups;            /* of a rank's keys */
    int64_t count;                   /* elements of a rank's packed keys and values */
    const struct tensor *keys;       /* two buffers of 'count' elements */
    const struct tensor *dkeys;      /* three: two of sums, and one of what arrives; backward */
};

enum { ARRIVING = 2 };

static struct ring ring_of (const struct pass *pass, const struct phase *phase, bool backward)
{
    const struct nn *nn = pass->nn;
    struct ring r = { .c = pass->layer->exchange };

    r.rows = r.c.inner * pass->shape->tokens;
    r.groups = nn->local_groups / r.c.inner;
    r.count = r.rows * r.groups * attention_width (nn, false);
    r.keys = pass_tensor (pass, phase, RING_KEYS);
    r.dkeys = backward ? pass_tensor (pass, phase, RING_DKEYS) : NULL;
    return r;
}

/* Keys and values, or their gradients, in buffer 'i' of a tensor. */
static struct attention_operands buffer_at (const struct pass *pass, const struct ring *r,
                                            const struct tensor *t, int i)
{
    return attention_packed (pass->nn, t, i * r->count, r->groups, false);
}

/* Add two transfers to a list: buffer 'from' of a tensor goes to the next rank, and buffer 'to'
 * comes from the rank before.  Returns the new length of the list.
 */
static int add_transfer (const struct pass *pass, const struct ring *r, const struct tensor *t,
                         int from, int to, struct mg_p2p *list, int n)
{
    int size = r->c.outer, rank = r->c.outer_rank;
    enum mg_dtype dtype = pass->nn->dtype;

    list[n++] = (struct mg_p2p){ MG_SEND, (rank + 1) % size, tensor_at (t, from * r->count),
                                 (size_t)r->count, dtype };
    list[n++] = (struct mg_p2p){ MG_RECV, (rank + size - 1) % size,
                                 tensor_at (t, to * r->count), (size_t)r->count, dtype };
    return n;
}

/* The transfers during step i. */
static int start_transfers (const struct pass *pass, const struct ring *r, int i, bool backward,
                            struct mg_error *err)
{
    struct mg_p2p list[4];
    int n = 0;

    if (i + 1 < r->c.outer)
        n = add_transfer (pass, r, r->keys, i % 2, (i + 1) % 2, list, n);
    if (backward && i > 0)
        n = add_transfer (pass, r, r->dkeys, (i - 1) % 2, ARRIVING, list, n);
    return n > 0 ? nn_transfer_start (pass->nn, r->c.outer_comm, list, n, err) : 0;
}

/* Make the call of step i from that of the first step.  The keys are in a buffer. */
static void set_step (const struct pass *pass, const struct ring *r, int i,
                      struct kern_attention_fwd *a)
{
    const struct attention_operands x = buffer_at (pass, r, r->keys, i % 2);
    int owner = (r->c.outer_rank + r->c.outer - i) % r->c.outer;

    attention_set_keys (a, &x, pass->shape->batch);
    a->pos_k = attention_positions (pass, owner * r->c.inner * pass->shape->seq);
    a->has_sink = a->has_sink && i == 0;
}

/* --- forward --- */

/* y = x in another type, or the same */
static int convert (const struct pass *pass, const struct tensor *x, const struct tensor *y,
                 struct mg_error *err)
{
    const struct kern_cast k = { .n = tensor_count (x), .scale = 1, .x = tensor_at (x, 0),
                                 .from = x->dtype, .y = tensor_at (y, 0), .to = y->dtype };

    return kern_cast (pass->nn->kern, &k, pass->nn->compute, err);
}

/* Attend to the keys of step i > 0, and merge the result into that of the steps before. */
static int fwd_step (const struct pass *pass, const struct phase *phase, const struct ring *r,
                     int i, const struct tensor *sum, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    struct kern_attention_fwd a = attention_describe (pass, phase);
    const struct kern_attention_merge merge = {
        .batch = a.batch, .heads = a.heads, .seq_q = a.seq_q, .head_dim = nn->head_dim_v,
        .out = tensor_at (sum, 0), .part = pass_data (pass, phase, RING_PART),
        .out_stride_s = a.out_stride_s, .out_stride_b = a.out_stride_b,
        .out_stride_h = a.out_stride_h,
        .lse = a.lse, .part_lse = pass_data (pass, phase, RING_PART_LSE),
        .dtype = sum->dtype, .part_dtype = nn->dtype,
    };

    a.out = pass_data (pass, phase, RING_PART);
    a.lse = pass_data (pass, phase, RING_PART_LSE);
    set_step (pass, r, i, &a);
    if (kern_attention_fwd (nn->kern, &a, nn->compute, err) < 0)
        return -1;
    return kern_attention_merge (nn->kern, &merge, nn->compute, err);
}

static int ring_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct ring r = ring_of (pass, phase, false);
    const struct kern_attention_fwd own = attention_describe (pass, phase);
    const struct attention_operands x = attention_values (pass, phase);
    const struct attention_operands first = buffer_at (pass, &r, r.keys, 0);
    const struct tensor *out = pass_tensor (pass, phase, ATTENTION_OUT);
    const struct tensor *sum = pass_tensor (pass, phase, RING_SUM);

    if (attention_move_keys (pass, &x, &first, r.rows, r.groups, err) < 0
        || start_transfers (pass, &r, 0, false, err) < 0
        || kern_attention_fwd (nn->kern, &own, nn->compute, err) < 0
        || (sum && convert (pass, out, sum, err) < 0))
        return -1;
    for (int i = 1; i < r.c.outer; i++) {
        if (nn_transfer_wait (nn, err) < 0 || start_transfers (pass, &r, i, false, err) < 0
            || fwd_step (pass, phase, &r, i, sum ? sum : out, err) < 0)
            return -1;
    }
    return sum ? convert (pass, sum, out, err) : 0;
}

/* --- backward --- */

/* This rank's summand of the gradients of step i, and its part of the queries' gradient. */
static int bwd_step (const struct pass *pass, const struct phase *phase, const struct ring *r,
                     int i, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    struct kern_attention_bwd a = attention_describe_bwd (pass, phase);
    const struct attention_operands dx = buffer_at (pass, r, r->dkeys, i % 2);
    const struct kern_fill zero = { .n = r->count, .out = tensor_at (r->dkeys, i % 2 * r->count),
                                    .dtype = nn->dtype };

    set_step (pass, r, i, &a.fwd);
    a.dk = tensor_at (dx.k.t, dx.k.first);
    a.dv = tensor_at (dx.v.t, dx.v.first);
    a.accumulate = i > 0;
    if (i > 0 && kern_fill (nn->kern, &zero, nn->compute, err) < 0)
        return -1;
    return kern_attention_bwd (nn->kern, &a, nn->compute, err);
}

/* Add what has arrived to this rank's summand of step i. */
static int add_arrived (const struct pass *pass, const struct ring *r, int i,
                        struct mg_error *err)
{
    void *sum = tensor_at (r->dkeys, i % 2 * r->count);
    const struct kern_bias_dropout_add_fwd add = {
        .rows = r->rows, .cols = r->count / r->rows,
        .x = sum, .residual = tensor_at (r->dkeys, ARRIVING * r->count), .y = sum,
        .dtype = pass->nn->dtype,
    };

    return kern_bias_dropout_add_fwd (pass->nn->kern, &add, pass->nn->compute, err);
}

static int ring_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct ring r = ring_of (pass, phase, true);
    const struct attention_operands x = attention_values (pass, phase);
    const struct attention_operands dx = attention_gradients (pass, phase);
    const struct attention_operands first = buffer_at (pass, &r, r.keys, 0);
    const struct attention_operands total = buffer_at (pass, &r, r.dkeys, ARRIVING);

    if (attention_move_keys (pass, &x, &first, r.rows, r.groups, err) < 0)
        return -1;
    for (int i = 0; i < r.c.outer; i++) {
        if (start_transfers (pass, &r, i, true, err) < 0
            || bwd_step (pass, phase, &r, i, err) < 0 || nn_transfer_wait (nn, err) < 0
            || (i > 0 && add_arrived (pass, &r, i, err) < 0))
            return -1;
    }
    if (start_transfers (pass, &r, r.c.outer, true, err) < 0 || nn_transfer_wait (nn, err) < 0)
        return -1;
    return attention_move_keys (pass, &total, &dx, r.rows, r.groups, err);
}

const struct layer_op op_attention_ring = {
    .name = "attention_ring",
    .flags = PHASE_CAPTURABLE,
    .flops = attention_flops,
    .operand = {
        ATTENTION_OPERANDS,
        [RING_KEYS] = { "keys", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [RING_DKEYS] = { "dkeys", false, 0, OPERAND_SCRATCH },
        [RING_PART] = { "part", false, OPERAND_SCRATCH, 0 },
        [RING_PART_LSE] = { "part_lse", false, OPERAND_SCRATCH, 0 },
        [RING_SUM] = { "sum", false, OPERAND_SCRATCH, 0 },
    },
    .fwd = ring_fwd,
    .bwd = ring_bwd,
};
