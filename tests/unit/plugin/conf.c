/* conf.c - keys of plugstack.conf: each value, each limit, each wrong word by name */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "plugin/conf.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

static void test_defaults (void)
{
    struct conf conf;

    conf_init (&conf);
    ok (conf.mpi_pmix, "srun's MPI type is set by default");
    ok (conf.kill_on_bad_exit, "so is --kill-on-bad-exit");
    is_int (conf.master_port_base, 29500, "default port");
    is_str (conf.master_addr, "%n", "default address: the node");
    for (int i = 0; i < CONF_NUM_KEYS; i++) {
        char arg[80];

        snprintf (arg, sizeof (arg), "%s=%s", conf_keys[i].name, conf_keys[i].initial);
        ok (conf_set (&conf, arg, NULL) == 0, "%s, the default, can be written", arg);
        ok (strlen (conf_keys[i].value) > 0, "and its value described");
    }
}

static void test_good (void)
{
    struct conf conf;

    conf_init (&conf);
    ok (conf_set (&conf, "mpi=none", NULL) == 0 && !conf.mpi_pmix, "mpi=none");
    ok (conf_set (&conf, "mpi=pmix", NULL) == 0 && conf.mpi_pmix, "mpi=pmix");
    ok (conf_set (&conf, "kill_on_bad_exit=no", NULL) == 0 && !conf.kill_on_bad_exit,
        "kill_on_bad_exit=no");
    ok (conf_set (&conf, "kill_on_bad_exit=1", NULL) == 0 && conf.kill_on_bad_exit,
        "kill_on_bad_exit=1");
    ok (conf_set (&conf, "master_port_base=1024", NULL) == 0
        && conf.master_port_base == 1024, "least port");
    ok (conf_set (&conf, "master_port_base=63488", NULL) == 0
        && conf.master_port_base + CONF_PORT_SPAN == 65536, "highest port");
    ok (conf.gpus == CONF_GPUS_OPTIONAL && conf.tasks_per_gpu == 1 && conf.nvlink_domain == 0,
        "GPUs are optional, one a task, their NVLink is not known");
    ok (conf_set (&conf, "gpus=required", NULL) == 0 && conf.gpus == CONF_GPUS_REQUIRED,
        "gpus=required");
    ok (conf_set (&conf, "gpus=off", NULL) == 0 && conf.gpus == CONF_GPUS_OFF, "gpus=off");
    ok (conf_set (&conf, "tasks_per_gpu=64", NULL) == 0 && conf.tasks_per_gpu == 64,
        "most tasks a GPU");
    ok (conf_set (&conf, "nvlink_domain=72", NULL) == 0 && conf.nvlink_domain == 72,
        "an NVLink domain");
    ok (conf_set (&conf, "nvlink_domain=", NULL) == 0 && conf.nvlink_domain == 0,
        "none again");
    ok (conf_set (&conf, "master_addr=%n-ib.example.org", NULL) == 0, "address by node");
    ok (conf_set (&conf, "master_addr=fd00::1", NULL) == 0, "a plain address");
}

