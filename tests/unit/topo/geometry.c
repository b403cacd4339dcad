/* geometry.c - parallel sizes: every rule at its borders, and the words of refusals */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libcore/topo/geometry.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))
#define MAX GEOMETRY_SIZE_MAX

/* Sizes in a test table; 0 stands for the default. */
struct sizes {
    int world, tp, cp, pp, ep, etp, vpp;
    const char *order;
};

static struct geometry make (const struct sizes *s)
{
    struct geometry g;

    geometry_init (&g);
    g.world = s->world;
    g.tp = s->tp ? s->tp : 1;
    g.cp = s->cp ? s->cp : 1;
    g.pp = s->pp ? s->pp : 1;
    g.ep = s->ep ? s->ep : 1;
    g.etp = s->etp;
    g.vpp = s->vpp;
    if (s->order)
        snprintf (g.order, sizeof (g.order), "%s", s->order);
    return g;
}

static const char *show (const struct sizes *s)
{
    static char text[160];

    snprintf (text, sizeof (text), "world %d tp %d cp %d pp %d ep %d etp %d vpp %d %s",
              s->world, s->tp, s->cp, s->pp, s->ep, s->etp, s->vpp,
              s->order ? s->order : "");
    return text;
}

/* Reports collected: the rules' names joined by blanks, and the last text of each line.
 */
struct collected {
    char rules[512];
    char texts[2048];
};

static void collect (void *arg, const char *rule, const char *text)
{
    struct collected *c = arg;

    if (c->rules[0]) {
        strcat (c->rules, " ");
        strcat (c->texts, "\n");
    }
    strcat (c->rules, rule);
    strcat (c->texts, text);
}

