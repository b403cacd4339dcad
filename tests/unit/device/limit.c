/* Limits of control groups, of both versions, in a tree of our own. */

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/device/limit.h"
#include "tests/tap/tap.h"

static char root[] = "/tmp/megatron-limit.XXXXXX";
static char groups[64];

static void put (const char *name, const char *text)
{
    char path[PATH_MAX];
    FILE *file;

    snprintf (path, sizeof (path), "%s/%s", root, name);
    for (char *slash = path + strlen (root) + 1; (slash = strchr (slash, '/')); slash++) {
        *slash = '\0';
        mkdir (path, 0700);
        *slash = '/';
    }
    if (!(file = fopen (path, "w")) || fputs (text, file) < 0 || fclose (file) != 0)
        bail_out ("cannot write %s", path);
}

static void test_version_2 (void)
{
    put ("self", "0::/job/task\n");
    ok (limit_available (groups, root) == SIZE_MAX, "no group is there: no limit");
    put ("job/task/memory.max", "max\n");
    put ("job/task/memory.current", "70\n");
    ok (limit_available (groups, root) == SIZE_MAX, "a group without a limit");
    put ("job/memory.max", "1000\n");
    put ("job/memory.current", "300\n");
    is_int ((long long)limit_available (groups, root), 700, "the limit of the group above");
    put ("job/memory.stat", "anon 100\ninactive_file_x 7\ninactive_file 200\n");
    is_int ((long long)limit_available (groups, root), 900, "files make way");
    put ("job/memory.stat", "inactive_file 400\n");
    is_int ((long long)limit_available (groups, root), 1000, "but are not more than all");
    put ("job/task/memory.max", "100\n");
    is_int ((long long)limit_available (groups, root), 30, "the least of all");
    put ("job/task/memory.max", "70\n");
    is_int ((long long)limit_available (groups, root), 0, "at the limit");
    put ("job/task/memory.max", "69\n");
    is_int ((long long)limit_available (groups, root), 0, "above it");
    put ("job/task/memory.max", "nonsense\n");
    is_int ((long long)limit_available (groups, root), 1000, "what is no number is no limit");
    put ("self", "0::/\n");
    ok (limit_available (groups, root) == SIZE_MAX, "the root has none");
}

static void test_version_1 (void)
{
    put ("self", "5:cpu,cpuacct:/slurm\n4:memory:/slurm/step\n0::/other\n");
    put ("memory/slurm/step/memory.limit_in_bytes", "9223372036854771712\n");
    put ("memory/slurm/step/memory.usage_in_bytes", "50\n");
    put ("memory/slurm/memory.limit_in_bytes", "5000\n");
    put ("memory/slurm/memory.usage_in_bytes", "1000\n");
    put ("memory/slurm/memory.stat", "inactive_file 3\ntotal_inactive_file 10\n");
    is_int ((long long)limit_available (groups, root), 4010, "version 1");
    put ("self", "5:cpu:/slurm\n");
    ok (limit_available (groups, root) == SIZE_MAX, "without a controller for memory");
    put ("self", "\nnothing\n1:x\n");
    ok (limit_available (groups, root) == SIZE_MAX, "lines that are none");
    ok (limit_available ("/nosuch", root) == SIZE_MAX, "no file of groups");
}

int main (void)
{
    char command[128];

    if (!mkdtemp (root))
        bail_out ("no directory");
    snprintf (groups, sizeof (groups), "%s/self", root);
    test_version_2 ();
    test_version_1 ();
    snprintf (command, sizeof (command), "rm -rf '%s'", root);
    ok (system (command) == 0, "and gone");
    return done_testing ();
}
