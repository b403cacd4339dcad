/* queue.c - lanes of polled work and the communication thread
 *
 * One mutex guards all lists.  Poll functions run without it, so that submitting never
 * waits for a transfer.  'done' counters are atomic: they are read without the lock where
 * a wait has already ended.
 */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "libcore/base/flush.h"
#include "libcore/base/thread.h"
#include "libcore/base/timed.h"
#include "libcore/device/prompt.h"
#include "libcore/device/queue.h"

enum {
    NAME_MAX_LEN = 32,
    DESCRIBE_MAX = 200,
    SOURCE_POLLS = 200, /* rounds without progress, while somebody waits, before the thread
                         * sleeps on a source */
    SOURCE_SLEEP_MS = 1000,
    BUSY_POLLS = 4000, /* rounds without progress, while somebody waits, before the thread naps */
    NAP_NS = 20000,
    LONG_NAP_NS = 50000,
    WAIT_SPINS = 50,   /* looks at the counter before a waiter sleeps */
    SETTLE_SECONDS = 1, /* for the thread to come out of a poll function */
    DOUBLINGS_MAX = 5, /* of the pause after which an unsettled source is asked again */
};

#define SPIN_SECONDS 20e-6 /* before queue_wait_for() naps */
#define UNSETTLED_SECONDS 1e-4 /* the first of these pauses */

struct queue_lane {
    struct queue *queue;
    struct queue_lane *next; /* in queue->lanes, for good */
    struct queue_lane *next_busy;
    struct work *head, *tail;
    uint64_t submitted;
    _Atomic uint64_t done;
    bool used;
    char name[NAME_MAX_LEN];
    char at_failure[DESCRIBE_MAX]; /* text of the current work when the queue failed */
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t submitted; /* the thread sleeps here */
    pthread_cond_t finished;  /* waiters sleep here */
    pthread_t thread;
    bool started, stop;
    int wake;                 /* an eventfd that wakes the thread from a source; -1: none yet */
    bool on_source;           /* the thread sleeps on a source, or is about to */
    bool polling; /* the thread is inside a poll function, */
    bool stuck;   /* and was not seen to come out of it */
    _Atomic bool failed;
    _Atomic int waiters;
    double timeout;
    struct queue_lane *lanes;
    const struct queue_lane *waited; /* the lane for which the last waiter waits; NULL: none does */
    uint64_t waited_mark;            /* the mark that it waits for, */
    struct timespec waited_since;    /* and the time since which it does */
    char waited_for[DESCRIBE_MAX];   /* text of the last queue_wait_for(); empty: none waits */
    struct queue_lane *busy; /* lanes with work, in the order in which they got it */
    struct queue_source *unsettled; /* of work that is done; NULL: it is settled, or need not be */
    struct queue_explain explain; /* explain NULL: nobody can */
    struct queue_look look;       /* look NULL: no function */
    int lookers;                  /* threads inside it */
    struct queue_access access; /* begin NULL: none is needed */
    struct mg_error failure;
};

struct queue *queue_create (double timeout, struct mg_error *err)
{
    struct queue *queue;

    if (!(timeout > 0 && timeout < 1e9)) {
        mg_error_set (err, EINVAL,
                      "queue: timeout of %g s, want more than 0 and less than"
                      " 1e9",
                      timeout);
        return NULL;
    }
    if (!(queue = calloc (1, sizeof (*queue)))) {
        mg_error_set (err, ENOMEM, "queue: out of memory");
        return NULL;
    }
    queue->timeout = timeout;
    queue->wake = -1;
    pthread_mutex_init (&queue->lock, NULL);
    timed_cond_init (&queue->submitted);
    timed_cond_init (&queue->finished);
    return queue;
}

/* Wake the communication thread.  The lock is held. */
static void wake_thread (struct queue *queue)
{
    const uint64_t one = 1;

    pthread_cond_signal (&queue->submitted);
    if (queue->on_source && write (queue->wake, &one, sizeof (one)) < 0)
        return; // the counter is full: the thread wakes
}

