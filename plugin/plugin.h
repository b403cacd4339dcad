/* plugin - what the hooks of one process share.
 *
 * SPANK callbacks carry no pointer, so spank_megatron.c owns the only instance and hands
 * it down; nothing else in the plugin is static and writable.
 */
#ifndef PLUGIN_PLUGIN_H
#define PLUGIN_PLUGIN_H

#include <stdbool.h>

#include "plugin/conf.h"
#include "plugin/options.h"

struct plugin {
    struct conf conf;
    struct mg_error conf_error; /* what is wrong in plugstack.conf, "" if nothing is */
    struct options options;

    /* submit side only */
    bool allocator; /* sbatch or salloc, not srun */
    bool in_job;    /* srun: the step is one of a job that was there before */
    bool refused;   /* srun: the step runs nothing */
    enum option_origin pending[OPTION_NUM]; /* what the next call back of each stands for */
};

/* Set in the tasks of a step that srun refuses.  By its beginning it is one of Slurm's, which
 * travel whatever --export says.
 */
extern const char plugin_refused[];

/* Read the arguments in plugstack.conf.  One that means nothing is left out, and told in
 * p->conf_error: a site's typing error must not stop its jobs.
 */
void plugin_read_conf (struct plugin *p, int ac, char **av);

/* Give the sizes that the site has a default for to a job that uses some size and has not
 * given these.
 */
void plugin_apply_presets (struct plugin *p);

#endif /* PLUGIN_PLUGIN_H */
