/* tap - write Test Anything Protocol from a C test.
 *
 * Every check prints one line "ok N - text" or "not ok N - text" and, when it fails,
 * where it stands and what was found.  The plan comes last, so a test that ends early is
 * seen as failed:
 *
 *     int main (void)
 *     {
 *         ok (f () == 0, "f works");
 *         is_int (g (3), 9, "g squares %d", 3);
 *         return done_testing ();
 *     }
 *
 * The last arguments are a printf text that names the check, kept on one line.  Checks
 * return true if they passed.  Only one thread may call these.
 */
#ifndef TESTS_TAP_TAP_H
#define TESTS_TAP_TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The condition is true. */
#define ok(cond, ...) tap_ok (!!(cond), __FILE__, __LINE__, __VA_ARGS__)

/* Two whole numbers are equal. */
#define is_int(got, want, ...) \
    tap_is_int ((int64_t)(got), (int64_t)(want), __FILE__, __LINE__, __VA_ARGS__)

/* |got - want| <= tol; false for NaN. */
#define is_near(got, want, tol, ...) \
    tap_is_near ((got), (want), (tol), __FILE__, __LINE__, __VA_ARGS__)

/* Two texts are equal; NULL equals only NULL. */
#define is_str(got, want, ...) \
    tap_is_str ((got), (want), __FILE__, __LINE__, __VA_ARGS__)

/* Count 'count' checks as left out, with the reason (printf text). */
void skip (int count, const char *fmt, ...) __attribute__ ((format (printf, 2, 3)));

/* Leave out the whole test: call before any check.  Does not return, exit status 0. */
void skip_all (const char *fmt, ...) __attribute__ ((format (printf, 1, 2), noreturn));

/* Print a comment line. */
void diag (const char *fmt, ...) __attribute__ ((format (printf, 1, 2)));

/* Nothing after this makes sense: stop the test, failed.  Does not return. */
void bail_out (const char *fmt, ...) __attribute__ ((format (printf, 1, 2), noreturn));

/* Print the plan and return main's exit status: 0 if every check passed, else 1. */
int done_testing (void);

/* Path of the reference data file 'name' ("golden/README.md") in 'path': under the
 * environment's MG_SHARED, else in shared/ beside the checkout.  False, with the path
 * that was tried, if it cannot be read: skip then, and print the path. */
bool shared_file (char *path, size_t size, const char *name);

/* Behind the macros. */
bool tap_ok (bool pass, const char *file, int line, const char *fmt, ...)
    __attribute__ ((format (printf, 4, 5)));
bool tap_is_int (int64_t got, int64_t want, const char *file, int line, const char *fmt,
                 ...) __attribute__ ((format (printf, 5, 6)));
bool tap_is_near (double got, double want, double tol, const char *file, int line,
                  const char *fmt, ...) __attribute__ ((format (printf, 6, 7)));
bool tap_is_str (const char *got, const char *want, const char *file, int line,
                 const char *fmt, ...) __attribute__ ((format (printf, 5, 6)));

#endif /* TESTS_TAP_TAP_H */
