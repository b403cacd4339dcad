/* captured - calls of a communicator in a graph, for tests */
#ifndef TESTS_UNIT_COMM_CAPTURED_H
#define TESTS_UNIT_COMM_CAPTURED_H

#include <stdbool.h>

#include "libcore/comm/comm.h"
#include "megatron/stream.h"

/* Capture a sum on one stream beside a ring of transfers on another one, replay both between calls
 * without a graph, and look at the values.  All ranks call this.
 */
bool captured_replays (struct mg_device *device, struct mg_comm *comm, struct mg_error *err);

/* What a capture refuses of communicators, and that nothing is left of such a capture.  The text of
 * 'err' is the refusal that was wrong.  All ranks call this.
 */
bool captured_refusals (struct mg_device *device, struct mg_comm *comm, struct mg_error *err);

#endif /* TESTS_UNIT_COMM_CAPTURED_H */
