/* store - the names in a directory of checkpoints.
 *
 * iter_0000100                                  a checkpoint, complete when named so
 * iter_0000100.tmp-0123456789abcdef             one being written or removed
 * iter_0000100.old-0123456789abcdef  a checkpoint that a new one of the same iteration is
 *                                               about to replace
 * latest_checkpointed_iteration.txt             the number of the newest one
 * latest_checkpointed_iteration.txt.tmp-...     its next version
 *
 * Files of other names are never changed.  Not every file system can exchange two
 * directories in one step, so between two renames iteration 100 may only exist as .old-.
 * Readers accept the .old- name, and the next save restores the original name.
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
    int64_t iteration; /* -1 for the latest file */
    char name[STORE_NAME_MAX];
};

/* Parse a name.  Returns the entry's kind, STORE_OTHER if the name is none of ours. */
enum store_kind store_parse (const char *name, struct store_entry *entry);

/* Write a name such as "iter_0000100" into name[STORE_NAME_MAX].  STORE_CHECKPOINT does
 * not use 'id'.
 */
void store_name (char *name, enum store_kind kind, int64_t iteration, const char *id);

/* List all our names in 'dir', from the highest iteration to the lowest, a checkpoint
 * before an .old- one of the same iteration.  The caller frees *entries.  ENOENT if there
 * is no such directory.
 */
int store_scan (const char *dir, struct store_entry **entries, size_t *n,
                struct mg_error *err);

/* The number in the latest file; ENOENT if there is none, EBADMSG if it is no number. */
int store_read_latest (const char *dir, int64_t *iteration, struct mg_error *err);

/* Returns the path of an iteration's checkpoint, with its final name or its .old- name.
 * The caller frees the path.  NULL with ENOENT if neither exists.
 */
char *store_find (const char *dir, int64_t iteration, struct mg_error *err);

/* Remove the traces of unfinished saves in 'dir': .tmp- names are removed, and .old-
 * names are renamed to their final names, or removed if a final name exists.  If
 * something cannot be removed, the function removes the rest, then fails.
 */
int store_clean (const char *dir, struct mg_error *err);

/* Check that the latest file of 'dir' is not the file 'input' or a file in the directory
 * 'input' (outfile_check_input()).  A checkpoint's directory never replaces a file.
 */
int store_check_input (const char *dir, const char *input, struct mg_error *err);

/* Rename the complete checkpoint 'tmp' (a name in 'dir') to its iteration's name, in
 * place of an older checkpoint of that name; then write the latest file.  After a failure
 * the old state is restored, with one exception: if the latest file has the new number
 * and its old text cannot be written back, the new checkpoint and its number stay.
 */
int store_publish (const char *dir, const char *tmp, int64_t iteration, const char *id,
                   struct mg_error *err);

/* Remove a directory of ours.  First it is renamed, so that readers do not find it; then
 * its manifest and shards are removed, then the directory.  Other files stay, and are an
 * error.  If the name is a link, only the link is removed.
 */
int store_remove (const char *dir, const struct store_entry *entry, struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_STORE_H */
