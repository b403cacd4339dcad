/* doctor - the parts of "megatron doctor": what is wrong with this installation.
 *
 * A check leaves findings in a JSON array, each {"check", "verdict", "text"} and, where
 * something can be done, "advice": what is printed as text is what is printed as JSON.
 */
#ifndef CMD_DOCTOR_DOCTOR_H
#define CMD_DOCTOR_DOCTOR_H

#include <stdbool.h>

#include <jansson.h>

enum doctor_verdict { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

/* "ok", "warn" or "fail". */
const char *doctor_verdict_name (enum doctor_verdict verdict);

/* Add a finding; 'advice' is one line, or NULL. */
void doctor_add (json_t *findings, enum doctor_verdict verdict, const char *check,
                 const char *advice, const char *fmt, ...)
    __attribute__ ((format (printf, 5, 6)));

/* Slurm as it is seen from here: commands, release, plugin, its arguments, MPI types,
 * controller.  Returns true if jobs can be run with the plugin.
 */
bool doctor_check_slurm (json_t *findings);

/* This process and the machine under it: library, modules, limits, CPUs. */
void doctor_check_machine (json_t *findings);

/* The same, and what only a task of a step sees: whether the plugin and PMIx reached it, whether
 * its command is the one that printed 'version', whether MASTER_ADDR has an address.
 */
void doctor_check_task (json_t *findings, const char *version);

/* Run the checks of a task on nodes: those of 'list' (Slurm's notation), or of the job
 * around this process where it is NULL.  Adds one object a node, {"where", "checks"}, to
 * 'places'.
 */
void doctor_check_nodes (json_t *places, const char *list);

/* Print such an object of this node for the doctor that started the step. */
void doctor_print_place (const json_t *place);

#endif /* CMD_DOCTOR_DOCTOR_H */
