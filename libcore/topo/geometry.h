/* geometry - the parallel sizes that a user has given, and every rule that they must keep.
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

/* enum mg_axis is used as an array index everywhere, so that a new axis is a new row of
 * the tables. */
enum { GEOMETRY_ORDER_MAX = 32, GEOMETRY_SIZE_MAX = 1 << 24 };

/* The sizes that were given.  geometry_init() sets the defaults. Sizes are
 * 1..GEOMETRY_SIZE_MAX once geometry_check() has passed.
 */
struct geometry {
    int world;      /* number of ranks; 0: not known yet, and its rules are skipped */
    int tp, cp, pp; /* dense sizes, default 1 */
    int ep;         /* expert-model-parallel size, default 1 */
    int etp;        /* expert-tensor-parallel size; 0: not given, equals tp */
    int vpp;        /* virtual stages per pipeline rank; 0 or 1: none */
    char order[GEOMETRY_ORDER_MAX]; /* axes, fastest first, default "tp-cp-ep-dp-pp" */
};

/* The fields that a user or a job may set.  The world is counted, not set. */
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

/* The names of the fields ("tp" ...) that geometry_set() accepts. */
extern const char *const geometry_field_names[GEOMETRY_NUM_FIELDS];

void geometry_init (struct geometry *g);

/* Set one field by its short name ("world", "tp", "cp", "pp", "ep", "etp", "vpp" or
 * "order") from a user's text; 'what' names the option or variable in the message.
 * Checks only the form and the range of this one value.  0, or -1 with errno EINVAL,
 * ERANGE, or ENOENT for an unknown name; 'g' is then unchanged.
 */
int geometry_set (struct geometry *g, const char *field, const char *what,
                  const char *text, struct mg_error *err);

/* "tp", "cp", "ep", "dp" or "pp". */
const char *geometry_axis_name (enum mg_axis axis);

/* The tensor-parallel size of experts in use: etp, or tp if etp was not given. */
int geometry_etp (const struct geometry *g);

/* Data-parallel sizes: world / (tp cp pp) and world / (etp ep pp); 0 if the world is not
 * known or is no multiple of the product.
 */
int geometry_dp (const struct geometry *g);
int geometry_edp (const struct geometry *g);

/* Size of an axis in the dense or the expert grid (see grid_size()).  The size of DP is 0
 * if the world is not known or is no multiple of the other sizes.
 */
int geometry_axis_size (const struct geometry *g, bool expert, enum mg_axis axis);

/* Check that a distributed optimizer can have 'count' instances: 'count' divides 'dense',
 * the number of ranks that share dense parameters (dp x cp), and 'expert', the number of
 * ranks that share the parameters of experts (edp).  0, or -1, EINVAL and a text.
 */
int geometry_check_instances (int count, int dense, int expert, struct mg_error *err);

/* Convert the order string to a permutation axis[0..MG_NUM_AXES-1], fastest varying
 * first.  As in Megatron-LM, case does not matter, and axes of size 1 may be missing from
 * the string; missing axes are appended.  -1 with EINVAL if an axis that is larger than 1
 * in either grid is missing, or if a name is unknown or repeated.
 */
int geometry_order (const struct geometry *g, enum mg_axis axis[MG_NUM_AXES],
                    struct mg_error *err);

/* Called once for each broken rule, in the order of the rule table.  "size",
 * "order-missing-axis" and "order-repeated-axis" are reported once for each size or axis.
 * 'rule' is one of these stable names:
 *
 *   size                 a size is not in 1..GEOMETRY_SIZE_MAX
 *   vpp-needs-pp         virtual stages without a pipeline
 *   order-unknown-axis   a name in the order string is none of tp cp ep dp pp
 *   order-repeated-axis  an axis is named twice
 *   product-dense        tp cp pp is beyond GEOMETRY_SIZE_MAX
 *   product-expert       etp ep pp is
 *   world-dense          tp cp pp does not divide the world
 *   world-expert  etp ep pp does not divide the world (reported only if ep > 1 or etp was
 *                        given: else etp ep pp divides tp cp pp, and world-dense is
 *                        enough)
 *   order-missing-axis   an axis larger than 1 in some grid is not in the order string
 *   order-pp-last        pp is not last, pp > 1, and dp differs from edp
 *   order-pp-groups      the two grids have different pp groups
 *
 * 'text' is one line without a newline.  It has the values and, if the rule is
 * arithmetic, the nearest legal values.  Both strings are valid only during the call.
 */
typedef void (*geometry_report_f) (void *arg, const char *rule, const char *text);

/* Check every rule whose integers are known.  'report' may be NULL.  Returns the number
 * of reports, 0 if every rule is kept.  A rule that has no meaning once another is broken
 * is skipped, as the world rules are if a size is 0.
 *
 * The wording of the world rule is fixed: "12 tasks cannot hold tp 4 x cp 1 x pp 2 = 8;
 * use -n 8 or -n 16" ("use -n 8" alone if no smaller number is legal).  Users see this
 * text after "srun: error: megatron: ".  For the expert grid: "12 tasks cannot hold etp 2
 * x ep 4 x pp 1 = 8; use ..." The text also names etp 1 if etp was not given and etp 1
 * would be legal.  The legal counts suit both grids (multiples of the least common
 * multiple).  Only the first world line has them.
 */
int geometry_check (const struct geometry *g, geometry_report_f report, void *arg);

/* Check the rules up to the first broken one.  0, or -1, EINVAL and the text of that rule. */
int geometry_validate (const struct geometry *g, struct mg_error *err);

#endif /* LIBCORE_TOPO_GEOMETRY_H */
