/* The parallel sizes of a job, and the rules that they must keep.
 *
 * The same ranks form two grids, as in Megatron-LM: the dense grid, tp x cp x dp x pp,
 * and the grid of the experts, etp x ep x edp x pp.  The data-parallel size of a grid is
 * the number of ranks divided by the grid's other sizes.  All of this is arithmetic: no
 * call blocks, and no call needs a job.
 *
 * A geometry may be used by several threads as long as none changes it.
 */
#ifndef MEGATRON_GEOMETRY_H
#define MEGATRON_GEOMETRY_H

#include "megatron/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The axes of a grid.  In the dense grid, MG_AXIS_EP has size 1.  In the grid of the experts,
 * MG_AXIS_CP has size 1, MG_AXIS_TP is etp and MG_AXIS_DP is edp.
 */
enum mg_axis { MG_AXIS_TP, MG_AXIS_CP, MG_AXIS_EP, MG_AXIS_DP, MG_AXIS_PP, MG_NUM_AXES };

/* The two grids. */
enum mg_layout { MG_DENSE, MG_EXPERT };

/* "tp", "cp", "ep", "dp", "pp"; "unknown" for a value outside the enum. */
const char *mg_axis_name (enum mg_axis axis);

struct mg_geometry;

/* Make a geometry with every size 1, the order "tp-cp-ep-dp-pp" and no world.  The caller
 * owns the geometry.  NULL, ENOMEM and a text if there is no memory.
 */
struct mg_geometry *mg_geometry_create (struct mg_error *err);

/* Free a geometry.  NULL is allowed.  Keeps errno. */
void mg_geometry_destroy (struct mg_geometry *geometry);

/* Set one field by name: "world" (number of ranks), "tp", "cp", "pp", "ep", "etp" (not
 * given: equals tp), "vpp" (virtual stages a pipeline rank) are numbers from 1 to 16777216,
 * "order" lists the axes, the fastest varying axis first.  'text' is the value as the
 * user wrote it.  The call checks this one value; mg_geometry_check() checks the rules.
 * 0, or -1 with EINVAL, ERANGE, or ENOENT for an unknown name; the geometry is then
 * unchanged.
 */
int mg_geometry_set (struct mg_geometry *geometry, const char *field, const char *text,
                     struct mg_error *err);

/* Set any field but "order" to a number. */
int mg_geometry_set_size (struct mg_geometry *geometry, const char *field, int size,
                          struct mg_error *err);

/* Set the sizes that the Slurm plugin wrote into this task's environment: MEGATRON_TP_SIZE and
 * the others of megatron-environment(7).  A size whose variable is not set stays as it is.  0, or
 * -1 with EINVAL or ERANGE and a text that names the variable; the geometry is then unchanged.
 */
int mg_geometry_set_environment (struct mg_geometry *geometry, struct mg_error *err);

/* Number of ranks; 0 if not set. */
int mg_geometry_world (const struct mg_geometry *geometry);

/* Size of an axis.  A data-parallel size is 0 if the world is not set, or is not a multiple of the
 * other sizes.  The result is 0 for an axis or layout outside the enums.
 */
int mg_geometry_size (const struct mg_geometry *geometry, enum mg_layout layout,
                      enum mg_axis axis);

/* Virtual stages of a pipeline rank, at least 1. */
int mg_geometry_virtual_stages (const struct mg_geometry *geometry);

/* Called once for every broken rule.  'rule' is a stable name such as "world-dense"
 * (megatron-plan(1) lists them).  'text' is one line with the values and, if the rule is
 * arithmetic, the nearest legal values.  Both strings are only valid during the call.
 */
typedef void (*mg_geometry_report_f) (void *arg, const char *rule, const char *text);

/* Check every rule whose sizes are known.  'report' may be NULL; 'arg' is passed to
 * 'report'.  Returns the number of broken rules.
 */
int mg_geometry_check (const struct mg_geometry *geometry, mg_geometry_report_f report,
                       void *arg);

/* Check the rules up to the first broken one.  0, or -1, EINVAL and the text of the
 * broken rule. */
int mg_geometry_validate (const struct mg_geometry *geometry, struct mg_error *err);

#ifdef __cplusplus
}
#endif

#endif /* MEGATRON_GEOMETRY_H */
