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
    struct options options;

    /* submit side only */
    bool allocator; /* sbatch or salloc, not srun */
    enum option_origin pending[OPTION_NUM]; /* what the next call back of each stands for */
};

#endif /* PLUGIN_PLUGIN_H */
