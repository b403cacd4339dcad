/* monitor_hub.c - the hub of a monitor: it receives messages of all ranks, asks for their
 * states, and makes the report
 *
 * Runs on the monitor's thread only.  Trouble goes through three states: it is noticed, all ranks
 * are asked, and, when all have answered or a second is over, the report is made.  A message from
 * outside is checked before it is used, and strangers cannot take the ranks' places.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libcore/job/monitor_private.h"

static const double gather_seconds = 0.15; /* for what happens at the same time */
static const double answer_seconds = 1.0;
static const double deputy_seconds = 4.0; /* that rank 0 has before the other hub reports */

int hub_open (struct monitor *m, struct mg_error *err)
{
    size_t size = (size_t)m->config.size;

    if (!(m->peer = calloc (size + MONITOR_STRANGERS, sizeof (*m->peer)))
        || !(m->rank = calloc (size, sizeof (*m->rank))))
        return mg_error_set (err, ENOMEM, "monitor: out of memory for %zu ranks", size);
    for (size_t i = 0; i < size; i++)
        m->rank[i].fate = RANK_UNKNOWN;
    m->listener = endpoint_listen (&m->own, m->config.one_node, err);
    return m->listener < 0 ? -1 : 0;
}

void hub_close (struct monitor *m)
{
    for (int i = 0; i < m->num_peers; i++) {
        if (m->peer[i].fd >= 0)
            close (m->peer[i].fd);
    }
    if (m->listener >= 0)
        close (m->listener);
    free (m->peer);
    free (m->rank);
}

static void start_trouble (struct monitor *m, bool fatal, const char *why)
{
    struct trouble *t = &m->trouble;

    if (m->told || (t->there && (t->fatal || !fatal))
        || (!fatal && m->warned_at > 0 && monitor_now () < m->warned_at + m->config.warn_seconds))
        return;
    *t = (struct trouble){ .there = true, .fatal = fatal, .since = monitor_now () };
    snprintf (t->why, sizeof (t->why), "%s", why);
}

static void lose_peer (struct monitor *m, struct peer *p)
{
    int rank = p->rank;

    close (p->fd);
    p->fd = -1;
    m->deaf = false;
    if (rank < 0 || m->rank[rank].fate == RANK_LEFT)
        return;
    m->rank[rank].fate = RANK_DIED;
    start_trouble (m, true, "");
    if (rank == 0)
        m->trouble.rank_0_gone = true;
}

/* Terminate the texts of a received message. */
static void handle_state (struct rank_state *to, const struct rank_state *from)
{
    *to = *from;
    to->host[sizeof (to->host) - 1] = '\0';
    to->activity[sizeof (to->activity) - 1] = '\0';
    to->wait_text[sizeof (to->wait_text) - 1] = '\0';
    to->wait.name[sizeof (to->wait.name) - 1] = '\0';
    to->last.name[sizeof (to->last.name) - 1] = '\0';
    if (to->num_counts > RECORDER_COMMS)
        to->num_counts = RECORDER_COMMS;
}

/* A message that has arrived whole; -1: not one of ours. */
static int handle_message (struct monitor *m, struct peer *p)
{
    struct message *msg = &p->message;
    struct diagnosis_rank *r;

    msg->text[sizeof (msg->text) - 1] = '\0';
    if (msg->token != m->own.token || msg->rank < 0 || msg->rank >= m->config.size
        || (p->rank >= 0 && msg->rank != p->rank))
        return -1;
    p->rank = msg->rank;
    r = &m->rank[p->rank];
    switch (msg->kind) {
    case MSG_HELLO:
        r->fate = RANK_SILENT;
        memcpy (r->host, msg->state.host, sizeof (r->host));
        r->host[sizeof (r->host) - 1] = '\0';
        return 0;
    case MSG_BYE:
        r->fate = RANK_LEFT;
        return 0;
    case MSG_FAIL:
        start_trouble (m, true, msg->text);
        return 0;
    case MSG_SLOW:
        start_trouble (m, false, msg->text);
        return 0;
    case MSG_TOLD: // from the other hub: the report was made
        m->told = true;
        return 0;
    case MSG_STATE:
        if (r->fate == RANK_SILENT)
            r->fate = RANK_ANSWERED;
        handle_state (&r->state, &msg->state);
        return 0;
    default:
        return -1;
    }
}

