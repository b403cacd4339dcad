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
#include "megatron/geometry.h"

/* enum mg_axis is an array index everywhere, so that an axis more is a row more. */
enum { GEOMETRY_ORDER_MAX = 32, GEOMETRY_SIZE_MAX = 1 << 24 };

/* What was asked for. geometry_init() gives the defaults. Sizes are 1..GEOMETRY_SIZE_MAX
 * once geometry_check() has passed.
 */
struct geometry {
    int world;      /* number of ranks; 0: not known yet, its rules are skipped */
    int tp, cp, pp; /* dense sizes, default 1 */
    int ep;         /* expert-model-parallel size, default 1 */
    int etp;        /* expert-tensor-parallel size; 0: not given, equals tp */
    int vpp;        /* virtual stages per pipeline rank; 0 or 1: none */
    char order[GEOMETRY_ORDER_MAX]; /* axes, fastest first, default "tp-cp-ep-dp-pp" */
};

/* What a user or a job may set; the world is counted. */
enum geometry_field {
    GEOMETRY_TP,
    GEOMETRY_CP,
    GEOMETRY_PP,
    GEOMETRY_EP,
    GEOMETRY_ETP,
    GEOMETRY_VPP,
    GEOMETRY_ORDER,
    GEOMETRY_NUM_FIELDS
};

/* "tp" and so on: the names that geometry_set() takes. */
extern const char *const geometry_field_names[GEOMETRY_NUM_FIELDS];

void geometry_init (struct geometry *g);

/* Set one field by its short name ("world", "tp", "cp", "pp", "ep", "etp", "vpp" or
 * "order") from a user's text; 'what' names the option or variable in the message.
 * Checks the form and the range of this one value only: 0, or -1 with errno EINVAL,
 * ERANGE, or ENOENT for a name that is none, and 'g' as it was.
 */
int geometry_set (struct geometry *g, const char *field, const char *what,
                  const char *text, struct mg_error *err);

/* "tp", "cp", "ep", "dp" or "pp". */
const char *geometry_axis_name (enum mg_axis axis);

/* Effective expert tensor size: etp, or tp where it was not given. */
int geometry_etp (const struct geometry *g);

/* Data-parallel sizes: world / (tp cp pp) and world / (etp ep pp); 0 where the world is
 * not known or does not divide.
 */
int geometry_dp (const struct geometry *g);
int geometry_edp (const struct geometry *g);

/* Size of an axis in the dense or the expert grid (see grid_size()), 0 where it is not
 * known: DP without a world that fits.
 */
int geometry_axis_size (const struct geometry *g, bool expert, enum mg_axis axis);

/* Can a distributed optimizer have 'count' instances?  Each of them has the same number of the
 * 'dense' ranks that share dense parameters (dp x cp) and of the 'expert' ranks that share those of
 * experts (edp).  0, or -1, EINVAL and a text.
 */
int geometry_check_instances (int count, int dense, int expert, struct mg_error *err);

/* The order string as axes, fastest varying first: axis[0..MG_NUM_AXES-1] is a
 * permutation.  As in Megatron-LM, case does not matter and axes of size 1 may be missing
 * from the string (they are appended); an axis larger than 1 in either grid that is
 * missing, an unknown or a repeated name is an error: -1, EINVAL.
 */
int geometry_order (const struct geometry *g, enum mg_axis axis[MG_NUM_AXES],
                    struct mg_error *err);

/* Called once a broken rule, in the order of the rule table ("size", "order-missing-axis"
 * and "order-repeated-axis" once a size or axis). 'rule' is one of these stable names:
 *
 *   size                 a size is not in 1..GEOMETRY_SIZE_MAX
 *   vpp-needs-pp         virtual stages without a pipeline
 *   order-unknown-axis   a name in the order string is none of tp cp ep dp pp
 *   order-repeated-axis  an axis is named twice
 *   product-dense        tp cp pp is beyond GEOMETRY_SIZE_MAX
 *   product-expert       etp ep pp is
 *   world-dense          tp cp pp does not divide the world
 *   world-expert         etp ep pp does not (said only if ep > 1 or etp was given: else
 *                        it divides tp cp pp, and world-dense has said it)
 *   order-missing-axis   an axis larger than 1 in some grid is not in the order string
 *   order-pp-last        pp is not last, pp > 1, and dp differs from edp
 *   order-pp-groups      the two grids have different pp groups
 *
 * 'text' is one line without a newline that says the values and, where it is arithmetic,
 * the nearest legal ones; both live for the call only.
 */
typedef void (*geometry_report_f) (void *arg, const char *rule, const char *text);

/* Check every rule that the known integers allow; 'report' may be NULL.
 * Returns the number of reports, 0 if every rule is kept.  A rule that makes no sense
 * once another is broken (the world rules where a size is 0) is not looked at.
 *
 * The wording of the world rule is fixed: "12 tasks cannot hold tp 4 x cp 1 x pp 2 = 8;
 * use -n 8 or -n 16" (and "use -n 8" where nothing smaller is legal): a user reads it
 * after "srun: error: megatron: ".  For the expert grid: "12 tasks cannot hold etp 2 x
 * ep 4 x pp 1 = 8; use ..." and, if etp was not given and etp 1 would do, it says so.
 * The legal counts satisfy both grids (multiples of the least common multiple); they are
 * said once, on the first world line.
 */
int geometry_check (const struct geometry *g, geometry_report_f report, void *arg);

/* geometry_check() where the first broken rule is enough: 0, or -1, EINVAL and a text. */
int geometry_validate (const struct geometry *g, struct mg_error *err);

#endif /* LIBCORE_TOPO_GEOMETRY_H */
