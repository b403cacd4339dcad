/* regex.c - what Oniguruma's expressions mean here, and those that are refused */

#include <errno.h>
#include <string.h>

#include "libcore/text/regex.h"
#include "libcore/text/text_buffer.h"
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
        { "\\w+", "a_\xc3\xa9\xcc\x81-\xc2\xb2", "<a_\xc3\xa9\xcc\x81><\xc2\xb2>" },
        { "[\\w]+", "a\xc2\xb2", "<a>" }, /* a superscript is in \w outside of a class alone */
        { "\\w+", "a\xe2\x80\x8d" "b", "<a><b>" }, /* nor is a joiner one */
        { "\\W", "a\xc2\xbd\xe2\x80\x8c", "<\xe2\x80\x8c>" },
        { "\\bx", "x e\xcc\x81x -x \xc2\xb2x", "<x><x>" }, /* a mark is part of a word */
        { "x\\B", "xx x", "<x>" },
        { "\\b", "ab", "<><>" },
        { "[\\b]", "b\x08", "<\x08>" },
        { "\\v|[\\v]", "\n\x0b\x0c", "<\x0b>" },
        { "\\d", "1\xd9\xa3\xc2\xb2", "<1><\xd9\xa3>" },
        { "\\h+", "xafGh0", "<af><0>" },
        { "\\p{N}{1,3}", "12345", "<123><45>" },
        { "a{,2}", "aaa", "<aa><a>" },
        { "^b$", "a\nb\nb", "<b><b>" }, /* lines */
        { "a.", "a\nab", "<ab>" },
        { "[[:digit:]a]+", "a1\xd9\xa3g", "<a1\xd9\xa3>" },
        { "[[:xdigit:]]+", "xafGh0", "<af><0>" },
        { "[[:^digit:]]", "1a", "<a>" },
        { "[[:cntrl:]]", "a\x01\xc2\x85", "<\x01><\xc2\x85>" },
        { "[[:ascii:]]+", "a\xc3\x89", "<a>" },
        { "a{2}|{", "aa{", "<aa><{>" },
        { "b{ 1}", "b{ 1}", "<b{ 1}>" },
        { "[]a]", "a]", "<a><]>" },
        { "\\[\\{", "[{", "<[{>" },
        { "\\p{Han}+", "a\xe4\xb8\xad\xe6\x96\x87\xe3\x80\x82", "<\xe4\xb8\xad\xe6\x96\x87>" },
        { "\\p{han}", "\xe4\xb8\xad\xe3\x80\x82", "<\xe4\xb8\xad>" },
        { "\\p{Gujarati}+", "\xe0\xaa\x95\xe0\xa5\xa4", "<\xe0\xaa\x95>" }, /* no danda */
        { "[\\p{Thaana}]", "\xde\x80\xd8\x8c", "<\xde\x80>" }, /* nor Arabic's comma */
        { "\\p{^Thaana}|\\p{^L}", "\xde\x80\xd8\x8c", "<\xd8\x8c>" },
        { "(?i)a|B|\\p{Lu}", "AbC\xc3\xa9", "<A><b><C>" }, /* for the whole */
        { "(?i:a(?:b))|[\\p{Lu}]", "AbaC", "<Ab><C>" }, /* a class where i is over */
        { "(?-i:a)b", "ab", "<ab>" },
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
        { "[a&&]", "an empty class or intersection at byte 4" },
        { "[&&a]", "an intersection with nothing at byte 1" },
        { "(?i)[a&&b]", "an intersection of classes under the option i at byte 6" },
        { "(?i:[a[^b]])", "a negated class inside a class under the option i at byte 6" },
        { "[a-[b]]", "a range without end at byte 2" },
        { "[a-&&b]", "a range without end at byte 2" },
        { "[a[b]", "a class without end at byte 0" },
        { "[[[[[[[[[[[[[[[[[a]]]]]]]]]]]]]]]]]", "too many classes inside one another" },
        { "a{2}+", "a repeat of a count at byte 1" },
        { "a{1,2}?", "a repeat of a count at byte 1" },
        { "a{,}", "a malformed count at byte 1, \"{,}\"" },
        { "a{,,2}", "a malformed count at byte 1" },
        { "[[:alpha:]]", "a class by name other than digit, xdigit, cntrl and ascii at byte 1" },
        { "[x[:^space:]]", "a class by name other than digit, xdigit, cntrl and ascii at byte 2" },
        { "[[:digit]", "a class by name other than digit" },
        { "a\\pL", "a property without braces at byte 1, \"\\pL\"" },
        { "[\\PL]", "a property without braces at byte 1" },
        { "\\p{L", "a property without end at byte 0" },
        { "\\p{Alpha}", "the regular expression is not supported: " },
        { "(?i)[\\p{Lu}]", "a property in a class under the option i at byte 5" },
        { "(?i:(?:a)[^\\p{L}])", "a property in a class under the option i at byte 11" },
        { "a(?i)b|c", "an option for the rest of a group at byte 1" },
        { "(?:(?-i)a)", "an option for the rest of a group at byte 3" },
        { "[\\B]", "an escape inside a class at byte 1" },
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

