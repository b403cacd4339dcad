/* c_locale - a thread enters the C locale and gets its own locale back */

#include <errno.h>
#include <locale.h>

#include "libcore/base/c_locale.h"
#include "tests/tap/tap.h"

int main (void)
{
    locale_t own = newlocale (LC_ALL_MASK, "C.UTF-8", (locale_t)0), before, inner;

    if (own == (locale_t)0 && !(own = newlocale (LC_ALL_MASK, "POSIX", (locale_t)0)))
        bail_out ("newlocale");
    errno = 99;
    before = c_locale_enter ();
    ok (before == LC_GLOBAL_LOCALE, "a thread without a locale has that of the program");
    is_str (localeconv ()->decimal_point, ".", "numbers have a point");
    inner = c_locale_enter ();
    ok (inner != LC_GLOBAL_LOCALE && inner == uselocale ((locale_t)0), "twice is the same");
    c_locale_leave (inner);
    ok (uselocale ((locale_t)0) == inner, "the inner call leaves the outer one's locale");
    c_locale_leave (before);
    ok (uselocale ((locale_t)0) == LC_GLOBAL_LOCALE, "the outer one that of the program");
    uselocale (own);
    c_locale_leave (c_locale_enter ());
    ok (uselocale ((locale_t)0) == own, "a thread's own locale comes back");
    is_int (errno, 99, "errno is kept");
    uselocale (LC_GLOBAL_LOCALE);
    freelocale (own);
    return done_testing ();
}
