/* replicas.c - compare the weights of data-parallel replicas
 *
 * Ranks exchange one hash of all their dense, and one of all their expert, parameters.  Only after
 * a difference two ranks' hashes of each parameter are sent to all.
 */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "libcore/comm/exchange.h"
#include "libcore/train/replicas.h"

enum { CHUNK = 1 << 20, KINDS = 2, MAX_NAMED = 16 };

struct hashes {
    struct job *job;
    const struct param *params;
    size_t n;
    int64_t *tensor;       /* [num_tensors] by the parameter's order; 0: not on this rank */
    size_t num_tensors;
    int64_t (*all)[KINDS]; /* [world] of dense and of expert parameters */
    XXH3_state_t *state;
    char *chunk;
};

static int hash_param (struct hashes *h, const struct param *p, struct mg_stream *stream,
                       int64_t *hash, struct mg_error *err)
{
    const size_t bytes = (size_t)p->numel * mg_dtype_size (p->storage);

    XXH3_64bits_reset_withSeed (h->state, (uint64_t)p->order + 1);
    XXH3_64bits_update (h->state, &p->scale, sizeof (p->scale));
    for (size_t from = 0, n; from < bytes; from += n) {
        n = bytes - from < CHUNK ? bytes - from : CHUNK;
        if (device_fetch (stream, h->chunk, (const char *)p->data + from, n, err) < 0)
            return -1;
        XXH3_64bits_update (h->state, h->chunk, n);
    }
    *hash = (int64_t)XXH3_64bits_digest (h->state);
    return 0;
}

static int hash_params (struct hashes *h, struct mg_stream *stream, struct mg_error *err)
{
    int64_t *own = h->all[job_rank (h->job)];

    for (size_t i = 0; i < h->n; i++) {
        const struct param *p = &h->params[i];
        int64_t *hash = &h->tensor[p->order];

        if (hash_param (h, p, stream, hash, err) < 0)
            return -1;
        own[p->expert] = (int64_t)XXH3_64bits_withSeed (hash, sizeof (*hash),
                                                        (uint64_t)own[p->expert]);
    }
    return 0;
}

/* True if two ranks have the same parts of all dense, or expert, parameters. */
static bool share (const struct hashes *h, int kind, int a, int b)
{
    static const enum mg_axis axes[] = { MG_AXIS_TP, MG_AXIS_PP, MG_AXIS_EP };
    const struct grid *grid = job_grid (h->job);

    for (int i = 0; i < 2 + kind; i++) {
        if (grid_coord (grid, kind, axes[i], a) != grid_coord (grid, kind, axes[i], b))
            return false;
    }
    return true;
}

/* The lowest of the ranks that share parameters with 'rank' and have the most common hash. */
static int find_model (const struct hashes *h, int kind, int rank)
{
    int world = job_world (h->job), best = rank, most = 0;

    for (int a = 0; a < world; a++) {
        int count = 0;

        if (!share (h, kind, a, rank))
            continue;
        for (int b = 0; b < world; b++)
            count += share (h, kind, a, b) && h->all[a][kind] == h->all[b][kind];
        if (count > most) {
            best = a;
            most = count;
        }
    }
    return best;
}

/* True if a rank has another hash than the lowest rank that shares parameters with it. */
static bool any_differs (const struct hashes *h, int kind)
{
    for (int rank = 0; rank < job_world (h->job); rank++) {
        int first = 0;

        while (!share (h, kind, first, rank))
            first++;
        if (h->all[first][kind] != h->all[rank][kind])
            return true;
    }
    return false;
}

/* Send the hashes of each parameter of two ranks to all ranks.  On these two, *differs becomes the
 * first parameter whose hashes differ.
 */
