/* queue.c - test lanes, order, waiting, failure and deadlines */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libcore/base/timed.h"
#include "libcore/device/queue.h"
#include "tests/tap/tap.h"

/* Work that is done when its gate is open, and notes when it was done. */
struct gated {
    struct work work;
    _Atomic int *gate; /* NULL: open */
    int polls_needed, polls;
    int order; /* in which it was done */
    bool released, fails;
    const char *name;
};

/* Seconds that no wait takes, also where this process seldom has a processor. */
enum { PATIENCE = 600 };

static _Atomic int counter;

static int gated_poll (struct work *work, struct mg_error *err)
{
    struct gated *g = (struct gated *)work;

    if (g->fails)
        return mg_error_set (err, EIO, "it broke");
    if (g->gate && !*g->gate)
        return 0;
    if (++g->polls < g->polls_needed)
        return 0;
    g->order = ++counter;
    return 1;
}

static void gated_release (struct work *work)
{
    ((struct gated *)work)->released = true;
}

static void gated_describe (const struct work *work, char *text, size_t max)
{
    snprintf (text, max, "%s", ((const struct gated *)work)->name);
}

static struct gated gated (const char *name, _Atomic int *gate)
{
    return (struct gated){
        .work
        = {.poll = gated_poll, .release = gated_release, .describe = gated_describe},
        .gate = gate,
        .name = name,
    };
}

