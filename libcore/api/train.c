/* train.c - training runs for programs
 *
 * A collective call begins with an agreement on what is called (train_agree()), in which a rank
 * that calls at the wrong time, or with wrong arguments, tells the others.  Structs of the program
 * are read and written up to the size with which the program was compiled.
 *
 * Invariant: between two calls, 'state' says what may be called next, on all ranks alike but for
 * calls that failed before an agreement.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/c_locale.h"
#include "libcore/base/flush.h"
#include "libcore/train/train_calls.h"
#include "megatron/train.h"

struct mg_train_sample {
    struct sample_filling *filling;
};

/* The samples of a part. */
struct part {
    struct mg_train *train;
    struct mg_train_samples samples;
    struct sample_program program;
};

struct mg_train {
    struct train_args args;
    struct train *train;
    bool refused;           /* the arguments are wrong, as 'why' says */
    int why_errno;
    struct mg_error why;
    enum { NEW, READY, DONE, FAILED } state;
    struct part part[SPLIT_NUM_PARTS];
    bool inside;            /* the program's function for samples is running */
    locale_t before;        /* the locale and ... */
    uint64_t mode;          /* ... floating-point mode of the thread outside of the library */
    bool stepped;
    struct metrics last;    /* the last step */
};

/* The file name of a path; "train" if there is none. */
static const char *last_part (const char *path)
{
    const char *slash = path ? strrchr (path, '/') : NULL;

    path = slash ? slash + 1 : path;
    return path && *path ? path : "train";
}

struct mg_train *mg_train_create (int argc, char **argv, FILE *log, FILE *errors,
                                  struct mg_error *err)
{
    struct mg_train *train;
    locale_t before;

    if (argc < 1 || !argv || !log || !errors) {
        mg_error_set (err, EINVAL, "train: no %s given",
                      !log ? "log" : !errors ? "stream for errors" : "arguments");
        return NULL;
    }
    before = c_locale_enter ();
    if (!(train = calloc (1, sizeof (*train))))
        goto error;
    train->refused = train_args_read_run (argc, argv, &train->args, &train->why) < 0;
    train->why_errno = errno;
    if (!(train->train = train_create (&train->args, last_part (argv[0]), log, errors)))
        goto error;
    c_locale_leave (before);
    return train;
error:
    mg_error_set (err, ENOMEM, "train: out of memory");
    mg_train_destroy (train);
    c_locale_leave (before);
    return NULL;
}

/* --- samples --- */

/* A fill() of struct sample_program: the program's own, in the mode and locale of its thread. */
static int fill (void *arg, int64_t number, struct sample_filling *filling, struct mg_error *err)
{
    const struct part *part = arg;
    struct mg_train *train = part->train;
    struct mg_train_sample sample = { filling };
    uint64_t mode = flush_mode ();
    int rc;

    train->inside = true;
    c_locale_leave (train->before);
    flush_end (train->mode);
    rc = part->samples.fill (part->samples.arg, number, &sample, err);
    flush_end (mode);
    c_locale_enter (); // what the program has changed in either does not last
    train->inside = false;
    return rc;
}

static int find_part (const char *name)
{
    static const char *const names[SPLIT_NUM_PARTS] = {
        [SPLIT_TRAIN] = "train", [SPLIT_VALID] = "validation", [SPLIT_TEST] = "test",
    };
    int i = 0;

    while (i < SPLIT_NUM_PARTS && (!name || strcmp (names[i], name) != 0))
        i++;
    return i;
}

static int check_samples (const struct mg_train *train, const char *name,
                          const struct mg_train_samples *samples, struct mg_error *err)
{
    int part = find_part (name);

    if (!train || train->state != NEW || train->inside)
        return mg_error_set (err, EINVAL, "train: samples are set before mg_train_setup()");
    if (part == SPLIT_NUM_PARTS)
        return mg_error_set (err, EINVAL, "train: no part \"%.40s\" of the data, want train, "
                             "validation or test", name ? name : "");
    if (train->part[part].train)
        return mg_error_set (err, EINVAL, "train: the samples for %s are set twice", name);
    if (!samples || samples->size < sizeof (*samples))
        return mg_error_set (err, EINVAL, "train: samples of %zu bytes, want %zu; begin with "
                             "MG_TRAIN_SAMPLES_INIT", samples ? samples->size : 0,
                             sizeof (*samples));
    if (samples->count < 1)
        return mg_error_set (err, EINVAL, "train: %" PRId64 " samples for %s, want 1 or more",
                             samples->count, name);
    if (!samples->fill)
        return mg_error_set (err, EINVAL, "train: no function that fills samples for %s", name);
    return 0;
}

