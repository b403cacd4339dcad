/* order.c - order strings taken apart */

#include <string.h>

#include "libcore/topo/order.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

/* The known axes as text, in the order found. */
static const char *found (const struct order *order)
{
    static char text[64];

    text[0] = '\0';
    for (int i = 0; i < order->naxes; i++) {
        strcat (text, i ? "-" : "");
        strcat (text, geometry_axis_name (order->axis[i]));
    }
    return text;
}

static void test_scan (void)
{
    static const struct {
        const char *text;
        const char *axes;    /* known ones, first mentions */
        const char *unknown; /* NULL: none */
        int repeats;
    } cases[] = {
        {"tp-cp-ep-dp-pp", "tp-cp-ep-dp-pp", NULL, 0},
        {"pp-dp-ep-cp-tp", "pp-dp-ep-cp-tp", NULL, 0},
        {"TP-Cp-eP-dp-PP", "tp-cp-ep-dp-pp", NULL, 0},
        {"tp", "tp", NULL, 0},
        {"", "", "", 0},
        {"-", "", "", 0},
        {"tp-", "tp", "", 0},
        {"-tp", "tp", "", 0},
        {"tp--pp", "tp-pp", "", 0},
        {"tp-tp", "tp", NULL, 1},
        {"tp-dp-tp-dp-tp", "tp-dp", NULL, 3},
        {"tpp", "", "tpp", 0},
        {"t", "", "t", 0},
        {"tp-gtp_remat-dp", "tp-dp", "gtp_remat", 0},
        {"tp-xx-yy", "tp", "xx", 0},
        {"tp dp", "", "tp dp", 0},
        {"tp,dp", "", "tp,dp", 0},
        {"tp-dp\n", "tp", "dp?", 0},
        {"tp-cp-ep-dp-pp-tp-cp-ep-dp-pp-tp-tp", "tp-cp-ep-dp-pp", "t", 5}, /* cut at 31 */
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct order order;
        int repeats = 0;

        order_scan (cases[i].text, &order);
        for (int a = 0; a < MG_NUM_AXES; a++)
            repeats += order.times[a] > 1 ? order.times[a] - 1 : 0;
        is_str (found (&order), cases[i].axes, "\"%s\": known axes", order.text);
        is_str (order.has_unknown ? order.unknown : NULL, cases[i].unknown,
                "\"%s\": first unknown name", order.text);
        is_int (repeats, cases[i].repeats, "\"%s\": repeated names", order.text);
    }
}

static void test_printable (void)
{
    char text[8] = "xxxxxxx";

    order_copy_printable (text, "a\tb\x7f\x80\xff", sizeof (text));
    is_str (text, "a?b???", "control and other bytes are replaced");
    order_copy_printable (text, "1234567", sizeof (text));
    is_str (text, "1234567", "a text that just fits");
    order_copy_printable (text, "12345678", sizeof (text));
    is_str (text, "1234567", "a text one longer is cut");
    order_copy_printable (text, "abc", 1);
    is_str (text, "", "room for the terminator only");
}

int main (void)
{
    test_scan ();
    test_printable ();
    return done_testing ();
}
