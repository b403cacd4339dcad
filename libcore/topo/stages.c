/* stages.c - deal layers out to the stages of a pipeline
 *
 * Rules are checked first, and then the stages are filled from one of three sources: a layout,
 * first and last numbers, or equal parts.  Every layer has exactly one stage, and stages follow
 * each other in the order of the model.
 */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "libcore/base/multiple.h"
#include "libcore/topo/stages_private.h"

enum { STAGES_MAX = 1 << 24 };

static int extras (const struct stages_config *c)
{
    return c->with_embedding + c->with_loss;
}

/* Layers, and what counts as one, are a multiple of 'parts'; 'of' says what that is. */
static int check_layers (const struct stages_config *c, int64_t parts, const char *of,
                         struct mg_error *err)
{
    static const char *const what[] = { "loss", "embedding", "embedding and loss" };

    return multiple_check_sum ("num-layers", c->num_layers, extras (c),
                               what[c->with_embedding + (c->with_embedding && c->with_loss)],
                               parts, of, "", err);
}

/* Virtual stages of a rank from the number of layers of a stage. */
static int read_layers_per_vpp (const struct stages_config *c, struct mg_error *err)
{
    int64_t parts = (int64_t)c->pp * c->layers_per_vpp;
    char of[160];

    if (c->first || c->last)
        return mg_error_set (
            err, EINVAL,
            "num-layers-per-virtual-pipeline-stage excludes decoder-first-"
            "pipeline-num-layers and decoder-last-pipeline-num-layers; use "
            "num-virtual-stages-per-pipeline-rank");
    snprintf (
        of, sizeof (of),
        "pipeline-model-parallel-size %d x num-layers-per-virtual-pipeline-stage %d = "
        "%lld",
        c->pp, c->layers_per_vpp, (long long)parts);
    if (check_layers (c, parts, of, err) < 0)
        return -1;
    return (int)(((int64_t)c->num_layers + extras (c)) / parts);
}

/* Layers of each rank, and of each of its virtual stages, are the same. */
static int fill_even (const struct stages_config *c, struct stages *s,
                      struct mg_error *err)
{
    int64_t parts = (int64_t)s->pp * s->vpp;
    char of[160];
    int each;

    if (s->vpp > 1)
        snprintf (of, sizeof (of),
                  "pipeline-model-parallel-size %d x %d virtual stages = %lld", s->pp,
                  s->vpp, (long long)parts);
    else
        snprintf (of, sizeof (of), "pipeline-model-parallel-size %d", s->pp);
    if (check_layers (c, parts, of, err) < 0)
        return -1;
    each = (c->num_layers + extras (c)) / (int)parts;
    for (int64_t i = 0; i < parts; i++)
        s->stage[i].num_layers = each;
    s->stage[0].num_layers -= c->with_embedding;
    s->stage[parts - 1].num_layers -= c->with_loss;
    return 0;
}

/* 'name' gives so many layers to a rank at one end, which deals them out to its virtual stages. */
static int check_end (const char *name, int layers, int vpp, struct mg_error *err)
{
    char of[40];

    snprintf (of, sizeof (of), "%d virtual stages", vpp);
    return multiple_check (name, layers, vpp, of, "", err);
}

/* Layers of the ranks whose number is not given; -1 and a text if it is illegal. */
static int middle_layers (const struct stages_config *c, int vpp, struct mg_error *err)
{
    int64_t layers = (int64_t)c->num_layers - c->first - c->last;
    int ranks = c->pp - (c->first > 0) - (c->last > 0);
    char of[60];

    if (layers < 0 || ranks < 0 || (layers == 0) != (ranks == 0))
        return mg_error_set (
            err, EINVAL,
            "decoder-first-pipeline-num-layers %d and decoder-last-pipeline-"
            "num-layers %d leave %lld of num-layers %d to %d ranks; both must "
            "be zero, or none",
            c->first, c->last, (long long)layers, c->num_layers, ranks < 0 ? 0 : ranks);
    if (ranks == 0)
        return vpp == 1
                   ? 0
                   : mg_error_set (err, EINVAL,
                                   "decoder-first-pipeline-num-layers and decoder-last-"
                                   "pipeline-num-layers leave no rank between them, "
                                   "which virtual stages need; give one of the two");
    snprintf (of, sizeof (of), "%d ranks x %d virtual stage%s", ranks, vpp, vpp == 1 ? "" : "s");
    if (multiple_check_sum ("num-layers", c->num_layers, -((int64_t)c->first + c->last),
                            "first and last rank", (int64_t)ranks * vpp, of, "",
                            err) < 0)
        return -1;
    return (int)(layers / ranks);
}

/* The first and the last rank have layers of their own number. */
static int fill_ends (const struct stages_config *c, struct stages *s,
                      struct mg_error *err)
{
    int middle;