int mg_train_set_samples (struct mg_train *train, const char *part,
                          const struct mg_train_samples *samples, struct mg_error *err)
{
    int i = find_part (part);
    struct part *p;

    if (check_samples (train, part, samples, err) < 0)
        return -1;
    p = &train->part[i];
    p->train = train;
    memcpy (&p->samples, samples, sizeof (p->samples));
    p->program = (struct sample_program){ samples->count, fill, p };
    train->args.program_samples[i] = true;
    train_set_samples (train->train, (enum split_part)i, &p->program);
    return 0;
}

int mg_train_fill (struct mg_train_sample *sample, const char *name, enum mg_dtype dtype,
                   const void *values, int64_t count, struct mg_error *err)
{
    if (!sample)
        return mg_error_set (err, EINVAL, "train: no sample to fill");
    return sample_fill (sample->filling, name, dtype, values, count, err);
}

/* --- set-up --- */

static int set_up (struct mg_train *train, struct mg_error *err)
{
    if (!train->refused && train_args_check (&train->args, &train->why) < 0) {
        train->refused = true;
        train->why_errno = errno;
    }
    if (train->refused) {
        *err = train->why;
        errno = train->why_errno;
        return train_refuse (train->train, err);
    }
    return train_setup (train->train, err);
}

int mg_train_setup (struct mg_train *train, struct mg_error *err)
{
    struct mg_error unused = { "" };
    locale_t before;
    int rc;

    if (!train || train->state != NEW)
        return mg_error_set (err, EINVAL, "train: %s", train ? "set up already" : "no run");
    before = c_locale_enter ();
    rc = set_up (train, err ? err : &unused); // a text that one rank sends to the others
    train->state = rc == 0 ? READY : FAILED;
    c_locale_leave (before);
    return rc;
}

/* True if there is a run that has been set up. */
static bool is_set_up (const struct mg_train *train)
{
    return train && (train->state == READY || train->state == DONE);
}

int mg_train_rank (const struct mg_train *train)
{
    return is_set_up (train) ? train_rank (train->train) : -1;
}

int mg_train_world (const struct mg_train *train)
{
    return is_set_up (train) ? train_world (train->train) : -1;
}

int64_t mg_train_iteration (const struct mg_train *train)
{
    return is_set_up (train) ? train_iteration (train->train) : -1;
}

/* --- collective calls --- */

static struct train_call call_of (const char *name, const char *text, int64_t number)
{
    struct train_call call = { .number = number };

    memcpy (call.name, name, strnlen (name, sizeof (call.name) - 1));
    if (text)
        memcpy (call.text, text, strnlen (text, sizeof (call.text) - 1));
    return call;
}

/* Check that the call can be made at all.  If there is no job in which ranks could agree, the rank
 * fails alone.
 */
static int check_call (const struct mg_train *train, const char *name, struct mg_error *err)
{
    if (!train)
        return mg_error_set (err, EINVAL, "train: %s: no run", name);
    if (train->inside)
        return mg_error_set (err, EINVAL, "train: %s is called by the function that fills samples",
                             name);
    if (train->state == NEW)
        return mg_error_set (err, EINVAL, "train: %s is called before mg_train_setup()", name);
    if (train->state == FAILED)
        return mg_error_set (err, EINVAL, "train: %s is called after the run has failed", name);
    return 0;
}

/* A collective call of this thread. */
struct visit {
    locale_t before; /* of the program */
    struct mg_error unused;
};

/* Enter the library for a collective call.  '*err' may be NULL, and then gets a place.  leave()
 * must follow, also after a failure.
 */
static int enter (struct visit *v, struct mg_train *train, const char *name, struct mg_error **err)
{
    int rc;

    v->before = c_locale_enter ();
    *err = *err ? *err : &v->unused;
    if ((rc = check_call (train, name, *err)) == 0) {
        train->before = v->before;
        train->mode = flush_mode ();
    }
    return rc;
}

