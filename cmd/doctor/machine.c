/* machine.c - what a process finds around itself: library, limits, CPUs
 *
 * Each check adds findings to the array and cannot fail otherwise: whatever cannot be read is
 * left out.  No check changes anything.
 */

#include <dirent.h>
#include <dlfcn.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cmd/doctor/doctor.h"
#include "config.h"
#include "libcore/base/module.h"
#include "libcore/base/timed.h"
#include "libcore/bootstrap/bootstrap.h"
#include "libcore/device/device.h"
#include "megatron/version.h"

enum { NOFILE_LEAST = 1024, SHM_LEAST_MB = 64 };

static void check_modules (json_t *findings)
{
    static const struct {
        const char *name, *what, *needs, *advice;
        bool transport;
    } modules[] = {
        { "boot_pmix", "PMIx", "PMIx (Debian: libpmix-dev)",
          "one task alone runs without it; more than one does not", false },
        { "comm_mpi", "MPI", "MPI (Debian: libopenmpi-dev)",
          "ranks talk through MPI or UCX; one of the two is enough", true },
        { "comm_ucx", "UCX", "UCX (Debian: libucx-dev)",
          "ranks talk through MPI or UCX; one of the two is enough", true },
    };
    bool transport = module_load ("comm_mpi", "", NULL) || module_load ("comm_ucx", "", NULL);

    for (size_t i = 0; i < sizeof (modules) / sizeof (modules[0]); i++) {
        struct mg_error err;
        char hint[120];

        snprintf (hint, sizeof (hint), "build with %s", modules[i].needs);
        if (module_load (modules[i].name, hint, &err))
            doctor_add (findings, DOCTOR_OK, modules[i].name, NULL, "the module for %s loads",
                        modules[i].what);
        else
            doctor_add (findings,
                        modules[i].transport && transport ? DOCTOR_WARN : DOCTOR_FAIL,
                        modules[i].name, modules[i].advice, "%s", err.text);
    }
}

/* Find the bootstrap and the transport that ranks would use if they started here. */
static void check_run (json_t *findings)
{
    const char *how = bootstrap_is_env () ? "the variables RANK, MASTER_ADDR ..."
                      : getenv ("PMIX_NAMESPACE") ? "PMIx" : "megatron launch, srun or mpirun";
    bool mpi = !bootstrap_is_env () && module_load ("comm_mpi", "", NULL);

    if (mpi || module_load ("comm_ucx", "", NULL))
        doctor_add (findings, DOCTOR_OK, "transport", NULL, "ranks that start here find each other "
                    "by %s, and talk through %s%s", how, mpi ? "MPI" : "UCX",
                    mpi ? " (under megatron launch through UCX)" : "");
    else
        doctor_add (findings, DOCTOR_FAIL, "transport", "build with libopenmpi-dev or libucx-dev",
                    "ranks that start here find each other by %s, but cannot talk: there is no "
                    "module for MPI or UCX", how);
}

/* Set 'dir' to the lib directory beside the bin directory of this program. */
static bool find_lib_dir (char *dir, size_t n)
{
    ssize_t len = readlink ("/proc/self/exe", dir, n - 1);

    for (int i = 0; len > 0 && i < 2; i++) { // the program's name, and "bin"
        while (len > 0 && dir[len - 1] != '/')
            len--;
        len--;
    }
    if (len < 0 || (size_t)len + sizeof ("/lib") > n)
        return false;
    strcpy (dir + len, "/lib");
    return true;
}

/* The library that was installed with this program, where the linker does not look. */
static void *open_beside (char *dir, size_t n)
{
    char path[1100];

    if (!find_lib_dir (dir, n))
        return NULL;
    snprintf (path, sizeof (path), "%s/libmegatron.so.0", dir);
    return dlopen (path, RTLD_LAZY | RTLD_LOCAL);
}

/* The library that other programs would get, and whether it is of this version. */
static void check_library (json_t *findings)
{
    void *found = dlopen ("libmegatron.so.0", RTLD_LAZY | RTLD_LOCAL), *library = found;
    const char *(*version) (void);
    char dir[1024], advice[2300];

    if (!found)
        library = open_beside (dir, sizeof (dir));
    version = library ? dlsym (library, "mg_version") : NULL;

    if (!library)
        doctor_add (findings, DOCTOR_WARN, "library",
                    "run ldconfig, or set LD_LIBRARY_PATH; megatron itself does not need it",
                    "libmegatron.so.0 is not found: programs that link -lmegatron will not start");
    else if (!version || strcmp (version (), MG_VERSION) != 0)
        doctor_add (findings, DOCTOR_WARN, "library",
                    "remove the one that is not wanted, then run ldconfig",
                    "libmegatron.so.0 is version %.40s, megatron is %s",
                    version ? version () : "unknown", MG_VERSION);
    else if (!found) {
        snprintf (advice, sizeof (advice), "link programs with -L%s -Wl,-rpath,%s -lmegatron, or "
                  "name the directory in /etc/ld.so.conf.d and run ldconfig", dir, dir);
        doctor_add (findings, DOCTOR_OK, "library", advice, "libmegatron.so.0 is version %s, in "
                    "%s, where the dynamic linker does not look by itself", version (), dir);
    } else
        doctor_add (findings, DOCTOR_OK, "library", NULL, "libmegatron.so.0 is version %s",
                    version ());
    if (library)
        dlclose (library);
}

