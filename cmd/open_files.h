/* open_files - how many files this process may have open. */
#ifndef CMD_OPEN_FILES_H
#define CMD_OPEN_FILES_H

/* Raise the soft limit as far as the hard one allows: every dataset of a blend keeps a file
 * open, for training, validation and test each.  Programs that this process starts inherit it.
 */
void open_files_raise (void);

#endif /* CMD_OPEN_FILES_H */