void hub_read (struct monitor *m, struct peer *p)
{
    for (;;) {
        ssize_t n = recv (p->fd, (char *)&p->message + p->have, sizeof (p->message) - p->have,
                          MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            lose_peer (m, p);
            return;
        }
        p->have += (size_t)n;
        if (p->have < sizeof (p->message))
            continue;
        p->have = 0;
        if (handle_message (m, p) < 0) {
            p->rank = -1;
            lose_peer (m, p);
            return;
        }
    }
}

/* A free place; that of the oldest stranger if there is none, NULL: no stranger is there. */
static struct peer *find_place (struct monitor *m)
{
    struct peer *oldest = NULL;

    for (int i = 0; i < m->num_peers; i++) {
        struct peer *p = &m->peer[i];

        if (p->fd < 0)
            return p;
        if (p->rank < 0 && (!oldest || p->number < oldest->number))
            oldest = p;
    }
    if (m->num_peers < m->config.size + MONITOR_STRANGERS)
        return &m->peer[m->num_peers++];
    if (oldest)
        close (oldest->fd);
    return oldest;
}

void hub_accept (struct monitor *m)
{
    int fd;

    while ((fd = accept4 (m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct peer *p = find_place (m);

        if (p)
            *p = (struct peer){ .fd = fd, .rank = -1, .number = m->num_accepted++ };
        else
            close (fd);
    }
    // the listener stays ready, so that asking it would be a busy loop
    m->deaf = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
}

static void ask_all (struct monitor *m)
{
    m->trouble.asked = true;
    m->trouble.asked_at = monitor_now ();
    for (int i = 0; i < m->config.size; i++) {
        if (m->rank[i].fate == RANK_ANSWERED)
            m->rank[i].fate = RANK_SILENT;
    }
    for (int i = 0; i < m->num_peers; i++) {
        if (m->peer[i].fd >= 0 && m->peer[i].rank >= 0)
            monitor_send (m->peer[i].fd, 0, MSG_ASK, m->config.rank, NULL, NULL);
    }
}

static bool all_answered (const struct monitor *m)
{
    for (int i = 0; i < m->config.size; i++) {
        if (m->rank[i].fate == RANK_SILENT)
            return false;
    }
    return true;
}

static void tell (struct monitor *m)
{
    struct trouble t = m->trouble;
    char *text;

    pthread_mutex_lock (&m->lock);
    text = diagnosis_text (m->rank, m->config.size, m->grid, t.why);
    pthread_mutex_unlock (&m->lock);
    m->config.tell (m->config.arg, text ? text : t.why);
    free (text);
    m->trouble.there = false;
    m->warned_at = monitor_now ();
    if (t.fatal) {
        m->told = true;
        monitor_send_to_hubs (m, MSG_TOLD, NULL);
        for (int i = 0; m->config.all_end && i < m->num_peers; i++) {
            if (m->peer[i].fd >= 0 && m->peer[i].rank >= 0)
                monitor_send (m->peer[i].fd, 0, MSG_TOLD, m->config.rank, NULL, NULL);
        }
        m->config.end (m->config.arg, MONITOR_ABORT_CODE);
    }
}

void hub_handle_trouble (struct monitor *m)
{
    const struct trouble *t = &m->trouble;
    bool deputy = m->config.rank != 0 && !t->rank_0_gone;
    double now = monitor_now ();

    if (!t->there || m->told || now < t->since + gather_seconds)
        return;
    if (deputy && !t->fatal) {
        m->trouble.there = false; // only rank 0 makes warnings
        return;
    }
    if (!t->asked)
        ask_all (m);
    else if ((!deputy || now > t->since + deputy_seconds)
             && (all_answered (m) || now > t->asked_at + answer_seconds))
        tell (m);
}

bool hub_has_ended (const struct monitor *m)
{
    if (m->trouble.there)
        return false;
    for (int i = 0; m->rank && i < m->config.size; i++) {
        if (m->rank[i].fate == RANK_SILENT || m->rank[i].fate == RANK_ANSWERED)
            return false;
    }
    return true;
}

void hub_leave (struct monitor *m)
{
    for (int i = 0; i < m->num_peers; i++) {
        if (m->peer[i].fd >= 0 && m->peer[i].rank >= 0)
            monitor_send (m->peer[i].fd, 0, MSG_BYE, m->config.rank, NULL, NULL);
    }
}
