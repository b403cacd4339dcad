/* rule - broken rules are counted and reported; the first report of several is kept */

#include <stdio.h>
#include <string.h>

#include "libcore/topo/rule.h"
#include "tests/tap/tap.h"

struct heard {
    char rule[40], text[MG_ERROR_MAX];
    int times;
};

static void hear (void *arg, const char *rule, const char *text)
{
    struct heard *h = arg;

    h->times++;
    snprintf (h->rule, sizeof (h->rule), "%s", rule);
    snprintf (h->text, sizeof (h->text), "%s", text);
}

int main (void)
{
    struct heard heard = { .times = 0 };
    struct rule_report report = { .f = hear, .arg = &heard, .rule = "tp-heads" };
    struct rule_report quiet = { .f = NULL, .rule = "tp-heads" };
    struct mg_error err = { "" };
    char longer[2 * MG_ERROR_MAX];

    rule_broken (&report, "%d does not divide %s", 5, "96");
    ok (report.count == 1 && heard.times == 1, "a broken rule is reported once");
    is_str (heard.rule, "tp-heads", "by its name");
    is_str (heard.text, "5 does not divide 96", "and a text");
    report.rule = "cp";
    rule_broken (&report, "again");
    is_int (report.count, 2, "reports are counted over all rules");
    is_str (heard.rule, "cp", "each has the name of the rule that is checked");
    memset (longer, 'x', sizeof (longer) - 1);
    longer[sizeof (longer) - 1] = '\0';
    rule_broken (&report, "%s", longer);
    ok (strlen (heard.text) < MG_ERROR_MAX && strncmp (heard.text, longer, 20) == 0,
        "a text without end is cut");
    rule_broken (&quiet, "nobody listens");
    is_int (quiet.count, 1, "without a listener rules are counted alone");
    rule_keep_first (&err, "tp-heads", "5 does not divide 96");
    rule_keep_first (&err, "cp", "another one");
    ok (strstr (err.text, "5 does not divide 96") && !strstr (err.text, "another"),
        "of several reports the first is kept: %s", err.text);
    return done_testing ();
}
