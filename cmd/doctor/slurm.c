/* slurm.c - Slurm and the plugin, by the output of srun and scontrol
 *
 * All facts come from the output of srun and scontrol, each run with a time limit (run.h).
 * Nothing here allocates anything in Slurm: a step is only tested.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/doctor/doctor.h"
#include "cmd/run.h"
#include "config.h"

enum { QUICK_SECONDS = 10, CONTROLLER_SECONDS = 30 };

/* Copy the line of 'text' that contains 'word', from its first non-blank on; false if there
 * is none.
 */
static bool find_line (const char *text, const char *word, char *line, size_t n)
{
    const char *at = strstr (text, word);

    if (!at)
        return false;
    while (at > text && at[-1] != '\n')
        at--;
    at += strspn (at, " \t");
    snprintf (line, n, "%.*s", (int)strcspn (at, "\n"), at);
    return true;
}

/* The first line, or "nothing". */
static void first_line (const char *text, char *line, size_t n)
{
    snprintf (line, n, "%.*s", (int)strcspn (text, "\n"), *text ? text : "nothing");
}

/* "22.05" of "slurm-wlm 22.05.8" or of "22.05.8"; false if there is no such thing. */
static bool release_of (const char *text, char release[8])
{
    unsigned year, month;

    text += strcspn (text, "0123456789");
    if (sscanf (text, "%u.%u", &year, &month) != 2 || year > 99 || month > 12)
        return false;
    snprintf (release, 8, "%02u.%02u", year % 100, month % 100);
    return true;
}

/* Versions: srun's own, and that of the headers of this build. */
static bool check_release (json_t *findings)
{
    char *argv[] = { "srun", "--version", NULL };
    char line[300], running[8], built[8];
    bool by_plugin;
    struct mg_error err;
    struct run run;

    if (run_program (argv, QUICK_SECONDS, &run, &err) < 0) {
        doctor_add (findings, DOCTOR_FAIL, "slurm",
                    errno == ENOENT ? "megatron train and plan work without Slurm, on one rank "
                                      "or under mpirun; for the rest install Slurm, or put srun "
                                      "into PATH" : NULL,
                    errno == ENOENT ? "Slurm is not installed here: %s" : "%s", err.text);
        return false;
    }
    first_line (run.status == 0 ? run.out : run.err, line, sizeof (line));
    by_plugin = run.status != 0 && find_line (run.err, "Failed to load plugin", line,
                                                 sizeof (line));
    run_clear (&run);
    if (by_plugin || !release_of (line, running)) {
        doctor_add (findings, DOCTOR_FAIL, "slurm", by_plugin
                    ? "a plugin that plugstack.conf requires does not load: put its file there, "
                      "built for this release, or write \"optional\" for \"required\""
                    : "is there a /etc/slurm/slurm.conf, or does SLURM_CONF name one?",
                    "srun is installed, but does not work here: %s", line);
        return false;
    }
    if (!release_of (MG_SLURM_VERSION, built))
        doctor_add (findings, DOCTOR_FAIL, "slurm",
                    "build again with Slurm's headers (Debian: libslurm-dev)",
                    "%s; this build of slurm-megatron has no plugin", line);
    else if (strcmp (built, running) != 0)
        doctor_add (findings, DOCTOR_FAIL, "slurm",
                    "build slurm-megatron again with the headers of the running release",
                    "%s, but the plugin was built for %s: a plugin works with one release only",
                    line, MG_SLURM_VERSION);
    else
        doctor_add (findings, DOCTOR_OK, "slurm", NULL, "%s; the plugin was built for %s", line,
                    MG_SLURM_VERSION);
    return true;
}

/* Check that srun loads the plugin.  If not, Slurm may print the reason. */
static bool check_plugin (json_t *findings)
{
    char *argv[] = { "srun", "--help", NULL };
    char why[300] = "";
    struct mg_error err;
    struct run run;
    bool loaded;

    if (run_program (argv, QUICK_SECONDS, &run, &err) < 0) {
        doctor_add (findings, DOCTOR_FAIL, "plugin", NULL, "%s", err.text);
        return false;
    }
    loaded = strstr (run.out, "--megatron-tp=") != NULL;
    if (loaded)
        doctor_add (findings, DOCTOR_OK, "plugin", NULL, "srun has its options");
    else {
        if (!find_line (run.err, "ncompatible", why, sizeof (why))
            && !find_line (run.err, "megatron", why, sizeof (why)))
            find_line (run.err, "plugin", why, sizeof (why));
        doctor_add (findings, DOCTOR_FAIL, "plugin",
                    why[0] ? "build the plugin for this Slurm release, see megatron-spank(8)"
                           : "add the line of plugstack-megatron.conf to plugstack.conf, see "
                             "megatron-spank(8)",
                    "srun has no --megatron options%s%s", why[0] ? ": " : "", why);
    }
    run_clear (&run);
    return loaded;
}

/* Slurm's PMIx plugin opens libpmix.so itself, and srun complains before it looks for nodes.  False
 * and srun's line if that fails.
 */
