/* regex.c - what Oniguruma's expressions mean here, and those that are refused */

#include <errno.h>
#include <string.h>

#include "libcore/data/regex.h"
#include "tests/unit/data/support.h"

/* The matches of a text, each in angle brackets. */
static void show (const char *pattern, const char *text, char *to, size_t room)
{
    struct mg_error err = { .text = "" };
    struct regex *regex = regex_create (pattern, strlen (pattern), &err);
    struct regex_scratch *scratch = regex_scratch_create (NULL);
    struct regex_walk walk = { 0 };
    size_t used = 0;

    snprintf (to, room, "%s", err.text);
    while (regex && scratch
           && regex_next (regex, scratch, text, strlen (text), &walk, &err) > 0)
        used += (size_t)snprintf (to + used, room - used, "<%.*s>", (int)(walk.to - walk.from),
                                  text + walk.from);
    regex_scratch_destroy (scratch);
    regex_destroy (regex);
}

static void test_matches (void)
{
    static const struct {
        const char *pattern, *text, *want;
    } cases[] = {
        { "a", "banana", "<a><a><a>" },
        { "(?i:'s)", "'S's'\xc5\xbf", "<'S><'s><'\xc5\xbf>" }, /* long s folds to s */
        { "(?i)A", "aA", "<a><A>" },
        { "\\s", "a\xe1\xa0\x8e" "b\xe3\x80\x80", "<\xe3\x80\x80>" }, /* U+180E is no space */
        { "[^\\s]+", "a \xe1\xa0\x8e", "<a><\xe1\xa0\x8e>" },
        { "\\S+", "ab c", "<ab><c>" },
        { "\\w+", "a_\xc3\xa9\xcc\x81-\xc2\xb2", "<a_\xc3\xa9\xcc\x81>" }, /* no superscript */
        { "\\d", "1\xd9\xa3\xc2\xb2", "<1><\xd9\xa3>" },
        { "\\h+", "xafGh0", "<af><0>" },
        { "\\p{N}{1,3}", "12345", "<123><45>" },
        { "a{,2}", "aaa", "<aa><a>" },
        { "^b$", "a\nb\nb", "<b><b>" }, /* lines */
        { "a.", "a\nab", "<ab>" },
        { "[[:upper:]]", "aB\xc3\x89", "<B><\xc3\x89>" },
        { "[]a]", "a]", "<a><]>" },
        { "\\[\\{", "[{", "<[{>" },
        { "\\p{Han}+", "a\xe4\xb8\xad\xe6\x96\x87\xe3\x80\x82", "<\xe4\xb8\xad\xe6\x96\x87>" },
        { "(?=b)", "abab", "<><>" },
        { "b*", "abb", "<><bb>" }, /* none right behind a match */
        { "\\p{L}|\\p{N}|\\s", "\xed\xb3\xbf", "" }, /* a stray byte is none of these */
        { "x++y", "xxy", "<xxy>" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        char have[500];

        show (cases[i].pattern, cases[i].text, have, sizeof (have));
        is_str (have, cases[i].want, "%s", cases[i].pattern);
    }
}

static void test_refused (void)
{
    static const struct {
        const char *pattern, *want;
    } cases[] = {
        { "[a[bc]]", "a class inside a class at byte 2, \"[bc]]\"" },
        { "[a&&b]", "an intersection of classes at byte 2" },
        { "a{2}+", "a repeat of a count at byte 1" },
        { "a{1,2}?", "a repeat of a count at byte 1" },
        { "[\\W]", "an escape inside a class at byte 1" },
        { "\\Ga", "an escape at byte 0" },
        { "(?m:.)", "an option at byte 0" },
        { "(?-x:.)", "an option at byte 0" },
        { "(*UCP)a", "a verb at byte 0" },
        { "(?R)", "a group at byte 0" },
        { "[a", "a class without end at byte 0" },
        { "a\\", "a backslash at its end at byte 1" },
        { "(", "the regular expression is not supported: " },
        { "\\p{Nothing}", "the regular expression is not supported: " },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        const char *pattern = cases[i].pattern;
        struct mg_error err = { .text = "" };

        errno = 0;
        ok (!regex_create (pattern, strlen (pattern), &err) && errno == EINVAL
            && strstr (err.text, cases[i].want), "%s: %s", pattern, err.text);
    }
    regex_destroy (NULL);
    regex_scratch_destroy (NULL);
}

/* What takes too long is an error, not a wait without end. */
static void test_steps (void)
{
    static const char pattern[] = "(?:a*)*b";
    struct regex *regex = regex_create (pattern, strlen (pattern), NULL);
    struct regex_scratch *scratch = regex_scratch_create (NULL);
    struct mg_error err = { .text = "" };
    struct regex_walk walk = { 0 };
    char text[60];
    int rc;

    memset (text, 'a', sizeof (text));
    text[sizeof (text) - 1] = 'c';
    errno = 0;
    rc = regex_next (regex, scratch, text, sizeof (text), &walk, &err);
    ok (rc == 0 || (rc == -1 && errno == EIO && strstr (err.text, "too many steps")),
        "an end is found: %d %s", rc, err.text);
    regex_scratch_destroy (scratch);
    regex_destroy (regex);
}

int main (void)
{
    test_matches ();
    test_refused ();
    test_steps ();
    return done_testing ();
}
