/* other.c - accept or refuse arguments that "megatron train" does not have
 *
 * The kinds are in kinds.c.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/nearest.h"
#include "libcore/args/args.h"
#include "libcore/args/other.h"

/* --- the table --- */

static bool names (const struct args_other *row, const char *name, size_t len)
{
    size_t n = strlen (row->name);

    if (row->name[n - 1] == '*')
        return len >= n - 1 && memcmp (row->name, name, n - 1) == 0;
    return len == n && memcmp (row->name, name, n) == 0;
}

const struct args_other *args_other_find (const char *name, size_t len)
{
    for (size_t i = 0; i < args_other_num; i++) {
        if (names (&args_other_table[i], name, len))
            return &args_other_table[i];
    }
    return NULL;
}

/* True if two values are the same, as texts or as numbers. */
static bool same_value (const char *a, size_t len, const char *b)
{
    char *end, *other_end;
    double x, y;

    if (strlen (b) == len && memcmp (a, b, len) == 0)
        return true;
    x = strtod (a, &end);
    y = strtod (b, &other_end);
    return end == a + len && *b != '\0' && *other_end == '\0' && x == y;
}

/* True if this value of a row asks for what happens anyway. */
static bool is_anyway (const struct args_other *row, const char *value)
{
    const char *at = row->values;

    while (at && value) {
        size_t len = strcspn (at, "|");

        if (same_value (at, len, value))
            return true;
        at = at[len] ? at + len + 1 : NULL;
    }
    return false;
}

bool args_other_value (const char *name, size_t len, const char *value)
{
    const struct args_other *row = args_other_find (name, len);

    return row && row->kind == OTHER_NEEDLESS && is_anyway (row, value);
}

/* --- taking them --- */

void args_others_clear (struct args_others *o)
{
    free (o->given);
    free (o->refusal);
    *o = (struct args_others){ .given = NULL };
}

/* The place of an argument: that of its name if it was given before, else a new one. */
static struct args_given *place (struct args_others *o, const char *name, size_t len)
{
    struct args_given *more;

    for (size_t i = 0; i < o->n; i++) {
        if ((size_t)o->given[i].name_len == len && memcmp (o->given[i].name, name, len) == 0)
            return &o->given[i];
    }
    if (!(more = realloc (o->given, (o->n + 1) * sizeof (*more))))
        return NULL;
    o->given = more;
    return &more[o->n++];
}

static bool is_argument (const char *word)
{
    return strncmp (word, "--", 2) == 0;
}

/* Step over the words that follow the name; *value: the first of them. */
static int skip_words (const struct args_given *g, int argc, char **argv, int *i,
                       const char **value, struct mg_error *err)
{
    enum args_other_words words = g->row ? g->row->words : OTHER_LIST;
    int first = *i;

    if (words == OTHER_FLAG && *value)
        return mg_error_set (err, EINVAL, "--%.*s takes no value", g->name_len, g->name);
    if (words == OTHER_VALUE && !*value) {
        if (first >= argc || is_argument (argv[first]))
            return mg_error_set (err, EINVAL, "--%.*s wants a value", g->name_len, g->name);
        *value = argv[(*i)++];
    }
    while (words == OTHER_LIST && *i < argc && !is_argument (argv[*i]))
        ++*i;
    if (words == OTHER_LIST && !*value && *i > first)
        *value = argv[first];
    return 0;
}

int args_others_add (struct args_others *o, int argc, char **argv, int *i, const char *file,
                     int line, struct mg_error *err)
{
    const char *name = argv[*i] + 2;
    size_t len = strcspn (name, "=");
    struct args_given g = {
        .row = args_other_find (name, len),
        .name = name,
        .name_len = len > 80 ? 80 : (int)len,
        .value = name[len] ? name + len + 1 : NULL,
        .file = file,
        .line = line,
    }, *at;

    ++*i;
    if (skip_words (&g, argc, argv, i, &g.value, err) < 0)
        return -1;
    if (!o)
        return 0;
    g.kind = !g.row                          ? OTHER_UNKNOWN
             : is_anyway (g.row, g.value)    ? OTHER_NEEDLESS
                                             : g.row->kind;
    if (!(at = place (o, name, (size_t)g.name_len)))
        return mg_error_set (err, ENOMEM, "out of memory");
    *at = g;
    return 0;
}

/* --- the message that refuses --- */

