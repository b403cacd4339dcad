/* env - test the bootstrap by environment variables: ranks are processes of this test */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libcore/base/timed.h"
#include "libcore/bootstrap/bootstrap.h"
#include "libcore/bootstrap/env_wire.h"
#include "tests/tap/tap.h"

enum { RANKS_MAX = 16 };

/* What a rank does: a text for the test, which it writes to 'out'. */
typedef void rank_f (FILE *out);

struct ranks {
    int world, port;
    pid_t pid[RANKS_MAX];
    int fd[RANKS_MAX];
    int n;
};

static double timeout = 20;

static int free_port (void)
{
    struct sockaddr_in a = { .sin_family = AF_INET };
    socklen_t len = sizeof (a);
    int fd = socket (AF_INET, SOCK_STREAM, 0);

    a.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
    if (bind (fd, (struct sockaddr *)&a, len) < 0
        || getsockname (fd, (struct sockaddr *)&a, &len) < 0)
        bail_out ("no port");
    close (fd);
    return ntohs (a.sin_port);
}

static void set_number (const char *name, int value)
{
    char text[16];

    snprintf (text, sizeof (text), "%d", value);
    setenv (name, text, 1);
}

static void set_variables (int rank, int world, int port)
{
    setenv ("MEGATRON_BOOTSTRAP", "env", 1);
    setenv ("MASTER_ADDR", "127.0.0.1", 1);
    set_number ("RANK", rank);
    set_number ("WORLD_SIZE", world);
    set_number ("LOCAL_RANK", rank);
    set_number ("LOCAL_WORLD_SIZE", world);
    set_number ("MASTER_PORT", port);
}

/* Start a rank; "NAME=VALUE" of 'more', if not NULL, is set in it, too. */
static void start_rank (struct ranks *all, int rank, rank_f *does, const char *more)
{
    int fds[2];
    FILE *out;

    if (pipe (fds) < 0)
        bail_out ("no pipe");
    if ((all->pid[all->n] = fork ()) == 0) {
        close (fds[0]);
        set_variables (rank, all->world, all->port);
        if (more)
            putenv ((char *)(uintptr_t)more);
        out = fdopen (fds[1], "w");
        does (out);
        fclose (out);
        _exit (0);
    }
    close (fds[1]);
    all->fd[all->n++] = fds[0];
}

/* The text of the i-th rank that was started, once it has ended. */
static const char *text_of (struct ranks *all, int i)
{
    static char text[RANKS_MAX][1024];
    ssize_t n, len = 0;

    while ((n = read (all->fd[i], text[i] + len, sizeof (text[i]) - 1 - (size_t)len)) > 0)
        len += n;
    text[i][len] = '\0';
    close (all->fd[i]);
    waitpid (all->pid[i], NULL, 0);
    return text[i];
}

/* Does the text contain this? */
static void has (const char *text, const char *want, const char *what)
{
    ok (strstr (text, want) != NULL, "%s: %s", what, text);
}

static struct ranks make_ranks (int world)
{
    return (struct ranks){ .world = world, .port = free_port () };
}

/* Connections of this process whose small frames wait for acknowledgements. */
static int slow_connections (void)
{
    int slow = 0;

    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in peer;
        socklen_t size = sizeof (peer), len = sizeof (int);
        int hastened = 0;

        if (getpeername (fd, (struct sockaddr *)&peer, &size) == 0
            && getsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &hastened, &len) == 0)
            slow += !hastened;
    }
    return slow;
}

static void meets (FILE *out)
{
    struct mg_error err = { "" };
    struct bootstrap *b = bootstrap_create (timeout, &err);
    const struct bootstrap_info *info;
    char data[32], more[2000];
    size_t len;
    int good = 0;

    if (!b) {
        fprintf (out, "%s", err.text);
        return;
    }
    info = bootstrap_info (b);
    snprintf (data, sizeof (data), "rank %d", info->rank);
    memset (more, 'x', sizeof (more));
    for (int round = 0; round < 3; round++) {
        const void *give = round == 1 ? more : data;
        size_t size = round == 1 ? 1 + 100 * (size_t)info->rank : strlen (data) + 1;

        if (bootstrap_exchange (b, give, size, &err) < 0 || bootstrap_barrier (b, &err) < 0) {
            fprintf (out, "%s", err.text);
            return;
        }
        for (int r = 0; r < info->size; r++) {
            char got[2000], want[32];

            snprintf (want, sizeof (want), "rank %d", r);
            if (bootstrap_peer_data (b, r, got, sizeof (got), &len, &err) < 0)
                fprintf (out, "%s", err.text);
            else if (round == 1)
                good += len == 1 + 100 * (size_t)r && got[len - 1] == 'x';
            else
                good += strcmp (got, want) == 0 && bootstrap_task_of (b, r) == r;
        }
    }
    fprintf (out, "%s %d/%d node %d of %d local %d of %d: %d", info->backend, info->rank,
             info->size, info->node, info->num_nodes, info->local_rank, info->local_size, good);
    if (slow_connections () > 0)
        fprintf (out, ", %d slow connections", slow_connections ());
    bootstrap_destroy (b);
}

