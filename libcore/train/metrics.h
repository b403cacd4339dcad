/* metrics - reports of iterations: Megatron-LM's line for people, JSON lines for programs.
 */
#ifndef LIBCORE_TRAIN_METRICS_H
#define LIBCORE_TRAIN_METRICS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "libcore/train/losses.h"
#include "libcore/train/routing.h"
#include "megatron/error.h"

struct metrics_rate {
    double tokens_per_second; /* of the whole job */
    double tflops;            /* 10^12 floating-point operations a second, of one rank */
};

struct metrics {
    int64_t iteration, train_iters; /* from 1 */
    int64_t consumed_samples;
    int64_t global_batch_size;
    double lm_loss;        /* the mean over the tokens of a microbatch, averaged over
                              microbatches and data-parallel ranks */
    double lm_loss_tokens; /* plain mean over tokens */
    int64_t num_zeros;     /* number of zeros in the gradient, -1: not counted */
    bool has_max_logit;    /* attention has reported its largest logit ... */
    double max_logit;      /* ... of all ranks */
    double grad_norm, weight_decay;
    double params_norm;    /* norm of all parameters after the update; below 0: not computed */
    double learning_rate;      /* rate of the next iteration, which Megatron-LM's line has */
    double learning_rate_used; /* rate that the update used, or would have used */
    bool decoupled;            /* word embedding and output layer have other rates: */
    double decoupled_rate, decoupled_rate_used;
    double loss_scale;
    bool skipped;        /* its gradients were not finite: there was no update */
    double milliseconds; /* of this iteration */
    const struct routing *routing; /* of this iteration; NULL: no experts */
    struct losses *losses;         /* of this iteration beside the main one; NULL: none */
    struct metrics_rate rate;
    /* since the last log line */
    double mean_milliseconds;
    double mean_lm_loss; /* of iterations that were not skipped */
    double mean_router_loss[ROUTER_NUM_LOSSES];
    struct metrics_rate mean;
    int64_t num_updates;    /* iterations that were not skipped; 0: a line without losses */
    int64_t num_skipped;
    int64_t num_not_finite; /* iterations whose loss or norm was not finite */
    bool not_finite;        /* the loss or norm of this iteration was not finite */
};

/* Megatron-LM's iteration line (training_log), with a new line: time, loss and rates are
 * means since the last line.  With 'throughput' the line has the rates.
 */
void metrics_print (FILE *out, const struct metrics *m, bool throughput);

/* One JSON object and a new line, numbers with 9 digits (a number that is not finite is
 * null). -1 with a text if it cannot be written.
 */
int metrics_write_json (FILE *file, const char *path, const struct metrics *m,
                        struct mg_error *err);

/* The result of an evaluation. */
struct metrics_evaluation {
    const char *part; /* "validation", "validation-NAME", "test" */
    const char *set;  /* text after the iteration in the line: " on test set", or "" */
    int64_t iteration, consumed_samples; /* of training, so far */
    int64_t samples;
    double lm_loss; /* mean over all tokens */
    double milliseconds;
};

/* Returns the perplexity that Megatron-LM prints: exp (loss), with a loss of at most 20. */
double metrics_perplexity (double lm_loss);

/* Print Megatron-LM's lines of an evaluation (evaluate_and_print_results); write a JSON
 * object. */
void metrics_print_evaluation (FILE *out, const struct metrics_evaluation *m);
int metrics_write_evaluation (FILE *file, const char *path,
                              const struct metrics_evaluation *m, struct mg_error *err);

#endif /* LIBCORE_TRAIN_METRICS_H */
