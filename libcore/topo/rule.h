/* rule - how the tables of rules report broken rules. */
#ifndef LIBCORE_TOPO_RULE_H
#define LIBCORE_TOPO_RULE_H

#include "libcore/topo/geometry.h"

/* The function that reports go to, the rule that is being checked, and the number of
 * broken rules so far. */
struct rule_report {
    geometry_report_f f; /* NULL: only count */
    void *arg;
    const char *rule;
    int count;
};

/* Report that the rule is broken, with a text. */
void rule_broken (struct rule_report *r, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));

/* A geometry_report_f whose argument is a 'struct mg_error' with an empty text.  It keeps
 * the first report.  The caller sets errno.
 */
void rule_keep_first (void *arg, const char *rule, const char *text);

#endif /* LIBCORE_TOPO_RULE_H */
