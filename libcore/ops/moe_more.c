/* moe_more.c - further rounds of experts, whichever way their rows come and go */

#include "libcore/ops/moe_exchange.h"

/* Receive the rows of a round, and compute the experts up to the activation. */
static int begin_round (const struct moe_way *way, const struct pass *pass,
                        const struct phase *phase, int64_t round, const struct moe_kept *kept,
                        struct mg_error *err)
{
    if (way->take_rows (pass, phase, round, kept, err) < 0
        || moe_fc1_fwd (pass, phase, kept, err) < 0)
        return -1;
    return moe_act_fwd (pass, phase, kept, err);
}

int moe_more_fwd (const struct moe_way *way, const struct pass *pass, const struct phase *phase,
                  struct mg_error *err)
{
    int64_t rounds = way->rounds (pass);

    for (int64_t i = 1; i < rounds; i++) {
        if (begin_round (way, pass, phase, i, &moe_further, err) < 0
            || moe_fc2_fwd (pass, phase, &moe_further, err) < 0
            || way->give_rows (pass, phase, i, err) < 0)
            return -1;
    }
    return 0;
}

int moe_more_bwd (const struct moe_way *way, const struct pass *pass, const struct phase *phase,
                  struct mg_error *err)
{
    int64_t rounds = way->rounds (pass);

    if (rounds > 1 && way->send_again (pass, phase, err) < 0)
        return -1;
    for (int64_t i = 1; i < rounds; i++) {
        if (begin_round (way, pass, phase, i, &moe_further, err) < 0
            || way->take_gradient (pass, phase, i, err) < 0
            || moe_fc2_bwd (pass, phase, &moe_further, err) < 0
            || moe_act_bwd (pass, phase, &moe_further, err) < 0
            || moe_fc1_bwd (pass, phase, &moe_further, err) < 0
            || way->give_gradients (pass, phase, i, err) < 0)
            return -1;
    }
    return 0;
}
