/* routing.c - routers between iterations
 *
 * A pipeline stage knows its own layers; all ranks get those of all.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/train/output.h"
#include "libcore/train/routing.h"

const char *const routing_loss_names[ROUTER_NUM_LOSSES] = {
    [MOE_AUX_LOSS] = "load_balancing_loss",
    [MOE_SEQ_AUX_LOSS] = "seq_load_balancing_loss",
    [MOE_GLOBAL_AUX_LOSS] = "global_load_balancing_loss",
    [ROUTER_Z_LOSS] = "z_loss",
};

int routing_create (struct routing *r, struct model *model, const struct job *job,
                    struct mg_error *err)
{
    const struct model_config *c = model_config_of (model);

    *r = (struct routing){ .job = job, .model = model };
    if (c->moe.experts == 0)
        return 0;
    r->num_layers = c->num_layers + model_mtp_own (c);
    r->num_experts_layers = moe_num_layers (&c->moe, c->num_layers);
    if (moe_layer (&c->moe, c->num_layers - 1))
        r->num_experts_layers += model_mtp_own (c);
    for (int i = 0; i < MOE_NUM_AUX_LOSSES; i++)
        r->has[i] = c->moe.aux_coeff[i] != 0;
    r->has[ROUTER_Z_LOSS] = c->moe.z_coeff != 0;
    if (!(r->stats = calloc ((size_t)r->num_layers + 1, sizeof (*r->stats))))
        return mg_error_set (err, ENOMEM, "out of memory for %d layers", r->num_layers);
    return 0;
}

void routing_clear (struct routing *r)
{
    free (r->stats);
    *r = (struct routing){ .stats = NULL };
}

int routing_begin (struct routing *r, struct mg_error *err)
{
    return r->stats ? model_clear_routers (r->model, err) : 0;
}

int routing_update (struct routing *r, struct mg_error *err)
{
    return r->stats ? model_update_routers (r->model, err) : 0;
}

int routing_collect (struct routing *r, struct mg_error *err)
{
    size_t n = (size_t)r->num_layers * sizeof (*r->stats);

    if (!r->stats)
        return 0;
    memset (r->stats, 0, n);
    model_read_routers (r->model, r->stats);
    if (job_group_rank (r->job, GROUP_TP_DP_CP) != 0)
        memset (r->stats, 0, n);
    if (mg_comm_all_reduce (job_control (r->job), r->stats, n / sizeof (double), MG_FLOAT64, MG_SUM,
                            NULL, err) < 0)
        return mg_error_prefix (err, "routers of all stages");
    for (int i = 0; i < ROUTER_NUM_LOSSES; i++) {
        r->loss[i] = 0;
        for (int l = 0; l < r->num_layers; l++)
            r->loss[i] += r->stats[l].loss[i] / r->num_experts_layers;
    }
    return 0;
}

bool routing_has_layer (const struct routing *r, int layer)
{
    return r->stats && model_has_experts (model_config_of (r->model), layer);
}

static void write_layer (FILE *file, const struct routing *r, int layer)
{
    const struct router_stats *s = &r->stats[layer];

    fprintf (file, "{\"layer\": %d", layer);
    for (int i = 0; i < ROUTER_NUM_LOSSES; i++) {
        if (r->has[i])
            output_write_real (file, routing_loss_names[i], s->loss[i]);
    }
    output_write_real (file, "least tokens per expert", s->least);
    output_write_real (file, "most tokens per expert", s->most);
    output_write_real (file, "entropy", s->entropy);
    output_write_real (file, "dropped tokens", s->dropped);
    if (model_config_of (r->model)->moe.expert_bias) {
        output_write_real (file, "least expert bias", s->bias_least);
        output_write_real (file, "most expert bias", s->bias_most);
    }
    fputc ('}', file);
}

void routing_write_json (FILE *file, const struct routing *r)
{
    const char *comma = "";

    if (!r->stats)
        return;
    fputs (", \"experts\": [", file);
    for (int l = 0; l < r->num_layers; l++) {
        if (!routing_has_layer (r, l))
            continue;
        fputs (comma, file);
        write_layer (file, r, l);
        comma = ", ";
    }
    fputc (']', file);
}
