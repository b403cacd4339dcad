/* call.c - test the messages of calls over a transport that is an array: right results at many
 * sizes, and few rounds among many ranks
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/comm/call.h"
#include "tests/tap/tap.h"

enum { RANKS_MAX = 64, MAIL_MAX = 1 << 14, SCRATCH = 4 << 20 };

/* --- the transport: what was sent and not yet received, in order --- */

struct mail {
    int from, to;
    enum call_kind kind;
    uint64_t number;
    char *data;
    size_t bytes;
    bool taken;
};

struct batch {
    struct message *recv;
    int count, capacity;
};

const size_t batch_message_max = 1 << 20;

static struct mail mail[MAIL_MAX];
static int num_mail;
static int rounds[RANKS_MAX]; /* phases in which a rank has sent something */
static int sent[RANKS_MAX];   /* messages */
static bool sending[RANKS_MAX];

struct batch *batch_create (void)
{
    return calloc (1, sizeof (struct batch));
}

void batch_destroy (struct batch *b)
{
    if (b)
        free (b->recv);
    free (b);
}

int batch_reserve (struct batch *b, int capacity)
{
    struct message *grown = realloc (b->recv, (size_t)capacity * sizeof (*grown));

    if (!grown)
        return -1;
    b->recv = grown;
    b->capacity = capacity;
    return 0;
}

int batch_post (struct batch *b, struct call_comm *c, const struct message *m,
                struct mg_error *err)
{
    if (!m->sends) {
        if (b->count == b->capacity)
            return mg_error_set (err, ENOBUFS, "more messages than there is room for");
        b->recv[b->count++] = *m;
        return 0;
    }
    if (num_mail == MAIL_MAX || m->span.bytes > batch_message_max)
        return mg_error_set (err, ENOBUFS, "too many messages, or too long a one");
    mail[num_mail] = (struct mail){ c->rank, m->peer, m->kind, m->number,
                                    malloc (m->span.bytes + 1), m->span.bytes, false };
    if (m->span.bytes > 0)
        memcpy (mail[num_mail].data, m->span.ptr, m->span.bytes);
    num_mail++;
    sent[c->rank]++;
    sending[c->rank] = true;
    return 0;
}

static struct mail *find_mail (const struct call_comm *c, const struct message *m)
{
    for (int i = 0; i < num_mail; i++) {
        struct mail *have = &mail[i];

        if (!have->taken && have->from == m->peer && have->to == c->rank && have->kind == m->kind
            && have->number == m->number)
            return have;
    }
    return NULL;
}

int batch_test (struct batch *b, struct call_comm *c, struct mg_error *err)
{
    while (b->count > 0) {
        struct message *m = &b->recv[0];
        struct mail *have = find_mail (c, m);

        if (!have)
            return 0;
        if (have->bytes != m->span.bytes)
            return mg_error_set (err, EPROTO, "%zu bytes instead of %zu", have->bytes,
                                 m->span.bytes);
        if (have->bytes > 0)
            memcpy (m->span.ptr, have->data, have->bytes);
        have->taken = true;
        memmove (b->recv, b->recv + 1, (size_t)--b->count * sizeof (*b->recv));
    }
    rounds[c->rank] += sending[c->rank];
    sending[c->rank] = false;
    return 1;
}

static void clear_mail (void)
{
    for (int i = 0; i < num_mail; i++)
        free (mail[i].data);
    num_mail = 0;
    memset (rounds, 0, sizeof (rounds));
    memset (sent, 0, sizeof (sent));
}

/* --- ranks, each of which has one call at a time --- */

static struct rank {
    struct call_comm c;
    struct work *work;
    char *scratch;
    bool done;
} ranks[RANKS_MAX];

static struct mg_stream *stream_of (int rank)
{
    return (struct mg_stream *)&ranks[rank]; // the transport's streams are ranks
}

static int keep_work (struct mg_stream *stream, struct work *work, struct mg_error *err)
{
    (void)err;
    ((struct rank *)stream)->work = work;
    return 0;
}

static struct comm_host host;

