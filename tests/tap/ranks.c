/* ranks.c - checks of all ranks, reported by one */

#include <stdarg.h>
#include <stdio.h>

#include "libcore/comm/exchange.h"
#include "tests/tap/ranks.h"
#include "tests/tap/tap.h"

int ranks_meet (struct job_config *config)
{
    struct mg_error err = { "" };

    if (!(config->bootstrap = job_meet (config->comm, config->device, 60, &err)))
        bail_out ("%s", err.text);
    return bootstrap_info (config->bootstrap)->size;
}

struct job *ranks_start (struct job_config *config)
{
    struct mg_error err = { "" };
    struct job *job;

    if (!config->bootstrap)
        ranks_meet (config);
    if (!(job = job_create (config, &err))) {
        fprintf (stderr, "%s\n", err.text);
        bootstrap_abort (config->bootstrap, 1);
    }
    return job;
}

bool ranks_check (struct job *job, bool pass, const char *fmt, ...)
{
    struct mg_error why = { "" };
    char text[200];
    va_list ap;
    int rc;

    va_start (ap, fmt);
    vsnprintf (text, sizeof (text), fmt, ap);
    va_end (ap);
    if (!pass)
        mg_error_set (&why, 1, "rank %d: %s", job_rank (job), text);
    rc = exchange_result (job_control (job), pass ? 0 : -1, &why);
    if (job_rank (job) == 0 && !ok (rc == 0, "%s", text))
        diag ("%s", why.text);
    return rc == 0;
}

int ranks_done (struct job *job)
{
    bool reports = job_rank (job) == 0;

    job_destroy (job);
    return reports ? done_testing () : 0;
}
