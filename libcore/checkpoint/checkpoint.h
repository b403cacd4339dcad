/* checkpoint - save and resume: one manifest of global tensors, and shard files.
 *
 * DIR/iter_0000100/manifest.json        format version, iteration, the trainer's state, every
 *                                       global tensor (name, dtype, shape) and its stored
 *                                       pieces (shard, byte offset, place, checksum)
 * DIR/iter_0000100/shard_00003.bin      the pieces that rank 3 owned
 * DIR/latest_checkpointed_iteration.txt the iteration of the newest complete checkpoint
 *
 * A checkpoint is written into a directory with a temporary name.  When every file is fsynced,
 * the directory is renamed.  A reader accepts complete checkpoints only, and checks every length
 * and checksum.  Pieces are matched by their place in the global tensor, so that a checkpoint can
 * be read under another layout.
 */
#ifndef LIBCORE_CHECKPOINT_CHECKPOINT_H
#define LIBCORE_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libcore/tensor/piece.h"
#include "megatron/comm.h"

/* A value of the trainer's own state: a named integer, real or text, which the manifest has as
 * JSON. Arrays of values end with a NULL name.  A load fills in the values by name.  A value that
 * the checkpoint lacks is an error or, if it is optional, stays as it is.
 */
struct checkpoint_value {
    const char *name;
    enum { CHECKPOINT_INT, CHECKPOINT_REAL, CHECKPOINT_TEXT } type;
    int64_t integer;
    double real;    /* exact: written with 17 digits */
    char text[256];
    const char *long_text; /* written in place of 'text' if it is not NULL */
    bool optional;
};

/* Write checkpoint 'iteration' below 'dir', which is created if it is missing.  All nodes see
 * 'dir' as one directory.  Collective over 'comm'; all ranks get the same result, with the text
 * of the lowest rank that failed.  The values are those of rank 0.  The owned pieces must cover
 * every tensor that any rank names exactly once.  If there is a checkpoint of that iteration, it
 * is replaced when the new one is complete.  After a failure the checkpoints and the latest file
 * are what they were before.
 */
int checkpoint_save (const char *dir, int64_t iteration,
                     const struct checkpoint_value *values, const struct piece *pieces,
                     size_t n, struct mg_comm *comm, struct mg_error *err);

/* The same in three parts.  The part that takes long needs no other rank, so that a thread can do
 * it while its rank goes on.  Only one save at a time may write below a directory.
 */
struct checkpoint_save; /* a save that has begun */

/* Begin: decide which rank writes which pieces, choose the save's id, make the temporary
 * directory. Collective over 'comm', which must stay until the save is finished.  'dir', the
 * values and the array of pieces are copied.  The data of the pieces must not change until
 * checkpoint_save_write() has returned on this rank.  If the call fails on any rank, it returns
 * NULL on all and leaves no files.
 */
struct checkpoint_save *checkpoint_save_begin (const char *dir, int64_t iteration,
                                               const struct checkpoint_value *values,
                                               const struct piece *pieces, size_t n,
                                               struct mg_comm *comm, struct mg_error *err);

/* Write and fsync this rank's shard.  Call it once, on any thread; it needs no other rank.  It
 * blocks as long as the file system needs.  checkpoint_save_finish() returns its result.
 */
void checkpoint_save_write (struct checkpoint_save *s);

/* Finish, after every rank has written its shard: agree on the ranks' results, write the
 * manifest, rename the directory, write the latest file.  Collective.  Always frees 's'.  The
 * result is that of checkpoint_save().
 */
int checkpoint_save_finish (struct checkpoint_save *s, struct mg_error *err);

/* Returns the iteration of the newest complete checkpoint below 'dir': the one that the latest file
 * names or, if that is missing or incomplete, the complete one of the highest iteration.  If a
 * checkpoint was passed over, *err has the first such one and the reason; else its text is empty.
 * Not collective.  On failure -1 and errno:
 *
 * - ENOENT: there is no checkpoint.
 * - EBADMSG: there are only incomplete ones, or a latest file that names no checkpoint.
 * - EINVAL: 'dir' is a checkpoint itself.
 * - ENOTSUP: the checkpoint has another format version (an older checkpoint is not taken instead).
 */
int64_t checkpoint_latest (const char *dir, struct mg_error *err);

/* Read checkpoint 'iteration' into the values and the pieces, owned or not.  Shapes and dtypes
 * must agree.  If 'all_of' is not NULL, the pieces of all ranks must name every tensor of the
 * checkpoint whose name begins with 'all_of', and not with 'but' (NULL: no exception); both are the
 * same on every rank.  'values' may be
 * NULL, and n may be 0.  Collective over 'comm'; all ranks get the same result.
 *
 * Values are only filled on success.  Pieces are filled after all checks that need no data; if a
 * later check fails, their data is undefined.  On failure -1, a text, and errno:
 *
 * - ENOENT: the checkpoint or a shard is missing.
 * - EBADMSG: a file is truncated, damaged or of another save.
 * - ENOTSUP: the checkpoint has another format version.
 * - EINVAL: the checkpoint does not fit the values or pieces.
 */
int checkpoint_load (const char *dir, int64_t iteration, struct checkpoint_value *values,
                     const struct piece *pieces, size_t n, const char *all_of,
                     const char *but, struct mg_comm *comm, struct mg_error *err);

/* The checkpoints that checkpoint_prune() keeps. */
struct checkpoint_keep {
    int64_t last;  /* number of the newest checkpoints to keep, 0: all */
    int64_t every; /* also keep those of iterations that this divides, 0: no others */
};

/* Remove complete checkpoints, except those to keep, and temporary directories of saves that
 * never finished.  One rank calls this, while no rank saves.  The newest checkpoint is the one
 * that the latest file names; lower iterations are older.  Higher iterations, of a continuation
 * that was given up, are the oldest of all.  The newest complete checkpoint always stays.
 * Incomplete checkpoints and those of another format version stay too.
 */
int checkpoint_prune (const char *dir, const struct checkpoint_keep *keep,
                      struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_CHECKPOINT_H */
