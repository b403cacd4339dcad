/* doctor - the parts of "megatron doctor", which finds faults of this installation.
 *
 * A check adds findings to a JSON array, each {"check", "verdict", "text"} and, if there
 * is a remedy, "advice".  The text output is made from the same array as the JSON output.
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

/* Check Slurm on this host: commands, release, plugin, its arguments, MPI types,
 * controller.  Returns true if jobs can be run with the plugin.
 */
bool doctor_check_slurm (json_t *findings);

/* Check this process and this machine: library, modules, limits, CPUs. */
void doctor_check_machine (json_t *findings);

/* Look for GPUs, their links, network adapters and NCCL, and add a finding for each kind that this
 * machine has.  The sources are NVIDIA's driver, nvidia-smi, /sys and the dynamic linker.  Waits
 * for nvidia-smi up to 20 seconds.
 */
void doctor_check_hardware (json_t *findings);

/* Compare findings of doctor_check_hardware() between the nodes places[first..], and add an object
 * {"where", "checks"} about the result, if there are two nodes or more.
 */
void doctor_compare (json_t *places, size_t first);

/* Check the same, and things that only a task of a step can check: whether the plugin and
 * PMIx reached the task, whether its command has the version 'version', whether
 * MASTER_ADDR has an address.
 */
void doctor_check_task (json_t *findings, const char *version);

/* Run the checks of a task on nodes: those of 'list' (Slurm's notation), or of this
 * process's job if 'list' is NULL.  Adds an object {"where", "checks"} for each node to
 * 'places'.
 */
void doctor_check_nodes (json_t *places, const char *list);

/* Print such an object of this node for the doctor that started the step. */
void doctor_print_place (const json_t *place);

#endif /* CMD_DOCTOR_DOCTOR_H */