static bool is_accepted (const struct args_given *g)
{
    return g->kind == OTHER_NEEDLESS || g->kind == OTHER_ELSEWHERE;
}

/* A word of the command line, as one line. */
static void print_word (const char *word, int len, FILE *out)
{
    for (int i = 0; i < len && word[i]; i++)
        fputc ((unsigned char)word[i] < ' ' || word[i] == 0x7f ? '?' : word[i], out);
}

/* Print the file and the line of an argument, if it is of a file. */
static void print_place (const struct args_given *g, FILE *out)
{
    if (g->file)
        fprintf (out, "%s:%d: ", g->file, g->line);
}

/* The name, and the value where that is why the argument is of its kind. */
static void print_name (const struct args_given *g, FILE *out)
{
    bool valued = g->value && g->row && g->row->words == OTHER_VALUE
                  && (g->row->said || g->kind == OTHER_ABSENT || g->row->values);

    fputs ("--", out);
    print_word (g->name, g->name_len, out);
    if (valued) {
        fputc (' ', out);
        print_word (g->value, 40, out);
    }
}

/* True if exactly one of the two names begins with "no-" or "disable-". */
static bool are_opposite (const char *name, size_t len, const char *other)
{
    static const char *const negations[] = { "no-", "disable-" };
    bool no[2] = { false, false };

    for (int i = 0; i < 2; i++) {
        size_t n = strlen (negations[i]);

        no[0] |= len >= n && memcmp (name, negations[i], n) == 0;
        no[1] |= strncmp (other, negations[i], n) == 0;
    }
    return no[0] != no[1];
}

/* The argument that a word was most likely meant to be, NULL if none is near. */
static const char *find_near (const char *name, size_t len)
{
    struct nearest nearest;

    nearest_begin (&nearest, name, len);
    for (size_t i = 0; i < train_num_args; i++) {
        if (!are_opposite (name, len, train_arg_table[i].info->name))
            nearest_try (&nearest, train_arg_table[i].info->name);
    }
    return nearest.name;
}

/* Describe an unknown name; briefly if there are several arguments. */
static void print_unknown (const struct args_given *g, bool alone, FILE *out)
{
    const char *near = find_near (g->name, (size_t)g->name_len);

    fputs (alone ? "unknown argument --" : "unknown --", out);
    print_word (g->name, g->name_len, out);
    if (near)
        fprintf (out, alone ? "; did you mean --%s?" : " (did you mean --%s?)", near);
    else if (alone)
        fputs ("; \"megatron train --help\" lists them", out);
}

/* A message that refuses one argument. */
static void print_one (const struct args_given *g, FILE *out)
{
    const char *text = g->row ? g->row->text : NULL;

    if (g->kind == OTHER_UNKNOWN) {
        print_unknown (g, true, out);
        return;
    }
    print_name (g, out);
    if (g->kind == OTHER_ABSENT)
        fprintf (out, " of Megatron-LM is not available in this version: %s; leave it out if the "
                 "run can do with that", text);
    else if (g->kind == OTHER_INSTEAD)
        fprintf (out, " is no argument of megatron train: give %s", text);
    else if (g->kind == OTHER_LAUNCHER)
        fprintf (out, " is an option of srun, sbatch and salloc: give it to them, before the "
                 "command%s%s", text ? "; here it is " : "", text ? text : "");
    else
        fprintf (out, " of Megatron-LM %s (%s): --strict-arguments refuses it",
                 g->kind == OTHER_NEEDLESS ? "changes nothing here"
                                           : "only adds output, speed or saved memory elsewhere",
                 text);
}

/* True if the two have the same kind and reason, so that one text is enough for both. */
static bool are_alike (const struct args_given *a, const struct args_given *b)
{
    if (a->kind != b->kind || a->kind == OTHER_UNKNOWN || !a->row->text || !b->row->text)
        return false;
    return strcmp (a->row->text, b->row->text) == 0;
}

/* True if the message of an earlier argument covers this one. */
static bool is_told (const struct args_others *o, size_t i, bool strict)
{
    for (size_t k = 0; k < i; k++) {
        if ((strict || !is_accepted (&o->given[k])) && are_alike (&o->given[k], &o->given[i]))
            return true;
    }
    return false;
}

