/* Spans of rows in the rounds of an exchange, of counts at random, against streams that are
 * written out row by row: every row of every sender is sent once, to the place where its receiver
 * expects it.
 */

#include <stdlib.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "libcore/ops/moe_rounds.h"
#include "tests/tap/tap.h"

enum { MAX_RANKS = 12, MAX_EXPERTS = 12, MAX_COUNT = 9 };
enum { MAX_STREAM = MAX_RANKS * MAX_EXPERTS * MAX_COUNT };

/* An exchange among ep x etp ranks. */
struct world {
    struct moe_routes routes; /* but for the place of a rank */
    int64_t count[MAX_RANKS * MAX_EXPERTS];
};

static struct moe_routes at (const struct world *w, int ep, int etp)
{
    struct moe_routes r = w->routes;

    r.count = w->count;
    r.ep_rank = ep;
    r.etp_rank = etp;
    return r;
}

static uint32_t drawn; /* so many numbers */

/* A number from 0 to most. */
static int draw (int most)
{
    uint32_t value[4];

    rng_philox (11, drawn++, 0, 0, value);
    return (int)(value[0] % ((uint32_t)most + 1));
}

/* How counts are spread: anyhow, to few experts, to one expert, to none. */
static struct world make (int ep, int etp, bool ep_first, int spread)
{
    struct world w = { .routes = { .experts = (int64_t)ep * (1 + draw (MAX_EXPERTS / ep - 1)),
                                   .ep_size = ep, .etp_size = etp,
                                   .stride_ep = ep_first ? 1 : etp,
                                   .stride_etp = ep_first ? ep : 1, .limit = 1 + draw (20) } };
    int one = draw ((int)w.routes.experts - 1);

    for (int64_t i = 0; i < ep * etp * w.routes.experts; i++) {
        int64_t e = i % w.routes.experts;

        if (spread == 0 || (spread == 1 && draw (5) == 0) || (spread == 2 && e == one))
            w.count[i] = draw (MAX_COUNT);
    }
    return w;
}

/* A row of a stream: its sender in ep, and its number among the sender's rows. */
struct row {
    int from;
    int64_t number;
};

/* What the rank at (to, etp) receives over all rounds, in order. */
static int64_t stream_of (const struct world *w, int to, int etp, struct row *stream)
{
    const struct moe_routes *r = &w->routes;
    int64_t n = 0, local = r->experts / r->ep_size;

    for (int from = 0; from < r->ep_size; from++) {
        const int64_t *count
            = w->count + (from * r->stride_ep + etp * r->stride_etp) * r->experts;
        int64_t number = 0;

        for (int64_t e = 0; e < r->experts; e++) {
            for (int64_t i = 0; i < count[e]; i++, number++) {
                if (e / local == to)
                    stream[n++] = (struct row){ from, number };
            }
        }
    }
    return n;
}

/* Is this round of the rank at (to, etp) the part of its stream from 'begin' to 'end'? */
static bool round_is_right (const struct world *w, int to, int etp, int64_t round,
                            const struct row *stream, int64_t n)
{
    int64_t begin = round * w->routes.limit, end = begin + w->routes.limit, next = 0;
    struct moe_routes own = at (w, to, etp);
    bool right = true;

    end = end < n ? end : n;
    begin = begin < end ? begin : end;
    for (int from = 0; from < own.ep_size; from++) {
        struct moe_routes sender = at (w, from, etp);
        struct moe_span in = moe_received_from (&own, round, from);
        struct moe_span out = moe_sent_to (&sender, round, to);

        right = right && in.n == out.n && (in.n == 0 || in.first == next);
        for (int64_t i = 0; right && i < in.n; i++)
            right = begin + next + i < end && stream[begin + next + i].from == from
                    && stream[begin + next + i].number == out.first + i;
        next += in.n;
    }
    for (int other = 0; other < own.etp_size; other++) {
        struct moe_routes beside = at (w, to, other);

        right = right && moe_received (&beside, round, etp) == end - begin;
    }
    return right && next == end - begin;
}

/* Rounds are as few as the longest stream needs, and behind them nothing is left. */
static bool is_right (const struct world *w)
{
    static struct row stream[MAX_STREAM];
    const struct moe_routes *r = &w->routes;
    int64_t most = 0, most_gathered = 0, rows = 1 + draw (30), rounds;
    struct moe_routes first = at (w, 0, 0);
    bool right = true;

    rounds = moe_rounds (&first);
    for (int to = 0; to < r->ep_size; to++) {
        int64_t all = 0;

        for (int etp = 0; etp < r->etp_size; etp++) {
            struct moe_routes own = at (w, to, etp);
            int64_t n = stream_of (w, to, etp, stream);

            all += n;
            most = n > most ? n : most;
            right = right && moe_rounds (&own) == rounds;
            for (int64_t round = 0; round <= rounds; round++)
                right = right && round_is_right (w, to, etp, round, stream, n);
        }
        for (int etp = 0; etp < r->etp_size; etp++) {
            struct moe_routes own = at (w, to, etp);

            right = right && moe_all_rows (&own) == all;
        }
        most_gathered = all > most_gathered ? all : most_gathered;
    }
    right = right && rounds >= 1 && rounds * r->limit >= most
            && (rounds == 1 || (rounds - 1) * r->limit < most);
    rounds = moe_gathered_rounds (&first, rows);
    return right && rounds >= 1 && rounds * rows >= most_gathered
           && (rounds == 1 || (rounds - 1) * rows < most_gathered);
}

int main (void)
{
    static const int sizes[][2] = { { 1, 1 }, { 2, 1 }, { 1, 2 }, { 2, 2 }, { 4, 1 },
                                    { 1, 4 }, { 3, 2 }, { 2, 3 }, { 4, 3 }, { 6, 2 } };
    static const char *const spreads[] = { "anyhow", "few", "one expert", "none" };

    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++) {
        for (int spread = 0; spread < 4; spread++) {
            bool right = true;

            for (int draws = 0; draws < 20; draws++) {
                struct world w = make (sizes[i][0], sizes[i][1], draws % 2, spread);

                right = right && is_right (&w);
            }
            ok (right, "ep %d, etp %d, %s", sizes[i][0], sizes[i][1], spreads[spread]);
        }
    }
    return done_testing ();
}