static void leaves (FILE *out)
{
    struct bootstrap *b = bootstrap_create (timeout, NULL);

    fprintf (out, "%s", b ? "leaves" : "did not come");
    bootstrap_destroy (b);
}

static void test_good (int world)
{
    struct ranks all = make_ranks (world);
    char want[100];

    for (int r = world; r-- > 0;)
        start_rank (&all, r, meets, NULL);
    for (int r = 0; r < world; r++) {
        snprintf (want, sizeof (want), "env %d/%d node 0 of 1 local %d of %d: %d", r, world, r,
                  world, 3 * world);
        is_str (text_of (&all, world - 1 - r), want, "rank %d of %d", r, world);
    }
}

/* All ranks but rank 'out' come, and tell the same. */
static void test_missing (void)
{
    struct ranks all = make_ranks (4);

    timeout = 3;
    start_rank (&all, 0, meets, NULL);
    start_rank (&all, 2, meets, NULL);
    is_str (text_of (&all, 0), "bootstrap env: ranks 1, 3 of 4 have not come within 3 s",
            "rank 0 names who is missing");
    is_str (text_of (&all, 1), "bootstrap env: ranks 1, 3 of 4 have not come within 3 s",
            "and tells the others");
    all = make_ranks (2);
    start_rank (&all, 1, meets, NULL);
    has (text_of (&all, 0), "has not come within 3 s: Connection refused", "no hub");
    // these wait for rank 0 at the time at which it gives up
    timeout = 1;
    all = make_ranks (8);
    for (int r = 7; r-- > 0;)
        start_rank (&all, r, meets, NULL);
    for (int r = 0; r < 7; r++)
        is_str (text_of (&all, r), "bootstrap env: rank 7 of 8 has not come within 1 s",
                "rank %d names rank 7", 6 - r);
    timeout = 20;
}

static void test_wrong (void)
{
    struct ranks all = make_ranks (3);

    start_rank (&all, 0, meets, NULL);
    start_rank (&all, 1, meets, NULL);
    start_rank (&all, 1, meets, NULL);
    has (text_of (&all, 0), "rank 1 is there twice: from 127.0.0.1 and from 127.0.0.1", "twice");
    all = make_ranks (2);
    start_rank (&all, 0, meets, NULL);
    start_rank (&all, 1, meets, "WORLD_SIZE=3");
    has (text_of (&all, 0), "rank 1 from 127.0.0.1 has WORLD_SIZE 3, rank 0 has 2", "sizes");
    has (text_of (&all, 1), "has WORLD_SIZE 3, rank 0 has 2", "on both");
    timeout = 3;
    all = make_ranks (2);
    start_rank (&all, 0, meets, "MEGATRON_BOOTSTRAP_TOKEN=0123456789abcdef0123456789abcdef");
    start_rank (&all, 1, meets, "MEGATRON_BOOTSTRAP_TOKEN=0123456789abcdef0123456789abcdeg");
    has (text_of (&all, 0), "rank 1 of 2 has not come within 3 s; 1 connections had another "
          "MEGATRON_BOOTSTRAP_TOKEN", "another token");
    is_str (text_of (&all, 1), "bootstrap env: rank 0 has another MEGATRON_BOOTSTRAP_TOKEN",
            "on both");
    timeout = 20;
    all = make_ranks (2);
    start_rank (&all, 0, meets, "MEGATRON_BOOTSTRAP_TOKEN=0123456789abcdef");
    start_rank (&all, 1, meets, "MEGATRON_BOOTSTRAP_TOKEN=0123456789abcdef");
    has (text_of (&all, 0), "env 0/2", "the same token");
    has (text_of (&all, 1), "env 1/2", "on both");
    all = make_ranks (2);
    start_rank (&all, 0, meets, NULL);
    start_rank (&all, 1, leaves, NULL);
    is_str (text_of (&all, 1), "leaves", "a rank that leaves");
    is_str (text_of (&all, 0), "bootstrap env: rank 1 has ended", "is named");
    all = make_ranks (2);
    start_rank (&all, 0, leaves, NULL);
    start_rank (&all, 1, meets, NULL);
    is_str (text_of (&all, 0), "leaves", "rank 0, too");
    is_str (text_of (&all, 1), "bootstrap env: rank 0 has ended", "is named");
}

