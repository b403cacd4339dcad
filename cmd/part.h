/* part - commands with parts: "megatron COMMAND PART [OPTION...]". */
#ifndef CMD_PART_H
#define CMD_PART_H

#include <stdbool.h>

#include "cmd/option.h"

struct cmd_part {
    const char *name;
    const char *summary; /* for --help, no final dot */
    int (*run) (int argc, char **argv); /* argv[0] is the part; exit status */
};

/* Run the part that argv[1] names, or print the help of 'command': its name, its purpose,
 * and 'parts' in the order of the table.  A row without a name ends the table.  Returns
 * the exit status of the part, 0 after help, else CMD_USAGE after a line on standard
 * error.
 */
int cmd_part_run (const char *command, const char *purpose, const struct cmd_part *parts,
                  int argc, char **argv);

/* Print a fault of a part's command line, and the command for help.  Returns CMD_USAGE. */
int cmd_part_usage (const char *command, const char *part, const char *text);

/* The command line of a part, and the text of its --help. */
struct cmd_syntax {
    const char *command; /* "data" of "megatron data PART" */
    const char *usage;   /* text of --help before the options; ends with an empty line */
    const struct cmd_option_table *tables;
    int ntables;
    const bool *help; /* --help sets it */
    /* Check that the options agree.  0, or -1, EINVAL and a text.  NULL: nothing is checked. */
    int (*check) (void *request, struct mg_error *err);
    void *request; /* for check() */
};

/* Read the part's command line, in which argv[0] is the part.  Returns CMD_GO if the part
 * should run.  Otherwise returns the exit status: 0 after help, or CMD_USAGE after a line
 * on standard error about the fault.
 */
int cmd_part_read (const struct cmd_syntax *syntax, int argc, char **argv);

/* CMD_USAGE is the exit status of a wrong command line.  CMD_GO is no exit status. */
enum { CMD_USAGE = 2, CMD_GO = -1 };

#endif /* CMD_PART_H */
