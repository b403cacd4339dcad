/* stages_private - what the files of stages share */
#ifndef LIBCORE_TOPO_STAGES_PRIVATE_H
#define LIBCORE_TOPO_STAGES_PRIVATE_H

#include "libcore/topo/stages.h"

/* Number of virtual stages a rank that the layout has, or -1 and a text if it cannot be
 * read or pp does not divide its stages.  '*items' is the layout without repetitions and
 * commas: the caller's to free().
 */
int stages_layout_read (const struct stages_config *config, char **items,
                        struct mg_error *err);

/* Check the rules and fill s->stage, except for the offsets. */
int stages_layout_fill (const struct stages_config *config, const char *items,
                        struct stages *s, struct mg_error *err);

#endif /* LIBCORE_TOPO_STAGES_PRIVATE_H */
