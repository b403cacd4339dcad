/* split.c - names for the nodes of a group */

#include <stddef.h>

#include "libcore/topo/place.h"
#include "plugin/conf.h"
#include "plugin/nodes.h"
#include "plugin/split.h"

bool split_describe (const struct grid *grid, const int *tasks, int nnodes, const char *list,
                     struct mg_error *text)
{
    char first[CONF_ADDR_MAX], last[CONF_ADDR_MAX];
    struct place_split split;
    bool named;

    if (place_find_split (grid, tasks, nnodes, &split) != 1)
        return false;
    named = list && nodes_count (list) == nnodes
            && nodes_name (list, split.first_node, first, sizeof (first)) == 0
            && nodes_name (list, split.last_node, last, sizeof (last)) == 0;
    place_describe_split (grid, nnodes, &split, named ? first : NULL, named ? last : NULL,
                          text->text, sizeof (text->text));
    return true;
}
