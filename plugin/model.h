/* model - check the arguments of the task's program against the sizes of the job.  The
 * function reads only words, and does not depend on Slurm.  It does not read scripts or
 * other files that the words name.
 */
#ifndef PLUGIN_MODEL_H
#define PLUGIN_MODEL_H

#include <stdbool.h>

#include "libcore/topo/geometry.h"
#include "megatron/error.h"

enum model_verdict {
    MODEL_FITS,  /* or the words describe no model */
    MODEL_NOTES, /* it fits, and the text says which default may surprise */
    MODEL_WARNS, /* a rule is broken, but the program may not use these arguments */
    MODEL_FAILS, /* a rule is broken, and the program is "megatron", or has a
                    --*-model-parallel-size among its arguments */
};

/* Check the rules of libcore/topo/margs.h for the words of a program, argv[0] its name, on
 * a geometry that keeps its own rules; its world may be 0.  'text' gets one line: the first broken
 * rule and how many more there are, or the note.
 */
enum model_verdict model_check (const struct geometry *g, int argc, char *const *argv,
                                struct mg_error *text);

/* True if the words choose the CPU, "--device cpu" or "--device=cpu"; the last one counts.  Such a
 * program uses no GPU.
 */
bool model_on_cpu (int argc, char *const *argv);

#endif /* PLUGIN_MODEL_H */
