/* hardware.c - GPUs, their links, network adapters and releases, without a GPU's libraries
 *
 * Texts of this file are compared between nodes, so nothing in them changes from one look to the
 * next.  A machine without the thing in question has no finding.
 */

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/doctor/doctor.h"
#include "cmd/run.h"

enum { SMI_SECONDS = 20, TEXT_MAX = 900, PATH_SIZE = 4200, ENTRIES_MAX = 256 };

/* A file or directory of the system, below another root for tests. */
static void system_path (char path[PATH_SIZE], const char *dir, const char *a, const char *b)
{
    const char *root = getenv ("MG_TEST_ROOT");

    snprintf (path, PATH_SIZE, "%s%s%s%s%s%s", root ? root : "", dir, *a ? "/" : "", a,
              *b ? "/" : "", b);
}

/* The line of a file that begins with 'begin', without it and the blanks behind; false if there is
 * none.
 */
static bool read_line (const char *path, const char *begin, char *line, size_t n)
{
    char buf[512];
    bool found = false;
    FILE *f = fopen (path, "re");

    while (f && !found && fgets (buf, sizeof (buf), f)) {
        const char *rest = buf + strlen (begin);

        if (strncmp (buf, begin, strlen (begin)) != 0)
            continue;
        rest += strspn (rest, " \t");
        snprintf (line, n, "%.*s", (int)strcspn (rest, "\n"), rest);
        found = true;
    }
    if (f)
        fclose (f);
    return found;
}

static int compare_names (const void *a, const void *b)
{
    return strcmp (a, b);
}

/* Names in a directory, sorted: how many. */
static int list_names (const char *path, char names[ENTRIES_MAX][256])
{
    DIR *dir = opendir (path);
    struct dirent *entry;
    int n = 0;

    while (dir && n < ENTRIES_MAX && (entry = readdir (dir))) {
        if (entry->d_name[0] != '.')
            snprintf (names[n++], 256, "%.255s", entry->d_name);
    }
    if (dir)
        closedir (dir);
    qsort (names, n, 256, compare_names);
    return n;
}

static void append (char text[TEXT_MAX], const char *what, int count)
{
    size_t len = strlen (text);

    if (count > 0)
        snprintf (text + len, TEXT_MAX - len, "%s%d x %s", len ? ", " : "", count, what);
    else
        snprintf (text + len, TEXT_MAX - len, "%s%s", len ? ", " : "", what);
}

/* The release of NVIDIA's kernel module: the first word that begins with a digit. */
static bool check_driver (json_t *findings)
{
    char path[PATH_SIZE], line[400], *word, *save = NULL;

    system_path (path, "/proc/driver/nvidia/version", "", "");
    if (!read_line (path, "NVRM version:", line, sizeof (line)))
        return false;
    for (word = strtok_r (line, " \t", &save); word; word = strtok_r (NULL, " \t", &save)) {
        if (isdigit ((unsigned char)*word) && strchr (word, '.'))
            break;
    }
    doctor_add (findings, DOCTOR_OK, "driver", NULL, "NVIDIA driver %.60s", word ? word : "?");
    return true;
}

/* GPUs by model, as the driver knows them, whatever CUDA_VISIBLE_DEVICES leaves. */
static void check_gpus (json_t *findings, char names[ENTRIES_MAX][256])
{
    char path[PATH_SIZE], text[TEXT_MAX] = "";
    int n, same;

    system_path (path, "/proc/driver/nvidia/gpus", "", "");
    n = list_names (path, names);
    for (int i = 0; i < n; i++) {
        char bus[256];

        snprintf (bus, sizeof (bus), "%s", names[i]);
        system_path (path, "/proc/driver/nvidia/gpus", bus, "information");
        if (!read_line (path, "Model:", names[i], 256))
            strcpy (names[i], "unknown model");
    }
    qsort (names, n, 256, compare_names);
    for (int i = 0; i < n; i += same) {
        for (same = 1; i + same < n && strcmp (names[i], names[i + same]) == 0; same++)
            ;
        append (text, names[i], same);
    }
    if (n > 0)
        doctor_add (findings, DOCTOR_OK, "gpus", NULL, "%s", text);
    else
        doctor_add (findings, DOCTOR_WARN, "gpus", "nvidia-smi and dmesg tell more",
                    "the NVIDIA driver is loaded, but knows no GPU");
}

