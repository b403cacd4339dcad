/* run - another program, its output in memory, and a limit on its time. */
#ifndef CMD_RUN_H
#define CMD_RUN_H

#include <stddef.h>

#include "megatron/error.h"

enum { RUN_TEXT_MAX = 1 << 20 }; /* more of an output is dropped */

struct run {
    int status; /* exit status; 128 + the signal that ended it */
    char *out;  /* standard output, terminated */
    char *err;  /* standard error */
};

/* Run argv[0], looked for in PATH, without standard input, and wait until it has ended: 0,
 * whatever its status.  -1 and a text where it is not there (ENOENT), is not done in
 * 'seconds' and has been killed (ETIMEDOUT), or cannot be run; 'run' is then empty.
 */
int run_program (char *const argv[], int seconds, struct run *run, struct mg_error *err);

/* Release the texts. */
void run_clear (struct run *run);

#endif /* CMD_RUN_H */
