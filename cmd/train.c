/* train.c - megatron train */

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/open_files.h"
#include "libcore/checkpoint/leftover.h"
#include "libcore/train/train.h"

static const char usage[]
    = "Usage: megatron train ARGUMENT...\n"
      "Train a GPT on the ranks of the job (srun, mpirun), or on one rank alone.\n"
      "Arguments have Megatron-LM's names; megatron-train(1) tells more of them:\n";

static volatile sig_atomic_t failure_status;

static void leave (int signal)
{
    (void)signal;
    leftover_remove_open ();
    _exit (failure_status);
}

/* Where all ranks fail, the launcher sends SIGTERM to the rest once the first has left.  The rest
 * leave with their own status then, since the launcher reports the highest status of all.
 */
static void expect_sigterm (int status)
{
    struct sigaction action = { .sa_handler = leave }, before;

    failure_status = status;
    sigemptyset (&action.sa_mask);
    if (sigaction (SIGTERM, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction (SIGTERM, &action, NULL);
}

/* Why the run failed: a message that refuses many arguments is longer than an error can be. */
static const char *reason (const struct train_args *args, const struct mg_error *err)
{
    return args->others.refusal ? args->others.refusal : err->text;
}

int cmd_train (int argc, char **argv)
{
    struct mg_error err = { "" };
    struct train_args args;
    struct train *t;
    bool refused;
    int rc, status = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp (argv[i], "--help") == 0 || strcmp (argv[i], "-h") == 0) {
            fputs (usage, stdout);
            train_args_help (stdout);
            return 0;
        }
    }
    setvbuf (stdout, NULL, _IOLBF, 0); // ranks share it: a line is seen when it is said
    signal (SIGPIPE, SIG_IGN); // a run whose output nobody reads any more still saves
    open_files_raise ();
    refused = train_args_parse (argc, argv, &args, &err) < 0;
    if (!(t = train_create (&args, "megatron train", stdout, stderr))) {
        train_args_clear (&args);
        fprintf (stderr, "megatron train: out of memory\n");
        return 1;
    }
    if (refused)
        rc = train_refuse (t, &err);
    else if ((rc = train_setup (t, &err)) == 0)
        rc = train_run (t, &err);
    if (rc == 0) {
        status = train_status (t);
    } else {
        status = train_failure_status (t);
        if (train_should_report (t, &err))
            fprintf (stderr, "megatron train: %s\n", reason (&args, &err));
        fflush (NULL);
        if (ferror (stdout) && !freopen ("/dev/null", "w", stdout)) // the error above is told
            clearerr (stdout);
        expect_sigterm (status);
        train_abort (t, status);
    }
    train_destroy (t);
    train_args_clear (&args);
    return status;
}
