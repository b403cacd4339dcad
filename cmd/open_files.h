/* open_files - the limit of the number of open files of this process. */
#ifndef CMD_OPEN_FILES_H
#define CMD_OPEN_FILES_H

/* Raise the soft limit to the number of files of a blend of 32767 datasets, or to the
 * hard limit if that is lower: each dataset keeps up to three files open, for training,
 * validation and test.  Programs that this process starts inherit the limit.
 */
void open_files_raise (void);

#endif /* CMD_OPEN_FILES_H */
