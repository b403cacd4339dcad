/* args.c - the parser of arguments, from command lines and files
 *
 * Files that --args-file names are read first, in their order, and the command line after them,
 * so that a typed argument wins.  Among several values the last one wins.  A name that is in no
 * table is refused by args_other.h.  The fingerprint covers the values of all rows.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "libcore/base/parse.h"
#include "libcore/train/args.h"
#include "libcore/train/args_file.h"
#include "libcore/train/args_other.h"
#include "libcore/train/model_notes.h"
#include "libcore/train/parallel_args.h"

static size_t field_size (enum train_type type)
{
    static const size_t sizes[] = {
        [TRAIN_INT] = sizeof (int),
        [TRAIN_INT64] = sizeof (int64_t),
        [TRAIN_REAL] = sizeof (double),
        [TRAIN_TEXT] = sizeof (const char *),
        [TRAIN_FLAG] = sizeof (bool),
        [TRAIN_TRIPLE] = 3 * sizeof (int64_t),
        [TRAIN_LIST] = sizeof (struct train_list),
    };

    return sizes[type];
}

static void preset (const struct train_arg *row, struct train_args *args)
{
    void *field = (char *)args + row->offset;

    switch (row->type) {
    case TRAIN_INT:
        *(int *)field = (int)row->preset;
        break;
    case TRAIN_INT64:
        *(int64_t *)field = (int64_t)row->preset;
        break;
    case TRAIN_REAL:
        *(double *)field = row->preset;
        break;
    case TRAIN_TEXT:
        *(const char **)field = row->preset_text;
        break;
    case TRAIN_FLAG:
    case TRAIN_TRIPLE:
    case TRAIN_LIST:
        memset (field, 0, field_size (row->type));
        break;
    }
}

/* A word of a list; arguments divide it at blanks. */
static int check_word (const char *what, const char *word, struct mg_error *err)
{
    return word[strspn (word, " ")] == '\0'
               ? mg_error_set (err, EINVAL, "%s: the value is empty", what) : 0;
}

int train_arg_set (const struct train_arg *row, const char *value, struct train_args *args,
                   struct mg_error *err)
{
    void *field = (char *)args + row->offset;
    char what[64];

    snprintf (what, sizeof (what), "--%s", row->name);
    switch (row->type) {
    case TRAIN_INT:
        return parse_int (what, value, (int)row->min, (int)row->max, field, err);
    case TRAIN_INT64:
        return parse_int64 (what, value, (int64_t)row->min, (int64_t)row->max, field, err);
    case TRAIN_REAL:
        return parse_double (what, value, row->min, row->max, field, err);
    case TRAIN_TEXT:
        if (*value == '\0')
            return mg_error_set (err, EINVAL, "%s: the value is empty", what);
        *(const char **)field = value;
        return 0;
    case TRAIN_FLAG:
        *(bool *)field = true;
        return 0;
    case TRAIN_LIST:
        if (check_word (what, value, err) < 0)
            return -1;
        *(struct train_list *)field = (struct train_list){ value, NULL, 1 };
        return 0;
    case TRAIN_TRIPLE:
        return mg_error_set (err, EINVAL, "%s wants three values: %s", what, row->meta);
    }
    return 0;
}

static const struct train_arg *find (const char *name, size_t len)
{
    for (size_t i = 0; i < train_num_args; i++)
        if (strlen (train_arg_table[i].name) == len
            && memcmp (train_arg_table[i].name, name, len) == 0)
            return &train_arg_table[i];
    return NULL;
}

const char *train_list_word (const struct train_list *list, int i)
{
    return i == 0 ? list->first : list->rest[i - 1];
}

/* The words behind the first one, up to the next argument. */
static int take_rest (const struct train_arg *row, char **argv, int argc, int *i,
                      struct train_args *args, struct mg_error *err)
{
    struct train_list *list = (void *)((char *)args + row->offset);
    char what[64];

