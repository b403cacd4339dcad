/* losses - those beside the main one: their names, and means between two log lines */

#include <string.h>

#include "libcore/train/losses.h"
#include "tests/tap/tap.h"
#include "tests/unit/nn/alone.h"

static struct model_spec spec_of (int mtp)
{
    return (struct model_spec){
        .config = { .num_layers = 1, .hidden_size = 8, .ffn_hidden_size = 8, .num_heads = 2,
                    .kv_channels = 4, .seq_length = 4, .max_positions = 4, .vocab_size = 7,
                    .padded_vocab_size = 8, .norm_epsilon = 1e-5, .init_std = 0.02,
                    .positions = MODEL_NO_POSITIONS, .mtp_num_layers = mtp,
                    .mtp_scaling_factor = 0.1 },
        .micro_batch_size = 1,
    };
}

static void test_none (void)
{
    const struct model_spec spec = spec_of (0);
    struct mg_error err = { "" };
    struct alone a;
    struct losses l = { .n = 7 };

    alone_create (&a, &spec);
    is_int (losses_create (&l, a.model, &err), 0, "a model with one loss %s", err.text);
    is_int (l.n, 0, "has none beside it");
    is_int (losses_collect (&l, a.model, a.job, 1, &err), 0, "there is nothing to collect");
    losses_add (&l);
    losses_average (&l, 3);
    losses_restart (&l);
    losses_clear (&l);
    alone_destroy (&a);
}

int main (void)
{
    const struct model_spec spec = spec_of (2);
    struct mg_error err = { "" };
    struct alone a;
    struct losses l;

    test_none ();
    alone_create (&a, &spec);
    is_int (losses_create (&l, a.model, &err), 0, "a model with two more %s", err.text);
    ok (l.n == 2 && strcmp (l.row[0].name, "mtp_1 loss") == 0
            && strcmp (l.row[1].name, "mtp_2 loss") == 0,
        "which have names");
    l.now[0] = 9;
    ok (losses_collect (&l, a.model, a.job, 0.5, &err) == 0 && l.now[0] == 0 && l.now[1] == 0,
        "without a pass all sums are 0 %s", err.text);
    l.now[0] = 3;
    l.now[1] = 5;
    losses_add (&l);
    l.now[0] = 4;
    losses_add (&l);
    losses_average (&l, 2);
    ok (l.mean[0] == 3.5 && l.mean[1] == 5, "the mean over two iterations");
    losses_average (&l, 0);
    ok (l.mean[0] == 7, "no update counts as one");
    losses_restart (&l);
    losses_add (&l);
    losses_average (&l, 1);
    ok (l.mean[0] == 4 && l.now[0] == 4, "after a log line they begin again");
    losses_clear (&l);
    ok (l.n == 0 && !l.now, "cleared ones are none");
    losses_clear (&l);
    alone_destroy (&a);
    return done_testing ();
}
