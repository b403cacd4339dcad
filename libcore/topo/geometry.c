/* geometry.c - parallel sizes: defaults, setting one from text, what follows from them
 *
 * Products saturate above the maximum instead of overflowing, so that functions here are right
 * for sizes that no rule has checked yet.  The rules are in geometry_check.c.
 */

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/topo/geometry_private.h"
#include "libcore/topo/order.h"

const struct geometry_size geometry_sizes[GEOMETRY_NUM_SIZES] = {
    { "world", offsetof (struct geometry, world), 1, true },
    { "tp", offsetof (struct geometry, tp), 1, false },
    { "cp", offsetof (struct geometry, cp), 1, false },
    { "pp", offsetof (struct geometry, pp), 1, false },
    { "ep", offsetof (struct geometry, ep), 1, false },
    { "etp", offsetof (struct geometry, etp), 1, true },
    { "vpp", offsetof (struct geometry, vpp), 0, true },
};

const char *const geometry_field_names[GEOMETRY_NUM_FIELDS] = {
    [GEOMETRY_TP] = "tp",   [GEOMETRY_CP] = "cp",       [GEOMETRY_PP] = "pp",
    [GEOMETRY_EP] = "ep",   [GEOMETRY_ETP] = "etp",     [GEOMETRY_VPP] = "vpp",
    [GEOMETRY_ORDER] = "order",
};

void geometry_init (struct geometry *g)
{
    memset (g, 0, sizeof (*g));
    g->tp = g->cp = g->pp = g->ep = 1;
    strcpy (g->order, "tp-cp-ep-dp-pp");
}

int geometry_set (struct geometry *g, const char *field, const char *what,
                  const char *text, struct mg_error *err)
{
    char printable[GEOMETRY_ORDER_MAX];

    for (int i = 0; i < GEOMETRY_NUM_SIZES; i++) {
        if (strcmp (geometry_sizes[i].name, field) == 0)
            return parse_int (what, text, geometry_sizes[i].min, GEOMETRY_SIZE_MAX,
                              (int *)((char *)g + geometry_sizes[i].offset), err);
    }
    if (strcmp (field, "order") != 0)
        return mg_error_set (err, ENOENT, "%s: no such parallel size", what);
    order_copy_printable (printable, text ? text : "", sizeof (printable));
    if (!text || strlen (text) >= sizeof (g->order))
        return mg_error_set (err, EINVAL,
                             "%s: \"%s%s\" is too long, want a permutation of "
                             "tp-cp-ep-dp-pp",
                             what, printable, text ? "..." : "");
    strcpy (g->order, text);
    return 0;
}

int geometry_etp (const struct geometry *g)
{
    return g->etp ? g->etp : g->tp;
}

/* Any value above the maximum just means "above", so that nothing overflows. */
static int64_t product (int a, int b, int c)
{
    int64_t ab = (int64_t)a * b;

    if (a < 1 || b < 1 || c < 1)
        return 0;
    return ab > GEOMETRY_SIZE_MAX ? ab : ab * c;
}

int64_t geometry_dense_product (const struct geometry *g)
{
    return product (g->tp, g->cp, g->pp);
}

int64_t geometry_expert_product (const struct geometry *g)
{
    return product (geometry_etp (g), g->ep, g->pp);
}

static int quotient (int world, int64_t divisor)
{
    return world > 0 && divisor > 0 && world % divisor == 0 ? (int)(world / divisor) : 0;
}

int geometry_dp (const struct geometry *g)
{
    return quotient (g->world, geometry_dense_product (g));
}

int geometry_edp (const struct geometry *g)
{
    return quotient (g->world, geometry_expert_product (g));
}

int geometry_axis_size (const struct geometry *g, bool expert, enum mg_axis axis)
{
    switch (axis) {
        case MG_AXIS_TP:
            return expert ? geometry_etp (g) : g->tp;
        case MG_AXIS_CP:
            return expert ? 1 : g->cp;
        case MG_AXIS_EP:
            return expert ? g->ep : 1;
        case MG_AXIS_DP:
            return expert ? geometry_edp (g) : geometry_dp (g);
        default:
            return g->pp;
    }
}
