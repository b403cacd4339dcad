/* rule.c - tell that a rule is broken */

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
