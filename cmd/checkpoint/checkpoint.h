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

/* "megatron checkpoint inspect": what is in one. */
int checkpoint_inspect (int argc, char **argv);

/* "megatron checkpoint verify": read all of it, tell what is wrong. */
int checkpoint_verify (int argc, char **argv);

/* "megatron checkpoint convert": to a file of weights, or from one. */
int checkpoint_convert (int argc, char **argv);

/* Options that several parts have: DIR, --iteration, --json, --help; the target is this,
 * zeroed but for the iteration.
 */
struct checkpoint_common {
    const char *dir;
    int64_t iteration; /* -1: not given */
    bool json;
    bool help;
};
extern const struct cmd_option checkpoint_common_options[];

/* One checkpoint, found. */
struct checkpoint_place {
    char *dir;  /* that it lies in */
    char *path; /* of its own directory */
    int64_t iteration;
};

/* Find the one that 'name' and 'iteration' (-1: none given) mean: a checkpoint's own
 * directory, or one that holds several, of which it is the given iteration, else the one
 * that the latest file names, else the highest.  Nothing is read but names.  -1 with errno
 * ENOENT and a text if there is none.  Release what was found.
 */
int checkpoint_find (const char *name, int64_t iteration, struct checkpoint_place *place,
                     struct mg_error *err);
void checkpoint_release (struct checkpoint_place *place);

/* Read and check the manifest of one; NULL and a text on failure. manifest_destroy() it. */
struct manifest;
struct manifest *checkpoint_manifest (const struct checkpoint_place *place,
                                      struct mg_error *err);

/* One line on standard error; return CMD_USAGE and CHECKPOINT_FAILED. */
int checkpoint_usage_error (const char *part, const struct mg_error *err);
int checkpoint_failure (const char *part, const struct mg_error *err);

#endif /* CMD_CHECKPOINT_CHECKPOINT_H */
