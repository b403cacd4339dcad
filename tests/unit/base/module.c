/* module - a module is found in the directory of the environment; what is none is refused */

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/base/module.h"
#include "tests/tap/tap.h"

static void refused (const char *name, int errnum, const char *text)
{
    struct mg_error err = { "" };

    errno = 0;
    ok (!module_load (name, "make makes it", &err), "%s is refused", name);
    is_int (errno, errnum, "errno");
    ok (strstr (err.text, text), "and why: %s", err.text);
}

static void own_handler (int number)
{
    (void)number;
}

/* Libraries of a module may set handlers when they are loaded, as UCX's do. */
static void handlers_stay (void)
{
    const char *build = getenv ("MG_BUILDDIR");
    struct sigaction own = { .sa_handler = own_handler }, now;
    const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE };
    char dir[PATH_MAX];

    snprintf (dir, sizeof (dir), "%s/.libs", build ? build : ".");
    setenv ("MEGATRON_MODULE_DIR", dir, 1);
    for (int i = 0; i < 4; i++)
        sigaction (faults[i], &own, NULL);
    if (!module_load ("comm_ucx", "", NULL)) {
        skip (4, "there is no module for UCX");
        return;
    }
    for (int i = 0; i < 4; i++) {
        sigaction (faults[i], NULL, &now);
        ok (now.sa_handler == own_handler, "the handler of signal %d stays", faults[i]);
    }
}

int main (void)
{
    char dir[] = "/tmp/module-XXXXXX", path[64], longest[PATH_MAX + 1];
    FILE *file;

    if (!mkdtemp (dir))
        bail_out ("mkdtemp");
    snprintf (path, sizeof (path), "%s/text.so", dir);
    if (!(file = fopen (path, "w")) || fputs ("no shared object\n", file) < 0 || fclose (file))
        bail_out ("%s", path);
    setenv ("MEGATRON_MODULE_DIR", dir, 1);
    refused ("absent", ENOENT, "absent.so; make makes it");
    refused ("text", ELIBACC, "module text: ");
    memset (longest, 'x', PATH_MAX);
    longest[PATH_MAX] = '\0';
    setenv ("MEGATRON_MODULE_DIR", longest, 1);
    refused ("text", ENAMETOOLONG, "module text: the directory's name is too long");
    unlink (path);
    rmdir (dir);
    handlers_stay ();
    return done_testing ();
}
