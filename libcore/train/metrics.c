/* metrics.c - iteration lines
 *
 * Reals in JSON have 9 digits, so that a float32 value is read back as the same; a value that is
 * not finite is null.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "libcore/train/metrics.h"
#include "libcore/train/output.h"

/* Megatron-LM has one digit, enough for a GPU. */
static void print_throughput (FILE *out, const struct metrics_rate *rate)
{
    fprintf (out, " throughput per GPU (TFLOP/s/GPU): %.*f | tokens per second: %.1f |",
             rate->tflops >= 1 ? 1 : 6, rate->tflops, rate->tokens_per_second);
}

void metrics_print (FILE *out, const struct metrics *m, bool throughput)
{
    struct timeval now;
    struct tm tm;
    char stamp[32] = "", zeros[40] = "";

    gettimeofday (&now, NULL);
    if (localtime_r (&now.tv_sec, &tm))
        strftime (stamp, sizeof (stamp), "%Y-%m-%d %H:%M:%S", &tm);
    if (m->num_zeros >= 0)
        snprintf (zeros, sizeof (zeros), " | num zeros: %" PRId64, m->num_zeros);
    fprintf (out,
             " [%s.%06ld] iteration %8" PRId64 "/%8" PRId64 " | consumed samples: %12" PRId64
             " | elapsed time per iteration (ms): %.1f |", stamp, (long)now.tv_usec,
             m->iteration, m->train_iters, m->consumed_samples, m->mean_milliseconds);
    if (throughput)
        print_throughput (out, &m->mean);
    fprintf (out,
             " learning rate: %.6E | global batch size: %5" PRId64 " |", m->learning_rate,
             m->global_batch_size);
    if (m->num_updates > 0)
        fprintf (out, " lm loss: %.6E |", m->mean_lm_loss);
    for (int i = 0; m->routing && i < ROUTER_NUM_LOSSES; i++) {
        if (m->routing->has[i])
            fprintf (out, " %s: %.6E |", routing_loss_names[i], m->mean_router_loss[i]);
    }
    for (int k = 0; m->num_updates > 0 && m->losses && k < m->losses->n; k++) {
        fprintf (out, " %s: %.6E |", m->losses->row[k].name, m->losses->mean[k]);
    }
    fprintf (out, " loss scale: %.1f |", m->loss_scale);
    if (!m->skipped)
        fprintf (out, " grad norm: %.3f%s |", m->grad_norm, zeros);
    if (m->params_norm >= 0)
        fprintf (out, " params norm: %.3f |", m->params_norm);
    fprintf (out,
             " number of skipped iterations: %3" PRId64
             " | number of nan iterations: %3" PRId64 " |\n",
             m->num_skipped, m->num_not_finite);
    fflush (out);
}

static int end_line (FILE *file, const char *path, struct mg_error *err)
{
    fputs ("}\n", file);
    if (fflush (file) != 0)
        return mg_error_set (err, errno, "%s: cannot write metrics: %s", path,
                             strerror (errno));
    return 0;
}

int metrics_write_json (FILE *file, const char *path, const struct metrics *m,
                        struct mg_error *err)
{
    fprintf (file, "{\"iteration\": %" PRId64 ", \"consumed samples\": %" PRId64
             ", \"global batch size\": %" PRId64, m->iteration, m->consumed_samples,
             m->global_batch_size);
    output_write_real (file, "lm loss", m->lm_loss);
    output_write_real (file, "lm loss tokens", m->lm_loss_tokens);
    output_write_real (file, "grad norm", m->grad_norm);
    if (m->num_zeros >= 0)
        fprintf (file, ", \"num zeros\": %" PRId64, m->num_zeros);
    if (m->has_max_logit)
        output_write_real (file, "max_attention_logit", m->max_logit);
    if (m->params_norm >= 0)
        output_write_real (file, "params norm", m->params_norm);
    output_write_real (file, "loss scale", m->loss_scale);
    fprintf (file, ", \"skipped\": %s", m->skipped ? "true" : "false");
    output_write_real (file, "learning rate", m->learning_rate);
    output_write_real (file, "learning rate used", m->learning_rate_used);
    if (m->decoupled) {
        output_write_real (file, "decoupled learning rate", m->decoupled_rate);
        output_write_real (file, "decoupled learning rate used", m->decoupled_rate_used);
    }
    output_write_real (file, "weight decay", m->weight_decay);
    output_write_real (file, "elapsed time per iteration (ms)", m->milliseconds);
    output_write_real (file, "tokens per second", m->rate.tokens_per_second);
    output_write_real (file, "throughput per GPU (TFLOP/s/GPU)", m->rate.tflops);
    for (int i = 0; m->routing && i < ROUTER_NUM_LOSSES; i++) {
        if (m->routing->has[i])
            output_write_real (file, routing_loss_names[i], m->routing->loss[i]);
    }
    for (int k = 0; m->losses && k < m->losses->n; k++)
        output_write_real (file, m->losses->row[k].name, m->losses->now[k]);
    if (m->routing)
        routing_write_json (file, m->routing);
    return end_line (file, path, err);
}

/* --- evaluations --- */

double metrics_perplexity (double lm_loss)
{
    return exp (lm_loss > 20 ? 20 : lm_loss);
}

void metrics_print_evaluation (FILE *out, const struct metrics_evaluation *m)
{
    char line[384], rule[384];
    bool test = strcmp (m->part, "test") == 0; // whose line has the other name, as Megatron-LM's
    int len = snprintf (line, sizeof (line),
                        " %s loss at iteration %" PRId64 "%s | lm loss value: %.6E"
                        " | lm loss PPL: %.6E | ", test ? "validation" : m->part,
                        m->iteration, m->set, m->lm_loss, metrics_perplexity (m->lm_loss));

    memset (rule, '-', sizeof (rule));
    rule[len + 1 < (int)sizeof (rule) ? len + 1 : (int)sizeof (rule) - 1] = '\0';
    fprintf (out, "%s\n%s\n%s\n", rule, line, rule);
    fflush (out);
}

int metrics_write_evaluation (FILE *file, const char *path,
                              const struct metrics_evaluation *m, struct mg_error *err)
{
    fprintf (file, "{\"evaluation\": \"%s\", \"iteration\": %" PRId64
             ", \"consumed samples\": %" PRId64 ", \"samples\": %" PRId64, m->part,
             m->iteration, m->consumed_samples, m->samples);
    output_write_real (file, "lm loss value", m->lm_loss);
    output_write_real (file, "lm loss PPL", metrics_perplexity (m->lm_loss));
    output_write_real (file, "elapsed time (ms)", m->milliseconds);
    return end_line (file, path, err);
}
