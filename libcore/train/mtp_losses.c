/* mtp_losses.c - losses of multi-token prediction, brought together */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "libcore/train/mtp_losses.h"

int mtp_losses_create (struct mtp_losses *l, const struct model *model, struct mg_error *err)
{
    size_t n = (size_t)model_config_of (model)->mtp_num_layers;

    *l = (struct mtp_losses){ .n = (int)n };
    if (n == 0)
        return 0;
    if (!(l->now = calloc (3 * n, sizeof (*l->now))))
        return mg_error_set (err, ENOMEM, "out of memory for %zu losses", n);
    l->sum = l->now + n;
    l->mean = l->sum + n;
    return 0;
}

void mtp_losses_clear (struct mtp_losses *l)
{
    free (l->now);
    *l = (struct mtp_losses){ .n = 0 };
}

int mtp_losses_collect (struct mtp_losses *l, struct model *model, struct job *job, double factor,
                        struct mg_error *err)
{
    bool has = model_has_loss (model) && job_group_rank (job, GROUP_TP) == 0;

    if (l->n == 0)
        return 0;
    for (int k = 0; k < l->n; k++) {
        double sums[3] = { 0 };

        if (has)
            model_loss (model, MODEL_MTP_LOSS + k, sums);
        l->now[k] = sums[0] * factor;
    }
    if (mg_comm_all_reduce (job_control (job), l->now, (size_t)l->n, MG_FLOAT64, MG_SUM, NULL, err)
            < 0)
        return mg_error_prefix (err, "losses of multi-token prediction");
    return 0;
}

void mtp_losses_add (struct mtp_losses *l)
{
    for (int k = 0; k < l->n; k++)
        l->sum[k] += l->now[k];
}

void mtp_losses_average (struct mtp_losses *l, double updates)
{
    for (int k = 0; k < l->n; k++)
        l->mean[k] = l->sum[k] / (updates > 1 ? updates : 1);
}

void mtp_losses_restart (struct mtp_losses *l)
{
    for (int k = 0; k < l->n; k++)
        l->sum[k] = 0;
}

void mtp_losses_name (int k, char name[MTP_LOSS_NAME])
{
    snprintf (name, MTP_LOSS_NAME, "mtp_%d loss", k + 1);
}