/* Print the reason of an argument's kind, which several arguments share. */
static void print_reason (const struct args_given *g, FILE *out)
{
    static const char *const begin[OTHER_NUM_KINDS] = {
        [OTHER_NEEDLESS] = "changes nothing here: ",
        [OTHER_ELSEWHERE] = "only adds output, speed or saved memory elsewhere: ",
        [OTHER_ABSENT] = "",
        [OTHER_INSTEAD] = "give ",
        [OTHER_LAUNCHER] = "give it to srun; here it is ",
    };

    if (g->row->text)
        fprintf (out, " (%s%s)", begin[g->kind], g->row->text);
    else
        fprintf (out, " (give it to srun)");
}

/* Print the i-th argument, those that have the same reason, and the reason. */
static void print_alike (const struct args_others *o, size_t i, FILE *out)
{
    const struct args_given *g = &o->given[i];

    for (size_t k = i; k < o->n; k++) {
        if (k != i && !are_alike (&o->given[k], g))
            continue;
        if (k != i)
            fputs (", ", out);
        print_place (&o->given[k], out);
        if (g->kind == OTHER_UNKNOWN)
            print_unknown (g, false, out);
        else
            print_name (&o->given[k], out);
    }
    if (g->kind != OTHER_UNKNOWN)
        print_reason (g, out);
}

static void print_refusal (const struct args_others *o, size_t count, bool strict, FILE *out)
{
    const char *between = "";

    if (count > 1)
        fprintf (out, "%zu arguments are refused: ", count);
    for (size_t i = 0; i < o->n; i++) {
        const struct args_given *g = &o->given[i];

        if ((is_accepted (g) && !strict) || is_told (o, i, strict))
            continue;
        fputs (between, out);
        between = "; ";
        if (count == 1) {
            print_place (g, out);
            print_one (g, out);
        }
        else
            print_alike (o, i, out);
    }
}

int args_others_check (struct args_others *o, bool strict, struct mg_error *err)
{
    size_t count = 0, absent = 0, size;
    FILE *out;

    for (size_t i = 0; i < o->n; i++) {
        count += strict || !is_accepted (&o->given[i]);
        absent += o->given[i].kind == OTHER_ABSENT;
    }
    if (count == 0)
        return 0;
    free (o->refusal);
    o->refusal = NULL;
    if (!(out = open_memstream (&o->refusal, &size)))
        return mg_error_set (err, ENOMEM, "out of memory");
    print_refusal (o, count, strict, out);
    if (fclose (out) != 0)
        return mg_error_set (err, ENOMEM, "out of memory");
    return mg_error_set (err, absent == count ? ENOTSUP : EINVAL, "%s", o->refusal);
}

void args_others_forget (struct args_others *o, const char *name, const char *value)
{
    size_t len = strlen (name), kept = 0;

    for (size_t i = 0; i < o->n; i++) {
        const struct args_given *g = &o->given[i];

        if ((size_t)g->name_len != len || memcmp (g->name, name, len) != 0 || !g->value
            || strcmp (g->value, value) != 0)
            o->given[kept++] = *g;
    }
    o->n = kept;
}

/* --- what is told of those that are accepted --- */

static int print_kind (const struct args_others *o, enum args_other_kind kind, const char *title,
                       FILE *out)
{
    int count = 0;

    for (size_t i = 0; i < o->n; i++) {
        const struct args_given *g = &o->given[i];

        if (g->kind != kind)
            continue;
        fputs (count++ > 0 ? ", " : title, out);
        print_name (g, out);
        if (g->row->said)
            fprintf (out, " (%s)", g->row->text);
    }
    return count;
}

void args_others_print (const struct args_others *o, FILE *out)
{
    int count = print_kind (o, OTHER_NEEDLESS, "arguments that change nothing here: ", out);

    count += print_kind (o, OTHER_ELSEWHERE,
                         count > 0 ? "; that only add output, speed or saved memory elsewhere: "
                                  : "arguments that only add output, speed or saved memory "
                                    "elsewhere: ",
                         out);
    if (count > 0)
        fputc ('\n', out);
}

void args_others_list (const struct args_others *o, enum args_other_kind kind, const char *title,
                       FILE *out)
{
    bool any = false;

    for (size_t i = 0; i < o->n; i++) {
        const struct args_given *g = &o->given[i];

        if (g->kind != kind)
            continue;
        if (!any)
            fprintf (out, "%s\n", title);
        any = true;
        fputs ("  ", out);
        if (kind == OTHER_UNKNOWN)
            print_unknown (g, false, out);
        else
            print_name (g, out);
        if (g->row && g->row->text)
            fprintf (out, ": %s", g->row->text);
        fputc ('\n', out);
    }
}
