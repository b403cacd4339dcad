/* routing - statistics and losses of the routers of an iteration, and their report. */
#ifndef LIBCORE_TRAIN_ROUTING_H
#define LIBCORE_TRAIN_ROUTING_H

#include <stdio.h>

#include "libcore/job/job.h"
#include "libcore/model/model.h"
#include "libcore/ops/router.h"

struct routing {
    const struct job *job;
    struct model *model;
    int num_layers, num_experts_layers; /* layers of the whole model; layers with experts */
    bool has[ROUTER_NUM_LOSSES];        /* losses that the model has */
    struct router_stats *stats;         /* [num_layers] [num_layers] statistics of the
                                         * last iteration, on every rank */
    double loss[ROUTER_NUM_LOSSES];     /* means over layers of the last iteration */
};

/* Megatron-LM's names of the losses: "load_balancing_loss", ... */
extern const char *const routing_loss_names[ROUTER_NUM_LOSSES];

/* For a model without experts, the other functions do nothing. */
int routing_create (struct routing *r, struct model *model, const struct job *job,
                    struct mg_error *err);
void routing_clear (struct routing *r);

/* Call the first function before the passes of an iteration, the second after its update,
 * and the third after the host has waited for the compute stream.  All are collective.
 */
int routing_begin (struct routing *r, struct mg_error *err);
int routing_update (struct routing *r, struct mg_error *err);
int routing_collect (struct routing *r, struct mg_error *err);

/* True if a layer has experts. */
bool routing_has_layer (const struct routing *r, int layer);

/* Write a member of an iteration's JSON object: an array with an object for each layer
 * with experts. */
void routing_write_json (FILE *file, const struct routing *r);

#endif /* LIBCORE_TRAIN_ROUTING_H */
