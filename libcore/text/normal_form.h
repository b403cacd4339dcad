/* normal_form - Unicode's normal forms, lower case, marks
 *
 * utf8proc's version of Unicode decides which characters exist.  In a build without
 * utf8proc every function fails with errno ENOTSUP.  Texts are valid UTF-8, in which
 * strays are written as in utf8.h; strays do not change.
 */
#ifndef LIBCORE_TEXT_NORMAL_FORM_H
#define LIBCORE_TEXT_NORMAL_FORM_H

#include <stddef.h>

#include "libcore/text/text_buffer.h"
#include "megatron/error.h"

enum normal_form {
    NORMAL_FORM_NFC,
    NORMAL_FORM_NFD,
    NORMAL_FORM_NFKC,
    NORMAL_FORM_NFKD,
    NORMAL_FORM_LOWER, /* each character's full lower case mapping, without context */
    NORMAL_FORM_UNMARK /* all marks (M) are left out */
};

/* Check that this build has the normal forms.  0, or -1 with errno ENOTSUP and a text. */
int normal_form_check (struct mg_error *err);

/* Append the form of a text to 'out'. -1 with errno ENOTSUP, ENOMEM. */
int normal_form_append (enum normal_form form, const char *text, size_t size,
                        struct text_buffer *out, struct mg_error *err);

#endif /* LIBCORE_TEXT_NORMAL_FORM_H */