static const struct {
    struct sizes s;
    const char *rules; /* broken ones in order, "": legal */
} rule_cases[] = {
    { { .world = 1 }, "" },
    { { 0 }, "" },
    { { .world = 16, .tp = 2, .cp = 2, .pp = 2, .ep = 4, .etp = 1 }, "" },
    { { .world = MAX }, "" },
    { { .world = MAX, .tp = MAX }, "" },
    { { .world = MAX + 1 }, "size" },
    { { .world = -1 }, "size" },
    { { .world = 8, .tp = -1, .pp = MAX + 1, .vpp = -1 }, "size size size" },
    { { .world = 8, .etp = -2 }, "size" },
    { { .world = 8, .tp = -1, .order = "tp-xx" }, "size order-unknown-axis" },
    { { .vpp = 1 }, "" },
    { { .vpp = 2 }, "vpp-needs-pp" },
    { { .pp = 2, .vpp = 2 }, "" },
    { { .world = 7, .tp = 8 }, "world-dense" },
    { { .world = 8, .tp = 8 }, "" },
    { { .world = 9, .tp = 8 }, "world-dense" },
    { { .world = 8, .tp = 2, .cp = 2, .pp = 2 }, "" },
    { { .world = 12, .tp = 2, .cp = 2, .pp = 2 }, "world-dense" },
    { { .world = 8, .ep = 8 }, "" },
    { { .world = 8, .ep = 3 }, "world-expert" },
    { { .world = 8, .tp = 2, .ep = 8 }, "world-expert" },
    { { .world = 8, .tp = 2, .ep = 8, .etp = 1 }, "" },
    { { .world = 8, .etp = 16 }, "world-expert" },
    { { .world = 12, .tp = 8, .ep = 5 }, "world-dense world-expert" },
    { { .tp = 3, .ep = 7 }, "" },
    { { .tp = MAX, .cp = 2 }, "product-dense" },
    { { .tp = MAX / 2, .cp = 2 }, "" },
    { { .world = 4, .tp = MAX, .cp = MAX, .pp = MAX },
      "product-dense product-expert" },
    { { .ep = MAX, .etp = MAX }, "product-expert" },
    { { .world = 8, .tp = 2, .order = "tp-dp-pp" }, "" },
    { { .world = 8, .tp = 2, .order = "TP-DP-PP" }, "" },
    { { .world = 8, .tp = 2, .order = "dp" }, "order-missing-axis" },
    { { .world = 8, .tp = 2, .order = "tp" }, "order-missing-axis" },
    { { .world = 8, .tp = 8, .order = "tp" }, "" },
    { { .world = 8, .tp = 8, .etp = 1, .order = "tp" }, "order-missing-axis" },
    { { .world = 8, .etp = 2, .order = "dp" }, "order-missing-axis" },
    { { .world = 8, .cp = 2, .ep = 2, .order = "tp-dp-pp" },
      "order-missing-axis order-missing-axis" },
    { { .world = 0, .tp = 2, .order = "tp" }, "" },
    { { .world = 8, .order = "" }, "order-unknown-axis" },
    { { .world = 8, .order = "tp-tp-dp" }, "order-repeated-axis" },
    { { .world = 8, .order = "dp-dp-pp-pp" },
      "order-repeated-axis order-repeated-axis" },
    { { .world = 8, .order = "tp-xx-tp" }, "order-unknown-axis order-repeated-axis" },
    /* an axis name inside a longer word is no axis */
    { { .world = 8, .tp = 2, .order = "gtp_remat-dp" }, "order-unknown-axis" },
    /* pp not last: dp must equal edp */
    { { .world = 16, .tp = 2, .pp = 2, .order = "tp-cp-ep-pp-dp" }, "" },
    { { .world = 16, .tp = 2, .pp = 2, .ep = 2, .order = "tp-cp-ep-pp-dp" },
      "order-pp-last order-pp-groups" },
    { { .world = 16, .tp = 2, .pp = 2, .ep = 2, .etp = 1, .order = "tp-cp-ep-pp-dp" },
      "" },
    { { .world = 16, .tp = 2, .pp = 1, .ep = 2, .order = "tp-cp-ep-pp-dp" }, "" },
    { { .pp = 2, .ep = 2, .order = "tp-cp-ep-pp-dp" },
      "order-pp-last order-pp-groups" },
    { { .world = 16, .cp = 2, .pp = 2, .order = "tp-cp-ep-pp-dp" },
      "order-pp-last order-pp-groups" },
    /* the same stride, yet dp differs: refused as Megatron-LM does */
    { { .world = 16, .cp = 2, .pp = 2, .order = "tp-ep-pp-cp-dp" }, "order-pp-last" },
    { { .world = 16, .tp = 2, .pp = 2, .order = "tp-dp-pp-cp" }, "" },
    { { .world = 16, .tp = 2, .pp = 2, .ep = 2, .order = "tp-ep-dp-pp-cp" },
      "order-pp-last" },
    /* dp equals edp, yet pp lies between different axes */
    { { .world = 16, .cp = 2, .pp = 2, .ep = 2, .order = "tp-cp-pp-ep-dp" },
      "order-pp-groups" },
    { { .world = 16, .cp = 2, .pp = 2, .ep = 2, .order = "dp-pp-tp-cp-ep" }, "" },
    { { .world = 16, .cp = 2, .pp = 2, .ep = 2, .order = "dp-cp-pp-tp-ep" },
      "order-pp-groups" },
};

static void test_rules (void)
{
    for (size_t i = 0; i < COUNT (rule_cases); i++) {
        struct geometry g = make (&rule_cases[i].s);
        struct collected c = { .rules = "" };
        struct mg_error err = { .text = "" };
        int n = geometry_check (&g, collect, &c);
        size_t words = rule_cases[i].rules[0] ? 1 : 0;

        for (const char *p = rule_cases[i].rules; *p; p++)
            words += *p == ' ';
        is_str (c.rules, rule_cases[i].rules, "rules broken by %s",
                show (&rule_cases[i].s));
        is_int (n, words, "counted");
        is_int (geometry_check (&g, NULL, NULL), n, "and counted alike without reports");
        errno = 0;
        is_int (geometry_validate (&g, &err), n ? -1 : 0, "validate");
        is_int (errno, n ? EINVAL : 0, "errno");
        ok (strncmp (c.texts, err.text, strlen (err.text)) == 0, "says the first: %s",
            err.text);
        is_int (geometry_validate (&g, NULL), n ? -1 : 0, "validate without a text");
    }
}

