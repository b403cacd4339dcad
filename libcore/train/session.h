/* session - one rank of a job that runs a model: what training, evaluation, generation and a
 * server begin with.
 *
 * A program makes its configurations (config.h).  Then it joins the job (session_meet()), makes
 * what computes (session_build()), allocates its memory (session_bind()), and fills in parameters
 * (session_load()).  A rank that fails alone in a call that is not collective tells the others by
 * accord_agree() of the session.
 */
#ifndef LIBCORE_TRAIN_SESSION_H
#define LIBCORE_TRAIN_SESSION_H

#include <stdint.h>
#include <stdio.h>

#include "libcore/train/accord.h"
#include "libcore/train/memory.h"
#include "libcore/train/state.h"
#include "libcore/train/train_build.h"
#include "megatron/error.h"

struct session {
    struct run_config *config;   /* of the program; session_meet() completes its geometry */
    const char *program;         /* what a report on a rank that dies or stalls begins with ... */
    FILE *errors;                /* ... and where it goes */
    struct bootstrap *bootstrap; /* the job's once there is one */
    struct job *job;
    struct accord accord;        /* whose members belong to the program */
    struct train_parts parts;
    struct memory_plan memory;   /* of the parts */
    struct state *state;
};

/* What follows from the number of ranks. */
typedef int session_check_f (void *arg, int world, struct mg_error *err);

/* Find the other ranks, tell them how it went so far ('rc', with a text if it failed), and create
 * the job.  Before that, check (arg) looks at the number of ranks if rc is 0.  -1 and a text on
 * every rank if one of them failed.  Collective.
 */
int session_meet (struct session *s, session_check_f *check, void *arg, int rc,
                  struct mg_error *err);

/* The same for a rank that is only planned: 'rank' of 'world' ranks with 'threads' threads each
 * (0: as many as if they all ran here).
 */
int session_plan (struct session *s, int rank, int world, int threads, session_check_f *check,
                  void *arg, struct mg_error *err);

/* Make the parts and the plan of their memory, as train_build() does. */
int session_build (struct session *s, const struct num_microbatches *batches, int64_t evaluation,
                   struct mg_error *err);

/* Allocate the parts' memory, write the initial values, and make the state. */
int session_bind (struct session *s, struct mg_error *err);

/* Once all ranks have their memory: take main parameters from the initial values, or from 'weights'
 * as state_load_weights() does, NULL: not.  Collective, the same result on every rank.
 */
int session_load (struct session *s, const char *weights, struct mg_error *err);

#endif /* LIBCORE_TRAIN_SESSION_H */
