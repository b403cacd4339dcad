/* pretoken.c - GPT-2's words by PCRE2
 *
 * The pattern is compiled once for each object, with the just-in-time compiler if the process may
 * use it.  Words follow each other without gaps, so that together they are the text.
 */

#define PCRE2_CODE_UNIT_WIDTH 8

#include <errno.h>
#include <pcre2.h>
#include <stdbool.h>
#include <stdlib.h>

#include "libcore/text/pretoken.h"
#include "libcore/text/utf8.h"

static const char pattern[] =
    "'(?:[stmd]|re|ve|ll)"
    "| ?\\p{L}+"
    "| ?\\p{N}+"
    "| ?[^" UTF8_SPACES "\\p{L}\\p{N}]+"
    "|[" UTF8_SPACES "]+(?![^" UTF8_SPACES "])"
    "|[" UTF8_SPACES "]+";

struct pretoken {
    pcre2_code *code;
    pcre2_match_data *match;
    bool jit;
};

static int fail (struct mg_error *err, int code)
{
    PCRE2_UCHAR text[120] = "";

    if (code == PCRE2_ERROR_NOMEMORY)
        return mg_error_set (err, ENOMEM, "pcre2: out of memory");
    pcre2_get_error_message (code, text, sizeof (text));
    return mg_error_set (err, EIO, "pcre2: error %d, %s", code, (const char *)text);
}

struct pretoken *pretoken_create (struct mg_error *err)
{
    struct pretoken *p;
    uint32_t unicode = 0;
    PCRE2_SIZE offset;
    int code;

    if (!(p = calloc (1, sizeof (*p)))) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    pcre2_config (PCRE2_CONFIG_UNICODE, &unicode);
    if (!unicode) {
        mg_error_set (err, ENOTSUP, "the PCRE2 library here was built without Unicode");
        goto error;
    }
    p->code = pcre2_compile ((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                             PCRE2_UTF | PCRE2_ANCHORED, &code, &offset, NULL);
    if (!p->code) {
        fail (err, code);
        goto error;
    }
    if (!(p->match = pcre2_match_data_create (1, NULL))) {
        mg_error_set (err, ENOMEM, "out of memory");
        goto error;
    }
    /* without executable memory there is no compiler, and the interpreter is used */
    p->jit = pcre2_jit_compile (p->code, PCRE2_JIT_COMPLETE) == 0;
    return p;
error:
    pretoken_destroy (p);
    return NULL;
}

void pretoken_destroy (struct pretoken *p)
{
    if (p) {
        int saved_errno = errno;

        pcre2_match_data_free (p->match);
        pcre2_code_free (p->code);
        free (p);
        errno = saved_errno;
    }
}

int pretoken_next (struct pretoken *p, const char *text, size_t size, size_t at,
                   size_t *end, struct mg_error *err)
{
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;

    if (p->jit)
        rc = pcre2_jit_match (p->code, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK,
                              p->match, NULL);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match (p->code, (PCRE2_SPTR)text, size, at,
                          PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, p->match, NULL);
    if (rc < 0)
        return fail (err, rc);
    *end = pcre2_get_ovector_pointer (p->match)[1];
    return 0;
}
