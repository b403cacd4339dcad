/* ends.c - how jobs of several ranks begin and end, well or badly
 *
 * The mode is the first argument; scripts run the modes under mpirun and srun and look at
 * exit codes and messages.  The second one is for modes that end at a deadline: its seconds.
 * In mode "hurt" a rank sends itself a signal: the arguments that follow are the signal, the place
 * and the rank.  Without any this is a test of one rank: the modes that need no others, each in a
 * process of its own.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libcore/bootstrap/bootstrap.h"
#include "libcore/comm/comm.h"
#include "libcore/comm/exchange.h"
#include "libcore/device/device.h"
#include "libcore/device/stream.h"
#include "libcore/job/job.h"
#include "tests/tap/tap.h"

enum { N = 4096 };

struct run {
    struct bootstrap *bootstrap;
    const struct bootstrap_info *info;
    struct job *job;
    struct mg_comm *comm;
    struct mg_error err;
    float x[N];
    double seconds;
    int signal, rank;  /* of mode "hurt" ... */
    const char *place; /* ... NULL: another mode */
};

static struct run the_run;

/* The rank of mode "hurt" has come to a place. */
static void come_to (const char *place)
{
    const struct run *r = &the_run;
    struct timespec now;

    if (!r->place || strcmp (r->place, place) != 0 || r->info->rank != r->rank)
        return;
    clock_gettime (CLOCK_REALTIME, &now);
    fprintf (stderr, "hurt at %lld ms\n", (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    raise (r->signal);
}

/* Before the first exchange: nothing watches the ranks yet. */
int __real_bootstrap_exchange (struct bootstrap *b, const void *data, size_t len,
                               struct mg_error *err);
int __wrap_bootstrap_exchange (struct bootstrap *b, const void *data, size_t len,
                               struct mg_error *err);
int __wrap_bootstrap_exchange (struct bootstrap *b, const void *data, size_t len,
                               struct mg_error *err)
{
    come_to ("exchange");
    return __real_bootstrap_exchange (b, data, len, err);
}

/* When all ranks have made the job: they agree. */
int __real_exchange_agree (struct mg_comm *comm, int rc, struct mg_error *err);
int __wrap_exchange_agree (struct mg_comm *comm, int rc, struct mg_error *err);
int __wrap_exchange_agree (struct mg_comm *comm, int rc, struct mg_error *err)
{
    come_to ("agreement");
    return __real_exchange_agree (comm, rc, err);
}

/* Before all ranks meet at the end. */
int __real_bootstrap_barrier (struct bootstrap *b, struct mg_error *err);
int __wrap_bootstrap_barrier (struct bootstrap *b, struct mg_error *err);
int __wrap_bootstrap_barrier (struct bootstrap *b, struct mg_error *err)
{
    come_to ("meeting");
    return __real_bootstrap_barrier (b, err);
}

/* After that, in the first end of a communicator. */
void __real_comm_destroy (struct mg_comm *comm);
void __wrap_comm_destroy (struct mg_comm *comm);
void __wrap_comm_destroy (struct mg_comm *comm)
{
    come_to ("end");
    __real_comm_destroy (comm);
}

/* The report of the monitor. */
static void print_report (void *arg, const char *text)
{
    (void)arg;
    fprintf (stderr, "report: %s\n", text);
}

/* Say what went wrong, and end the job: exit code 3. */
static void __attribute__ ((noreturn)) give_up (struct run *r)
{
    if (!r->bootstrap) {
        fprintf (stderr, "%s\n", r->err.text);
        exit (3);
    }
    fprintf (stderr, "rank %d: %s\n", r->info->rank, r->err.text);
    bootstrap_abort (r->bootstrap, 3);
}

static void start (struct run *r, double timeout, uint64_t fingerprint)
{
    struct job_config config = { .timeout = timeout, .threads = 1 };

    if (r->place)
        config.watch.tell = print_report;
    config.fingerprint = fingerprint;
    geometry_init (&config.geometry);
    if (!r->bootstrap) {
        if (!(r->bootstrap = job_meet (NULL, NULL, timeout, &r->err)))
            give_up (r);
        r->info = bootstrap_info (r->bootstrap);
    }
    config.bootstrap = r->bootstrap;
    if (!(r->job = job_create (&config, &r->err)))
        give_up (r);
    r->comm = job_comm (r->job, GROUP_WORLD);
}

static void all_reduce (struct run *r, size_t count)
{
    if (mg_comm_all_reduce (r->comm, r->x, count, MG_FLOAT32, MG_SUM, NULL, &r->err) < 0)
        give_up (r);
}

/* Send an empty datagram to each local socket of this process that has a name. */
static void send_nothing (void)
{
    int from = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_un name;
        socklen_t len = sizeof (name);

        if (fd != from && getsockname (fd, (struct sockaddr *)&name, &len) == 0
            && name.sun_family == AF_UNIX && len > sizeof (sa_family_t))
            sendto (from, "", 0, MSG_DONTWAIT, (struct sockaddr *)&name, len);
    }
    close (from);
}

/* Strangers send to all ranks while they wait for the last one. */
static void mode_strangers (struct run *r)
{
    start (r, 300, 1);
    all_reduce (r, 10);
    send_nothing ();
    if (r->info->rank == 0)
        sleep (1);
    all_reduce (r, 10);
    job_destroy (r->job);
}

/* A short and good life. */
static void mode_cycle (struct run *r)
{
    start (r, 300, 1);
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < N; k++)
            r->x[k] = 1.0f;
        all_reduce (r, i % 2 ? N : 100);
        if (r->x[0] != (float)r->info->size) {
            snprintf (r->err.text, sizeof (r->err.text), "the sum is %g", r->x[0]);
            give_up (r);
        }
    }
    job_destroy (r->job);
}

