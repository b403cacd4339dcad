/* cmd - the subcommands of megatron.
 *
 * Each lives in cmd/NAME.c as cmd_NAME and has one row in the table of megatron.c.  Its
 * arguments are the command line from the subcommand's name on, which is argv[0].  It
 * prints results on standard output, and one line for each mistake on standard error.  It
 * returns the exit status: 0, 1 for a failure at work, 2 for a wrong command line.
 */
#ifndef CMD_CMD_H
#define CMD_CMD_H

int cmd_checkpoint (int argc, char **argv);
int cmd_data (int argc, char **argv);
int cmd_doctor (int argc, char **argv);
int cmd_eval (int argc, char **argv);
int cmd_generate (int argc, char **argv);
int cmd_launch (int argc, char **argv);
int cmd_plan (int argc, char **argv);
int cmd_serve (int argc, char **argv);
int cmd_train (int argc, char **argv);

#endif /* CMD_CMD_H */
