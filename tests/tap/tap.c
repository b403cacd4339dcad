/* tap.c - Test Anything Protocol, the part that our tests need */

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string.h>

#include "tests/tap/tap.h"

enum { LINE_MAX_LEN = 2000 };

static int checks; /* made so far */
static int failed; /* of these */

/* A line break would end the TAP line, a '#' would start a directive. */
static void format_line (char *line, size_t size, const char *fmt, va_list ap)
{
    vsnprintf (line, size, fmt, ap);
    for (char *p = line; *p; p++) {
        if (*p == '\n' || *p == '\r')
            *p = ' ';
        if (*p == '#')
            *p = '/';
    }
}

static bool result (bool pass, const char *file, int line, const char *fmt, va_list ap)
{
    char text[LINE_MAX_LEN];

    format_line (text, sizeof (text), fmt, ap);
    printf ("%sok %d - %s\n", pass ? "" : "not ", ++checks, text);
    if (!pass) {
        failed++;
        printf ("# failed at %s:%d\n", file, line);
    }
    fflush (stdout);
    return pass;
}

bool tap_ok (bool pass, const char *file, int line, const char *fmt, ...)
{
    va_list ap;

    va_start (ap, fmt);
    result (pass, file, line, fmt, ap);
    va_end (ap);
    return pass;
}

bool tap_is_int (int64_t got, int64_t want, const char *file, int line, const char *fmt,
                 ...)
{
    va_list ap;

    va_start (ap, fmt);
    if (!result (got == want, file, line, fmt, ap))
        diag ("got %" PRId64 ", want %" PRId64, got, want);
    va_end (ap);
    return got == want;
}

bool tap_is_near (double got, double want, double tol, const char *file, int line,
                  const char *fmt, ...)
{
    bool pass = fabs (got - want) <= tol;
    va_list ap;

    va_start (ap, fmt);
    if (!result (pass, file, line, fmt, ap))
        diag ("got %.9g, want %.9g, off by %.3g, allowed %.3g", got, want,
              fabs (got - want), tol);
    va_end (ap);
    return pass;
}

bool tap_is_str (const char *got, const char *want, const char *file, int line,
                 const char *fmt, ...)
{
    bool pass = got && want ? strcmp (got, want) == 0 : got == want;
    va_list ap;

    va_start (ap, fmt);
    if (!result (pass, file, line, fmt, ap)) {
        diag (" got \"%s\"", got ? got : "(null)");
        diag ("want \"%s\"", want ? want : "(null)");
    }
    va_end (ap);
    return pass;
}

void skip (int count, const char *fmt, ...)
{
    char text[LINE_MAX_LEN];
    va_list ap;

    va_start (ap, fmt);
    format_line (text, sizeof (text), fmt, ap);
    va_end (ap);
    for (int i = 0; i < count; i++)
        printf ("ok %d # SKIP %s\n", ++checks, text);
    fflush (stdout);
}

void skip_all (const char *fmt, ...)
{
    char text[LINE_MAX_LEN];
    va_list ap;

    va_start (ap, fmt);
    format_line (text, sizeof (text), fmt, ap);
    va_end (ap);
    printf ("1..0 # SKIP %s\n", text);
    exit (0);
}

void diag (const char *fmt, ...)
{
    char text[LINE_MAX_LEN];
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (text, sizeof (text), fmt, ap);
    va_end (ap);
    for (char *p = text; p; ) {
        char *end = strchr (p, '\n');

        if (end)
            *end++ = '\0';
        printf ("# %s\n", p);
        p = end && *end ? end : NULL;
    }
    fflush (stdout);
}

void bail_out (const char *fmt, ...)
{
    char text[LINE_MAX_LEN];
    va_list ap;

    va_start (ap, fmt);
    format_line (text, sizeof (text), fmt, ap);
    va_end (ap);
    printf ("Bail out! %s\n", text);
    exit (1);
}

int done_testing (void)
{
    printf ("1..%d\n", checks);
    if (failed)
        diag ("%d of %d checks failed", failed, checks);
    return failed || fflush (stdout) != 0;
}

bool shared_file (char *path, size_t size, const char *name)
{
    const char *dir = getenv ("MG_SHARED");
    const char *src = getenv ("MG_SRCDIR");
    int len;

    if (dir && *dir)
        len = snprintf (path, size, "%s/%s", dir, name);
    else
        len = snprintf (path, size, "%s/../shared/%s", src && *src ? src : ".", name);
    return len >= 0 && (size_t)len < size && access (path, R_OK) == 0;
}
