/* pipeline - convert files to datasets: read, encode in threads, write in order */
#ifndef CMD_DATA_PIPELINE_H
#define CMD_DATA_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/data/input.h"
#include "cmd/data/writer.h"

struct data_source {
    const char *path;
    enum input_format format; /* not INPUT_AUTO */
    enum input_cut cut;       /* of plain text */
};

struct data_pipeline {
    const struct data_source *sources;
    size_t num_sources;
    char *const *keys; /* keys of JSON lines, and of the datasets; plain text has the
                        * first key */
    size_t num_keys;
    int workers;
    bool (*stopped) (void); /* true if a signal has requested a stop */
};

/* Read all sources, one after the other, and pass their documents to the writer, which
 * the caller has opened and will finish.  Shows progress if standard error is a terminal.
 * -1 with errno EINTR if it was stopped: threads may then still encode, and the caller
 * should end the process. */
int data_pipeline_run (const struct data_pipeline *p, struct data_writer *writer,
                       struct mg_error *err);

#endif /* CMD_DATA_PIPELINE_H */
