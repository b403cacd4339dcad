/* leftover - remove the unfinished files of a process that a signal ends.
 *
 * A file that is being written has a temporary name, NAME.tmp-ID (outfile.h), and so has the
 * directory of a checkpoint, iter_N.tmp-ID (store.h).  The process holds both open until they have
 * their final names: the file for writing, the directory with O_PATH.  So a signal handler finds
 * them among the open files of the process, and no list of names is kept.  The lock of a directory
 * (dirlock.h) goes, too, unless another process holds it.
 *
 * The files of a model's directory (hf_dir.h) are of no use without config.json, which is
 * written last.  So a descriptor is held for each of them, from before the file has its
 * final name until config.json is written.  While no config.json is in the directory, the
 * held files are removed.
 */
#ifndef LIBCORE_CHECKPOINT_LEFTOVER_H
#define LIBCORE_CHECKPOINT_LEFTOVER_H

/* Hold the new directory `path` of a checkpoint open until it has its final name.  Returns a
 * descriptor for close(), or -1: leftover_remove_open() does not find the directory then.
 */
int leftover_hold_dir (const char *path);

/* Hold the file of the descriptor `fd`, which is being written for a model's directory.
 * Returns a descriptor for close(), or -1: leftover_remove_open() does not find the file
 * then, once it has its final name.
 */
int leftover_hold_file (int fd);

/* Remove the file that leftover_hold_file() holds, if no config.json is beside it. */
void leftover_remove_file (int held);

/* Remove all files and directories that this process is writing under temporary names, and the
 * files that it holds.  The caller ends the process afterwards.  May be called in a signal handler.
 */
void leftover_remove_open (void);

#endif /* LIBCORE_CHECKPOINT_LEFTOVER_H */
