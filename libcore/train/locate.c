/* locate.c - run a step again, with checks */

#include <errno.h>
#include <string.h>

#include "libcore/train/locate.h"

/* Gradients summed over the ranks, and main gradients, where these are apart. */
static int check_sums (const struct locate_step *step, struct check *check,
                       const struct param *params, size_t n, struct mg_error *err)
{
    if (check_params (check, CHECK_SUM, params, n, err) < 0)
        return -1;
    for (size_t i = 0; i < buffers_num_ranges (step->buffers); i++) {
        const struct buffers_range *r = buffers_range_at (step->buffers, i);
        const struct param *p = &params[r->param];
        const struct check_place place = { .pass = CHECK_SUM, .step = p->order };
        const float *sum = optimizer_plain (step->optimizer, i, OPTIMIZER_MAIN_GRAD);

        if (sum && check_param (check, &place, "gradient of", p, r->from, r->to, sum, MG_FLOAT32,
                                err) < 0)
            return -1;
    }
    return 0;
}

static int take_again (const struct locate_step *step, struct check *check, struct mg_error *err)
{
    size_t n;
    const struct param *params = model_params (step->model, &n);

    if (check_params (check, CHECK_WEIGHT, params, n, err) < 0
        || step->passes (step->arg, check, err) < 0
        || optimizer_reduce_grads (step->optimizer, err) < 0)
        return -1;
    return check_sums (step, check, params, n, err);
}

/* The text of the lowest rank that has the least place of all ranks. */
static int agree (struct job *job, const struct check *check, char *text, int64_t *rank,
                  struct mg_error *err)
{
    struct mg_comm *world = job_control (job);
    const int64_t mine = check->first == CHECK_NOWHERE ? INT64_MAX : check->first;
    int64_t least = mine;

    memcpy (text, check->text, CHECK_TEXT_MAX);
    if (mg_comm_all_reduce (world, &least, 1, MG_INT64, MG_MIN, NULL, err) < 0)
        return -1;
    *rank = least < INT64_MAX && least == mine ? job_rank (job) : INT64_MAX;
    if (mg_comm_all_reduce (world, rank, 1, MG_INT64, MG_MIN, NULL, err) < 0)
        return -1;
    if (*rank == INT64_MAX)
        return 0;
    return mg_comm_broadcast (world, text, CHECK_TEXT_MAX, MG_UINT8, (int)*rank, NULL, err);
}

int locate (const struct locate_step *step, struct mg_error *err)
{
    struct check check;
    char text[CHECK_TEXT_MAX];
    struct mg_error why = { "" };
    int64_t rank = INT64_MAX;
    int rc;

    rc = check_init (&check, model_nn (step->model)->kern, model_stream (step->model), &why);
    if (rc == 0)
        rc = take_again (step, &check, &why);
    check_clear (&check);
    if (rc == 0)
        rc = agree (step->job, &check, text, &rank, &why);
    if (rc < 0)
        return mg_error_set (err, errno, "%s; where could not be found out: %s", err->text,
                             why.text);
    if (rank == INT64_MAX)
        mg_error_set (err, EDOM, "%s; taken again, all tensors were finite", err->text);
    else if (job_world (step->job) == 1)
        mg_error_set (err, EDOM, "%s; %s", err->text, text);
    else
        mg_error_set (err, EDOM, "%s; first on rank %d: %s", err->text, (int)rank, text);
    return 0;
}
