/* monitor.c - the thread, its connections, what this rank says of itself
 *
 * Messages are few: greeting, good-bye, failure, question, answer.  Only the monitor's
 * thread parses messages.  The lock protects the data that the rank's own threads set.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "libcore/base/thread.h"
#include "libcore/job/monitor_private.h"

enum { SHORT_MS = 20, TICK_MS = 250, MEET_MS = 5000 };

static const double connect_seconds = 1.0;
static const double fail_seconds = 7.0;   /* time in which a hub must end the job */
static const double orphan_seconds = 3.0; /* time for which a rank goes on without hubs */
static const double last_seconds = 10.0;  /* time in which all others must end before the
                                           * last rank */

double monitor_now (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int monitor_hub (int which, int size)
{
    return which == 0 ? 0 : size - 1;
}

/* Returns the number of the hub that this rank is, or -1. */
static int own_hub (const struct monitor *m)
{
    for (int h = 0; h < MONITOR_HUBS; h++) {
        if (m->config.rank == monitor_hub (h, m->config.size))
            return h;
    }
    return -1;
}

/* Connections to the hubs stay open until the process ends, and the last rank waits for
 * this. */
static void free_monitor (struct monitor *m)
{
    hub_close (m);
    if (m->wake >= 0)
        close (m->wake);
    if (m->met >= 0)
        close (m->met);
    pthread_mutex_destroy (&m->lock);
    free (m->fds);
    free (m);
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
    m->listener = m->wake = m->met = m->out[0] = m->out[1] = -1;
    m->activity = "starting";
    m->number = -1;
    pthread_mutex_init (&m->lock, NULL);
    if (!(m->fds = calloc (MONITOR_FIRST_FDS + (size_t)config->size + MONITOR_STRANGERS,
                           sizeof (*m->fds)))
        || (m->wake = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0
        || (m->met = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
        mg_error_set (err, errno, "monitor: %s", strerror (errno));
        goto error;
    }
    if (own_hub (m) >= 0 && hub_open (m, err) < 0)
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

/* Why the host waits; the lock is held. */
static void fill_wait (struct monitor *m, struct rank_state *s)
{
    struct device_waiting waiting;

    if (!m->device || !device_waiting (m->device, &waiting))
        return;
    s->recorded = m->recorder && waiting.place.stream > 0
                  && recorder_blocking (m->recorder, waiting.place, &s->wait);
    s->waiting = s->recorded || waiting.work;
    s->running = !s->waiting; // nothing but its own kernels holds up the stream
    s->wait_seconds = waiting.seconds;
    if (s->recorded && s->wait.seconds < s->wait_seconds)
        s->wait_seconds = s->wait.seconds;
    snprintf (s->wait_text, sizeof (s->wait_text), "%.60s", waiting.text);
}

static void fill_state (struct monitor *m, struct rank_state *s)
{
    const char *what = m->activity;
    int64_t number = m->number;

    *s = (struct rank_state){ .waiting = 0 };
    endpoint_host (s->host);
    if (number >= 0)
        snprintf (s->activity, sizeof (s->activity), "%s %" PRId64, what, number);
    else
        snprintf (s->activity, sizeof (s->activity), "%s", what);
    pthread_mutex_lock (&m->lock);
    fill_wait (m, s);
    if (m->recorder) {
        recorder_newest (m->recorder, &s->last);
        s->num_counts = recorder_counts (m->recorder, s->count);
    }
    pthread_mutex_unlock (&m->lock);
}

void monitor_send (int fd, uint64_t token, enum message_kind kind, int rank, const char *text,
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

void monitor_send_to_hubs (struct monitor *m, enum message_kind kind, const char *text)
{
    for (int h = 0; h < MONITOR_HUBS; h++)
        monitor_send (m->out[h], m->hub[h].token, kind, m->config.rank, text, NULL);
}

/* --- every rank's work --- */

static void lose_hub (struct monitor *m, int h)
{
    close (m->out[h]);
    m->out[h] = -1;
    if (m->out[!h] < 0) {
        m->connected = false;
        if (!m->hub_left)
            m->orphaned = monitor_now ();
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
        if (msg->kind == MSG_TOLD)
            m->config.end (m->config.arg, MONITOR_ABORT_CODE);
        if (msg->kind != MSG_ASK)
            continue;
        fill_state (m, &state);
        monitor_send (m->out[h], m->hub[h].token, MSG_STATE, m->config.rank, NULL, &state);
    }
}

static void connect_hubs (struct monitor *m)
{
    struct rank_state state = { .waiting = 0 };

    endpoint_host (state.host);
    for (int h = 0; h < MONITOR_HUBS; h++) {
        m->out[h] = endpoint_connect (&m->hub[h], connect_seconds, NULL);
        monitor_send (m->out[h], m->hub[h].token, MSG_HELLO, m->config.rank, NULL, &state);
        m->connected |= m->out[h] >= 0;
    }
}

static void signal_event (int fd)
{
    uint64_t one = 1;

    if (write (fd, &one, sizeof (one)) < 0)
        return; // the counter is full: there is an event already
}

/* Seconds that the call has held up this rank, as far as the ticks tell. */
static double seconds_in (struct monitor *m, const struct rank_state *s)
{
    const struct record *call = &s->wait;
    struct held *held = &m->held;
    double now = monitor_now ();

    if (held->call != call->call || held->seq != call->seq
        || memcmp (held->name, call->name, sizeof (held->name)) != 0) {
        *held = (struct held){ .call = call->call, .seq = call->seq };
        memcpy (held->name, call->name, sizeof (held->name));
        held->since = now - fmin (s->wait_seconds, TICK_MS / 1e3);
    }
    return fmin (s->wait_seconds, now - held->since);
}

/* Say that this rank waits for longer than it should, once for each such wait. */
static void watch_wait (struct monitor *m)
{
    struct rank_state s = { .waiting = 0 };
    char text[MG_ERROR_MAX];
    double seconds = 0;
    bool slow;

    if (m->config.warn_seconds <= 0)
        return;
    pthread_mutex_lock (&m->lock);
    fill_wait (m, &s);
    pthread_mutex_unlock (&m->lock);
    if (s.waiting)
        seconds = s.recorded ? seconds_in (m, &s) : s.wait_seconds;
    slow = seconds > m->config.warn_seconds;
    if (slow && !m->warned) {
        char what[128];

        snprintf (what, sizeof (what), "%s", s.wait_text);
        if (s.recorded)
            record_describe (&s.wait, what, sizeof (what));
        snprintf (text, sizeof (text), "warning: rank %d has waited for %.1f s in %s",
                  m->config.rank, seconds, what);
        monitor_send_to_hubs (m, MSG_SLOW, text);
    }
    m->warned = slow;
}

/* Both hubs have gone without a message, and no other process will end this rank. */
static void leave_orphaned (struct monitor *m)
{
    if (m->orphaned == 0 || monitor_now () < m->orphaned + orphan_seconds)
        return;
    m->orphaned = 0;
    m->config.end (m->config.arg, MONITOR_ABORT_CODE);
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
    for (int i = MONITOR_FIRST_FDS; i < n; i++) {
        struct peer *p = &m->peer[i - MONITOR_FIRST_FDS];

        if (p->fd >= 0 && p->fd == m->fds[i].fd && m->fds[i].revents)
            hub_read (m, p);
    }
    if (m->fds[1].revents)
        hub_accept (m);
}

/* Milliseconds until there may be something to do that no descriptor tells. */
static int patience (struct monitor *m)
{
    bool limited;

    if (m->trouble.there && !m->told)
        return SHORT_MS;
    pthread_mutex_lock (&m->lock);
    limited = m->limit > 0 || m->missed > 0;
    pthread_mutex_unlock (&m->lock);
    return limited || m->config.warn_seconds > 0 || m->orphaned > 0 ? TICK_MS : -1;
}

/* Fail if the limit has passed; the lock is held. */
static void check_limit (struct monitor *m)
{
    if (m->limit == 0 || monitor_now () < m->limit)
        return;
    m->limit = 0;
    m->missed = monitor_now ();
    if (!m->failed)
        memcpy (m->fail_text, m->limit_text, sizeof (m->fail_text));
    m->failed = true;
}

/* True if the thread has nothing left to do.  The lock is held. */
static bool is_done (struct monitor *m)
{
    if (m->stop || !m->finishing)
        return m->stop;
    if (!m->bye_sent)
        monitor_send_to_hubs (m, MSG_BYE, NULL);
    m->bye_sent = true;
    if (m->missed > 0) // and for some time a hub may still end the job
        return m->told || monitor_now () > m->missed + fail_seconds;
    return m->limit == 0 || hub_has_ended (m);
}

static void *thread_main (void *arg)
{
    struct monitor *m = arg;
    bool stop = false;

    pthread_setname_np (pthread_self (), "mg-monitor");
    connect_hubs (m);
    signal_event (m->met);
    while (!stop) {
        int n = list_fds (m);

        poll (m->fds, (nfds_t)n, patience (m));
        handle_fds (m, n);
        if (m->peer)
            hub_handle_trouble (m);
        watch_wait (m);
        leave_orphaned (m);
        pthread_mutex_lock (&m->lock);
        stop = is_done (m);
        check_limit (m);
        if (m->failed && !m->fail_sent) {
            m->fail_sent = true;
            monitor_send_to_hubs (m, MSG_FAIL, m->fail_text);
        }
        pthread_mutex_unlock (&m->lock);
    }
    return NULL;
}

/* Otherwise no hub would know a rank that dies or stops right after the start. */
static void wait_until_met (const struct monitor *m)
{
    const double end = monitor_now () + MEET_MS / 1e3;
    struct pollfd met = { .fd = m->met, .events = POLLIN };
    int left = MEET_MS;

    while (left > 0 && poll (&met, 1, left) < 0 && errno == EINTR)
        left = (int)((end - monitor_now ()) * 1e3);
}

int monitor_start (struct monitor *m, const struct endpoint hub[MONITOR_HUBS],
                   struct mg_error *err)
{
    sigset_t all, saved;
    int rc;

    memcpy (m->hub, hub, sizeof (m->hub));
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &saved);
    rc = thread_create (&m->thread, thread_main, m);
    pthread_sigmask (SIG_SETMASK, &saved, NULL);
    if (rc != 0)
        return mg_error_set (err, rc, "monitor: cannot start its thread: %s", strerror (rc));
    m->started = true;
    wait_until_met (m);
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
    signal_event (m->wake);
    nap (fail_seconds);
}

void monitor_limit (struct monitor *m, const char *what, double seconds)
{
    bool missed;

    if (!m || !m->connected)
        return;
    pthread_mutex_lock (&m->lock);
    check_limit (m);
    missed = m->missed > 0;
    m->missed = 0;
    if (!missed && seconds > 0) {
        m->limit = monitor_now () + seconds;
        snprintf (m->limit_text, sizeof (m->limit_text), "rank %d: %.200s took more than %g s",
                  m->config.rank, what, seconds);
    } else {
        m->limit = 0;
    }
    pthread_mutex_unlock (&m->lock);
    signal_event (m->wake);
    if (missed)
        nap (fail_seconds);
}

static void join_thread (struct monitor *m)
{
    signal_event (m->wake);
    pthread_join (m->thread, NULL);
    m->started = false;
}

void monitor_finish (struct monitor *m)
{
    if (!m || !m->started)
        return;
    pthread_mutex_lock (&m->lock);
    m->finishing = true;
    pthread_mutex_unlock (&m->lock);
    join_thread (m);
}

/* On the last rank to leave: until the connections of all others are closed. */
static void wait_for_others (struct monitor *m)
{
    double end = monitor_now () + last_seconds;
    bool any = m->peer != NULL;

    while (any && monitor_now () < end) {
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
        join_thread (m);
        monitor_send_to_hubs (m, MSG_BYE, NULL);
    }
    hub_leave (m);
    if (last)
        wait_for_others (m);
    free_monitor (m);
    errno = saved_errno;
}