static void mode_place (struct run *r)
{
    start (r, 300, 1);
    printf ("task %d rank %d node %d of %d local %d of %d host %s\n", r->info->task,
            r->info->rank, r->info->node, r->info->num_nodes, r->info->local_rank,
            r->info->local_size, getenv ("SLURMD_NODENAME") ? getenv ("SLURMD_NODENAME")
                                                             : "-");
    job_destroy (r->job);
}

/* Gather everybody's rank in one kind of group, and compare with the grid. */
static bool group_is_right (struct run *r, enum group_kind kind)
{
    struct mg_comm *comm = job_comm (r->job, kind);
    int32_t own = r->info->rank, got[N];
    struct group group;

    grid_group_of (job_grid (r->job), kind, own, &group);
    if (!comm || group.rank < 0)
        return !comm && group.rank < 0;
    if (mg_comm_size (comm) != group.size || mg_comm_rank (comm) != group.rank
        || strcmp (mg_comm_name (comm), group_kinds[kind].name) != 0)
        return false;
    if (mg_comm_all_gather (comm, &own, got, 1, MG_INT32, NULL, &r->err) < 0)
        give_up (r);
    for (int i = 0; i < group.size; i++) {
        if (got[i] != group_at (&group, i))
            return false;
    }
    return true;
}

/* Every kind of group of two geometries of 8 ranks, one with experts. */
static void mode_groups (struct run *r)
{
    static const struct geometry shapes[] = {
        { .tp = 2, .cp = 1, .pp = 2, .ep = 1, .order = "tp-cp-ep-dp-pp" },
        { .tp = 2, .cp = 2, .pp = 1, .ep = 4, .etp = 1, .order = "tp-cp-ep-dp-pp" },
    };
    struct job_config config = { .timeout = 300, .threads = 1, .fingerprint = 1 };
    size_t shape = getenv ("SHAPE") ? (size_t)atoi (getenv ("SHAPE")) % 2 : 0;
    int wrong = 0;

    if (!(r->bootstrap = job_meet (NULL, NULL, 300, &r->err)))
        give_up (r);
    r->info = bootstrap_info (r->bootstrap);
    config.bootstrap = r->bootstrap;
    config.geometry = shapes[shape];
    if (!(r->job = job_create (&config, &r->err)))
        give_up (r);
    for (int kind = 0; kind < GROUP_NUM_KINDS; kind++) {
        if (!group_is_right (r, kind)) {
            fprintf (stderr, "rank %d: group %s\n", r->info->rank, group_kinds[kind].name);
            wrong++;
        }
    }
    if (wrong == 0)
        printf ("rank %d: %d kinds of groups\n", r->info->rank, GROUP_NUM_KINDS);
    job_destroy (r->job);
}

/* One rank is killed while the others wait for it. */
static void mode_die (struct run *r)
{
    start (r, 600, 1);
    all_reduce (r, 1);
    if (r->info->rank == r->info->size / 2) {
        usleep (200000);
        raise (SIGKILL);
    }
    all_reduce (r, N);
}

/* Work that blocks the communication thread for good, as a hung library call would. */
static int stuck_poll (struct work *work, struct mg_error *err)
{
    (void)work, (void)err;
    while (pause ())
        ;
    return 1;
}

static void stuck_describe (const struct work *work, char *text, size_t max)
{
    (void)work;
    snprintf (text, max, "a stuck call");
}

/* The last rank ends the job, when nothing moves any more. */
static void mode_abort (struct run *r)
{
    static struct work stuck = { .poll = stuck_poll, .describe = stuck_describe };
    struct mg_stream *stream;

    start (r, 600, 1);
    stream = mg_stream_create (job_device (r->job), MG_STREAM_COMM, "stuck", &r->err);
    stream_submit (stream, &stuck, &r->err);
    if (r->info->rank == r->info->size - 1) {
        usleep (200000);
        fprintf (stderr, "rank %d ends the job\n", r->info->rank);
        mg_comm_abort (r->comm, 86);
    }
    mg_stream_synchronize (stream, &r->err);
    give_up (r);
}

static void mode_fingerprint (struct run *r)
{
    if (!(r->bootstrap = job_meet (NULL, NULL, 300, &r->err)))
        give_up (r);
    r->info = bootstrap_info (r->bootstrap);
    start (r, 300, r->info->rank == 1 ? 2 : 1);
    all_reduce (r, 1);
    job_destroy (r->job);
}

