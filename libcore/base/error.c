/* error.c - fill a struct mg_error, keep errno */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/c_locale.h"
#include "megatron/error.h"

enum { HEAD = MG_ERROR_MAX * 2 / 5 }; /* what stays in front of a cut */

/* Copy 'text', which may be longer than there is room.  A long text usually has a long path in the
 * middle, so the middle is cut: what failed stands before the path, and the reason after it.
 * Control characters, which come from outside, become '?': the text stays one line that a terminal
 * can show.
 */
static void store (struct mg_error *err, const char *text)
{
    static const char mark[] = "...";
    const size_t len = strlen (text), room = sizeof (err->text) - 1;
    const size_t tail = room - HEAD - (sizeof (mark) - 1);

    if (len <= room) {
        memcpy (err->text, text, len + 1);
    } else {
        memcpy (err->text, text, HEAD);
        memcpy (err->text + HEAD, mark, sizeof (mark) - 1);
        memcpy (err->text + room - tail, text + len - tail, tail + 1);
    }
    for (char *c = err->text; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == '\x7f')
            *c = '?';
    }
}

/* Format in the C locale into 'room', or, where that is too small, into memory: *more, to be
 * freed.  If there is no memory, the text is cut off to fit into 'room'.
 */
static const char *format (char room[MG_ERROR_MAX], char **more, const char *fmt, va_list ap)
{
    const locale_t before = c_locale_enter ();
    va_list again;
    int len;

    *more = NULL;
    va_copy (again, ap);
    len = vsnprintf (room, MG_ERROR_MAX, fmt, ap);
    if (len < 0)
        snprintf (room, MG_ERROR_MAX, "error text could not be formatted");
    else if (len >= MG_ERROR_MAX && vasprintf (more, fmt, again) < 0)
        *more = NULL;
    va_end (again);
    c_locale_leave (before);
    return *more ? *more : room;
}

int mg_error_set (struct mg_error *err, int errnum, const char *fmt, ...)
{
    if (err) {
        char room[MG_ERROR_MAX], *more;
        va_list ap;

        va_start (ap, fmt);
        store (err, format (room, &more, fmt, ap));
        va_end (ap);
        free (more);
    }
    errno = errnum;
    return -1;
}

int mg_error_prefix (struct mg_error *err, const char *fmt, ...)
{
    int saved_errno = errno;

    if (err) {
        char room[MG_ERROR_MAX], text[2 * MG_ERROR_MAX + 4], *more;
        struct mg_error what;
        va_list ap;

        va_start (ap, fmt);
        store (&what, format (room, &more, fmt, ap));
        va_end (ap);
        free (more);
        snprintf (text, sizeof (text), "%s: %s", what.text, err->text);
        store (err, text);
    }
    errno = saved_errno;
    return -1;
}
