/* monitor - connections of ranks and of strangers; who leaves, who dies
 *
 * Ranks 0 and 2 of three, the hubs, are monitors of this process; rank 1 is another one.
 */

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libcore/job/monitor_private.h"
#include "tests/tap/tap.h"

enum { RANKS = 3, CROWD = 64, PATIENCE_MS = 120000 };

/* What a monitor has said, by any thread. */
struct said {
    pthread_mutex_t lock;
    char text[1024];
    int ends;
};

static void nap (int milliseconds)
{
    poll (NULL, 0, milliseconds);
}

/* A slow connection, so that a rank that does not wait for it is ahead of it. */
int __real_endpoint_connect (const struct endpoint *endpoint, double seconds, struct mg_error *err);
int __wrap_endpoint_connect (const struct endpoint *endpoint, double seconds, struct mg_error *err);
int __wrap_endpoint_connect (const struct endpoint *endpoint, double seconds, struct mg_error *err)
{
    nap (100);
    return __real_endpoint_connect (endpoint, seconds, err);
}

static void hear (void *arg, const char *text)
{
    struct said *said = arg;

    pthread_mutex_lock (&said->lock);
    snprintf (said->text, sizeof (said->text), "%s", text);
    pthread_mutex_unlock (&said->lock);
}

static void end (void *arg, int code)
{
    struct said *said = arg;

    (void)code;
    pthread_mutex_lock (&said->lock);
    said->ends++;
    pthread_mutex_unlock (&said->lock);
}

static int count_ends (struct said *said)
{
    int ends;

    pthread_mutex_lock (&said->lock);
    ends = said->ends;
    pthread_mutex_unlock (&said->lock);
    return ends;
}

static bool wait_for_end (struct said *said)
{
    for (int ms = 0; ms < PATIENCE_MS && count_ends (said) == 0; ms += 20)
        nap (20);
    return count_ends (said) > 0;
}

static struct monitor *make (int rank, struct said *said)
{
    struct monitor_config config = {
        .rank = rank, .size = RANKS, .tell = hear, .end = end, .arg = said,
    };
    struct mg_error err = { "" };
    struct monitor *m = monitor_create (&config, &err);

    if (!m)
        diag ("%s", err.text);
    return m;
}

/* Rank 1: watch until a byte says so, then leave well ('l') or die.  A hub's end has no
 * business here: 9 if this one wants to end the job.
 */
static void be_rank_1 (const struct endpoint hub[MONITOR_HUBS], int go, int ready)
{
    struct said said = { .lock = PTHREAD_MUTEX_INITIALIZER };
    struct monitor *m = make (1, &said);
    char how = 'd';

    if (!m || monitor_start (m, hub, NULL) < 0)
        _exit (1);
    if (write (ready, "r", 1) != 1 || read (go, &how, 1) != 1)
        _exit (1);
    if (how == 'w') { // until long after the hubs have left
        nap (4000);
        _exit (count_ends (&said) ? 9 : 0);
    }
    if (how == 'l') {
        monitor_finish (m);
        monitor_destroy (m, false);
    }
    _exit (0);
}

/* A job: its hubs here, rank 1 in a process. */
struct job {
    struct said said[MONITOR_HUBS];
    struct monitor *hub[MONITOR_HUBS];
    struct endpoint endpoint[MONITOR_HUBS];
    pid_t pid;
    int go, ready;
};

static void start_rank_1 (struct job *job)
{
    int go[2], ready[2];
    char byte;

    if (pipe (go) < 0 || pipe (ready) < 0)
        bail_out ("no pipe");
    job->pid = fork ();
    if (job->pid == 0)
        be_rank_1 (job->endpoint, go[0], ready[1]);
    close (go[0]);
    close (ready[1]);
    job->go = go[1];
    job->ready = ready[0];
    ok (read (job->ready, &byte, 1) == 1, "rank 1 watches");
}

static void make_hubs (struct job *job)
{
    memset (job, 0, sizeof (*job));
    for (int h = 0; h < MONITOR_HUBS; h++) {
        pthread_mutex_init (&job->said[h].lock, NULL);
        job->hub[h] = make (monitor_hub (h, RANKS), &job->said[h]);
        job->endpoint[h] = *monitor_endpoint (job->hub[h]);
    }
}

static void start_hubs (struct job *job)
{
    for (int h = 0; h < MONITOR_HUBS; h++)
        ok (monitor_start (job->hub[h], job->endpoint, NULL) == 0, "hub %d starts", h);
}

static bool has_greeted (const struct job *job, int h)
{
    volatile const enum rank_fate *fate = &job->hub[h]->rank[1].fate;

    return *fate != RANK_UNKNOWN;
}

/* Until both hubs know rank 1. */
static void meet (const struct job *job)
{
    for (int h = 0; h < MONITOR_HUBS; h++) {
        for (int ms = 0; ms < PATIENCE_MS && !has_greeted (job, h); ms += 20)
            nap (20);
        ok (has_greeted (job, h), "hub %d has heard of rank 1", h);
    }
}

static int end_rank_1 (struct job *job, char how)
{
    int status;

    if (write (job->go, &how, 1) != 1)
        return -1;
    if (how != 'w')
        waitpid (job->pid, &status, 0);
    return 0;
}

static void clear (struct job *job)
{
    for (int h = 0; h < MONITOR_HUBS; h++)
        monitor_destroy (job->hub[h], false);
    close (job->go);
    close (job->ready);
}

