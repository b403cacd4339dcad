/* Arguments that megatron train does not have: the table, and what is said. */

#include <errno.h>
#include <string.h>

#include "libcore/train/args.h"
#include "libcore/train/args_other.h"
#include "tests/tap/tap.h"

static bool repeated (size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (strcmp (args_other_table[k].name, args_other_table[i].name) == 0)
            return true;
    }
    return false;
}

static void test_table (void)
{
    bool family = false;

    for (size_t i = 0; i < args_other_num; i++) {
        const struct args_other *row = &args_other_table[i];
        bool star = row->name[strlen (row->name) - 1] == '*';
        struct mg_error err = { "" };

        ok (!train_arg_find (row->name) && !repeated (i), "--%s: one row, no argument",
            row->name);
        ok ((row->text && *row->text) || row->kind == OTHER_LAUNCHER, "--%s: says what to do",
            row->name);
        ok (star || !family, "--%s: families come last", row->name);
        family |= star;
        ok (args_other_refuse (row->name, strlen (row->name), &err) < 0
                && errno == (row->kind == OTHER_ABSENT ? ENOTSUP : EINVAL)
                && strlen (err.text) < MG_ERROR_MAX - 64,
            "%s", err.text);
    }
}

/* What "give ... instead" names must be there, else it helps nobody. */
static void test_instead (void)
{
    for (size_t i = 0; i < args_other_num; i++) {
        const struct args_other *row = &args_other_table[i];
        char name[80] = "";

        if (!row->text || sscanf (row->text, "--%79[a-z0-9-]", name) != 1)
            continue;
        ok (train_arg_find (name) != NULL, "--%s: --%s is an argument", row->name, name);
    }
}

static void test_texts (void)
{
    static const struct {
        const char *name, *want;
    } rows[] = {
        { "use-flash-attn", "--use-flash-attn of Megatron-LM changes nothing here (there is one "
                            "implementation): leave it out" },
        { "num-experts", "--num-experts of Megatron-LM is not available in this version: layers "
                         "have one MLP, no experts; leave it out if the run can do with that" },
        { "moe-router-topk", "--moe-router-topk of Megatron-LM is not available in this version: "
                             "layers have one MLP, no experts; leave it out if the run can do "
                             "with that" },
        { "tp", "--tp is no argument of megatron train: give --tensor-model-parallel-size N" },
        { "megatron-tp", "--megatron-tp is an option of srun, sbatch and salloc: give it to them, "
                         "before the command; here it is --tensor-model-parallel-size N" },
        { "ntasks", "--ntasks is an option of srun, sbatch and salloc: give it to them, before "
                    "the command" },
        { "hiden-size", "unknown argument --hiden-size; did you mean --hidden-size?" },
        { "bogus", "unknown argument --bogus; \"megatron train --help\" lists them" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct mg_error err = { "" };

        args_other_refuse (rows[i].name, strlen (rows[i].name), &err);
        is_str (err.text, rows[i].want, "--%s", rows[i].name);
    }
}

int main (void)
{
    test_table ();
    test_instead ();
    test_texts ();
    return done_testing ();
}
