/* geometry_check.c - the rules that parallel sizes must keep, as one table
 *
 * A rule is a row: its name, the facts that it needs, the facts that are in doubt if it
 * is broken, and a function that reports.  They are the rules of Megatron-LM's
 * initialize_model_parallel() and of its argument validation.
 */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "libcore/topo/geometry_private.h"
#include "libcore/topo/order.h"
#include "libcore/topo/rule.h"

static void check_size (const struct geometry *g, struct rule_report *r)
{
    for (int i = 0; i < GEOMETRY_NUM_SIZES; i++) {
        const struct geometry_size *size = &geometry_sizes[i];
        int value = *(const int *)((const char *)g + size->offset);

        if (value == 0 && size->or_zero)
            continue;
        if (value < 1 || value > GEOMETRY_SIZE_MAX)
            rule_broken (r, "%s %d is out of range, want %d to %d", size->name, value,
                         size->min, GEOMETRY_SIZE_MAX);
    }
}

static void check_vpp (const struct geometry *g, struct rule_report *r)
{
    if (g->vpp > 1 && g->pp == 1)
        rule_broken (r, "vpp %d needs pp > 1, but pp is 1; use pp 2 or more, or no vpp",
                     g->vpp);
}

static void check_product_dense (const struct geometry *g, struct rule_report *r)
{
    if (geometry_dense_product (g) > GEOMETRY_SIZE_MAX)
        rule_broken (r, "tp %d x cp %d x pp %d is more than %d tasks", g->tp, g->cp, g->pp,
                     GEOMETRY_SIZE_MAX);
}

static void check_product_expert (const struct geometry *g, struct rule_report *r)
{
    if (geometry_expert_product (g) > GEOMETRY_SIZE_MAX)
        rule_broken (r, "etp %d x ep %d x pp %d is more than %d tasks", geometry_etp (g),
                     g->ep, g->pp, GEOMETRY_SIZE_MAX);
}

/* True if the order string lacks the axis.  False if the string cannot be parsed. */
static bool lacks_axis (const struct geometry *g, enum mg_axis axis)
{
    struct order order;

    order_scan (g->order, &order);
    return !order.has_unknown && order.times[axis] == 0;
}

/* Write "use -n BELOW or -n ABOVE": the numbers of tasks nearest to g->world that both
 * grids can hold.
 */
static void suggest_world (const struct geometry *g, char *text, size_t n)
{
    int64_t dense = geometry_dense_product (g), expert = geometry_expert_product (g);
    int64_t a = dense, b = expert, step, below, above;

    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    step = dense / a * expert;
    below = g->world / step * step;
    above = below + step;
    if (lacks_axis (g, MG_AXIS_DP)) {
        // no data parallelism on either grid: one count at most
        below = above = 0;
        if (dense == expert)
            *(step < g->world ? &below : &above) = step;
    }
    if (above > GEOMETRY_SIZE_MAX)
        above = 0;
    if (below && above)
        snprintf (text, n, "use -n %d or -n %d", (int)below, (int)above);
    else if (below || above)
        snprintf (text, n, "use -n %d", (int)(below + above));
    else
        snprintf (text, n, "no number of tasks up to %d suits both grids",
                  GEOMETRY_SIZE_MAX);
}

static const char *tasks (int n)
{
    return n == 1 ? "task" : "tasks";
}

static void check_world_dense (const struct geometry *g, struct rule_report *r)
{
    char hint[80];

    if (!g->world || geometry_dp (g))
        return;
    suggest_world (g, hint, sizeof (hint));
    rule_broken (r, "%d %s cannot hold tp %d x cp %d x pp %d = %d; %s", g->world,
                 tasks (g->world), g->tp, g->cp, g->pp, (int)geometry_dense_product (g), hint);
}

/* True if this geometry would be legal with experts that tensor parallelism does not split. */
static bool etp_one_would_do (const struct geometry *g)
{
    struct geometry one = *g;

    if (g->etp || g->tp == 1)
        return false;
    one.etp = 1;
    one.vpp = 0; // has a line of its own
    return geometry_check (&one, NULL, NULL) == 0;
}

