/* progress - a line on a terminal with the progress of a long work */
#ifndef CMD_PROGRESS_H
#define CMD_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
    bool on;       /* standard error is a terminal */
    int64_t total; /* bytes to do, 0: unknown */
    double begin;  /* seconds */
    double shown;  /* time at which the line was last written, 0: never */
};

/* Begin to count time. */
void progress_begin (struct progress *p, int64_t total);

/* Write the line anew, at most five times a second: share done, rate, time left. */
void progress_show (struct progress *p, int64_t done);

/* Erase the line. */
void progress_end (struct progress *p);

#endif /* CMD_PROGRESS_H */
