/* data.c - megatron data: make, list and look at datasets */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/data.h"

struct verb {
    const char *name;
    const char *summary;
    int (*run) (int argc, char **argv);
};

/* In the order of --help, closed by a row without a name. */
static const struct verb verbs[] = {
    { "tokenize", "make PREFIX.bin and PREFIX.idx from plain text or JSON lines",
      data_tokenize },
    { "index", "tell which tokens make each sample of a dataset", data_index },
    { "inspect", "check a dataset and tell what is in it", data_inspect },
    { NULL, NULL, NULL },
};

static void print_help (void)
{
    printf ("Usage: megatron data VERB [ARGUMENT...]\n\n"
            "Datasets in Megatron's indexed form.\n\nVerbs:\n");
    for (const struct verb *v = verbs; v->name; v++)
        printf ("  %-12s %s\n", v->name, v->summary);
    printf ("\n\"megatron data VERB --help\" tells a verb's arguments.\n");
}

int data_fail (const char *verb, int status, const char *text)
{
    fprintf (stderr, "megatron data %s: %s\n", verb, text);
    return status;
}

void data_options_begin (void)
{
    optind = 0; /* glibc: forget the last round altogether */
    opterr = 0;
}

int data_option_error (const char *verb, int c, char **argv, struct mg_error *err)
{
    const char *arg = argv[optind - 1];

    if (c == ':')
        return mg_error_set (err, EINVAL, "option %.60s needs an argument", arg);
    return mg_error_set (err, EINVAL,
                         "\"%.60s\" is not an option, see megatron data %s --help", arg,
                         verb);
}

int data_prefix_argument (int argc, char **argv, const char **prefix,
                          struct mg_error *err)
{
    const char *ending;

    if (optind == argc)
        return mg_error_set (err, EINVAL, "PREFIX is missing");
    if (optind + 1 < argc)
        return mg_error_set (err, EINVAL, "\"%.60s\" is too much, want one PREFIX",
                             argv[optind + 1]);
    *prefix = argv[optind];
    ending = strrchr (*prefix, '.');
    if (ending && (strcmp (ending, ".bin") == 0 || strcmp (ending, ".idx") == 0))
        return mg_error_set (err, EINVAL, "PREFIX: \"%.200s\" is a file, leave its %s out",
                             *prefix, ending);
    return 0;
}

int cmd_data (int argc, char **argv)
{
    if (argc < 2) {
        fprintf (stderr, "megatron data: a verb is missing, see megatron data --help\n");
        return DATA_EXIT_USAGE;
    }
    if (strcmp (argv[1], "--help") == 0 || strcmp (argv[1], "-h") == 0) {
        print_help ();
        return 0;
    }
    for (const struct verb *v = verbs; v->name; v++) {
        if (strcmp (v->name, argv[1]) == 0)
            return v->run (argc - 1, argv + 1);
    }
    fprintf (stderr, "megatron data: \"%.40s\" is not a verb, see megatron data --help\n",
             argv[1]);
    return DATA_EXIT_USAGE;
}
