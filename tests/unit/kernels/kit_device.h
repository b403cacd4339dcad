/* kit_device - kernels of a device for tests whose operands are in host memory.
 *
 * A call copies the memory that its operands are in to the device, runs there, and copies back
 * what has changed.  So the tests of kernels take any backend and know nothing of its memory.  An
 * operand is in an array that is known (kit_known()), on the stack of the main thread, or in the
 * static memory of the program.  Any other has no elements: it may lie behind its array, nothing is
 * copied for it, and a note of the test says so.
 */
#ifndef TESTS_UNIT_KERNELS_KIT_DEVICE_H
#define TESTS_UNIT_KERNELS_KIT_DEVICE_H

#include <stddef.h>

#include "kernels/kernels.h"

struct kit_device;

/* 'text' is a device as device_choose() takes it.  Ends the test on failure. */
struct kit_device *kit_device_create (const char *text, int threads);
void kit_device_destroy (struct kit_device *d);

/* Kernels whose calls take host memory. */
struct kernels *kit_device_kernels (struct kit_device *d);

/* The device of such kernels; NULL: they are others. */
struct mg_device *kit_device_of (const struct kernels *k);

/* An array of which operands may be parts.  Arrays that it overlaps are gone. */
void kit_known (const void *array, size_t size);

#endif /* TESTS_UNIT_KERNELS_KIT_DEVICE_H */
