/* buffers - the data of "megatron plan buffers", which it prints as text or JSON, or draws. */
#ifndef CMD_PLAN_BUFFERS_H
#define CMD_PLAN_BUFFERS_H

#include "libcore/optim/layout.h"
#include "megatron/error.h"

struct plan_buffers {
    struct layout_param *param; /* [n] */
    char **name;                /* [n] */
    size_t n;
    int dp, edp;      /* ranks that share dense and expert parameters */
    int instances;    /* of the distributed optimizer */
    int pp_rank;
    bool sharded, average, per_token;
    int64_t resolved; /* bucket size before, and ... */
    int64_t used;     /* after the rules of stages and chunks; or LAYOUT_ONE_BUCKET */
    struct layout *layout;
};

/* Allocate n parameters without names, in a struct of zeros. */
int plan_buffers_allocate (struct plan_buffers *b, size_t n, struct mg_error *err);

/* Read the JSON list of --params, whose format is in megatron-plan(1).  The error names
 * the file and, where it is not JSON, its line, else the parameter.
 */
int plan_buffers_read_file (struct plan_buffers *b, const char *path,
                            struct mg_error *err);

/* Returns the factor of a buffer's gradients before they are summed. */
double plan_buffers_grad_scale (const struct plan_buffers *b,
                                const struct layout_buffer *buffer);

void plan_buffers_print (const struct plan_buffers *b);
void plan_buffers_print_json (const struct plan_buffers *b);

/* Draw a map: buckets, parameters, owners. */
int plan_buffers_draw (const struct plan_buffers *b, const char *path,
                       struct mg_error *err);

#endif /* CMD_PLAN_BUFFERS_H */
