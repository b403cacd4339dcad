/* cmd - the subcommands of megatron.
 *
 * Each lives in cmd/NAME.c as cmd_NAME and has one row in the table of megatron.c.  It
 * gets the command line from its own name on (argv[0] is the subcommand's name), prints
 * results on standard output and one line per mistake on standard error, and returns the
 * exit status: 0, 1 for a failure at work, 2 for a wrong command line.
 */
#ifndef CMD_CMD_H
#define CMD_CMD_H

int cmd_checkpoint (int argc, char **argv);
int cmd_data (int argc, char **argv);
int cmd_doctor (int argc, char **argv);
int cmd_plan (int argc, char **argv);
int cmd_train (int argc, char **argv);

#endif /* CMD_CMD_H */
