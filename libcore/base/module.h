/* module - backends in shared objects, loaded when they are first needed.
 *
 * A module exports one object, 'const struct module mg_module'.  Its table is that of the
 * backend's kind (struct comm_ops, struct bootstrap_ops).  The module calls the library
 * only through tables that are passed to its functions.  So any program can load a
 * module, whether the program links the library statically or dynamically.
 */
#ifndef LIBCORE_BASE_MODULE_H
#define LIBCORE_BASE_MODULE_H

#include "megatron/error.h"

/* Must be raised when a table or a structure that modules share with the library
 * changes. */
enum { MODULE_ABI = 8 };

struct module {
    int abi; /* MODULE_ABI */
    const char *name;
    const void *ops;
};

/* Load DIR/NAME.so and return its table.  DIR is MEGATRON_MODULE_DIR from the environment
 * (ignored in a set-user-ID program), else the installed directory.  A loaded module is
 * never unloaded: MPI and PMIx leave threads and exit handlers behind.  NULL, errno and a
 * text on failure.  If the file is missing, the text ends with 'hint', which says how the
 * file gets installed.
 */
const void *module_load (const char *name, const char *hint, struct mg_error *err);

#endif /* LIBCORE_BASE_MODULE_H */
