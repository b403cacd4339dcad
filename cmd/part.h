/* part - commands that are made of parts: "megatron COMMAND PART [OPTION...]". */
#ifndef CMD_PART_H
#define CMD_PART_H

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

/* Exit status where the command line is wrong. */
enum { CMD_USAGE = 2 };

#endif /* CMD_PART_H */