/* Rank 0 does not come to the second all-reduce. */
static void mode_deadline (struct run *r)
{
    start (r, r->seconds, 1);
    all_reduce (r, 1);
    if (r->info->rank == 0)
        pause ();
    all_reduce (r, N);
    job_destroy (r->job);
}

/* Rank 0 does not come to the end. */
static void mode_late (struct run *r)
{
    start (r, r->seconds, 1);
    if (r->info->rank == 0)
        pause ();
    if (bootstrap_barrier (r->bootstrap, &r->err) < 0)
        give_up (r);
    job_destroy (r->job);
}

/* The last rank has come to the start, and leaves or hangs before the first exchange. */
static void lose_last (struct run *r, bool leave)
{
    if (!(r->bootstrap = job_meet (NULL, NULL, r->seconds, &r->err)))
        give_up (r);
    r->info = bootstrap_info (r->bootstrap);
    if (r->info->rank == r->info->size - 1) {
        if (leave)
            _exit (0);
        for (;;)
            pause ();
    }
    start (r, r->seconds, 1);
    job_destroy (r->job);
}

static void mode_leave_early (struct run *r)
{
    lose_last (r, true);
}

static void mode_hang_early (struct run *r)
{
    lose_last (r, false);
}

/* One rank dies or stops at a place of the start or of the end. */
static void mode_hurt (struct run *r)
{
    struct mg_device *device;
    void *x;

    start (r, r->seconds, 1);
    device = job_device (r->job);
    if (!(x = device_alloc (device, sizeof (r->x), &r->err))
        || mg_comm_all_reduce (r->comm, x, N, MG_FLOAT32, MG_SUM, NULL, &r->err) < 0)
        give_up (r);
    device_free (device, x);
    job_destroy (r->job);
}

/* Rank 0 has more to reduce than the others. */
static void mode_mismatch (struct run *r)
{
    start (r, 300, 1);
    all_reduce (r, r->info->rank == 0 ? 101 : 100);
    job_destroy (r->job);
}

/* Rank 0 sends less than the others expect, which only they can notice. */
static void mode_short (struct run *r)
{
    start (r, 300, 1);
    if (mg_comm_broadcast (r->comm, r->x, r->info->rank == 0 ? 100 : 101, MG_FLOAT32, 0, NULL,
                           &r->err) < 0)
        give_up (r);
    job_destroy (r->job);
}

/* A rank leaves after an error of its own: it must not wait for anybody. */
static void mode_leave (struct run *r)
{
    start (r, 600, 1);
    all_reduce (r, 1);
    if (r->info->rank == 1) {
        device_fail (job_device (r->job), "rank 1 has had enough");
        all_reduce (r, 1);
    }
    all_reduce (r, N);
}

static const struct mode {
    const char *name;
    void (*run) (struct run *r);
} modes[] = {
    { "cycle", mode_cycle },       { "place", mode_place },
    { "die", mode_die },           { "abort", mode_abort },
    { "fingerprint", mode_fingerprint }, { "deadline", mode_deadline },
    { "late", mode_late },         { "mismatch", mode_mismatch },
    { "short", mode_short },
    { "strangers", mode_strangers },
    { "leave", mode_leave },       { "groups", mode_groups },
    { "leave-early", mode_leave_early }, { "hang-early", mode_hang_early },
    { "hurt", mode_hurt },
};

static int run_mode (const char *name, double seconds)
{
    struct run *r = &the_run;

    r->seconds = seconds;
    for (size_t i = 0; i < sizeof (modes) / sizeof (modes[0]); i++) {
        if (strcmp (name, modes[i].name) == 0) {
            modes[i].run (r);
            return 0;
        }
    }
    fprintf (stderr, "there is no mode %s\n", name);
    return 2;
}

/* Exit code of a mode in a process of its own, with nothing printed. */
static int code_of (const char *name)
{
    int status = 0;
    pid_t pid = fork ();

    if (pid == 0) {
        if (freopen ("/dev/null", "w", stdout) && freopen ("/dev/null", "w", stderr))
            _exit (run_mode (name, 60));
        _exit (99);
    }
    waitpid (pid, &status, 0);
    return WIFEXITED (status) ? WEXITSTATUS (status) : 128 + WTERMSIG (status);
}

int main (int argc, char **argv)
{
    setvbuf (stderr, NULL, _IOLBF, BUFSIZ); // a line of one rank is one write
    if (argc == 6) {
        the_run.signal = atoi (argv[3]);
        the_run.place = argv[4];
        the_run.rank = atoi (argv[5]);
    }
    if (argc > 1)
        return run_mode (argv[1], argc > 2 ? atof (argv[2]) : 60);
    is_int (code_of ("cycle"), 0, "one rank lives and ends well");
    is_int (code_of ("place"), 0, "knows its place");
    is_int (code_of ("abort"), 86, "can end itself while a call is stuck");
    is_int (code_of ("die"), 128 + SIGKILL, "and be killed");
    return done_testing ();
}
