/* plugin - the state that the hooks of one process share.
 *
 * SPANK callbacks have no pointer argument, so spank_megatron.c owns the only instance
 * and passes it to functions.  Nothing else in the plugin is static and writable.
 */
#ifndef PLUGIN_PLUGIN_H
#define PLUGIN_PLUGIN_H

#include <stdbool.h>

#include "plugin/conf.h"
#include "plugin/options.h"

struct plugin {
    struct conf conf;
    struct mg_error conf_error; /* fault in plugstack.conf, "" if there is none */
    struct options options;

    /* submit side only */
    bool allocator; /* sbatch or salloc, not srun */
    bool in_job;    /* srun: the step belongs to an existing job */
    bool refused;   /* srun: the step runs nothing */
    enum option_origin pending[OPTION_NUM]; /* origin of each option's value in the next
                                             * call back */
};

/* A variable that is set in the tasks of a step that srun refuses.  Its name begins like
 * those of Slurm, since Slurm passes such variables on, whatever --export says.
 */
extern const char plugin_refused[];

/* srun sets this variable for the nodes if the user typed the options of this step.  A node then
 * refuses a task that has no GPU; otherwise it warns.  Tasks do not get the variable.
 */
extern const char plugin_strict[];

/* Read the arguments in plugstack.conf.  An invalid argument is ignored and described in
 * p->conf_error: a typing error must not stop the jobs of a site.
 */
void plugin_read_conf (struct plugin *p, int ac, char **av);

/* Set the site's default sizes in a job that uses some size and has not given these.
 */
void plugin_apply_presets (struct plugin *p);

#endif /* PLUGIN_PLUGIN_H */