/* End the thread; false if it is stuck. */
static bool stop_thread (struct queue *queue)
{
    pthread_mutex_lock (&queue->lock);
    queue->stop = true;
    wake_thread (queue);
    pthread_mutex_unlock (&queue->lock);
    // once it has failed and is settled, nothing is polled any more
    if (!queue->failed || queue_settled (queue))
        return pthread_join (queue->thread, NULL) == 0;
    pthread_detach (queue->thread);
    return false;
}

void queue_destroy (struct queue *queue)
{
    int saved_errno = errno;
    struct queue_lane *next;

    if (queue && (!queue->started || stop_thread (queue))) {
        for (struct queue_lane *lane = queue->lanes; lane; lane = next) {
            next = lane->next;
            free (lane);
        }
        if (queue->wake >= 0)
            close (queue->wake);
        pthread_cond_destroy (&queue->finished);
        pthread_cond_destroy (&queue->submitted);
        pthread_mutex_destroy (&queue->lock);
        free (queue);
    }
    errno = saved_errno;
}

struct queue_lane *queue_lane_create (struct queue *queue, const char *name,
                                      struct mg_error *err)
{
    struct queue_lane *lane;

    pthread_mutex_lock (&queue->lock);
    for (lane = queue->lanes; lane && lane->used; lane = lane->next)
        ;
    if (!lane && (lane = calloc (1, sizeof (*lane)))) {
        lane->queue = queue;
        lane->next = queue->lanes;
        queue->lanes = lane;
    }
    if (lane) {
        lane->used = true;
        snprintf (lane->name, sizeof (lane->name), "%s", name);
        snprintf (lane->at_failure, sizeof (lane->at_failure), "nothing on %s", lane->name);
    }
    pthread_mutex_unlock (&queue->lock);
    if (!lane)
        mg_error_set (err, ENOMEM, "queue: out of memory for lane %s", name);
    return lane;
}

void queue_lane_destroy (struct queue_lane *lane)
{
    if (lane) {
        pthread_mutex_lock (&lane->queue->lock);
        lane->used = false; // kept: events may hold its marks
        pthread_mutex_unlock (&lane->queue->lock);
    }
}

/* Describe the current work of all lanes for later: once the queue has failed, the owners may free
 * their work.  The lock is held.
 */
static void describe_lanes (struct queue *queue)
{
    for (struct queue_lane *lane = queue->lanes; lane; lane = lane->next)
        queue_lane_describe (lane, lane->at_failure, sizeof (lane->at_failure));
}

/* The lock is held. */
static void set_failed (struct queue *queue, const char *text)
{
    if (!queue->failed) {
        describe_lanes (queue);
        snprintf (queue->failure.text, sizeof (queue->failure.text), "%s", text);
        queue->failed = true;
        pthread_cond_broadcast (&queue->finished);
        wake_thread (queue);
    }
}

void queue_fail (struct queue *queue, const char *text)
{
    pthread_mutex_lock (&queue->lock);
    set_failed (queue, text);
    pthread_mutex_unlock (&queue->lock);
}

bool queue_settled (struct queue *queue)
{
    struct timespec deadline = timed_deadline (SETTLE_SECONDS);
    bool settled;

    pthread_mutex_lock (&queue->lock);
    while (queue->failed && queue->polling && !queue->stuck) {
        if (pthread_cond_timedwait (&queue->finished, &queue->lock, &deadline)
            == ETIMEDOUT)
            queue->stuck = queue->polling; // nobody need wait again
    }
    settled = !queue->polling;
    pthread_mutex_unlock (&queue->lock);
    return settled;
}

int queue_check (struct queue *queue, struct mg_error *err)
{
    // the text does not change once the flag is set
    return queue->failed ? mg_error_set (err, EIO, "%s", queue->failure.text) : 0;
}

/* Give way to others between two rounds that moved nothing.  While somebody waits, MPI must be
 * called often, and this thread takes the place of the one that waits.  While nobody waits, all
 * processors are likely to compute.  A thread that yields to them runs again only after a whole
 * time slice of theirs; a thread that wakes runs at once.
 */
static void give_way (struct queue *queue, unsigned idle)
{
    static const struct timespec short_nap = { .tv_nsec = NAP_NS };
    static const struct timespec long_nap = { .tv_nsec = LONG_NAP_NS };

    if (queue->waiters == 0)
        nanosleep (&short_nap, NULL);
    else if (idle < BUSY_POLLS)
        sched_yield ();
    else
        nanosleep (&long_nap, NULL);
}