static void start_ranks (int n)
{
    struct mg_error err = { "" };

    host = comm_host;
    host.submit = keep_work;
    for (int r = 0; r < n; r++) {
        struct comm_group group = { .name = "g", .size = n, .rank = r, .scratch_size = SCRATCH };

        ranks[r] = (struct rank){ .scratch = malloc (SCRATCH) };
        group.scratch = ranks[r].scratch;
        if (!group.scratch || call_comm_init (&ranks[r].c, &host, &group, &err) < 0)
            bail_out ("%s", err.text);
    }
}

static void stop_ranks (int n)
{
    for (int r = 0; r < n; r++) {
        call_comm_fini (&ranks[r].c);
        free (ranks[r].scratch);
    }
    clear_mail ();
}

/* Poll all ranks in turn until their calls are done; false if one fails or all stand still. */
static bool run_ranks (int n)
{
    struct mg_error err = { "" };
    int left = n;

    for (int r = 0; r < n; r++)
        ranks[r].done = false;
    for (int tries = 0; left > 0 && tries < 10000; tries++) {
        struct rank *rank = &ranks[tries % n];
        int rc = rank->done ? 0 : rank->work->poll (rank->work, &err);

        if (rc < 0) {
            diag ("rank %d: %s", tries % n, err.text);
            return false;
        }
        if (rc > 0) {
            rank->done = true;
            rank->work->release (rank->work);
            left--;
        }
    }
    return left == 0;
}

static double value (int rank, size_t i)
{
    return 1.0 / (1 + rank) + (double)i * 0.01;
}

static bool enqueue (int r, struct comm_request req)
{
    struct mg_error err = { "" };

    req.name = "g";
    if (call_enqueue (&ranks[r].c, &req, stream_of (r), &err) == 0)
        return true;
    diag ("%s", err.text);
    return false;
}

/* The most rounds and messages of a rank. */
static int most (const int *numbers, int n)
{
    int most = 0;

    for (int r = 0; r < n; r++)
        most = numbers[r] > most ? numbers[r] : most;
    return most;
}

static void test_all_reduce (int n, size_t count, int max_rounds)
{
    double *data = calloc ((size_t)n * count, sizeof (*data));
    bool good = true;

    clear_mail ();
    for (int r = 0; r < n; r++) {
        for (size_t i = 0; i < count; i++)
            data[(size_t)r * count + i] = value (r, i);
        good &= enqueue (r, (struct comm_request){ .call = MG_CALL_ALL_REDUCE,
                                                   .send = data + (size_t)r * count,
                                                   .recv = data + (size_t)r * count,
                                                   .count = count, .dtype = MG_FLOAT64 });
    }
    good = good && run_ranks (n);
    for (size_t i = 0; good && i < count; i++) {
        double sum = value (0, i);

        for (int r = 1; r < n; r++)
            sum += value (r, i);
        for (int r = 0; r < n; r++)
            good &= data[(size_t)r * count + i] == sum;
    }
    ok (good && most (rounds, n) <= max_rounds, "all-reduce of %zu on %d ranks: %d rounds, %d "
        "messages", count, n, most (rounds, n), most (sent, n));
    free (data);
}

/* Each rank's 'count' elements: gathered, and scattered sums of n times as many. */
static void test_gather_scatter (int n, size_t count, int max_rounds)
{
    size_t all = (size_t)n * count;
    double *from = calloc ((size_t)n * all, sizeof (*from)), *to = calloc ((size_t)n * all,
                                                                           sizeof (*to));
    bool good = true;

    clear_mail ();
    for (int r = 0; r < n; r++) {
        for (size_t i = 0; i < all; i++)
            from[(size_t)r * all + i] = value (r, i);
        good &= enqueue (r, (struct comm_request){ .call = MG_CALL_ALL_GATHER,
                                                   .send = from + (size_t)r * all,
                                                   .recv = to + (size_t)r * all,
                                                   .count = count, .dtype = MG_FLOAT64 });
    }
    good = good && run_ranks (n);
    for (size_t i = 0; good && i < (size_t)n * all; i++)
        good &= to[i] == value ((int)(i % all / count), i % count);
    ok (good && most (rounds, n) <= max_rounds, "all-gather of %zu on %d ranks: %d rounds", count,
        n, most (rounds, n));
    clear_mail ();
    for (int r = 0; r < n; r++)
        good &= enqueue (r, (struct comm_request){ .call = MG_CALL_REDUCE_SCATTER,
                                                   .send = from + (size_t)r * all,
                                                   .recv = to + (size_t)r * count,
                                                   .count = count, .dtype = MG_FLOAT64 });
    good = good && run_ranks (n);
    for (size_t i = 0; good && i < all; i++) {
        double sum = value (0, i);

        for (int r = 1; r < n; r++)
            sum += value (r, i);
        good &= to[i] == sum;
    }
    ok (good, "reduce-scatter of %zu: %d rounds", count, most (rounds, n));
    free (from);
    free (to);
}

