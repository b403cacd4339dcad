/* conf.c - keys of plugstack.conf: one table, one parser
 *
 * A key that is unknown, or a value that is wrong, changes nothing, so that a mistake of the site
 * never stops a job.  Values hold no control characters, since they go into the environment of
 * tasks and into messages.
 */

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

static int set_policy (enum placement *placement, const char *name, const char *text,
                       struct mg_error *err)
{
    struct options options;

    if (options_check_value (OPTION_PLACEMENT, name, text, err) < 0)
        return -1;
    options_init (&options);
    options_set (&options, OPTION_PLACEMENT, OPTION_SITE, text);
    *placement = options.placement;
    return 0;
}

static int set_placement (struct conf *conf, const char *name, const char *text,
                          struct mg_error *err)
{
    return set_policy (&conf->placement, name, text, err);
}

static int set_min_placement (struct conf *conf, const char *name, const char *text,
                              struct mg_error *err)
{
    return set_policy (&conf->min_placement, name, text, err);
}

static int set_gpus (struct conf *conf, const char *name, const char *text,
                     struct mg_error *err)
{
    static const char *const names[] = {
        [CONF_GPUS_OFF] = "off",
        [CONF_GPUS_OPTIONAL] = "optional",
        [CONF_GPUS_REQUIRED] = "required",
    };
    char printable[40];

    for (int i = CONF_GPUS_OFF; i <= CONF_GPUS_REQUIRED; i++) {
        if (strcmp (names[i], text) == 0) {
            conf->gpus = i;
            return 0;
        }
    }
    order_copy_printable (printable, text, sizeof (printable));
    return mg_error_set (err, EINVAL, "%s: \"%s\" is not off, optional or required", name,
                         printable);
}

static int set_tasks_per_gpu (struct conf *conf, const char *name, const char *text,
                              struct mg_error *err)
{
    return parse_int (name, text, 1, CONF_TASKS_PER_GPU_MAX, &conf->tasks_per_gpu, err);
}

static int set_nvlink_domain (struct conf *conf, const char *name, const char *text,
                              struct mg_error *err)
{
    if (*text)
        return parse_int (name, text, 1, GEOMETRY_SIZE_MAX, &conf->nvlink_domain, err);
    conf->nvlink_domain = 0;
    return 0;
}

/* The option that sets "tp", for the key "default_tp" or "max_tp". */
static enum option_id option_of (const char *name)
{
    const char *field = strchr (name, '_') + 1;
    int id = 0;

    while (strcmp (options_table[id].field, field) != 0)
        id++; // every such key has its option, a test goes through all
    return id;
}

static int set_default (struct conf *conf, const char *name, const char *text,
                        struct mg_error *err)
{
    enum option_id id = option_of (name);

    if (*text && options_check_value (id, name, text, err) < 0)
        return -1;
    if (strlen (text) >= sizeof (conf->preset[id])) // zeros in front of a number
        return mg_error_set (err, ERANGE, "%s: the value is too long", name);
    snprintf (conf->preset[id], sizeof (conf->preset[id]), "%s", text);
    return 0;
}

static int set_max (struct conf *conf, const char *name, const char *text,
                    struct mg_error *err)
{
    int *limit = &conf->limit[option_of (name)];

    if (*text)
        return parse_int (name, text, 1, GEOMETRY_SIZE_MAX, limit, err);
    *limit = 0;
    return 0;
}

