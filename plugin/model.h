/* model - the arguments of the task's program against the sizes of the job.
 *
 * Knows nothing of Slurm: words in, verdict out.  No script and no file that the words
 * name is looked into.
 */
#ifndef PLUGIN_MODEL_H
#define PLUGIN_MODEL_H

#include "libcore/topo/geometry.h"
#include "megatron/error.h"

enum model_verdict {
    MODEL_FITS,  /* or nothing is known of a model */
    MODEL_NOTES, /* it fits, and the text says which default may surprise */
    MODEL_WARNS, /* a rule is broken, but the program may not be what it looks like */
    MODEL_FAILS, /* and it is: "megatron", or some --*-model-parallel-size is among its
                    arguments */
};

/* Check the rules of libcore/topo/margs.h for the words of a program, argv[0] its name, on
 * a geometry that keeps its own rules; its world may be 0.  'text' gets one line: the first broken
 * rule and how many more there are, or the note.
 */
enum model_verdict model_check (const struct geometry *g, int argc, char *const *argv,
                                struct mg_error *text);

#endif /* PLUGIN_MODEL_H */
