/* contract.c - the environment of a task against numbers worked out by hand */

#include <stdio.h>
#include <string.h>

#include "libcore/topo/environment.h"
#include "plugin/contract.h"
#include "plugin/options.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

static const struct contract_var *find (const char *name)
{
    for (int i = 0; i < CONTRACT_NUM_VARS; i++) {
        if (strcmp (contract_vars[i].name, name) == 0)
            return &contract_vars[i];
    }
    bail_out ("%s is not in the table", name);
}

static void test_table (void)
{
    ok (find (contract_mark), "%s marks a task", contract_mark);
    for (int i = 0; i < CONTRACT_NUM_VARS; i++) {
        const char *name = contract_vars[i].name;
        int clash = 0;

        for (int j = 0; j < i; j++)
            clash += strcmp (name, contract_vars[j].name) == 0;
        for (int j = 0; j < OPTION_NUM; j++)
            clash += strcmp (name, options_table[j].env) == 0;
        is_int (clash, 0, "%s is written once and never read", name);
    }
}

static const struct contract *written;

static char *get_written (const char *name)
{
    static char value[CONTRACT_VALUE_MAX];

    return contract_value (written, find (name), value) ? value : NULL;
}

/* 16 ranks: dense tp 2 x cp 2 x dp 2 x pp 2, expert etp 1 x ep 4 x edp 2 x pp 2 (the worked
 * example of Megatron-LM's rank generator); rank 13 = 1 + 2 * 0 + 4 * 1 + 8 * 1.
 */
static void test_values (void)
{
    static const struct {
        const char *name, *want;
    } cases[] = {
        { "MEGATRON_WORLD_SIZE", "16" },   { "MEGATRON_RANK", "13" },
        { "MEGATRON_TP_SIZE", "2" },       { "MEGATRON_TP_RANK", "1" },
        { "MEGATRON_CP_SIZE", "2" },       { "MEGATRON_CP_RANK", "0" },
        { "MEGATRON_DP_SIZE", "2" },       { "MEGATRON_DP_RANK", "1" },
        { "MEGATRON_PP_SIZE", "2" },       { "MEGATRON_PP_RANK", "1" },
        { "MEGATRON_EP_SIZE", "4" },       { "MEGATRON_EP_RANK", "1" },
        { "MEGATRON_ETP_SIZE", "1" },      { "MEGATRON_ETP_RANK", "0" },
        { "MEGATRON_EDP_SIZE", "2" },      { "MEGATRON_EDP_RANK", "1" },
        { "MEGATRON_VPP_SIZE", "3" },      { "MEGATRON_RANK_ORDER", "tp-cp-ep-dp-pp" },
        { "RANK", "13" },                  { "WORLD_SIZE", "16" },
        { "LOCAL_RANK", "5" },             { "LOCAL_WORLD_SIZE", "8" },
        { "MASTER_ADDR", "n0" },           { "MASTER_PORT", "29501" },
        { "MEGATRON_CUDA_CONNECTIONS", "1" }, { "CUDA_DEVICE_MAX_CONNECTIONS", "1" },
    };
    struct geometry g, read;
    struct grid *grid;
    struct contract c = { .rank = 13, .local_rank = 5, .local_size = 8, .master_addr = "n0",
                          .master_port = 29501 };

    geometry_init (&g);
    g.world = 16;
    g.tp = g.cp = g.pp = 2;
    g.ep = 4;
    g.etp = 1;
    g.vpp = 3;
    if (!(grid = grid_create (&g, NULL)))
        bail_out ("no grid");
    c.grid = grid;
    is_int (COUNT (cases), CONTRACT_NUM_VARS, "every variable is tried");
    written = &c;
    geometry_init (&read);
    ok (environment_read (get_written, &read, NULL, NULL) == 0 && read.tp == g.tp
            && read.cp == g.cp && read.pp == g.pp && read.ep == g.ep && read.etp == g.etp
            && read.vpp == g.vpp && strcmp (read.order, g.order) == 0,
        "what a task reads is what the plugin has written");
    for (size_t i = 0; i < COUNT (cases); i++) {
        char value[CONTRACT_VALUE_MAX] = "";

        is_int (contract_value (&c, find (cases[i].name), value), 1, "%s: has a value",
                cases[i].name);
        is_str (value, cases[i].want, "%s", cases[i].name);
    }
    grid_destroy (grid);
}

