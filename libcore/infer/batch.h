/* batch - which rows of which sequences a pass has: continuous batching.
 *
 * A sequence has a place of the model's caches from its first row to its last.  Each sequence whose
 * prompt is done has one row in every pass.  What is left of the rows goes to prompts, in the order
 * in which they got their places; a long prompt goes in several pieces.  A place that becomes free
 * is given to the next sequence.
 */
#ifndef LIBCORE_INFER_BATCH_H
#define LIBCORE_INFER_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/nn/nn.h"
#include "megatron/error.h"

struct batch_place {
    bool used;
    int64_t arrival; /* number of the sequence, in the order of batch_enter() */
    int64_t done;    /* positions that are in the caches */
    int64_t known;   /* tokens of the sequence: the prompt, and what was generated */
};

struct batch {
    struct batch_place *place; /* [places] */
    struct nn_sequence *part;  /* [places]: of the planned pass ... */
    int places, num_parts;     /* ... and how many */
    int64_t rows;              /* of a pass, at most */
    int64_t arrivals;
};

/* -1 and a text if out of memory, or with EINVAL if a pass has fewer rows than there are places. */
int batch_init (struct batch *b, int places, int64_t rows, struct mg_error *err);
void batch_clear (struct batch *b);

/* Give a sequence of 'known' tokens a place: its number, or -1 if none is free. */
int batch_enter (struct batch *b, int64_t known);
void batch_leave (struct batch *b, int place);

/* Plan the next pass: b->part[0], ..., in the order of the places.  Returns the rows of the pass;
 * 0 if no sequence has a token that is not in the caches.
 */
int64_t batch_plan (struct batch *b);

/* The planned pass has run: its rows are in the caches. */
void batch_done (struct batch *b);

#endif /* LIBCORE_INFER_BATCH_H */
