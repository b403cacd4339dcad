/* outliers.c - losses and gradients of a rank that are unexpectedly large */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "libcore/train/outliers.h"

enum { FIRST = 100, FACTOR = 10, MAX_LINES = 16 }; // the first two are Megatron-LM's

/* The message of a rank: an outlier and the largest value before it; NaN: there is none. */
struct told {
    double value[NUM_OUTLIERS], largest[NUM_OUTLIERS];
};

enum { TOLD = sizeof (struct told) / sizeof (double) };

bool outliers_add (struct outliers_series *s, double value, int64_t microbatches)
{
    value = fabs (value);
    if (!isfinite (value))
        return false;
    if (s->count >= FIRST)
        return value >= s->largest * FACTOR;
    s->count += microbatches;
    s->largest = fmax (s->largest, value);
    return false;
}

static void print (FILE *out, int64_t iteration, int rank, enum outlier which,
                   const struct told *told)
{
    static const char *const what[] = { [OUTLIER_LOSS] = "a spiky loss",
                                        [OUTLIER_GRADS] = "large gradients, of norm" };

    fprintf (out, "iteration %" PRId64 ": rank %d has %s %g, at least %d times the largest of its "
             "first %d microbatches, %g\n", iteration, rank, what[which], told->value[which],
             FACTOR, FIRST, told->largest[which]);
}

int outliers_check (struct outliers *o, const double value[NUM_OUTLIERS], int64_t microbatches,
                    int64_t iteration, struct job *job, FILE *out, struct mg_error *err)
{
    struct told own = { { NAN, NAN }, { NAN, NAN } }, *all;
    int world = job_world (job), lines = 0, rc;

    if (!o->config.check[OUTLIER_LOSS] && !o->config.check[OUTLIER_GRADS])
        return 0;
    for (int i = 0; i < NUM_OUTLIERS; i++) {
        if (o->config.check[i] && outliers_add (&o->series[i], value[i], microbatches)) {
            own.value[i] = value[i];
            own.largest[i] = o->series[i].largest;
        }
    }
    if (!(all = calloc ((size_t)world, sizeof (*all))))
        return mg_error_set (err, ENOMEM, "outliers: out of memory");
    rc = mg_comm_all_gather (job_control (job), &own, all, TOLD, MG_FLOAT64, NULL, err);
    for (int rank = 0; rc == 0 && job_rank (job) == world - 1 && rank < world; rank++) {
        for (int i = 0; i < NUM_OUTLIERS; i++) {
            if (!isnan (all[rank].value[i]) && lines++ < MAX_LINES)
                print (out, iteration, rank, (enum outlier)i, &all[rank]);
        }
    }
    if (lines > 0)
        fflush (out);
    free (all);
    return rc < 0 ? mg_error_prefix (err, "outliers") : 0;
}