    snprintf (what, sizeof (what), "--%s", row->name);
    list->rest = &argv[*i];
    while (*i < argc && strncmp (argv[*i], "--", 2) != 0) {
        if (check_word (what, argv[*i], err) < 0)
            return -1;
        list->count++;
        *i += 1;
    }
    return 0;
}

const struct train_arg *train_arg_find (const char *name)
{
    return find (name, strlen (name));
}

/* Three values from argv[*i] on. */
static int parse_triple (const struct train_arg *row, int argc, char **argv, int *i,
                         struct train_args *args, struct mg_error *err)
{
    int64_t *field = (int64_t *)(void *)((char *)args + row->offset);
    char what[64];

    snprintf (what, sizeof (what), "--%s", row->name);
    if (argc - *i < 3)
        return mg_error_set (err, EINVAL, "%s wants three values: %s", what, row->meta);
    for (int k = 0; k < 3; k++) {
        if (parse_int64 (what, argv[(*i)++], (int64_t)row->min, (int64_t)row->max, &field[k],
                         err) < 0)
            return -1;
    }
    return 0;
}

/* Parse the argument at argv[*i] and step over it and its value. */
static int parse_one (int argc, char **argv, int *i, struct train_args *args,
                      struct mg_error *err)
{
    const char *arg = argv[*i], *value = NULL;
    const struct train_arg *row;
    size_t len;

    if (strncmp (arg, "--", 2) != 0)
        return mg_error_set (err, EINVAL, "\"%.80s\" is not an argument: they begin with --",
                             arg);
    len = strcspn (arg + 2, "=");
    if (!(row = find (arg + 2, len)))
        return args_other_refuse (arg + 2, len, err);
    *i += 1;
    if (arg[2 + len] == '=')
        value = arg + 2 + len + 1;
    if (row->type == TRAIN_FLAG) {
        if (value)
            return mg_error_set (err, EINVAL, "--%s takes no value", row->name);
        return train_arg_set (row, "", args, err);
    }
    if (row->type == TRAIN_LIST && row->min < 1 && !value
        && (*i >= argc || strncmp (argv[*i], "--", 2) == 0)) {
        *(struct train_list *)(void *)((char *)args + row->offset)
            = (struct train_list){ .first = "" };
        return 0;
    }
    if (row->type == TRAIN_TRIPLE && !value)
        return parse_triple (row, argc, argv, i, args, err);
    if (!value) {
        if (*i >= argc)
            return mg_error_set (err, EINVAL, "--%s wants a value: %s", row->name, row->meta);
        value = argv[(*i)++];
    }
    if (train_arg_set (row, value, args, err) < 0)
        return -1;
    return row->type == TRAIN_LIST ? take_rest (row, argv, argc, i, args, err) : 0;
}

void train_args_init (struct train_args *args)
{
    args->files = NULL;
    args->notes = NULL;
    for (size_t i = 0; i < train_num_args; i++)
        preset (&train_arg_table[i], args);
}

void train_args_clear (struct train_args *args)
{
    while (args->files) {
        struct args_file *next = args->files->next;

        args_file_destroy (args->files);
        args->files = next;
    }
    if (args->notes)
        notes_clear (args->notes);
    free (args->notes);
    args->notes = NULL;
}

/* Read the files that the command line names, whose other arguments are tried on the way. */
static int read_files (int argc, char **argv, struct train_args *args, struct mg_error *err)
{
    struct args_file **last = &args->files;

    for (int i = 1; i < argc;) {
        if (parse_one (argc, argv, &i, args, err) < 0)
            return -1;
        if (!args->args_file)
            continue;
        if (!(*last = args_file_read (args->args_file, err)))
            return mg_error_prefix (err, "--args-file");
        last = &(*last)->next;
        args->args_file = NULL;
    }
    return 0;
}

