/* c_locale.c - the C locale for one thread
 *
 * The C library has the C locale built in: newlocale() with all categories of "C" allocates
 * nothing, returns the same object each time, and does not fail.  That object is never freed.
 */

#include <errno.h>

#include "libcore/base/c_locale.h"

locale_t c_locale_enter (void)
{
    int saved_errno = errno;
    locale_t before = uselocale (newlocale (LC_ALL_MASK, "C", (locale_t)0));

    errno = saved_errno;
    return before;
}

void c_locale_leave (locale_t before)
{
    int saved_errno = errno;

    uselocale (before);
    errno = saved_errno;
}
