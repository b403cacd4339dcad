/* geometry.c - geometries as a program sees them */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "megatron/geometry.h"
#include "tests/tap/tap.h"

static void clear_environment (void)
{
    static const char *const names[]
        = { "MEGATRON_TP_SIZE",  "MEGATRON_CP_SIZE",  "MEGATRON_EP_SIZE",
            "MEGATRON_ETP_SIZE", "MEGATRON_PP_SIZE",  "MEGATRON_VPP_SIZE",
            "MEGATRON_RANK_ORDER" };

    for (size_t i = 0; i < sizeof (names) / sizeof (names[0]); i++)
        unsetenv (names[i]);
}

static void test_sizes (void)
{
    struct mg_geometry *g = mg_geometry_create (NULL);
    struct mg_error err = { "" };

    is_int (mg_geometry_world (g), 0, "no world at first");
    is_int (mg_geometry_size (g, MG_DENSE, MG_AXIS_TP), 1, "every size is 1");
    is_int (mg_geometry_size (g, MG_DENSE, MG_AXIS_DP), 0, "but dp, which is not known");
    is_int (mg_geometry_virtual_stages (g), 1, "no virtual stages");
    ok (mg_geometry_set_size (g, "world", 24, &err) == 0
            && mg_geometry_set_size (g, "tp", 2, &err) == 0
            && mg_geometry_set (g, "pp", "3", &err) == 0
            && mg_geometry_set_size (g, "vpp", 2, &err) == 0
            && mg_geometry_set (g, "ep", "4", NULL) == 0
            && mg_geometry_set (g, "etp", "1", &err) == 0,
        "sizes are set by number and by text %s", err.text);
    is_int (mg_geometry_world (g), 24, "world");
    is_int (mg_geometry_size (g, MG_DENSE, MG_AXIS_TP), 2, "tp");
    is_int (mg_geometry_size (g, MG_DENSE, MG_AXIS_PP), 3, "pp");
    is_int (mg_geometry_size (g, MG_DENSE, MG_AXIS_DP), 4, "dp is what is left");
    is_int (mg_geometry_size (g, MG_EXPERT, MG_AXIS_EP), 4, "ep");
    is_int (mg_geometry_size (g, MG_EXPERT, MG_AXIS_TP), 1, "etp");
    is_int (mg_geometry_size (g, MG_EXPERT, MG_AXIS_DP), 2, "edp");
    is_int (mg_geometry_size (g, MG_DENSE, MG_AXIS_EP), 1, "no ep in the dense grid");
    is_int (mg_geometry_virtual_stages (g), 2, "virtual stages");
    is_int (mg_geometry_validate (g, &err), 0, "the rules are kept");
    mg_geometry_destroy (g);
}

struct seen {
    int count;
    char rule[40];
};

static void note (void *arg, const char *rule, const char *text)
{
    struct seen *seen = arg;

    if (seen->count++ == 0)
        strncpy (seen->rule, rule, sizeof (seen->rule) - 1);
    diag ("%s: %s", rule, text);
}

static void test_rules (void)
{
    struct mg_geometry *g = mg_geometry_create (NULL);
    struct mg_error err = { "" };
    struct seen seen = { 0 };

    mg_geometry_set_size (g, "world", 12, NULL);
    mg_geometry_set_size (g, "tp", 4, NULL);
    mg_geometry_set_size (g, "pp", 2, NULL);
    is_int (mg_geometry_check (g, note, &seen), 1, "one rule is broken");
    is_int (seen.count, 1, "and reported once");
    is_str (seen.rule, "world-dense", "by its name");
    is_int (mg_geometry_check (g, NULL, NULL), 1, "also to nobody");
    errno = 0;
    is_int (mg_geometry_validate (g, &err), -1, "validate refuses");
    is_int (errno, EINVAL, "with EINVAL");
    is_str (err.text, "12 tasks cannot hold tp 4 x cp 1 x pp 2 = 8; use -n 8 or -n 16",
            "and the rule's text");
    mg_geometry_destroy (g);
}