static int parse_file (const struct args_file *file, struct train_args *args,
                       struct mg_error *err)
{
    for (int i = 0; i < file->count;) {
        int line = file->line[i];

        if (parse_one (file->count, file->word, &i, args, err) < 0)
            return mg_error_prefix (err, "%s:%d", file->path, line);
        if (args->args_file)
            return mg_error_set (err, EINVAL, "%s:%d: --args-file stands in a file of "
                                 "arguments: it can only be typed", file->path, line);
    }
    return 0;
}

/* Every argument as if it had not been given; what has been read stays. */
static void begin_again (struct train_args *args)
{
    struct args_file *files = args->files;
    struct notes *notes = args->notes;

    train_args_init (args);
    args->files = files;
    args->notes = notes;
}

static int parse_all (int argc, char **argv, struct train_args *args, struct mg_error *err)
{
    for (const struct args_file *file = args->files; file; file = file->next)
        if (parse_file (file, args, err) < 0)
            return -1;
    for (int i = 1; i < argc;)
        if (parse_one (argc, argv, &i, args, err) < 0)
            return -1;
    return 0;
}

/* Parse once more, over the arguments of the model that is loaded. */
static int use_model_args (int argc, char **argv, struct train_args *args, struct mg_error *err)
{
    const char *path = args->load_weights ? args->load_weights : args->load;

    if (!path)
        return mg_error_set (err, EINVAL, "--use-checkpoint-args wants --load-weights or --load");
    if (!(args->notes = calloc (1, sizeof (*args->notes))))
        return mg_error_set (err, ENOMEM, "out of memory");
    if (model_notes_read (path, args->load_weights ? -1 : args->ckpt_step, args->notes, err) < 0)
        return mg_error_prefix (err, "--use-checkpoint-args");
    begin_again (args);
    if (model_notes_apply (args->notes, args, err) < 0)
        return mg_error_prefix (err, "%s", path);
    if (parse_all (argc, argv, args, err) < 0)
        return -1;
    return model_notes_compare (args->notes, path, args, err);
}

int train_args_read (int argc, char **argv, struct train_args *args, struct mg_error *err)
{
    train_args_init (args);
    if (read_files (argc, argv, args, err) < 0)
        return -1;
    begin_again (args);
    if (parse_all (argc, argv, args, err) < 0)
        return -1;
    if (args->checkpoint_args && use_model_args (argc, argv, args, err) < 0)
        return -1;
    return args->checkpoint_sizes ? parallel_args_use (args, err) : 0;
}

int train_args_parse (int argc, char **argv, struct train_args *args, struct mg_error *err)
{
    if (train_args_read (argc, argv, args, err) < 0)
        return -1;
    return train_args_check (args, err);
}

void train_args_help (FILE *out)
{
    for (size_t i = 0; i < train_num_args; i++) {
        const struct train_arg *row = &train_arg_table[i];
        char left[64];

        snprintf (left, sizeof (left), "--%s%s%s", row->name, row->meta ? " " : "",
                  row->meta ? row->meta : "");
        fprintf (out, "  %-38s %s\n", left, row->help);
    }
}

static uint64_t hash_text (const char *text, uint64_t seed)
{
    return text ? XXH3_64bits_withSeed (text, strlen (text), seed) : seed + 1;
}

uint64_t train_args_fingerprint (const struct train_args *args)
{
    uint64_t hash = train_num_args;

    for (size_t i = 0; i < train_num_args; i++) {
        const struct train_arg *row = &train_arg_table[i];
        const void *field = (const char *)args + row->offset;

        if (row->type == TRAIN_TEXT)
            hash = hash_text (*(const char *const *)field, hash + i);
        else if (row->type == TRAIN_LIST) {
            const struct train_list *list = field;

            hash = hash_text (list->count == 0 ? list->first : NULL, hash + i);
            for (int k = 0; k < list->count; k++)
                hash = hash_text (train_list_word (list, k), hash);
        }
        else
            hash = XXH3_64bits_withSeed (field, field_size (row->type), hash);
    }
    return hash;
}
