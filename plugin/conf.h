/* conf - the plugin's arguments, "key=value" words after its path in plugstack.conf. */
#ifndef PLUGIN_CONF_H
#define PLUGIN_CONF_H

#include <stdbool.h>
#include <stddef.h>

#include "megatron/error.h"
#include "plugin/options.h"

enum {
    CONF_ADDR_MAX = 256,
    CONF_TASKS_PER_GPU_MAX = 64,
    CONF_PORT_SPAN = 2048, /* MASTER_PORT is in [master_port_base, + CONF_PORT_SPAN) */
};

/* What the GPUs of a job must be. */
enum conf_gpus {
    CONF_GPUS_OFF,      /* they are not looked at */
    CONF_GPUS_OPTIONAL, /* if a job asks for GPUs, they suffice for its tasks */
    CONF_GPUS_REQUIRED, /* the same, and a job without GPUs is refused */
};

struct conf {
    bool mpi_pmix;         /* srun's MPI type becomes pmix if nothing else sets it */
    bool kill_on_bad_exit; /* srun's --kill-on-bad-exit is set if nothing else sets it */
    int master_port_base;
    char master_addr[CONF_ADDR_MAX]; /* MASTER_ADDR; "%n" stands for the node's name */
    enum placement placement;     /* policy if the user gives none */
    enum placement min_placement; /* the least strict policy that users may choose */
    enum conf_gpus gpus;
    int tasks_per_gpu; /* tasks that may share a GPU, 1 or more */
    int nvlink_domain; /* GPUs that NVLink joins, 0: not known */
    char preset[OPTION_NUM][GEOMETRY_ORDER_MAX]; /* defaults of sizes and order for jobs
                                                    that give other sizes; "": none */
    int limit[OPTION_NUM]; /* largest size, 0: none */
};

/* One row per key; the manual page has an entry for each. */
struct conf_key {
    const char *name;
    const char *value;   /* form of the value */
    const char *initial; /* default, in the form of the value */
    int (*set) (struct conf *conf, const char *name, const char *text,
                struct mg_error *err);
};
enum { CONF_NUM_KEYS = 22 };
extern const struct conf_key conf_keys[CONF_NUM_KEYS];

/* The defaults. */
void conf_init (struct conf *conf);

/* Read one argument, "key=value". -1 and EINVAL or ERANGE, with a text that names the key
 * and what is allowed; 'conf' is then unchanged.
 */
int conf_set (struct conf *conf, const char *arg, struct mg_error *err);

/* Check the sizes of 'g' against the site's limits.  0, or -1, EDOM and a text about the
 * first size that is too large.  An etp that was not given equals tp, and its limit is
 * checked if ep is above 1.
 */
int conf_check_limits (const struct conf *conf, const struct geometry *g,
                       struct mg_error *err);

/* Returns the policy for a job: its own or else the site's, but at least as strict as
 * min_placement. */
enum placement conf_placement (const struct conf *conf, const struct options *options);

/* Write conf->master_addr for the node 'node' into 'addr'; -1 and ENAMETOOLONG if it does
 * not fit n bytes.
 */
int conf_master_addr (const struct conf *conf, const char *node, char *addr, size_t n,
                      struct mg_error *err);

#endif /* PLUGIN_CONF_H */
