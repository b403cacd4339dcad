/* run - run another program with a time limit, and keep its output in memory. */
#ifndef CMD_RUN_H
#define CMD_RUN_H

#include <stddef.h>

#include "megatron/error.h"

enum { RUN_TEXT_MAX = 1 << 20 }; /* bytes of an output; the rest is dropped */

struct run {
    int status; /* exit status; 128 + the signal that ended it */
    char *out;  /* standard output, terminated */
    char *err;  /* standard error */
};

/* Run argv[0], searched in PATH, without standard input, and wait until it has ended.  0,
 * whatever its status is. -1 and a text if the program does not exist (ENOENT), was
 * killed after 'seconds' (ETIMEDOUT), or cannot be run; 'run' is then empty.
 */
int run_program (char *const argv[], int seconds, struct run *run, struct mg_error *err);

/* Release the texts. */
void run_clear (struct run *run);

#endif /* CMD_RUN_H */
