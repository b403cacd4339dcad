/* checkpoint - the parts of "megatron checkpoint": look at checkpoints, check and convert.
 *
 * Each part is one row in the table of checkpoint.c and follows cmd.h's contract; argv[0]
 * is its name.  Exit status of all: 0, 1 for a failure at work, 2 for a wrong command line.
 */
#ifndef CMD_CHECKPOINT_CHECKPOINT_H
#define CMD_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/option.h"
#include "cmd/part.h"
#include "megatron/error.h"

enum { CHECKPOINT_FAILED = 1 };

/* "megatron checkpoint inspect": print the contents of a checkpoint. */
int checkpoint_inspect (int argc, char **argv);

/* "megatron checkpoint verify": read a whole checkpoint, and report its faults. */
int checkpoint_verify (int argc, char **argv);

/* "megatron checkpoint convert": convert a checkpoint to a file of weights, or a file of
 * weights to a checkpoint. */
int checkpoint_convert (int argc, char **argv);

/* Options that several parts have: DIR, --iteration, --json, --help; the target is this
 * struct, in which all members but the iteration are zero.
 */
struct checkpoint_common {
    const char *dir;
    int64_t iteration; /* -1: not given */
    bool json;
    bool help;
};
extern const struct cmd_option checkpoint_common_options[];

/* A checkpoint that checkpoint_find() has found. */
struct checkpoint_place {
    char *dir;  /* the directory that contains the checkpoint */
    char *path; /* the checkpoint's own directory */
    int64_t iteration;
};

/* Find a checkpoint.  'name' is the checkpoint's own directory, or a directory of
 * checkpoints.  In the latter, the checkpoint of 'iteration' is found; if 'iteration' is
 * -1, the one that the latest file names, else the one of the highest iteration.  Only
 * names are read.  -1 with errno ENOENT and a text if there is none.  Release what was
 * found.
 */
int checkpoint_find (const char *name, int64_t iteration, struct checkpoint_place *place,
                     struct mg_error *err);
void checkpoint_release (struct checkpoint_place *place);

/* Read and check the manifest of a checkpoint.  NULL and a text on failure.  The caller
 * calls manifest_destroy(). */
struct manifest;
struct manifest *checkpoint_manifest (const struct checkpoint_place *place,
                                      struct mg_error *err);

/* Print one line on standard error.  The first function returns CMD_USAGE, the second
 * CHECKPOINT_FAILED. */
int checkpoint_usage_error (const char *part, const struct mg_error *err);
int checkpoint_failure (const char *part, const struct mg_error *err);

#endif /* CMD_CHECKPOINT_CHECKPOINT_H */