static const struct {
    struct sizes s;
    const char *text;
} texts[] = {
    { { .world = 12, .tp = 4, .pp = 2 },
     "12 tasks cannot hold tp 4 x cp 1 x pp 2 = 8; use -n 8 or -n 16" },
    { { .world = 7, .tp = 4, .pp = 2 },
     "7 tasks cannot hold tp 4 x cp 1 x pp 2 = 8; use -n 8" },
    { { .world = 1, .tp = 2 },
      "1 task cannot hold tp 2 x cp 1 x pp 1 = 2; use -n 2" },
    { { .world = 15, .tp = 8 },
     "15 tasks cannot hold tp 8 x cp 1 x pp 1 = 8; use -n 8 or -n 16" },
    { { .world = 17, .tp = 8 },
     "17 tasks cannot hold tp 8 x cp 1 x pp 1 = 8; use -n 16 or -n 24" },
    /* counts that suit both grids, said once */
    { { .world = 50, .tp = 8, .ep = 3, .etp = 1 },
     "50 tasks cannot hold tp 8 x cp 1 x pp 1 = 8; use -n 48 or -n 72\n"
     "50 tasks cannot hold etp 1 x ep 3 x pp 1 = 3" },
    { { .world = 16, .tp = 8, .ep = 3, .etp = 1 },
     "16 tasks cannot hold etp 1 x ep 3 x pp 1 = 3; use -n 24" },
    { { .world = 8, .tp = 2, .ep = 4, .pp = 2, .etp = 2 },
     "8 tasks cannot hold etp 2 x ep 4 x pp 2 = 16; use -n 16" },
    { { .world = 8, .tp = 2, .ep = 8 },
     "8 tasks cannot hold etp 2 x ep 8 x pp 1 = 16; "
     "use -n 16, or etp 1 (it defaults to tp)" },
    { { .world = 24, .tp = 2, .ep = 16 },
     "24 tasks cannot hold etp 2 x ep 16 x pp 1 = 32; use -n 32" },
    { { .world = 8, .tp = 2, .ep = 8, .vpp = 2 },
      "vpp 2 needs pp > 1, but pp is 1; use pp 2 or more, or no vpp\n"
      "8 tasks cannot hold etp 2 x ep 8 x pp 1 = 16; use -n 16, or etp 1 (it defaults "
      "to tp)" },
    /* etp 1 would divide, but break the order */
    { { .world = 8, .tp = 2, .pp = 2, .ep = 4, .order = "tp-ep-pp-dp" },
     "8 tasks cannot hold etp 2 x ep 4 x pp 2 = 16; use -n 16\n"
     "order \"tp-ep-pp-dp\" does not end with pp, so tp 2 x cp 1 must equal etp 2 x "
     "ep 4 (dp = edp); end the order with pp\n"
     "order \"tp-ep-pp-dp\" gives other pp groups to the dense grid (tp 2, cp 1) "
     "than to the expert grid (etp 2, ep 4); end the order with pp" },
    { { .world = 12, .tp = 8, .vpp = 2 },
     "vpp 2 needs pp > 1, but pp is 1; use pp 2 or more, or no vpp\n"
     "12 tasks cannot hold tp 8 x cp 1 x pp 1 = 8; use -n 8 or -n 16" },
    /* without dp in the order there is one count */
    { { .world = 24, .tp = 8, .pp = 2, .order = "tp-pp" },
     "24 tasks cannot hold tp 8 x cp 1 x pp 2 = 16; use -n 16" },
    { { .world = MAX, .tp = MAX - 1 },
     "16777216 tasks cannot hold tp 16777215 x cp 1 x pp 1 = 16777215; use -n "
     "16777215" },
    { { .world = 3, .tp = MAX - 1, .ep = MAX - 3, .etp = 1 },
     "3 tasks cannot hold tp 16777215 x cp 1 x pp 1 = 16777215; no number of tasks "
     "up to 16777216 suits both grids\n"
     "3 tasks cannot hold etp 1 x ep 16777213 x pp 1 = 16777213" },
    { { .tp = MAX, .cp = 2, .etp = 1 },
     "tp 16777216 x cp 2 x pp 1 is more than 16777216 tasks" },
    { { .world = 4, .order = "tp-xx" },
     "order \"tp-xx\" names an unknown axis \"xx\", "
     "want tp, cp, ep, dp, pp joined by -" },
    { { .world = 4, .order = "tp\n" },
     "order \"tp?\" names an unknown axis \"tp?\", "
     "want tp, cp, ep, dp, pp joined by -" },
    { { .world = 4, .order = "tp-tp-tp-dp" },
     "order \"tp-tp-tp-dp\" names tp 3 times, want each axis once" },
    { { .world = 4, .tp = 2, .order = "dp" }, "order \"dp\" lacks tp, but tp is 2" },
    { { .world = 4, .etp = 2, .order = "dp" },
      "order \"dp\" lacks tp, but etp is 2" },
    { { .world = 4, .tp = 4, .etp = 1, .order = "tp" },
     "order \"tp\" lacks dp, but edp is 4" },
    { { .world = 4, .ep = 2, .order = "dp" }, "order \"dp\" lacks ep, but ep is 2" },
    { { .world = 4, .tp = -3 }, "tp -3 is out of range, want 1 to 16777216" },
};

