/* conf - the plugin's arguments, "key=value" words after its path in plugstack.conf. */
#ifndef PLUGIN_CONF_H
#define PLUGIN_CONF_H

#include <stdbool.h>
#include <stddef.h>

#include "megatron/error.h"
#include "plugin/options.h"

enum {
    CONF_ADDR_MAX = 256,
    CONF_PORT_SPAN = 2048, /* MASTER_PORT is in [master_port_base, + CONF_PORT_SPAN) */
};

struct conf {
    bool mpi_pmix;         /* srun's MPI type becomes pmix where nobody said anything */
    bool kill_on_bad_exit; /* the same for srun's --kill-on-bad-exit */
    int master_port_base;
    char master_addr[CONF_ADDR_MAX]; /* MASTER_ADDR; "%n" stands for the node's name */
    enum placement placement;     /* where the user does not say */
    enum placement min_placement; /* the least strict one */
    char preset[OPTION_NUM][GEOMETRY_ORDER_MAX]; /* of sizes and order, where a job uses
                                                    others of them; "": none */
    int limit[OPTION_NUM]; /* largest size, 0: none */
};

/* One row per key; the manual page has an entry for each. */
struct conf_key {
    const char *name;
    const char *value;   /* how its value is written */
    const char *initial; /* the default, as one would write it */
    int (*set) (struct conf *conf, const char *name, const char *text,
                struct mg_error *err);
};
enum { CONF_NUM_KEYS = 19 };
extern const struct conf_key conf_keys[CONF_NUM_KEYS];

/* The defaults. */
void conf_init (struct conf *conf);

/* Read one argument, "key=value". -1 and EINVAL or ERANGE, with a text that names the key
 * and what is allowed, leaves 'conf' as it was.
 */
int conf_set (struct conf *conf, const char *arg, struct mg_error *err);

/* The sizes of 'g' against the site's limits: 0, or -1, EDOM and a text for the first that
 * is too large.  An etp that was not given is tp, and has its limit where ep is above 1.
 */
int conf_check_limits (const struct conf *conf, const struct geometry *g,
                       struct mg_error *err);

/* The policy for a job: its own or the site's, but no laxer than the site allows. */
enum placement conf_placement (const struct conf *conf, const struct options *options);

/* Write conf->master_addr for the node 'node' into 'addr'; -1 and ENAMETOOLONG if it does
 * not fit n bytes.
 */
int conf_master_addr (const struct conf *conf, const char *node, char *addr, size_t n,
                      struct mg_error *err);

#endif /* PLUGIN_CONF_H */
