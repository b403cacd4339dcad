/* The table of arguments: each is said once, whoever reads it. */

#include <stdio.h>
#include <string.h>

#include "libcore/args/args.h"
#include "tests/tap/tap.h"

/* Second names of an argument: their help says only that. */
static bool is_second_name (const char *help)
{
    return strncmp (help, "the same", 8) == 0;
}

static bool is_rule (const struct train_arg *row)
{
    for (int id = 0; id < MARG_NUM; id++) {
        if (row->info == &margs_table[id])
            return true;
    }
    return false;
}

/* Does another row say the same? */
static void test_once (void)
{
    for (size_t i = 0; i < train_num_args; i++) {
        const struct arg_info *a = train_arg_table[i].info;

        for (size_t k = i + 1; k < train_num_args; k++) {
            const struct arg_info *b = train_arg_table[k].info;

            if (strcmp (a->name, b->name) == 0)
                ok (false, "--%s is said twice", a->name);
            if (strcmp (a->help, b->help) == 0 && !is_second_name (a->help))
                ok (false, "--%s and --%s have one help, \"%s\"", a->name, b->name, a->help);
        }
    }
    ok (train_num_args > MARG_NUM, "%zu arguments", train_num_args);
}

/* An argument that rules read is said in their table; a run's row refers to it. */
static void test_rules (void)
{
    for (int id = 0; id < MARG_NUM; id++) {
        const struct train_arg *row = train_arg_find (margs_table[id].name);

        ok (row && row->info == &margs_table[id], "--%s refers to the rules' table",
            margs_table[id].name);
    }
    for (size_t i = 0; i < train_num_args; i++) {
        if (train_arg_table[i].info->brief && !is_rule (&train_arg_table[i]))
            ok (false, "--%s has a short name that nothing finds", train_arg_table[i].info->name);
    }
}

/* A value has a name if there is a value; a number's limits have an order. */
static void test_rows (void)
{
    int wrong = 0;

    for (size_t i = 0; i < train_num_args; i++) {
        const struct train_arg *row = &train_arg_table[i];
        const struct arg_info *info = row->info;
        bool number = info->type == ARG_INT || info->type == ARG_INT64 || info->type == ARG_REAL
                      || info->type == ARG_TRIPLE;

        if ((info->type == ARG_FLAG) != !info->meta || number != (row->min < row->max)
            || info->name[0] == '-' || info->help[strlen (info->help) - 1] == '.')
            wrong += !ok (false, "the row of --%s", info->name);
    }
    is_int (wrong, 0, "every row has what its type wants");
}

/* A short name is refused where a run reads it, and the refusal names the argument. */
static void test_brief (void)
{
    int count = 0;

    for (int id = 0; id < MARG_NUM; id++) {
        const char *brief = margs_table[id].brief;
        const struct args_other *other = brief ? args_other_find (brief, strlen (brief)) : NULL;

        if (!brief)
            continue;
        count++;
        ok (margs_find_brief (brief, strlen (brief)) == &margs_table[id] && other
                && other->kind == OTHER_INSTEAD && strncmp (other->text, "--", 2) == 0
                && strncmp (other->text + 2, margs_table[id].name, strlen (margs_table[id].name))
                       == 0,
            "--%s is short for --%s", brief, margs_table[id].name);
    }
    ok (count > 0 && !margs_find_brief ("t", 1) && !margs_find_brief ("", 0), "others are none");
}

int main (void)
{
    test_once ();
    test_rules ();
    test_rows ();
    test_brief ();
    return done_testing ();
}
