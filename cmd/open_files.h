/* open_files - how many files this process may have open. */
#ifndef CMD_OPEN_FILES_H
#define CMD_OPEN_FILES_H

/* Raise the soft limit to what a blend of 32767 datasets needs, or to the hard limit if that is
 * lower: each dataset keeps up to three files open, for training, validation and test.  Programs
 * that this process starts inherit the limit.
 */
void open_files_raise (void);

#endif /* CMD_OPEN_FILES_H */
