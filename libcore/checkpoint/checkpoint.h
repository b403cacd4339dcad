/* checkpoint - save and resume: one manifest of global tensors plus shard files.
 *
 * DIR/iter_0000100/manifest.json        what there is: format version, iteration, the
 *                                       trainer's state, every global tensor (name,
 *                                       dtype, shape) and the pieces it is stored in
 *                                       (shard, byte offset, place, checksum)
 * DIR/iter_0000100/shard_00003.bin      the pieces that rank 3 owned
 * DIR/latest_checkpointed_iteration.txt the newest complete one
 *
 * A checkpoint is written under a temporary directory name, every file fsynced, then
 * renamed; a reader takes only what is complete and checks every length and checksum.
 * Pieces are matched by global place, so that it can be read under another layout.
 */
#ifndef LIBCORE_CHECKPOINT_CHECKPOINT_H
#define LIBCORE_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libcore/tensor/piece.h"
#include "megatron/comm.h"

/* The trainer's own state: named integers, reals and texts, kept as JSON in the manifest.
 * An array ended by a NULL name; on load the values are filled in by name and a missing
 * one is an error, or left as it is where it is optional.
 */
struct checkpoint_value {
    const char *name;
    enum { CHECKPOINT_INT, CHECKPOINT_REAL, CHECKPOINT_TEXT } type;
    int64_t integer;
    double real;    /* exact: written with 17 digits */
    char text[256];
    bool optional;
};

/* Write checkpoint 'iteration' below 'dir' (created if missing). Collective over 'comm';
 * all ranks get the same result, with the text of the lowest rank that failed. An
 * existing checkpoint of that iteration is replaced only once the new one is complete.
 * The values are rank 0's. Every tensor that any rank names must be covered exactly once
 * by the owned pieces.  'dir' is one directory that all nodes see.  After a failure the
 * checkpoints and the latest file are what they were.
 */
int checkpoint_save (const char *dir, int64_t iteration,
                     const struct checkpoint_value *values, const struct piece *pieces,
                     size_t n, struct mg_comm *comm, struct mg_error *err);

/* The same in three parts, of which the one that takes long needs no other rank, so that a
 * thread can do it while its rank goes on.  One save at a time below a directory.
 */
struct checkpoint_save; /* one that is under way */

/* The beginning, collective over 'comm': who writes what, the save's id, the temporary
 * directory.  'dir' and the values are copied, the array of pieces too; what the pieces
 * hold must stay as it is until this rank's part is written, and 'comm' until the end.
 * NULL on all ranks, with nothing left, if it fails on any.
 */
struct checkpoint_save *checkpoint_save_begin (const char *dir, int64_t iteration,
                                               const struct checkpoint_value *values,
                                               const struct piece *pieces, size_t n,
                                               struct mg_comm *comm, struct mg_error *err);

/* This rank's shard, written and fsynced: once, local, by any thread.  It blocks for as long
 * as the file system needs.  How it went is kept for the end.
 */
void checkpoint_save_write (struct checkpoint_save *s);

/* The rest, collective, once every rank's shard is written: the ranks' results, the
 * manifest, the name, the latest file.  Frees 's' in any case; result as checkpoint_save().
 */
int checkpoint_save_finish (struct checkpoint_save *s, struct mg_error *err);

/* The newest complete checkpoint below 'dir' (what the latest file names, else, if that
 * one is missing or incomplete, the highest complete one): its iteration; *err tells the
 * first that was passed over and why, its text is empty if none was.  Or -1 with errno
 * ENOENT if there is none, EBADMSG if there are only incomplete ones, or a latest file that
 * names none, EINVAL if 'dir' is a checkpoint itself, ENOTSUP if it is of another format
 * version (an older one is not taken in its place).  Local.
 */
int64_t checkpoint_latest (const char *dir, struct mg_error *err);

/* Read checkpoint 'iteration': fill values and pieces (all of them, owned or not).
 * Shapes and dtypes must agree; a missing tensor, a damaged, truncated or foreign file
 * are told apart in the text.  Every tensor of the checkpoint whose name begins with
 * 'all_of', the same on every rank, must be named by some rank's pieces; NULL: no matter
 * which.  'values' may be NULL, and there may be no pieces.  Collective over 'comm', same
 * result everywhere.
 * errno: ENOENT no such checkpoint, or a shard is missing; EBADMSG truncated, damaged or
 * of another save; ENOTSUP another format version; EINVAL it does not fit the values or
 * pieces.  Values are only filled on success, pieces once everything is found to fit;
 * after a later failure their data is undefined.
 */
int checkpoint_load (const char *dir, int64_t iteration, struct checkpoint_value *values,
                     const struct piece *pieces, size_t n, const char *all_of,
                     struct mg_comm *comm, struct mg_error *err);

/* Which checkpoints stay. */
struct checkpoint_keep {
    int64_t last;  /* the newest so many, 0: all */
    int64_t every; /* and those of iterations that this divides, 0: none more */
};

/* Remove all complete checkpoints but those that 'keep' names, and temporary directories
 * of saves that never finished. Called by one rank, while none is saving.  The newest is
 * the one that the latest file names, before it those of lower iterations; higher ones (of
 * a continuation that was given up) are the oldest.  The newest complete one always stays,
 * and what is incomplete or of another format version is not touched.
 */
int checkpoint_prune (const char *dir, const struct checkpoint_keep *keep,
                      struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_CHECKPOINT_H */