static bool has_infiniband (void)
{
    DIR *dir = opendir ("/sys/class/infiniband");
    struct dirent *entry;
    bool found = false;

    while (dir && (entry = readdir (dir)))
        found |= entry->d_name[0] != '.';
    if (dir)
        closedir (dir);
    return found;
}

static void check_memlock (json_t *findings)
{
    struct rlimit limit;

    if (getrlimit (RLIMIT_MEMLOCK, &limit) < 0)
        return;
    if (limit.rlim_cur == RLIM_INFINITY)
        doctor_add (findings, DOCTOR_OK, "memlock", NULL, "locked memory is not limited");
    else if (has_infiniband ())
        doctor_add (findings, DOCTOR_FAIL, "memlock",
                    "LimitMEMLOCK=infinity in slurmd.service, and "
                    "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
                    "locked memory is limited to %llu KiB, and there is InfiniBand, which wants "
                    "all it can get", (unsigned long long)limit.rlim_cur / 1024);
    else
        doctor_add (findings, DOCTOR_OK, "memlock", NULL,
                    "locked memory is limited to %llu KiB; no InfiniBand here that would mind",
                    (unsigned long long)limit.rlim_cur / 1024);
}

static void check_nofile (json_t *findings)
{
    struct rlimit limit;

    if (getrlimit (RLIMIT_NOFILE, &limit) < 0)
        return;
    doctor_add (findings, limit.rlim_cur < NOFILE_LEAST ? DOCTOR_WARN : DOCTOR_OK, "nofile",
                limit.rlim_cur < NOFILE_LEAST
                ? "ulimit -n; a rank over TCP has an open file for each of its peers" : NULL,
                "open files are limited to %llu", (unsigned long long)limit.rlim_cur);
}

static void check_shm (json_t *findings)
{
    struct statvfs fs;
    unsigned long long mb;

    if (statvfs ("/dev/shm", &fs) < 0) {
        doctor_add (findings, DOCTOR_WARN, "shm", "mount a tmpfs there",
                    "there is no /dev/shm, through which ranks of a node talk");
        return;
    }
    mb = (unsigned long long)fs.f_bavail * fs.f_frsize >> 20;
    doctor_add (findings, mb < SHM_LEAST_MB ? DOCTOR_WARN : DOCTOR_OK, "shm",
                mb < SHM_LEAST_MB ? "give it more (containers: --shm-size), or clear it" : NULL,
                "%llu MiB are free in /dev/shm", mb);
}

/* CPUs that the cgroup lets run at a time, as cpu.max of its nearest limit says; 0: all. */
static double cgroup_quota (void)
{
    char line[4096], path[4200], *slash;
    FILE *f = fopen ("/proc/self/cgroup", "re");
    double quota = 0, value, period;

    if (!f)
        return 0;
    if (!fgets (line, sizeof (line), f) || strncmp (line, "0::", 3) != 0)
        line[3] = '\0';
    fclose (f);
    line[strcspn (line, "\n")] = '\0';
    while (quota == 0) {
        snprintf (path, sizeof (path), "/sys/fs/cgroup%s/cpu.max", line + 3);
        f = fopen (path, "re");
        if (f && fscanf (f, "%lf %lf", &value, &period) == 2 && period > 0)
            quota = value / period;
        if (f)
            fclose (f);
        if (!(slash = strrchr (line + 3, '/')))
            break;
        *slash = '\0';
    }
    return quota;
}

static void check_cpus (json_t *findings)
{
    const char *threads = getenv ("OMP_NUM_THREADS");
    double quota = cgroup_quota ();
    long online = sysconf (_SC_NPROCESSORS_ONLN);
    cpu_set_t *set = CPU_ALLOC (1 << 16);
    int usable = (int)online;

    if (set && sched_getaffinity (0, CPU_ALLOC_SIZE (1 << 16), set) == 0)
        usable = CPU_COUNT_S (CPU_ALLOC_SIZE (1 << 16), set);
    CPU_FREE (set);
    if (quota > 0 && quota < usable)
        doctor_add (findings, DOCTOR_WARN, "cpus",
                    "set OMP_NUM_THREADS to what the cgroup allows, or raise its cpu.max",
                    "%d of %ld CPUs may be used, but the cgroup lets only %.1f run at a time",
                    usable, online, quota);
    else
        doctor_add (findings, DOCTOR_OK, "cpus", NULL, "%d of %ld CPUs may be used%s%.20s",
                    usable, online, threads ? ", OMP_NUM_THREADS is " : "",
                    threads ? threads : "");
}

