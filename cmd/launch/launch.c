/* launch.c - megatron launch: ranks of one machine, without a launcher of a cluster
 *
 * The options are those of the plugin, and follow its rules: what is impossible is refused before
 * anything starts.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/launch/launch.h"
#include "cmd/part.h"
#include "libcore/base/nearest.h"
#include "libcore/base/parse.h"
#include "libcore/topo/grid.h"
#include "plugin/model.h"

static void print_help (void)
{
    printf ("Usage: megatron launch -n N [OPTION...] PROGRAM [ARGUMENT...]\n\n"
            "Start N ranks of a program on this machine.  They find each other by variables of\n"
            "the environment, without Slurm, PMIx and MPI.\n\n"
            "  -n, --ntasks=N             number of ranks\n");
    for (int id = 0; id < OPTION_NUM; id++) {
        char left[64];

        if (id == OPTION_PLACEMENT) // there is one node
            continue;
        snprintf (left, sizeof (left), "--%s=%s", options_table[id].name,
                  options_table[id].arginfo);
        printf ("      %-22s %s\n", left, strchr (options_table[id].usage, ']') + 2);
    }
    printf ("  -l, --label                begin each line of output with the rank\n"
            "  -o, --output=DIR           write what rank R prints to DIR/R.out and DIR/R.err\n"
            "      --help                 show this help\n");
}

static int refuse (const char *text)
{
    fprintf (stderr, "megatron launch: %s; see megatron launch --help\n", text);
    return CMD_USAGE;
}

/* The value of an option "--name=value", "--name value", "-nvalue" or "-n value"; NULL if it is not
 * this option.  *i is moved to the last word.  A missing value is "".
 */
static const char *value_of (const char *name, const char *letter, char **argv, int *i)
{
    const char *word = argv[*i];
    size_t n = strlen (name);

    if (letter && strncmp (word, letter, 2) == 0 && word[1] != '-') {
        if (word[2])
            return word + 2;
    } else if (strncmp (word, "--", 2) != 0 || strncmp (word + 2, name, n) != 0) {
        return NULL;
    } else if (word[2 + n] == '=') {
        return word + 3 + n;
    } else if (word[2 + n]) {
        return NULL;
    }
    return argv[*i + 1] ? argv[++*i] : "";
}

static int read_word (struct launch *l, char **argv, int *i, struct mg_error *err)
{
    const char *word = argv[*i], *value;
    struct nearest nearest;

    if (strcmp (word, "--help") == 0 || strcmp (word, "-h") == 0) {
        l->help = true;
        return 0;
    }
    if (strcmp (word, "--label") == 0 || strcmp (word, "-l") == 0) {
        l->label = true;
        return 0;
    }
    if ((value = value_of ("ntasks", "-n", argv, i)))
        return parse_int ("-n", value, 1, LAUNCH_RANKS_MAX, &l->ranks, err);
    if ((value = value_of ("output", "-o", argv, i))) {
        l->output = value;
        return *value ? 0 : mg_error_set (err, EINVAL, "--output wants a directory");
    }
    for (int id = 0; id < OPTION_NUM; id++) {
        if (id == OPTION_PLACEMENT || !(value = value_of (options_table[id].name, NULL, argv, i)))
            continue;
        if (options_set (&l->options, (enum option_id)id, OPTION_TYPED, value) == 0)
            return 0;
        return mg_error_set (err, errno, "%s", l->options.error[id].text);
    }
    nearest_begin (&nearest, word + strspn (word, "-"), strcspn (word + strspn (word, "-"), "="));
    nearest_try (&nearest, "ntasks");
    nearest_try (&nearest, "label");
    nearest_try (&nearest, "output");
    for (int id = 0; id < OPTION_NUM; id++)
        nearest_try (&nearest, options_table[id].name);
    return mg_error_set (err, EINVAL, "unknown option %.60s%s%s", word,
                         nearest.name ? "; did you mean --" : "",
                         nearest.name ? nearest.name : "");
}

/* The options are the words before the program: before "--", or before the first word that does not
 * begin with "-".
 */
static int read_line (struct launch *l, char **argv, struct mg_error *err)
{
    int i = 1;

    options_init (&l->options);
    for (; argv[i] && argv[i][0] == '-' && !l->help; i++) {
        if (strcmp (argv[i], "--") == 0) {
            i++;
            break;
        }
        if (read_word (l, argv, &i, err) < 0)
            return -1;
    }
    l->program = argv + i;
    if (l->help)
        return 0;
    if (l->ranks == 0)
        return mg_error_set (err, EINVAL, "the number of ranks is missing: -n N");
    if (!*l->program)
        return mg_error_set (err, EINVAL, "a program is missing");
    if (l->label && l->output)
        return mg_error_set (err, EINVAL, "--label and --output exclude each other");
    return 0;
}

/* Add the sizes that the environment gives, and check the rules that all sizes must keep.  As under
 * srun, the arguments of the program choose the sizes if no option and no variable gives one.
 */
static struct grid *make_grid (struct launch *l, struct mg_error *err)
{
    struct geometry g;
    int words = 0;

    for (int id = 0; id < OPTION_NUM; id++) {
        const char *text = id == OPTION_PLACEMENT ? NULL : options_default ((enum option_id)id);

        if (text && l->options.origin[id] == OPTION_UNSET)
            options_set (&l->options, (enum option_id)id, OPTION_DEFAULT, text);
    }
    if (options_error (&l->options)) {
        mg_error_set (err, EINVAL, "%s", options_error (&l->options));
        return NULL;
    }
    g = l->options.geometry;
    g.world = l->ranks;
    if (geometry_validate (&g, err) < 0)
        return NULL;
    while (l->program[words])
        words++;
    if (options_origin (&l->options) != OPTION_UNSET
        && model_check (&g, words, l->program, err) == MODEL_FAILS)
        return NULL;
    return grid_create (&g, err);
}

int cmd_launch (int argc, char **argv)
{
    struct launch l = { .ranks = 0 };
    struct mg_error err = { "" };
    struct grid *grid;
    int status;

    (void)argc;
    if (read_line (&l, argv, &err) < 0)
        return refuse (err.text);
    if (l.help) {
        print_help ();
        return 0;
    }
    if (!(grid = make_grid (&l, &err))) {
        fprintf (stderr, "megatron launch: %s\n", err.text);
        return 1;
    }
    status = launch_run (&l, grid);
    grid_destroy (grid);
    return status;
}
