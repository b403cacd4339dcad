/* progress.c - a line on a terminal with the progress of a long work */

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/progress.h"

enum { BAR = 24, LINE = 80 };

static double seconds (void)
{
    struct timespec now;

    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* "0:07", "12:34", "3:00:00" */
static const char *clock_text (double time, char to[24])
{
    int64_t s = time < 1e9 ? (int64_t)(time + 0.5) : 1000000000;

    if (s < 3600)
        snprintf (to, 24, "%d:%02d", (int)(s / 60), (int)(s % 60));
    else
        snprintf (to, 24, "%d:%02d:%02d", (int)(s / 3600), (int)(s / 60 % 60),
                  (int)(s % 60));
    return to;
}

static void format (char line[LINE], int64_t done, int64_t total, double time)
{
    double rate = time > 0. ? (double)done / time : 0.;
    char bar[BAR + 1], clock[24];
    int marks;

    if (total <= 0) {
        snprintf (line, LINE, "%.1f MB, %.2f MB/s, %s", 1e-6 * (double)done, 1e-6 * rate,
                  clock_text (time, clock));
        return;
    }
    if (done > total)
        done = total; /* the file has grown since */
    marks = (int)((double)BAR * (double)done / (double)total);
    memset (bar, '#', marks);
    memset (bar + marks, '.', BAR - marks);
    bar[BAR] = '\0';
    snprintf (line, LINE, "%3d%% [%s] %.1f of %.1f MB, %.2f MB/s, %s left",
              (int)(100. * (double)done / (double)total), bar, 1e-6 * (double)done,
              1e-6 * (double)total, 1e-6 * rate,
              rate > 0. ? clock_text ((double)(total - done) / rate, clock) : "-:--");
}

void progress_begin (struct progress *p, int64_t total)
{
    p->on = isatty (STDERR_FILENO);
    p->total = total;
    p->begin = seconds ();
    p->shown = 0.;
}

void progress_show (struct progress *p, int64_t done)
{
    double now;
    char line[LINE];

    if (!p->on || (now = seconds ()) - p->shown < 0.2)
        return;
    p->shown = now;
    format (line, done, p->total, now - p->begin);
    fprintf (stderr, "\r%-79s", line);
    fflush (stderr);
}

void progress_end (struct progress *p)
{
    if (p->shown > 0.)
        fprintf (stderr, "\r%79s\r", "");
    p->shown = 0.;
}
