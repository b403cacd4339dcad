/* rule.c - report a broken rule */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "libcore/topo/rule.h"

void rule_broken (struct rule_report *r, const char *fmt, ...)
{
    char text[MG_ERROR_MAX];
    va_list ap;

    r->count++;
    if (!r->f)
        return;
    va_start (ap, fmt);
    vsnprintf (text, sizeof (text), fmt, ap);
    va_end (ap);
    r->f (r->arg, r->rule, text);
}

void rule_keep_first (void *arg, const char *rule, const char *text)
{
    struct mg_error *first = arg;

    (void)rule;
    if (!first->text[0])
        mg_error_set (first, EINVAL, "%s", text);
}
