/* rule - how the tables of rules tell what is broken. */
#ifndef LIBCORE_TOPO_RULE_H
#define LIBCORE_TOPO_RULE_H

#include "libcore/topo/geometry.h"

/* Whom to tell; the rule that is being checked, and how often any was broken so far. */
struct rule_report {
    geometry_report_f f; /* NULL: only count */
    void *arg;
    const char *rule;
    int count;
};

/* The rule is broken, as the text says. */
void rule_broken (struct rule_report *r, const char *fmt, ...)
    __attribute__ ((format (printf, 2, 3)));

/* A geometry_report_f for a 'struct mg_error' whose text is empty: keep the first report.  The
 * caller sets errno.
 */
void rule_keep_first (void *arg, const char *rule, const char *text);

#endif /* LIBCORE_TOPO_RULE_H */