static void test_environment (void)
{
    struct mg_geometry *g = mg_geometry_create (NULL);
    struct mg_error err = { "" };

    clear_environment ();
    mg_geometry_set_size (g, "tp", 8, NULL);
    is_int (mg_geometry_set_environment (g, &err), 0, "an empty environment");
    is_int (mg_geometry_size (g, MG_DENSE, MG_AXIS_TP), 8, "changes nothing");
    setenv ("MEGATRON_TP_SIZE", "2", 1);
    setenv ("MEGATRON_PP_SIZE", "x", 1);
    is_int (mg_geometry_set_environment (g, &err), -1, "a value that is none is refused");
    ok (strstr (err.text, "MEGATRON_PP_SIZE"), "by name: %s", err.text);
    is_int (mg_geometry_size (g, MG_DENSE, MG_AXIS_TP), 8, "and nothing is changed");
    setenv ("MEGATRON_PP_SIZE", "4", 1);
    setenv ("MEGATRON_VPP_SIZE", "1", 1);
    setenv ("MEGATRON_RANK_ORDER", "tp-cp-ep-pp-dp", 1);
    is_int (mg_geometry_set_environment (g, &err), 0, "what the plugin says: %s", err.text);
    is_int (mg_geometry_size (g, MG_DENSE, MG_AXIS_TP), 2, "tp");
    is_int (mg_geometry_size (g, MG_DENSE, MG_AXIS_PP), 4, "pp");
    is_int (mg_geometry_virtual_stages (g), 1, "no virtual stages");
    clear_environment ();
    mg_geometry_destroy (g);
}

static void test_badparam (void)
{
    static const struct {
        const char *field, *text;
        int errnum;
    } bad[] = {
        { "tp", "0", ERANGE },          { "tp", "16777217", ERANGE }, { "tp", "", EINVAL },
        { "tp", "2x", EINVAL },         { "bogus", "2", ENOENT },     { NULL, "2", EINVAL },
        { "tp", NULL, EINVAL },         { "order", NULL, EINVAL },
        { "order", "tp-cp-ep-dp-pp-tp-cp-ep-dp-pp-tp", EINVAL },
    };
    struct mg_geometry *g = mg_geometry_create (NULL);
    struct mg_error err = { "" };

    for (size_t i = 0; i < sizeof (bad) / sizeof (bad[0]); i++) {
        errno = 0;
        ok (mg_geometry_set (g, bad[i].field, bad[i].text, &err) == -1
                && errno == bad[i].errnum,
            "%s=%s is refused: %s", bad[i].field ? bad[i].field : "NULL",
            bad[i].text ? bad[i].text : "NULL", err.text);
    }
    is_int (mg_geometry_set_size (g, "order", 1, &err), -1, "order is no number");
    is_int (mg_geometry_set_size (g, "tp", -1, &err), -1, "nor a size negative");
    is_int (mg_geometry_set_size (NULL, "tp", 1, &err), -1, "no geometry");
    is_int (mg_geometry_validate (NULL, &err), -1, "none to validate");
    is_int (mg_geometry_set_environment (NULL, &err), -1, "none to set");
    is_int (mg_geometry_size (g, (enum mg_layout)2, MG_AXIS_TP), 0, "no such layout");
    is_int (mg_geometry_size (g, MG_DENSE, (enum mg_axis)-1), 0, "no such axis");
    is_int (mg_geometry_size (g, MG_DENSE, MG_NUM_AXES), 0, "nor this one");
    is_str (mg_axis_name (MG_AXIS_PP), "pp", "an axis has a name");
    is_str (mg_axis_name (MG_NUM_AXES), "unknown", "one that is none has not");
    errno = 77;
    mg_geometry_destroy (NULL);
    mg_geometry_destroy (g);
    is_int (errno, 77, "destroy takes NULL and keeps errno");
}

int main (void)
{
    test_sizes ();
    test_rules ();
    test_environment ();
    test_badparam ();
    return done_testing ();
}