    if (extras (c) > 0)
        return mg_error_set (
            err, EINVAL,
            "decoder-first-pipeline-num-layers and decoder-last-pipeline-num-"
            "layers exclude account-for-embedding-in-pipeline-split and "
            "account-for-loss-in-pipeline-split");
    if (check_end ("decoder-first-pipeline-num-layers", c->first, s->vpp, err) < 0
        || check_end ("decoder-last-pipeline-num-layers", c->last, s->vpp, err) < 0)
        return -1;
    middle = middle_layers (c, s->vpp, err);
    if (middle < 0)
        return -1;
    for (int i = 0; i < s->pp * s->vpp; i++) {
        int rank = i % s->pp, layers = middle;

        if (rank == 0 && c->first)
            layers = c->first;
        else if (rank == s->pp - 1 && c->last)
            layers = c->last;
        s->stage[i].num_layers = layers / s->vpp;
    }
    return 0;
}

static int check_config (const struct stages_config *c, struct mg_error *err)
{
    const struct {
        const char *name;
        int value, min;
    } sizes[] = {
        { "num-layers", c->num_layers, 1 },
        { "pipeline-model-parallel-size", c->pp, 1 },
        { "num-virtual-stages-per-pipeline-rank", c->vpp, 0 },
        { "num-layers-per-virtual-pipeline-stage", c->layers_per_vpp, 0 },
        { "decoder-first-pipeline-num-layers", c->first, 0 },
        { "decoder-last-pipeline-num-layers", c->last, 0 },
        { "mtp-num-layers", c->mtp_layers, 0 },
    };

    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++) {
        if (sizes[i].value < sizes[i].min)
            return mg_error_set (err, EINVAL, "%s is %d, want at least %d", sizes[i].name,
                                 sizes[i].value, sizes[i].min);
    }
    if (c->layout && (c->first || c->last || extras (c) > 0 || c->layers_per_vpp))
        return mg_error_set (
            err, EINVAL,
            "pipeline-model-parallel-layout excludes all other options that "
            "deal out layers");
    return 0;
}

/* Virtual stages of a rank, from the arguments that set them; -1 and a text. */
static int count_virtual (const struct stages_config *c, char **items,
                          struct mg_error *err)
{
    int vpp = c->vpp > 1 ? c->vpp : 1;

    if (c->layout)
        vpp = stages_layout_read (c, items, err);
    else if (c->layers_per_vpp)
        vpp = read_layers_per_vpp (c, err);
    if (vpp < 0)
        return -1;
    if (c->vpp > 0 && c->vpp != vpp)
        return mg_error_set (
            err, EINVAL, "num-virtual-stages-per-pipeline-rank is %d, but %s gives %d",
            c->vpp,
            c->layout ? "pipeline-model-parallel-layout"
                      : "num-layers-per-virtual-pipeline-stage",
            vpp);
    if (vpp > 1 && c->pp == 1 && !c->layout)
        return mg_error_set (err, EINVAL,
                             "%d virtual stages need a pipeline: pipeline-model-"
                             "parallel-size is 1, want 2 or more",
                             vpp);
    return vpp;
}

static int fill (const struct stages_config *c, struct stages *s, const char *items,
                 struct mg_error *err)
{
    int offset = 0;
    int rc;

    if (c->layout)
        rc = stages_layout_fill (c, items, s, err);
    else if (c->first || c->last)
        rc = fill_ends (c, s, err);
    else
        rc = fill_even (c, s, err);
    if (!c->layout)
        s->stage[s->pp * s->vpp - 1].mtp_layers = c->mtp_layers;
    for (int i = 0; i < s->pp * s->vpp && rc == 0; i++) {
        s->stage[i].offset = offset;
        offset += s->stage[i].num_layers;
    }
    return rc;
}

void stages_destroy (struct stages *s)
{
    if (s) {
        int saved_errno = errno;
        free (s->stage);
        free (s);
        errno = saved_errno;
    }
}

struct stages *stages_create (const struct stages_config *c, struct mg_error *err)
{
    struct stages *s = NULL;
    char *items = NULL;
    int64_t n;
    int vpp, rc;

    if (check_config (c, err) < 0)
        return NULL;
    vpp = count_virtual (c, &items, err);
    if (vpp < 0)
        goto error;
    n = (int64_t)c->pp * vpp;
    if (n > STAGES_MAX) {
        mg_error_set (err, EINVAL,
                      "pipeline-model-parallel-size %d x %d virtual stages is "
                      "over %d",
                      c->pp, vpp, STAGES_MAX);
        goto error;
    }
    if (!(s = calloc (1, sizeof (*s)))
        || !(s->stage = calloc ((size_t)n, sizeof (*s->stage)))) {
        mg_error_set (err, ENOMEM, "out of memory for %d x %d pipeline stages", c->pp,
                      vpp);
        goto error;
    }
    s->pp = c->pp;
    s->vpp = vpp;
    rc = fill (c, s, items, err);
    if (rc < 0)
        goto error;
    free (items);
    return s;
error:
    free (items);
    stages_destroy (s);
    return NULL;
}

const struct stage *stages_at (const struct stages *s, int pp_rank, int vp_stage)
{
    return &s->stage[vp_stage * s->pp + pp_rank];
}
