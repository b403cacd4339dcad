/* leftover - what a process that a signal ends would leave behind.
 *
 * A file that is being written has a temporary name, NAME.tmp-ID (outfile.h), and so has the
 * directory of a checkpoint, iter_N.tmp-ID (store.h).  The process holds both open until they have
 * their final names: the file for writing, the directory with O_PATH.  So a signal handler finds
 * them among the open files of the process, and no list of names is kept.  The lock of a directory
 * (dirlock.h) goes, too, unless another process holds it.
 */
#ifndef LIBCORE_CHECKPOINT_LEFTOVER_H
#define LIBCORE_CHECKPOINT_LEFTOVER_H

/* Hold the new directory `path` of a checkpoint open until it has its final name.  Returns a
 * descriptor for close(), or -1: leftover_remove_open() does not find the directory then.
 */
int leftover_hold_dir (const char *path);

/* Remove all files and directories that this process is writing under temporary names.  The caller
 * ends the process afterwards.  May be called in a signal handler.
 */
void leftover_remove_open (void);

#endif /* LIBCORE_CHECKPOINT_LEFTOVER_H */