static int compare_two (struct hashes *h, int a, int b, const struct param **differs,
                        struct mg_error *err)
{
    struct mg_comm *comm = job_control (h->job);
    int64_t *two = calloc (2 * h->num_tensors + 1, sizeof (*two));
    int64_t *of[] = { two, two + h->num_tensors };
    const int root[] = { a, b };
    int rc = two ? 0 : mg_error_set (err, ENOMEM, "weight hashes: out of memory");

    rc = exchange_agree (comm, rc, err);
    for (int i = 0; rc == 0 && i < 2; i++) {
        if (job_rank (h->job) == root[i])
            memcpy (of[i], h->tensor, h->num_tensors * sizeof (*two));
        rc = mg_comm_broadcast (comm, of[i], h->num_tensors, MG_INT64, root[i], NULL, err);
    }
    *differs = NULL;
    for (size_t i = 0; rc == 0 && i < h->n; i++) {
        int order = h->params[i].order;

        if (of[0][order] != of[1][order] && (!*differs || order < (*differs)->order))
            *differs = &h->params[i];
    }
    free (two);
    return rc;
}

/* Report the ranks that differ.  The first of them has the name of the parameter. */
static int name_ranks (struct hashes *h, int kind, struct mg_error *err)
{
    char list[MAX_NAMED * 12] = "", what[PIECE_NAME_MAX] = "a parameter";
    int world = job_world (h->job), first = -1, model = -1, count = 0, rc = 0;
    const struct param *differs;
    size_t len = 0;

    for (int rank = 0; rank < world; rank++) {
        int of = find_model (h, kind, rank);

        if (h->all[of][kind] == h->all[rank][kind])
            continue;
        if (first < 0) {
            first = rank;
            model = of;
        }
        if (count++ < MAX_NAMED)
            len += (size_t)snprintf (list + len, sizeof (list) - len, "%s%d", len ? ", " : "",
                                     rank);
    }
    if (compare_two (h, model, first, &differs, err) < 0)
        return -1;
    if (job_rank (h->job) == first) {
        if (differs)
            param_text (differs, what);
        rc = mg_error_set (err, EILSEQ, "the weights of rank%s %s%s are not those of the other "
                           "ranks with the same part of the model; the first that differs between "
                           "ranks %d and %d is %s", count == 1 ? "" : "s", list,
                           count > MAX_NAMED ? " and others" : "", model, first, what);
    }
    return exchange_result (job_control (h->job), rc, err);
}

static int compare (struct hashes *h, struct mg_error *err)
{
    const int64_t own[KINDS] = { h->all[job_rank (h->job)][0], h->all[job_rank (h->job)][1] };

    if (mg_comm_all_gather (job_control (h->job), own, h->all, KINDS, MG_INT64, NULL, err) < 0)
        return mg_error_prefix (err, "weight hashes");
    for (int kind = 0; kind < KINDS; kind++) {
        if (any_differs (h, kind))
            return name_ranks (h, kind, err);
    }
    return 0;
}

int replicas_check (struct job *job, struct model *model, struct buffers *buffers,
                    struct mg_error *err)
{
    struct hashes h = { .job = job, .num_tensors = (size_t)model_sizes_of (model)->tensors };
    int rc = buffers_params_wait (buffers, err);

    h.params = model_params (model, &h.n);
    h.tensor = calloc (h.num_tensors + 1, sizeof (*h.tensor));
    h.all = calloc ((size_t)job_world (job), sizeof (*h.all));
    h.state = XXH3_createState ();
    h.chunk = device_host_alloc (job_device (job), CHUNK, NULL);
    if (rc == 0 && (!h.tensor || !h.all || !h.state || !h.chunk))
        rc = mg_error_set (err, ENOMEM, "weight hashes: out of memory");
    if (rc == 0)
        rc = hash_params (&h, model_stream (model), err);
    rc = exchange_agree (job_control (job), rc, err);
    if (rc == 0)
        rc = compare (&h, err);
    free (h.tensor);
    free (h.all);
    XXH3_freeState (h.state);
    device_host_free (job_device (job), h.chunk);
    return rc;
}
