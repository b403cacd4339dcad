/* metrics.c - iteration lines */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "libcore/train/metrics.h"

void metrics_print (FILE *out, const struct metrics *m)
{
    struct timeval now;
    struct tm tm;
    char stamp[32] = "";

    gettimeofday (&now, NULL);
    if (localtime_r (&now.tv_sec, &tm))
        strftime (stamp, sizeof (stamp), "%Y-%m-%d %H:%M:%S", &tm);
    fprintf (out,
             " [%s.%06ld] iteration %8" PRId64 "/%8" PRId64 " | consumed samples: %12" PRId64
             " | elapsed time per iteration (ms): %.1f | learning rate: %.6E"
             " | global batch size: %5" PRId64 " | lm loss: %.6E | loss scale: 1.0"
             " | grad norm: %.3f | number of skipped iterations:   0"
             " | number of nan iterations:   0 |\n",
             stamp, (long)now.tv_usec, m->iteration, m->train_iters, m->consumed_samples,
             m->mean_milliseconds, m->learning_rate, m->global_batch_size, m->lm_loss,
             m->grad_norm);
    fflush (out);
}

static void write_real (FILE *file, const char *name, double value)
{
    if (isfinite (value))
        fprintf (file, ", \"%s\": %.9g", name, value);
    else
        fprintf (file, ", \"%s\": null", name);
}

int metrics_write_json (FILE *file, const char *path, const struct metrics *m,
                        struct mg_error *err)
{
    fprintf (file, "{\"iteration\": %" PRId64 ", \"consumed samples\": %" PRId64
             ", \"global batch size\": %" PRId64, m->iteration, m->consumed_samples,
             m->global_batch_size);
    write_real (file, "lm loss", m->lm_loss);
    write_real (file, "lm loss tokens", m->lm_loss_tokens);
    write_real (file, "grad norm", m->grad_norm);
    write_real (file, "learning rate", m->learning_rate);
    write_real (file, "weight decay", m->weight_decay);
    write_real (file, "elapsed time per iteration (ms)", m->milliseconds);
    fputs ("}\n", file);
    if (fflush (file) != 0)
        return mg_error_set (err, errno, "%s: cannot write metrics: %s", path,
                             strerror (errno));
    return 0;
}
