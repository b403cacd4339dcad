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
    ok (conf_set (&conf, "master_addr=%n-ib.example.org", NULL) == 0, "address by node");
    ok (conf_set (&conf, "master_addr=fd00::1", NULL) == 0, "a plain address");
}

static void test_bad (void)
{
    static const struct {
        const char *arg;
        int errnum;
        const char *text; /* must be in the message */
    } cases[] = {
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
        { "master_addr=a\nb", EINVAL, "a?b" },
        { "mpi", EINVAL, "\"mpi\" is not a key" },
        { "", EINVAL, "\"\" is not a key" },
        { "=pmix", EINVAL, "is not a key" },
        { "mp=pmix", EINVAL, "\"mp\" is not a key of this plugin, want key=value with one of "
                             "mpi, kill_on_bad_exit, master_port_base, master_addr" },
        { "mpii=pmix", EINVAL, "\"mpii\"" },
        { "a-key-with-a-name-that-is-far-too-long-to-be-shown=1", EINVAL, "a-key-with" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct conf conf, before;
        struct mg_error err = { .text = "" };
        int rc;

        conf_init (&conf);
        before = conf;
        errno = 0;
        rc = conf_set (&conf, cases[i].arg, &err);
        ok (rc == -1 && errno == cases[i].errnum, "%s: refused", cases[i].arg);
        if (!ok (strstr (err.text, cases[i].text), "%s: message", cases[i].arg))
            diag ("%s", err.text);
        ok (!strchr (err.text, '\n'), "%s: one line", cases[i].arg);
        ok (memcmp (&conf, &before, sizeof (conf)) == 0, "%s: nothing changed", cases[i].arg);
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

int main (void)
{
    test_defaults ();
    test_good ();
    test_bad ();
    test_addr_length ();
    test_master_addr ();
    return done_testing ();
}