static void check_world_expert (const struct geometry *g, struct rule_report *r)
{
    char hint[80] = "";

    if (!g->world || geometry_edp (g))
        return;
    if (g->ep == 1 && !g->etp) // no experts asked for: it is the dense rule once more
        return;
    if (geometry_dp (g)) // else the line of the dense grid has said it for both
        suggest_world (g, hint, sizeof (hint));
    rule_broken (r, "%d %s cannot hold etp %d x ep %d x pp %d = %d%s%s%s", g->world,
                 tasks (g->world), geometry_etp (g), g->ep, g->pp,
                 (int)geometry_expert_product (g), hint[0] ? "; " : "", hint,
                 etp_one_would_do (g) ? ", or etp 1 (it defaults to tp)" : "");
}

static void check_order_unknown (const struct geometry *g, struct rule_report *r)
{
    struct order order;

    order_scan (g->order, &order);
    if (order.has_unknown)
        rule_broken (r, "order \"%s\" names an unknown axis \"%s\", want tp, cp, ep, dp, pp "
                     "joined by -", order.text, order.unknown);
}

static void check_order_repeated (const struct geometry *g, struct rule_report *r)
{
    struct order order;

    order_scan (g->order, &order);
    for (int i = 0; i < MG_NUM_AXES; i++) {
        if (order.times[i] > 1)
            rule_broken (r, "order \"%s\" names %s %d times, want each axis once", order.text,
                         geometry_axis_name (i), order.times[i]);
    }
}

static void check_order_missing (const struct geometry *g, struct rule_report *r)
{
    struct order order;

    order_scan (g->order, &order);
    for (int i = 0; i < MG_NUM_AXES; i++) {
        for (int expert = 0; expert < 2 && order.times[i] == 0; expert++) {
            int size = geometry_axis_size (g, expert, i);

            if (size > 1) {
                rule_broken (r, "order \"%s\" lacks %s, but %s%s is %d", order.text,
                             geometry_axis_name (i), expert && i != MG_AXIS_EP ? "e" : "",
                             geometry_axis_name (i), size);
                break;
            }
        }
    }
}

/* With pp not last, dp lies inside it; the grids then agree on pp only if dp = edp, that
 * is tp cp = etp ep. Needs no world size.
 */
static bool pp_last_broken (const struct geometry *g)
{
    struct order order;
    int64_t dense = (int64_t)g->tp * g->cp;
    int64_t expert = (int64_t)geometry_etp (g) * g->ep;

    order_scan (g->order, &order);
    return g->pp > 1 && dense != expert && order.axis[order.naxes - 1] != MG_AXIS_PP;
}

/* Ranks between neighbours of a pipeline, in one grid.  If dp is inside pp, num / den leaves out
 * the factor world / pp, which is the same in both grids.
 */
static void pp_stride (const struct geometry *g, bool expert, int64_t *num, int64_t *den)
{
    struct order order;
    int64_t all = expert ? (int64_t)geometry_etp (g) * g->ep : (int64_t)g->tp * g->cp;

    order_scan (g->order, &order);
    *num = *den = 1;
    for (int i = 0; i < order.naxes && order.axis[i] != MG_AXIS_PP; i++) {
        if (order.axis[i] == MG_AXIS_DP)
            *den = all;
        else
            *num *= geometry_axis_size (g, expert, order.axis[i]);
    }
}

static bool pp_groups_differ (const struct geometry *g)
{
    int64_t num[2], den[2];

    if (g->pp == 1)
        return false;
    for (int expert = 0; expert < 2; expert++)
        pp_stride (g, expert, &num[expert], &den[expert]);
    // products of at most 24 + 24 bits once both products are in range
    return num[0] * den[1] != num[1] * den[0];
}

static void check_order_pp_last (const struct geometry *g, struct rule_report *r)
{
    if (pp_last_broken (g))
        rule_broken (r, "order \"%s\" does not end with pp, so tp %d x cp %d must equal "
                     "etp %d x ep %d (dp = edp); end the order with pp", g->order, g->tp,
                     g->cp, geometry_etp (g), g->ep);
}

