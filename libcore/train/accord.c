/* accord.c - ranks agree on failures and on stopping */

#include <errno.h>
#include <string.h>

#include "libcore/comm/exchange.h"
#include "libcore/device/device.h"
#include "libcore/train/accord.h"
#include "libcore/train/output.h"

int accord_common (struct accord *a, int rc)
{
    a->common_error = rc < 0 && (!a->job || device_check (job_device (a->job), NULL) == 0);
    return rc;
}

int accord_agree (struct accord *a, int rc, struct mg_error *err)
{
    return accord_common (a, exchange_agree (job_control (a->job), rc, err));
}

void accord_note_output (struct accord *a, int errnum, const struct mg_error *why)
{
    if (a->output_errno != 0)
        return;
    a->output_errno = errnum;
    a->output_error = *why;
}

void accord_ask_to_stop (struct accord *a, double reasons[ACCORD_NUM_REASONS])
{
    struct mg_error why = { "" };

    if (accord_check_output (a, &why) < 0)
        accord_note_output (a, errno, &why);
    reasons[ACCORD_SIGNAL] = stop_signal (a->stop) != 0;
    reasons[ACCORD_EXPIRED] = stop_expired (a->stop);
    reasons[ACCORD_ASKED] = a->asked;
    reasons[ACCORD_OUTPUT] = a->output_errno != 0;
}

void accord_decide_to_stop (struct accord *a, const double reasons[ACCORD_NUM_REASONS])
{
    bool signals = reasons[ACCORD_SIGNAL] > 0, expired = reasons[ACCORD_EXPIRED] > 0;
    bool asked = reasons[ACCORD_ASKED] > 0;

    a->output_lost |= reasons[ACCORD_OUTPUT] > 0;
    if (a->stopping || (!signals && !expired && !asked && !a->output_lost))
        return;
    a->stopping = true;
    if (job_rank (a->job) != 0 || a->output_lost)
        return;
    if (!signals && !expired)
        fprintf (a->out, "stopping: the program asks for it\n");
    else if (!signals)
        fprintf (a->out, "stopping: --exit-duration-in-mins %g is over\n", a->minutes);
    else if (stop_signal (a->stop))
        fprintf (a->out, "stopping: %s has come\n",
                 stop_signal_name (stop_signal (a->stop)));
    else
        fprintf (a->out, "stopping: a signal has come to another rank\n");
    fflush (a->out);
}

int accord_check_output (struct accord *a, struct mg_error *err)
{
    int errnum = output_error (a->out);

    return errnum == 0 ? 0
                       : mg_error_set (err, errnum, "standard output cannot be written: %s",
                                       strerror (errnum));
}
