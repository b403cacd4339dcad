/* data - what the parts of "megatron data" share */
#ifndef CMD_DATA_H
#define CMD_DATA_H

#include "megatron/error.h"

enum { DATA_EXIT_FAILURE = 1, DATA_EXIT_USAGE = 2 };

/* The three verbs: argv[0] is the verb. They return the exit status. */
int data_tokenize (int argc, char **argv);
int data_index (int argc, char **argv);
int data_inspect (int argc, char **argv);

/* Begin a new round of getopt_long, which must have an option string that starts
 * with ":". */
void data_options_begin (void);

/* Put what getopt_long did not like ('c' is ':' or '?') into 'err', return -1. */
int data_option_error (const char *verb, int c, char **argv, struct mg_error *err);

/* After the last option: the one argument PREFIX, with a final .bin or .idx refused. */
int data_prefix_argument (int argc, char **argv, const char **prefix,
                          struct mg_error *err);

/* Print "megatron data VERB: TEXT" on standard error, return 'status'. */
int data_fail (const char *verb, int status, const char *text);

#endif /* CMD_DATA_H */
