/* losses.c - losses beside the main one, summed over the ranks */

#include <errno.h>
#include <stdlib.h>

#include "libcore/train/losses.h"

int losses_create (struct losses *l, const struct model *model, struct mg_error *err)
{
    int all;
    const struct model_loss *row = model_losses (model, &all);
    size_t n = (size_t)all - 1;

    *l = (struct losses){ .n = all - 1, .row = row + 1 };
    if (n == 0)
        return 0;
    if (!(l->now = calloc (3 * n, sizeof (*l->now))))
        return mg_error_set (err, ENOMEM, "out of memory for %zu losses", n);
    l->sum = l->now + n;
    l->mean = l->sum + n;
    return 0;
}

void losses_clear (struct losses *l)
{
    free (l->now);
    *l = (struct losses){ .n = 0 };
}

int losses_collect (struct losses *l, struct model *model, struct job *job, double factor,
                        struct mg_error *err)
{
    bool has = model_has_loss (model) && job_group_rank (job, GROUP_TP) == 0;

    if (l->n == 0)
        return 0;
    for (int k = 0; k < l->n; k++) {
        double sums[3] = { 0 };

        if (has)
            model_loss (model, 1 + k, sums);
        l->now[k] = sums[0] * factor;
    }
    if (mg_comm_all_reduce (job_control (job), l->now, (size_t)l->n, MG_FLOAT64, MG_SUM, NULL, err)
            < 0)
        return mg_error_prefix (err, "losses beside the main one");
    return 0;
}

void losses_add (struct losses *l)
{
    for (int k = 0; k < l->n; k++)
        l->sum[k] += l->now[k];
}

void losses_average (struct losses *l, double updates)
{
    for (int k = 0; k < l->n; k++)
        l->mean[k] = l->sum[k] / (updates > 1 ? updates : 1);
}

void losses_restart (struct losses *l)
{
    for (int k = 0; k < l->n; k++)
        l->sum[k] = 0;
}
