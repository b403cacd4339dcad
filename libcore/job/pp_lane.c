/* pp_lane.c - the ring of pipeline ranks as links with two lanes each */

#include <string.h>

#include "libcore/job/pp_lane.h"

/* Links in the order of their creation. */
enum turn { EVEN_LINKS, ODD_LINKS, LAST_TO_FIRST, NUM_TURNS };

/* A lane's name on the rank at one end.  The rank plus 'step' is that at the other end. */
static const struct end {
    const char *name;
    bool backward, receives;
    int step;
} ends[PP_LANES_MAX] = {
    { "pp-fwd-in", false, true, -1 },
    { "pp-fwd-out", false, false, 1 },
    { "pp-bwd-in", true, true, 1 },
    { "pp-bwd-out", true, false, -1 },
};

static int peer_of (const struct end *end, int pp, int rank)
{
    return (rank + pp + end->step) % pp;
}

/* When the link between a rank and the one 'step' further is made. */
static enum turn turn_of (int pp, int rank, int step)
{
    int first = step > 0 ? rank : (rank + pp - 1) % pp;

    if (first == pp - 1)
        return LAST_TO_FIRST;
    return first % 2 ? ODD_LINKS : EVEN_LINKS;
}

int pp_lane_list (int pp, int rank, bool virtual_stages, struct pp_lane list[PP_LANES_MAX])
{
    int n = 0;

    for (int turn = 0; turn < NUM_TURNS && pp > 1; turn++) {
        if (turn == LAST_TO_FIRST && !virtual_stages)
            break;
        for (int i = 0; i < PP_LANES_MAX; i++) { // forward ones first, on both ranks
            const struct end *end = &ends[i];
            int peer = peer_of (end, pp, rank);

            if (turn_of (pp, rank, end->step) != (enum turn)turn)
                continue;
            list[n++] = (struct pp_lane){
                .name = end->name,
                .backward = end->backward,
                .from = end->receives ? peer : rank,
                .to = end->receives ? rank : peer,
                .tag = 2 * turn + end->backward,
            };
        }
    }
    return n;
}

int pp_lane_peer (const char *name, int pp, int rank)
{
    for (int i = 0; i < PP_LANES_MAX; i++) {
        if (strcmp (name, ends[i].name) == 0)
            return peer_of (&ends[i], pp, rank);
    }
    return -1;
}
