/* progress - a line on a terminal that tells how far a long work is */
#ifndef CMD_PROGRESS_H
#define CMD_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
    bool on;       /* standard error is a terminal */
    int64_t total; /* bytes to do, 0: unknown */
    double begin;  /* seconds */
    double shown;  /* when the line was last written, 0: never */
};

/* Begin to count time. */
void progress_begin (struct progress *p, int64_t total);

/* Write the line anew, at most five times a second: share done, rate, time left. */
void progress_show (struct progress *p, int64_t done);

/* Take the line away. */
void progress_end (struct progress *p);

#endif /* CMD_PROGRESS_H */
