/* doctor.c - megatron doctor: what is wrong here and on the nodes, and what to do
 *
 * Runs the checks in their order, prints the findings as text or as JSON, and counts them for the
 * exit status.  The same program runs on nodes, started by the doctor itself, and then prints its
 * findings for the first one to read (doctor_nodes.c).
 */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/doctor/doctor.h"
#include "cmd/option.h"
#include "config.h"
#include "megatron/version.h"

enum { EXIT_FOUND = 1, EXIT_USAGE = 2, CHECK_COLUMN = 12 };

struct doctor_args {
    bool json, help;
    const char *nodes;
    const char *task; /* this is a task on a node, of this version */
};

static int set_flag (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    struct doctor_args *args = target;

    (void)what, (void)value, (void)err;
    *(strcmp (option->key, "json") == 0 ? &args->json : &args->help) = true;
    return 0;
}

static int set_text (void *target, const struct cmd_option *option, const char *what,
                     const char *value, struct mg_error *err)
{
    struct doctor_args *args = target;

    if (!*value)
        return mg_error_set (err, EINVAL, "%s is empty", what);
    *(strcmp (option->key, "nodes") == 0 ? &args->nodes : &args->task) = value;
    return 0;
}

static const struct cmd_option options[] = {
    { .name = "nodes", .arg = "LIST",
      .help = "also check these nodes, by a step on them", .key = "nodes",
      .set = set_text },
    { .name = "json", .help = "print JSON", .key = "json", .set = set_flag },
    { .name = "help", .help = "print this help", .key = "help", .set = set_flag },
    { .name = NULL },
};

/* An option that the doctor uses for itself on a node, not for users. */
static const struct cmd_option task_options[] = {
    { .name = "on-node", .arg = "VERSION", .help = "", .key = "task", .set = set_text },
    { .name = NULL },
};

const char *doctor_verdict_name (enum doctor_verdict verdict)
{
    static const char *const names[] = { "ok", "warn", "fail" };

    return names[verdict];
}

void doctor_add (json_t *findings, enum doctor_verdict verdict, const char *check,
                 const char *advice, const char *fmt, ...)
{
    char text[1024];
    json_t *finding;
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (text, sizeof (text), fmt, ap);
    va_end (ap);
    for (char *p = text; *p; p++) {
        // another program's words may hold anything, JSON and a terminal do not want it
        if ((unsigned char)*p < ' ' || (unsigned char)*p >= 0x7f)
            *p = *p == '\n' ? ' ' : '?';
    }
    finding = json_pack ("{s:s, s:s, s:s}", "check", check, "verdict",
                         doctor_verdict_name (verdict), "text", text);
    if (finding && advice)
        json_object_set_new (finding, "advice", json_string (advice));
    json_array_append_new (findings, finding);
}

static const char *text_of (const json_t *object, const char *key)
{
    const char *text = json_string_value (json_object_get (object, key));

    return text ? text : "";
}

static int count_verdict (const json_t *places, enum doctor_verdict verdict)
{
    const json_t *place, *finding;
    size_t i, k;
    int count = 0;

    json_array_foreach (places, i, place) {
        json_array_foreach (json_object_get (place, "checks"), k, finding)
            count += strcmp (text_of (finding, "verdict"), doctor_verdict_name (verdict)) == 0;
    }
    return count;
}

static void print_text (const json_t *places)
{
    const json_t *place, *finding;
    size_t i, k;

    json_array_foreach (places, i, place) {
        printf ("%s%s\n", i ? "\n" : "", text_of (place, "where"));
        json_array_foreach (json_object_get (place, "checks"), k, finding) {
            printf ("  %-5s %-*s %s\n", text_of (finding, "verdict"), CHECK_COLUMN,
                    text_of (finding, "check"), text_of (finding, "text"));
            if (json_object_get (finding, "advice"))
                printf ("  %-5s %-*s -> %s\n", "", CHECK_COLUMN, "",
                        text_of (finding, "advice"));
        }
    }
    printf ("\n%d failed, %d to look at\n", count_verdict (places, DOCTOR_FAIL),
            count_verdict (places, DOCTOR_WARN));
}

static void print_json (json_t *places)
{
    json_t *all = json_pack ("{s:b, s:s, s:s, s:O}", "ok",
                             count_verdict (places, DOCTOR_FAIL) == 0, "version", MG_VERSION,
                             "slurm_headers", MG_SLURM_VERSION, "places", places);

    json_dumpf (all, stdout, JSON_COMPACT);
    putchar ('\n');
    json_decref (all);
}

static void print_help (const struct cmd_option_table *tables)
{
    printf ("Usage: megatron doctor [OPTION...]\n\n"
            "Say what is wrong with this installation, and what to do: Slurm and the plugin,\n"
            "MPI type and PMIx, versions, limits. Inside a job the job's nodes are looked at,\n"
            "too. The exit status is 1 if a check failed.\n\n");
    cmd_options_help (tables, 1);
}

/* A task on a node prints its findings for the doctor that started it. */
static int report_task (const char *version)
{
    json_t *findings = json_array ();
    const char *node = getenv ("SLURMD_NODENAME");
    json_t *place;

    doctor_check_task (findings, version);
    place = json_pack ("{s:s, s:o}", "where", node ? node : "?", "checks", findings);
    doctor_print_place (place);
    json_decref (place);
    return 0;
}

static void examine (json_t *places, json_t *here, const char *nodes)
{
    bool look = nodes || getenv ("SLURM_JOB_ID");
    bool usable = doctor_check_slurm (here);

    doctor_check_machine (here);
    if (look && usable)
        doctor_check_nodes (places, nodes);
    else if (look)
        doctor_add (here, DOCTOR_WARN, "nodes", NULL, "not looked at, for the reasons above");
}

int cmd_doctor (int argc, char **argv)
{
    struct doctor_args args = { .json = false };
    const struct cmd_option_table tables[] = { { options, &args }, { task_options, &args } };
    json_t *places = json_array (), *here = json_array ();
    char host[256] = "this machine";
    struct mg_error err;
    int status;

    if (cmd_options_read (tables, 2, argc, argv, &err) < 0) {
        fprintf (stderr, "megatron: doctor: %s; see megatron doctor --help\n", err.text);
        status = EXIT_USAGE;
    } else if (args.help) {
        print_help (tables);
        status = 0;
    } else if (args.task)
        status = report_task (args.task);
    else {
        gethostname (host, sizeof (host) - 1);
        json_array_append_new (places, json_pack ("{s:s, s:O}", "where", host, "checks", here));
        examine (places, here, args.nodes);
        if (args.json)
            print_json (places);
        else
            print_text (places);
        status = count_verdict (places, DOCTOR_FAIL) ? EXIT_FOUND : 0;
    }
    json_decref (here);
    json_decref (places);
    return status;
}
