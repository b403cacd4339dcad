/* options.c - the option table, values good and bad, origins */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/options.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

static void test_table (void)
{
    for (int i = 0; i < OPTION_NUM; i++) {
        const struct option_info *info = &options_table[i];
        char transport[OPTIONS_TRANSPORT_MAX];

        ok (strncmp (info->name, "megatron-", 9) == 0, "--%s", info->name);
        ok (strncmp (info->env, "MEGATRON_", 9) == 0, "%s", info->env);
        ok (strncmp (info->usage, "[megatron] ", 11) == 0, "%s: usage text", info->name);
        options_transport (i, transport);
        ok (strlen (transport) < OPTIONS_TRANSPORT_MAX - 1 && !strchr (transport, '-'),
            "%s: %s", info->name, transport);
        for (int j = 0; j < i; j++)
            ok (strcmp (info->name, options_table[j].name) != 0
                && strcmp (info->env, options_table[j].env) != 0
                && strcmp (info->field, options_table[j].field) != 0,
                "%s is not %s", info->name, options_table[j].name);
    }
    {
        char transport[OPTIONS_TRANSPORT_MAX];

        options_transport (OPTION_ETP, transport);
        is_str (transport, "SLURM_SPANK__SLURM_SPANK_OPTION_megatron_megatron_etp",
                "Slurm's own name of an inherited option");
    }
}

static const struct {
    int id;
    const char *text;
    int errnum; /* 0: good */
    const char *message;
} values[] = {
    { OPTION_TP, "1", 0, NULL },
    { OPTION_TP, "16777216", 0, NULL },
    { OPTION_TP, "16777217", ERANGE, "16777217 is out of range, want 1 to 16777216" },
    { OPTION_TP, "0", ERANGE, "want 1 to" },
    { OPTION_TP, "-1", ERANGE, "want 1 to" },
    { OPTION_TP, "", EINVAL, "\"\" is not a whole number" },
    { OPTION_TP, NULL, EINVAL, "not a whole number" },
    { OPTION_TP, "4x", EINVAL, "\"4x\"" },
    { OPTION_TP, " 4", EINVAL, "\" 4\"" },
    { OPTION_TP, "0x4", EINVAL, "\"0x4\"" },
    { OPTION_TP, "4.0", EINVAL, "\"4.0\"" },
    { OPTION_TP, "4\n5", EINVAL, "4?5" },
    { OPTION_TP, "\033[31m", EINVAL, "?[31m" },
    { OPTION_TP, "99999999999999999999", ERANGE, "out of range" },
    { OPTION_CP, "2", 0, NULL },
    { OPTION_EP, "64", 0, NULL },
    { OPTION_ETP, "0", ERANGE, "--megatron-etp: 0" },
    { OPTION_ETP, "1", 0, NULL },
    { OPTION_PP, "16", 0, NULL },
    { OPTION_VPP, "0", ERANGE, "--megatron-vpp: 0" },
    { OPTION_VPP, "1", 0, NULL },
    { OPTION_ORDER, "tp-cp-ep-dp-pp", 0, NULL },
    { OPTION_ORDER, "tp-cp-ep-pp-dp", 0, NULL },
    { OPTION_ORDER, "tp-dp-pp", 0, NULL },
    { OPTION_ORDER, "", EINVAL, "--megatron-order" },
    { OPTION_ORDER, "tp-xp", EINVAL, "unknown axis \"xp\"" },
    { OPTION_ORDER, "tp-pp-tp", EINVAL, "tp 2 times" },
    { OPTION_ORDER, "tp--pp", EINVAL, "--megatron-order" },
    { OPTION_ORDER, "tp-cp-ep-dp-pp-tp-cp-ep-dp-pp-tp", EINVAL, "too long" },
    { OPTION_ORDER, "tp\n", EINVAL, "--megatron-order" },
    { OPTION_PLACEMENT, "allow", 0, NULL },
    { OPTION_PLACEMENT, "warn", 0, NULL },
    { OPTION_PLACEMENT, "refuse", 0, NULL },
    { OPTION_PLACEMENT, "", EINVAL, "\"\" is not allow, warn or refuse" },
    { OPTION_PLACEMENT, "WARN", EINVAL, "\"WARN\"" },
    { OPTION_PLACEMENT, "warn\n", EINVAL, "\"warn?\"" },
};

