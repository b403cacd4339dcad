/* session - one rank of a job that runs a model.  Training, evaluation, generation and a
 * server begin with a session.
 *
 * A program makes its configurations (config.h).  Then it joins the job (session_meet()),
 * makes the objects that compute (session_build()), allocates its memory
 * (session_bind()), and fills in parameters (session_load()).  A rank that fails alone in
 * a call that is not collective reports its failure to the others by accord_agree() of
 * the session.
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
    const char *program;         /* first word of the report on a rank that dies or stalls
                                  * ... */
    FILE *errors;                /* ... and the file for the report */
    struct bootstrap *bootstrap; /* owned by the job, if there is a job */
    struct job *job;
    struct accord accord;        /* the program owns its members */
    bool loads;                  /* all parameters get values from files: none are drawn */
    struct train_parts parts;
    struct memory_plan memory;   /* memory of the parts */
    struct state *state;
};

/* Checks that need the number of ranks. */
typedef int session_check_f (void *arg, int world, struct mg_error *err);

/* Find the other ranks, agree with them on the result so far ('rc', with a text if it is
 * -1), and create the job.  Before that, check (arg, world) is called if rc is 0.  -1 and
 * a text on every rank if one of them failed.  Collective.
 */
int session_meet (struct session *s, session_check_f *check, void *arg, int rc,
                  struct mg_error *err);

/* Do the same for a rank that is only planned: 'rank' of 'world' ranks with 'threads'
 * threads each.  With 0 threads, each rank has its share of this machine's CPUs, as if
 * all ranks ran here.
 */
int session_plan (struct session *s, int rank, int world, int threads, session_check_f *check,
                  void *arg, struct mg_error *err);

/* Make the parts and the plan of their memory, as train_build() does. */
int session_build (struct session *s, const struct num_microbatches *batches, int64_t evaluation,
                   struct mg_error *err);

/* What the node and the device have left for the job. */
struct memory_room session_room (const struct session *s);

/* Write a line about the device: what it is and what others hold of its memory, if that is its own,
 * or why --device auto is the CPU.  False: there is nothing to say.
 */
enum { SESSION_DEVICE_TEXT = 400 };
bool session_device_line (const struct session *s, char text[SESSION_DEVICE_TEXT]);

/* Print that line, and one of what communicators have taken of the device, where there are such. */
void session_print_device (const struct session *s, FILE *out);

/* Allocate the parts' memory, write the initial values, and make the state. */
int session_bind (struct session *s, struct mg_error *err);

/* Set main parameters to the initial values or, if 'weights' is not NULL, to the values
 * of this file, as state_load_weights() does.  All ranks must have their memory.
 * Collective, the same result on every rank.
 */
int session_load (struct session *s, const char *weights, struct mg_error *err);

#endif /* LIBCORE_TRAIN_SESSION_H */
