/* normal_form - Unicode's normal forms by utf8proc
 *
 * Most text is in its normal form.  A character is plain if, whatever stands around it, it neither
 * changes nor joins the text before it.  Only a mark that follows may change it.  So a text is cut
 * before plain characters, and only pieces with others are given to the library.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <utf8proc.h>

#include "libcore/text/normal_form.h"
#include "libcore/text/utf8.h"

static bool is_stray (uint32_t c)
{
    return c >= 0xd800 && c < 0xe000;
}

/* The character before the finals of Hangul: utf8proc 2.8 takes it for a final, and loses it. */
enum { HANGUL_T_BASE = 0x11a7 };

/* ASCII and CJK ideographs are plain in all forms; in NFC so are Latin, Greek and Cyrillic
 * letters up to U+02FF and from U+0400 to U+0482, Hangul's syllables without a final, and
 * Hiragana and Katakana letters. */
static bool is_plain (enum normal_form form, uint32_t c)
{
    if (c < 0x80 || (c >= 0x4e00 && c <= 0x9fff) || is_stray (c) || c == HANGUL_T_BASE)
        return true;
    if (form != NORMAL_FORM_NFC)
        return false;
    return c < 0x300 || (c >= 0x400 && c <= 0x482) || (c >= 0x3041 && c <= 0x3096)
           || (c >= 0x30a1 && c <= 0x30fa) || (c >= 0xac00 && c <= 0xd7a3);
}

int normal_form_check (struct mg_error *err)
{
    (void)err;
    return 0;
}

static int map_piece (enum normal_form form, const char *text, size_t size,
                      struct text_buffer *out, struct mg_error *err)
{
    static const utf8proc_option_t options[] = {
        [NORMAL_FORM_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [NORMAL_FORM_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [NORMAL_FORM_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [NORMAL_FORM_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    utf8proc_uint8_t *mapped;
    utf8proc_ssize_t n;
    int rc;

    n = utf8proc_map ((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, &mapped,
                      options[form]);
    if (n < 0)
        return mg_error_set (err, n == UTF8PROC_ERROR_NOMEM ? ENOMEM : EINVAL,
                             "utf8proc: %s", utf8proc_errmsg (n));
    rc = text_buffer_append (out, (const char *)mapped, (size_t)n, err);
    free (mapped);
    return rc;
}

static int append_form (enum normal_form form, const char *text, size_t size,
                        struct text_buffer *out, struct mg_error *err)
{
    size_t done = 0; /* bytes of the text that are in 'out' */
    size_t cut = 0;  /* where the last plain character begins */

    for (size_t at = 0; at < size;) {
        size_t n;

        if (is_plain (form, utf8_decode (text + at, &n))) {
            cut = at;
            at += n;
            continue;
        }
        if (is_stray (utf8_decode (text + cut, &n)))
            cut += cut < at ? n : 0; /* a stray takes no mark */
        if (text_buffer_append (out, text + done, cut - done, err) < 0)
            return -1;
        for (; at < size && !is_plain (form, utf8_decode (text + at, &n)); at += n)
            ;
        if (map_piece (form, text + cut, at - cut, out, err) < 0)
            return -1;
        done = cut = at;
    }
    return text_buffer_append (out, text + done, size - done, err);
}

/* The one character whose mapping utf8proc does not know: I with a dot above. */
static int append_lower (const char *text, size_t size, struct text_buffer *out,
                         struct mg_error *err)
{
    size_t n;

    for (size_t at = 0; at < size; at += n) {
        uint32_t c = utf8_decode (text + at, &n);

        if (text_buffer_reserve (out, 2 * UTF8_MAX, err) < 0)
            return -1;
        if (c == 0x130) {
            out->data[out->size++] = 'i';
            c = 0x307;
        } else if (!is_stray (c)) {
            c = (uint32_t)utf8proc_tolower ((utf8proc_int32_t)c);
        }
        out->size += utf8_encode (c, out->data + out->size);
    }
    return 0;
}

static int append_unmarked (const char *text, size_t size, struct text_buffer *out,
                            struct mg_error *err)
{
    size_t n;

    for (size_t at = 0; at < size; at += n) {
        uint32_t c = utf8_decode (text + at, &n);
        utf8proc_category_t kind = is_stray (c) ? UTF8PROC_CATEGORY_CS
                                   : utf8proc_category ((utf8proc_int32_t)c);

        if (kind != UTF8PROC_CATEGORY_MN && kind != UTF8PROC_CATEGORY_MC
            && kind != UTF8PROC_CATEGORY_ME
            && text_buffer_append (out, text + at, n, err) < 0)
            return -1;
    }
    return 0;
}

int normal_form_append (enum normal_form form, const char *text, size_t size,
                        struct text_buffer *out, struct mg_error *err)
{
    if (form == NORMAL_FORM_LOWER)
        return append_lower (text, size, out, err);
    if (form == NORMAL_FORM_UNMARK)
        return append_unmarked (text, size, out, err);
    return append_form (form, text, size, out, err);
}