/* Give the program its locale back.  Returns 'rc'. */
static int leave (const struct visit *v, int rc)
{
    c_locale_leave (v->before);
    return rc;
}

/* Begin a collective call on all ranks, with the result 'rc' of a look at its arguments. */
static int begin (struct mg_train *train, const struct train_call *call, bool done_too, int rc,
                  struct mg_error *err)
{
    if (train->state == DONE && !done_too)
        rc = mg_error_set (err, EINVAL, "train: %s is called after the run has ended", call->name);
    rc = train_agree (train->train, call, rc, err);
    if (train_has_failed (train->train))
        train->state = FAILED;
    return rc;
}

/* End it with a result: after a failure of the run nothing may follow. */
static int end (struct mg_train *train, int rc)
{
    if (train_has_failed (train->train))
        train->state = FAILED;
    return rc;
}

/* As much of a result as the program knows. */
static int check_size (const void *result, size_t size, size_t least, const char *name,
                       struct mg_error *err)
{
    if (!result || size >= least)
        return 0;
    return mg_error_set (err, EINVAL, "train: a result of %zu bytes, want %zu; begin with %s", size,
                         least, name);
}

static void fill_step (const struct metrics *m, struct mg_train_step *step)
{
    const struct mg_train_step told = {
        .size = step->size,
        .iteration = m->iteration,
        .samples = m->global_batch_size,
        .consumed_samples = m->consumed_samples,
        .loss = m->lm_loss,
        .loss_tokens = m->lm_loss_tokens,
        .grad_norm = m->grad_norm,
        .learning_rate = m->learning_rate_used,
        .loss_scale = m->loss_scale,
        .skipped = m->skipped,
        .milliseconds = m->milliseconds,
    };

    *step = told;
}

/* The step of a call that has begun. */
static int run_step (struct mg_train *train, struct mg_error *err)
{
    struct metrics m;
    int rc = end (train, train_step (train->train, &m, err));

    if (rc > 0) {
        train->last = m;
        train->stepped = true;
    }
    return rc;
}

int mg_train_step (struct mg_train *train, struct mg_train_step *step, struct mg_error *err)
{
    const struct train_call call = call_of ("mg_train_step()", NULL, 0);
    struct visit v;
    int rc = enter (&v, train, call.name, &err);

    if (rc == 0) {
        rc = begin (train, &call, false,
                    check_size (step, step ? step->size : 0, sizeof (*step), "MG_TRAIN_STEP_INIT",
                                err), err);
        if (rc == 0)
            rc = run_step (train, err);
        if (rc > 0 && step)
            fill_step (&train->last, step);
    }
    return leave (&v, rc);
}

int mg_train_loss (const struct mg_train *train, const char *name, double *loss,
                   struct mg_error *err)
{
    locale_t before = c_locale_enter ();
    int rc;

    if (!train || !train->stepped)
        rc = mg_error_set (err, EINVAL, "train: mg_train_loss() is called before a step was taken");
    else if (!name || !loss)
        rc = mg_error_set (err, EINVAL, "train: mg_train_loss() without %s",
                           name ? "room for the loss" : "a name");
    else
        rc = train_loss (&train->last, name, loss, err);
    c_locale_leave (before);
    return rc;
}

static int check_set (const struct mg_train *train, const char *set,
                      const struct mg_train_evaluation *result, struct mg_error *err)
{
    if (check_size (result, result ? result->size : 0, sizeof (*result),
                    "MG_TRAIN_EVALUATION_INIT", err) < 0)
        return -1;
    return train_check_set (train->train, set ? set : "", err);
}

int mg_train_evaluate (struct mg_train *train, const char *set,
                       struct mg_train_evaluation *result, struct mg_error *err)
{
    const struct train_call call = call_of ("mg_train_evaluate()", set, 0);
    struct metrics_evaluation m;
    struct visit v;
    int rc = enter (&v, train, call.name, &err);

    if (rc == 0) {
        rc = begin (train, &call, false, check_set (train, set, result, err), err);
        if (rc == 0)
            rc = end (train, train_evaluate (train->train, set, &m, err));
        if (rc > 0 && result)
            *result = (struct mg_train_evaluation){ result->size, m.samples, m.lm_loss,
                                                    m.milliseconds };
    }
    return leave (&v, rc);
}