static void test_broadcast (int n, size_t bytes, int root)
{
    char *data = calloc ((size_t)n, bytes);
    bool good = true;

    clear_mail ();
    memset (data + (size_t)root * bytes, 'x', bytes);
    data[(size_t)root * bytes + bytes - 1] = 'y';
    for (int r = 0; r < n; r++)
        good &= enqueue (r, (struct comm_request){ .call = MG_CALL_BROADCAST, .root = root,
                                                   .send = data + (size_t)r * bytes,
                                                   .recv = data + (size_t)r * bytes,
                                                   .count = bytes, .dtype = MG_UINT8 });
    good = good && run_ranks (n);
    for (int r = 0; r < n; r++)
        good &= memcmp (data + (size_t)r * bytes, data + (size_t)root * bytes, bytes) == 0;
    ok (good, "broadcast of %zu bytes from rank %d of %d: %d messages", bytes, root, n,
        most (sent, n));
    free (data);
}

static void test_barrier (int n)
{
    bool good = true;

    clear_mail ();
    for (int r = 0; r < n; r++)
        good &= enqueue (r, (struct comm_request){ .call = MG_CALL_BARRIER });
    ranks[0].done = false;
    good &= n == 1 || ranks[n - 1].work->poll (ranks[n - 1].work, NULL) == 0;
    ok (good && run_ranks (n) && most (sent, n) <= 6, "a barrier of %d ranks: %d messages", n,
        most (sent, n));
}

/* The 2nd transfer meets the 2nd, whichever starts first. */
static void test_transfers (void)
{
    int data[4] = { 1, 2, 0, 0 };
    struct mg_p2p list[4] = {
        { MG_SEND, 1, &data[0], 1, MG_INT32 }, { MG_SEND, 1, &data[1], 1, MG_INT32 },
        { MG_RECV, 0, &data[2], 1, MG_INT32 }, { MG_RECV, 0, &data[3], 1, MG_INT32 },
    };
    struct mg_error err = { "" };
    struct work *first;

    clear_mail ();
    enqueue (0, (struct comm_request){ .call = MG_CALL_P2P, .list = list, .n = 1 });
    first = ranks[0].work;
    enqueue (0, (struct comm_request){ .call = MG_CALL_P2P, .list = list + 1, .n = 1 });
    ok (ranks[0].work->poll (ranks[0].work, &err) == 1 && first->poll (first, &err) == 1,
        "two sends, the later one first");
    enqueue (1, (struct comm_request){ .call = MG_CALL_P2P, .list = list + 2, .n = 2 });
    ok (ranks[1].work->poll (ranks[1].work, &err) == 1 && data[2] == 1 && data[3] == 2,
        "each receive meets the send of its number");
}

int main (void)
{
    static const int sizes[] = { 2, 3, 8, 9, 13, 64 };

    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++) {
        int n = sizes[i];

        start_ranks (n);
        test_all_reduce (n, 1, n > 8 ? 6 : 1);
        test_all_reduce (n, 512, n > 8 ? 6 : 2);
        test_all_reduce (n, 3000, 100);
        test_gather_scatter (n, 3, n > 8 ? 6 : 1);
        test_broadcast (n, 5, n - 1);
        test_broadcast (n, n < 10 ? 600000 : 11, n / 2);
        test_broadcast (n, n < 10 ? 512 << 10 : 12, n / 2); // no rest behind the last chunk
        test_barrier (n);
        if (n == 2)
            test_transfers ();
        stop_ranks (n);
    }
    return done_testing ();
}
