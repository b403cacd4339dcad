/* store - the directory that checkpoints live in, by the names in it.
 *
 * iter_0000100                                  a checkpoint, complete when named so
 * iter_0000100.tmp-0123456789abcdef             one being written or removed
 * iter_0000100.old-0123456789abcdef             one that a new one of the same iteration
 *                                               is about to take the place of
 * latest_checkpointed_iteration.txt             the number of the newest one
 * latest_checkpointed_iteration.txt.tmp-...     its next version
 *
 * Nothing of another name is ever touched.  No directory can be swapped for another at
 * once on every file system, so between two renames iteration 100 may be there as .old-
 * only: readers accept that, and the next save gives it its name back.
 */
#ifndef LIBCORE_CHECKPOINT_STORE_H
#define LIBCORE_CHECKPOINT_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/file/durable.h"
#include "megatron/error.h"

enum store_kind { STORE_OTHER, STORE_CHECKPOINT, STORE_OLD, STORE_TMP };

enum { STORE_NAME_MAX = 80 };

struct store_entry {
    enum store_kind kind;
    int64_t iteration; /* -1: of the latest file */
    char name[STORE_NAME_MAX];
};

/* What a name is: the entry's kind, STORE_OTHER if it is none of ours. */
enum store_kind store_parse (const char *name, struct store_entry *entry);

/* "iter_0000100" and the like into name[STORE_NAME_MAX]; 'id' is not used for
 * STORE_CHECKPOINT.
 */
void store_name (char *name, enum store_kind kind, int64_t iteration, const char *id);

/* All of ours in 'dir', from the highest iteration to the lowest, a checkpoint before an
 * old one of the same iteration: free *entries. ENOENT if there is no such directory.
 */
int store_scan (const char *dir, struct store_entry **entries, size_t *n,
                struct mg_error *err);

/* The number in the latest file; ENOENT if there is none, EBADMSG if it is no number. */
int store_read_latest (const char *dir, int64_t *iteration, struct mg_error *err);

/* Path of an iteration's checkpoint, by its own or its old name: free it. NULL with
 * ENOENT if there is neither.
 */
char *store_find (const char *dir, int64_t iteration, struct mg_error *err);

/* Undo what saves that never finished left in 'dir': .tmp- is removed, .old- gets its
 * name back, or is removed if that is taken.  A leftover that cannot be removed is an
 * error, after all others have been.
 */
int store_clean (const char *dir, struct mg_error *err);

/* Check that the latest file of 'dir' is not the file 'input' or one in that directory
 * (outfile_check_input()).  A directory of a checkpoint never replaces a file.
 */
int store_check_input (const char *dir, const char *input, struct mg_error *err);

/* Give the complete checkpoint 'tmp' (a name in 'dir') its iteration's name in place of
 * what has that name now, then write the latest file.  After a failure the old state is
 * there, with one exception: if the latest file has the new number and its old text cannot be
 * written back, the new checkpoint and its number stay.
 */
int store_publish (const char *dir, const char *tmp, int64_t iteration, const char *id,
                   struct mg_error *err);

/* Remove a directory of ours: first from the readers' sight, then its files (manifest and
 * shards; other files are left, and are an error), then itself.  If the name is a link, the
 * link is removed, and what it leads to stays.
 */
int store_remove (const char *dir, const struct store_entry *entry, struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_STORE_H */
