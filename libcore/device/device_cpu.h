/* device_cpu - functions of the CPU device that the guarded device uses; device_ops.h has
 * the contracts. */
#ifndef LIBCORE_DEVICE_DEVICE_CPU_H
#define LIBCORE_DEVICE_DEVICE_CPU_H

#include "libcore/device/device_ops.h"

bool cpu_usable (const struct device_host *host, struct mg_error *err);
int cpu_check_ordinal (struct mg_device *device, struct mg_error *err);
void *cpu_alloc (struct mg_device *device, size_t size);
void cpu_free (struct mg_device *device, void *ptr);
size_t cpu_available (const struct mg_device *device);

/* device_describe() for this machine's processors, on which 'kernels' run. */
void cpu_describe (const struct kernels *kernels, struct device_info *info);

/* A copy or set that cannot be done at once is passed to stream_submit(). */
int cpu_copy (struct mg_stream *stream, enum device_copy kind, void *to, const void *from,
              size_t size, struct mg_error *err);
int cpu_set (struct mg_stream *stream, void *to, int byte, size_t size, struct mg_error *err);

struct mg_stream *cpu_stream_create (struct mg_device *device, enum mg_stream_kind kind,
                                     enum stream_priority priority, const char *name,
                                     struct mg_error *err);
void cpu_stream_destroy (struct mg_stream *stream);
int cpu_stream_synchronize (struct mg_stream *stream, struct mg_error *err);
bool cpu_stream_idle (const struct mg_stream *stream);
int cpu_submit (struct mg_stream *stream, struct work *work, struct mg_error *err);
struct mg_event *cpu_event_create (struct mg_device *device, bool timed, struct mg_error *err);
void cpu_event_destroy (struct mg_event *event);
void cpu_event_record (struct mg_event *event, struct mg_stream *stream);
int cpu_event_wait (struct mg_stream *stream, struct mg_event *event, struct mg_error *err);
int cpu_event_synchronize (struct mg_event *event, struct mg_error *err);
bool cpu_event_reached (const struct mg_event *event);
double cpu_event_seconds (const struct mg_event *from, const struct mg_event *to);

#endif /* LIBCORE_DEVICE_DEVICE_CPU_H */
