/* order.c - parse an order string */

#include <ctype.h>
#include <string.h>

#include "libcore/topo/order.h"

static const char *const axis_names[MG_NUM_AXES] = {
    [MG_AXIS_TP] = "tp", [MG_AXIS_CP] = "cp", [MG_AXIS_EP] = "ep",
    [MG_AXIS_DP] = "dp", [MG_AXIS_PP] = "pp",
};

const char *geometry_axis_name (enum mg_axis axis)
{
    return axis_names[axis];
}

static int axis_by_name (const char *name)
{
    for (int i = 0; i < MG_NUM_AXES; i++) {
        if (strcmp (axis_names[i], name) == 0)
            return i;
    }
    return -1;
}

static void scan_token (struct order *order, const char *token)
{
    int axis = axis_by_name (token);

    if (axis < 0) {
        if (!order->has_unknown)
            strcpy (order->unknown, token);
        order->has_unknown = true;
    } else if (order->times[axis]++ == 0) {
        order->axis[order->naxes++] = axis;
    }
}

void order_copy_printable (char *dst, const char *src, size_t n)
{
    size_t i;

    for (i = 0; i + 1 < n && src[i]; i++)
        dst[i] = isprint ((unsigned char)src[i]) ? src[i] : '?';
    dst[i] = '\0';
}

void order_scan (const char *text, struct order *order)
{
    char lower[GEOMETRY_ORDER_MAX];
    char *token = lower;
    size_t n;

    memset (order, 0, sizeof (*order));
    order_copy_printable (order->text, text, sizeof (order->text));
    n = strlen (order->text);
    for (size_t i = 0; i <= n; i++) {
        // Megatron-LM reads the order string without regard to case
        lower[i] = tolower ((unsigned char)order->text[i]);
        if (lower[i] == '-' || lower[i] == '\0') {
            lower[i] = '\0';
            scan_token (order, token);
            token = lower + i + 1;
        }
    }
}
