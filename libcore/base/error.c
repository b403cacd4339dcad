/* error.c - fill a struct mg_error, keep errno */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "megatron/error.h"

/* Copy 'text', of true length 'len' before any cut, and mark a cut.  What came from outside
 * with control characters in it stays one line that a terminal can show.
 */
static void store (struct mg_error *err, const char *text, int len)
{
    static const char mark[] = "...";
    size_t kept;

    if (len < 0)
        text = "error text could not be formatted";
    kept = strnlen (text, sizeof (err->text) - 1);
    memcpy (err->text, text, kept);
    err->text[kept] = '\0';
    for (size_t i = 0; i < kept; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == '\x7f')
            err->text[i] = '?';
    }
    if (len >= (int)sizeof (err->text))
        memcpy (err->text + sizeof (err->text) - sizeof (mark), mark, sizeof (mark));
}

int mg_error_set (struct mg_error *err, int errnum, const char *fmt, ...)
{
    if (err) {
        char text[MG_ERROR_MAX];
        va_list ap;
        int len;

        va_start (ap, fmt);
        len = vsnprintf (text, sizeof (text), fmt, ap);
        va_end (ap);
        store (err, text, len);
    }
    errno = errnum;
    return -1;
}

int mg_error_prefix (struct mg_error *err, const char *fmt, ...)
{
    int saved_errno = errno;

    if (err) {
        char text[2 * MG_ERROR_MAX + 4];
        va_list ap;
        int len;

        va_start (ap, fmt);
        len = vsnprintf (text, MG_ERROR_MAX, fmt, ap);
        va_end (ap);
        if (len >= MG_ERROR_MAX)
            len = MG_ERROR_MAX - 1;
        if (len < 0)
            len = 0;
        len += snprintf (text + len, sizeof (text) - len, ": %s", err->text);
        store (err, text, len);
    }
    errno = saved_errno;
    return -1;
}
