/* kill.c - a process that saves is killed at any moment: what is the latest loads */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libcore/checkpoint/checkpoint.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/model.h"
#include "tests/unit/checkpoint/scratch.h"
#include "tests/unit/checkpoint/threads.h"

enum { ROUNDS = 100, ITERATIONS = 3 };

struct run {
    const char *dir;
    int64_t iteration;
    int64_t saves; /* made before; every save has values of its own */
    int rc;
    struct mg_error err;
    size_t wrong;
};

static void save (struct mg_comm *comm, void *arg)
{
    struct run *run = arg;
    struct checkpoint_value values[] = {
        { "saves", CHECKPOINT_INT, .integer = run->saves },
        { .name = NULL },
    };
    struct model m;

    model_create (&m, model_small, model_small_count, MODEL_ROWS, mg_comm_rank (comm), 2);
    model_fill (&m, (unsigned int)run->saves);
    if (checkpoint_save (run->dir, run->iteration, values, m.pieces, m.n, comm, NULL) < 0)
        run->rc = -1;
    model_destroy (&m);
}

static void load (struct mg_comm *comm, void *arg)
{
    struct run *run = arg;
    struct checkpoint_value values[] = {
        { "saves", CHECKPOINT_INT, .integer = -1 },
        { .name = NULL },
    };
    struct model m;

    model_create (&m, model_small, model_small_count, MODEL_WHOLE, 0, 1);
    run->rc = checkpoint_load (run->dir, run->iteration, values, m.pieces, m.n, "", NULL,
                               comm, &run->err);
    run->saves = values[0].integer;
    run->wrong = model_check (&m, (unsigned int)run->saves);
    model_destroy (&m);
}

/* Save, over and over, the same few iterations in turn. */
static void save_forever (const char *dir, int64_t saves)
{
    for (;;) {
        struct run run = { .dir = dir, .iteration = saves % ITERATIONS, .saves = saves };

        threads_run (2, save, &run);
        if (run.rc < 0)
            _exit (1);
        saves++;
    }
}

/* Nanoseconds that a save takes here. */
static long time_save (const char *dir)
{
    struct timespec begin, end;
    struct run run = { .dir = dir };

    clock_gettime (CLOCK_MONOTONIC, &begin);
    threads_run (2, save, &run);
    clock_gettime (CLOCK_MONOTONIC, &end);
    is_int (run.rc, 0, "a first save");
    return (long)(end.tv_sec - begin.tv_sec) * 1000000000 + (end.tv_nsec - begin.tv_nsec);
}

/* A save that was over before the kill is there, or a later one. */
static bool check_latest (const char *dir, int64_t *saves, int round)
{
    struct run run = { .dir = dir };
    struct mg_error err = { .text = "" };

    run.iteration = checkpoint_latest (dir, &err);
    if (run.iteration >= 0)
        threads_run (1, load, &run);
    if (run.iteration >= 0 && run.rc == 0 && run.wrong == 0 && run.saves >= *saves
        && run.saves % ITERATIONS == run.iteration) {
        *saves = run.saves;
        return true;
    }
    ok (false, "round %d: latest %jd, saves %jd after %jd, %zu wrong bytes: %s %s", round,
        (intmax_t)run.iteration, (intmax_t)run.saves, (intmax_t)*saves, run.wrong, err.text,
        run.err.text);
    return false;
}

/* How many names the next save will have to clean up. */
static bool has_leftovers (const char *dir)
{
    char command[4300];

    snprintf (command, sizeof (command), "ls '%s' | grep -q -e '\\.tmp-' -e '\\.old-'", dir);
    return system (command) == 0;
}

int main (void)
{
    int64_t saves = 0, first;
    int good = 0, torn = 0, rounds;
    long most;
    const char *dir;

    alarm (550);
    /* In memory if possible: where fsync is slow, every kill would hit the fsync. */
    if (access ("/dev/shm", W_OK) == 0)
        setenv ("TMPDIR", "/dev/shm", 1);
    scratch_create ();
    dir = scratch_path ("killed");
    most = 5 * time_save (dir);
    if (most > 900000000)
        most = 900000000;
    first = saves;
    /* Until some kills have hit a save, and some saves were completed: sooner or later. */
    for (rounds = 0; rounds < ROUNDS || torn == 0 || saves == first; rounds++) {
        struct timespec pause = { rounds / ROUNDS, (long)scratch_random ((unsigned long)most) };
        pid_t pid = fork ();

        if (pid < 0)
            bail_out ("cannot fork");
        if (pid == 0)
            save_forever (dir, saves + 1);
        nanosleep (&pause, NULL);
        kill (pid, SIGKILL);
        waitpid (pid, NULL, 0);
        torn += has_leftovers (dir);
        good += check_latest (dir, &saves, rounds);
    }
    is_int (good, rounds, "killed %d times, the latest checkpoint is whole", rounds);
    ok (torn > 0, "%d of the kills hit the middle of a save", torn);
    ok (saves > first, "%jd saves were completed", (intmax_t)(saves - first));
    {
        struct run run = { .dir = dir, .iteration = 1, .saves = saves + 1 };

        threads_run (2, save, &run);
        ok (run.rc == 0 && !has_leftovers (dir), "the next save leaves nothing of it");
    }
    return done_testing ();
}
