/* args.c - the parser of arguments, from command lines and files
 *
 * Files that --args-file names are read first, in their order, and the command line after them,
 * so that a typed argument wins.  Among several values the last one wins.  Arguments
 * without a row here are collected first, so that args/other.h can refuse all of them at
 * once.  The fingerprint covers the values of all rows.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "libcore/base/parse.h"
#include "libcore/args/args.h"
#include "libcore/args/file.h"
#include "libcore/args/data_args.h"
#include "libcore/args/model_notes.h"
#include "libcore/args/parallel_args.h"

static size_t field_size (enum arg_type type)
{
    static const size_t sizes[] = {
        [ARG_INT] = sizeof (int),
        [ARG_INT64] = sizeof (int64_t),
        [ARG_REAL] = sizeof (double),
        [ARG_TEXT] = sizeof (const char *),
        [ARG_FLAG] = sizeof (bool),
        [ARG_TRIPLE] = 3 * sizeof (int64_t),
        [ARG_LIST] = sizeof (struct arg_list),
    };

    return sizes[type];
}

static void preset (const struct train_arg *row, struct train_args *args)
{
    void *field = (char *)args + row->offset;

    switch (row->info->type) {
    case ARG_INT:
        *(int *)field = (int)row->preset;
        break;
    case ARG_INT64:
        *(int64_t *)field = (int64_t)row->preset;
        break;
    case ARG_REAL:
        *(double *)field = row->preset;
        break;
    case ARG_TEXT:
        *(const char **)field = row->preset_text;
        break;
    case ARG_FLAG:
    case ARG_TRIPLE:
    case ARG_LIST:
        memset (field, 0, field_size (row->info->type));
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

    snprintf (what, sizeof (what), "--%s", row->info->name);
    switch (row->info->type) {
    case ARG_INT:
        return parse_int (what, value, (int)row->min, (int)row->max, field, err);
    case ARG_INT64:
        return parse_int64 (what, value, (int64_t)row->min, (int64_t)row->max, field, err);
    case ARG_REAL:
        return parse_double (what, value, row->min, row->max, field, err);
    case ARG_TEXT:
        if (*value == '\0')
            return mg_error_set (err, EINVAL, "%s: the value is empty", what);
        *(const char **)field = value;
        return 0;
    case ARG_FLAG:
        *(bool *)field = true;
        return 0;
    case ARG_LIST:
        if (check_word (what, value, err) < 0)
            return -1;
        *(struct arg_list *)field = (struct arg_list){ value, NULL, 1 };
        return 0;
    case ARG_TRIPLE:
        return mg_error_set (err, EINVAL, "%s wants three values: %s", what, row->info->meta);
    }
    return 0;
}

static const struct train_arg *find (const char *name, size_t len)
{
    for (size_t i = 0; i < train_num_args; i++)
        if (strlen (train_arg_table[i].info->name) == len
            && memcmp (train_arg_table[i].info->name, name, len) == 0)
            return &train_arg_table[i];
    return NULL;
}

/* The same on a command line that may have short names. */
static const struct train_arg *find_typed (const struct train_args *args, const char *name,
                                           size_t len)
{
    const struct arg_info *info = args->brief ? margs_find_brief (name, len) : NULL;

    return info ? train_arg_find (info->name) : find (name, len);
}

/* The words behind the first one, up to the next argument. */
static int add_rest (const struct train_arg *row, char **argv, int argc, int *i,
                     struct train_args *args, struct mg_error *err)
{
    struct arg_list *list = (void *)((char *)args + row->offset);
    char what[64];

    snprintf (what, sizeof (what), "--%s", row->info->name);
    list->rest = &argv[*i];
    while (*i < argc && strncmp (argv[*i], "--", 2) != 0) {
        if (check_word (what, argv[*i], err) < 0)
            return -1;
        list->count++;
        *i += 1;
    }
    return 0;
}

/* --- lists in brackets --- */

/* The words of a list that stood in brackets, in memory of their own. */
struct args_words {
    struct args_words *next;
    int count;
    char **word;
    char *text;
};

/* The end of the list that begins at argv[i]. */
static int list_end (int argc, char **argv, int i)
{
    while (i < argc && strncmp (argv[i], "--", 2) != 0)
        i++;
    return i;
}

/* Copy words i to end - 1 of a list without its brackets; blanks part words, too. */
static struct args_words *copy_words (const char *first, char **argv, int i, int end)
{
    struct args_words *w = calloc (1, sizeof (*w));
    size_t size = strlen (first) + 2;
    char *save = NULL;

