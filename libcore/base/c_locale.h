/* c_locale - the library writes and reads text in the C locale, whatever the program's locale is.
 *
 * setlocale() of a program changes what the C library does in every thread: printf() writes
 * 0,5, strtod() reads only the 0 of "0.5", and isspace(), toupper() and strcasecmp() follow
 * another alphabet.  JSON libraries use these functions, too.  A locale of the calling thread,
 * uselocale(3), comes before that of the program.  So the places where a thread enters our code
 * put the thread into the C locale, and the places where it leaves our code restore the
 * thread's own locale:
 *
 *   public functions (libcore/api) that read or write text, mg_error_set(), parse_double()
 *   threads that the library starts (thread.h)
 *   main() of the command, and the hooks of the plugin
 *
 * All other code uses printf(), strtod() and the like as they are.  tests/t0009-locale.t finds a
 * public function, a thread or a use of a locale that does not follow this rule.
 */
#ifndef LIBCORE_BASE_C_LOCALE_H
#define LIBCORE_BASE_C_LOCALE_H

#include <locale.h>

/* Put the calling thread into the C locale.  Returns the thread's earlier locale, for
 * c_locale_leave().  Keeps errno.
 */
locale_t c_locale_enter (void);

/* Set the calling thread's locale to `before`, which c_locale_enter() returned.  Keeps
 * errno. */
void c_locale_leave (locale_t before);

#endif /* LIBCORE_BASE_C_LOCALE_H */
