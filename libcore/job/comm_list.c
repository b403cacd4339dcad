/* comm_list.c - groups, then what is made of parts of groups */

#include <errno.h>

#include "libcore/job/comm_list.h"
#include "libcore/job/job.h"

/* A list in the making. */
struct maker {
    struct comm_list *list;
    const struct grid *grid;
    int rank;
    const struct handshake_groups *groups;
};

struct comm_part {
    int first, stride, size;
};

static bool is_named (const struct maker *m, enum group_kind kind)
{
    return m->groups->kinds == 0 || m->groups->kinds & JOB_GROUP (kind);
}

static struct group group_of (const struct maker *m, enum group_kind kind)
{
    struct group group;

    grid_group_of (m->grid, kind, m->rank, &group);
    return group;
}

static struct comm_item *add (struct maker *m, const struct group *group, struct comm_part part,
                              const char *name, int tag)
{
    struct comm_item *item = &m->list->item[m->list->n++];

    *item = (struct comm_item){
        .name = name, .tag = tag, .size = part.size, .group = *group, .first = part.first,
        .stride = part.stride, .rank = (group->rank - part.first) / part.stride, .share = -1,
    };
    return item;
}

int comm_item_member (const struct comm_item *item, int i)
{
    return group_at (&item->group, item->first + i * item->stride);
}

static bool same_members (const struct comm_item *a, const struct comm_item *b)
{
    if (a->size != b->size)
        return false;
    for (int i = 0; i < a->size; i++) {
        if (comm_item_member (a, i) != comm_item_member (b, i))
            return false;
    }
    return true;
}

/* Let the last item, if it has several members, share the first item from 'from' on that has the
 * same members.  All members find the same item, so no member waits for the others.
 */
static void share_last (struct comm_list *list, int from)
{
    struct comm_item *last = &list->item[list->n - 1];

    for (int i = from; i < list->n - 1 && last->size > 1; i++) {
        if (same_members (&list->item[i], last)) {
            last->share = i;
            return;
        }
    }
}

static void add_kinds (struct maker *m)
{
    for (int kind = 0; kind < GROUP_NUM_KINDS; kind++) {
        struct group group = group_of (m, kind);

        if (!is_named (m, kind) || group.rank < 0)
            continue;
        add (m, &group, (struct comm_part){ 0, 1, group.size }, group_kinds[kind].name, kind);
        share_last (m->list, 0);
    }
}

/* With virtual stages on two ranks, activations and gradients go from the one to the other
 * side by side.  One communicator matches them in the order in which they are enqueued,
 * which is not the same on both ends.
 */
static void add_pp_backward (struct maker *m)
{
    struct group group = group_of (m, GROUP_PP);

    if (grid_geometry (m->grid)->vpp >= 2 && grid_geometry (m->grid)->pp == 2)
        add (m, &group, (struct comm_part){ 0, 1, group.size }, "pp-backward",
             COMM_TAG_PP_BACKWARD);
}

/* A serial communicator for each lane of the pipeline that this rank is an end of. */
static void add_pp_lanes (struct maker *m)
{
    struct group group = group_of (m, GROUP_PP);
    struct pp_lane lane[PP_LANES_MAX];
    int n = pp_lane_list (group.size, group.rank, grid_geometry (m->grid)->vpp > 1, lane);

    for (int i = 0; i < n; i++) {
        int low = lane[i].from < lane[i].to ? lane[i].from : lane[i].to;
        struct comm_part ends = { low, lane[i].from + lane[i].to - 2 * low, 2 };

        add (m, &group, ends, lane[i].name, COMM_TAG_PP_LANES + lane[i].tag)->lane = lane[i];
    }
}

/* Neighbours in the cp group, and the ranks at one place among them. */
static int add_context (struct maker *m, struct mg_error *err)
{
    struct group group = group_of (m, GROUP_CP);
    int inner = m->groups->context_inner;

    if (inner == 0 || !is_named (m, GROUP_CP))
        return 0;
    if (inner < 0 || group.size % inner != 0)
        return mg_error_set (err, EINVAL, "job: %d neighbours do not divide the %d "
                             "context-parallel ranks", inner, group.size);
    add (m, &group, (struct comm_part){ group.rank / inner * inner, 1, inner }, "cp-inner",
         COMM_TAG_CP_INNER);
    add (m, &group, (struct comm_part){ group.rank % inner, inner, group.size / inner }, "cp-outer",
         COMM_TAG_CP_OUTER);
    return 0;
}

/* Instances of a distributed optimizer are neighbours in the group that they divide. */
static void add_instance (struct maker *m, const struct group *group, bool expert, int dense)
{
    int count = m->groups->optimizer_instances, size = group->size / count;

    add (m, group, (struct comm_part){ group->rank / size * size, 1, size },
         expert ? "edp-shard" : "dp-shard", COMM_TAG_SHARD + expert);
    share_last (m->list, dense);
    add (m, group, (struct comm_part){ group->rank % size, size, count },
         expert ? "edp-instances" : "dp-instances", COMM_TAG_INSTANCES + expert);
    share_last (m->list, dense);
}

