/* scratch - files of a test in a private directory */
#ifndef TESTS_UNIT_CHECKPOINT_SCRATCH_H
#define TESTS_UNIT_CHECKPOINT_SCRATCH_H

#include <stddef.h>

/* Make the directory; the process that did removes it with all in it when it exits. */
void scratch_create (void);

/* Path of 'name' in it, good until the end. */
const char *scratch_path (const char *name);

/* Write 'len' bytes as 'name', read a file whole (malloc'd, *len bytes, bails out). */
const char *scratch_write (const char *name, const void *data, size_t len);
void *scratch_read (const char *path, size_t *len);

/* The same bytes as a file in memory, for tests that make thousands: its path, good until
 * the next call.
 */
const char *scratch_memory (const void *data, size_t len);

/* Remove a directory tree, made by the test. */
void scratch_remove_tree (const char *path);

/* The next number of a fixed sequence (xorshift64*), below 'limit'. */
unsigned long scratch_random (unsigned long limit);

#endif /* TESTS_UNIT_CHECKPOINT_SCRATCH_H */
