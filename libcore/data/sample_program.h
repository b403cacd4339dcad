/* sample_program - samples that a program makes.
 *
 * The program gives a function, which fills one sample by its number.  A sample may be shorter than
 * the sequence: the rest is zeros of weight 0.  The weights may be left out: each position that
 * has a label then counts alike.
 */
#ifndef LIBCORE_DATA_SAMPLE_PROGRAM_H
#define LIBCORE_DATA_SAMPLE_PROGRAM_H

#include <stdint.h>

#include "libcore/data/sample_source.h"

/* A sample that the program's function is filling. */
struct sample_filling {
    const struct sample *to;
    int64_t index;
    int count[SAMPLE_MAX_FIELDS]; /* values that a field has; -1: it is not filled */
    int error;            /* errno of the first call of sample_fill() that failed; 0: none ... */
    struct mg_error why;  /* ... and its text */
};

struct sample_program {
    int64_t num_samples; /* samples that there are; INT64_MAX: one for every number */
    /* Fill sample 'index' by sample_fill(), always with the same values.  Is called by the thread
     * that reads the source, by no other.  -1 if the sample cannot be made; *err is then a text,
     * or empty.
     */
    int (*fill) (void *arg, int64_t index, struct sample_filling *filling, struct mg_error *err);
    void *arg;
};

/* Samples of 'seq_length' positions.  The program must stay, and what it points to.  One thread at
 * a time reads the source.  NULL, ENOMEM and a text on failure; the caller owns the result.
 */
struct sample_source *sample_source_program_create (const struct sample_program *program,
                                                    int seq_length, struct mg_error *err);

/* Give the field 'name' its first 'count' values, which are copied.  -1, EINVAL and a text if
 * the sample has no such field, if it has another type, if there are no values or too many, if a
 * weight is negative or not finite, or if the field is filled already.  The sample is then bad,
 * whatever the program's function returns.
 */
int sample_fill (struct sample_filling *filling, const char *name, enum mg_dtype dtype,
                 const void *values, int64_t count, struct mg_error *err);

#endif /* LIBCORE_DATA_SAMPLE_PROGRAM_H */
