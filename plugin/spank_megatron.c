/* spank_megatron.c - SPANK's hooks, by context; what they do is in submit.c and step.c
 *
 * Each hook passes on to the file of its context: submit.c in the user's command, step.c in
 * slurmstepd.  If a hook fails, the job fails and the node stays up.  Hooks run in the C locale,
 * whatever the locale of the user's command is.
 */

#include <stddef.h>
#include <stdint.h>

#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>
#include <slurm/spank.h>

#include "config.h"
#include "libcore/base/c_locale.h"
#include "plugin/plugin.h"
#include "plugin/step.h"
#include "plugin/submit.h"

SPANK_PLUGIN (megatron, 1)

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)
/* If an init hook failed, slurmd would take the node out of service: let the job fail instead. */
int slurm_spank_init_failure_mode = ESPANK_JOB_FAILURE;
#endif

static struct plugin plugin;

static int option_given (int val, const char *text, int remote)
{
    locale_t before = c_locale_enter ();

    if (remote)
        step_option (&plugin, val, text);
    else
        submit_option (&plugin, val, text);
    c_locale_leave (before);
    return 0;
}

/* sbatch and salloc take options only from this call, not from an exported table. */
static int register_options (spank_t sp)
{
    for (int id = 0; id < OPTION_NUM; id++) {
        struct spank_option option = {
            .name = (char *)options_table[id].name,
            .arginfo = (char *)options_table[id].arginfo,
            .usage = (char *)options_table[id].usage,
            .has_arg = 1,
            .val = id,
            .cb = option_given,
        };

        if (spank_option_register (sp, &option) != ESPANK_SUCCESS) {
            slurm_error ("megatron: --%s cannot be added", options_table[id].name);
            return -1;
        }
    }
    return 0;
}

static int init (spank_t sp, int ac, char **av)
{
    spank_context_t context = spank_context ();

    plugin_read_conf (&plugin, ac, av);
    if (context == S_CTX_SLURMD) {
        slurm_info ("megatron: slurm-megatron %s", PACKAGE_VERSION);
        // once in the node's log; the commands say it to those who use the plugin
        if (plugin.conf_error.text[0])
            slurm_error ("megatron: plugstack.conf: %s", plugin.conf_error.text);
    }
    if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE)
        return 0;
    options_init (&plugin.options);
    plugin.allocator = context == S_CTX_ALLOCATOR;
    if (context != S_CTX_REMOTE)
        submit_init (&plugin);
    return register_options (sp);
}

int slurm_spank_init (spank_t sp, int ac, char **av)
{
    locale_t before = c_locale_enter ();
    int rc = init (sp, ac, av);

    c_locale_leave (before);
    return rc;
}

int slurm_spank_init_post_opt (spank_t sp, int ac, char **av)
{
    locale_t before = c_locale_enter ();

    (void)sp, (void)ac, (void)av;
    if (spank_context () == S_CTX_LOCAL || spank_context () == S_CTX_ALLOCATOR)
        submit_post_opt (&plugin);
    c_locale_leave (before);
    return 0;
}

int slurm_spank_local_user_init (spank_t sp, int ac, char **av)
{
    locale_t before = c_locale_enter ();

    (void)ac, (void)av;
    submit_user_init (&plugin, sp);
    c_locale_leave (before);
    return 0;
}

int slurm_spank_task_init (spank_t sp, int ac, char **av)
{
    locale_t before = c_locale_enter ();

    (void)ac, (void)av;
    step_task_init (&plugin, sp);
    c_locale_leave (before);
    return 0;
}

int slurm_spank_exit (spank_t sp, int ac, char **av)
{
    locale_t before = c_locale_enter ();

    (void)sp, (void)ac, (void)av;
    if (spank_context () == S_CTX_LOCAL)
        submit_exit (&plugin);
    c_locale_leave (before);
    return 0;
}