static bool pmix_loads (char *why, size_t n)
{
    char *argv[] = { "srun", "--mpi=pmix", "--test-only", "-n1", "true", NULL };
    struct run run;
    bool fails;

    if (run_program (argv, QUICK_SECONDS, &run, NULL) < 0)
        return true; // as far as is known
    fails = find_line (run.err, "PMIx library", why, n) || find_line (run.err, "mpi/pmix", why, n);
    run_clear (&run);
    return !fails;
}

static void check_mpi (json_t *findings)
{
    char why[300];

    char *argv[] = { "srun", "--mpi=list", NULL };
    struct mg_error err;
    struct run run;
    bool found;

    if (run_program (argv, QUICK_SECONDS, &run, &err) < 0) {
        doctor_add (findings, DOCTOR_FAIL, "pmix", NULL, "%s", err.text);
        return;
    }
    // some releases list on standard output, some on standard error
    found = strstr (run.out, "pmix") || strstr (run.err, "pmix");
    run_clear (&run);
    if (found && !pmix_loads (why, sizeof (why)))
        doctor_add (findings, DOCTOR_FAIL, "pmix",
                    "install the libpmix.so that Slurm's PMIx plugin opens, here and on the nodes "
                    "(Debian: libpmix-dev), and start slurmd again",
                    "srun has --mpi=pmix, but cannot load it: %s", why);
    else if (found)
        doctor_add (findings, DOCTOR_OK, "pmix", NULL, "srun has --mpi=pmix");
    else
        doctor_add (findings, DOCTOR_FAIL, "pmix",
                    "install Slurm's PMIx plugin (mpi_pmix.so; Debian: slurm-wlm-mpi-plugins, "
                    "others: a Slurm built with PMIx)",
                    "srun --mpi=list has no pmix: ranks will not find each other");
}

/* The value of "Key    = value" in scontrol's words, 'key' with a blank behind it; "" if it is
 * not there.
 */
static void config_value (const char *config, const char *key, char *value, size_t n)
{
    char line[300];
    const char *equals;

    value[0] = '\0';
    if (find_line (config, key, line, sizeof (line)) && (equals = strchr (line, '=')))
        snprintf (value, n, "%s", equals + 1 + strspn (equals + 1, " "));
}

/* Read the controller's release; false if it does not answer. */
static bool check_controller (json_t *findings)
{
    char *argv[] = { "scontrol", "show", "config", NULL };
    char value[200], ours[8], theirs[8];
    struct mg_error err;
    struct run run;

    if (run_program (argv, CONTROLLER_SECONDS, &run, &err) < 0 || run.status != 0) {
        first_line (run.err ? run.err : err.text, value, sizeof (value));
        doctor_add (findings, DOCTOR_FAIL, "controller",
                    "is slurmctld running, and is SLURM_CONF or /etc/slurm/slurm.conf right?",
                    "it does not answer: %s", value);
        run_clear (&run);
        return false;
    }
    config_value (run.out, "SLURM_VERSION ", value, sizeof (value));
    if (release_of (value, theirs) && release_of (MG_SLURM_VERSION, ours)
        && strcmp (ours, theirs) != 0)
        doctor_add (findings, DOCTOR_WARN, "controller",
                    "nodes of its release need a plugin built for it",
                    "slurmctld is %s, the plugin here was built for %s", value, MG_SLURM_VERSION);
    else
        doctor_add (findings, DOCTOR_OK, "controller", NULL, "slurmctld %s answers", value);
    config_value (run.out, "MpiDefault ", value, sizeof (value));
    if (strcmp (value, "(null)") == 0) // how Slurm 25.11 and later say it
        snprintf (value, sizeof (value), "none");
    doctor_add (findings, DOCTOR_OK, "mpi-default", NULL,
                strcmp (value, "pmix") == 0 ? "MpiDefault is %s"
                : "MpiDefault is %s; with --megatron options the plugin makes it pmix, unless "
                  "plugstack.conf says mpi=none", value[0] ? value : "not told");
    run_clear (&run);
    return true;
}

/* Find the plugin's complaints about its arguments, by a step that is only tested. */
static void check_plugstack (json_t *findings)
{
    char *argv[] = { "srun", "--test-only", "-n1", "--megatron-tp=1", "true", NULL };
    char line[1024];
    struct mg_error err;
    struct run run;

    if (run_program (argv, CONTROLLER_SECONDS, &run, &err) < 0) {
        doctor_add (findings, DOCTOR_WARN, "plugstack", NULL, "%s", err.text);
        return;
    }
    if (find_line (run.err, "megatron: plugstack.conf: ", line, sizeof (line)))
        doctor_add (findings, DOCTOR_FAIL, "plugstack",
                    "megatron-spank(8) has the keys; slurmd.log of each node has its own line",
                    "%s", strstr (line, "plugstack.conf: "));
    else
        doctor_add (findings, DOCTOR_OK, "plugstack", NULL,
                    "the plugin understands its arguments in plugstack.conf");
    run_clear (&run);
}

bool doctor_check_slurm (json_t *findings)
{
    bool loaded, answers;

    if (!check_release (findings))
        return false;
    loaded = check_plugin (findings);
    check_mpi (findings);
    answers = check_controller (findings);
    if (loaded && answers)
        check_plugstack (findings);
    return loaded && answers;
}
