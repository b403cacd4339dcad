/* module.c - find, load and check a module */

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/base/module.h"
#include "libcore/base/paths.h" // made by make

static int module_path (const char *name, char path[PATH_MAX], struct mg_error *err)
{
    const char *dir = secure_getenv ("MEGATRON_MODULE_DIR");

    if (!dir || !*dir)
        dir = MG_PKGLIBDIR;
    if (snprintf (path, PATH_MAX, "%s/%s.so", dir, name) >= PATH_MAX)
        return mg_error_set (err, ENAMETOOLONG, "module %s: the directory's name is too"
                             " long", name);
    return 0;
}

/* Signals whose handlers libraries take over when they are loaded, as UCX does. */
static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE };
enum { NUM_FAULTS = sizeof (faults) / sizeof (faults[0]) };

/* dlopen(), but the handlers of faults stay those of the program. */
static void *open_quietly (const char *path)
{
    struct sigaction saved[NUM_FAULTS];
    bool known[NUM_FAULTS];
    void *handle;

    for (int i = 0; i < NUM_FAULTS; i++)
        known[i] = sigaction (faults[i], NULL, &saved[i]) == 0;
    // global: the transports that MPI loads itself look for MPI's symbols
    handle = dlopen (path, RTLD_NOW | RTLD_GLOBAL);
    for (int i = 0; i < NUM_FAULTS; i++) {
        if (known[i])
            sigaction (faults[i], &saved[i], NULL);
    }
    return handle;
}

const void *module_load (const char *name, const char *hint, struct mg_error *err)
{
    char path[PATH_MAX];
    const struct module *module;
    void *handle;

    if (module_path (name, path, err) < 0)
        return NULL;
    if (access (path, F_OK) < 0) {
        mg_error_set (err, ENOENT, "there is no %s; %s", path, hint);
        return NULL;
    }
    if (!(handle = open_quietly (path))) {
        mg_error_set (err, ELIBACC, "module %s: %s", name, dlerror ());
        return NULL;
    }
    if (!(module = dlsym (handle, "mg_module"))) {
        mg_error_set (err, ELIBBAD, "%s is not a module of this project", path);
        goto error;
    }
    if (module->abi != MODULE_ABI || strcmp (module->name, name) != 0) {
        mg_error_set (err, ELIBBAD, "%s is \"%.40s\" of interface %d, want \"%s\" of %d:"
                      " another version's file", path, module->name, module->abi, name,
                      MODULE_ABI);
        goto error;
    }
    return module->ops;
error:
    dlclose (handle);
    return NULL;
}
