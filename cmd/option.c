/* option.c - read a command line by tables of options
 *
 * The tables decide everything: an option that no table has is refused, with the name that is
 * nearest to it.  A row's function reads its value and reports a wrong one.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cmd/option.h"
#include "libcore/base/nearest.h"
#include "libcore/base/parse.h"

enum { HELP_COLUMN = 22 };

int cmd_set_flag (void *target, const struct cmd_option *option, const char *what,
                  const char *value, struct mg_error *err)
{
    (void)what, (void)value, (void)err;
    *(bool *)((char *)target + option->at) = true;
    return 0;
}

int cmd_set_text (void *target, const struct cmd_option *option, const char *what,
                  const char *value, struct mg_error *err)
{
    (void)what, (void)err;
    *(const char **)((char *)target + option->at) = value;
    return 0;
}

int cmd_set_int (void *target, const struct cmd_option *option, const char *what,
                 const char *value, struct mg_error *err)
{
    return parse_int (what, value, (int)option->min, (int)option->max,
                      (int *)((char *)target + option->at), err);
}

int cmd_set_int64 (void *target, const struct cmd_option *option, const char *what,
                   const char *value, struct mg_error *err)
{
    return parse_int64 (what, value, option->min, option->max,
                        (int64_t *)((char *)target + option->at), err);
}

/* True if 'text', which may go on with "=value", names the option. */
static bool names_option (const char *text, const char *name)
{
    size_t n = name ? strlen (name) : 0;

    return n > 0 && strncmp (text, name, n) == 0 && (text[n] == '\0' || text[n] == '=');
}

const struct cmd_option *cmd_options_find (const struct cmd_option_table *tables, int ntables,
                                           const char *text, void **target)
{
    for (int i = 0; i < ntables; i++) {
        for (const struct cmd_option *o = tables[i].options; o->name; o++) {
            if (names_option (text + 2, o->name) || names_option (text + 2, o->alias)) {
                *target = tables[i].target;
                return o;
            }
        }
    }
    return NULL;
}

/* Row and table that take bare words, NULL if there is none. */
static const struct cmd_option *find_bare (const struct cmd_option_table *tables,
                                           int ntables, void **target)
{
    for (int i = 0; i < ntables; i++) {
        for (const struct cmd_option *o = tables[i].options; o->name; o++) {
            if (o->name[0] == '\0') {
                *target = tables[i].target;
                return o;
            }
        }
    }
    return NULL;
}

/* The row that takes further words of an option, NULL if it takes one value. */
static const struct cmd_option *find_more (const struct cmd_option *option)
{
    const struct cmd_option *next = option + 1;

    return next->name && strcmp (next->name, option->name) == 0 ? next : NULL;
}

/* Refuse an option that no table has; say which one it is nearest to, if there is one. */
static int refuse_unknown (const struct cmd_option_table *tables, int ntables, const char *text,
                           struct mg_error *err)
{
    static const char plugin[] = "megatron-"; // of srun's options: --megatron-tp
    const char *word = text + 2;
    struct nearest nearest;

    if (strncmp (word, plugin, sizeof (plugin) - 1) == 0)
        word += sizeof (plugin) - 1;
    nearest_begin (&nearest, word, strcspn (word, "="));
    for (int i = 0; i < ntables; i++) {
        for (const struct cmd_option *o = tables[i].options; o->name; o++) {
            nearest_try (&nearest, o->name);
            if (o->alias)
                nearest_try (&nearest, o->alias);
        }
    }
    if (!nearest.name)
        return mg_error_set (err, EINVAL, "unknown option \"%.60s\"", text);
    return mg_error_set (err, EINVAL, "unknown option \"%.60s\"; did you mean --%s?", text,
                         nearest.name);
}

/* An option on the command line. */
struct word {
    const struct cmd_option *option;
    void *target;
    char what[64];     /* as typed, for messages */
    const char *value; /* NULL: takes none */
};

/* Find the option at argv[*index] and its value, and step over them. */
static int find_word (const struct cmd_option_table *tables, int ntables, char **argv, int *index,
                      struct word *word, struct mg_error *err)
{
    const char *text = argv[(*index)++];
    const char *value = strchr (text, '=');
    const struct cmd_option *option;

