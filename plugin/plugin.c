/* plugin.c - the settings of plugstack.conf, for both sides */

#include <errno.h>
#include <stddef.h>

#include "plugin/plugin.h"

const char plugin_refused[] = "SLURM_SPANK_MEGATRON_REFUSED";
const char plugin_strict[] = "SLURM_SPANK_MEGATRON_STRICT";

void plugin_read_conf (struct plugin *p, int ac, char **av)
{
    struct mg_error *all = &p->conf_error;

    conf_init (&p->conf);
    all->text[0] = '\0';
    for (int i = 0; i < ac; i++) {
        struct mg_error err;

        if (conf_set (&p->conf, av[i], &err) < 0)
            mg_error_set (all, EINVAL, "%s%s%s", all->text, all->text[0] ? "; " : "",
                          err.text);
    }
}

void plugin_apply_presets (struct plugin *p)
{
    for (int id = 0; id < OPTION_NUM; id++) {
        if (p->options.origin[id] == OPTION_UNSET && p->conf.preset[id][0])
            options_set (&p->options, id, OPTION_SITE, p->conf.preset[id]);
    }
}
