/* routing - what the routers of layers with experts do in an iteration, and what is said of it. */
#ifndef LIBCORE_TRAIN_ROUTING_H
#define LIBCORE_TRAIN_ROUTING_H

#include <stdio.h>

#include "libcore/job/job.h"
#include "libcore/model/model.h"
#include "libcore/ops/router.h"

struct routing {
    const struct job *job;
    struct model *model;
    int num_layers, num_experts_layers; /* of the whole model; those that have experts */
    bool has[ROUTER_NUM_LOSSES];        /* losses that there are */
    struct router_stats *stats;         /* [num_layers] of the last iteration, on every rank */
    double loss[ROUTER_NUM_LOSSES];     /* its means over layers */
};

/* Megatron-LM's names of the losses: "load_balancing_loss", ... */
extern const char *const routing_loss_names[ROUTER_NUM_LOSSES];

/* A model without experts has none; the other functions then do nothing. */
int routing_create (struct routing *r, struct model *model, const struct job *job,
                    struct mg_error *err);
void routing_clear (struct routing *r);

/* Before the passes of an iteration; behind its update; and after a wait of the host for the
 * compute stream.  All are collective.
 */
int routing_begin (struct routing *r, struct mg_error *err);
int routing_update (struct routing *r, struct mg_error *err);
int routing_collect (struct routing *r, struct mg_error *err);

/* Has a layer experts? */
bool routing_has_layer (const struct routing *r, int layer);

/* A member of an iteration's JSON object: an array with an object for each layer with experts. */
void routing_write_json (FILE *file, const struct routing *r);

#endif /* LIBCORE_TRAIN_ROUTING_H */