static void check_device (json_t *findings, const char *name, int ordinal)
{
    const struct device_config config = { .name = name, .ordinal = ordinal, .threads = 1,
                                          .timeout = 60 };
    struct mg_error err = { "" };
    struct mg_device *device = device_create (&config, &err);
    char number[16] = "", taken[60] = "";
    struct device_info info;

    if (!device) {
        doctor_add (findings, DOCTOR_FAIL, "device", NULL, "%s", err.text);
        return;
    }
    device_describe (device, &info);
    if (ordinal >= 0)
        snprintf (number, sizeof (number), ":%d", ordinal);
    if (info.others > 0)
        snprintf (taken, sizeof (taken), " (%.2f taken before a run begins)",
                  (double)info.others / (1 << 30));
    doctor_add (findings, DOCTOR_OK, "device", NULL, "%s%s: %s, %.1f GiB%s, %s",
                device_name (device), number, info.name, (double)info.memory / (1 << 30), taken,
                info.version);
    device_destroy (device);
}

/* The CPU, and the GPUs that --device cuda can take. */
static void check_devices (json_t *findings)
{
    struct mg_error err = { "" };
    int gpus;

    check_device (findings, "cpu", DEVICE_BY_RANK);
    if ((gpus = device_count ("cuda", &err)) < 0) {
        bool there = access ("/dev/nvidiactl", F_OK) == 0;

        doctor_add (findings, there ? DOCTOR_WARN : DOCTOR_OK, "gpu",
                    there ? "this machine has a GPU: see megatron-gpu(7)" : NULL,
                    "jobs here compute on the CPU: %s", err.text);
    }
    for (int i = 0; i < gpus; i++)
        check_device (findings, "cuda", i);
}

/* A look-up that a slow name server may hold up. */
struct lookup {
    char name[256];
    int rc;
    char address[64];
};

enum { LOOKUP_SECONDS = 15 };

static void look_up (void *arg)
{
    struct lookup *lookup = arg;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;

    lookup->rc = getaddrinfo (lookup->name, NULL, &hints, &found);
    if (lookup->rc == 0)
        getnameinfo (found->ai_addr, found->ai_addrlen, lookup->address,
                     sizeof (lookup->address), NULL, 0, NI_NUMERICHOST);
    if (found)
        freeaddrinfo (found);
}

/* Check that MASTER_ADDR has an address.  Only programs of PyTorch need it. */
static void check_master (json_t *findings)
{
    static const char advice[] = "PyTorch programs wait for it: give it an address on every "
                                 "node (DNS, /etc/hosts), or set master_addr in plugstack.conf; "
                                 "where a user has set it, unset it";
    const char *name = getenv ("MASTER_ADDR");
    struct lookup *lookup = name && *name ? calloc (1, sizeof (*lookup)) : NULL;

    if (!lookup)
        return;
    snprintf (lookup->name, sizeof (lookup->name), "%s", name);
    if (timed_call (look_up, lookup, LOOKUP_SECONDS) < 0) {
        doctor_add (findings, DOCTOR_WARN, "master", advice,
                    "the look-up of MASTER_ADDR %.80s took longer than %d s", name,
                    LOOKUP_SECONDS);
        return; // the look-up goes on, and uses its memory
    }
    if (lookup->rc == 0)
        doctor_add (findings, DOCTOR_OK, "master", NULL, "MASTER_ADDR %.80s is %s", name,
                    lookup->address);
    else
        doctor_add (findings, DOCTOR_WARN, "master", advice,
                    "MASTER_ADDR %.80s has no address here: %s", name,
                    gai_strerror (lookup->rc));
    free (lookup);
}

void doctor_check_machine (json_t *findings)
{
    check_library (findings);
    check_modules (findings);
    check_run (findings);
    check_memlock (findings);
    check_nofile (findings);
    check_shm (findings);
    check_cpus (findings);
    check_devices (findings);
    doctor_check_hardware (findings);
}

void doctor_check_task (json_t *findings, const char *version)
{
    if (strcmp (version, MG_VERSION) == 0)
        doctor_add (findings, DOCTOR_OK, "command", NULL, "megatron %s", MG_VERSION);
    else
        doctor_add (findings, DOCTOR_FAIL, "command", "install one version everywhere",
                    "megatron is %s here, %.40s where you asked", MG_VERSION, version);
    if (getenv ("MEGATRON_WORLD_SIZE"))
        doctor_add (findings, DOCTOR_OK, "plugin", NULL, "the plugin gave this task its place");
    else
        doctor_add (findings, DOCTOR_FAIL, "plugin",
                    "install megatron.so and its plugstack.conf line on this node, built for its "
                    "Slurm release; the node's slurmd.log says why it does not load",
                    "the plugin gave this task nothing: it is not loaded on this node");
    if (getenv ("PMIX_NAMESPACE"))
        doctor_add (findings, DOCTOR_OK, "pmix", NULL, "the step has PMIx");
    else
        doctor_add (findings, DOCTOR_FAIL, "pmix",
                    "install Slurm's PMIx plugin (mpi_pmix.so) on this node",
                    "the step has no PMIx, without which ranks do not find each other");
    check_master (findings);
    doctor_check_machine (findings);
}