const struct conf_key conf_keys[CONF_NUM_KEYS] = {
    { .name = "mpi", .value = "pmix|none", .initial = "pmix", .set = set_mpi },
    { .name = "kill_on_bad_exit", .value = "yes|no", .initial = "yes",
      .set = set_kill_on_bad_exit },
    { .name = "master_port_base", .value = "PORT", .initial = "29500",
      .set = set_master_port_base },
    { .name = "master_addr", .value = "ADDRESS", .initial = "%n", .set = set_master_addr },
    { .name = "placement", .value = "allow|warn|refuse", .initial = "warn",
      .set = set_placement },
    { .name = "min_placement", .value = "allow|warn|refuse", .initial = "allow",
      .set = set_min_placement },
    { .name = "gpus", .value = "off|optional|required", .initial = "optional",
      .set = set_gpus },
    { .name = "tasks_per_gpu", .value = "N", .initial = "1", .set = set_tasks_per_gpu },
    { .name = "nvlink_domain", .value = "N", .initial = "", .set = set_nvlink_domain },
    { .name = "default_tp", .value = "N", .initial = "", .set = set_default },
    { .name = "default_cp", .value = "N", .initial = "", .set = set_default },
    { .name = "default_ep", .value = "N", .initial = "", .set = set_default },
    { .name = "default_etp", .value = "N", .initial = "", .set = set_default },
    { .name = "default_pp", .value = "N", .initial = "", .set = set_default },
    { .name = "default_vpp", .value = "N", .initial = "", .set = set_default },
    { .name = "default_order", .value = "AXES", .initial = "", .set = set_default },
    { .name = "max_tp", .value = "N", .initial = "", .set = set_max },
    { .name = "max_cp", .value = "N", .initial = "", .set = set_max },
    { .name = "max_ep", .value = "N", .initial = "", .set = set_max },
    { .name = "max_etp", .value = "N", .initial = "", .set = set_max },
    { .name = "max_pp", .value = "N", .initial = "", .set = set_max },
    { .name = "max_vpp", .value = "N", .initial = "", .set = set_max },
};

void conf_init (struct conf *conf)
{
    memset (conf, 0, sizeof (*conf));
    for (int i = 0; i < CONF_NUM_KEYS; i++)
        conf_keys[i].set (conf, conf_keys[i].name, conf_keys[i].initial, NULL);
}

static bool is_control (char c)
{
    return (unsigned char)c < ' ' || c == 0x7f;
}

/* Copy at most n - 1 characters of 'text', control characters as "\\x0d". */
static void copy_visible (char *dst, const char *text, size_t n)
{
    size_t len = 0;

    for (; *text && len + 5 < n; text++)
        len += snprintf (dst + len, n - len, is_control (*text) ? "\\x%02x" : "%c", *text);
    dst[len] = '\0';
}

/* Refuse control characters in a value: an editor may have put one there, and it is not seen. */
static int check_visible (const char *name, const char *text, struct mg_error *err)
{
    char visible[80];

    for (const char *p = text; *p; p++) {
        if (is_control (*p)) {
            copy_visible (visible, text, sizeof (visible));
            return mg_error_set (err, EINVAL, "%s: \"%s\" has a control character in it", name,
                                 visible);
        }
    }
    return 0;
}

int conf_set (struct conf *conf, const char *arg, struct mg_error *err)
{
    const char *equals = strchr (arg, '=');
    size_t len = equals ? (size_t)(equals - arg) : strlen (arg);
    char printable[40];

    for (int i = 0; i < CONF_NUM_KEYS && equals; i++) {
        const struct conf_key *key = &conf_keys[i];

        if (strlen (key->name) == len && strncmp (key->name, arg, len) == 0) {
            if (check_visible (key->name, equals + 1, err) < 0)
                return -1;
            return key->set (conf, key->name, equals + 1, err);
        }
    }
    order_copy_printable (printable, arg, len < 39 ? len + 1 : sizeof (printable));
    return mg_error_set (err, EINVAL, "\"%s\" is not a key of this plugin%s", printable,
                         equals ? "" : ", want key=value");
}

/* The job's size for the tensor parallelism of experts.  Without expert parallelism and without etp
 * it is 0, since the job need not have experts at all.
 */
static int asked_etp (const struct geometry *g)
{
    return g->ep > 1 ? geometry_etp (g) : g->etp;
}

int conf_check_limits (const struct conf *conf, const struct geometry *g,
                       struct mg_error *err)
{
    const int sizes[OPTION_NUM] = {
        [OPTION_TP] = g->tp, [OPTION_CP] = g->cp, [OPTION_EP] = g->ep,
        [OPTION_ETP] = asked_etp (g), [OPTION_PP] = g->pp, [OPTION_VPP] = g->vpp,
    };

    for (int id = 0; id < OPTION_NUM; id++) {
        if (conf->limit[id] && sizes[id] > conf->limit[id])
            return mg_error_set (err, EDOM, "%s %d is above this site's limit of %d",
                                 options_table[id].field, sizes[id], conf->limit[id]);
    }
    return 0;
}

enum placement conf_placement (const struct conf *conf, const struct options *options)
{
    enum placement placement = conf->placement;

    if (options->origin[OPTION_PLACEMENT] != OPTION_UNSET)
        placement = options->placement;
    return placement < conf->min_placement ? conf->min_placement : placement;
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