/* Work with this source is done: something of it may still be kept.  The lock is held. */
static void note_source (struct queue *queue, struct queue_source *source)
{
    if (source && source->settled)
        queue->unsettled = source;
    else if (queue->unsettled && !queue->unsettled->settled)
        queue->unsettled = NULL; // it will be freed
}

/* Poll the first work of 'lane' without the lock, which is held on entry and return. */
static int poll_lane (struct queue *queue, struct queue_lane *lane)
{
    struct work *work = lane->head;
    struct mg_error err;
    int rc;

    queue->polling = true;
    pthread_mutex_unlock (&queue->lock);
    err.text[0] = '\0';
    rc = work->poll (work, &err);
    pthread_mutex_lock (&queue->lock);
    queue->polling = false;
    if (queue->failed) {
        pthread_cond_broadcast (&queue->finished); // for queue_settled()
        return 0;
    }
    if (rc < 0) {
        char what[DESCRIBE_MAX];

        work->describe (work, what, sizeof (what));
        mg_error_prefix (&err, "%s", what);
        set_failed (queue, err.text);
    } else if (rc > 0) {
        lane->head = work->next;
        note_source (queue, work->source);
        if (work->release)
            work->release (work);
        lane->done++;
        if (queue->waiters > 0)
            pthread_cond_broadcast (&queue->finished);
    }
    return rc;
}

/* --- sources --- */

struct queue_source queue_inner = { .fd = -1 };

/* The source of the work in progress; NULL: none, or some work has none or another one.  The lock
 * is held.
 */
static struct queue_source *find_source (const struct queue *queue)
{
    struct queue_source *source = NULL;

    for (const struct queue_lane *lane = queue->busy; lane; lane = lane->next_busy) {
        struct queue_source *own = lane->head->source;

        if (own == &queue_inner)
            continue;
        if (!own || (source && own != source))
            return NULL;
        source = own;
    }
    return source;
}

/* Let a source make progress; the lock is held on entry and return. */
static void progress_source (struct queue *queue, struct queue_source *source)
{
    queue->polling = true;
    pthread_mutex_unlock (&queue->lock);
    source->progress (source);
    pthread_mutex_lock (&queue->lock);
    queue->polling = false;
    if (queue->failed)
        pthread_cond_broadcast (&queue->finished); // for queue_settled()
}

/* Let the sources of the work in progress make progress, and the unsettled source; the lock is held
 * on entry and return.
 */
static void progress_sources (struct queue *queue)
{
    struct queue_source *last = NULL;
    bool unsettled = queue->unsettled;

    for (const struct queue_lane *lane = queue->busy; lane && !queue->failed;
         lane = lane->next_busy) {
        struct queue_source *source = lane->head->source;

        if (!source || source == &queue_inner || source == last)
            continue;
        last = source;
        progress_source (queue, source);
        if (source == queue->unsettled)
            unsettled = false;
    }
    if (unsettled && !queue->failed)
        progress_source (queue, queue->unsettled);
}

/* Sleep until the source has news, or another thread calls wake_thread(); the lock is held on entry
 * and return.  False if it cannot be slept on.
 */
