/* module - a module is found in the directory of the environment; what is none is refused */

#include <errno.h>
#include <limits.h>
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
    return done_testing ();
}