/* Matches in a text of that many units; -1: not all were found. */
static int count_in_units (const char *pattern, const char *unit, int units)
{
    struct regex *regex = regex_create (pattern, strlen (pattern), NULL);
    struct regex_scratch *scratch = regex_scratch_create (NULL);
    struct text_buffer text = { NULL, 0, 0 };
    struct regex_walk walk = { 0 };
    int rc, n = 0;

    for (int i = 0; i < units; i++)
        text_buffer_append (&text, unit, strlen (unit), NULL);
    regex_scratch_start (scratch, text.size);
    while ((rc = regex_next (regex, scratch, text.data, text.size, &walk, NULL)) > 0)
        n++;
    text_buffer_clear (&text);
    regex_scratch_destroy (scratch);
    regex_destroy (regex);
    return rc < 0 ? -1 : n;
}

/* Each further unit has as many matches as the third, however many windows the text has. */
static void test_windows (void)
{
    static const char *const patterns[] = { "\\w+|\\s+", "a.*?;|[^;]", "\\s+(?!\\S)|\\S+\\b",
                                            "(?<=;)b|b$|[^b]+", "x\\z|\\d|d\xc3\xa9" };
    static const char unit[] = "ab cd\xc3\xa9 e   f;b\n";
    enum { UNITS = 2000 };

    for (size_t i = 0; i < COUNT (patterns); i++) {
        int two = count_in_units (patterns[i], unit, 2);
        int three = count_in_units (patterns[i], unit, 3);

        is_int (count_in_units (patterns[i], unit, UNITS), two + (UNITS - 2) * (three - two), "%s",
                patterns[i]);
    }
}

/* One match that is longer than any window. */
static void test_long_match (void)
{
    struct regex *regex = regex_create ("a+b?", 4, NULL);
    struct regex_scratch *scratch = regex_scratch_create (NULL);
    struct regex_walk walk = { 0 };
    enum { SIZE = 1 << 20 };
    char *text = malloc (SIZE);

    memset (text, 'a', SIZE);
    text[SIZE - 1] = 'b';
    regex_scratch_start (scratch, SIZE);
    ok (regex_next (regex, scratch, text, SIZE, &walk, NULL) == 1 && walk.from == 0
        && walk.to == SIZE, "a match of a megabyte");
    free (text);
    regex_scratch_destroy (scratch);
    regex_destroy (regex);
}

/* Expressions that look through a line at each place: all steps of a text are counted. */
static void test_budget (void)
{
    static const char *const patterns[] = { ".*?x.*?y.*?z|.", "[a-z]*[0-9]|.", "(?=.*z)x|.",
                                            "(?:x|xx)+y|.", ".*?x.*?x.*?x.*?x.*?z|." };
    enum { SIZE = 20000 };
    char *text = malloc (SIZE);

    memset (text, 'x', SIZE);
    for (size_t i = 0; i < COUNT (patterns); i++) {
        struct regex *regex = regex_create (patterns[i], strlen (patterns[i]), NULL);
        struct regex_scratch *scratch = regex_scratch_create (NULL);
        struct mg_error err = { .text = "" };
        struct regex_walk walk = { 0 };
        int rc;

        regex_scratch_start (scratch, SIZE);
        while ((rc = regex_next (regex, scratch, text, SIZE, &walk, &err)) > 0)
            ;
        ok (rc == -1 && errno == EIO && strstr (err.text, "too many steps"), "%s: %s",
            patterns[i], err.text);
        regex_scratch_destroy (scratch);
        regex_destroy (regex);
    }
    free (text);
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
    test_windows ();
    test_long_match ();
    test_budget ();
    test_steps ();
    return done_testing ();
}
