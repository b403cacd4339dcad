/* part - commands that are made of parts: "megatron COMMAND PART [OPTION...]". */
#ifndef CMD_PART_H
#define CMD_PART_H

#include <stdbool.h>

#include "cmd/option.h"

struct cmd_part {
    const char *name;
    const char *summary; /* for --help, no final dot */
    int (*run) (int argc, char **argv); /* argv[0] is the part; exit status */
};

/* Run the part that argv[1] names, or print the help of 'command' (its name, what it is
 * for, and 'parts' in the order of the table, which a row without a name closes).  The
 * exit status: the part's, 0 after help, CMD_USAGE with a line on standard error else.
 */
int cmd_part_run (const char *command, const char *purpose, const struct cmd_part *parts,
                  int argc, char **argv);

/* Tell what is wrong with a part's command line, and where to read on: CMD_USAGE. */
int cmd_part_usage (const char *command, const char *part, const char *text);

/* What a part reads, and what its --help says. */
struct cmd_syntax {
    const char *command; /* "data" of "megatron data PART" */
    const char *usage;   /* what --help says before the options; an empty line is its end */
    const struct cmd_option_table *tables;
    int ntables;
    const bool *help; /* --help sets it */
    /* What the options say together: 0, or -1, EINVAL and a text.  NULL: nothing is checked. */
    int (*check) (void *request, struct mg_error *err);
    void *request; /* for check() */
};

/* Read the part's command line, argv[0] is the part: CMD_GO, and the part runs.  Else the exit
 * status: 0 after help, or CMD_USAGE after a line on standard error that says what is wrong.
 */
int cmd_part_read (const struct cmd_syntax *syntax, int argc, char **argv);

/* Exit status where the command line is wrong; no exit status. */
enum { CMD_USAGE = 2, CMD_GO = -1 };

#endif /* CMD_PART_H */