int mg_train_save (struct mg_train *train, struct mg_error *err)
{
    const struct train_call call = call_of ("mg_train_save()", NULL, 0);
    struct visit v;
    int rc = enter (&v, train, call.name, &err);

    if (rc == 0) {
        if (!train_saves (train->train))
            rc = mg_error_set (err, EINVAL, "train: mg_train_save() wants --save DIR");
        rc = begin (train, &call, false, rc, err);
        if (rc == 0)
            rc = end (train, train_save (train->train, err));
    }
    return leave (&v, rc);
}

int mg_train_stop (struct mg_train *train, struct mg_error *err)
{
    if (!is_set_up (train))
        return mg_error_set (err, EINVAL, "train: mg_train_stop() is called %s",
                             train && train->state == FAILED ? "after the run has failed"
                                                             : "before mg_train_setup()");
    train_ask_to_stop (train->train);
    return 0;
}

int mg_train_finish (struct mg_train *train, struct mg_error *err)
{
    const struct train_call call = call_of ("mg_train_finish()", NULL, 0);
    struct visit v;
    int rc = enter (&v, train, call.name, &err);

    if (rc == 0) {
        if ((rc = begin (train, &call, false, 0, err)) == 0) {
            rc = end (train, train_end (train->train, err));
            train->state = rc == 0 ? DONE : FAILED;
        }
    }
    return leave (&v, rc);
}

int mg_train_run (struct mg_train *train, struct mg_error *err)
{
    const struct train_call call = call_of ("mg_train_run()", NULL, 0);
    struct visit v;
    int rc = enter (&v, train, call.name, &err);

    if (rc == 0) {
        if ((rc = begin (train, &call, false, 0, err)) == 0) {
            rc = end (train, train_run (train->train, err));
            train->state = rc == 0 ? DONE : FAILED;
        }
    }
    return leave (&v, rc);
}

/* --- parameters --- */

/* As a root: each rank has its part; a rank that there cannot be. */
enum { PARTS = -1, NO_ROOT = -2 };

int mg_train_num_params (const struct mg_train *train)
{
    locale_t before = c_locale_enter ();
    int n = is_set_up (train) ? train_num_params (train->train) : 0;

    c_locale_leave (before);
    return n;
}

const char *mg_train_param_name (const struct mg_train *train, int i, struct mg_error *err)
{
    int n = mg_train_num_params (train);
    locale_t before = c_locale_enter ();
    const char *name = i >= 0 && i < n ? train_param_name (train->train, i) : NULL;

    if (!name)
        mg_error_set (err, EINVAL, "train: no parameter number %d, this rank has %d", i, n);
    c_locale_leave (before);
    return name;
}


static int check_name (const char *name, struct mg_error *err)
{
    return name ? 0 : mg_error_set (err, EINVAL, "train: no name of a parameter");
}

static int check_root (const struct mg_train *train, int root, struct mg_error *err)
{
    int world = train_world (train->train);

    if (root >= 0 && root < world)
        return 0;
    return mg_error_set (err, EINVAL, "train: rank %d cannot have a parameter, want 0 to %d", root,
                         world - 1);
}

int mg_train_get_param (struct mg_train *train, const char *name, struct mg_train_param *param,
                        struct mg_error *err)
{
    const struct train_call call = call_of ("mg_train_get_param()", name, 0);
    struct state_tensor t;
    struct visit v;
    int rc = enter (&v, train, call.name, &err);

    if (rc == 0) {
        if ((rc = check_name (name, err)) == 0 && !param)
            rc = mg_error_set (err, EINVAL, "train: no room for what a parameter is");
        if (rc == 0)
            rc = check_size (param, param->size, sizeof (*param), "MG_TRAIN_PARAM_INIT", err);
        rc = begin (train, &call, true, rc, err);
        if (rc == 0 && (rc = end (train, train_find_param (train->train, name, &t, err))) == 0)
            *param = (struct mg_train_param){ param->size, t.rows, t.columns, t.part_rows,
                                              t.part_columns, t.first_row, t.first_column,
                                              t.run_rows, t.run_stride };
    }
    return leave (&v, rc);
}

