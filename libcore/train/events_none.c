/* events_none.c - a build without protobuf-c refuses event files */

#include <errno.h>
#include <stddef.h>

#include "libcore/train/events.h"

int events_check (struct mg_error *err)
{
    return mg_error_set (err, ENOTSUP, "event files need the library protobuf-c, which this "
                         "build lacks: configure --with-protobuf-c (Debian: libprotobuf-c-dev "
                         "protobuf-c-compiler)");
}

struct events *events_create (const char *dir, struct mg_error *err)
{
    (void)dir;
    events_check (err);
    return NULL;
}

int events_add (struct events *e, const char *tag, double value, int64_t step,
                struct mg_error *err)
{
    (void)e, (void)tag, (void)value, (void)step;
    return events_check (err);
}

int events_add_text (struct events *e, const char *tag, const char *text, int64_t step,
                     struct mg_error *err)
{
    (void)e, (void)tag, (void)text, (void)step;
    return events_check (err);
}

int events_flush (struct events *e, struct mg_error *err)
{
    (void)e;
    return events_check (err);
}

void events_destroy (struct events *e)
{
    (void)e;
}
