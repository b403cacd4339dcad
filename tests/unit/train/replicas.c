/* replicas - weights that differ are found, on as many ranks as this is started with.
 *
 * The arguments are those of a run; the ranks of "--spoil=RANK,..." get another number in one
 * parameter each, and the last check's text is printed.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/train/replicas.h"
#include "tests/tap/ranks.h"
#include "tests/tap/tap.h"
#include "tests/unit/train/run.h"

/* True if the comma-separated list has the rank. */
static bool has (const char *list, int rank)
{
    for (const char *at = list; at && *at; at = strchr (at, ',') ? strchr (at, ',') + 1 : NULL) {
        if (atoi (at) == rank)
            return true;
    }
    return false;
}

/* Change the last number of the first parameter whose name has 'what'. */
static void spoil (struct run *r, const char *what)
{
    size_t n;
    struct param *p = model_params (r->parts.model, &n);

    for (size_t i = 0; i < n; i++) {
        if (strstr (p[i].name, what)) {
            ((float *)p[i].data)[p[i].numel - 1] += 1;
            return;
        }
    }
    bail_out ("no parameter %s", what);
}

int main (int argc, char **argv)
{
    const char *more[20] = { NULL }, *spoiled = "", *what = "mlp.linear_fc1.weight", *want = NULL;
    struct mg_error err = { "" };
    struct run r;
    int num = 0, rc;

    for (int i = 1; i < argc && num < 19; i++) {
        if (strncmp (argv[i], "--spoil=", 8) == 0)
            spoiled = argv[i] + 8;
        else if (strncmp (argv[i], "--what=", 7) == 0)
            what = argv[i] + 7;
        else if (strncmp (argv[i], "--want=", 7) == 0)
            want = argv[i] + 7;
        else
            more[num++] = argv[i];
    }
    run_create (&r, more);
    rc = replicas_check (r.job, r.parts.model, r.parts.buffers, &err);
    is_int (rc, 0, "initial weights are the same %s", err.text);
    if (has (spoiled, job_rank (r.job)))
        spoil (&r, what);
    rc = replicas_check (r.job, r.parts.model, r.parts.buffers, &err);
    if (!want)
        is_int (rc, 0, "nothing differs that has to be the same %s", err.text);
    else
        ok (rc < 0 && errno == EILSEQ && strstr (err.text, want), "%s", err.text);
    run_destroy (&r);
    return done_testing ();
}
