/* train_calls.c - what a program asks of a run besides its steps */

#include <errno.h>
#include <string.h>

#include "libcore/comm/exchange.h"
#include "libcore/train/train_calls.h"
#include "libcore/train/train_private.h"

void train_set_samples (struct train *t, enum split_part part,
                        const struct sample_program *program)
{
    t->config.data.from_program[part] = true;
    t->config.data.program[part] = program;
}

/* Check that the call is that of rank 0. */
static int compare (const struct train_call *call, const struct train_call *first,
                    struct mg_error *err)
{
    if (strcmp (call->name, first->name) != 0)
        return mg_error_set (err, EINVAL, "%s is called, but rank 0 calls %s", call->name,
                             first->name);
    if (strcmp (call->text, first->text) != 0 || call->number != first->number)
        return mg_error_set (err, EINVAL, "%s has other arguments than on rank 0", call->name);
    return 0;
}

int train_agree_again (struct train *t, int rc, struct mg_error *err)
{
    rc = accord_agree (&t->session.accord, rc, err);
    t->failed = rc < 0 && !t->session.accord.common_error;
    return rc;
}

int train_agree (struct train *t, const struct train_call *call, int rc, struct mg_error *err)
{
    struct train_call first = *call;
    int errnum = errno;

    t->failed = true;
    if (mg_comm_broadcast (job_control (t->session.job), &first, sizeof (first), MG_UINT8, 0, NULL,
                           rc < 0 ? NULL : err)
        < 0)
        return -1;
    errno = errnum;
    return train_agree_again (t, rc == 0 ? compare (call, &first, err) : rc, err);
}

bool train_has_failed (const struct train *t)
{
    return t->failed;
}

int train_rank (const struct train *t)
{
    return job_rank (t->session.job);
}

int train_world (const struct train *t)
{
    return job_world (t->session.job);
}

int64_t train_iteration (const struct train *t)
{
    return t->progress.iteration;
}

int train_loss (const struct metrics *m, const char *name, double *loss, struct mg_error *err)
{
    if (strcmp (name, "lm loss") == 0) {
        *loss = m->lm_loss;
        return 0;
    }
    for (int i = 0; m->losses && i < m->losses->n; i++) {
        if (strcmp (m->losses->row[i].name, name) == 0) {
            *loss = m->losses->now[i];
            return 0;
        }
    }
    for (int i = 0; m->routing && i < ROUTER_NUM_LOSSES; i++) {
        if (m->routing->has[i] && strcmp (routing_loss_names[i], name) == 0) {
            *loss = m->routing->loss[i];
            return 0;
        }
    }
    return mg_error_set (err, ENOENT, "the model has no loss \"%.80s\", want \"lm loss\" or "
                         "another of the log", name);
}

int train_check_set (const struct train *t, const char *set, struct mg_error *err)
{
    return evaluate_check_set (&t->evaluation, set, err);
}

int train_evaluate (struct train *t, const char *set, struct metrics_evaluation *m,
                    struct mg_error *err)
{
    int rc;

    train_enter (t);
    rc = train_begin (t, err);
    if (rc == 0)
        rc = evaluate_set (&t->evaluation, set, m, err);
    return train_leave (t, rc, err);
}

bool train_saves (const struct train *t)
{
    return t->config.save.dir != NULL;
}

int train_save (struct train *t, struct mg_error *err)
{
    train_enter (t);
    return train_leave (t, train_begin (t, err) < 0 ? -1 : save_checkpoint (&t->saving, err), err);
}

void train_ask_to_stop (struct train *t)
{
    t->session.accord.asked = true;
}

int train_num_params (struct train *t)
{
    return state_num_tensors (t->session.state);
}

const char *train_param_name (struct train *t, int i)
{
    return state_tensor_name (t->session.state, i);
}

int train_find_param (struct train *t, const char *name, struct state_tensor *p,
                      struct mg_error *err)
{
    return train_agree_again (t, state_find_tensor (t->session.state, name, p, err), err);
}

int train_read_param (struct train *t, const struct state_tensor *p, int root, float *out,
                      struct mg_error *err)
{
    train_enter (t);
    return train_leave (t, state_read_tensor (t->session.state, p, root, out, err), err);
}

int train_write_param (struct train *t, const struct state_tensor *p, int root, const float *in,
                       struct mg_error *err)
{
    train_enter (t);
    t->saving.newest = -1;
    return train_leave (t, state_write_tensor (t->session.state, p, root, in, err), err);
}
