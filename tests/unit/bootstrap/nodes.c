/* Nodes numbered from host names. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/bootstrap/nodes.h"
#include "tests/tap/tap.h"

enum { MAX_TASKS = 8 };

struct row {
    const char *what;
    const char *list;
    const char *host[MAX_TASKS + 1];
    uint32_t node[MAX_TASKS];
};

static const struct row rows[] = {
    { "one task", "n0", { "n0" }, { 0 } },
    { "no task", "n0,n1", { NULL }, { 0 } },
    { "blocks", "n0,n1", { "n0", "n0", "n1", "n1" }, { 0, 0, 1, 1 } },
    { "cyclic", "n0,n1", { "n0", "n1", "n0", "n1" }, { 0, 1, 0, 1 } },
    { "the list's order counts", "n1,n0", { "n0", "n1", "n1" }, { 1, 0, 0 } },
    { "numbers of the list have gaps", "a,b,c,d", { "d", "b" }, { 3, 1 } },
    { "a name twice in the list", "a,b,a", { "a", "b" }, { 0, 1 } },
    { "no list: order of appearance", NULL, { "z", "a", "z", "m" }, { 0, 1, 0, 2 } },
    { "a host is not in the list", "a,b", { "b", "c", "a", "b" }, { 0, 1, 2, 0 } },
    { "an empty list", "", { "b", "a", "b" }, { 0, 1, 0 } },
    { "a prefix is another name", "n1,n10", { "n10", "n1" }, { 1, 0 } },
};

/* The name of task `self`'s node, where that task itself says "vm". */
static const struct {
    const char *what, *peers, *list, *host[MAX_TASKS];
    size_t self;
    const char *name;
} owns[] = {
    { "a peer knows the name", "0,2", "n0,n1", { "vm", "n1", "n0" }, 0, "n0" },
    { "this task comes last of its peers", "1,3", "n0,n1", { "n0", "n1", "n0", "vm" }, 3, "n1" },
    { "alone on a node: the list has it", "1", "n0,n1,n2", { "n0", "vm", "n2" }, 1, "n1" },
    { "without peers", NULL, "n0,n1", { "n0", "vm" }, 1, "n1" },
    { "a right name stays", "1", "n0,vm,n2", { "n0", "vm" }, 1, "vm" },
    { "no list", "1", NULL, { "n0", "vm" }, 1, "vm" },
    { "every name is taken", "1", "n0", { "n0", "vm" }, 1, "vm" },
    { "peers that are none", "9,x,,1", "n0", { "n0", "vm" }, 1, "vm" },
    { "one task", "0", "n0", { "vm" }, 0, "n0" },
};

static void own_names (void)
{
    for (size_t i = 0; i < sizeof (owns) / sizeof (owns[0]); i++) {
        char *host[MAX_TASKS], *made;
        size_t n = 0;

        for (; n < MAX_TASKS && owns[i].host[n]; n++)
            host[n] = (char *)owns[i].host[n];
        is_str (nodes_own_name (host, n, owns[i].self, owns[i].peers, owns[i].list, &made),
                owns[i].name, "own name: %s", owns[i].what);
        free (made);
    }
}

/* Tasks 1 and 3 are on the first node, 0, 2 and 4 on the second. */
static void places (void)
{
    struct nodes_placed placed[] = { { 7, 0 }, { 2, 1 }, { 7, 2 }, { 2, 3 }, { 7, 4 } };
    struct bootstrap_info info = { .job = "kept" };
    static const int order[] = { 1, 3, 0, 2, 4 };

    nodes_sort (placed, 5);
    for (int rank = 0; rank < 5; rank++) {
        nodes_fill_info (placed, 5, order[rank], &info);
        ok (placed[rank].task == order[rank] && info.rank == rank && info.task == order[rank],
            "task %d has rank %d", order[rank], rank);
        ok (info.size == 5 && info.num_nodes == 2 && info.node == (rank > 1)
                && info.local_rank == (rank > 1 ? rank - 2 : rank)
                && info.local_size == (rank > 1 ? 3 : 2), "which is %d of %d on node %d",
            info.local_rank, info.local_size, info.node);
    }
    is_str (info.job, "kept", "the job's name stays");
}

int main (void)
{
    own_names ();
    places ();
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        uint32_t node[MAX_TASKS] = { 0 };
        char *host[MAX_TASKS];
        size_t n = 0;

        for (; rows[i].host[n]; n++)
            host[n] = (char *)rows[i].host[n];
        is_int (nodes_number (host, n, rows[i].list, node), 0, "%s", rows[i].what);
        ok (memcmp (node, rows[i].node, n * sizeof (node[0])) == 0, "has the right numbers");
    }
    return done_testing ();
}
