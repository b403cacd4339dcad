/* pattern - lists of layers, and what is no list */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/topo/pattern.h"
#include "tests/tap/tap.h"

static void test_list (const char *text, const char *want)
{
    struct mg_error err = { "" };
    struct pattern p;
    int layers = (int)strlen (want);
    char got[64] = "";

    if (pattern_parse ("--list", text, layers, &p, &err) == 0)
        for (int i = 0; i < layers; i++)
            got[i] = pattern_at (&p, i, true) ? '1' : '0';
    ok (strcmp (got, want) == 0, "%s is %s (%s%s)", text, want, got, err.text);
}

/* A list of 'layers' elements, which 'between' separates and 'end' ends, and its stride. */
static void test_stride (const char *between, const char *end, int layers, int want)
{
    const size_t size = (size_t)layers * (strlen (between) + 1) + strlen (end) + 2;
    char *text = malloc (size), *at = text;
    struct mg_error err = { "" };
    struct pattern p;
    int wrong = 0;

    if (!text)
        bail_out ("out of memory");
    *at++ = '[';
    for (int i = 0; i < layers; i++)
        at += snprintf (at, size - (size_t)(at - text), "%s%d", i > 0 ? between : "", i % 3 == 1);
    strcpy (at, end);
    if (want < 0) {
        ok (pattern_parse ("--list", text, layers, &p, &err) < 0
            && strstr (err.text, " characters, want at most "), "%d layers: %s", layers, err.text);
    } else {
        if (pattern_parse ("--list", text, layers, &p, &err) < 0)
            bail_out ("%s", err.text);
        is_int (p.stride, want, "%d layers, \"%s\": stride %d", layers, between, want);
        for (int i = 0; i < layers; i++)
            wrong += pattern_at (&p, i, true) != (i % 3 == 1);
        is_int (wrong, 0, "all values");
    }
    free (text);
}

static void test_every (const char *text, bool last, const char *want)
{
    struct pattern p;
    char got[64] = "";

    if (pattern_parse ("--list", text, (int)strlen (want), &p, NULL) == 0)
        for (size_t i = 0; i < strlen (want); i++)
            got[i] = pattern_at (&p, (int)i, last) ? '1' : '0';
    ok (strcmp (got, want) == 0, "each of %s is %s (%s)", text, want, got);
}

static void test_wrong (const char *text, int layers, const char *want)
{
    struct mg_error err = { "" };
    struct pattern p;
    int rc = pattern_parse ("--list", text, layers, &p, &err);

    ok (rc < 0 && strstr (err.text, want) && strstr (err.text, "--list"), "\"%s\": %s", text,
        err.text);
}

int main (void)
{
    char deep[200], names[40] = "";

    test_list ("[1]", "1");
    test_list ("[0,1, 1]", "011");
    test_list ("[1,1,1,0]*3", "111011101110");
    test_list ("([0]*3+[1]*1)*3", "000100010001");
    test_list (" ( [1] + [0] * 5 ) * 2 + [1] ", "1000001000001");
    test_list ("([1,0]*2+([0]*2+[1])*2)*2*1", "10100010011010001001");
    test_list ("[]+[1]+[]*7+[0]*0+[1]", "11");
    test_stride (",", "]", 1 << 16, 2);
    test_stride (", ", "]", 1 << 16, 3);
    test_stride (",", "]", 1, 2);
    test_stride (",", "] ", 100, 0);
    test_stride (" ,", "]", 100, 0);
    test_stride (",", "]*1", 100, 0);
    test_stride (",", "]*1", 1 << 16, -1);
    test_every ("4", true, "00010001");
    test_every ("4", false, "11101110");
    test_every ("1", true, "111");
    test_wrong ("[1,1]", 3, "is of 2 layers, the model has 3");
    test_wrong ("[1,2]", 2, "want 0 or 1 at character 4");
    test_wrong ("[1,1", 2, "\",\" or \"]\"");
    test_wrong ("[1]*", 1, "a number");
    test_wrong ("[1]*9999999999999999999", 1, "a smaller number");
    test_wrong ("[1]*1000000*1000000*1000000", 1, "a shorter list");
    test_wrong ("([1]", 1, "\")\"");
    test_wrong ("[1])", 1, "the end");
    test_wrong ("[1]-[0]", 2, "the end");
    test_wrong ("0", 3, "0");
    test_wrong ("-4", 3, "-4");
    test_wrong ("four", 3, "four");
    memset (deep, '(', sizeof (deep) - 1);
    memcpy (deep + 150, "[1]", 4);
    test_wrong (deep, 1, "fewer brackets");
    snprintf (names, sizeof (names), "[1]*%d", 65536);
    test_wrong (names, 3, "is of 65536 layers");
    return done_testing ();
}
