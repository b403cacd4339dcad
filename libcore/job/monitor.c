/* monitor.c - the thread, its connections, and what a hub does with them
 *
 * Messages are of one size and few: greeting, good-bye, failure, question, answer.  What
 * arrives is taken apart on the monitor's thread only; the lock guards what the rank's own
 * threads hand in.
 */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "libcore/device/queue.h"
#include "libcore/job/monitor.h"
#include "libcore/job/report.h"

enum {
    SHORT_MS = 20,
    TICK_MS = 250,
    FIRST_FDS = 2 + MONITOR_HUBS, /* wake-up, listener, connections to the hubs */
    STRANGERS = 16, /* connections beside the ranks' */
    ABORT_CODE = 1,
};

static const double connect_seconds = 1.0;
static const double gather_seconds = 0.15; /* for what happens at the same time */
static const double answer_seconds = 1.0;
static const double deputy_seconds = 4.0;  /* that rank 0 has before the other hub acts */
static const double fail_seconds = 7.0;    /* that a hub has to end the job */
static const double orphan_seconds = 3.0;  /* that a rank goes on when both hubs are gone */

enum kind { MSG_HELLO = 1, MSG_BYE, MSG_FAIL, MSG_SLOW, MSG_TOLD, MSG_ASK, MSG_STATE };

struct message {
    uint64_t token;
    int32_t kind;
    int32_t rank;
    char text[MG_ERROR_MAX];
    struct rank_state state;
};

/* A connection that has been accepted. */
struct peer {
    int fd;   /* -1: free */
    int rank; /* -1: it has not greeted yet */
    uint64_t number; /* of connections that came before it */
    size_t have;
    struct message message;
};

/* What a hub is about to tell. */
struct trouble {
    bool there, fatal, asked;
    double since, asked_at;
    bool rank_0_gone; /* so that the deputy need not wait for it */
    char why[MG_ERROR_MAX];
};

struct monitor {
    struct monitor_config config;
    struct endpoint own, hub[MONITOR_HUBS];
    int listener, wake; /* -1: none */
    int out[MONITOR_HUBS]; /* to the hubs, -1: none */
    size_t out_have[MONITOR_HUBS];
    struct message out_message[MONITOR_HUBS];
    pthread_t thread;
    bool started;

    pthread_mutex_t lock;
    const struct grid *grid;
    struct mg_device *device;
    struct recorder *recorder;
    bool stop, failed;
    char fail_text[MG_ERROR_MAX];
    _Atomic (const char *) activity;
    _Atomic int64_t number;

    /* the thread's own */
    struct peer *peer;        /* [size + STRANGERS] of a hub */
    int num_peers;            /* of them were ever used */
    uint64_t num_accepted;
    bool deaf;                /* till a connection ends there is no descriptor for more */
    struct report_rank *rank; /* [size] of a hub */
    struct pollfd *fds;       /* [FIRST_FDS + size + STRANGERS] */
    struct trouble trouble;
    bool fail_sent, warned, told;
    bool hub_left;   /* well: the run is over */
    double warned_at;
    double orphaned; /* since when no hub is there any more, 0: one is, or never was */
    _Atomic bool connected; /* to a hub at least */
};