static double now (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void order_in_a_lane (void)
{
    struct mg_error err = { "" };
    struct queue *queue = queue_create (PATIENCE, &err);
    struct queue_lane *lane = queue_lane_create (queue, "lane", &err);
    struct gated work[20];
    bool ordered = true, released = true;

    counter = 0;
    for (int i = 0; i < 20; i++) {
        work[i] = gated ("piece", NULL);
        work[i].polls_needed = i % 3 * 5;
        is_int (queue_submit (lane, &work[i].work, &err), 0, "submit %d", i);
    }
    is_int (queue_wait (lane, queue_lane_mark (lane), &err), 0, "wait for all");
    for (int i = 0; i < 20; i++) {
        ordered = ordered && work[i].order == i + 1;
        released = released && work[i].released;
    }
    ok (ordered, "done in the order of submission");
    ok (released, "and released");
    ok (queue_reached (lane, 20) && !queue_reached (lane, 21), "20 marks reached");
    queue_lane_destroy (lane);
    queue_destroy (queue);
}

static void lanes_do_not_block_each_other (void)
{
    struct mg_error err = { "" };
    struct queue *queue = queue_create (PATIENCE, &err);
    struct queue_lane *a = queue_lane_create (queue, "a", &err);
    struct queue_lane *b = queue_lane_create (queue, "b", &err);
    _Atomic int gate = 0;
    struct gated first = gated ("first", &gate), second = gated ("second", NULL);
    struct gated other = gated ("other", NULL), again = gated ("again", NULL);
    uint64_t mark;
    char text[80];

    counter = 0;
    queue_submit (a, &first.work, &err);
    mark = queue_lane_mark (a);
    queue_submit (a, &second.work, &err);
    queue_submit (b, &other.work, &err);
    is_int (queue_wait (b, queue_lane_mark (b), &err), 0, "b passes a, which waits");
    ok (!queue_reached (a, mark), "a is not done");
    is_int (second.order, 0, "and nothing behind its first");
    queue_lane_describe (a, text, sizeof (text));
    is_str (text, "first", "a is at its first");
    gate = 1;
    is_int (queue_wait (a, mark, &err), 0, "a's first is done");
    is_int (queue_wait (a, queue_lane_mark (a), &err), 0, "and its second");
    ok (other.order == 1 && first.order == 2 && second.order == 3, "in that order");
    queue_lane_describe (a, text, sizeof (text));
    is_str (text, "nothing on a", "now a is at nothing");
    is_int (queue_run (a, &again.work, &err), 0, "run waits");
    ok (again.order == 4 && again.released, "until it is done");
    queue_lane_destroy (a);
    ok (queue_reached (a, mark), "marks outlive the lane");
    ok (queue_lane_create (queue, "c", &err) == a, "whose place is used again");
    ok (queue_reached (a, mark) && queue_lane_mark (a) == 3, "with higher marks");
    queue_destroy (queue);
}

static void failure (void)
{
    struct mg_error err = { "" };
    struct queue *queue = queue_create (PATIENCE, &err);
    struct queue_lane *a = queue_lane_create (queue, "a", &err);
    struct queue_lane *b = queue_lane_create (queue, "b", &err);
    _Atomic int gate = 0;
    struct gated stuck = gated ("stuck", &gate), bad = gated ("bad", NULL);
    struct gated late = gated ("late", NULL);
    struct queue_waiting waiting;

    bad.fails = true;
    is_int (queue_check (queue, &err), 0, "a new queue has not failed");
    queue_submit (a, &stuck.work, &err);
    queue_submit (b, &bad.work, &err);
    is_int (queue_wait (a, queue_lane_mark (a), &err), -1,
            "the failure of b ends a wait");
    is_int (errno, EIO, "EIO");
    is_str (err.text, "bad: it broke", "with b's text");
    queue_fail (queue, "something else");
    is_int (queue_check (queue, &err), -1, "check says so");
    is_str (err.text, "bad: it broke", "the first text stays");
    is_int (queue_submit (a, &late.work, &err), -1, "nothing more is taken");
    is_int (queue_run (a, &late.work, &err), -1, "nor run");
    ok (!bad.released && !stuck.released, "nothing is released");
    ok (queue_settled (queue), "and nothing polled any more");
    // the owners know of the failure, and their work need no longer be there
    stuck.name = bad.name = "memory of somebody else";
    is_int (queue_wait (b, queue_lane_mark (b), &err), -1, "a later wait fails at once");
    ok (queue_waiting (queue, &waiting) && waiting.lane == a, "the wait that failed stays");
    is_str (waiting.text, "stuck", "with its work, as it was at the failure");
    queue_destroy (queue);
}

static void deadline (void)
{
    struct mg_error err = { "" };
    struct queue *queue = queue_create (0.2, &err);
    struct queue_lane *lane = queue_lane_create (queue, "lane", &err);
    _Atomic int gate = 0;
    struct gated stuck = gated ("the piece that is stuck", &gate);
    double start = now (), took;

    queue_submit (lane, &stuck.work, &err);
    is_int (queue_wait (lane, 1, &err), -1, "a wait ends at the deadline");
    is_int (errno, ETIMEDOUT, "ETIMEDOUT");
    is_str (err.text, "the piece that is stuck waited 0.2 s", "with the work's name");
    took = now () - start;
    ok (took >= 0.2 && took < PATIENCE, "after 0.2 s (%.3f)", took);
    is_int (queue_wait (lane, 1, &err), -1, "the next wait ends at once");
    is_str (err.text, "the piece that is stuck waited 0.2 s", "with the same text");
    queue_destroy (queue);
}

static void *fail_later (void *arg)
{
    usleep (100000);
    queue_fail (arg, "the process is being ended");
    return NULL;
}

static void failed_from_outside (void)
{
    struct mg_error err = { "" };
    struct queue *queue = queue_create (PATIENCE, &err);
    struct queue_lane *lane = queue_lane_create (queue, "lane", &err);
    _Atomic int gate = 0;
    struct gated stuck = gated ("stuck", &gate);
    pthread_t thread;

    queue_submit (lane, &stuck.work, &err);
    pthread_create (&thread, NULL, fail_later, queue);
    is_int (queue_wait (lane, 1, &err), -1, "another thread can end a wait");
    is_str (err.text, "the process is being ended", "with its text");
    pthread_join (thread, NULL);
    queue_destroy (queue);
}

/* Poll that blocks for good, as a library call may; the memory is static, since the queue
 * must leave the thread behind.
 */
static struct gated blocked;
static sem_t inside; /* the poll function */

static int blocking_poll (struct work *work, struct mg_error *err)
{
    (void)work, (void)err;
    sem_post (&inside);
    while (pause ())
        ;
    return 1;
}

static void thread_left_behind (void)
{
    struct mg_error err = { "" };
    struct queue *queue = queue_create (0.1, &err);
    struct queue_lane *lane = queue_lane_create (queue, "lane", &err);
    double start = now ();

    sem_init (&inside, 0, 0);
    blocked = gated ("call", NULL);
    blocked.work.poll = blocking_poll;
    queue_submit (lane, &blocked.work, &err);
    sem_wait (&inside); // the deadline may be over before the thread has begun
    is_int (queue_wait (lane, 1, &err), -1, "a blocked call ends at the deadline");
    for (int i = 0; i < 10; i++)
        ok (!queue_settled (queue), "it is stuck");
    queue_destroy (queue);
    ok (now () - start < PATIENCE, "and destroy leaves the thread behind, in time");
}

static volatile sig_atomic_t signalled_on_main;
static pthread_t main_thread;

static void on_signal (int sig)
{
    (void)sig;
    signalled_on_main = pthread_equal (pthread_self (), main_thread) ? 1 : -1;
}

static void signals_stay_with_the_program (void)
{
    struct mg_error err = { "" };
    struct queue *queue = queue_create (PATIENCE, &err);
    struct queue_lane *lane = queue_lane_create (queue, "lane", &err);
    struct gated work = gated ("piece", NULL);

    main_thread = pthread_self ();
    queue_submit (lane, &work.work, &err);
    queue_wait (lane, 1, &err);
    signal (SIGUSR1, on_signal);
    kill (getpid (), SIGUSR1);
    is_int (signalled_on_main, 1, "a signal is handled outside the queue's thread");
    queue_lane_destroy (lane);
    queue_destroy (queue);
}

enum { STRESS_THREADS = 4, STRESS_WORK = 2000 };

static void *stress_main (void *arg)
{
    struct queue *queue = arg;
    struct queue_lane *lane = queue_lane_create (queue, "stress", NULL);
    uint64_t base = queue_lane_mark (lane); // another thread may have had the lane before
    struct gated work[8];
    intptr_t failed = 0;

    for (int i = 0; i < STRESS_WORK; i++) {
        struct gated *g = &work[i % 8];

        if (i >= 8 && queue_wait (lane, base + (uint64_t)i - 7, NULL) < 0)
            failed++;
        *g = gated ("piece", NULL);
        failed += queue_submit (lane, &g->work, NULL) < 0;
    }
    failed += queue_wait (lane, base + STRESS_WORK, NULL) < 0;
    queue_lane_destroy (lane);
    return (void *)failed;
}

static void stress (void)
{
    struct mg_error err = { "" };
    struct queue *queue = queue_create (PATIENCE, &err);
    pthread_t thread[STRESS_THREADS];
    intptr_t failed = 0;
    void *one;

    counter = 0;
    for (int i = 0; i < STRESS_THREADS; i++)
        pthread_create (&thread[i], NULL, stress_main, queue);
    for (int i = 0; i < STRESS_THREADS; i++) {
        pthread_join (thread[i], &one);
        failed += (intptr_t)one;
    }
    is_int (failed, 0, "%d threads submit and wait", STRESS_THREADS);
    is_int (counter, STRESS_THREADS * STRESS_WORK, "all work is done once");
    queue_destroy (queue);
}

static _Atomic bool looking;

static void *run_many (void *arg)
{
    struct queue_lane *lane = arg;

    while (looking) {
        struct gated work = gated ("piece", NULL);

        work.polls_needed = 200; // most waiters sleep
        if (queue_run (lane, &work.work, NULL) < 0)
            break;
    }
    return NULL;
}

/* Whoever looks sees the work that a wait is for, or no wait, also when the work has just been
 * done and its waiter still sleeps.
 */
static void waits_seen (void)
{
    enum { SEEN = 1000 };
    struct mg_error err = { "" };
    struct queue *queue = queue_create (PATIENCE, &err);
    struct queue_lane *lane = queue_lane_create (queue, "lane", &err);
    struct queue_waiting waiting;
    int seen = 0, other = 0;
    pthread_t thread;

    ok (!queue_waiting (queue, &waiting), "nobody waits");
    looking = true;
    pthread_create (&thread, NULL, run_many, lane);
    while (seen < SEEN) {
        if (!queue_waiting (queue, &waiting)) {
            sched_yield ();
            continue;
        }
        seen++;
        if (waiting.lane != lane || waiting.seconds < 0 || strcmp (waiting.text, "piece") != 0)
            other++;
    }
    looking = false;
    pthread_join (thread, NULL);
    is_int (other, 0, "of %d waits seen, all are for a piece", seen);
    queue_destroy (queue);
}

/* A wait for something that comes after 'polls' looks; it fails at 'fails'. */
struct coming {
    struct queue *queue;
    int polls, fails, looks;
    bool seen;      /* queue_waiting() told of it */
    bool fail_queue;
};

static int look (void *arg, struct mg_error *err)
{
    struct coming *c = arg;
    struct queue_waiting waiting;

    c->looks++;
    if (queue_waiting (c->queue, &waiting))
        c->seen |= !waiting.lane && strcmp (waiting.text, "the moon") == 0 && waiting.seconds >= 0;
    if (c->looks == c->fails && c->fail_queue)
        queue_fail (c->queue, "an eclipse");
    else if (c->looks == c->fails)
        return mg_error_set (err, ENXIO, "there is none");
    return c->polls > 0 && c->looks >= c->polls;
}

static void explain (void *arg, char *text, size_t max)
{
    const struct coming *c = arg;

    snprintf (text, max, "%s", c->looks > 0 ? "the tide" : "nothing");
}

static void wait_for (void)
{
    struct mg_error err = { "" };
    struct queue *queue = queue_create (60, &err);
    struct coming c = { .queue = queue, .polls = 1 };
    struct queue_wait wait = { look, &c, "the moon" };
    struct queue_waiting waiting;

    ok (queue_wait_for (queue, &wait, &err) == 0 && c.looks == 1, "it is there at once");
    c = (struct coming){ .queue = queue, .polls = 1000000, .fails = 500 };
    ok (queue_wait_for (queue, &wait, &err) < 0 && errno == ENXIO && c.looks == 500, "it fails: %s",
        err.text);
    is_int (queue_check (queue, &err), 0, "the queue goes on");
    ok (!queue_waiting (queue, &waiting), "nobody waits any more");
    queue_destroy (queue);
    queue = queue_create (0.05, &err);
    c = (struct coming){ .queue = queue };
    ok (queue_wait_for (queue, &wait, &err) < 0 && errno == ETIMEDOUT, "it does not come");
    is_str (err.text, "the moon waited 0.05 s", "with a text");
    ok (c.seen, "while it waits, others see what for");
    ok (queue_wait_for (queue, &wait, &err) < 0 && errno == EIO, "the queue has failed");
    ok (queue_waiting (queue, &waiting) && !waiting.lane, "what the wait was for stays to be seen");
    queue_destroy (queue);
    queue = queue_create (0.05, &err);
    queue_set_explain (queue, &(struct queue_explain){ explain, &c });
    c = (struct coming){ .queue = queue };
    ok (queue_wait_for (queue, &wait, &err) < 0 && errno == ETIMEDOUT, "once more");
    is_str (err.text, "the moon waited 0.05 s for the tide", "somebody knows why");
    queue_destroy (queue);
    queue = queue_create (PATIENCE, &err);
    c = (struct coming){ .queue = queue, .fails = 3, .fail_queue = true };
    ok (queue_wait_for (queue, &wait, &err) < 0 && errno == EIO
            && strcmp (err.text, "an eclipse") == 0 && c.looks == 3, "a failure ends the wait");
    queue_destroy (queue);
}

/* Counts its calls, and finds something in the third one. */
static int find_failure (void *arg, struct mg_error *err)
{
    int *calls = arg;

    return ++*calls < 3 ? 0 : mg_error_set (err, ENXIO, "a peer is gone");
}

static void failures_found (void)
{
    struct mg_error err = { "" };
    struct queue *queue = queue_create (PATIENCE, &err);
    struct coming c = { .queue = queue, .polls = 1 };
    struct queue_wait wait = { look, &c, "the moon" };
    int calls = 0;

    queue_set_explain (queue, &(struct queue_explain){ explain, &c });
    queue_set_look (queue, &(struct queue_look){ find_failure, &calls });
    ok (queue_wait_for (queue, &wait, &err) == 0 && calls == 0, "a short wait finds no failure");
    c = (struct coming){ .queue = queue };
    ok (queue_wait_for (queue, &wait, &err) < 0 && errno == EIO && calls == 3, "a long one does");
    is_str (err.text, "a peer is gone, during the tide", "with the text, and what is waited for");
    ok (queue_check (queue, &err) < 0 && strcmp (err.text, "a peer is gone, during the tide") == 0,
        "the queue has failed with it");
    queue_destroy (queue);
    queue = queue_create (0.05, &err);
    queue_set_look (queue, &(struct queue_look){ find_failure, &calls });
    queue_set_look (queue, NULL);
    c = (struct coming){ .queue = queue };
    ok (queue_wait_for (queue, &wait, &err) < 0 && errno == ETIMEDOUT && calls == 3,
        "the function is called no more once it is taken away");
    queue_destroy (queue);
}

/* A look that stays inside until it may leave. */
struct slow_look {
    struct queue *queue;
    _Atomic bool inside, may_leave, left;
    bool was_left; /* when queue_set_look() came back */
};

static int look_slowly (void *arg, struct mg_error *err)
{
    struct slow_look *l = arg;

    l->inside = true;
    while (!l->may_leave)
        sched_yield ();
    l->left = true;
    return mg_error_set (err, ENXIO, "found");
}

static void *take_look_away (void *arg)
{
    struct slow_look *l = arg;

    queue_set_look (l->queue, NULL);
    l->was_left = l->left;
    return NULL;
}

static void *wait_and_look (void *arg)
{
    struct slow_look *l = arg;
    struct coming c = { .queue = l->queue };

    queue_wait_for (l->queue, &(struct queue_wait){ look, &c, "the moon" }, NULL);
    return NULL;
}

static void look_taken_away (void)
{
    static const struct timespec nap = { .tv_nsec = 50000000 };
    struct slow_look l = { .queue = queue_create (PATIENCE, NULL) };
    pthread_t waits, takes;

    queue_set_look (l.queue, &(struct queue_look){ look_slowly, &l });
    pthread_create (&waits, NULL, wait_and_look, &l);
    while (!l.inside)
        sched_yield ();
    pthread_create (&takes, NULL, take_look_away, &l);
    nanosleep (&nap, NULL);
    l.may_leave = true;
    pthread_join (takes, NULL);
    pthread_join (waits, NULL);
    ok (l.was_left, "the function is taken away once no thread is inside");
    queue_destroy (l.queue);
}

/* --- a source --- */

/* A pipe, whose bytes are news for work in the order of the bytes. */
struct pipe_source {
    struct queue_source source;
    int write_fd;
    int heard; /* bytes */
    _Atomic int arms;
    _Atomic int keeps; /* calls of settled() that return false */
    _Atomic int asked; /* calls of it */
    _Atomic int rounds; /* calls of progress() */
};

struct hearing {
    struct work work;
    struct pipe_source *pipe;
    int wants;
    _Atomic int polls;
};

static void pipe_progress (struct queue_source *source)
{
    struct pipe_source *p = (struct pipe_source *)source;
    char byte;

    p->rounds++;
    while (read (p->source.fd, &byte, 1) == 1)
        p->heard++;
}

/* What came since progress() stays in the pipe, which is readable then. */
static bool pipe_arm (struct queue_source *source)
{
    ((struct pipe_source *)source)->arms++;
    return true;
}

static bool pipe_settled (struct queue_source *source)
{
    struct pipe_source *p = (struct pipe_source *)source;

    p->asked++;
    return p->keeps-- <= 0;
}

static int hearing_poll (struct work *work, struct mg_error *err)
{
    struct hearing *h = (struct hearing *)work;

    (void)err;
    h->polls++;
    return h->pipe->heard >= h->wants;
}

static void hearing_describe (const struct work *work, char *text, size_t max)
{
    (void)work;
    snprintf (text, max, "news");
}

static struct hearing hearing (struct pipe_source *pipe, int wants)
{
    return (struct hearing){ .work = { .poll = hearing_poll, .describe = hearing_describe,
                                       .source = &pipe->source },
                             .pipe = pipe, .wants = wants };
}

/* The thread sleeps until the source or another thread has something for it. */
static void sleeps_on_a_source (void)
{
    struct mg_error err = { "" };
    struct queue *queue = queue_create (PATIENCE, &err);
    struct queue_lane *lane[2] = { queue_lane_create (queue, "a", &err),
                                   queue_lane_create (queue, "b", &err) };
    struct pipe_source pipe = { .source = { pipe_progress, pipe_arm, -1 } };
    struct hearing first = hearing (&pipe, 1), second = hearing (&pipe, 2);
    struct gated open = gated ("open", NULL), later = gated ("later", NULL);
    int fds[2], polls;

    if (pipe2 (fds, O_CLOEXEC | O_NONBLOCK) < 0)
        bail_out ("no pipe");
    pipe.source.fd = fds[0];
    pipe.write_fd = fds[1];
    later.work.source = &queue_inner;
    queue_submit (lane[0], &first.work, &err);
    queue_submit (lane[0], &second.work, &err);
    while (pipe.arms == 0)
        sched_yield ();
    usleep (50000);
    polls = first.polls;
    usleep (50000);
    ok (first.polls <= polls + 2, "a thread that sleeps does not poll: %d times, then %d", polls,
        first.polls);
    queue_submit (lane[1], &open.work, &err);
    is_int (queue_wait (lane[1], queue_lane_mark (lane[1]), &err), 0,
            "a submission wakes the thread");
    queue_submit (lane[1], &later.work, &err);
    is_int (queue_wait (lane[1], queue_lane_mark (lane[1]), &err), 0,
            "so does one that waits inside the queue");
    ok (!queue_reached (lane[0], 1), "the first piece still waits");
    ok (write (pipe.write_fd, "x", 1) == 1, "news");
    while (!queue_reached (lane[0], 1))
        sched_yield ();
    ok (!queue_reached (lane[0], 2), "which is for the first piece alone");
    ok (write (pipe.write_fd, "y", 1) == 1, "more of it");
    is_int (queue_wait (lane[0], queue_lane_mark (lane[0]), &err), 0, "for the second");
    first = hearing (&pipe, 3);
    queue_submit (lane[0], &first.work, &err);
    usleep (10000);
    queue_fail (queue, "enough");
    ok (queue_settled (queue), "a failure wakes the thread");
    queue_destroy (queue);
    close (fds[0]);
    close (fds[1]);
}

/* Work that is done, after which its source goes. */
static int leaving_poll (struct work *work, struct mg_error *err)
{
    (void)err;
    ((struct hearing *)work)->pipe->source.settled = NULL;
    return 1;
}

/* Without work, the thread lets a source send what it keeps. */
static void settles_a_source (void)
{
    struct mg_error err = { "" };
    struct queue *queue = queue_create (PATIENCE, &err);
    struct queue_lane *lane = queue_lane_create (queue, "a", &err);
    struct pipe_source *pipe = calloc (1, sizeof (*pipe));
    struct hearing at_once = hearing (pipe, 0), leaving = hearing (pipe, 0);
    _Atomic int gate = 0;
    struct gated waiting = gated ("waiting", &gate);
    struct timespec since;
    int fds[2], asked;

    if (!pipe || pipe2 (fds, O_CLOEXEC | O_NONBLOCK) < 0)
        bail_out ("no pipe");
    pipe->source = (struct queue_source){ pipe_progress, pipe_arm, fds[0], pipe_settled };
    pipe->keeps = 3;
    is_int (queue_run (lane, &at_once.work, &err), 0, "work is done");
    while (pipe->asked < 4)
        sched_yield ();
    usleep (50000);
    is_int (pipe->asked, 4, "its source is asked until it keeps nothing, and no more");
    pipe->keeps = 1 << 30;
    queue_run (lane, &at_once.work, &err);
    while (pipe->asked < 6)
        sched_yield ();
    asked = pipe->asked;
    clock_gettime (CLOCK_MONOTONIC, &since);
    usleep (100000);
    asked = pipe->asked - asked;
    ok (asked < 20 + 500 * timed_since (&since),
        "a source that keeps something for long is asked %d times in 0.1 s", asked);
    is_int (queue_run (lane, &at_once.work, &err), 0, "and delays no work");
    queue_submit (lane, &waiting.work, &err);
    for (asked = pipe->rounds; pipe->rounds < asked + 3;)
        sched_yield ();
    gate = 1;
    is_int (queue_wait (lane, queue_lane_mark (lane), &err), 0,
            "it makes progress beside work that has no source");
    leaving.work.poll = leaving_poll;
    is_int (queue_run (lane, &leaving.work, &err), 0, "the last work takes the source away");
    free (pipe);
    usleep (20000);
    queue_destroy (queue);
    close (fds[0]);
    close (fds[1]);
}

static void test_badparam (void)
{
    static const double bad[] = { 0.0, -1.0, 1e9, 0.0 / 0.0 };
    struct mg_error err = { "" };

    for (size_t i = 0; i < sizeof (bad) / sizeof (bad[0]); i++)
        ok (!queue_create (bad[i], &err) && errno == EINVAL, "no timeout of %g", bad[i]);
    errno = 42;
    queue_destroy (NULL);
    queue_lane_destroy (NULL);
    is_int (errno, 42, "destroy keeps errno, and takes NULL");
}

int main (void)
{
    order_in_a_lane ();
    lanes_do_not_block_each_other ();
    failure ();
    deadline ();
    failed_from_outside ();
    thread_left_behind ();
    signals_stay_with_the_program ();
    stress ();
    waits_seen ();
    wait_for ();
    failures_found ();
    look_taken_away ();
    sleeps_on_a_source ();
    settles_a_source ();
    test_badparam ();
    return done_testing ();
}
