/* options - the plugin's options: one table, and the values that were given.
 *
 * Knows nothing of Slurm. An option has a name ("--megatron-tp"), a default from the
 * environment ("MEGATRON_TP"), and a field of struct geometry that it sets; the placement
 * policy is the one that sets none.
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

/* What happens if a tensor-parallel group must cross nodes; stricter is more. */
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

/* Where a value came from, weakest first. */
enum option_origin {
    OPTION_UNSET,
    OPTION_SITE,      /* plugstack.conf */
    OPTION_DEFAULT,   /* MEGATRON_TP and the like */
    OPTION_INHERITED, /* an option of the job that this srun runs in */
    OPTION_TYPED,     /* on this command's line, or in its #SBATCH lines */
    OPTION_SENT,      /* came with the step to a node */
};

struct options {
    struct geometry geometry; /* world is 0 */
    enum placement placement; /* where OPTION_PLACEMENT was given */
    enum option_origin origin[OPTION_NUM];
    struct mg_error error[OPTION_NUM]; /* text of a value that cannot be, else "" */
};

/* No option given, every size at its default. */
void options_init (struct options *o);

/* Give option 'id' the value 'text' (NULL counts as empty); what it had before is
 * forgotten, so calling this twice is the same as once.  Returns 0, or -1 with errno and
 * one line in o->error[id] if the value cannot be; the geometry then keeps the old value.
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

/* The strongest origin of all sizes and the order; OPTION_UNSET: none was given, and the
 * plugin leaves the job alone.  A placement policy by itself asks for nothing.
 */
enum option_origin options_origin (const struct options *o);

/* The text of the first option whose value cannot be, or NULL. */
const char *options_error (const struct options *o);

/* The environment default of an option, NULL if it is unset or empty. */
const char *options_default (enum option_id id);

/* The variable by which Slurm hands an option of the job to the sruns in it. */
enum { OPTIONS_TRANSPORT_MAX = 80 };
void options_transport (enum option_id id, char name[OPTIONS_TRANSPORT_MAX]);

#endif /* PLUGIN_OPTIONS_H */
