/* option - read a command line by tables of options.
 *
 * Every option is a row; a command line is read against one or more tables, each with the
 * object that its rows fill.  "--name value" and "--name=value" are the same, the last of
 * several wins unless the row says otherwise, and names are not shortened: a script that
 * works today works when options are added.
 */
#ifndef CMD_OPTION_H
#define CMD_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

struct cmd_option {
    const char *name;  /* as typed after "--"; "": takes each word that is no option */
    const char *alias; /* Megatron-LM's name of the same, or NULL */
    const char *arg;   /* what the value is called in the help, NULL: takes none */
    const char *help;  /* one line, no final dot */
    const char *key;   /* for set(): which field, if one function serves many rows */

    /* (A second row of the same name, right behind the first, takes each further word up to
     * the next option: "--keys a b c".)
     *
     * Store 'value' (NULL where the option takes none) in the table's target; 'what' is
     * the option as typed, "--tp", for messages.  0, or -1, errno and a text.
     */
    int (*set) (void *target, const struct cmd_option *option, const char *what,
                const char *value, struct mg_error *err);

    bool required; /* cmd_options_check() wants it on the command line */

    size_t at;        /* for the functions below: where the field is in the target */
    int64_t min, max; /* what its number may be */
};

/* set() of a row whose option only fills a field: a bool that it makes true, a const char * that is
 * the value, an int, an int64_t.  The numbers are refused outside 'min' and 'max'.
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
 * option, a missing or unwanted value, a bare word, or what a set() refused.
 */
int cmd_options_read (const struct cmd_option_table *tables, int ntables, int argc,
                      char **argv, struct mg_error *err);

/* Look for the required options of the tables in argv[1..argc-1], which cmd_options_read() has
 * read: 0, or -1, EINVAL and a text that names the first one that is missing.
 */
int cmd_options_check (const struct cmd_option_table *tables, int ntables, int argc,
                       char **argv, struct mg_error *err);

/* Row of "--name" or "--name=value", and its table's target; NULL if no table has it. */
const struct cmd_option *cmd_options_find (const struct cmd_option_table *tables, int ntables,
                                           const char *text, void **target);

/* Print one line an option to standard output. */
void cmd_options_help (const struct cmd_option_table *tables, int ntables);

#endif /* CMD_OPTION_H */