/* A connection to rank 0, once it listens.  -1: it does not. */
static int connect_to (int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons ((uint16_t)port) };

    a.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
    for (int tries = 0; tries < 2000; tries++) {
        int fd = socket (AF_INET, SOCK_STREAM, 0);

        if (connect (fd, (struct sockaddr *)&a, sizeof (a)) == 0)
            return fd;
        close (fd);
        usleep (10000);
    }
    return -1;
}

/* Connections of others do not hold the ranks up. */
static void test_strangers (void)
{
    static const char garbage[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    struct ranks all = make_ranks (3);
    int silent, loud;

    start_rank (&all, 0, meets, NULL);
    silent = connect_to (all.port);
    loud = connect_to (all.port);
    ok (silent >= 0 && loud >= 0 && send (loud, garbage, sizeof (garbage), MSG_NOSIGNAL) > 0,
        "strangers come first");
    start_rank (&all, 1, meets, NULL);
    start_rank (&all, 2, meets, NULL);
    for (int r = 0; r < 3; r++)
        has (text_of (&all, r), ": 9", "a rank beside strangers");
    close (silent);
    close (loud);
}

/* The start of a greeting, which nobody goes on with. */
static bool greet (int fd)
{
    struct {
        struct env_header header;
        struct env_hello hello;
    } first = { { ENV_MAGIC, ENV_HELLO, sizeof (struct env_hello) }, { .rank = 1, .world = 3 } };

    return send (fd, &first, sizeof (first), MSG_NOSIGNAL) == sizeof (first);
}

/* Strangers take all places of rank 0, and say nothing, or nothing after a greeting. */
static void test_crowd (bool greets)
{
    enum { CROWD = 400 };
    struct ranks all = make_ranks (3);
    int fd[CROWD], there = 0;

    timeout = 8; // less than the time of a stranger that is in nobody's way
    start_rank (&all, 0, meets, NULL);
    for (int i = 0; i < CROWD; i++)
        there += (fd[i] = connect_to (all.port)) >= 0 && (!greets || greet (fd[i]));
    is_int (there, CROWD, "many strangers, %s", greets ? "which greet" : "silent");
    start_rank (&all, 1, meets, NULL);
    start_rank (&all, 2, meets, NULL);
    for (int r = 0; r < 3; r++)
        has (text_of (&all, r), ": 9", "a rank behind them");
    for (int i = 0; i < CROWD; i++)
        close (fd[i]);
    timeout = 20;
}

/* --- a rank that is dropped: this test is rank 0 --- */

enum dropped { BEFORE_CHALLENGE, BEFORE_PROOF, AFTER_PROOF, NOT };

static int listen_at (int port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons ((uint16_t)port) };
    const struct timeval limit = { .tv_sec = (time_t)timeout }; // of accept()
    int fd = socket (AF_INET, SOCK_STREAM, 0), one = 1;

    a.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
    if (setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof (one)) < 0
        || setsockopt (fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof (limit)) < 0
        || bind (fd, (struct sockaddr *)&a, sizeof (a)) < 0 || listen (fd, 8) < 0)
        bail_out ("no listener");
    return fd;
}

static void receive (int fd, enum env_frame kind, void *body, size_t len)
{
    const struct timespec deadline = timed_deadline (timeout);
    struct env_header h;

    if (env_recv (fd, &h, sizeof (h), &deadline) < 0 || h.kind != kind || h.len != len
        || env_recv (fd, body, len, &deadline) < 0)
        bail_out ("the rank has not sent frame %d", kind);
}

/* Accept the rank, and drop it.  If it is not dropped, it is told a failure. */
static void accept_rank (int listener, enum dropped dropped)
{
    const struct timespec deadline = timed_deadline (timeout);
    int fd = accept (listener, NULL, NULL);
    const struct env_fail fail = { .errnum = EPROTO, .text = "let in" };
    struct env_challenge challenge = { .nonce = "a random number" };
    struct env_hello hello;
    struct env_proof proof;

    receive (fd, ENV_HELLO, &hello, sizeof (hello));
    env_prove ("", "hub", &hello, challenge.nonce, challenge.mac);
    if (dropped > BEFORE_CHALLENGE)
        env_send (fd, ENV_CHALLENGE, &challenge, sizeof (challenge), &deadline);
    if (dropped > BEFORE_PROOF)
        receive (fd, ENV_PROOF, &proof, sizeof (proof));
    if (dropped == NOT)
        env_send (fd, ENV_FAIL, &fail, sizeof (fail), &deadline);
    close (fd);
}

