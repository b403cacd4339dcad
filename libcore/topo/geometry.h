/* geometry - the parallel sizes that a user asked for, and every rule they must keep.
 *
 * Pure integer arithmetic, linked by the job plugin too: no I/O, no environment, no
 * dependency but libc.  Names and rules are Megatron-LM's (initialize_model_parallel and
 * its argument validation): two grids over the same ranks, dense = tp x cp x dp x pp and
 * expert = etp x ep x edp x pp.
 */
#ifndef LIBCORE_TOPO_GEOMETRY_H
#define LIBCORE_TOPO_GEOMETRY_H

#include <stdbool.h>
#include <stddef.h>

#include "megatron/error.h"

/* The axes of a rank grid. An array index everywhere, so that an axis more is a row more.
 * MG_AXIS_EP exists in both grids; its size is 1 in the dense one, as CP's is in the
 * expert one.
 */
enum mg_axis { MG_AXIS_TP, MG_AXIS_CP, MG_AXIS_EP, MG_AXIS_DP, MG_AXIS_PP, MG_NUM_AXES };

enum { GEOMETRY_ORDER_MAX = 32, GEOMETRY_SIZE_MAX = 1 << 24 };

/* What was asked for. geometry_init() gives the defaults. Sizes are 1..GEOMETRY_SIZE_MAX
 * once geometry_check() has passed.
 */
struct geometry {
    int world;      /* number of ranks; 0: not known yet (rules that need it are skipped) */
    int tp, cp, pp; /* dense sizes, default 1 */
    int ep;         /* expert-model-parallel size, default 1 */
    int etp;        /* expert-tensor-parallel size; 0: not given, equals tp */
    int vpp;        /* virtual stages per pipeline rank; 0 or 1: none */
    char order[GEOMETRY_ORDER_MAX]; /* axes, fastest first, default "tp-cp-ep-dp-pp" */
};

void geometry_init (struct geometry *g);

/* Effective expert tensor size: etp, or tp where it was not given. */
int geometry_etp (const struct geometry *g);

/* Data-parallel sizes: world / (tp cp pp) and world / (etp ep pp).
 * Only meaningful when world is known and geometry_check() passed.
 */
int geometry_dp (const struct geometry *g);
int geometry_edp (const struct geometry *g);

/* The order string as axes, fastest varying first: axis[0..MG_NUM_AXES-1] is a
 * permutation.  As in Megatron-LM, axes of size 1 may be missing from the string (they
 * are appended); an axis larger than 1 that is missing, an unknown or a repeated name is
 * an error.
 */
int geometry_order (const struct geometry *g, enum mg_axis axis[MG_NUM_AXES],
                    struct mg_error *err);

/* Called once a broken rule, in the order of the rule table. 'rule' is a short stable
 * name ("world-dense", "order-missing-axis", ...), 'text' one line without a newline that
 * says the values and, where it is arithmetic, the nearest legal ones.
 */
typedef void (*geometry_report_f) (void *arg, const char *rule, const char *text);

/* Check every rule that the known integers allow; 'report' may be NULL.
 * Returns the number of broken rules, 0 if none.
 *
 * The wording of the world rule is fixed: "12 tasks cannot hold tp 4 x cp 1 x pp 2 = 8;
 * use -n 8 or -n 16" (and "use -n 8" where nothing smaller is legal): a user reads it
 * after "srun: error: megatron: ".  For the expert grid: "12 tasks cannot hold etp 2 x
 * ep 4 x pp 1 = 8; use ..." and, if etp was not given and etp 1 would do, it says so.
 * The legal counts satisfy both grids (multiples of the least common multiple).
 */
int geometry_check (const struct geometry *g, geometry_report_f report, void *arg);

/* geometry_check() where the first broken rule is enough: 0, or -1, EINVAL and its text. */
int geometry_validate (const struct geometry *g, struct mg_error *err);

#endif /* LIBCORE_TOPO_GEOMETRY_H */
