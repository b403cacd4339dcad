/* module - backends in shared objects, loaded when they are first needed.
 *
 * A module exports one object, 'const struct module mg_module', whose table is the
 * concept's own (struct comm_ops, struct bootstrap_ops).  It gets what it needs of the
 * library through the tables handed to its functions, so it can be loaded by any program,
 * however that has linked the library.
 */
#ifndef LIBCORE_BASE_MODULE_H
#define LIBCORE_BASE_MODULE_H

#include "megatron/error.h"

/* Raised whenever a table or a structure that modules share with the library changes. */
enum { MODULE_ABI = 6 };

struct module {
    int abi; /* MODULE_ABI */
    const char *name;
    const void *ops;
};

/* Load DIR/NAME.so and return its table.  DIR is MEGATRON_MODULE_DIR from the environment
 * (ignored in a set-user-ID program), else the installed directory.  What is loaded stays
 * loaded: MPI and PMIx leave threads and exit handlers behind.  NULL, errno and a text on
 * failure; where the file is missing the text ends with 'hint', which says what gives it.
 */
const void *module_load (const char *name, const char *hint, struct mg_error *err);

#endif /* LIBCORE_BASE_MODULE_H */
