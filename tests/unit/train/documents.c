/* documents - a sample of two documents: the second one gets the logits that it gets alone, and the
 * gradients of both are the sums of those that they have alone
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/data/documents.h"
#include "libcore/model/model_private.h"
#include "tests/tap/tap.h"
#include "tests/unit/nn/alone.h"

enum { BATCH = 2, SEQ = 12, FIRST = 5, SECOND = SEQ - FIRST, VOCAB = 24, EOD = 23 };

static struct model_config config_of (enum model_positions positions, bool attention,
                                      bool reset_positions)
{
    struct model_config c = {
        .num_layers = 2, .hidden_size = 16, .ffn_hidden_size = 24, .num_heads = 2,
        .kv_channels = 8, .seq_length = SEQ, .max_positions = SEQ, .vocab_size = VOCAB,
        .padded_vocab_size = VOCAB, .norm_epsilon = 1e-5, .init_std = 0.3, .seed = 5,
        .positions = positions, .reset_attention = attention,
        .reset_positions = reset_positions,
    };

    rope_config_init (&c.rope);
    return c;
}

static void create (struct alone *r, const struct model_config *c)
{
    const struct model_spec spec = { .config = *c, .micro_batch_size = BATCH };

    alone_create (r, &spec);
}

/* Token i of a document. */
static int32_t token_of (int document, int i, int length)
{
    return i == length - 1 ? EOD : (7 * document + 5 * i + i * i) % (VOCAB - 1);
}

/* A sample, column 'b' of the slot: documents of so many tokens; 'counted': the loss is of these
 * positions.
 */
static void fill (const struct nn_inputs *in, int b, const int32_t *token, int from, int to)
{
    int32_t start[SEQ], within[SEQ];

    documents_find (token, SEQ, EOD, start, within);
    ((int64_t *)nn_inputs_data (in, "samples"))[b] = b;
    for (int s = 0; s < SEQ; s++) {
        int at = s * BATCH + b;

        ((int32_t *)nn_inputs_data (in, "tokens"))[at] = token[s];
        ((int32_t *)nn_inputs_data (in, "labels"))[at] = (token[s] + 1) % VOCAB;
        ((float *)nn_inputs_data (in, "loss_mask"))[at] = s >= from && s < to;
        if (nn_inputs_data (in, "starts"))
            ((int32_t *)nn_inputs_data (in, "starts"))[at] = start[s];
        if (nn_inputs_data (in, "positions"))
            ((int32_t *)nn_inputs_data (in, "positions"))[at] = within[s];
    }
}

/* One pass forward and back; 'grad' [elements] receives all gradients. */
static void pass (struct alone *r, float *grad)
{
    const struct model_mode mode = { .training = true, .loss_weight = 1, .per_token_loss = true };
    struct mg_error err = { "" };

    for (size_t i = 0; i < r->n; i++)
        memset (r->params[i].grad, 0, (size_t)r->params[i].numel * sizeof (float));
    if (model_begin (r->model, &mode, &err) < 0
        || model_forward (r->model, &mode, 0, 0, &err) < 0
        || model_backward (r->model, &mode, 0, 0, &err) < 0
        || mg_stream_synchronize (model_stream (r->model), &err) < 0)
        bail_out ("%s", err.text);
    for (size_t i = 0; i < r->n; grad += r->params[i++].numel)
        memcpy (grad, r->params[i].grad, (size_t)r->params[i].numel * sizeof (float));
}

/* Largest differences: of the second document's logits to those that it has alone, and of the
 * gradients.
 */
static void measure (struct alone *r, double *logits, double *grads)
{
    const struct nn_inputs inputs = model_inputs (r->model, NULL, 0, 0), *in = &inputs;
    int32_t both[SEQ], first[SEQ], second[SEQ];
    size_t elements = 0;
    float *together, *alone, *rows = malloc (SECOND * VOCAB * sizeof (float));
    const float *at = alone_logits (r);

    for (size_t i = 0; i < r->n; i++)
        elements += (size_t)r->params[i].numel;
    together = malloc (elements * sizeof (float));
    alone = malloc (elements * sizeof (float));
    if (!together || !alone || !rows)
        bail_out ("out of memory");
    for (int s = 0; s < SEQ; s++) {
        both[s] = s < FIRST ? token_of (1, s, FIRST) : token_of (2, s - FIRST, SECOND);
        first[s] = s < FIRST ? both[s] : 0;
        second[s] = s < SECOND ? token_of (2, s, SECOND) : 0;
    }
    fill (in, 0, both, 0, SEQ);
    fill (in, 1, first, 0, 0);
    pass (r, together);
    for (int s = 0; s < SECOND; s++)
        memcpy (rows + s * VOCAB, at + (FIRST + s) * BATCH * VOCAB, VOCAB * sizeof (float));
    fill (in, 0, second, 0, SECOND);
    fill (in, 1, first, 0, FIRST);
    pass (r, alone);
    *logits = *grads = 0;
    for (int i = 0; i < SECOND * VOCAB; i++)
        *logits = fmax (*logits, fabs ((double)rows[i]
                                       - (double)at[i / VOCAB * BATCH * VOCAB + i % VOCAB]));
    for (size_t i = 0; i < elements; i++)
        *grads = fmax (*grads, fabs ((double)together[i] - (double)alone[i]));
    free (together);
    free (alone);
    free (rows);
}

static void test (const char *name, enum model_positions positions, bool attention,
                  bool reset_positions, bool same)
{
    const struct model_config c = config_of (positions, attention, reset_positions);
    double logits, grads;
    struct alone r;

    create (&r, &c);
    measure (&r, &logits, &grads);
    if (same)
        ok (logits < 2e-5 && grads < 1e-4, "%s: as if they were alone (%.2g, %.2g)", name, logits,
            grads);
    else
        ok (logits > 1e-3 && grads > 1e-3, "%s: they are not alone (%.2g, %.2g)", name, logits,
            grads);
    alone_destroy (&r);
}

int main (void)
{
    test ("learned positions, both reset", MODEL_LEARNED, true, true, true);
    test ("rotary positions, attention reset", MODEL_ROPE, true, false, true);
    test ("rotary positions, both reset", MODEL_ROPE, true, true, true);
    test ("no positions, attention reset", MODEL_NO_POSITIONS, true, false, true);
    test ("learned positions, attention reset", MODEL_LEARNED, true, false, false);
    test ("learned positions, positions reset", MODEL_LEARNED, false, true, false);
    test ("rotary positions, nothing reset", MODEL_ROPE, false, false, false);
    return done_testing ();
}
