/* parse.c - text to numbers: the whole text, the whole range, nothing else */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

static void test_int64 (void)
{
    static const struct {
        const char *text;
        int64_t min, max;
        int errnum; /* 0: good */
        int64_t value;
    } cases[] = {
        { "0", 0, 10, 0, 0 },
        { "10", 0, 10, 0, 10 },
        { "11", 0, 10, ERANGE, 0 },
        { "9", 10, 20, ERANGE, 0 },
        { "10", 10, 20, 0, 10 },
        { "-1", 0, 10, ERANGE, 0 },
        { "-1", -1, 10, 0, -1 },
        { "-2", -1, 10, ERANGE, 0 },
        { "007", 0, 10, 0, 7 },
        { "9223372036854775807", INT64_MIN, INT64_MAX, 0, INT64_MAX },
        { "9223372036854775808", INT64_MIN, INT64_MAX, ERANGE, 0 },
        { "-9223372036854775808", INT64_MIN, INT64_MAX, 0, INT64_MIN },
        { "-9223372036854775809", INT64_MIN, INT64_MAX, ERANGE, 0 },
        { "99999999999999999999999999999999999999999999999999", 0, 1, ERANGE, 0 },
        { "-0", -1, 10, 0, 0 },
        { "-0", 0, 10, ERANGE, 0 },
        { "-00", 0, 10, ERANGE, 0 },
        { "", 0, 10, EINVAL, 0 },
        { NULL, 0, 10, EINVAL, 0 },
        { " 1", 0, 10, EINVAL, 0 },
        { "1 ", 0, 10, EINVAL, 0 },
        { "+1", 0, 10, EINVAL, 0 },
        { "-", -10, 10, EINVAL, 0 },
        { "--1", -10, 10, EINVAL, 0 },
        { "- 1", -10, 10, EINVAL, 0 },
        { "1.0", 0, 10, EINVAL, 0 },
        { "1e3", 0, 10000, EINVAL, 0 },
        { "0x1", 0, 10, EINVAL, 0 },
        { "4x", 0, 10, EINVAL, 0 },
        { "four", 0, 10, EINVAL, 0 },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        const char *text = cases[i].text ? cases[i].text : "(null)";
        struct mg_error err = { .text = "" };
        int64_t value = 12345;
        int rc;

        errno = 0;
        rc = parse_int64 ("--tp", cases[i].text, cases[i].min, cases[i].max, &value, &err);
        is_int (rc, cases[i].errnum ? -1 : 0, "\"%s\" is %s", text,
                cases[i].errnum ? "refused" : "read");
        is_int (value, cases[i].errnum ? 12345 : cases[i].value, "with its value");
        if (cases[i].errnum) {
            is_int (errno, cases[i].errnum, "with errno");
            ok (strncmp (err.text, "--tp: ", 6) == 0, "and a text: %s", err.text);
        }
    }
}

static void test_int (void)
{
    struct mg_error err;
    int value = 7;

    is_int (parse_int ("n", "2147483647", 0, INT_MAX, &value, &err), 0, "INT_MAX is read");
    is_int (value, INT_MAX, "with its value");
    is_int (parse_int ("n", "-2147483648", INT_MIN, 0, &value, &err), 0, "INT_MIN is read");
    is_int (value, INT_MIN, "with its value");
    value = 7;
    is_int (parse_int ("n", "2147483648", 0, INT_MAX, &value, &err), -1, "one more is not");
    is_int (value, 7, "and the value is left alone");
    is_str (err.text, "n: 2147483648 is out of range, want 0 to 2147483647", "the text");
    is_int (parse_int ("n", "x", 0, 9, &value, &err), -1, "nor is a word");
    is_str (err.text, "n: \"x\" is not a whole number, want 0 to 9", "the text");
    is_int (parse_int ("n", "x", 0, 9, &value, NULL), -1, "err may be NULL");
}