/* Pairs of GPUs in the matrix of "nvidia-smi topo -m", and those that NVLink joins: a line for
 * each GPU, whose first columns are the GPUs ("X", "NV18", "SYS").
 */
static void count_links (char *matrix, int *pairs, int *nvlinks)
{
    char *save = NULL;
    int gpus = 0, cells = 0, joined = 0;

    for (char *p = matrix; (p = strstr (p, "\nGPU")); p++)
        gpus++;
    for (char *line = strtok_r (matrix, "\n", &save); line; line = strtok_r (NULL, "\n", &save)) {
        char *inner = NULL, *word;

        if (strncmp (line, "GPU", 3) != 0) // the header begins with a blank
            continue;
        strtok_r (line, " \t", &inner);
        for (int i = 0; i < gpus && (word = strtok_r (NULL, " \t", &inner)); i++) {
            cells += strcmp (word, "X") != 0;
            joined += strncmp (word, "NV", 2) == 0;
        }
    }
    *pairs = cells / 2;
    *nvlinks = joined / 2;
}

static void check_links (json_t *findings)
{
    char *argv[] = { "nvidia-smi", "topo", "-m", NULL };
    struct run run;
    int pairs, nvlinks;

    if (run_program (argv, SMI_SECONDS, &run, NULL) < 0)
        return;
    count_links (run.out, &pairs, &nvlinks);
    if (run.status == 0 && pairs > 0)
        doctor_add (findings, DOCTOR_OK, "links", NULL, "NVLink joins %d of %d pairs of GPUs",
                    nvlinks, pairs);
    run_clear (&run);
}

/* Adapters of InfiniBand and RoCE with their rate, or their state where they are not active. */
static void check_nics (json_t *findings, char names[ENTRIES_MAX][256])
{
    char path[PATH_SIZE], text[TEXT_MAX] = "";
    int n;

    system_path (path, "/sys/class/infiniband", "", "");
    n = list_names (path, names);
    for (int i = 0; i < n; i++) {
        char state[60] = "?", rate[60] = "?", nic[400];
        const char *name;

        system_path (path, "/sys/class/infiniband", names[i], "ports/1/state");
        read_line (path, "", state, sizeof (state));
        system_path (path, "/sys/class/infiniband", names[i], "ports/1/rate");
        read_line (path, "", rate, sizeof (rate));
        name = strchr (state, ':') ? strchr (state, ':') + 1 : state; // "4: ACTIVE"
        name += strspn (name, " ");
        snprintf (nic, sizeof (nic), "%s %s", names[i],
                  strcmp (name, "ACTIVE") == 0 ? rate : name);
        append (text, nic, 0);
    }
    if (n > 0)
        doctor_add (findings, DOCTOR_OK, "nics", NULL, "%s", text);
}

/* The libnccl that the dynamic linker finds.  Its number is major * 10000 + minor * 100 + patch,
 * before 2.9 major * 1000 + minor * 100 + patch.
 */
static void check_nccl (json_t *findings)
{
    void *library = dlopen ("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
    int (*get_version) (int *) = NULL;
    int version = 0, major;

    if (!library)
        return;
    get_version = (int (*) (int *))dlsym (library, "ncclGetVersion");
    if (get_version && get_version (&version) == 0) {
        major = version < 10000 ? version / 1000 : version / 10000;
        version -= major * (version < 10000 ? 1000 : 10000);
        doctor_add (findings, DOCTOR_OK, "nccl", NULL, "NCCL %d.%d.%d", major, version / 100,
                    version % 100);
    }
    dlclose (library);
}

void doctor_check_hardware (json_t *findings)
{
    char (*names)[256] = calloc (ENTRIES_MAX, sizeof (*names));

    if (!names)
        return;
    if (check_driver (findings)) {
        check_gpus (findings, names);
        check_links (findings);
    }
    check_nics (findings, names);
    check_nccl (findings);
    free (names);
}
