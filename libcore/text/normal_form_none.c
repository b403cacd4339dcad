/* normal_form_none - normal forms of a build without utf8proc: says so */

#include <errno.h>

#include "libcore/text/normal_form.h"

int normal_form_check (struct mg_error *err)
{
    return mg_error_set (err, ENOTSUP, "needs the utf8proc library, which this build lacks: "
                         "configure --with-utf8proc (Debian: libutf8proc-dev)");
}

int normal_form_append (enum normal_form form, const char *text, size_t size,
                        struct text_buffer *out, struct mg_error *err)
{
    (void)form, (void)text, (void)size, (void)out;
    return normal_form_check (err);
}