static void test_double (void)
{
    static const struct {
        const char *text;
        double min, max;
        int errnum;
        double value;
    } cases[] = {
        { "0", 0, 1, 0, 0 },
        { "1", 0, 1, 0, 1 },
        { "1.0000001", 0, 1, ERANGE, 0 },
        { "-0.1", 0, 1, ERANGE, 0 },
        { "1e-5", 0, 1, 0, 1e-5 },
        { "6.25E2", 0, 1e3, 0, 625 },
        { ".5", 0, 1, 0, 0.5 },
        { "5.", 0, 9, 0, 5 },
        { "+0.5", 0, 1, 0, 0.5 },
        { "1e999", 0, HUGE_VAL, ERANGE, 0 },
        { "nan", -1, 1, EINVAL, 0 },
        { "inf", -1, HUGE_VAL, EINVAL, 0 },
        { "0x1p3", 0, 100, EINVAL, 0 },
        { "1,5", 0, 10, EINVAL, 0 },
        { "", 0, 1, EINVAL, 0 },
        { NULL, 0, 1, EINVAL, 0 },
        { " 1", 0, 1, EINVAL, 0 },
        { "1e", 0, 1, EINVAL, 0 },
        { "1.2.3", 0, 9, EINVAL, 0 },
        { "e5", 0, 9, EINVAL, 0 },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        const char *text = cases[i].text ? cases[i].text : "(null)";
        struct mg_error err = { .text = "" };
        double value = 12345;
        int rc;

        errno = 0;
        rc = parse_double ("--lr", cases[i].text, cases[i].min, cases[i].max, &value, &err);
        is_int (rc, cases[i].errnum ? -1 : 0, "\"%s\" is %s", text,
                cases[i].errnum ? "refused" : "read");
        is_near (value, cases[i].errnum ? 12345 : cases[i].value, 0, "with its value");
        if (cases[i].errnum) {
            is_int (errno, cases[i].errnum, "with errno");
            ok (strncmp (err.text, "--lr: ", 6) == 0, "and a text: %s", err.text);
        }
    }
}

/* A locale with a decimal comma must not change what 0.5 means. */
static void test_double_locale (void)
{
    double value = 0;

    if (!setlocale (LC_ALL, "de_DE.UTF-8") && !setlocale (LC_ALL, "fr_FR.UTF-8")) {
        skip (2, "no locale with a decimal comma is installed");
        return;
    }
    is_int (parse_double ("x", "0.5", 0, 1, &value, NULL), 0, "0.5 in any locale");
    is_near (value, 0.5, 0, "with its value");
    setlocale (LC_ALL, "C");
}

static void test_bytes (void)
{
    static const struct {
        const char *text;
        int64_t value; /* 0: refused */
    } rows[] = {
        { "1", 1 }, { "1000000", 1000000 }, { "1K", 1000 }, { "3m", 3000000 },
        { "7B", 7 }, { "7b", 7 }, { "2KB", 2000 }, { "1Ki", 1024 }, { "3mib", 3 << 20 },
        { "16G", INT64_C (16000000000) }, { "40GB", INT64_C (40000000000) },
        { "16Gi", INT64_C (16) << 30 }, { "40GiB", INT64_C (40) << 30 },
        { "2T", INT64_C (2000000000000) }, { "2TiB", INT64_C (2) << 40 },
        { "9223372T", INT64_C (9223372000000000000) }, { "9223373T", 0 },
        { "8388607TiB", INT64_C (8388607) << 40 }, { "8388608TiB", 0 }, { "0", 0 }, { "0G", 0 },
        { "", 0 }, { "G", 0 }, { "-1G", 0 }, { "+1", 0 }, { "1.5G", 0 }, { "1 G", 0 },
        { "1GG", 0 }, { "1iB", 0 }, { "1GBB", 0 }, { "1GiBs", 0 }, { "1X", 0 }, { " 1", 0 },
        { "9223372036854775808", 0 }, { "100000000000000000000000000", 0 }, { NULL, 0 },
    };

    for (size_t i = 0; i < COUNT (rows); i++) {
        struct mg_error err = { "" };
        int64_t value = 7;
        int rc = parse_bytes ("--fit", rows[i].text, &value, &err);

        ok (rows[i].value ? rc == 0 && value == rows[i].value
                          : rc == -1 && value == 7 && strncmp (err.text, "--fit: ", 7) == 0,
            "\"%s\" %s", rows[i].text ? rows[i].text : "(null)", err.text);
    }
}

static void test_bool (void)
{
    static const char *const yes[] = { "yes", "true", "on", "1", "YES", "True" };
    static const char *const no[] = { "no", "false", "off", "0", "No", "OFF" };
    static const char *const bad[] = { "", "2", "y", "yess", " yes", "enable", NULL };
    struct mg_error err;
    bool value;

    for (size_t i = 0; i < COUNT (yes); i++) {
        value = false;
        ok (parse_bool ("b", yes[i], &value, &err) == 0 && value, "%s is true", yes[i]);
    }
    for (size_t i = 0; i < COUNT (no); i++) {
        value = true;
        ok (parse_bool ("b", no[i], &value, &err) == 0 && !value, "%s is false", no[i]);
    }
    for (size_t i = 0; i < COUNT (bad); i++) {
        const char *text = bad[i] ? bad[i] : "(null)";

        value = true;
        errno = 0;
        ok (parse_bool ("b", bad[i], &value, &err) == -1 && errno == EINVAL && value,
            "\"%s\" is refused", text);
    }
    parse_bool ("--flag", "maybe", &value, &err);
    is_str (err.text, "--flag: \"maybe\" is not yes or no", "the text");
}

int main (void)
{
    test_int64 ();
    test_int ();
    test_double ();
    test_double_locale ();
    test_bytes ();
    test_bool ();
    return done_testing ();
}
