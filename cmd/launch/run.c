/* run.c - start the ranks, wait for them, end them together
 *
 * Each rank is the leader of a process group, so that what it starts ends with it.  A watcher, a
 * small process of its own, knows all groups and kills them when this process has gone without a
 * word, also by SIGKILL.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd/launch/launch.h"

enum { GRACE_SECONDS = 5, POLL_MS = 1000, LEAVE_SECONDS = 2, NOT_THERE = 127, NOT_RUN = 126 };

struct run {
    const struct launch *launch;
    struct launch_output *output;
    struct launch_place place;
    char token[65];
    pid_t *pid;    /* [ranks] 0: not started or ended */
    bool *ended;   /* [ranks] waited for, not noted */
    int *how;      /* [ranks] what waitpid() said of it */
    int left;      /* ranks that have not ended */
    int status;    /* of the first that failed */
    bool ending;   /* the ranks were told to end */
    int interrupts; /* number of SIGINT so far */
    int passed;     /* the last signal that was passed on to end the ranks, 0: none */
    pid_t self;
    struct rlimit files; /* of this process before it needed more */
    struct timespec kill_at; /* if ending */
    int signals;   /* signalfd */
    int watcher;   /* pipe to the watcher, -1: none */
    sigset_t before;
};

/* Signals that ranks get, too. */
static const int passed_on[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
enum { NUM_PASSED_ON = sizeof (passed_on) / sizeof (passed_on[0]) };

/* True for a SIGHUP that this process was told to ignore, by nohup.  It is then ignored by the
 * ranks, too.  A shell's background command ignores SIGINT and SIGQUIT, and must hear them all the
 * same.
 */
static bool is_ignored (int number)
{
    struct sigaction action;

    return number == SIGHUP && sigaction (number, NULL, &action) == 0
           && action.sa_handler == SIG_IGN;
}

/* --- the watcher --- */

/* The main function of the watcher.  It reads numbers: g when group g has begun, -g when it has
 * ended, 0 when the launcher ends by itself.  If the pipe ends without 0, it kills the groups that
 * are left.
 */
static void watch (int fd, int ranks)
{
    pid_t *group = calloc ((size_t)ranks, sizeof (*group)), heard;
    int n = 0;

    while (group && read (fd, &heard, sizeof (heard)) == sizeof (heard)) {
        if (heard == 0)
            _exit (0);
        for (int i = 0; i < n && heard < 0; i++) {
            if (group[i] == -heard)
                group[i] = 0;
        }
        if (heard > 0 && n < ranks)
            group[n++] = heard;
    }
    for (int i = 0; i < n; i++) {
        if (group[i] > 0)
            kill (-group[i], SIGKILL);
    }
    _exit (0);
}

static int start_watcher (struct run *run, struct mg_error *err)
{
    int fds[2];
    pid_t pid;

    if (pipe2 (fds, O_CLOEXEC) < 0 || (pid = fork ()) < 0)
        return mg_error_set (err, errno, "no process that watches: %s", strerror (errno));
    if (pid == 0) {
        setsid (); // signals of the terminal are not for it
        close (fds[1]);
        for (int fd = 0; fd < 3; fd++) // a pipe that reads what this command prints ends with it
            close (fd);
        watch (fds[0], run->launch->ranks);
    }
    close (fds[0]);
    run->watcher = fds[1];
    return 0;
}

static void notify_watcher (const struct run *run, pid_t number)
{
    if (run->watcher >= 0 && write (run->watcher, &number, sizeof (number)) < 0)
        return; // the watcher has gone; the ranks still end when this process ends
}

/* --- starting --- */

/* Become rank 'rank'.  Does not return; what fails is written to 'fd'. */
static void __attribute__ ((noreturn)) become_rank (struct run *run, int rank, int fd)
{
    int null = rank > 0 || isatty (0) ? open ("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    int number;

    setpgid (0, 0);
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    if (getppid () != run->self) // the launcher ended before prctl()
        _exit (1);
    setrlimit (RLIMIT_NOFILE, &run->files);
    run->place.rank = rank;
    if ((null >= 0 && dup2 (null, 0) < 0) || launch_output_attach (run->output, rank) < 0
        || launch_settle (&run->place) < 0)
        goto error;
    for (int i = 0; i < NUM_PASSED_ON; i++) {
        if (!is_ignored (passed_on[i]))
            signal (passed_on[i], SIG_DFL);
    }
    signal (SIGPIPE, SIG_DFL);
    signal (SIGXFSZ, SIG_DFL);
    signal (SIGBUS, SIG_DFL);
    sigprocmask (SIG_SETMASK, &run->before, NULL);
    execvp (run->launch->program[0], run->launch->program);
error:
    number = errno;
    if (write (fd, &number, sizeof (number)) < 0)
        _exit (1);
    _exit (NOT_THERE);
}

/* 0; or the exit status of a failure, after its line. */
static int start_rank (struct run *run, int rank)
{
    struct mg_error err = { "" };
    int fds[2], number = 0;
    pid_t pid;

    if (launch_output_open (run->output, rank, &err) < 0) {
        fprintf (stderr, "megatron launch: %s\n", err.text);
        return 1;
    }
    if (pipe2 (fds, O_CLOEXEC) < 0 || (pid = fork ()) < 0) {
        fprintf (stderr, "megatron launch: rank %d cannot be started: %s\n", rank,
                 strerror (errno));
        return 1;
    }
    if (pid == 0)
        become_rank (run, rank, fds[1]);
    setpgid (pid, pid);
    close (fds[1]);
    run->pid[rank] = pid;
    run->left++;
    notify_watcher (run, pid);
    launch_output_started (run->output, rank);
    if (read (fds[0], &number, sizeof (number)) != sizeof (number))
        number = 0; // it is running
    close (fds[0]);
    if (number == 0)
        return 0;
    fprintf (stderr, "megatron launch: %s: %s\n", run->launch->program[0], strerror (number));
    return number == ENOENT ? NOT_THERE : NOT_RUN;
}

/* --- ending --- */

static void signal_ranks (const struct run *run, int number)
{
    for (int r = 0; r < run->launch->ranks; r++) {
        if (run->pid[r] > 0)
            kill (-run->pid[r], number);
    }
}

/* All must end.  A rank that is stopped wakes for it. */
static void end_ranks (struct run *run, int status)
{
    if (run->status == 0)
        run->status = status;
    if (run->ending)
        return;
    run->ending = true;
    clock_gettime (CLOCK_MONOTONIC, &run->kill_at);
    run->kill_at.tv_sec += GRACE_SECONDS;
    signal_ranks (run, SIGTERM);
    signal_ranks (run, SIGCONT);
}

/* A rank has ended: what it has started and left goes, too. */
static void note_end (struct run *run, int rank)
{
    kill (-run->pid[rank], SIGKILL);
    notify_watcher (run, -run->pid[rank]);
    run->pid[rank] = 0;
    run->ended[rank] = false;
    run->left--;
}

static int exit_status (int how)
{
    return WIFEXITED (how) ? WEXITSTATUS (how) : 128 + WTERMSIG (how);
}

/* The rank, of those in 'ended', that failed first, as far as can be told: a rank that a signal has
 * ended did not fail because of another one.  -1: none failed.
 */
static int find_first (const struct run *run)
{
    int first = -1;

    for (int r = 0; r < run->launch->ranks; r++) {
        if (run->ended[r] && exit_status (run->how[r]) != 0
            && (first < 0 || (WIFSIGNALED (run->how[r]) && !WIFSIGNALED (run->how[first]))))
            first = r;
    }
    return first;
}

/* Wait for all that have ended. */
static void collect (struct run *run)
{
    int how;
    pid_t pid;

    while ((pid = waitpid (-1, &how, WNOHANG)) > 0) {
        for (int r = 0; r < run->launch->ranks; r++) {
            if (run->pid[r] == pid) {
                run->ended[r] = true;
                run->how[r] = how;
                break;
            }
        }
    }
}

/* True for a process that has begun to exit or that a signal ends (PF_EXITING and PF_SIGNALED of
 * the kernel's flags, proc(5)).  It closes its connections some time before waitpid() reports it.
 */
static bool is_leaving (pid_t pid)
{
    enum { EXITING = 0x4, SIGNALED = 0x400 };
    char path[32], text[512], *end;
    unsigned flags = 0;
    ssize_t n;
    int fd;

    snprintf (path, sizeof (path), "/proc/%d/stat", (int)pid);
    if ((fd = open (path, O_RDONLY | O_CLOEXEC)) < 0)
        return false;
    n = read (fd, text, sizeof (text) - 1);
    close (fd);
    text[n > 0 ? n : 0] = '\0';
    return (end = strrchr (text, ')'))
           && sscanf (end, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1
           && (flags & (EXITING | SIGNALED));
}

static bool any_leaving (const struct run *run)
{
    for (int r = 0; r < run->launch->ranks; r++) {
        if (run->pid[r] > 0 && !run->ended[r] && is_leaving (run->pid[r]))
            return true;
    }
    return false;
}

/* A rank has failed.  Others that are about to end may be the reason of it: wait for them, for
 * LEAVE_SECONDS at most.
 */
static void collect_leaving (struct run *run)
{
    const struct timespec moment = { 0, 1000000 };
    struct timespec now, begin;

    clock_gettime (CLOCK_MONOTONIC, &begin);
    now = begin;
    while (now.tv_sec - begin.tv_sec < LEAVE_SECONDS && any_leaving (run)) {
        nanosleep (&moment, NULL);
        collect (run);
        clock_gettime (CLOCK_MONOTONIC, &now);
    }
}

static void report (const struct run *run, int rank)
{
    int how = run->how[rank], status = exit_status (how);

    if (run->passed && status == 128 + run->passed)
        return; // a signal that this command has passed on
    if (WIFEXITED (how))
        fprintf (stderr, "megatron launch: rank %d has ended with status %d\n", rank, status);
    else
        fprintf (stderr, "megatron launch: rank %d was ended by signal %d (%s)\n", rank,
                 WTERMSIG (how), strsignal (WTERMSIG (how)));
}

/* Note all ranks that have ended, and report the first failure. */
static void reap (struct run *run)
{
    int first;

    collect (run);
    if (!run->ending && find_first (run) >= 0)
        collect_leaving (run);
    first = find_first (run);
    if (!run->ending && first >= 0)
        report (run, first);
    for (int r = 0; r < run->launch->ranks; r++) {
        if (run->ended[r])
            note_end (run, r);
    }
    if (first >= 0)
        end_ranks (run, exit_status (run->how[first]));
}

/* The first ^C is for the ranks, the second ends them at once. */
static void pass_on (struct run *run, int number)
{
    if (number == SIGINT && run->interrupts++ > 0) {
        end_ranks (run, 128 + number);
        signal_ranks (run, SIGKILL);
        return;
    }
    signal_ranks (run, number);
    if (number == SIGUSR1 || number == SIGUSR2)
        return;
    run->passed = number;
    signal_ranks (run, SIGCONT);
}

static void handle_signals (struct run *run)
{
    struct signalfd_siginfo info;

    while (read (run->signals, &info, sizeof (info)) == sizeof (info)) {
        if (info.ssi_signo == SIGCHLD)
            reap (run);
        else
            pass_on (run, (int)info.ssi_signo);
    }
}

/* Wait until all ranks have ended and their output is printed.  Signals are heard all the time,
 * also if nobody reads the output.
 */
static void wait_for_ranks (struct run *run)
{
    struct pollfd *polls = calloc (2 * (size_t)run->launch->ranks + 3, sizeof (*polls));
    struct timespec now;

    while (run->left > 0 || (launch_output_pending (run->output) && run->interrupts < 2)) {
        int n = polls ? launch_output_polls (run->output, polls + 1) : 0;

        if (polls) {
            polls[0] = (struct pollfd){ .fd = run->signals, .events = POLLIN };
            poll (polls, (nfds_t)n + 1, POLL_MS);
        }
        handle_signals (run);
        launch_output_copy (run->output, run->left == 0);
        clock_gettime (CLOCK_MONOTONIC, &now);
        if (run->ending && now.tv_sec >= run->kill_at.tv_sec)
            signal_ranks (run, SIGKILL);
    }
    free (polls);
}

/* --- the whole --- */

/* Each rank may take three descriptors of this process. */
static void raise_files (struct run *run)
{
    struct rlimit more;

    getrlimit (RLIMIT_NOFILE, &run->files);
    more = run->files;
    if (more.rlim_cur < 3 * (rlim_t)run->launch->ranks + 64)
        more.rlim_cur = 3 * (rlim_t)run->launch->ranks + 64;
    if (more.rlim_cur > more.rlim_max)
        more.rlim_cur = more.rlim_max;
    setrlimit (RLIMIT_NOFILE, &more);
}

static int prepare (struct run *run, struct mg_error *err)
{
    uint8_t random[32];
    sigset_t mask;

    run->self = getpid ();
    raise_files (run);
    signal (SIGPIPE, SIG_IGN); // output that nobody reads any more is reported, see output.c

    sigemptyset (&mask);
    sigaddset (&mask, SIGCHLD);
    for (int i = 0; i < NUM_PASSED_ON; i++) {
        if (!is_ignored (passed_on[i]))
            sigaddset (&mask, passed_on[i]);
    }
    sigprocmask (SIG_BLOCK, &mask, &run->before);
    if (getrandom (random, sizeof (random), 0) != sizeof (random)
        || (run->place.port = launch_find_port ()) < 0
        || (run->signals = signalfd (-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return mg_error_set (err, errno, "the ranks cannot be prepared: %s", strerror (errno));
    for (size_t i = 0; i < sizeof (random); i++)
        snprintf (run->token + 2 * i, 3, "%02x", random[i]);
    run->place.token = run->token;
    if (!(run->pid = calloc ((size_t)run->launch->ranks, sizeof (*run->pid)))
        || !(run->ended = calloc ((size_t)run->launch->ranks, sizeof (*run->ended)))
        || !(run->how = calloc ((size_t)run->launch->ranks, sizeof (*run->how))))
        return mg_error_set (err, ENOMEM, "out of memory");
    if (!(run->output = launch_output_create (run->launch, err)))
        return -1;
    return start_watcher (run, err);
}

int launch_run (const struct launch *l, const struct grid *grid)
{
    struct run run = { .launch = l, .signals = -1,
                       .place = { .grid = grid, .ranks = l->ranks,
                                  .sized = options_origin (&l->options) != OPTION_UNSET },
                       .watcher = -1 };
    struct mg_error err = { "" };
    int status = 0;

    if (prepare (&run, &err) < 0) {
        fprintf (stderr, "megatron launch: %s\n", err.text);
        status = 1;
    }
    for (int r = 0; r < l->ranks && status == 0; r++)
        status = start_rank (&run, r);
    if (status != 0 && run.left > 0)
        end_ranks (&run, status);
    if (run.left > 0)
        wait_for_ranks (&run);
    if (status == 0 && run.output && launch_output_failed (run.output))
        status = 1;
    notify_watcher (&run, 0);
    if (run.watcher >= 0)
        close (run.watcher);
    if (run.signals >= 0)
        close (run.signals);
    launch_output_destroy (run.output);
    free (run.pid);
    free (run.ended);
    free (run.how);
    sigprocmask (SIG_SETMASK, &run.before, NULL);
    return status ? status : run.status;
}
