/* parse - convert a user's text to numbers, and check the whole text.
 *
 * Every function returns 0, or -1 with errno EINVAL or ERANGE and a text that says
 * 'what' (an option's or a key's name), the value and what is allowed.  The number must
 * extend over the whole text.  Leading blanks, signs that are not allowed, and empty text
 * are refused.  'out' is only written on success.
 */
#ifndef LIBCORE_BASE_PARSE_H
#define LIBCORE_BASE_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "megatron/error.h"

/* A decimal integer in [min, max]. */
int parse_int64 (const char *what, const char *text, int64_t min, int64_t max,
                 int64_t *out, struct mg_error *err);

/* The same for an int.  min and max must lie in the range of int. */
int parse_int (const char *what, const char *text, int min, int max, int *out,
               struct mg_error *err);

/* A number of bytes above 0: a decimal integer and a unit, in upper or lower case.  K, M,
 * G and T, or KB to TB, are powers of 1000; Ki, Mi, Gi and Ti, or KiB to TiB, are powers
 * of 1024; B or no unit means bytes.
 */
int parse_bytes (const char *what, const char *text, int64_t *out, struct mg_error *err);

/* A finite decimal or exponent-form number in [min, max], in the form of the "C" locale,
 * whatever the process's locale is.  Hexadecimal, nan and inf are refused. */
int parse_double (const char *what, const char *text, double min, double max,
                  double *out, struct mg_error *err);

/* One of yes/no, true/false, on/off, 1/0. */
int parse_bool (const char *what, const char *text, bool *out, struct mg_error *err);

#endif /* LIBCORE_BASE_PARSE_H */
