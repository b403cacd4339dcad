/* notes.c - texts by name */

#include <errno.h>
#include <fenv.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/notes.h"

static struct note *find (const struct notes *notes, const char *name)
{
    for (size_t i = 0; i < notes->num; i++) {
        if (strcmp (notes->note[i].name, name) == 0)
            return &notes->note[i];
    }
    return NULL;
}

/* A new note with an empty place for its value; NULL if out of memory. */
static struct note *append (struct notes *notes, const char *name)
{
    struct note *more;

    if (notes->num == notes->max) {
        size_t max = notes->max ? 2 * notes->max : 16;

        if (!(more = realloc (notes->note, max * sizeof (*more))))
            return NULL;
        notes->note = more;
        notes->max = max;
    }
    more = &notes->note[notes->num];
    *more = (struct note){ .name = strdup (name) };
    if (!more->name)
        return NULL;
    notes->num++;
    return more;
}

int notes_set (struct notes *notes, const char *name, const char *value, struct mg_error *err)
{
    struct note *note = find (notes, name);
    char *copy = strdup (value);

    if (!copy || (!note && !(note = append (notes, name)))) {
        free (copy);
        return mg_error_set (err, ENOMEM, "out of memory for %s", name);
    }
    free (note->value);
    note->value = copy;
    return 0;
}

int notes_setf (struct notes *notes, struct mg_error *err, const char *name, const char *fmt, ...)
{
    char text[128];
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (text, sizeof (text), fmt, ap);
    va_end (ap);
    return notes_set (notes, name, text, err);
}

void notes_real_text (double value, char text[NOTES_REAL_MAX])
{
    const int rounding = fegetround (); // the program's rounding, which must not change the text

    if (value >= -1e9 && value <= 1e9 && value == (double)(int32_t)value) {
        snprintf (text, NOTES_REAL_MAX, "%.0f", value);
        return;
    }
    fesetround (FE_TONEAREST);
    for (int digits = 1; digits <= 17; digits++) {
        snprintf (text, NOTES_REAL_MAX, "%.*g", digits, value);
        if (strtod (text, NULL) == value)
            break;
    }
    fesetround (rounding);
}

int notes_set_real (struct notes *notes, const char *name, double value, struct mg_error *err)
{
    char text[NOTES_REAL_MAX];

    notes_real_text (value, text);
    return notes_set (notes, name, text, err);
}

int notes_add (struct notes *notes, const struct notes *from, struct mg_error *err)
{
    for (size_t i = 0; i < from->num; i++) {
        if (notes_set (notes, from->note[i].name, from->note[i].value, err) < 0)
            return -1;
    }
    return 0;
}

const char *notes_find (const struct notes *notes, const char *name)
{
    const struct note *note = find (notes, name);

    return note ? note->value : NULL;
}

void notes_clear (struct notes *notes)
{
    int saved_errno = errno;

    for (size_t i = 0; i < notes->num; i++) {
        free (notes->note[i].name);
        free (notes->note[i].value);
    }
    free (notes->note);
    *notes = (struct notes){ .note = NULL };
    errno = saved_errno;
}
