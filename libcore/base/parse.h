/* parse - text of a user to numbers, each value checked in full.
 *
 * Every function returns 0, or -1 with errno EINVAL or ERANGE and a text that says
 * 'what' (an option's or a key's name), the value and what is allowed.  The whole text
 * must be used up; leading blanks, signs where not allowed, and empty text are refused.
 * 'out' is only written on success.
 */
#ifndef LIBCORE_BASE_PARSE_H
#define LIBCORE_BASE_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "megatron/error.h"

/* A decimal integer in [min, max]. */
int parse_int64 (const char *what, const char *text, int64_t min, int64_t max,
                 int64_t *out, struct mg_error *err);

/* The same into an int; min and max must fit one. */
int parse_int (const char *what, const char *text, int min, int max, int *out,
               struct mg_error *err);

/* Bytes above 0: a decimal integer and a unit, in either case.  K, M, G and T, or KB to TB, are
 * powers of 1000; Ki, Mi, Gi and Ti, or KiB to TiB, are powers of 1024; B or nothing is a byte.
 */
int parse_bytes (const char *what, const char *text, int64_t *out, struct mg_error *err);

/* A finite decimal or exponent-form number in [min, max], in the "C" locale's form
 * whatever the process's locale. No hexadecimal, no nan, no inf. */
int parse_double (const char *what, const char *text, double min, double max,
                  double *out, struct mg_error *err);

/* One of yes/no, true/false, on/off, 1/0. */
int parse_bool (const char *what, const char *text, bool *out, struct mg_error *err);

#endif /* LIBCORE_BASE_PARSE_H */
