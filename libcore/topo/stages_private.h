/* stages_private - declarations that the files of stages share */
#ifndef LIBCORE_TOPO_STAGES_PRIVATE_H
#define LIBCORE_TOPO_STAGES_PRIVATE_H

#include "libcore/topo/stages.h"

/* Returns the number of virtual stages of each rank by the layout, or -1 and a text if
 * the layout cannot be read, or if pp does not divide its number of stages.  '*items' is
 * the layout with repetitions expanded and without commas; the caller frees it.
 */
int stages_layout_read (const struct stages_config *config, char **items,
                        struct mg_error *err);

/* Check the rules and fill s->stage, except for the offsets. */
int stages_layout_fill (const struct stages_config *config, const char *items,
                        struct stages *s, struct mg_error *err);

#endif /* LIBCORE_TOPO_STAGES_PRIVATE_H */