/* What changes with the geometry. */
static void test_variants (void)
{
    static const struct {
        int tp, cp, vpp;
        const char *order;
        int connections;
        const char *want_order, *want_vpp;
    } cases[] = {
        { 1, 1, 0, "tp-cp-ep-dp-pp", 0, "tp-cp-ep-dp-pp", "1" },
        { 2, 1, 1, "tp-cp-ep-pp-dp", 1, "tp-cp-ep-pp-dp", "1" },
        { 1, 2, 0, "cp-dp", 1, "cp-dp-tp-pp-ep", "1" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct contract c = { .local_size = 4, .master_addr = "n0" };
        char value[CONTRACT_VALUE_MAX];
        struct geometry g;
        struct grid *grid;

        geometry_init (&g);
        g.world = 4;
        g.tp = cases[i].tp;
        g.cp = cases[i].cp;
        g.vpp = cases[i].vpp;
        strcpy (g.order, cases[i].order);
        if (!(grid = grid_create (&g, NULL)))
            bail_out ("no grid");
        c.grid = grid;
        is_int (contract_value (&c, find ("CUDA_DEVICE_MAX_CONNECTIONS"), value),
                cases[i].connections, "tp %d cp %d: connections", g.tp, g.cp);
        is_int (contract_value (&c, find ("MEGATRON_CUDA_CONNECTIONS"), value),
                cases[i].connections, "and the mark of them");
        contract_value (&c, find ("MEGATRON_RANK_ORDER"), value);
        is_str (value, cases[i].want_order, "order %s in full", g.order);
        contract_value (&c, find ("MEGATRON_VPP_SIZE"), value);
        is_str (value, cases[i].want_vpp, "vpp %d", g.vpp);
        grid_destroy (grid);
    }
}

static void test_long_address (void)
{
    struct contract c = { .rank = 0 };
    char addr[CONF_ADDR_MAX], value[CONTRACT_VALUE_MAX];
    struct geometry g;
    struct grid *grid;

    geometry_init (&g);
    g.world = 1;
    grid = grid_create (&g, NULL);
    memset (addr, 'a', sizeof (addr) - 1);
    addr[sizeof (addr) - 1] = '\0';
    c.grid = grid;
    c.master_addr = addr;
    contract_value (&c, find ("MASTER_ADDR"), value);
    is_str (value, addr, "the longest address is whole");
    grid_destroy (grid);
}

/* What the user keeps, and what an srun inside a task does not take along. */
static void test_kept (void)
{
    static const char *const kept[] = { "MASTER_ADDR", "MASTER_PORT",
                                        "CUDA_DEVICE_MAX_CONNECTIONS" };
    const struct contract_var *mark = find ("MEGATRON_CUDA_CONNECTIONS");
    const struct contract_var *connections = find ("CUDA_DEVICE_MAX_CONNECTIONS");
    int count = 0, handed_on = 0;

    for (int i = 0; i < CONTRACT_NUM_VARS; i++) {
        count += contract_vars[i].unless != NULL;
        handed_on += contract_vars[i].hand_on;
    }
    for (size_t i = 0; i < COUNT (kept); i++)
        is_str (find (kept[i])->unless, kept[i], "a %s of the user's stays", kept[i]);
    is_str (mark->unless, connections->name, "and is not marked as the plugin's");
    ok (mark < connections, "the mark is written first");
    is_int (count, COUNT (kept) + 1, "nothing else stays");
    ok (handed_on == 2 && connections->hand_on && mark->hand_on,
        "no place of a task is handed on, nor the address of its rank 0");
}

static void test_loopback (void)
{
    static const struct {
        const char *addr;
        int want;
    } cases[] = {
        { "localhost", 1 }, { "LocalHost", 1 }, { "127.0.0.1", 1 }, { "127.9.9.9", 1 },
        { "::1", 1 },       { "", 0 },          { "n0", 0 },        { "localhost.example.org", 0 },
        { "10.127.0.1", 0 }, { "::11", 0 },     { "1277", 0 },
    };

    for (size_t i = 0; i < COUNT (cases); i++)
        is_int (contract_is_loopback (cases[i].addr), cases[i].want, "loopback: \"%s\"",
                cases[i].addr);
}

static void test_port (void)
{
    int same = 0, seen = 0;
    static char taken[CONF_PORT_SPAN];

    for (unsigned job = 1; job <= 300; job++) {
        for (unsigned step = 0; step < 4; step++) {
            int port = contract_master_port (29500, job, step);

            if (port < 29500 || port >= 29500 + CONF_PORT_SPAN)
                bail_out ("port %d is out of range", port);
            seen += !taken[port - 29500];
            taken[port - 29500] = 1;
        }
        same += contract_master_port (29500, job, 0) == contract_master_port (29500, job, 1)
            || contract_master_port (29500, job, 0) == contract_master_port (29500, job + 1, 0);
    }
    ok (1, "every port is in its range");
    is_int (same, 0, "neighbouring steps and jobs get other ports");
    // 1200 throws into 2048 boxes hit 2048 (1 - exp (-1200 / 2048)) = 908 on average
    ok (seen > 800, "ports are spread: %d of 1200", seen);
    is_int (contract_master_port (29500, 7, 3), contract_master_port (29500, 7, 3),
            "one step, one port");
    is_int (contract_master_port (1024, 7, 3) + 28476, contract_master_port (29500, 7, 3),
            "the base is added");
}

int main (void)
{
    test_table ();
    test_values ();
    test_variants ();
    test_long_address ();
    test_kept ();
    test_loopback ();
    test_port ();
    return done_testing ();
}
