/* launch - what the files of megatron launch share. */
#ifndef CMD_LAUNCH_LAUNCH_H
#define CMD_LAUNCH_LAUNCH_H

#include <stdbool.h>

#include "plugin/options.h"

enum { LAUNCH_RANKS_MAX = 4096 };

struct launch {
    int ranks;
    bool label;         /* lines of output begin with the rank */
    const char *output; /* directory with a file for each rank and stream; NULL: none */
    struct options options;
    char **program; /* and its arguments, NULL at the end */
    bool help;
};

struct grid;

/* Run the ranks until all have ended; 'grid' is that of the options.  Returns the exit status: 0,
 * or that of the first rank that failed (128 and the signal if a signal ended the rank), 127 if the
 * program is not there, 126 if it cannot be run, 1 if ranks cannot be started.
 */
int launch_run (const struct launch *l, const struct grid *grid);

/* The place of a rank. */
struct launch_place {
    const struct grid *grid;
    bool sized; /* sizes were given; false: the ranks get none, and the program chooses */
    int rank, ranks;
    int port;          /* of rank 0's bootstrap */
    const char *token; /* that the ranks have in common */
};

/* Take the CPUs and set the variables of a rank, in the process that becomes the rank.  -1 and
 * errno on failure.
 */
int launch_settle (const struct launch_place *place);

/* A port of 127.0.0.1 that is free now.  -1 and errno if there is none. */
int launch_find_port (void);

/* The output of the ranks, if it is labelled or goes to files. */
struct launch_output;

/* NULL and a text on failure.  The directory is made if it is not there. */
struct launch_output *launch_output_create (const struct launch *l, struct mg_error *err);
void launch_output_destroy (struct launch_output *o);

/* Before a rank is started: open what it prints to.  -1 and a text on failure. */
int launch_output_open (struct launch_output *o, int rank, struct mg_error *err);

/* In the process that becomes the rank: make it the standard output and error. */
int launch_output_attach (struct launch_output *o, int rank);

/* After a rank is started: close its ends. */
void launch_output_started (struct launch_output *o, int rank);

struct pollfd;

/* Fill in what to poll for: output of ranks, and room for what waits to be printed.  Returns the
 * number, at most 2 for each rank and 2 more.
 */
int launch_output_polls (const struct launch_output *o, struct pollfd *polls);

/* Print the whole lines that have come, as far as there is room for them.  With 'last', whatever
 * has come.  Does not block.
 */
void launch_output_copy (struct launch_output *o, bool last);

/* True if standard output cannot be written, which a line has told. */
bool launch_output_failed (const struct launch_output *o);

/* True if something has come from the ranks, or may still come, and is not printed. */
bool launch_output_pending (const struct launch_output *o);

#endif /* CMD_LAUNCH_LAUNCH_H */