static const struct {
    const char *arg;
    int errnum;
    const char *text; /* must be in the message */
} bad_args[] = {
    { "mpi=", EINVAL, "mpi: \"\" is not pmix or none" },
    { "mpi=pmi2", EINVAL, "mpi: \"pmi2\"" },
    { "mpi=PMIX", EINVAL, "mpi: \"PMIX\"" },
    { "kill_on_bad_exit=maybe", EINVAL, "kill_on_bad_exit: \"maybe\"" },
    { "master_port_base=1023", ERANGE, "master_port_base: 1023" },
    { "master_port_base=63489", ERANGE, "want 1024 to 63488" },
    { "master_port_base=high", EINVAL, "master_port_base: \"high\"" },
    { "master_addr=", EINVAL, "master_addr" },
    { "master_addr=a b", EINVAL, "master_addr: \"a b\"" },
    { "master_addr=$(id)", EINVAL, "master_addr" },
    { "master_addr=%h", EINVAL, "%h" },
    { "master_addr=n%", EINVAL, "n%" },
    { "master_addr=%%n", EINVAL, "%%n" },
    { "master_addr=a\nb", EINVAL, "master_addr: \"a\\x0ab\" has a control" },
    { "mpi", EINVAL, "\"mpi\" is not a key of this plugin, want key=value" },
    { "", EINVAL, "\"\" is not a key" },
    { "=pmix", EINVAL, "is not a key" },
    { "mp=pmix", EINVAL, "\"mp\" is not a key of this plugin" },
    { "default_tp=0", ERANGE, "default_tp: 0 is out of range" },
    { "default_tp=x", EINVAL, "default_tp: \"x\"" },
    { "default_tp=0000000000000000000000000000000000001", ERANGE, "too long" },
    { "default_order=tp-tp", EINVAL, "default_order: order \"tp-tp\"" },
    { "default_dp=2", EINVAL, "\"default_dp\" is not a key" },
    { "default_placement=warn", EINVAL, "is not a key" },
    { "max_tp=0", ERANGE, "max_tp: 0" },
    { "max_vpp=1 2", EINVAL, "max_vpp: \"1 2\"" },
    { "max_order=tp", EINVAL, "is not a key" },
    { "placement=", EINVAL, "placement: \"\" is not allow, warn or refuse" },
    { "placement=Warn", EINVAL, "placement: \"Warn\"" },
    { "min_placement=never\n", EINVAL, "min_placement: \"never\\x0a\" has a control" },
    { "max_tp=8\r", EINVAL, "max_tp: \"8\\x0d\" has a control character in it" },
    { "max_pp=8\t", EINVAL, "max_pp: \"8\\x09\"" },
    { "master_port_base=\x01" "2000", EINVAL, "master_port_base: \"\\x012000\"" },
    { "kill_on_bad_exit=yes\r", EINVAL, "kill_on_bad_exit: \"yes\\x0d\"" },
    { "mpi=pmix\x7f", EINVAL, "mpi: \"pmix\\x7f\"" },
    { "default_tp=2\033[1m", EINVAL, "default_tp: \"2\\x1b[1m\"" },
    { "gpus=", EINVAL, "gpus: \"\" is not off, optional or required" },
    { "gpus=yes", EINVAL, "gpus: \"yes\" is not off, optional or required" },
    { "gpus=required\r", EINVAL, "gpus: \"required\\x0d\" has a control" },
    { "tasks_per_gpu=", EINVAL, "tasks_per_gpu: \"\"" },
    { "tasks_per_gpu=0", ERANGE, "tasks_per_gpu: 0 is out of range, want 1 to 64" },
    { "tasks_per_gpu=65", ERANGE, "tasks_per_gpu: 65" },
    { "nvlink_domain=0", ERANGE, "nvlink_domain: 0 is out of range" },
    { "nvlink_domain=8x", EINVAL, "nvlink_domain: \"8x\"" },
    { "mpii=pmix", EINVAL, "\"mpii\"" },
    { "a-key-with-a-name-that-is-far-too-long-to-be-shown=1", EINVAL, "a-key-with" },
};

static void test_bad (void)
{
    for (size_t i = 0; i < COUNT (bad_args); i++) {
        struct conf conf, before;
        struct mg_error err = { .text = "" };
        int rc;

        conf_init (&conf);
        before = conf;
        errno = 0;
        rc = conf_set (&conf, bad_args[i].arg, &err);
        ok (rc == -1 && errno == bad_args[i].errnum, "%s: refused", bad_args[i].arg);
        if (!ok (strstr (err.text, bad_args[i].text), "%s: message", bad_args[i].arg))
            diag ("%s", err.text);
        ok (!strpbrk (err.text, "\n\r\t\x01\x1b\x7f"), "%s: one line, no control character",
            bad_args[i].arg);
        ok (memcmp (&conf, &before, sizeof (conf)) == 0, "%s: nothing changed",
            bad_args[i].arg);
    }
}

static void test_addr_length (void)
{
    char arg[CONF_ADDR_MAX + 20] = "master_addr=";
    size_t key = strlen (arg);
    struct conf conf;

    conf_init (&conf);
    memset (arg + key, 'a', CONF_ADDR_MAX - 1);
    arg[key + CONF_ADDR_MAX - 1] = '\0';
    ok (conf_set (&conf, arg, NULL) == 0, "an address of %d characters", CONF_ADDR_MAX - 1);
    arg[key + CONF_ADDR_MAX - 1] = 'a';
    errno = 0;
    ok (conf_set (&conf, arg, NULL) == -1 && errno == ERANGE, "one more is too long");
}

