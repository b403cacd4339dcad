/* environment.c - the variables of a job's sizes, as one table */

#include <stddef.h>

#include "libcore/topo/environment.h"

const char *const environment_names[GEOMETRY_NUM_FIELDS] = {
    [GEOMETRY_TP] = ENVIRONMENT_TP,   [GEOMETRY_CP] = ENVIRONMENT_CP,
    [GEOMETRY_PP] = ENVIRONMENT_PP,   [GEOMETRY_EP] = ENVIRONMENT_EP,
    [GEOMETRY_ETP] = ENVIRONMENT_ETP, [GEOMETRY_VPP] = ENVIRONMENT_VPP,
    [GEOMETRY_ORDER] = ENVIRONMENT_ORDER,
};

int environment_read (environment_get_f get, struct geometry *g, unsigned *given,
                      struct mg_error *err)
{
    struct geometry read = *g;
    unsigned found = 0;

    for (int i = 0; i < GEOMETRY_NUM_FIELDS; i++) {
        const char *name = environment_names[i], *text = get (name);

        if (!text)
            continue;
        if (geometry_set (&read, geometry_field_names[i], name, text, err) < 0)
            return -1;
        found |= 1u << i;
    }
    *g = read;
    if (given)
        *given = found;
    return 0;
}
