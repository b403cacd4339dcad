/* monitor.c - what arrives at a hub, and the report that is made of it
 *
 * Input: a number that chooses; then bytes as they come from a connection.  With an odd
 * number each message has the job's token in it, and a rank that there is.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libcore/job/monitor_private.h"
#include "tests/fuzz/fuzz.h"

enum { RANKS = 4, TOKEN = 0x1234567 };

static void tell (void *arg, const char *text)
{
    (void)arg;
    fuzz_check (strlen (text) < 100000, "a report of %zu bytes", strlen (text));
}

static void end (void *arg, int code)
{
    (void)code;
    ++*(int *)arg;
}

/* Through a socket, as much at once as a message is long. */
static void feed (struct monitor *m, struct peer *p, int to, struct fuzz_input in, bool fit)
{
    while (in.left > 0 && p->fd >= 0) {
        struct message msg = { .token = 0 };
        size_t n = in.left < sizeof (msg) ? in.left : sizeof (msg);

        memcpy (&msg, in.at, n);
        if (fit) {
            msg.token = TOKEN;
            msg.rank = p->rank >= 0 ? p->rank : (int)((uint32_t)msg.rank % RANKS);
            n = sizeof (msg);
        }
        fuzz_check (send (to, &msg, n, MSG_NOSIGNAL) == (ssize_t)n, "not sent");
        in.at += n < in.left ? n : in.left;
        in.left -= n < in.left ? n : in.left;
        hub_read (m, p);
        fuzz_check (p->rank < RANKS, "rank %d", p->rank);
    }
}

static void run (const uint8_t *data, size_t size)
{
    static struct grid *grid;
    struct fuzz_input in = { data, size };
    bool fit = fuzz_number (&in, 1) % 2 == 1;
    struct diagnosis_rank rank[RANKS] = { { .fate = RANK_SILENT } };
    struct peer peer[2] = { { .fd = -1, .rank = -1 }, { .fd = -1, .rank = -1 } };
    int ends = 0, pair[2];
    struct monitor m = { .config = { .rank = 0, .size = RANKS, .tell = tell, .end = end,
                                     .arg = &ends },
                         .listener = -1, .wake = -1, .out = { -1, -1 },
                         .peer = peer, .num_peers = 1, .rank = rank };
    struct geometry g;
    char *text;

    if (!grid) {
        geometry_init (&g);
        g.world = RANKS;
        g.tp = g.pp = 2;
        grid = grid_create (&g, NULL);
        fuzz_check (grid, "no grid");
    }
    m.own.token = TOKEN;
    fuzz_check (socketpair (AF_UNIX, SOCK_STREAM, 0, pair) == 0, "no sockets");
    peer[0].fd = pair[0];
    feed (&m, &peer[0], pair[1], in, fit);
    if (peer[0].fd >= 0)
        close (peer[0].fd);
    close (pair[1]);
    for (int i = 0; i < RANKS; i++) { // the same words of all
        if (rank[i].fate == RANK_ANSWERED)
            rank[(i + 1) % RANKS] = rank[i];
    }
    text = diagnosis_text (rank, RANKS, grid, m.trouble.why);
    fuzz_check (text, "no report");
    free (text);
    free (diagnosis_text (rank, RANKS, NULL, ""));
}

const struct fuzz_target fuzz_monitor = { "monitor", run };