static void test_dropped (void)
{
    struct ranks all = make_ranks (2);
    char want[160];
    int listener;

    start_rank (&all, 1, meets, NULL);
    listener = listen_at (all.port);
    for (enum dropped d = BEFORE_CHALLENGE; d <= NOT; d++)
        accept_rank (listener, d);
    is_str (text_of (&all, 0), "let in", "a rank that is dropped comes again");
    close (listener);
    all = make_ranks (2);
    start_rank (&all, 1, meets, NULL);
    listener = listen_at (all.port);
    accept_rank (listener, AFTER_PROOF);
    close (listener);
    is_str (text_of (&all, 0), "bootstrap env: rank 0 has ended", "until rank 0 ends");
    timeout = 3;
    all = make_ranks (2);
    start_rank (&all, 1, meets, NULL);
    listener = listen_at (all.port);
    accept_rank (listener, BEFORE_CHALLENGE);
    close (listener);
    snprintf (want, sizeof (want), "bootstrap env: rank 0 at 127.0.0.1 port %d was there, but has "
              "not let this rank in within 3 s: Connection refused", all.port);
    is_str (text_of (&all, 0), want, "a hub that has proved nothing may come again");
    timeout = 20;
}

static bool limit_files (rlim_t soft, rlim_t hard)
{
    const struct rlimit files = { soft, hard };

    return setrlimit (RLIMIT_NOFILE, &files) == 0;
}

static void meets_with_few_files (FILE *out)
{
    limit_files (90, 90);
    meets (out);
}

static void meets_with_low_limit (FILE *out)
{
    limit_files (20, 1000);
    meets (out);
}

static void meets_with_too_few_files (FILE *out)
{
    if (limit_files (70, 70))
        meets (out);
    else
        fprintf (out, "no limit");
}

/* Rank 0 needs a descriptor for each rank. */
static void test_files (void)
{
    rank_f *const does[] = { meets_with_few_files, meets_with_low_limit };
    struct ranks all;
    const char *text;

    for (size_t i = 0; i < sizeof (does) / sizeof (does[0]); i++) {
        all = make_ranks (5);
        for (int r = 0; r < 5; r++)
            start_rank (&all, r, does[i], NULL);
        for (int r = 0; r < 5; r++)
            has (text_of (&all, r), ": 15", "a low limit of open files");
    }
    all = make_ranks (3);
    start_rank (&all, 0, meets_with_too_few_files, NULL);
    text = text_of (&all, 0);
    if (strcmp (text, "no limit") == 0)
        skip (1, "valgrind sets no hard limit");
    else
        is_str (text, "bootstrap env: rank 0 may open 70 files (ulimit -n), and needs 75 for 3 "
                "ranks", "a limit that is too low is named");
}

/* --- variables --- */

static void refuse (const char *name, const char *value, const char *want)
{
    struct mg_error err = { "" };

    set_variables (0, 2, 1);
    if (value)
        setenv (name, value, 1);
    else
        unsetenv (name);
    ok (!bootstrap_create (1, &err) && strstr (err.text, want), "%s=%s: %s", name,
        value ? value : "", err.text);
    unsetenv (name);
}

static void test_badparam (void)
{
    refuse ("MEGATRON_BOOTSTRAP", "pmi", "MEGATRON_BOOTSTRAP is \"pmi\", want env");
    refuse ("RANK", NULL, "wants RANK: it is not set");
    refuse ("RANK", "2", "RANK");
    refuse ("RANK", "-1", "RANK");
    refuse ("WORLD_SIZE", "x", "WORLD_SIZE");
    refuse ("WORLD_SIZE", "0", "WORLD_SIZE");
    refuse ("LOCAL_RANK", "2", "LOCAL_RANK");
    refuse ("LOCAL_WORLD_SIZE", "3", "LOCAL_WORLD_SIZE");
    refuse ("MASTER_PORT", "65536", "MASTER_PORT");
    refuse ("MASTER_ADDR", NULL, "wants MASTER_ADDR");
    refuse ("MASTER_ADDR", "host.invalid", "has no address");
    refuse ("MASTER_ADDR", "192.0.2.1", "is beyond this machine: want MEGATRON_BOOTSTRAP_TOKEN");
    refuse ("MEGATRON_BOOTSTRAP_TOKEN", "short", "has 5 characters, want 16 to");
    setenv ("MEGATRON_BOOTSTRAP_TOKEN", "0123456789abcdef", 1);
    refuse ("MASTER_ADDR", "192.0.2.1", "is not one of this machine");
    unsetenv ("MEGATRON_BOOTSTRAP_TOKEN");
}

int main (void)
{
    for (int world = 1; world <= 5; world += 2)
        test_good (world);
    test_missing ();
    test_wrong ();
    test_strangers ();
    test_crowd (false);
    test_crowd (true);
    test_dropped ();
    test_files ();
    test_badparam ();
    return done_testing ();
}