    if (strncmp (text, "--", 2) != 0) {
        if (!(option = find_bare (tables, ntables, &word->target)) || *text == '-')
            return mg_error_set (err, EINVAL, "\"%.60s\" is not an option", text);
        word->option = option;
        word->value = text;
        snprintf (word->what, sizeof (word->what), "%s", option->arg);
        return 0;
    }
    if (!(option = cmd_options_find (tables, ntables, text, &word->target)))
        return refuse_unknown (tables, ntables, text, err);
    snprintf (word->what, sizeof (word->what), "%.*s", value ? (int)(value - text) : 60, text);
    if (value)
        value++;
    if (!option->arg && value)
        return mg_error_set (err, EINVAL, "%s takes no value", word->what);
    if (option->arg && !value)
        value = argv[*index] ? argv[(*index)++] : NULL;
    if (option->arg && !value)
        return mg_error_set (err, EINVAL, "%s needs a value, %s", word->what, option->arg);
    word->option = option;
    word->value = value;
    return 0;
}

int cmd_options_read (const struct cmd_option_table *tables, int ntables, int argc,
                      char **argv, struct mg_error *err)
{
    for (int i = 1; i < argc;) {
        const struct cmd_option *more;
        struct word word;

        if (find_word (tables, ntables, argv, &i, &word, err) < 0
            || word.option->set (word.target, word.option, word.what, word.value, err) < 0)
            return -1;
        more = find_more (word.option);
        while (more && argv[i] && argv[i][0] != '-') {
            if (more->set (word.target, more, word.what, argv[i++], err) < 0)
                return -1;
        }
    }
    return 0;
}

static bool is_given (const struct cmd_option_table *tables, int ntables, int argc, char **argv,
                      const struct cmd_option *option)
{
    for (int i = 1; i < argc;) {
        const struct cmd_option *more;
        struct mg_error unused;
        struct word word;

        if (find_word (tables, ntables, argv, &i, &word, &unused) < 0)
            return false;
        if (word.option == option)
            return true;
        more = find_more (word.option);
        while (more && argv[i] && argv[i][0] != '-')
            i++;
    }
    return false;
}

int cmd_options_check (const struct cmd_option_table *tables, int ntables, int argc,
                       char **argv, struct mg_error *err)
{
    for (int i = 0; i < ntables; i++) {
        for (const struct cmd_option *o = tables[i].options; o->name; o++) {
            const char *name = *o->name ? o->name : o->arg;
            const char *last = strrchr (name, ' '); // "[WEIGHT] PREFIX...": PREFIX

            if (!o->required || is_given (tables, ntables, argc, argv, o))
                continue;
            name = last ? last + 1 : name;
            return mg_error_set (err, EINVAL, "%s%.*s is missing", *o->name ? "--" : "",
                                 (int)strcspn (name, "."), name);
        }
    }
    return 0;
}

int cmd_options_deal (const struct cmd_option_table *tables, int ntables, int argc, char **argv,
                      char **own, char **other, int *num_other)
{
    void *target; // unused
    bool ours = false;
    int n = 0;

    own[n++] = argv[0];
    for (int i = 1; i < argc; i++) {
        if (strncmp (argv[i], "--", 2) == 0)
            ours = cmd_options_find (tables, ntables, argv[i], &target) != NULL;
        if (ours)
            own[n++] = argv[i];
        else
            other[(*num_other)++] = argv[i];
    }
    return n;
}

void cmd_options_help (const struct cmd_option_table *tables, int ntables)
{
    for (int i = 0; i < ntables; i++) {
        for (const struct cmd_option *o = tables[i].options; o->name; o++) {
            const char *arg = o->arg ? o->arg : "";
            int n = printf ("  %s%s%s%s", *o->name ? "--" : "", o->name,
                            *o->name && *arg ? " " : "", arg);

            if (n >= HELP_COLUMN) {
                putchar ('\n');
                n = 0;
            }
            printf ("%*s%s\n", HELP_COLUMN - n, "", o->help);
            if (o->alias)
                printf ("%*s(also --%s)\n", HELP_COLUMN, "", o->alias);
            if (find_more (o))
                o++;
        }
    }
}
