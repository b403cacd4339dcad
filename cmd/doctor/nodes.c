/* nodes.c - the checks of a task, run on nodes by one step
 *
 * One srun starts this program on every node of the request.  A node's report comes as numbered
 * pieces, each a line that Slurm passes on whole; a report counts only if all its pieces have
 * arrived.  The step has a time limit, so that a busy node does not hold the doctor up.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/doctor/doctor.h"
#include "cmd/run.h"
#include "megatron/version.h"

/* Seconds to wait for a node, which may be busy. */
enum { STEP_SECONDS = 120 };

static void add_place (json_t *places, const char *where, enum doctor_verdict verdict,
                       const char *check, const char *advice, const char *text)
{
    json_t *checks = json_array ();

    doctor_add (checks, verdict, check, advice, "%s", text);
    json_array_append_new (places, json_pack ("{s:s, s:o}", "where", where, "checks", checks));
}

/* True if it is what a task prints: {"where": text, "checks": [...]}. */
static bool is_report (const json_t *report)
{
    return json_is_string (json_object_get (report, "where"))
           && json_is_array (json_object_get (report, "checks"));
}

/* A report is printed in pieces, "doctor NODE PIECE/PIECES:TEXT": Slurm passes on lines of up to
 * 1024 bytes whole, and mixes the parts of longer ones with other nodes' lines.
 */
enum { PIECE_SIZE = 600, MAX_PIECES = 10000 };

void doctor_print_place (const json_t *place)
{
    const char *node = json_string_value (json_object_get (place, "where"));
    char *text = json_dumps (place, JSON_COMPACT | JSON_ENSURE_ASCII);
    size_t len = text ? strlen (text) : 0, pieces = (len + PIECE_SIZE - 1) / PIECE_SIZE;

    for (size_t i = 0; i < pieces; i++)
        printf ("doctor %s %zu/%zu:%.*s\n", node, i, pieces, PIECE_SIZE,
                text + i * PIECE_SIZE);
    free (text);
}

/* Put a piece into its place in 'heard', which has an array for each node.  Other lines are not
 * ours.
 */
static void place_line (json_t *heard, const char *line)
{
    json_t *pieces;
    char node[256];
    int i, n, at = 0;

    if (sscanf (line, "doctor %255s %d/%d:%n", node, &i, &n, &at) != 3 || at == 0 || i < 0
        || i >= n || n > MAX_PIECES)
        return;
    if (!(pieces = json_object_get (heard, node))) {
        pieces = json_array ();
        json_object_set_new (heard, node, pieces);
    }
    while (json_array_size (pieces) < (size_t)n)
        json_array_append_new (pieces, json_null ());
    json_array_set_new (pieces, (size_t)i, json_string (line + at));
}

/* The report that the pieces make; NULL if a piece is missing, or if the text is no report. */
static json_t *join (const json_t *pieces)
{
    size_t n = json_array_size (pieces), len = 0;
    char *text = calloc (n * PIECE_SIZE + 1, 1);
    json_t *report;

    for (size_t i = 0; text && i < n; i++) {
        const char *piece = json_string_value (json_array_get (pieces, i));
        size_t more = piece ? strlen (piece) : 0;

        if (more == 0 || more > PIECE_SIZE) {
            len = 0;
            break;
        }
        memcpy (text + len, piece, more);
        len += more;
    }
    report = len > 0 ? json_loadb (text, len, 0, NULL) : NULL;
    free (text);
    if (is_report (report))
        return report;
    json_decref (report);
    return NULL;
}

/* Add what the nodes have printed. Returns how many have. */
static int read_reports (json_t *places, char *text)
{
    json_t *heard = json_object (), *pieces;
    const char *node;
    char *save = NULL;
    int count = 0;

    for (char *line = strtok_r (text, "\n", &save); line; line = strtok_r (NULL, "\n", &save))
        place_line (heard, line);
    json_object_foreach (heard, node, pieces) {
        json_t *report = join (pieces);

        if (report) {
            json_array_append_new (places, report);
            count++;
        }
    }
    json_decref (heard);
    return count;
}

/* This program's own path: the nodes are to run it, not what PATH finds there. */
static bool own_path (char *path, size_t n)
{
    ssize_t len = readlink ("/proc/self/exe", path, n - 1);

    if (len <= 0)
        return false;
    path[len] = '\0';
    return true;
}

/* Nodes of a list, as scontrol counts them; 0 if it cannot. */
static int count_nodes (const char *list)
{
    char *argv[] = { "scontrol", "show", "hostnames", (char *)list, NULL };
    struct run run;
    int count = 0;

    if (!list || run_program (argv, STEP_SECONDS, &run, NULL) < 0)
        return 0;
    for (const char *p = run.status == 0 ? run.out : ""; *p; p++)
        count += *p == '\n';
    run_clear (&run);
    return count;
}

static void run_step (json_t *places, char **argv, int wanted)
{
    struct mg_error err;
    struct run run;
    char text[400];
    size_t first;
    int seen;

    if (run_program (argv, STEP_SECONDS, &run, &err) < 0) {
        add_place (places, "nodes", DOCTOR_FAIL, "step",
                   "are the nodes up and free? sinfo and squeue tell", err.text);
        return;
    }
    first = json_array_size (places);
    seen = read_reports (places, run.out);
    doctor_compare (places, first);
    if (run.status != 0 || seen == 0 || seen < wanted) {
        snprintf (text, sizeof (text), "%d of %d nodes answered, srun ended with %d: %.*s", seen,
                  wanted > seen ? wanted : seen, run.status, (int)strcspn (run.err, "\n"),
                  run.err);
        add_place (places, "nodes", DOCTOR_FAIL, "step",
                   "are they nodes of this cluster, and is megatron there under the same path?",
                   text);
    }
    run_clear (&run);
}

void doctor_check_nodes (json_t *places, const char *list)
{
    char program[4096], nodes[4200], number[40];
    const char *job_nodes = getenv ("SLURM_JOB_NUM_NODES");
    char *argv[16];
    int n = 0, wanted = 0;

    if (!own_path (program, sizeof (program))) {
        add_place (places, "nodes", DOCTOR_FAIL, "step", NULL, "the path of megatron is not known");
        return;
    }
    argv[n++] = "srun";
    argv[n++] = "--ntasks-per-node=1";
    argv[n++] = "--mpi=pmix";
    argv[n++] = "--export=ALL";
    if (list) {
        wanted = count_nodes (list);
        snprintf (nodes, sizeof (nodes), "--nodelist=%s", list);
        argv[n++] = nodes;
        argv[n++] = "--immediate=60";
        argv[n++] = "--time=5";
    } else {
        wanted = job_nodes ? atoi (job_nodes) : 0;
        argv[n++] = "--overlap";
    }
    snprintf (number, sizeof (number), "--ntasks=%d", wanted);
    if (wanted > 0)
        argv[n++] = number;
    argv[n++] = "--megatron-tp=1";
    argv[n++] = program;
    argv[n++] = "doctor";
    argv[n++] = "--on-node";
    argv[n++] = MG_VERSION;
    argv[n] = NULL;
    run_step (places, argv, wanted);
}
