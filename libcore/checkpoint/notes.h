/* notes - texts by name: the metadata of a file of weights, the arguments that describe a model.
 *
 * An argument is named as on the command line, without the dashes; a flag has the value "true".
 */
#ifndef LIBCORE_CHECKPOINT_NOTES_H
#define LIBCORE_CHECKPOINT_NOTES_H

#include <stddef.h>

#include "megatron/error.h"

struct note {
    char *name, *value;
};

/* A struct of zeros is empty. */
struct notes {
    struct note *note;
    size_t num, max;
};

/* Set the text of a name to a copy of 'value'; the name is added if the list does not have it.  On
 * failure -1 and ENOMEM, and the list stays as it was.
 */
int notes_set (struct notes *notes, const char *name, const char *value, struct mg_error *err);

/* The same with a formatted value. */
int notes_setf (struct notes *notes, struct mg_error *err, const char *name, const char *fmt, ...)
    __attribute__ ((format (printf, 4, 5)));

/* The same with the shortest decimal number that reads as 'value'. */
int notes_set_real (struct notes *notes, const char *name, double value, struct mg_error *err);

/* Write this number to 'text', for a note with several numbers. */
enum { NOTES_REAL_MAX = 40 };
void notes_real_text (double value, char text[NOTES_REAL_MAX]);

/* Set all notes of 'from' too. */
int notes_add (struct notes *notes, const struct notes *from, struct mg_error *err);

/* The text of a name, NULL if there is none. */
const char *notes_find (const struct notes *notes, const char *name);

void notes_clear (struct notes *notes);

#endif /* LIBCORE_CHECKPOINT_NOTES_H */