static void test_master_addr (void)
{
    struct conf conf;
    struct mg_error err;
    char addr[12];

    conf_init (&conf);
    ok (conf_master_addr (&conf, "n0", addr, sizeof (addr), NULL) == 0, "default");
    is_str (addr, "n0", "is the node");
    conf_set (&conf, "master_addr=%n-ib.%n", NULL);
    ok (conf_master_addr (&conf, "n11", addr, sizeof (addr), NULL) == 0, "exact fit");
    is_str (addr, "n11-ib.n11", "every %%n is the node");
    ok (conf_master_addr (&conf, "n11", addr, 11, NULL) == 0, "11 bytes for 10 characters");
    errno = 0;
    ok (conf_master_addr (&conf, "n11", addr, 10, &err) == -1 && errno == ENAMETOOLONG,
        "10 bytes are not enough");
    ok (strstr (err.text, "n11"), "and the message names the node");
    conf_set (&conf, "master_addr=127.0.0.1", NULL);
    ok (conf_master_addr (&conf, "n11", addr, sizeof (addr), NULL) == 0, "no node in it");
    is_str (addr, "127.0.0.1", "as written");
}

/* An etp that nobody gave is tp: it has the limit where there are experts' ranks. */
static void test_etp (void)
{
    static const struct {
        int tp, ep, etp;
        bool good;
    } cases[] = {
        { 4, 1, 0, true },  { 4, 2, 0, false }, { 2, 2, 0, true }, { 4, 2, 2, true },
        { 4, 1, 4, false }, { 2, 1, 4, false }, { 4, 1, 1, true },
    };
    struct conf conf;

    conf_init (&conf);
    conf_set (&conf, "max_etp=2", NULL);
    for (size_t i = 0; i < COUNT (cases); i++) {
        struct geometry g;

        geometry_init (&g);
        g.tp = cases[i].tp;
        g.ep = cases[i].ep;
        g.etp = cases[i].etp;
        is_int (conf_check_limits (&conf, &g, NULL), cases[i].good ? 0 : -1,
                "tp %d, ep %d, etp %d", g.tp, g.ep, g.etp);
    }
}

static void test_policy (void)
{
    static const char *const sizes[] = { "tp", "cp", "ep", "etp", "pp", "vpp" };
    struct mg_error err;
    struct options o;
    struct conf conf;

    for (size_t i = 0; i < COUNT (sizes); i++) {
        struct geometry g;
        char arg[40];

        conf_init (&conf);
        geometry_init (&g);
        snprintf (arg, sizeof (arg), "max_%s=3", sizes[i]);
        ok (conf_set (&conf, arg, NULL) == 0, "%s", arg);
        geometry_set (&g, sizes[i], "x", "3", NULL);
        ok (conf_check_limits (&conf, &g, &err) == 0, "%s at it", sizes[i]);
        geometry_set (&g, sizes[i], "x", "4", NULL);
        errno = 0;
        ok (conf_check_limits (&conf, &g, &err) == -1 && errno == EDOM
            && strstr (err.text, sizes[i]) == err.text && strstr (err.text, "limit of 3"),
            "above it: %s", err.text);
        snprintf (arg, sizeof (arg), "max_%s=", sizes[i]);
        ok (conf_set (&conf, arg, NULL) == 0 && conf_check_limits (&conf, &g, NULL) == 0,
            "no limit any more");
        snprintf (arg, sizeof (arg), "default_%s=3", sizes[i]);
        ok (conf_set (&conf, arg, NULL) == 0, "%s", arg);
        for (int id = 0; id < OPTION_NUM; id++)
            is_str (conf.preset[id], strcmp (options_table[id].field, sizes[i]) ? "" : "3",
                    "which sets %s alone", sizes[i]);
    }
    conf_init (&conf);
    options_init (&o);
    is_int (conf_placement (&conf, &o), PLACEMENT_WARN, "placement: a warning by default");
    options_set (&o, OPTION_PLACEMENT, OPTION_TYPED, "allow");
    is_int (conf_placement (&conf, &o), PLACEMENT_ALLOW, "the job's own");
    conf_set (&conf, "placement=refuse", NULL);
    is_int (conf_placement (&conf, &o), PLACEMENT_ALLOW, "also against the site's default");
    conf_set (&conf, "min_placement=warn", NULL);
    is_int (conf_placement (&conf, &o), PLACEMENT_WARN, "but not below its least");
    options_init (&o);
    is_int (conf_placement (&conf, &o), PLACEMENT_REFUSE, "nothing said: the site's");
}

int main (void)
{
    test_defaults ();
    test_etp ();
    test_policy ();
    test_good ();
    test_bad ();
    test_addr_length ();
    test_master_addr ();
    return done_testing ();
}