static void test_texts (void)
{
    for (size_t i = 0; i < COUNT (texts); i++) {
        struct geometry g = make (&texts[i].s);
        struct collected c = { .rules = "" };

        geometry_check (&g, collect, &c);
        is_str (c.texts, texts[i].text, "texts for %s", show (&texts[i].s));
    }
}

/* A suggested number of tasks is legal, and nothing nearer is. */
static void test_suggestions (void)
{
    int bad = 0, seen = 0;

    for (int world = 1; world <= 40; world++) {
        for (int i = 0; i < 3 * 2 * 3 * 3 * 2; i++) {
            struct sizes s = { .world = world, .tp = 1 + i % 3, .cp = 1 + i / 3 % 2,
                               .pp = 1 + i / 6 % 3, .ep = 1 + i / 18 % 3,
                               .etp = i / 54 ? 2 : 0 };
            struct geometry g = make (&s);
            struct mg_error err;
            int below = 0, above = 0;

            if (geometry_validate (&g, &err) == 0)
                continue;
            seen++;
            if (sscanf (strstr (err.text, "; use"), "; use -n %d or -n %d", &below,
                        &above)
                    == 1
                && below > world)
                above = below, below = 0;
            for (g.world = world - 1; g.world && geometry_check (&g, NULL, NULL);
                 g.world--)
                ;
            bad += g.world != below;
            for (g.world = world + 1; geometry_check (&g, NULL, NULL); g.world++)
                ;
            bad += g.world != above;
        }
    }
    ok (seen > 1000, "%d bad geometries seen", seen);
    is_int (bad, 0, "every one names the nearest legal numbers of tasks");
}

static void test_sizes (void)
{
    struct sizes s = { .world = 48, .tp = 2, .cp = 2, .pp = 3, .ep = 4, .etp = 1 };
    struct geometry g = make (&s);

    is_int (geometry_dp (&g), 4, "dp");
    is_int (geometry_edp (&g), 4, "edp");
    is_int (geometry_etp (&g), 1, "etp given");
    is_int (geometry_axis_size (&g, false, MG_AXIS_TP), 2, "dense tp");
    is_int (geometry_axis_size (&g, true, MG_AXIS_TP), 1, "expert tp");
    is_int (geometry_axis_size (&g, false, MG_AXIS_CP), 2, "dense cp");
    is_int (geometry_axis_size (&g, true, MG_AXIS_CP), 1, "expert cp");
    is_int (geometry_axis_size (&g, false, MG_AXIS_EP), 1, "dense ep");
    is_int (geometry_axis_size (&g, true, MG_AXIS_EP), 4, "expert ep");
    is_int (geometry_axis_size (&g, true, MG_AXIS_PP), 3, "expert pp");
    g.etp = 0;
    is_int (geometry_etp (&g), 2, "etp not given equals tp");
    is_int (geometry_edp (&g), 2, "edp follows");
    g.world = 47;
    is_int (geometry_dp (&g), 0, "dp of a world that does not divide");
    g.world = 0;
    is_int (geometry_edp (&g), 0, "edp of no world");
    g.world = 4;
    g.tp = g.cp = g.pp = 0x7fffffff;
    is_int (geometry_dp (&g), 0, "absurd sizes do not overflow");
}