static void test_values (void)
{
    for (size_t i = 0; i < COUNT (values); i++) {
        const char *name = options_table[values[i].id].name;
        struct options o;
        int rc;

        options_init (&o);
        errno = 0;
        rc = options_set (&o, values[i].id, OPTION_TYPED, values[i].text);
        if (!values[i].errnum) {
            ok (rc == 0 && !options_error (&o), "--%s=%s", name, values[i].text);
            continue;
        }
        ok (rc == -1 && errno == values[i].errnum, "--%s=%s: refused", name, values[i].text);
        ok (options_error (&o) == o.error[values[i].id].text, "and remembered");
        if (!ok (strstr (o.error[values[i].id].text, values[i].message)
                 && strstr (o.error[values[i].id].text, name), "and says why"))
            diag ("%s", o.error[values[i].id].text);
        ok (!strchr (o.error[values[i].id].text, '\n'), "in one line");
    }
}

/* Each option sets its own field and no other. */
static void test_fields (void)
{
    struct options o;

    options_init (&o);
    options_set (&o, OPTION_TP, OPTION_TYPED, "2");
    options_set (&o, OPTION_CP, OPTION_TYPED, "3");
    options_set (&o, OPTION_EP, OPTION_TYPED, "4");
    options_set (&o, OPTION_ETP, OPTION_TYPED, "5");
    options_set (&o, OPTION_PP, OPTION_TYPED, "6");
    options_set (&o, OPTION_VPP, OPTION_TYPED, "7");
    options_set (&o, OPTION_ORDER, OPTION_TYPED, "pp-dp-ep-cp-tp");
    is_int (o.geometry.tp, 2, "tp");
    is_int (o.geometry.cp, 3, "cp");
    is_int (o.geometry.ep, 4, "ep");
    is_int (o.geometry.etp, 5, "etp");
    is_int (o.geometry.pp, 6, "pp");
    is_int (o.geometry.vpp, 7, "vpp");
    is_str (o.geometry.order, "pp-dp-ep-cp-tp", "order");
    is_int (o.geometry.world, 0, "the world is not an option");
}

static void test_origins (void)
{
    struct options o;

    options_init (&o);
    is_int (options_origin (&o), OPTION_UNSET, "nothing given");
    options_set (&o, OPTION_TP, OPTION_DEFAULT, "2");
    is_int (options_origin (&o), OPTION_DEFAULT, "a default");
    options_set (&o, OPTION_PP, OPTION_INHERITED, "2");
    is_int (options_origin (&o), OPTION_INHERITED, "an option of the job is more");
    options_set (&o, OPTION_CP, OPTION_TYPED, "2");
    is_int (options_origin (&o), OPTION_TYPED, "a typed one is most");

    options_init (&o);
    options_set (&o, OPTION_TP, OPTION_DEFAULT, "x");
    ok (options_error (&o) && strncmp (options_error (&o), "MEGATRON_TP: ", 13) == 0,
        "a bad default is called by its variable");
    options_set (&o, OPTION_TP, OPTION_TYPED, "4");
    ok (!options_error (&o), "a good value on the line replaces it");
    is_int (o.geometry.tp, 4, "and counts");
    options_set (&o, OPTION_TP, OPTION_SENT, "4");
    options_set (&o, OPTION_TP, OPTION_SENT, "4");
    is_int (o.geometry.tp, 4, "twice is as good as once");

    options_init (&o);
    options_set (&o, OPTION_PLACEMENT, OPTION_TYPED, "refuse");
    is_int (options_origin (&o), OPTION_UNSET, "a policy by itself asks for nothing");
    is_int (o.placement, PLACEMENT_REFUSE, "but is remembered");
    options_set (&o, OPTION_TP, OPTION_SITE, "4");
    is_int (options_origin (&o), OPTION_SITE, "a site's default is the weakest");
}

static void test_default (void)
{
    unsetenv ("MEGATRON_PP");
    ok (!options_default (OPTION_PP), "no variable, no default");
    setenv ("MEGATRON_PP", "", 1);
    ok (!options_default (OPTION_PP), "an empty one is none");
    setenv ("MEGATRON_PP", "8", 1);
    is_str (options_default (OPTION_PP), "8", "its text");
}

int main (void)
{
    test_table ();
    test_values ();
    test_fields ();
    test_origins ();
    test_default ();
    return done_testing ();
}
