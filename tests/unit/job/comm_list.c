/* comm_list.c - the communicators of a rank: which, of whom, and which of them share */

#include <errno.h>
#include <string.h>

#include "libcore/job/comm_list.h"
#include "libcore/job/job.h"
#include "tests/tap/tap.h"

static struct handshake_groups groups_of (int tp, int cp, int pp, int ep, int world)
{
    struct handshake_groups groups = { .kinds = 0 };

    geometry_init (&groups.geometry);
    groups.geometry.tp = tp;
    groups.geometry.cp = cp;
    groups.geometry.pp = pp;
    groups.geometry.ep = ep;
    groups.geometry.world = world;
    return groups;
}

static const struct comm_item *find (const struct comm_list *list, const char *name)
{
    for (int i = 0; i < list->n; i++) {
        if (strcmp (list->item[i].name, name) == 0)
            return &list->item[i];
    }
    return NULL;
}

/* Items that are not what they should be: of this rank, with a tag of their own, and, if they
 * share, with the members of an earlier one.
 */
static int count_bad (const struct comm_list *list, int rank)
{
    int bad = 0;

    for (int i = 0; i < list->n; i++) {
        const struct comm_item *item = &list->item[i];
        const struct comm_item *other = item->share < 0 ? NULL : &list->item[item->share];

        bad += comm_item_member (item, item->rank) != rank || item->tag >= COMM_NUM_TAGS;
        for (int k = 0; k < i; k++)
            bad += list->item[k].tag == item->tag;
        if (!other)
            continue;
        bad += item->share >= i || other->share >= 0 || other->size != item->size;
        for (int k = 0; k < item->size; k++)
            bad += comm_item_member (other, k) != comm_item_member (item, k);
    }
    return bad;
}

static void make (struct comm_list *list, const struct handshake_groups *groups, int rank,
                  bool serial)
{
    struct mg_error err = { "" };
    struct grid *grid = grid_create (&groups->geometry, &err);

    if (!grid || comm_list_make (list, grid, rank, groups, serial, &err) < 0)
        bail_out ("%s", err.text);
    grid_destroy (grid);
}

/* Grouped transfers need the communicator of the pipeline alone: four fewer on a middle rank, if
 * communicators are serial, and one fewer with virtual stages on two ranks, if they are not.
 */
static void test_grouped (struct handshake_groups groups)
{
    struct comm_list lanes, list;
    int bad = 0, saved = 0, most = 0;

    for (int i = 0; i < 8; i++) {
        groups.geometry.pp = i < 4 ? 2 : 4;
        groups.geometry.vpp = i / 2 % 2 ? 2 : 1;
        for (int rank = 0; rank < groups.geometry.world; rank++) {
            groups.groups_transfers = false;
            make (&lanes, &groups, rank, i % 2);
            groups.groups_transfers = true;
            make (&list, &groups, rank, i % 2);
            bad += count_bad (&list, rank);
            bad += !find (&list, "pp");
            for (int k = 0; k < list.n; k++)
                bad += list.item[k].lane.name != NULL
                       || list.item[k].tag == COMM_TAG_PP_BACKWARD;
            saved = lanes.n - list.n;
            most = saved > most ? saved : most;
            bad += saved < (i % 2 ? 2 : i == 2);
        }
    }
    is_int (bad, 0, "grouped transfers: no communicators of lanes");
    is_int (most, 4, "four communicators fewer");
}

static void test_items (void)
{
    struct handshake_groups groups = groups_of (2, 2, 2, 2, 32);
    struct comm_list list;
    int bad = 0;

    groups.optimizer_instances = groups.context_inner = 2;
    for (int serial = 0; serial < 2; serial++) {
        for (int rank = 0; rank < 32; rank++) {
            make (&list, &groups, rank, serial);
            bad += count_bad (&list, rank);
        }
    }
    is_int (bad, 0, "members, tags and shares of 32 ranks");
    make (&list, &groups, 5, false);
    ok (find (&list, "world") && find (&list, "cp-inner") && find (&list, "dp-shard")
            && find (&list, "edp-instances") && !find (&list, "pp-fwd-in"), "all kinds and parts");
    make (&list, &groups, 5, true);
    ok (find (&list, "pp-fwd-out") && find (&list, "pp-fwd-out")->lane.name, "lanes if serial");
    test_grouped (groups);
    groups.kinds = JOB_GROUP (GROUP_TP) | JOB_GROUP (GROUP_ETP);
    make (&list, &groups, 5, true);
    is_int (list.n, 2, "two that were named");
    ok (list.item[0].share < 0 && list.item[1].share == 0, "one is the other's, too");
}

static void test_badparam (void)
{
    static const struct {
        int instances, inner;
        const char *text;
    } rows[] = {
        { 3, 0, "num-distributed-optimizer-instances 3 does not divide" },
        { 0, 3, "3 neighbours do not divide the 2 context-parallel ranks" },
        { 0, -1, "-1 neighbours do not divide" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct handshake_groups groups = groups_of (1, 2, 1, 1, 8);
        struct mg_error err = { "" };
        struct grid *grid = grid_create (&groups.geometry, &err);
        struct comm_list list;

        groups.optimizer_instances = rows[i].instances;
        groups.context_inner = rows[i].inner;
        ok (comm_list_make (&list, grid, 0, &groups, false, &err) < 0 && errno == EINVAL
                && strstr (err.text, rows[i].text), "%s", err.text);
        grid_destroy (grid);
    }
}

/* The transfers of one rank's first calls meet those of the others. */
static void first_transfers (int pp, int vpp, bool serial)
{
    struct handshake_groups groups = { .kinds = JOB_GROUP (GROUP_PP) };
    struct comm_list list[4];
    struct mg_p2p t[4][COMM_TRANSFERS_MAX];
    struct mg_error err = { "" };
    struct grid *grid;
    int n[4], sends = 0, met = 0;

    geometry_init (&groups.geometry);
    groups.geometry.world = groups.geometry.pp = pp;
    groups.geometry.vpp = vpp;
    if (!(grid = grid_create (&groups.geometry, &err)))
        bail_out ("%s", err.text);
    for (int r = 0; r < pp; r++) {
        if (comm_list_make (&list[r], grid, r, &groups, serial, &err) < 0)
            bail_out ("%s", err.text);
        n[r] = comm_list_transfers (&list[r], 0, vpp > 1, t[r]);
        is_int (comm_list_calls (&list[r], 0), 1 << MG_CALL_P2P, "pp transfers, and calls nothing");
    }
    for (int r = 0; r < pp; r++) {
        for (int i = 0; i < n[r]; i++) {
            sends += t[r][i].kind == MG_SEND;
            for (int k = 0; t[r][i].kind == MG_SEND && k < n[t[r][i].peer]; k++)
                met += t[t[r][i].peer][k].kind == MG_RECV && t[t[r][i].peer][k].peer == r;
        }
    }
    is_int (sends, 2 * (vpp > 1 ? pp : pp - 1), "each neighbour gets from each");
    is_int (met, pp == 2 && vpp > 1 ? 2 * sends : sends, "what it waits for");
    grid_destroy (grid);
}

int main (void)
{
    test_items ();
    test_badparam ();
    first_transfers (4, 1, false);
    first_transfers (4, 2, true);
    first_transfers (2, 2, false);
    return done_testing ();
}
