/* megatron.c - main of the one command: find the subcommand, run it */

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "cmd/cmd.h"
#include "cmd/waiting.h"
#include "megatron/version.h"

enum { EXIT_USAGE = 2 };

struct command {
    const char *name;
    const char *summary; /* one line for --help, no final dot */
    int (*run) (int argc, char **argv);
    bool computes; /* with threads that wait for each other */
};

/* In the order of --help, closed by a row without a name. */
static const struct command commands[] = {
    { "plan", "what a job would do, without running it", cmd_plan, false },
    { "train", "train a model", cmd_train, true },
    { "data", "make, list and look at datasets", cmd_data, false },
    { "checkpoint", "look at checkpoints, check and convert them", cmd_checkpoint, false },
    { "doctor", "what is wrong with this installation", cmd_doctor, false },
    { NULL, NULL, NULL, false },
};

static void print_help (void)
{
    printf ("Usage: megatron COMMAND [ARGUMENT...]\n"
            "       megatron --help | --version\n\n"
            "Model-parallel training of transformers under Slurm.\n");
    if (commands[0].name)
        printf ("\nCommands:\n");
    for (const struct command *c = commands; c->name; c++)
        printf ("  %-12s %s\n", c->name, c->summary);
    printf ("\n\"megatron COMMAND --help\" tells a command's arguments.\n");
}

static void print_version (void)
{
    printf ("megatron %s\n"
            "slurm %s\n", MG_VERSION, MG_SLURM_VERSION);
}

static const struct command *find_command (const char *name)
{
    for (const struct command *c = commands; c->name; c++) {
        if (strcmp (c->name, name) == 0)
            return c;
    }
    return NULL;
}

/* What was printed must have arrived: a full disk or a closed pipe is a failure. */
static int flush_output (int status)
{
    if (fflush (stdout) == 0 && !ferror (stdout))
        return status;
    perror ("megatron: standard output");
    return status ? status : 1;
}

int main (int argc, char **argv)
{
    const struct command *c;

    if (argc < 2) {
        fprintf (stderr, "megatron: a command is missing, see megatron --help\n");
        return EXIT_USAGE;
    }
    if (strcmp (argv[1], "--help") == 0 || strcmp (argv[1], "-h") == 0) {
        print_help ();
        return flush_output (0);
    }
    if (strcmp (argv[1], "--version") == 0 || strcmp (argv[1], "-V") == 0) {
        print_version ();
        return flush_output (0);
    }
    if (!(c = find_command (argv[1]))) {
        fprintf (stderr, "megatron: \"%.40s\" is not a command, see megatron --help\n",
                 argv[1]);
        return EXIT_USAGE;
    }
    if (c->computes)
        waiting_choose (argv);
    return flush_output (c->run (argc - 1, argv + 1));
}