    for (int k = i; k < end; k++)
        size += strlen (argv[k]) + 1;
    if (!w || !(w->text = calloc (1, size)) || !(w->word = calloc (size, sizeof (*w->word)))) {
        free (w ? w->text : NULL);
        free (w);
        return NULL;
    }
    strcpy (w->text, first);
    for (int k = i; k < end; k++)
        strcat (strcat (w->text, " "), argv[k]);
    w->text[strlen (w->text) - 1] = '\0'; // the bracket at the end
    for (char *word = strtok_r (w->text + 1, " ", &save); word;
         word = strtok_r (NULL, " ", &save))
        w->word[w->count++] = word;
    return w;
}

/* True if a list is in brackets, as in scripts that are made of YAML.  A path may also
 * begin with a bracket. */
static bool is_bracketed (const struct train_arg *row, const char *value, char **argv, int i,
                          int end)
{
    const char *last = end > i ? argv[end - 1] : value;
    size_t n = strlen (row->info->name), len = strlen (last);

    if (n >= 9 && strcmp (row->info->name + n - 9, "data-path") == 0)
        return false;
    return value[0] == '[' && len > 0 && last[len - 1] == ']' && (last != value || len > 1);
}

/* Take such a list; 'value' is its first word, *i where the next one is. */
static int add_bracketed (const struct train_arg *row, const char *value, char **argv, int *i,
                          int end, struct train_args *args, struct mg_error *err)
{
    struct arg_list *list = (void *)((char *)args + row->offset);
    struct args_words *w = copy_words (value, argv, *i, end);

    if (!w)
        return mg_error_set (err, ENOMEM, "out of memory");
    w->next = args->words;
    args->words = w;
    *i = end;
    if (w->count == 0 && row->min >= 1)
        return mg_error_set (err, EINVAL, "--%s: the list is empty", row->info->name);
    *list = (struct arg_list){ w->count > 0 ? w->word[0] : "", &w->word[1], w->count };
    return 0;
}

/* Take a list whose first word is 'value'. */
static int parse_list (const struct train_arg *row, const char *value, int argc, char **argv,
                       int *i, struct train_args *args, struct mg_error *err)
{
    int end = list_end (argc, argv, *i);

    if (is_bracketed (row, value, argv, *i, end))
        return add_bracketed (row, value, argv, i, end, args, err);
    if (train_arg_set (row, value, args, err) < 0)
        return -1;
    return add_rest (row, argv, argc, i, args, err);
}

/* --- one argument --- */

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

    snprintf (what, sizeof (what), "--%s", row->info->name);
    if (argc - *i < 3)
        return mg_error_set (err, EINVAL, "%s wants three values: %s", what, row->info->meta);
    for (int k = 0; k < 3; k++) {
        if (parse_int64 (what, argv[(*i)++], (int64_t)row->min, (int64_t)row->max, &field[k],
                         err) < 0)
            return -1;
    }
    return 0;
}

bool train_arg_given (const struct train_args *args, size_t i)
{
    return args->given[i / 64] >> i % 64 & 1;
}

static void set_given (const struct train_arg *row, struct train_args *args)
{
    size_t i = (size_t)(row - train_arg_table);

    args->given[i / 64] |= UINT64_C (1) << i % 64;
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
    if (!(row = find_typed (args, arg + 2, len)))
        return args_others_add (NULL, argc, argv, i, NULL, 0, err);
    *i += 1;
    set_given (row, args);
    if (arg[2 + len] == '=')
        value = arg + 2 + len + 1;
    if (row->info->type == ARG_FLAG) {
        if (value)
            return mg_error_set (err, EINVAL, "--%s takes no value", row->info->name);
        return train_arg_set (row, "", args, err);
    }
    if (row->info->type == ARG_LIST && row->min < 1 && !value
        && (*i >= argc || strncmp (argv[*i], "--", 2) == 0)) {
        *(struct arg_list *)(void *)((char *)args + row->offset)
            = (struct arg_list){ .first = "" };
        return 0;
    }
    if (row->info->type == ARG_TRIPLE && !value)
        return parse_triple (row, argc, argv, i, args, err);
    if (!value) {
        if (*i >= argc)
            return mg_error_set (err, EINVAL, "--%s wants a value: %s", row->info->name,
                                 row->info->meta);
        value = argv[(*i)++];
    }
    if (row->info->type == ARG_LIST)
        return parse_list (row, value, argc, argv, i, args, err);
    return train_arg_set (row, value, args, err);
}