static void test_order (void)
{
    static const struct {
        struct sizes s;
        const char *order; /* completed, NULL: refused */
    } cases[] = {
        { { .world = 8 }, "tp-cp-ep-dp-pp" },
        { { .world = 8, .order = "dp" }, "dp-tp-pp-ep-cp" },
        { { .world = 8, .tp = 2, .order = "tp-dp" }, "tp-dp-pp-ep-cp" },
        { { .world = 8, .order = "EP-tp-DP-pp" }, "ep-tp-dp-pp-cp" },
        { { .world = 8, .order = "pp-dp-cp-tp" }, "pp-dp-cp-tp-ep" },
        { { .world = 0, .tp = 2, .order = "tp" }, "tp-pp-dp-ep-cp" },
        { { .world = 8, .tp = 2, .order = "tp" }, NULL },
        { { .world = 8, .cp = 2, .order = "tp-ep-dp-pp" }, NULL },
        { { .world = 8, .order = "tp-tp-dp" }, NULL },
        { { .world = 8, .order = "tp-xp-dp" }, NULL },
        { { .world = 8, .order = "" }, NULL },
        /* another rule is broken, but the order is readable */
        { { .world = 9, .tp = 2, .vpp = 3 }, "tp-cp-ep-dp-pp" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct geometry g = make (&cases[i].s);
        enum mg_axis axis[MG_NUM_AXES];
        struct mg_error err = { .text = "" };
        char text[64] = "";
        int rc = geometry_order (&g, axis, &err);

        for (int a = 0; rc == 0 && a < MG_NUM_AXES; a++)
            sprintf (text + strlen (text), "%s%s", a ? "-" : "",
                     geometry_axis_name (axis[a]));
        is_str (rc == 0 ? text : NULL, cases[i].order, "order of %s", show (&cases[i].s));
        ok ((rc < 0) == (err.text[0] != '\0'), "a text if refused: %s", err.text);
    }
}

static void test_set (void)
{
    static const struct {
        const char *field, *text;
        int errnum;
    } cases[] = {
        { "tp", "1", 0 },
        { "tp", "16777216", 0 },
        { "tp", "16777217", ERANGE },
        { "tp", "0", ERANGE },
        { "tp", "-1", ERANGE },
        { "tp", "two", EINVAL },
        { "tp", "", EINVAL },
        { "tp", NULL, EINVAL },
        { "cp", "2", 0 },
        { "pp", "2", 0 },
        { "ep", "2", 0 },
        { "etp", "1", 0 },
        { "etp", "0", ERANGE },
        { "vpp", "0", 0 },
        { "vpp", "-1", ERANGE },
        { "world", "16", 0 },
        { "world", "0", ERANGE },
        { "order", "tp-dp-pp", 0 },
        { "order", NULL, EINVAL },
        { "dp", "2", ENOENT },
        { "order", "nonsense", 0 },
        { "order", "1234567890123456789012345678901", 0 },
        { "order", "12345678901234567890123456789012", EINVAL },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct geometry g, before;
        struct mg_error err = { .text = "" };
        int rc;

        geometry_init (&g);
        before = g;
        errno = 0;
        rc = geometry_set (&g, cases[i].field, "--opt", cases[i].text, &err);
        is_int (rc, cases[i].errnum ? -1 : 0, "set %s to %s", cases[i].field,
                cases[i].text ? cases[i].text : "nothing");
        is_int (errno, cases[i].errnum, "errno");
        if (rc < 0) {
            ok (memcmp (&g, &before, sizeof (g)) == 0, "nothing changed");
            ok (strncmp (err.text, "--opt: ", 7) == 0, "names the option: %s", err.text);
        }
    }
}

static void test_set_stores (void)
{
    struct geometry g;

    geometry_init (&g);
    geometry_set (&g, "world", "w", "64", NULL);
    geometry_set (&g, "tp", "w", "2", NULL);
    geometry_set (&g, "cp", "w", "3", NULL);
    geometry_set (&g, "pp", "w", "4", NULL);
    geometry_set (&g, "ep", "w", "5", NULL);
    geometry_set (&g, "etp", "w", "6", NULL);
    geometry_set (&g, "vpp", "w", "7", NULL);
    geometry_set (&g, "order", "w", "pp-dp", NULL);
    ok (g.world == 64 && g.tp == 2 && g.cp == 3 && g.pp == 4 && g.ep == 5 && g.etp == 6
        && g.vpp == 7, "each number lands in its field");
    is_str (g.order, "pp-dp", "and the order");
}

int main (void)
{
    test_rules ();
    test_texts ();
    test_suggestions ();
    test_sizes ();
    test_order ();
    test_set ();
    test_set_stores ();
    return done_testing ();
}
