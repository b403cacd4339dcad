/* tap_test.c - the C harness itself: a failed check must be seen as one */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap/tap.h"

static void all_pass (void)
{
    ok (1 + 1 == 2, "sum");
    is_int (INT64_MIN, INT64_MIN, "least");
    is_near (1.0, 1.5, 0.5, "near");
    is_str (NULL, NULL, "no text");
    is_str ("a", "a", "text");
    exit (done_testing ());
}

static void all_fail (void)
{
    ok (0, "a # and\na break");
    is_int (1, 2, "int");
    is_near (1.0, 1.5, 0.49, "near");
    is_near (NAN, NAN, 1, "nan");
    is_str (NULL, "", "no text");
    is_str ("a", "b", "text");
    exit (done_testing ());
}

static void one_skipped (void)
{
    skip (2, "no %s", "luck");
    exit (done_testing ());
}

static void all_skipped (void)
{
    skip_all ("no %s", "luck");
}

static void gives_up (void)
{
    ok (1, "one");
    bail_out ("no %s", "way");
}

/* Run 'f' in a child, leave its output less comments in 'out', return its status. */
static int run (void (*f) (void), char *out, size_t size)
{
    int fd[2], status = -1;
    char line[500];
    size_t len = 0;
    pid_t pid;
    FILE *stream;

    fflush (stdout);
    if (pipe (fd) < 0 || (pid = fork ()) < 0)
        bail_out ("no pipe or no child");
    if (pid == 0) {
        dup2 (fd[1], STDOUT_FILENO);
        close (fd[0]);
        close (fd[1]);
        f ();
        _exit (99);
    }
    close (fd[1]);
    out[0] = '\0';
    if ((stream = fdopen (fd[0], "r"))) {
        while (fgets (line, sizeof (line), stream)) {
            if (line[0] != '#' && len + strlen (line) < size)
                len += sprintf (out + len, "%s", line);
        }
        fclose (stream);
    }
    waitpid (pid, &status, 0);
    return WIFEXITED (status) ? WEXITSTATUS (status) : -1;
}

int main (void)
{
    static const struct {
        const char *what;
        void (*f) (void);
        int status;
        const char *out;
    } cases[] = {
        { "checks that pass", all_pass, 0,
          "ok 1 - sum\nok 2 - least\nok 3 - near\nok 4 - no text\nok 5 - text\n1..5\n" },
        { "checks that fail", all_fail, 1,
          "not ok 1 - a / and a break\nnot ok 2 - int\nnot ok 3 - near\nnot ok 4 - nan\n"
          "not ok 5 - no text\nnot ok 6 - text\n1..6\n" },
        { "skip", one_skipped, 0, "ok 1 # SKIP no luck\nok 2 # SKIP no luck\n1..2\n" },
        { "skip_all", all_skipped, 0, "1..0 # SKIP no luck\n" },
        { "bail_out", gives_up, 1, "ok 1 - one\nBail out! no way\n" },
    };
    enum { CASES = sizeof (cases) / sizeof (cases[0]) };
    char out[CASES][2000];
    int status[CASES];

    /* every child starts with no check made, so ours come after */
    for (int i = 0; i < CASES; i++)
        status[i] = run (cases[i].f, out[i], sizeof (out[i]));
    for (int i = 0; i < CASES; i++) {
        is_int (status[i], cases[i].status, "%s: exit status", cases[i].what);
        is_str (out[i], cases[i].out, "%s: output", cases[i].what);
    }
    return done_testing ();
}