static void test_death (void)
{
    struct job job;

    make_hubs (&job);
    start_rank_1 (&job);
    start_hubs (&job);
    meet (&job);
    end_rank_1 (&job, 'd');
    ok (wait_for_end (&job.said[0]), "a rank that dies ends the job");
    ok (strstr (job.said[0].text, "rank 1") && strstr (job.said[0].text, "died"),
        "and is named: %.60s", job.said[0].text);
    is_int (count_ends (&job.said[1]), 0, "the other hub leaves it to rank 0");
    clear (&job);
}

/* A rank that stops or dies as soon as it has started is one that the hubs have heard of. */
static void test_start (void)
{
    struct said said = { .lock = PTHREAD_MUTEX_INITIALIZER };
    struct monitor *m;
    struct job job;

    make_hubs (&job);
    m = make (1, &said);
    ok (monitor_start (m, job.endpoint, NULL) == 0, "rank 1 starts");
    for (int h = 0; h < MONITOR_HUBS; h++) {
        struct pollfd listener = { .fd = job.hub[h]->listener, .events = POLLIN };

        is_int (poll (&listener, 1, 0), 1, "and has connected to hub %d", h);
    }
    monitor_destroy (m, false);
    job.go = job.ready = -1;
    clear (&job);
}

/* The hubs leave well, and long before rank 1 does. */
static void test_leave (void)
{
    struct job job;
    int status = -1;

    make_hubs (&job);
    start_rank_1 (&job);
    start_hubs (&job);
    meet (&job);
    end_rank_1 (&job, 'w');
    clear (&job);
    waitpid (job.pid, &status, 0);
    is_int (status, 0, "a rank that is slow to leave does not end the job");
}

static double finish_seconds;

static void *finish (void *hub)
{
    monitor_limit (hub, "the end of the other ranks", finish_seconds);
    monitor_finish (hub);
    return NULL;
}

/* Both hubs wait for each other and for rank 1. */
static void finish_hubs (struct job *job, double seconds)
{
    pthread_t thread;

    finish_seconds = seconds;
    if (pthread_create (&thread, NULL, finish, job->hub[1]) != 0)
        bail_out ("no thread");
    finish (job->hub[0]);
    pthread_join (thread, NULL);
}

static void start_job (struct job *job)
{
    make_hubs (job);
    start_rank_1 (job);
    start_hubs (job);
    meet (job);
}

/* All ranks leave well. */
static void test_finish (void)
{
    struct job job;

    start_job (&job);
    end_rank_1 (&job, 'l');
    finish_hubs (&job, 60);
    is_int (count_ends (&job.said[0]) + count_ends (&job.said[1]), 0, "a good end of all");
    clear (&job);
}

/* A rank that stops before its good-bye is named when the limit has passed. */
static void test_stalled_end (void)
{
    struct job job;

    start_job (&job);
    kill (job.pid, SIGSTOP);
    finish_hubs (&job, 1);
    ok (count_ends (&job.said[0]) > 0, "a rank that stops on its way out ends the job");
    ok (strstr (job.said[0].text, "rank 1 ") && strstr (job.said[0].text, "does not answer")
            && strstr (job.said[0].text, "the end of the other ranks took more than 1 s"),
        "and is named: %.200s", job.said[0].text);
    kill (job.pid, SIGKILL);
    waitpid (job.pid, NULL, 0);
    clear (&job);
}

/* A rank that misses its own limit fails. */
static void test_limit (void)
{
    struct job job;

    start_job (&job);
    monitor_limit (job.hub[1], "a part of the end", 60);
    monitor_limit (job.hub[1], "another part of it", 0.1);
    ok (wait_for_end (&job.said[0]), "a limit that passes ends the job");
    ok (strstr (job.said[0].text, "rank 2: another part of it took more than 0.1 s"),
        "with what was late: %.200s", job.said[0].text);
    end_rank_1 (&job, 'd');
    clear (&job);
}

static bool has_crowd (const struct job *job)
{
    volatile const uint64_t *accepted = &job->hub[0]->num_accepted;

    return *accepted >= CROWD;
}

/* More strangers than there are places, silent ones and one that talks, before any rank. */
static void test_strangers (void)
{
    static const char noise[8192] = "GET / HTTP/1.0\r\n\r\n";
    int crowd[CROWD];
    struct job job;

    make_hubs (&job);
    for (int i = 0; i < CROWD; i++)
        crowd[i] = __real_endpoint_connect (&job.endpoint[0], 1.0, NULL);
    ok (send (crowd[CROWD - 1], noise, sizeof (noise), MSG_NOSIGNAL) > 0, "a stranger talks");
    start_hubs (&job);
    for (int ms = 0; ms < PATIENCE_MS && !has_crowd (&job); ms += 20)
        nap (20);
    start_rank_1 (&job);
    meet (&job);
    nap (500);
    is_int (count_ends (&job.said[0]), 0, "strangers end nothing");
    end_rank_1 (&job, 'd');
    ok (wait_for_end (&job.said[0]), "beside strangers a rank's death is seen");
    ok (strstr (job.said[0].text, "rank 1") && strstr (job.said[0].text, "died"),
        "and its rank is known: %.60s", job.said[0].text);
    for (int i = 0; i < CROWD; i++)
        close (crowd[i]);
    clear (&job);
}

int main (void)
{
    alarm (550); // nothing here may hang
    test_death ();
    test_start ();
    test_leave ();
    test_finish ();
    test_stalled_end ();
    test_limit ();
    test_strangers ();
    monitor_destroy (NULL, true);
    monitor_fail (NULL, "nothing");
    monitor_attach (NULL, NULL, NULL, NULL);
    monitor_limit (NULL, "nothing", 1);
    monitor_finish (NULL);
    return done_testing ();
}
