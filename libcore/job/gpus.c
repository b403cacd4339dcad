/* gpus.c - whether the GPUs of the ranks go together */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/comm/net.h"
#include "libcore/job/gpus.h"

int gpus_own (const struct bootstrap_info *info, const struct device_choice *choice, bool moves,
              struct handshake_device *own, struct mg_error *err)
{
    const struct device_config config = { .name = net_auto_device (), .ordinal = choice->ordinal,
                                          .local_rank = info->local_rank };
    int rc;

    memset (own, 0, sizeof (*own)); // padding is sent, too
    own->node = info->node;
    rc = device_identify (&config, &own->identity, err);
    own->usable = rc == 0 && moves;
    return rc;
}

/* NCCL takes ranks with different ids for those of several machines; the other variable permits
 * several ranks on one GPU.
 */
static bool may_share (void)
{
    const char *id = getenv ("NCCL_HOSTID"), *several = getenv ("NCCL_MULTI_RANK_GPU_ENABLE");

    return (id && *id) || (several && strcmp (several, "1") == 0);
}

/* Read what the ranks from 'first' on say.  NULL and a text on failure. */
static struct handshake_device *read_ranks (struct bootstrap *b, int first, int n,
                                            struct mg_error *err)
{
    struct handshake_device *all = calloc ((size_t)n, sizeof (*all));

    if (!all) {
        mg_error_set (err, ENOMEM, "job: out of memory for the GPUs of %d ranks", n);
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        if (handshake_device (b, first + i, &all[i], err) < 0) {
            free (all);
            return NULL;
        }
    }
    return all;
}

/* Returns an earlier rank of the same node with the GPU of rank 'i', or -1.  Logical ranks are
 * node-major.
 */
static int find_sharer (const struct handshake_device *all, int i)
{
    for (int j = i; j-- > 0 && all[j].node == all[i].node;) {
        if (all[i].identity.place[0] && strcmp (all[j].identity.place, all[i].identity.place) == 0)
            return j;
    }
    return -1;
}

bool gpus_everywhere (struct bootstrap *b, const struct bootstrap_info *info,
                      struct mg_error *why)
{
    struct handshake_device *all = read_ranks (b, 0, info->size, why);
    bool shares = may_share (), good = all != NULL;

    for (int i = 0; good && i < info->size; i++) {
        int other = shares ? -1 : find_sharer (all, i);

        good = all[i].usable && other < 0;
        if (other >= 0)
            mg_error_set (why, 0, "ranks %d and %d have one GPU, %s", other, i,
                          all[i].identity.place);
        else if (!good)
            mg_error_set (why, 0, "rank %d has %s", i,
                          all[i].identity.place[0] ? "no NCCL" : "no GPU that it can use");
    }
    free (all);
    return good;
}

static int check_sharers (struct bootstrap *b, const struct bootstrap_info *info,
                          struct mg_error *err)
{
    int first = info->rank - info->local_rank, n = info->local_size, rc = 0;
    struct handshake_device *all = read_ranks (b, first, n, err);

    if (!all)
        return -1;
    for (int i = 0; rc == 0 && i < n; i++) {
        int other = find_sharer (all, i);

        if (other >= 0)
            rc = mg_error_set (err, EBUSY, "device cuda: ranks %d and %d have one GPU, %s: want "
                               "one for each rank, or NCCL_HOSTID of another value for each",
                               first + other, first + i, all[i].identity.place);
    }
    free (all);
    return rc;
}

static int check_version (const char *what, int own, int first, struct mg_error *err)
{
    if (own == first)
        return 0;
    return mg_error_set (err, EPROTO, "device cuda: the %s is of CUDA %d.%d here and of %d.%d on "
                         "rank 0: want one version on all nodes", what, own / 1000,
                         own % 1000 / 10, first / 1000, first % 1000 / 10);
}

int gpus_check (struct bootstrap *b, const struct bootstrap_info *info, struct mg_error *err)
{
    struct handshake_device own, first;

    if (!may_share () && check_sharers (b, info, err) < 0)
        return -1;
    if (handshake_device (b, info->rank, &own, err) < 0
        || handshake_device (b, 0, &first, err) < 0)
        return -1;
    if (!own.identity.place[0]) // this rank has no GPU, and says so
        return 0;
    return check_version ("runtime", own.identity.runtime, first.identity.runtime, err) < 0
           ? -1 : check_version ("driver", own.identity.driver, first.identity.driver, err);
}