static double now (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int monitor_hub (int which, int size)
{
    return which == 0 ? 0 : size - 1;
}

/* Which hub this rank is, -1: none. */
static int own_hub (const struct monitor *m)
{
    for (int h = 0; h < MONITOR_HUBS; h++) {
        if (m->config.rank == monitor_hub (h, m->config.size))
            return h;
    }
    return -1;
}

/* Connections to the hubs stay open until the process ends: that is what these wait for. */
static void free_monitor (struct monitor *m)
{
    for (int i = 0; i < m->num_peers; i++) {
        if (m->peer[i].fd >= 0)
            close (m->peer[i].fd);
    }
    if (m->listener >= 0)
        close (m->listener);
    if (m->wake >= 0)
        close (m->wake);
    pthread_mutex_destroy (&m->lock);
    free (m->peer);
    free (m->rank);
    free (m->fds);
    free (m);
}

static int make_hub (struct monitor *m, struct mg_error *err)
{
    size_t size = (size_t)m->config.size;

    if (!(m->peer = calloc (size + STRANGERS, sizeof (*m->peer)))
        || !(m->rank = calloc (size, sizeof (*m->rank))))
        return mg_error_set (err, ENOMEM, "monitor: out of memory for %zu ranks", size);
    for (size_t i = 0; i < size; i++)
        m->rank[i].fate = RANK_UNKNOWN;
    m->listener = endpoint_listen (&m->own, err);
    return m->listener < 0 ? -1 : 0;
}

struct monitor *monitor_create (const struct monitor_config *config, struct mg_error *err)
{
    struct monitor *m = calloc (1, sizeof (*m));
    int saved_errno;

    if (!m) {
        mg_error_set (err, ENOMEM, "monitor: out of memory");
        return NULL;
    }
    m->config = *config;
    m->listener = m->wake = m->out[0] = m->out[1] = -1;
    m->activity = "starting";
    m->number = -1;
    pthread_mutex_init (&m->lock, NULL);
    if (!(m->fds = calloc (FIRST_FDS + (size_t)config->size + STRANGERS,
                           sizeof (*m->fds)))
        || (m->wake = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
        mg_error_set (err, errno, "monitor: %s", strerror (errno));
        goto error;
    }
    if (own_hub (m) >= 0 && make_hub (m, err) < 0)
        goto error;
    return m;
error:
    saved_errno = errno;
    free_monitor (m);
    errno = saved_errno;
    return NULL;
}

const struct endpoint *monitor_endpoint (const struct monitor *m)
{
    return &m->own;
}

/* --- what this rank says of itself --- */

static void fill_state (struct monitor *m, struct rank_state *s)
{
    struct queue_waiting waiting;
    const char *what = m->activity;
    int64_t number = m->number;

    *s = (struct rank_state){ .waiting = 0 };
    endpoint_host (s->host);
    if (number >= 0)
        snprintf (s->activity, sizeof (s->activity), "%s %" PRId64, what, number);
    else
        snprintf (s->activity, sizeof (s->activity), "%s", what);
    pthread_mutex_lock (&m->lock);
    if (m->device && device_waiting (m->device, &waiting)) {
        s->waiting = 1;
        s->wait_seconds = waiting.seconds;
        snprintf (s->wait_text, sizeof (s->wait_text), "%.60s", waiting.text);
        s->recorded = m->recorder && recorder_first (m->recorder, waiting.lane, &s->wait);
    }
    if (m->recorder) {
        recorder_last (m->recorder, &s->last, 1);
        s->num_counts = recorder_counts (m->recorder, s->count);
    }
    pthread_mutex_unlock (&m->lock);
}

/* All or nothing: what does not fit into the socket's buffer, which is larger than all
 * that is ever sent, will not arrive later either.
 */
static void send_message (int fd, uint64_t token, enum kind kind, int rank, const char *text,
                          const struct rank_state *state)
{
    struct message msg = { .token = token, .kind = kind, .rank = rank };
    ssize_t sent;

    if (fd < 0)
        return;
    if (text)
        snprintf (msg.text, sizeof (msg.text), "%s", text);
    if (state)
        msg.state = *state;
    sent = send (fd, &msg, sizeof (msg), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0 && sent < (ssize_t)sizeof (msg))
        shutdown (fd, SHUT_RDWR);
}

static void send_to_hubs (struct monitor *m, enum kind kind, const char *text)
{
    for (int h = 0; h < MONITOR_HUBS; h++)
        send_message (m->out[h], m->hub[h].token, kind, m->config.rank, text, NULL);
}

/* --- a hub's work --- */

static void start_trouble (struct monitor *m, bool fatal, const char *why)
{
    struct trouble *t = &m->trouble;

    if (m->told || (t->there && (t->fatal || !fatal))
        || (!fatal && m->warned_at > 0 && now () < m->warned_at + m->config.warn_seconds))
        return;
    *t = (struct trouble){ .there = true, .fatal = fatal, .since = now () };
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

/* What has come from elsewhere ends where it should. */
static void take_state (struct rank_state *to, const struct rank_state *from)
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
static int take_message (struct monitor *m, struct peer *p)
{
    struct message *msg = &p->message;
    struct report_rank *r;

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
    case MSG_TOLD: // by the other hub: all is said
        m->told = true;
        return 0;
    case MSG_STATE:
        if (r->fate == RANK_SILENT)
            r->fate = RANK_ANSWERED;
        take_state (&r->state, &msg->state);
        return 0;
    default:
        return -1;
    }
}

static void read_peer (struct monitor *m, struct peer *p)
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
        if (take_message (m, p) < 0) {
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
    if (m->num_peers < m->config.size + STRANGERS)
        return &m->peer[m->num_peers++];
    if (oldest)
        close (oldest->fd);
    return oldest;
}

static void accept_peers (struct monitor *m)
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
    m->trouble.asked_at = now ();
    for (int i = 0; i < m->config.size; i++) {
        if (m->rank[i].fate == RANK_ANSWERED)
            m->rank[i].fate = RANK_SILENT;
    }
    for (int i = 0; i < m->num_peers; i++) {
        if (m->peer[i].fd >= 0 && m->peer[i].rank >= 0)
            send_message (m->peer[i].fd, 0, MSG_ASK, m->config.rank, NULL, NULL);
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
    text = report_text (m->rank, m->config.size, m->grid, t.why);
    pthread_mutex_unlock (&m->lock);
    m->config.tell (m->config.arg, text ? text : t.why);
    free (text);
    m->trouble.there = false;
    m->warned_at = now ();
    if (t.fatal) {
        m->told = true;
        send_to_hubs (m, MSG_TOLD, NULL);
        m->config.end (m->config.arg, ABORT_CODE);
    }
}

/* One step on the way from trouble to the report. */
static void handle_trouble (struct monitor *m)
{
    const struct trouble *t = &m->trouble;
    bool deputy = m->config.rank != 0 && !t->rank_0_gone;
    double wait = deputy ? deputy_seconds : gather_seconds;

    if (!t->there || m->told || now () < t->since + wait)
        return;
    if (deputy && !t->fatal) {
        m->trouble.there = false; // a warning is rank 0's to give
        return;
    }
    if (!t->asked)
        ask_all (m);
    else if (all_answered (m) || now () > t->asked_at + answer_seconds)
        tell (m);
}

/* --- every rank's work --- */

static void lose_hub (struct monitor *m, int h)
{
    close (m->out[h]);
    m->out[h] = -1;
    if (m->out[!h] < 0) {
        m->connected = false;
        if (!m->hub_left)
            m->orphaned = now ();
    }
}

static void read_hub (struct monitor *m, int h)
{
    struct message *msg = &m->out_message[h];
    struct rank_state state;

    for (;;) {
        ssize_t n = recv (m->out[h], (char *)msg + m->out_have[h],
                          sizeof (*msg) - m->out_have[h], MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            lose_hub (m, h);
            return;
        }
        m->out_have[h] += (size_t)n;
        if (m->out_have[h] < sizeof (*msg))
            continue;
        m->out_have[h] = 0;
        if (msg->kind == MSG_BYE)
            m->hub_left = true;
        if (msg->kind != MSG_ASK)
            continue;
        fill_state (m, &state);
        send_message (m->out[h], m->hub[h].token, MSG_STATE, m->config.rank, NULL, &state);
    }
}

static void connect_hubs (struct monitor *m)
{
    struct rank_state state = { .waiting = 0 };

    endpoint_host (state.host);
    for (int h = 0; h < MONITOR_HUBS; h++) {
        m->out[h] = endpoint_connect (&m->hub[h], connect_seconds, NULL);
        send_message (m->out[h], m->hub[h].token, MSG_HELLO, m->config.rank, NULL, &state);
        m->connected |= m->out[h] >= 0;
    }
}

/* Say that this rank waits for longer than it should, once for each such wait. */
static void watch_wait (struct monitor *m)
{
    struct queue_waiting waiting;
    char text[MG_ERROR_MAX];
    bool slow = false;

    if (m->config.warn_seconds <= 0)
        return;
    pthread_mutex_lock (&m->lock);
    if (m->device && device_waiting (m->device, &waiting))
        slow = waiting.seconds > m->config.warn_seconds;
    pthread_mutex_unlock (&m->lock);
    if (slow && !m->warned) {
        snprintf (text, sizeof (text), "warning: rank %d has waited for %.1f s in %.200s",
                  m->config.rank, waiting.seconds, waiting.text);
        send_to_hubs (m, MSG_SLOW, text);
    }
    m->warned = slow;
}

/* Both hubs have gone without a word, and this rank has not been ended: nobody else will do it. */
static void leave_orphaned (struct monitor *m)
{
    if (m->orphaned == 0 || now () < m->orphaned + orphan_seconds)
        return;
    m->orphaned = 0;
    m->config.end (m->config.arg, ABORT_CODE);
}

static int list_fds (struct monitor *m)
{
    int n = 0;

    m->fds[n++] = (struct pollfd){ .fd = m->wake, .events = POLLIN };
    m->fds[n++] = (struct pollfd){ .fd = m->deaf ? -1 : m->listener, .events = POLLIN };
    for (int h = 0; h < MONITOR_HUBS; h++)
        m->fds[n++] = (struct pollfd){ .fd = m->out[h], .events = POLLIN };
    // no more than there are descriptors, or poll() refuses
    for (int i = 0; i < m->num_peers; i++)
        m->fds[n++] = (struct pollfd){ .fd = m->peer[i].fd, .events = POLLIN };
    return n;
}

static void handle_fds (struct monitor *m, int n)
{
    uint64_t count;

    if (m->fds[0].revents && read (m->wake, &count, sizeof (count)) < 0)
        return;
    for (int h = 0; h < MONITOR_HUBS; h++) {
        if (m->out[h] >= 0 && m->fds[2 + h].revents)
            read_hub (m, h);
    }
    for (int i = FIRST_FDS; i < n; i++) {
        struct peer *p = &m->peer[i - FIRST_FDS];

        if (p->fd >= 0 && p->fd == m->fds[i].fd && m->fds[i].revents)
            read_peer (m, p);
    }
    if (m->fds[1].revents)
        accept_peers (m);
}

/* Milliseconds until there may be something to do that no descriptor tells. */
static int patience (const struct monitor *m)
{
    if (m->trouble.there && !m->told)
        return SHORT_MS;
    return m->config.warn_seconds > 0 || m->orphaned > 0 ? TICK_MS : -1;
}

static void *thread_main (void *arg)
{
    struct monitor *m = arg;
    bool stop = false;

    pthread_setname_np (pthread_self (), "mg-monitor");
    connect_hubs (m);
    while (!stop) {
        int n = list_fds (m);

        poll (m->fds, (nfds_t)n, patience (m));
        handle_fds (m, n);
        if (m->peer)
            handle_trouble (m);
        watch_wait (m);
        leave_orphaned (m);
        pthread_mutex_lock (&m->lock);
        stop = m->stop;
        if (m->failed && !m->fail_sent) {
            m->fail_sent = true;
            send_to_hubs (m, MSG_FAIL, m->fail_text);
        }
        pthread_mutex_unlock (&m->lock);
    }
    return NULL;
}

int monitor_start (struct monitor *m, const struct endpoint hub[MONITOR_HUBS],
                   struct mg_error *err)
{
    sigset_t all, saved;
    int rc;

    memcpy (m->hub, hub, sizeof (m->hub));
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &saved);
    rc = pthread_create (&m->thread, NULL, thread_main, m);
    pthread_sigmask (SIG_SETMASK, &saved, NULL);
    if (rc != 0)
        return mg_error_set (err, rc, "monitor: cannot start its thread: %s", strerror (rc));
    m->started = true;
    return 0;
}

void monitor_attach (struct monitor *m, const struct grid *grid, struct mg_device *device,
                     struct recorder *recorder)
{
    if (m) {
        pthread_mutex_lock (&m->lock);
        m->grid = grid;
        m->device = device;
        m->recorder = recorder;
        pthread_mutex_unlock (&m->lock);
    }
}

void monitor_activity (struct monitor *m, const char *what, int64_t number)
{
    if (m) {
        m->activity = what;
        m->number = number;
    }
}

static void wake (struct monitor *m)
{
    uint64_t one = 1;

    if (write (m->wake, &one, sizeof (one)) < 0)
        return; // the counter is full: it is awake already
}

static void nap (double seconds)
{
    struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };

    while (nanosleep (&t, &t) < 0 && errno == EINTR)
        continue;
}