void train_args_init (struct train_args *args)
{
    args->files = NULL;
    args->data = NULL;
    args->words = NULL;
    args->others = (struct args_others){ .given = NULL };
    args->notes = NULL;
    args->brief = false;
    memset (args->given, 0, sizeof (args->given));
    memset (args->program_samples, 0, sizeof (args->program_samples));
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
    data_args_destroy (args->data);
    args->data = NULL;
    while (args->words) {
        struct args_words *next = args->words->next;

        free (args->words->text);
        free (args->words->word);
        free (args->words);
        args->words = next;
    }
    args_others_clear (&args->others);
    if (args->notes)
        notes_clear (args->notes);
    free (args->notes);
    args->notes = NULL;
}

/* Step over an argument that has a row. */
static void step_over (const struct train_arg *row, int argc, char **argv, int *i)
{
    bool joined = strchr (argv[*i], '=') != NULL;

    ++*i;
    if (row->info->type == ARG_LIST)
        *i = list_end (argc, argv, *i);
    else if (row->info->type != ARG_FLAG && !joined)
        *i += row->info->type == ARG_TRIPLE ? 3 : 1;
}

/* Collect arguments without a row.  A word that is no argument ends this; the parser will
 * report it. */
static int collect (int argc, char **argv, const struct args_file *file, struct train_args *args,
                    struct mg_error *err)
{
    for (int i = file ? 0 : 1; i < argc && strncmp (argv[i], "--", 2) == 0;) {
        const char *name = argv[i] + 2;
        size_t len = strcspn (name, "=");
        const struct train_arg *row = file ? find (name, len) : find_typed (args, name, len);
        const char *value = name[len] ? name + len + 1 : i + 1 < argc ? argv[i + 1] : NULL;

        if (row && !args_other_value (name, len, value))
            step_over (row, argc, argv, &i);
        else if (args_others_add (&args->others, argc, argv, &i, file ? file->path : NULL,
                                  file ? file->line[i] : 0, err) < 0)
            return file ? mg_error_prefix (err, "%s", file->path) : -1;
    }
    return 0;
}

/* Read the files that the command line names, and collect what has no row. */
static int read_files (int argc, char **argv, struct train_args *args, struct mg_error *err)
{
    struct args_file **last = &args->files;

    for (int i = 1; i < argc && strncmp (argv[i], "--", 2) == 0;) {
        const char *name = argv[i] + 2;
        const struct train_arg *row = find_typed (args, name, strcspn (name, "="));
        int at = i;

        if (!row) {
            i = list_end (argc, argv, i + 1);
            continue;
        }
        step_over (row, argc, argv, &i);
        if (strcmp (row->info->name, "args-file") != 0 || i > argc)
            continue;
        name = argv[at][2 + strlen (row->info->name)] ? argv[at] + 2 + strlen (row->info->name) + 1
                                                : argv[i - 1];
        if (!(*last = args_file_read (name, err)))
            return mg_error_prefix (err, "--args-file");
        if (collect ((*last)->count, (*last)->word, *last, args, err) < 0)
            return -1;
        last = &(*last)->next;
    }
    return collect (argc, argv, NULL, args, err);
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

/* Set every argument to its default; files that were read stay. */
static void begin_again (struct train_args *args)
{
    struct train_args before = *args;

    train_args_init (args);
    args->files = before.files;
    args->words = before.words;
    args->others = before.others;
    args->notes = before.notes;
    args->data = before.data;
    args->brief = before.brief;
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

/* Read the file that names the data of the three parts.  'optional': it may be missing. */
static int use_data_args (struct train_args *args, bool optional, struct mg_error *err)
{
    struct arg_list *const lists[SPLIT_NUM_PARTS] = {
        [SPLIT_TRAIN] = &args->train_data_path,
        [SPLIT_VALID] = &args->valid_data_path,
        [SPLIT_TEST] = &args->test_data_path,
    };
    const char *other = args->data_path.count > 0 ? "--data-path"
                        : args->batches           ? "--batches"
                        : args->mock_data         ? "--mock-data"
                                                  : NULL;

    for (int i = 0; i < SPLIT_NUM_PARTS; i++) {
        if (lists[i]->count > 0)
            other = "a part's own --data-path";
    }
    if (!args->split_data)
        return 0;
    if (other)
        return mg_error_set (err, EINVAL, "--per-split-data-args-path and %s exclude each other",
                             other);
    if (!(args->data = data_args_read (args->split_data, err)))
        return optional && errno == ENOENT
                   ? 0 : mg_error_prefix (err, "--per-split-data-args-path");
    for (int i = 0; i < SPLIT_NUM_PARTS; i++) {
        struct args_file *f = args->data->part[i];

        if (f)
            *lists[i] = (struct arg_list){ f->word[0], f->word + 1, f->count };
    }
    return 0;
}

/* True if a flag was given.  Called before everything is parsed. */
static bool is_typed (const char *name, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strncmp (argv[i], "--", 2) == 0 && strcmp (argv[i] + 2, name) == 0)
            return true;
    }
    return false;
}