static int add_instances (struct maker *m, struct mg_error *err)
{
    struct group dense = group_of (m, GROUP_DP_CP), expert = group_of (m, GROUP_EDP);
    int count = m->groups->optimizer_instances, first = m->list->n;

    if (count == 0 || count == 1 || !is_named (m, GROUP_DP_CP))
        return 0;
    if (geometry_check_instances (count, dense.size, expert.size, err) < 0)
        return -1;
    add_instance (m, &dense, false, first);
    if (is_named (m, GROUP_EDP))
        add_instance (m, &expert, true, first);
    return 0;
}

int comm_list_make (struct comm_list *list, const struct grid *grid, int rank,
                    const struct handshake_groups *groups, bool serial, struct mg_error *err)
{
    struct maker m = { .list = list, .grid = grid, .rank = rank, .groups = groups };

    list->n = 0;
    add_kinds (&m);
    if (is_named (&m, GROUP_PP) && !groups->groups_transfers)
        (serial ? add_pp_lanes : add_pp_backward) (&m);
    return add_context (&m, err) < 0 ? -1 : add_instances (&m, err);
}

/* --- what is called --- */

#define CALL(name) (1u << MG_CALL_##name)

enum {
    SUMS = CALL (ALL_REDUCE) | CALL (REDUCE_SCATTER) | CALL (ALL_GATHER),
    ANY = SUMS | CALL (BROADCAST),
};

static unsigned calls_of (const struct comm_item *item)
{
    static const unsigned calls[COMM_TAG_PP_LANES] = {
        [GROUP_TP] = SUMS,
        [GROUP_CP] = CALL (ALL_GATHER) | CALL (REDUCE_SCATTER) | CALL (ALL_TO_ALL) | CALL (P2P),
        [GROUP_DP_CP] = SUMS,
        [GROUP_PP] = CALL (P2P),
        [GROUP_TP_CP] = CALL (ALL_REDUCE) | CALL (ALL_GATHER),
        [GROUP_TP_DP_CP] = CALL (ALL_REDUCE),
        [GROUP_EP] = CALL (ALL_REDUCE) | CALL (ALL_TO_ALL),
        [GROUP_ETP] = SUMS,
        [GROUP_TP_EP] = CALL (ALL_GATHER) | CALL (REDUCE_SCATTER) | CALL (ALL_TO_ALL),
        [GROUP_EDP] = SUMS,
        [GROUP_EMBD] = CALL (ALL_REDUCE),
        [COMM_TAG_PP_BACKWARD] = CALL (P2P),
        [COMM_TAG_SHARD] = SUMS,
        [COMM_TAG_SHARD + 1] = SUMS,
        [COMM_TAG_INSTANCES] = CALL (ALL_REDUCE),
        [COMM_TAG_INSTANCES + 1] = CALL (ALL_REDUCE),
        [COMM_TAG_CP_INNER] = CALL (ALL_TO_ALL),
        [COMM_TAG_CP_OUTER] = CALL (P2P),
    };

    if (item->lane.name)
        return CALL (P2P);
    return calls[item->tag] ? calls[item->tag] : ANY;
}

unsigned comm_list_calls (const struct comm_list *list, int i)
{
    unsigned calls = calls_of (&list->item[i]);

    for (int k = i + 1; k < list->n; k++) {
        if (list->item[k].share == i)
            calls |= calls_of (&list->item[k]);
    }
    return calls;
}

static void add_transfer (struct mg_p2p *transfer, int *n, enum mg_p2p_kind kind, int peer)
{
    transfer[(*n)++] = (struct mg_p2p){ .kind = kind, .peer = peer };
}

int comm_list_transfers (const struct comm_list *list, int i, bool wraps,
                         struct mg_p2p transfer[COMM_TRANSFERS_MAX])
{
    const struct comm_item *item = &list->item[i];
    bool pipeline = item->tag == GROUP_PP || item->tag == COMM_TAG_PP_BACKWARD;
    int last = item->size - 1, n = 0;
    int next = item->rank < last ? item->rank + 1 : 0, before = item->rank ? item->rank - 1 : last;

    if (item->size == 1 || !(calls_of (item) & CALL (P2P)))
        return 0;
    if (item->lane.name) {
        add_transfer (transfer, &n, item->group.rank == item->lane.from ? MG_SEND : MG_RECV,
                      1 - item->rank);
        return n;
    }
    if (!pipeline || wraps || item->rank < last)
        add_transfer (transfer, &n, MG_SEND, next);
    if (!pipeline || wraps || item->rank > 0)
        add_transfer (transfer, &n, MG_RECV, before);
    if (pipeline && (wraps || item->rank > 0))
        add_transfer (transfer, &n, MG_SEND, before);
    if (pipeline && (wraps || item->rank < last))
        add_transfer (transfer, &n, MG_RECV, next);
    return n;
}
