/* environment.c - the job's sizes from variables that a test sets */

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "libcore/topo/environment.h"
#include "tests/tap/tap.h"

static const char *const (*variables)[2]; /* name and value, closed by NULL */

static char *get (const char *name)
{
    for (int i = 0; variables[i][0]; i++) {
        if (strcmp (variables[i][0], name) == 0)
            return (char *)variables[i][1];
    }
    return NULL;
}

static void test_read (void)
{
    static const char *const none[][2] = { { NULL } };
    static const char *const all[][2] = {
        { "MEGATRON_TP_SIZE", "2" },  { "MEGATRON_CP_SIZE", "3" },  { "MEGATRON_EP_SIZE", "4" },
        { "MEGATRON_ETP_SIZE", "5" }, { "MEGATRON_PP_SIZE", "6" },  { "MEGATRON_VPP_SIZE", "7" },
        { "MEGATRON_RANK_ORDER", "tp-cp-ep-pp-dp" }, { NULL },
    };
    static const char *const two[][2] = {
        { "MEGATRON_PP_SIZE", "8" }, { "MEGATRON_TP", "9" }, { "MEGATRON_VPP_SIZE", "1" },
        { NULL },
    };
    struct mg_error err = { "" };
    struct geometry g;
    unsigned given = 77;

    geometry_init (&g);
    g.tp = 4;
    variables = none;
    ok (environment_read (get, &g, &given, &err) == 0 && given == 0 && g.tp == 4,
        "without variables nothing changes %s", err.text);
    variables = all;
    ok (environment_read (get, &g, &given, &err) == 0
            && given == (1u << GEOMETRY_NUM_FIELDS) - 1, "every variable is read %s", err.text);
    ok (g.tp == 2 && g.cp == 3 && g.ep == 4 && g.etp == 5 && g.pp == 6 && g.vpp == 7
            && strcmp (g.order, "tp-cp-ep-pp-dp") == 0, "each into its own field");
    variables = two;
    ok (environment_read (get, &g, &given, NULL) == 0
            && given == (1u << GEOMETRY_PP | 1u << GEOMETRY_VPP), "two of them");
    ok (g.pp == 8 && g.tp == 2, "leave the others, and what the plugin reads is none of them");
}

static void test_wrong (void)
{
    static const struct {
        const char *const variables[3][2];
        int errnum;
    } rows[] = {
        { { { "MEGATRON_TP_SIZE", "4" }, { "MEGATRON_PP_SIZE", "two" } }, EINVAL },
        { { { "MEGATRON_TP_SIZE", "4" }, { "MEGATRON_PP_SIZE", "" } }, EINVAL },
        { { { "MEGATRON_TP_SIZE", "4" }, { "MEGATRON_PP_SIZE", "0" } }, ERANGE },
        { { { "MEGATRON_TP_SIZE", "4" }, { "MEGATRON_RANK_ORDER", "tp-cp-ep-dp-pp-tp-cp-ep-dp-pp-"
                                                                  "tp-cp" } }, EINVAL },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct mg_error err = { "" };
        struct geometry g;

        geometry_init (&g);
        variables = rows[i].variables;
        ok (environment_read (get, &g, NULL, &err) < 0 && errno == rows[i].errnum
                && strstr (err.text, rows[i].variables[1][0]), "%s", err.text);
        is_int (g.tp, 1, "and the geometry is as it was");
    }
}

int main (void)
{
    test_read ();
    test_wrong ();
    return done_testing ();
}
