/* adder - a model of stages that only add numbers, for tests of the executor.
 *
 * Stage g adds g + 1 to its input, and 10 (g + 1) to its gradient, so that everybody
 * knows what must arrive, and whether it is still there when it is used.
 */
#ifndef TESTS_UNIT_SCHEDULE_ADDER_H
#define TESTS_UNIT_SCHEDULE_ADDER_H

#include <stdint.h>

#include "libcore/schedule/exec.h"

enum { ADDER_NUMBERS = 5, ADDER_SLOTS = 64, ADDER_CHUNKS = 5 };

struct adder {
    const struct schedule *schedule;
    int wrong;  /* numbers that were not what they must be */
    int passes; /* forward + backward */
    int64_t buffer[SCHED_NUM_BUFFERS][ADDER_CHUNKS][ADDER_SLOTS][ADDER_NUMBERS]; /* pools */
};

/* The buffer of a chunk's slot, which is that of its pool's. */
int64_t *adder_buffer (struct adder *a, enum sched_buffer which, int chunk, int slot);

/* The passes of one step; 'iteration' makes other numbers. */
void adder_forward (struct adder *a, const struct sched_step *step, int iteration);
void adder_backward (struct adder *a, const struct sched_step *step, int iteration);

/* Kinds that the tests need beyond the library's. */
enum {
    KIND_TWO_CHUNKS,   /* interleaved */
    KIND_THREE_CHUNKS, /* interleaved */
    KIND_AT_ONCE,      /* three chunks, backward follows forward */
    KIND_LATE,         /* three chunks, backward follows all forward passes */
    NUM_KINDS
};
extern const struct sched_kind test_kinds[NUM_KINDS];

/* Steps, or the end of the test. */
struct schedule *make_schedule (const struct sched_kind *kind, int pp, int rank,
                                int microbatches, bool forward_only);

/* The same with one pool for all chunks, but for the last one of the model. */
struct schedule *make_pooled (const struct sched_kind *kind, int pp, int rank,
                              int microbatches, bool forward_only);

/* A grouped list (schedule.h), with or without the one pool. */
struct schedule *make_grouped (const struct sched_kind *kind, int pp, int rank, int microbatches,
                               bool forward_only, bool pooled);

enum { MAX_PP = 8 };

/* The schedules of all ranks of a pipeline. */
struct set {
    int pp;
    struct schedule *all[MAX_PP];
};

/* Makes them with make_pooled() if 'pooled', else with make_schedule().  pp is at most MAX_PP. */
void set_create (struct set *set, const struct sched_kind *kind, int pp, int microbatches,
                 bool forward_only, bool pooled);
void set_create_grouped (struct set *set, const struct sched_kind *kind, int pp, int microbatches,
                         bool forward_only, bool pooled);
void set_destroy (struct set *set);

/* Returns the place of the first step 'op' of a microbatch; the test ends if there is none. */
size_t find_step (const struct schedule *s, enum sched_op op, int microbatch);

#endif /* TESTS_UNIT_SCHEDULE_ADDER_H */
