/* megatron.c - main of the one command: find the subcommand, run it
 *
 * Before a subcommand runs, the process gets three open standard streams, standard error whose
 * lines are written whole, the handler of SIGBUS, and those of the signals that end a command.
 * A write beyond the limit of file sizes is an error of write() and no signal.  Output that could
 * not be written makes the exit status 1.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "cmd/cleanup.h"
#include "cmd/cmd.h"
#include "cmd/fault.h"
#include "cmd/waiting.h"
#include "libcore/base/c_locale.h"
#include "libcore/base/nearest.h"
#include "libcore/train/output.h"
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
    { "launch", "start ranks on this machine, without Slurm", cmd_launch, false },
    { "generate", "generate texts by a trained model", cmd_generate, true },
    { "serve", "answer requests for texts by a trained model, over HTTP", cmd_serve, true },
    { "eval", "measure a trained model by a benchmark", cmd_eval, true },
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

/* A standard stream that is closed would give its number to the next file that is opened, and what
 * is printed would end up in that file.  So each gets a file that fails with EBADF.
 */
static int keep_streams (void)
{
    static const int mode[] = { O_WRONLY, O_RDONLY, O_RDONLY };

    for (int fd = 0; fd < 3; fd++) {
        if (fcntl (fd, F_GETFD) < 0 && open ("/dev/null", mode[fd]) != fd)
            return -1;
    }
    return 0;
}

/* What was printed must have arrived: a full disk or a closed pipe is a failure. */
static int flush_output (int status)
{
    int error = output_error (stdout);

    if (error == 0)
        return status;
    fprintf (stderr, "megatron: standard output cannot be written: %s\n", strerror (error));
    return status ? status : 1;
}

static int refuse_command (const char *name)
{
    struct nearest nearest;

    nearest_begin (&nearest, name, strlen (name));
    for (const struct command *c = commands; c->name; c++)
        nearest_try (&nearest, c->name);
    fprintf (stderr, "megatron: \"%.40s\" is not a command%s%s, see megatron --help\n", name,
             nearest.name ? "; did you mean " : "", nearest.name ? nearest.name : "");
    return EXIT_USAGE;
}

/* Ranks share standard error, so a line is one write: without a buffer newer C libraries write a
 * long line in pieces, and pieces of other ranks' lines come between them.
 */
static void buffer_errors (void)
{
    static char line[4096];

    setvbuf (stderr, line, _IOLBF, sizeof (line));
}

int main (int argc, char **argv)
{
    const struct command *c;

    if (keep_streams () < 0)
        return 1;
    c_locale_enter (); // whatever a library that is loaded later may set
    buffer_errors ();
    fault_watch ();
    cleanup_watch ();
    signal (SIGXFSZ, SIG_IGN);
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
    if (!(c = find_command (argv[1])))
        return refuse_command (argv[1]);
    if (c->computes)
        waiting_choose (argv);
    return flush_output (c->run (argc - 1, argv + 1));
}