static void check_order_pp_groups (const struct geometry *g, struct rule_report *r)
{
    if (pp_groups_differ (g))
        rule_broken (r, "order \"%s\" gives other pp groups to the dense grid (tp %d, cp %d) "
                     "than to the expert grid (etp %d, ep %d); end the order with pp",
                     g->order, g->tp, g->cp, geometry_etp (g), g->ep);
}

/* The facts that rules need; a broken rule puts some of them in doubt. */
enum { SIZES = 1, PRODUCTS = 2, ORDER = 4 };

static const struct rule {
    const char *name;
    unsigned needs;
    unsigned spoils;
    void (*check) (const struct geometry *g, struct rule_report *r);
} rules[] = {
    { "size", 0, SIZES, check_size },
    { "vpp-needs-pp", SIZES, 0, check_vpp },
    { "order-unknown-axis", 0, ORDER, check_order_unknown },
    { "order-repeated-axis", 0, ORDER, check_order_repeated },
    { "product-dense", SIZES, PRODUCTS, check_product_dense },
    { "product-expert", SIZES, PRODUCTS, check_product_expert },
    { "world-dense", SIZES | PRODUCTS, 0, check_world_dense },
    { "world-expert", SIZES | PRODUCTS, 0, check_world_expert },
    { "order-missing-axis", SIZES | PRODUCTS | ORDER, ORDER, check_order_missing },
    { "order-pp-last", SIZES | PRODUCTS | ORDER, 0, check_order_pp_last },
    { "order-pp-groups", SIZES | PRODUCTS | ORDER, 0, check_order_pp_groups },
};

/* Run the rules that can spoil any of 'which' (0: all of them). */
static int run_rules (const struct geometry *g, unsigned which, geometry_report_f report,
                      void *arg)
{
    struct rule_report r = { .f = report, .arg = arg };
    unsigned doubt = 0;

    for (size_t i = 0; i < sizeof (rules) / sizeof (rules[0]); i++) {
        int before = r.count;

        if ((rules[i].needs & doubt) || (which && !(rules[i].spoils & which)))
            continue;
        r.rule = rules[i].name;
        rules[i].check (g, &r);
        if (r.count > before)
            doubt |= rules[i].spoils;
    }
    return r.count;
}

int geometry_check (const struct geometry *g, geometry_report_f report, void *arg)
{
    return run_rules (g, 0, report, arg);
}

int geometry_validate (const struct geometry *g, struct mg_error *err)
{
    struct mg_error first = { .text = "" };

    if (geometry_check (g, rule_keep_first, &first) == 0)
        return 0;
    return mg_error_set (err, EINVAL, "%s", first.text);
}

int geometry_check_instances (int count, int dense, int expert, struct mg_error *err)
{
    static const char name[] = "num-distributed-optimizer-instances";

    if (count < 1)
        return mg_error_set (err, EINVAL, "%s is %d, want at least 1", name, count);
    if (dense % count != 0 || expert % count != 0)
        return mg_error_set (err, EINVAL, "%s %d does not divide the %d %sdata-parallel ranks",
                             name, count, dense % count ? dense : expert,
                             dense % count ? "" : "expert-");
    return 0;
}

/* In the order in which Megatron-LM appends the axes that an order string leaves out. */
static const enum mg_axis append_order[MG_NUM_AXES] = {
    MG_AXIS_TP, MG_AXIS_PP, MG_AXIS_DP, MG_AXIS_EP, MG_AXIS_CP,
};

int geometry_order (const struct geometry *g, enum mg_axis axis[MG_NUM_AXES],
                    struct mg_error *err)
{
    struct mg_error first = { .text = "" };
    struct order order;

    if (run_rules (g, ORDER, rule_keep_first, &first))
        return mg_error_set (err, EINVAL, "%s", first.text);
    order_scan (g->order, &order);
    for (int i = 0; i < MG_NUM_AXES; i++) {
        if (order.times[append_order[i]] == 0)
            order.axis[order.naxes++] = append_order[i];
    }
    memcpy (axis, order.axis, sizeof (order.axis));
    return 0;
}
