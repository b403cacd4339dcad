/* options - the plugin's options: one table, and the values that were given.
 *
 * This file does not depend on Slurm.  An option has a name ("--megatron-tp"), a default
 * from the environment ("MEGATRON_TP"), and a field of struct geometry that it sets; only
 * the placement policy sets no field.
 */
#ifndef PLUGIN_OPTIONS_H
#define PLUGIN_OPTIONS_H

#include <stddef.h>

#include "libcore/topo/geometry.h"
#include "megatron/error.h"

enum option_id {
    OPTION_TP,
    OPTION_CP,
    OPTION_EP,
    OPTION_ETP,
    OPTION_PP,
    OPTION_VPP,
    OPTION_ORDER,
    OPTION_PLACEMENT,
    OPTION_NUM
};

/* What happens if a tensor-parallel group must cross nodes.  A stricter policy has a
 * greater number. */
enum placement { PLACEMENT_ALLOW, PLACEMENT_WARN, PLACEMENT_REFUSE };

/* One row per option; the manual page has an entry for each name and each variable. */
struct option_info {
    const char *name;    /* without the dashes */
    const char *env;     /* environment default */
    const char *field;   /* of struct geometry, but for "placement" */
    const char *arginfo; /* for --help */
    const char *usage;   /* for --help, starts "[megatron] " */
};
extern const struct option_info options_table[OPTION_NUM];

/* The origin of a value, the weakest first. */
enum option_origin {
    OPTION_UNSET,
    OPTION_SITE,      /* plugstack.conf */
    OPTION_DEFAULT,   /* MEGATRON_TP and the like */
    OPTION_INHERITED, /* an option of the job that this srun runs in */
    OPTION_TYPED,     /* on the command line, or in #SBATCH lines */
    OPTION_SENT,      /* came with the step to a node */
};

struct options {
    struct geometry geometry; /* world is 0 */
    enum placement placement; /* valid if OPTION_PLACEMENT was given */
    enum option_origin origin[OPTION_NUM];
    struct mg_error error[OPTION_NUM]; /* text about an invalid value, else "" */
};

/* Begin with no option given and every size at its default. */
void options_init (struct options *o);

/* Set option 'id' to the value 'text'; NULL counts as empty.  The new value replaces an
 * earlier one, so a second call with the same value changes nothing.  Returns 0, or -1
 * with errno and one line in o->error[id] if the value is invalid; the geometry then
 * keeps the old value.
 */
int options_set (struct options *o, enum option_id id, enum option_origin origin,
                 const char *text);

/* Check the form of a value that 'what' names in the message: 0, or -1, errno and one line
 * without control characters.
 */
int options_check_value (enum option_id id, const char *what, const char *text,
                         struct mg_error *err);

/* "allow", "warn" or "refuse". */
const char *options_placement_name (enum placement placement);

/* Returns the strongest origin of all sizes and the order.  OPTION_UNSET: none was given,
 * and the plugin does not change the job.  A placement policy alone does not count.
 */
enum option_origin options_origin (const struct options *o);

/* Returns the text of the first option whose value is invalid, or NULL. */
const char *options_error (const struct options *o);

/* The environment default of an option, NULL if it is unset or empty. */
const char *options_default (enum option_id id);

/* Write the name of the variable by which Slurm passes an option of the job to the sruns
 * in the job. */
enum { OPTIONS_TRANSPORT_MAX = 80 };
void options_transport (enum option_id id, char name[OPTIONS_TRANSPORT_MAX]);

#endif /* PLUGIN_OPTIONS_H */
