/* events - an event file, which TensorBoard reads.
 *
 * A file is a row of records: the length of the data (8 bytes, little-endian), the masked
 * CRC-32C of these 8 bytes (4 bytes), the data, the masked CRC-32C of the data (4 bytes); a
 * sum c is masked as (c >> 15 | c << 17) + 0xa282ead8.  (TensorFlow,
 * tsl/lib/io/record_writer.h.)  The data is an Event (event.proto).  The first event holds the
 * file's version, every other one a value.
 *
 * No session log is written: with one, TensorBoard would drop all points from its step on, also
 * points whose step is a number of samples.
 */
#ifndef LIBCORE_TRAIN_EVENTS_H
#define LIBCORE_TRAIN_EVENTS_H

#include <stdint.h>

#include "megatron/error.h"

struct events;

/* Check that this build can write event files.  -1, ENOTSUP and a text that names the
 * missing library.
 */
int events_check (struct mg_error *err);

/* Begin a new file in the directory 'dir', which exists: events.out.tfevents.SECONDS.HOST.
 * PID.N, with the first N from 0 that is free.  Nothing that exists is changed.  NULL and a
 * text on failure.
 */
struct events *events_create (const char *dir, struct mg_error *err);

/* Add a number, rounded to float32, at a step.  The number may stay in memory until
 * events_flush().  Allocates nothing.
 */
int events_add (struct events *e, const char *tag, double value, int64_t step,
                struct mg_error *err);

/* Add a text, which TensorBoard shows as Markdown. */
int events_add_text (struct events *e, const char *tag, const char *text, int64_t step,
                     struct mg_error *err);

/* Write everything that was added. */
int events_flush (struct events *e, struct mg_error *err);

/* Close the file.  Numbers that are still in memory are written if possible.  Keeps errno. */
void events_destroy (struct events *e);

#endif /* LIBCORE_TRAIN_EVENTS_H */
