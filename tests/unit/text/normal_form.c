/* normal_form.c - normal forms of texts that are cut into plain and other pieces */

#include <string.h>

#include "libcore/text/normal_form.h"
#include "tests/unit/data/support.h"

static void test_forms (void)
{
    static const struct {
        enum normal_form form;
        const char *text, *want;
    } cases[] = {
        { NORMAL_FORM_NFC, "", "" },
        { NORMAL_FORM_NFC, "plain", "plain" },
        { NORMAL_FORM_NFC, "caf" "e\xcc\x81 e\xcc\x81", "caf\xc3\xa9 \xc3\xa9" },
        { NORMAL_FORM_NFC, "\xcc\x81" "e", "\xcc\x81" "e" },       /* a mark on nothing */
        { NORMAL_FORM_NFC, "e\xcc\x81\xcc\xa3", "\xe1\xba\xb9\xcc\x81" }, /* marks in order */
        { NORMAL_FORM_NFC, "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c" },
        { NORMAL_FORM_NFC, "\xed\x95\x98\xe1\x86\xab", "\xed\x95\x9c" },   /* and a final */
        { NORMAL_FORM_NFC, "\xed\x95\x98\xe1\x86\xa7", "\xed\x95\x98\xe1\x86\xa7" }, /* none */
        { NORMAL_FORM_NFC, "\xed\xb3\xbf\xcc\x81", "\xed\xb3\xbf\xcc\x81" }, /* a stray byte */
        { NORMAL_FORM_NFC, "e\xed\xb3\xbf\xcc\x81", "e\xed\xb3\xbf\xcc\x81" },
        { NORMAL_FORM_NFC, "\xe2\x84\xab\xef\xac\x81", "\xc3\x85\xef\xac\x81" },
        { NORMAL_FORM_NFKC, "\xe2\x84\xab\xef\xac\x81", "\xc3\x85" "fi" },
        { NORMAL_FORM_NFD, "x\xc3\xa9y", "xe\xcc\x81y" },
        { NORMAL_FORM_NFKD, "\xc2\xbd\xc3\xa9", "1\xe2\x81\x84" "2e\xcc\x81" },
        { NORMAL_FORM_LOWER, "AB\xc3\x89\xce\xa3\xed\xb3\xbf", "ab\xc3\xa9\xcf\x83\xed\xb3\xbf" },
        { NORMAL_FORM_LOWER, "\xc4\xb0", "i\xcc\x87" },
        { NORMAL_FORM_UNMARK, "e\xcc\x81x\xed\xb3\xbf", "ex\xed\xb3\xbf" },
    };
    struct text_buffer out = { NULL, 0, 0 };

    for (size_t i = 0; i < COUNT (cases); i++) {
        out.size = 0;
        ok (normal_form_append (cases[i].form, cases[i].text, strlen (cases[i].text), &out,
                                NULL) == 0 && out.size == strlen (cases[i].want)
            && (out.size == 0 || memcmp (out.data, cases[i].want, out.size) == 0),
            "case %zu", i);
    }
    text_buffer_clear (&out);
}

int main (void)
{
    struct mg_error err = { .text = "" };

    if (normal_form_check (&err) < 0)
        skip (1, "%s", err.text);
    else
        test_forms ();
    return done_testing ();
}
