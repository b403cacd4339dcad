/* train.c - megatron train */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "libcore/train/train.h"

static const char usage[]
    = "Usage: megatron train ARGUMENT...\n"
      "Train a GPT on the ranks of the job (srun, mpirun), or on one rank alone.\n"
      "Arguments have Megatron-LM's names:\n";

/* True if this process is the one that reports an error which all ranks have. The job is
 * not joined yet, so the launcher's variables are all there is.
 */
static bool is_first_task (void)
{
    static const char *const variables[] = { "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
                                             "SLURM_PROCID" };

    for (size_t i = 0; i < sizeof (variables) / sizeof (variables[0]); i++) {
        const char *rank = getenv (variables[i]);
        if (rank)
            return strcmp (rank, "0") == 0;
    }
    return true;
}

/* An error of all ranks alike is told once. The others leave the one that tells it some
 * time: a launcher ends all as soon as one has ended.
 */
static void complain (const struct train *t, const struct mg_error *err)
{
    enum { PATIENCE = 2 }; /* seconds */
    int rank = t ? train_rank (t) : -1;

    if (t && !train_error_is_common (t))
        fprintf (stderr, "megatron train: rank %d: %s\n", rank, err->text);
    else if (rank == 0 || (rank < 0 && is_first_task ()))
        fprintf (stderr, "megatron train: %s\n", err->text);
    else
        sleep (PATIENCE);
}

int cmd_train (int argc, char **argv)
{
    struct mg_error err = { "" };
    struct train_args args;
    struct train *t;

    for (int i = 1; i < argc; i++) {
        if (strcmp (argv[i], "--help") == 0) {
            fputs (usage, stdout);
            train_args_help (stdout);
            return 0;
        }
    }
    if (train_args_parse (argc, argv, &args, &err) < 0) {
        complain (NULL, &err);
        return 2;
    }
    if (!(t = train_create (&args, stdout))) {
        fprintf (stderr, "megatron train: out of memory\n");
        return 1;
    }
    if (train_setup (t, &err) < 0 || train_run (t, &err) < 0) {
        complain (t, &err);
        fflush (NULL);
        train_abort (t, 1);
        train_destroy (t);
        return 1;
    }
    train_destroy (t);
    return 0;
}