static bool sleep_on (struct queue *queue, struct queue_source *source)
{
    struct pollfd fds[2];
    uint64_t count;
    bool armed;

    if (queue->wake < 0 && (queue->wake = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        return false;
    queue->on_source = true;
    queue->polling = true;
    pthread_mutex_unlock (&queue->lock);
    armed = source->arm (source);
    fds[0] = (struct pollfd){ .fd = source->fd, .events = POLLIN };
    fds[1] = (struct pollfd){ .fd = queue->wake, .events = POLLIN };
    if (armed)
        poll (fds, 2, SOURCE_SLEEP_MS);
    pthread_mutex_lock (&queue->lock);
    queue->polling = false;
    queue->on_source = false;
    while (read (queue->wake, &count, sizeof (count)) > 0)
        ; // until it is not readable
    if (queue->failed)
        pthread_cond_broadcast (&queue->finished); // for queue_settled()
    return armed;
}

/* One round over all busy lanes; the lock is held. True if something got done. */
static bool poll_all (struct queue *queue)
{
    struct queue_lane **link = &queue->busy;
    bool progress = false;

    if (queue->access.begin)
        queue->access.begin (queue->access.arg);
    progress_sources (queue);
    while (*link && !queue->failed) {
        struct queue_lane *lane = *link;

        if (poll_lane (queue, lane) > 0)
            progress = true;
        if (!lane->head)
            *link = lane->next_busy; // submitters append only, so the link is still ours
        else
            link = &lane->next_busy;
    }
    if (queue->access.end)
        queue->access.end (queue->access.arg);
    return progress;
}

/* After 'idle' rounds in which nothing got done; the lock is held on entry and return. */
static void rest (struct queue *queue, unsigned idle)
{
    struct queue_source *source = find_source (queue);

    if (source && (queue->waiters == 0 || idle > SOURCE_POLLS) && sleep_on (queue, source))
        return;
    pthread_mutex_unlock (&queue->lock);
    give_way (queue, idle);
    pthread_mutex_lock (&queue->lock);
}

/* There is no work.  Ask the source whether it is settled; if not, let it make progress.  'round'
 * counts the calls since there was work.  The lock is held on entry and return.
 */
static void settle (struct queue *queue, unsigned round)
{
    unsigned times = 1U << (round < DOUBLINGS_MAX ? round : DOUBLINGS_MAX);
    struct timespec deadline;

    if (queue->unsettled->settled (queue->unsettled)) {
        queue->unsettled = NULL;
        return;
    }
    progress_source (queue, queue->unsettled);
    if (queue->failed || queue->busy || queue->stop)
        return;
    deadline = timed_deadline (UNSETTLED_SECONDS * times);
    pthread_cond_timedwait (&queue->submitted, &queue->lock, &deadline);
}

static void *thread_main (void *arg)
{
    struct queue *queue = arg;
    unsigned idle = 0, rounds = 0;

    pthread_setname_np (pthread_self (), "mg-comm");
    prompt_thread ();
    flush_begin (); // sums are formed here
    pthread_mutex_lock (&queue->lock);
    while (!queue->stop) {
        if (queue->failed || (!queue->busy && !queue->unsettled)) {
            pthread_cond_wait (&queue->submitted, &queue->lock);
            idle = rounds = 0;
        } else if (!queue->busy) {
            settle (queue, rounds++);
            idle = 0;
        } else if (poll_all (queue)) {
            idle = rounds = 0;
        } else {
            rest (queue, ++idle);
        }
    }
    pthread_mutex_unlock (&queue->lock);
    return NULL;
}

/* Start the thread with all signals blocked; the lock is held. */
static int start_thread (struct queue *queue, struct mg_error *err)
{
    sigset_t all, saved;
    int rc;

    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &saved);
    rc = thread_create (&queue->thread, thread_main, queue);
    pthread_sigmask (SIG_SETMASK, &saved, NULL);
    if (rc != 0)
        return mg_error_set (err, rc, "queue: cannot start the communication thread: %s",
                             strerror (rc));
    queue->started = true;
    return 0;
}

/* The lock is held. */
static void append (struct queue_lane *lane, struct work *work)
{
    struct queue *queue = lane->queue;
    struct queue_lane **end = &queue->busy;

    work->next = NULL;
    lane->submitted++;
    if (lane->head) {
        lane->tail->next = work;
        lane->tail = work;
        return;
    }
    lane->head = lane->tail = work;
    lane->next_busy = NULL;
    while (*end)
        end = &(*end)->next_busy;
    *end = lane;
}

int queue_submit (struct queue_lane *lane, struct work *work, struct mg_error *err)
{
    struct queue *queue = lane->queue;
    int rc = 0;

    pthread_mutex_lock (&queue->lock);
    if (queue->failed)
        rc = mg_error_set (err, EIO, "%s", queue->failure.text);
    else if (!queue->started)
        rc = start_thread (queue, err);
    if (rc == 0) {
        append (lane, work);
        wake_thread (queue);
    }
    pthread_mutex_unlock (&queue->lock);
    return rc;
}

void queue_set_explain (struct queue *queue, const struct queue_explain *explain)
{
    pthread_mutex_lock (&queue->lock);
    queue->explain = explain ? *explain : (struct queue_explain){ NULL, NULL };
    pthread_mutex_unlock (&queue->lock);
}

void queue_set_look (struct queue *queue, const struct queue_look *look)
{
    pthread_mutex_lock (&queue->lock);
    while (queue->lookers > 0)
        pthread_cond_wait (&queue->finished, &queue->lock);
    queue->look = look ? *look : (struct queue_look){ NULL, NULL };
    pthread_mutex_unlock (&queue->lock);
}

void queue_set_access (struct queue *queue, const struct queue_access *access)
{
    pthread_mutex_lock (&queue->lock);
    queue->access = access ? *access : (struct queue_access){ NULL, NULL, NULL };
    pthread_mutex_unlock (&queue->lock);
}

uint64_t queue_lane_mark (const struct queue_lane *lane)
{
    uint64_t mark;

    pthread_mutex_lock (&lane->queue->lock);
    mark = lane->submitted;
    pthread_mutex_unlock (&lane->queue->lock);
    return mark;
}

bool queue_reached (const struct queue_lane *lane, uint64_t mark)
{
    return lane->done >= mark;
}

void queue_lane_describe (const struct queue_lane *lane, char *text, size_t max)
{
    if (lane->queue->failed)
        snprintf (text, max, "%s", lane->at_failure);
    else if (lane->head)
        lane->head->describe (lane->head, text, max);
    else
        snprintf (text, max, "nothing on %s", lane->name);
}

/* True if queue_waiting() has a wait to report.  A waiter that has not woken yet waits no more.
 * The lock is held.
 */
static bool shows_wait (const struct queue *queue)
{
    return queue->waited_for[0]
           || (queue->waited && !queue_reached (queue->waited, queue->waited_mark));
}

/* Sleep until the mark is reached; the lock is held. */
static int wait_locked (struct queue_lane *lane, uint64_t mark, struct mg_error *err)
{
    struct queue *queue = lane->queue;
    struct timespec deadline = timed_deadline (queue->timeout);
    char what[DESCRIBE_MAX], text[MG_ERROR_MAX];

    if (queue->failed && shows_wait (queue))
        return queue_check (queue, err); // the first wait that failed stays for queue_waiting()
    queue->waited = lane;
    queue->waited_mark = mark;
    queue->waited_for[0] = '\0';
    clock_gettime (CLOCK_MONOTONIC, &queue->waited_since);
    while (!queue->failed && !queue_reached (lane, mark)) {
        if (pthread_cond_timedwait (&queue->finished, &queue->lock, &deadline)
                != ETIMEDOUT
            || queue->failed || queue_reached (lane, mark))
            continue;
        queue_lane_describe (lane, what, sizeof (what));
        snprintf (text, sizeof (text), "%s waited %g s", what, queue->timeout);
        set_failed (queue, text);
        return mg_error_set (err, ETIMEDOUT, "%s", text);
    }
    if (!queue->failed)
        queue->waited = NULL;
    return queue_check (queue, err);
}

bool queue_waiting (struct queue *queue, struct queue_waiting *waiting)
{
    bool waits;

    pthread_mutex_lock (&queue->lock);
    waits = shows_wait (queue);
    if (waits) {
        waiting->lane = queue->waited_for[0] ? NULL : queue->waited;
        waiting->seconds = timed_since (&queue->waited_since);
        if (queue->waited_for[0])
            snprintf (waiting->text, sizeof (waiting->text), "%s", queue->waited_for);
        else
            queue_lane_describe (queue->waited, waiting->text, sizeof (waiting->text));
    }
    pthread_mutex_unlock (&queue->lock);
    return waits;
}

bool queue_failed_waiting (struct queue *queue)
{
    bool waits;

    if (!queue->failed)
        return false; // without the lock: this call is in every transfer's way
    pthread_mutex_lock (&queue->lock);
    waits = queue->waited_for[0] != '\0';
    pthread_mutex_unlock (&queue->lock);
    return waits;
}

/* Show a wait to queue_waiting(), or, with NULL, that it is over. */
static void show_wait (struct queue *queue, const char *what)
{
    pthread_mutex_lock (&queue->lock);
    snprintf (queue->waited_for, sizeof (queue->waited_for), "%s", what ? what : "");
    clock_gettime (CLOCK_MONOTONIC, &queue->waited_since);
    pthread_mutex_unlock (&queue->lock);
}

/* Describe what the waits are for, if that is known. */
static void explain_wait (struct queue *queue, char *why, size_t max)
{
    struct queue_explain explain;

    pthread_mutex_lock (&queue->lock);
    explain = queue->explain;
    pthread_mutex_unlock (&queue->lock);
    why[0] = '\0';
    if (explain.explain)
        explain.explain (explain.arg, why, max);
}

/* Call the look, which queue_set_look() leaves in place until the call has returned. */
static int call_look (struct queue *queue, struct mg_error *found)
{
    struct queue_look look;
    int rc;

    pthread_mutex_lock (&queue->lock);
    look = queue->look;
    queue->lookers++;
    pthread_mutex_unlock (&queue->lock);
    rc = look.look ? look.look (look.arg, found) : 0;
    pthread_mutex_lock (&queue->lock);
    if (--queue->lookers == 0)
        pthread_cond_broadcast (&queue->finished);
    pthread_mutex_unlock (&queue->lock);
    return rc;
}

/* Look for a failure, with which the queue fails. */
static int look_around (struct queue *queue, struct mg_error *err)
{
    char why[DESCRIBE_MAX], text[MG_ERROR_MAX];
    struct mg_error found = { "" };

    if (call_look (queue, &found) == 0)
        return 0;
    explain_wait (queue, why, sizeof (why));
    snprintf (text, sizeof (text), "%.180s%s%s", found.text, why[0] ? ", during " : "", why);
    queue_fail (queue, text);
    return mg_error_set (err, EIO, "%s", text);
}

/* The wait has reached its deadline, and with it the queue fails. */
static int give_up (struct queue *queue, const struct queue_wait *wait, struct mg_error *err)
{
    char why[DESCRIBE_MAX], text[MG_ERROR_MAX];

    explain_wait (queue, why, sizeof (why));
    snprintf (text, sizeof (text), "%s waited %g s%s%s", wait->what, queue->timeout,
              why[0] ? " for " : "", why);
    queue_fail (queue, text);
    return mg_error_set (err, ETIMEDOUT, "%s", text);
}

int queue_wait_for (struct queue *queue, const struct queue_wait *wait, struct mg_error *err)
{
    static const struct timespec nap = { .tv_nsec = LONG_NAP_NS };
    struct timespec start;
    bool shown = false;
    int rc;

    clock_gettime (CLOCK_MONOTONIC, &start);
    for (;;) {
        if (queue_check (queue, err) < 0)
            return -1; // the text of the wait stays for queue_waiting()
        if ((rc = wait->poll (wait->arg, err)) != 0)
            break;
        if (timed_since (&start) < SPIN_SECONDS)
            continue;
        if (look_around (queue, err) < 0)
            return -1;
        if (!shown)
            show_wait (queue, wait->what);
        shown = true;
        if (timed_since (&start) > queue->timeout)
            return give_up (queue, wait, err);
        nanosleep (&nap, NULL);
    }
    if (shown) {
        int saved_errno = errno;

        show_wait (queue, NULL);
        errno = saved_errno;
    }
    return rc < 0 ? -1 : 0;
}

int queue_wait (struct queue_lane *lane, uint64_t mark, struct mg_error *err)
{
    struct queue *queue = lane->queue;
    int rc;

    queue->waiters++;
    for (int i = 0; i < WAIT_SPINS && !queue_reached (lane, mark); i++)
        sched_yield ();
    if (queue_reached (lane, mark)) {
        rc = queue_check (queue, err);
    } else {
        pthread_mutex_lock (&queue->lock);
        rc = wait_locked (lane, mark, err);
        pthread_mutex_unlock (&queue->lock);
    }
    queue->waiters--;
    return rc;
}

int queue_run (struct queue_lane *lane, struct work *work, struct mg_error *err)
{
    struct queue *queue = lane->queue;
    int rc;

    queue->waiters++;
    rc = queue_submit (lane, work, err);
    if (rc == 0)
        rc = queue_wait (lane, queue_lane_mark (lane), err);
    queue->waiters--;
    return rc;
}
