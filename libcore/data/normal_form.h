/* normal_form - Unicode's normal forms, lower case, marks
 *
 * Which characters there are follows from the version of Unicode that utf8proc was made
 * with; in a build without utf8proc every function fails with errno ENOTSUP.  Texts are
 * valid UTF-8, strays written as utf8.h says; a stray is left as it is.
 */
#ifndef LIBCORE_DATA_NORMAL_FORM_H
#define LIBCORE_DATA_NORMAL_FORM_H

#include <stddef.h>

#include "libcore/data/text_buffer.h"
#include "megatron/error.h"

enum normal_form {
    NORMAL_FORM_NFC,
    NORMAL_FORM_NFD,
    NORMAL_FORM_NFKC,
    NORMAL_FORM_NFKD,
    NORMAL_FORM_LOWER, /* each character's full lower case mapping, without context */
    NORMAL_FORM_UNMARK /* all marks (M) are left out */
};

/* 0, or -1 with errno ENOTSUP and a text if this build cannot. */
int normal_form_check (struct mg_error *err);

/* Append the form of a text to 'out'. -1 with errno ENOTSUP, ENOMEM. */
int normal_form_append (enum normal_form form, const char *text, size_t size,
                        struct text_buffer *out, struct mg_error *err);

#endif /* LIBCORE_DATA_NORMAL_FORM_H */