void monitor_fail (struct monitor *m, const char *text)
{
    if (!m || !m->connected)
        return;
    pthread_mutex_lock (&m->lock);
    snprintf (m->fail_text, sizeof (m->fail_text), "%s", text);
    m->failed = true;
    pthread_mutex_unlock (&m->lock);
    wake (m);
    nap (fail_seconds);
}

/* Of a hub: its end is no reason for others to end. */
static void take_leave (struct monitor *m)
{
    for (int i = 0; i < m->num_peers; i++) {
        if (m->peer[i].fd >= 0 && m->peer[i].rank >= 0)
            send_message (m->peer[i].fd, 0, MSG_BYE, m->config.rank, NULL, NULL);
    }
}

/* On the last rank to leave: until the connections of all others are closed. */
static void wait_for_others (struct monitor *m)
{
    double end = now () + 1.0;
    bool any = m->peer != NULL;

    while (any && now () < end) {
        int n = list_fds (m);

        poll (m->fds, (nfds_t)n, 10);
        handle_fds (m, n);
        any = false;
        for (int i = 0; i < m->num_peers; i++)
            any |= m->peer[i].fd >= 0 && m->peer[i].rank != m->config.rank;
    }
}

void monitor_destroy (struct monitor *m, bool last)
{
    int saved_errno = errno;

    if (!m)
        return;
    if (m->started) {
        pthread_mutex_lock (&m->lock);
        m->stop = true;
        pthread_mutex_unlock (&m->lock);
        wake (m);
        pthread_join (m->thread, NULL);
        send_to_hubs (m, MSG_BYE, NULL);
        take_leave (m);
    }
    if (last)
        wait_for_others (m);
    free_monitor (m);
    errno = saved_errno;
}
