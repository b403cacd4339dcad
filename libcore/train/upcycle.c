/* upcycle.c - experts are parts of a dense layer */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/train/upcycle.h"

static const char experts[] = ".mlp.experts.local_experts.";

static double weight_scale (const struct model_config *c)
{
    double g = c->moe.upcycling_granularity;
    double s = c->moe.score == KERN_SOFTMAX ? c->moe.experts * g / c->moe.topk : g;

    return pow (s, c->gated || c->activation == KERN_SQUARED_RELU ? 1.0 / 3 : 1.0 / 2);
}

/* Dimension 'd' of a piece of part 'part' of a tensor that consists of 'halves' such dimensions. */
static void widen (struct piece *p, int d, int64_t halves, int64_t parts, int64_t part)
{
    int64_t half = p->global[d] / halves, which = p->offset[d] / half;

    p->offset[d] += which * (parts - 1) * half + part * half;
    p->global[d] *= parts;
}

/* "decoder.layers.3.mlp.experts.local_experts.5.linear_fc1.weight" is a part of
 * "decoder.layers.3.mlp.linear_fc1.weight".  Returns the factor of its elements, 1 for all others.
 */
static double change (const struct model_config *c, struct piece *p)
{
    int64_t parts = c->moe.upcycling_granularity;
    char *at = strstr (p->name, experts), rest[PIECE_NAME_MAX], *end;
    int64_t expert;

    if (!at)
        return 1;
    expert = strtoll (at + strlen (experts), &end, 10);
    snprintf (rest, sizeof (rest), "%s", end);
    snprintf (at, sizeof (p->name) - (size_t)(at - p->name), ".mlp%s", rest);
    if (strcmp (rest, ".linear_fc2.bias") == 0)
        return 1;
    if (strcmp (rest, ".linear_fc2.weight") == 0)
        widen (p, 1, 1, parts, expert % parts);
    else
        widen (p, 0, c->gated ? 2 : 1, parts, expert % parts);
    return weight_scale (c);
}

int upcycle_begin (struct upcycle *u, const struct model_config *c, struct piece *pieces, size_t n,
                   struct mg_error *err)
{
    *u = (struct upcycle){ .before = calloc (n + 1, sizeof (*u->before)),
                           .factor = calloc (n + 1, sizeof (*u->factor)) };
    if (!u->before || !u->factor)
        return mg_error_set (err, ENOMEM, "out of memory for %zu pieces of tensors", n);
    for (size_t i = 0; i < n; i++) {
        u->before[i] = pieces[i];
        pieces[i].optional |= strstr (pieces[i].name, ".mlp.router.") != NULL;
        u->factor[i] = change (c, &pieces[i]);
    }
    return 0;
}

enum { CHUNK = 1 << 12 };

/* Elements of a piece that are in device memory. */
static int scale_device (const struct piece *p, int64_t n, float factor, struct mg_error *err)
{
    float chunk[CHUNK];

    for (int64_t from = 0, k; from < n; from += k) {
        k = n - from < CHUNK ? n - from : CHUNK;
        if (p->read (p, from, k, chunk, err) < 0)
            return -1;
        for (int64_t i = 0; i < k; i++)
            chunk[i] *= factor;
        if (p->write (p, from, k, chunk, err) < 0)
            return -1;
    }
    return 0;
}

static int scale (const struct piece *p, double factor, struct mg_error *err)
{
    int64_t n = p->extent[0] * (p->ndims == 2 ? p->extent[1] : 1);
    float *data = p->data;

    if (factor == 1)
        return 0;
    for (int64_t i = 0; data && i < n; i++)
        data[i] *= (float)factor;
    return data || !p->write ? 0 : scale_device (p, n, (float)factor, err);
}

int upcycle_end (struct upcycle *u, struct piece *pieces, size_t n, int rc, struct mg_error *err)
{
    int saved_errno = errno;

    for (size_t i = 0; u->before && u->factor && i < n; i++) {
        void *data = pieces[i].data;

        pieces[i] = u->before[i];
        pieces[i].data = data;
        if (rc == 0 && scale (&pieces[i], u->factor[i], err) < 0) {
            rc = -1;
            saved_errno = errno;
        }
    }
    free (u->before);
    free (u->factor);
    errno = saved_errno;
    return rc;
}

struct model_config upcycle_dense (const struct model_config *c)
{
    struct model_config dense = *c;

    dense.ffn_hidden_size = c->moe.ffn_hidden_size * c->moe.upcycling_granularity;
    dense.moe = (struct model_moe){ .experts = 0 };
    return dense;
}
