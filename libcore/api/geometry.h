/* geometry - the members of struct mg_geometry; megatron/geometry.h has its use. */
#ifndef LIBCORE_API_GEOMETRY_H
#define LIBCORE_API_GEOMETRY_H

#include "libcore/topo/geometry.h"

struct mg_geometry {
    struct geometry sizes;
};

/* False and EINVAL for a value outside the enums. */
bool api_axis_is_known (enum mg_layout layout, enum mg_axis axis);

#endif /* LIBCORE_API_GEOMETRY_H */
