/* events.c - an event file, packed with protobuf-c
 *
 * Each record is written with both checksums.  A failed write is an error, which the caller
 * reports.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libcore/base/crc32c.h"
#include "libcore/train/event.pb-c.h"
#include "libcore/train/events.h"

enum {
    HEAD = 12, TAIL = 4,     /* of a record, around its data */
    FIRST_CAPACITY = 4096,   /* more than a number takes */
    MAX_FILES = 10000,
    DT_STRING = 7            /* tensorflow/core/framework/types.proto */
};

struct events {
    FILE *file;
    char *path;
    uint8_t *record; /* [capacity] */
    size_t capacity;
};

int events_check (struct mg_error *err)
{
    (void)err;
    return 0;
}

static void put_little_endian (uint8_t *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t masked_sum (const void *data, size_t n)
{
    uint32_t sum = crc32c (data, n);

    return (sum >> 15 | sum << 17) + 0xa282ead8;
}

static int write_error (const struct events *e, struct mg_error *err)
{
    return mg_error_set (err, errno, "%s: cannot write events: %s", e->path,
                         strerror (errno));
}

static int put (struct events *e, Tensorflow__Event *event, struct mg_error *err)
{
    struct timespec now;
    size_t n;

    clock_gettime (CLOCK_REALTIME, &now);
    event->wall_time = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    n = tensorflow__event__get_packed_size (event);
    if (n + HEAD + TAIL > e->capacity) {
        uint8_t *more = realloc (e->record, n + HEAD + TAIL);

        if (!more)
            return mg_error_set (err, ENOMEM, "%s: out of memory", e->path);
        e->record = more;
        e->capacity = n + HEAD + TAIL;
    }
    put_little_endian (e->record, n, 8);
    put_little_endian (e->record + 8, masked_sum (e->record, 8), 4);
    tensorflow__event__pack (event, e->record + HEAD);
    put_little_endian (e->record + HEAD + n, masked_sum (e->record + HEAD, n), TAIL);
    if (fwrite (e->record, n + HEAD + TAIL, 1, e->file) != 1)
        return write_error (e, err);
    return 0;
}

static int put_value (struct events *e, Tensorflow__Summary__Value *value, int64_t step,
                      struct mg_error *err)
{
    Tensorflow__Summary summary = TENSORFLOW__SUMMARY__INIT;
    Tensorflow__Event event = TENSORFLOW__EVENT__INIT;

    summary.n_value = 1;
    summary.value = &value;
    event.step = step;
    event.what_case = TENSORFLOW__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    return put (e, &event, err);
}

int events_add (struct events *e, const char *tag, double value, int64_t step,
                struct mg_error *err)
{
    Tensorflow__Summary__Value v = TENSORFLOW__SUMMARY__VALUE__INIT;

    v.tag = (char *)tag;
    v.value_case = TENSORFLOW__SUMMARY__VALUE__VALUE_SIMPLE_VALUE;
    v.simple_value = (float)value;
    return put_value (e, &v, step, err);
}

/* As SummaryWriter.add_text(): a tensor of one string. */
int events_add_text (struct events *e, const char *tag, const char *text, int64_t step,
                     struct mg_error *err)
{
    Tensorflow__SummaryMetadata__PluginData plugin
        = TENSORFLOW__SUMMARY_METADATA__PLUGIN_DATA__INIT;
    Tensorflow__SummaryMetadata metadata = TENSORFLOW__SUMMARY_METADATA__INIT;
    Tensorflow__TensorShapeProto__Dim one = TENSORFLOW__TENSOR_SHAPE_PROTO__DIM__INIT;
    Tensorflow__TensorShapeProto__Dim *dims[] = { &one };
    Tensorflow__TensorShapeProto shape = TENSORFLOW__TENSOR_SHAPE_PROTO__INIT;
    Tensorflow__TensorProto tensor = TENSORFLOW__TENSOR_PROTO__INIT;
    Tensorflow__Summary__Value v = TENSORFLOW__SUMMARY__VALUE__INIT;
    ProtobufCBinaryData string = { .len = strlen (text), .data = (uint8_t *)text };
    char whole_tag[256];

    snprintf (whole_tag, sizeof (whole_tag), "%s/text_summary", tag);
    plugin.plugin_name = (char *)"text";
    metadata.plugin_data = &plugin;
    one.size = 1;
    shape.n_dim = 1;
    shape.dim = dims;
    tensor.dtype = DT_STRING;
    tensor.tensor_shape = &shape;
    tensor.n_string_val = 1;
    tensor.string_val = &string;
    v.tag = whole_tag;
    v.metadata = &metadata;
    v.value_case = TENSORFLOW__SUMMARY__VALUE__VALUE_TENSOR;
    v.tensor = &tensor;
    return put_value (e, &v, step, err);
}

int events_flush (struct events *e, struct mg_error *err)
{
    return fflush (e->file) != 0 ? write_error (e, err) : 0;
}

static int put_version (struct events *e, struct mg_error *err)
{
    Tensorflow__Event event = TENSORFLOW__EVENT__INIT;

    event.what_case = TENSORFLOW__EVENT__WHAT_FILE_VERSION;
    event.file_version = (char *)"brain.Event:2";
    return put (e, &event, err) < 0 ? -1 : events_flush (e, err);
}

static int open_new (struct events *e, const char *dir, struct mg_error *err)
{
    char host[256] = "";
    size_t size = strlen (dir) + sizeof (host) + 100;

    gethostname (host, sizeof (host) - 1);
    if (!(e->path = malloc (size)))
        return mg_error_set (err, ENOMEM, "%s: out of memory", dir);
    for (int n = 0; n < MAX_FILES; n++) {
        snprintf (e->path, size, "%s/events.out.tfevents.%010lld.%s.%ld.%d", dir,
                  (long long)time (NULL), host[0] ? host : "localhost", (long)getpid (), n);
        if ((e->file = fopen (e->path, "wxe")))
            return 0;
        if (errno != EEXIST)
            break;
    }
    return mg_error_set (err, errno, "%s: cannot open: %s", e->path, strerror (errno));
}

struct events *events_create (const char *dir, struct mg_error *err)
{
    struct events *e = calloc (1, sizeof (*e));

    if (!e || !(e->record = malloc (FIRST_CAPACITY))) {
        mg_error_set (err, ENOMEM, "%s: out of memory", dir);
        goto error;
    }
    e->capacity = FIRST_CAPACITY;
    if (open_new (e, dir, err) < 0 || put_version (e, err) < 0)
        goto error;
    return e;
error:
    events_destroy (e);
    return NULL;
}

void events_destroy (struct events *e)
{
    int saved_errno = errno;

    if (!e)
        return;
    if (e->file)
        fclose (e->file);
    free (e->path);
    free (e->record);
    free (e);
    errno = saved_errno;
}
