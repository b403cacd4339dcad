/* option - read a command line by tables of options.
 *
 * Every option is a row; a command line is read against one or more tables, each with the
 * object that its rows fill.  "--name value" and "--name=value" are the same.  The last
 * value of a repeated option counts, unless its row says otherwise.  Names cannot be
 * shortened, so that scripts keep working when options are added.
 */
#ifndef CMD_OPTION_H
#define CMD_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

struct cmd_option {
    const char *name;  /* name after "--"; "": the row takes each word that is no option */
    const char *alias; /* Megatron-LM's name of the same, or NULL */
    const char *arg;   /* name of the value in the help, NULL: the option has no value */
    const char *help;  /* one line, no final dot */
    const char *key;   /* for set(): the field, if several rows use one function */

    /* (A second row of the same name, right behind the first, takes each further word up to
     * the next option: "--keys a b c".)
     *
     * Store 'value' (NULL if the option has no value) in the table's target; 'what' is
     * the option as typed, "--tp", for messages.  0, or -1, errno and a text.
     */
    int (*set) (void *target, const struct cmd_option *option, const char *what,
                const char *value, struct mg_error *err);

    bool required; /* cmd_options_check() fails if the command line lacks the option */

    size_t at;        /* for the functions below: offset of the field in the target */
    int64_t min, max; /* range of its number */
};

/* The set() of options that only fill a field: a bool becomes true, a const char * points
 * to the value, an int and an int64_t get the number.  Numbers outside 'min' and 'max'
 * are refused.
 */
int cmd_set_flag (void *target, const struct cmd_option *option, const char *what,
                  const char *value, struct mg_error *err);
int cmd_set_text (void *target, const struct cmd_option *option, const char *what,
                  const char *value, struct mg_error *err);
int cmd_set_int (void *target, const struct cmd_option *option, const char *what,
                 const char *value, struct mg_error *err);
int cmd_set_int64 (void *target, const struct cmd_option *option, const char *what,
                   const char *value, struct mg_error *err);

/* A table closed by a row without a name, and the object that it fills. */
struct cmd_option_table {
    const struct cmd_option *options;
    void *target;
};

/* Read argv[1..argc-1]: 0, or -1, EINVAL and a text at the first mistake: an unknown
 * option, a missing or superfluous value, a word that is no option, or a value that a
 * set() refuses.
 */
int cmd_options_read (const struct cmd_option_table *tables, int ntables, int argc,
                      char **argv, struct mg_error *err);

/* Check that argv[1..argc-1], which cmd_options_read() has read, has all required options
 * of the tables.  0, or -1, EINVAL and a text that names the first missing one.
 */
int cmd_options_check (const struct cmd_option_table *tables, int ntables, int argc,
                       char **argv, struct mg_error *err);

/* Row of "--name" or "--name=value", and its table's target; NULL if no table has it. */
const struct cmd_option *cmd_options_find (const struct cmd_option_table *tables, int ntables,
                                           const char *text, void **target);

/* Deal out argv[1..argc-1] to a command with options of its own and to others: own[0] is argv[0],
 * own[1], ... are the tables' options with their values; other[0], ... are all other words,
 * *num_other of them.  Both arrays have room for argc words.  Returns the number of own words.
 */
int cmd_options_deal (const struct cmd_option_table *tables, int ntables, int argc, char **argv,
                      char **own, char **other, int *num_other);

/* Print one line for each option to standard output. */
void cmd_options_help (const struct cmd_option_table *tables, int ntables);

#endif /* CMD_OPTION_H */