/* A transfer between a parameter and the program's memory: one of 'in' and 'out' is NULL. */
struct transfer {
    const char *name;
    int root; /* PARTS: each rank has its part */
    bool write;
    const float *in;
    float *out;
    int64_t count;
};

/* Check that the program's memory has the right size, and that all values can be written. */
static int check_values (const struct mg_train *train, const struct transfer *x,
                         const struct state_tensor *t, struct mg_error *err)
{
    bool whole = x->root == train_rank (train->train);
    int64_t want = whole        ? t->rows * t->columns
                   : x->root < 0 ? t->part_rows * t->part_columns
                                 : 0;

    if (want == 0)
        return 0;
    if (x->count != want || (!x->in && !x->out))
        return mg_error_set (err, EINVAL, "train: %s: %" PRId64 " values%s, want %" PRId64,
                             x->name, x->count, !x->in && !x->out ? " at NULL" : "", want);
    for (int64_t i = 0; x->write && i < want; i++) {
        if (!isfinite (x->in[i]))
            return mg_error_set (err, EINVAL, "train: %s: value %" PRId64 " is %g, want a finite "
                                 "number", x->name, i, (double)x->in[i]);
    }
    return 0;
}

/* Once the call has begun on all ranks. */
static int move (struct mg_train *train, const struct transfer *x, struct mg_error *err)
{
    struct state_tensor t;
    int rc = train_find_param (train->train, x->name, &t, err);

    if (rc == 0)
        rc = train_agree_again (train->train, check_values (train, x, &t, err), err);
    if (rc < 0)
        return rc;
    return x->write ? train_write_param (train->train, &t, x->root, x->in, err)
                    : train_read_param (train->train, &t, x->root, x->out, err);
}

static int transfer (struct mg_train *train, const char *call_name, const struct transfer *x,
                     struct mg_error *err)
{
    const struct train_call call = call_of (call_name, x->name, x->root);
    struct visit v;
    int rc = enter (&v, train, call.name, &err);

    if (rc == 0) {
        rc = check_name (x->name, err);
        if (rc == 0 && x->root != PARTS)
            rc = check_root (train, x->root, err);
        rc = begin (train, &call, !x->write, rc, err);
        if (rc == 0)
            rc = end (train, move (train, x, err));
    }
    return leave (&v, rc);
}

/* A program's root of -1 is no wish for parts. */
static int root_of (int root)
{
    return root == PARTS ? NO_ROOT : root;
}

int mg_train_read_param (struct mg_train *train, const char *name, int root, float *values,
                         int64_t count, struct mg_error *err)
{
    return transfer (train, "mg_train_read_param()",
                     &(struct transfer){ name, root_of (root), false, NULL, values, count }, err);
}

int mg_train_read_part (struct mg_train *train, const char *name, float *values, int64_t count,
                        struct mg_error *err)
{
    return transfer (train, "mg_train_read_part()",
                     &(struct transfer){ name, PARTS, false, NULL, values, count }, err);
}

int mg_train_write_param (struct mg_train *train, const char *name, int root,
                          const float *values, int64_t count, struct mg_error *err)
{
    return transfer (train, "mg_train_write_param()",
                     &(struct transfer){ name, root_of (root), true, values, NULL, count }, err);
}

int mg_train_write_part (struct mg_train *train, const char *name, const float *values,
                         int64_t count, struct mg_error *err)
{
    return transfer (train, "mg_train_write_part()",
                     &(struct transfer){ name, PARTS, true, values, NULL, count }, err);
}

/* --- the end --- */

int mg_train_status (const struct mg_train *train)
{
    return train ? train_status (train->train) : 1;
}

int mg_train_should_report (const struct mg_train *train, const struct mg_error *err)
{
    const struct mg_error none = { "no reason given" };

    return !train || train_should_report (train->train, err ? err : &none);
}

void mg_train_abort (struct mg_train *train, int code)
{
    locale_t before = c_locale_enter ();

    if (train)
        train_abort (train->train, code < 1 || code > 255 ? 1 : code);
    c_locale_leave (before); // a run of one rank returns
}

void mg_train_destroy (struct mg_train *train)
{
    int saved_errno = errno;
    locale_t before = c_locale_enter ();

    if (train) {
        train_destroy (train->train);
        train_args_clear (&train->args);
        free (train);
    }
    c_locale_leave (before);
    errno = saved_errno;
}
