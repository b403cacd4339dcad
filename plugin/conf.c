/* conf.c - keys of plugstack.conf: one table, one parser */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/topo/order.h"
#include "plugin/conf.h"

static int set_mpi (struct conf *conf, const char *name, const char *text,
                    struct mg_error *err)
{
    char printable[40];

    if (strcmp (text, "pmix") != 0 && strcmp (text, "none") != 0) {
        order_copy_printable (printable, text, sizeof (printable));
        return mg_error_set (err, EINVAL, "%s: \"%s\" is not pmix or none", name, printable);
    }
    conf->mpi_pmix = strcmp (text, "pmix") == 0;
    return 0;
}

static int set_kill_on_bad_exit (struct conf *conf, const char *name, const char *text,
                                 struct mg_error *err)
{
    return parse_bool (name, text, &conf->kill_on_bad_exit, err);
}

static int set_master_port_base (struct conf *conf, const char *name, const char *text,
                                 struct mg_error *err)
{
    return parse_int (name, text, 1024, 65536 - CONF_PORT_SPAN, &conf->master_port_base, err);
}

/* The value ends up in the environment of every task: a host name or an address, with
 * "%n" in it or not, and nothing that a shell script would trip over.
 */
static int set_master_addr (struct conf *conf, const char *name, const char *text,
                            struct mg_error *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.:_-%";
    char printable[40];
    size_t len = strlen (text);

    order_copy_printable (printable, text, sizeof (printable));
    if (len == 0 || text[strspn (text, allowed)] != '\0')
        return mg_error_set (err, EINVAL, "%s: \"%s\" is not a host name or an address",
                             name, printable);
    for (const char *p = strchr (text, '%'); p; p = strchr (p + 1, '%')) {
        if (p[1] != 'n')
            return mg_error_set (err, EINVAL, "%s: \"%s\" has a %% that is not %%n", name,
                                 printable);
    }
    if (len >= sizeof (conf->master_addr))
        return mg_error_set (err, ERANGE, "%s: %zu characters are too many, want at most %zu",
                             name, len, sizeof (conf->master_addr) - 1);
    memcpy (conf->master_addr, text, len + 1);
    return 0;
}

const struct conf_key conf_keys[CONF_NUM_KEYS] = {
    { .name = "mpi", .value = "pmix|none", .initial = "pmix", .set = set_mpi },
    { .name = "kill_on_bad_exit", .value = "yes|no", .initial = "yes",
      .set = set_kill_on_bad_exit },
    { .name = "master_port_base", .value = "PORT", .initial = "29500",
      .set = set_master_port_base },
    { .name = "master_addr", .value = "ADDRESS", .initial = "%n", .set = set_master_addr },
};

void conf_init (struct conf *conf)
{
    memset (conf, 0, sizeof (*conf));
    for (int i = 0; i < CONF_NUM_KEYS; i++)
        conf_keys[i].set (conf, conf_keys[i].name, conf_keys[i].initial, NULL);
}

/* The names of all keys, for a message. */
static void list_keys (char *text, size_t n)
{
    size_t len = 0;

    text[0] = '\0';
    for (int i = 0; i < CONF_NUM_KEYS && len < n; i++)
        len += snprintf (text + len, n - len, "%s%s", i ? ", " : "", conf_keys[i].name);
}

int conf_set (struct conf *conf, const char *arg, struct mg_error *err)
{
    const char *equals = strchr (arg, '=');
    size_t len = equals ? (size_t)(equals - arg) : strlen (arg);
    char keys[200], printable[40];

    for (int i = 0; i < CONF_NUM_KEYS && equals; i++) {
        const struct conf_key *key = &conf_keys[i];

        if (strlen (key->name) == len && strncmp (key->name, arg, len) == 0)
            return key->set (conf, key->name, equals + 1, err);
    }
    order_copy_printable (printable, arg, len < 39 ? len + 1 : sizeof (printable));
    list_keys (keys, sizeof (keys));
    return mg_error_set (err, EINVAL, "\"%s\" is not a key of this plugin, want key=value "
                         "with one of %s", printable, keys);
}

int conf_master_addr (const struct conf *conf, const char *node, char *addr, size_t n,
                      struct mg_error *err)
{
    size_t len = 0, node_len = strlen (node);

    for (const char *p = conf->master_addr; *p; p++) {
        bool is_node = *p == '%'; // set_master_addr() let nothing but 'n' follow

        if (len + (is_node ? node_len : 1) >= n)
            return mg_error_set (err, ENAMETOOLONG, "MASTER_ADDR of node %.64s is longer than "
                                 "%zu characters", node, n - 1);
        if (is_node) {
            memcpy (addr + len, node, node_len);
            len += node_len;
            p++;
        } else
            addr[len++] = *p;
    }
    addr[len] = '\0';
    return 0;
}