static bool is_strict (int argc, char **argv, const struct train_args *args)
{
    bool strict = is_typed ("strict-arguments", argc, argv);

    for (const struct args_file *file = args->files; file; file = file->next)
        strict |= is_typed ("strict-arguments", file->count, file->word);
    return strict;
}

/* The last value of an argument among words, 'before' if it is not there.  Called before everything
 * is parsed.
 */
static const char *value_typed (const char *name, int argc, char **argv, const char *before)
{
    size_t len = strlen (name);

    for (int i = 0; i < argc; i++) {
        if (strncmp (argv[i], "--", 2) != 0 || strncmp (argv[i] + 2, name, len) != 0)
            continue;
        if (argv[i][2 + len] == '=')
            before = argv[i] + 3 + len;
        else if (!argv[i][2 + len] && i + 1 < argc)
            before = argv[i + 1];
    }
    return before;
}

static const char *device_typed (int argc, char **argv, const struct train_args *args)
{
    const char *device = NULL;

    for (const struct args_file *file = args->files; file; file = file->next)
        device = value_typed ("device", file->count, file->word, device);
    return value_typed ("device", argc, argv, device);
}

bool args_backend_is_nccl (const struct train_args *args)
{
    return args->backend && strcmp (args->backend, "nccl") == 0
           && device_is_named (args->device, "cuda");
}

static int read_all (int argc, char **argv, bool refuse, bool brief, struct train_args *args,
                     struct mg_error *err)
{
    train_args_init (args);
    args->brief = brief;
    if (read_files (argc, argv, args, err) < 0)
        return -1;
    if (device_is_named (device_typed (argc, argv, args), "cuda"))
        args_others_forget (&args->others, "distributed-backend", "nccl");
    if (refuse && args_others_check (&args->others, is_strict (argc, argv, args), err) < 0)
        return -1;
    begin_again (args);
    if (parse_all (argc, argv, args, err) < 0)
        return -1;
    if (args->checkpoint_args && use_model_args (argc, argv, args, err) < 0)
        return -1;
    return args->checkpoint_sizes ? parallel_args_use (args, err) : 0;
}

int train_args_read (int argc, char **argv, struct train_args *args, struct mg_error *err)
{
    return read_all (argc, argv, true, true, args, err) < 0 ? -1 : use_data_args (args, true, err);
}

int train_args_read_all (int argc, char **argv, struct train_args *args, struct mg_error *err)
{
    return read_all (argc, argv, false, false, args, err) < 0 ? -1
                                                              : use_data_args (args, true, err);
}

int train_args_read_run (int argc, char **argv, struct train_args *args, struct mg_error *err)
{
    return read_all (argc, argv, true, false, args, err) < 0 ? -1
                                                             : use_data_args (args, false, err);
}

void train_args_help (FILE *out)
{
    for (size_t i = 0; i < train_num_args; i++) {
        const struct train_arg *row = &train_arg_table[i];
        const char *meta = row->info->meta;
        char left[64];

        snprintf (left, sizeof (left), "--%s%s%s", row->info->name, meta ? " " : "",
                  meta ? meta : "");
        fprintf (out, "  %-38s %s%s%s%s\n", left, row->info->help, row->tail ? " (" : "",
                 row->tail ? row->tail : "", row->tail ? ")" : "");
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

        if (row->info->type == ARG_TEXT)
            hash = hash_text (*(const char *const *)field, hash + i);
        else if (row->info->type == ARG_LIST) {
            const struct arg_list *list = field;

            hash = hash_text (list->count == 0 ? list->first : NULL, hash + i);
            for (int k = 0; k < list->count; k++)
                hash = hash_text (arg_list_word (list, k), hash);
        }
        else
            hash = XXH3_64bits_withSeed (field, field_size (row->info->type), hash);
    }
    return hash;
}
