/* part.c - find the part of a command, or list the parts */

#include <stdio.h>
#include <string.h>

#include "cmd/part.h"
#include "libcore/base/nearest.h"

static void print_help (const char *command, const char *purpose,
                        const struct cmd_part *parts)
{
    printf ("Usage: megatron %s PART [OPTION...]\n\n%s\n\nParts:\n", command, purpose);
    for (const struct cmd_part *p = parts; p->name; p++)
        printf ("  %-12s %s\n", p->name, p->summary);
    printf ("\n\"megatron %s PART --help\" tells a part's options.\n", command);
}

int cmd_part_run (const char *command, const char *purpose, const struct cmd_part *parts,
                  int argc, char **argv)
{
    struct nearest nearest;

    if (argc < 2) {
        fprintf (stderr, "megatron: %s: a part is missing, see megatron %s --help\n",
                 command, command);
        return CMD_USAGE;
    }
    if (strcmp (argv[1], "--help") == 0 || strcmp (argv[1], "-h") == 0) {
        print_help (command, purpose, parts);
        return 0;
    }
    for (const struct cmd_part *p = parts; p->name; p++) {
        if (strcmp (p->name, argv[1]) == 0)
            return p->run (argc - 1, argv + 1);
    }
    nearest_begin (&nearest, argv[1], strlen (argv[1]));
    for (const struct cmd_part *p = parts; p->name; p++)
        nearest_try (&nearest, p->name);
    fprintf (stderr, "megatron: %s: \"%.40s\" is not a part%s%s, see megatron %s --help\n",
             command, argv[1], nearest.name ? "; did you mean " : "",
             nearest.name ? nearest.name : "", command);
    return CMD_USAGE;
}

int cmd_part_usage (const char *command, const char *part, const char *text)
{
    fprintf (stderr, "megatron: %s %s: %s; see megatron %s %s --help\n", command, part, text,
             command, part);
    return CMD_USAGE;
}

int cmd_part_read (const struct cmd_syntax *s, int argc, char **argv)
{
    struct mg_error err;

    if (cmd_options_read (s->tables, s->ntables, argc, argv, &err) < 0)
        return cmd_part_usage (s->command, argv[0], err.text);
    if (*s->help) {
        fputs (s->usage, stdout);
        cmd_options_help (s->tables, s->ntables);
        return 0;
    }
    if (cmd_options_check (s->tables, s->ntables, argc, argv, &err) < 0
        || (s->check && s->check (s->request, &err) < 0))
        return cmd_part_usage (s->command, argv[0], err.text);
    return CMD_GO;
}
