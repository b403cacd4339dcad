/* xent.c - vocabulary-parallel cross entropy in three local passes */

#include <float.h>
#include <math.h>

#include "kernels/cpu/cpu.h"

int cpu_xent_max (const struct kernels *k, const struct kern_xent_max *a,
                  struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
    for (int64_t t = 0; t < a->tokens; t++) {
        float max = -FLT_MAX;

        for (int64_t c = 0; c < a->valid; c++)
            if (a->logits[t * a->cols + c] > max)
                max = a->logits[t * a->cols + c];
        a->max[t] = max;
    }
    return 0;
}

int cpu_xent_sum (const struct kernels *k, const struct kern_xent_sum *a,
                  struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
    for (int64_t t = 0; t < a->tokens; t++) {
        const float *logits = a->logits + t * a->cols;
        int64_t label = a->label[t] - a->first;
        double sum = 0;

        for (int64_t c = 0; c < a->valid; c++)
            sum += expf (logits[c] - a->max[t]);
        a->sum[t] = (float)sum;
        a->target[t] = label >= 0 && label < a->valid ? logits[label] - a->max[t] : 0;
    }
    return 0;
}

int cpu_xent_loss (const struct kernels *k, const struct kern_xent_loss *a,
                   struct mg_stream *stream, struct mg_error *err)
{
    double count = 0, sum = 0, divisor;

    (void)k, (void)stream, (void)err;
    for (int64_t t = 0; t < a->tokens; t++) {
        if (a->mask[t] == 0)
            continue; /* whatever the label there was */
        count += a->mask[t];
        sum += a->mask[t] * (log (a->sum[t]) - a->target[t]);
    }
    divisor = count > 1 ? count : 1;
    for (int64_t t = 0; t < a->tokens; t++)
        a->scale[t] = (float)(a->weight * a->mask[t] / divisor);
    a->out[0] += a->weight * sum / divisor;
    a->out[1] += sum;
    a->out[2] += count;
    return 0;
}

int cpu_xent_bwd (const struct kernels *k, const struct kern_xent_bwd *a,
                  struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
    for (int64_t t = 0; t < a->tokens; t++) {
        float *logits = a->logits + t * a->cols;
        int64_t label = a->label[t] - a->first;

        for (int64_t c = 0; c < a->cols; c++) {
            if (c < a->valid)
                logits[c] = a->scale[t]
                            * (expf (logits[c] - a->max[t]) / a->sum[t]
                               - (c == label ? 1.0f : 0.0f));
            else
                logits[c] = 0;
        }
    }
    return 0;
}
