/* lr - learning rate and weight decay as functions of the samples consumed.
 *
 * The functions are those of Megatron-LM's OptimizerParamScheduler, without its state.
 * All "steps" are samples.  Iteration k uses the value at the number of samples that were
 * consumed before iteration k.
 */
#ifndef LIBCORE_OPTIM_LR_H
#define LIBCORE_OPTIM_LR_H

#include <stdbool.h>
#include <stdint.h>

#include "megatron/error.h"

/* How the learning rate goes from 'max' after the warm-up to 'min' at 'decay' samples. */
enum lr_style {
    LR_CONSTANT,
    LR_LINEAR,
    LR_COSINE,
    LR_INVERSE_SQUARE_ROOT, /* max sqrt (warmup / samples), at least min; then min */
    LR_WSD,                 /* warm-up, stable, decay: max, but for the last samples */
    LR_NUM_STYLES
};

/* How LR_WSD goes from 'max' to 'min' over the last 'wsd_decay' samples. */
enum wsd_style {
    WSD_EXPONENTIAL, /* at the share r of the decay, 2 x 0.5^r - 1 of the way is left */
    WSD_LINEAR,
    WSD_COSINE,
    WSD_MINUS_SQRT, /* at the share r of the decay, 1 - sqrt (r) of the way is left */
    WSD_NUM_STYLES
};

/* How the weight decay goes from 'wd_start' to 'wd_end' at 'wd_incr' samples. */
enum wd_style { WD_CONSTANT, WD_LINEAR, WD_COSINE, WD_NUM_STYLES };

struct lr_config {
    enum lr_style style;
    double init;    /* rate at 0 samples, if there is a warm-up; at most max */
    double max;     /* rate after the warm-up; at least min */
    double min;     /* rate after 'decay' samples; at least 0; unused if constant */
    double warmup;  /* samples of the linear warm-up, 0 (none) up to less than decay; a
                       fraction of the decay need not be whole */
    int64_t decay;  /* samples at which the decay ends, at least 1 */

    enum wd_style wd_style;
    double wd_start, wd_end; /* 0 <= wd_start <= wd_end; equal if constant */
    int64_t wd_incr;         /* at least 1 unless constant */

    enum wsd_style wsd_style;
    int64_t wsd_decay; /* LR_WSD: samples of the decay, at least 1 */

    bool decoupled; /* the word embedding and the output layer have a rate of their own,
                       with another 'max' and 'min' (lr_decoupled_at()) */
    double decoupled_max, decoupled_min;
};

/* 0, or -1, EINVAL and a text that names the value which breaks a rule given above. */
int lr_check (const struct lr_config *config, struct mg_error *err);

/* The schedule to use if a checkpoint was made with another schedule. */
enum lr_prefer {
    LR_WANT_SAME,   /* another schedule is an error */
    LR_PREFER_OWN,  /* the run's schedule */
    LR_PREFER_SAVED /* the checkpoint's schedule */
};

/* Make 'config' the schedule of a run that goes on from a checkpoint made with 'saved',
 * by the rules of Megatron-LM's load_state_dict().  These rules decide about max, min,
 * warmup, decay and style, and about the weight decay.  All other members stay the run's
 * own.  Members that a constant style does not use may differ.  -1, EINVAL and a text
 * that names all differences, or the rule of lr_check() that the result breaks; 'config'
 * is then unchanged.
 */
int lr_resume (struct lr_config *config, const struct lr_config *saved,
               enum lr_prefer prefer, struct mg_error *err);

/* Learning rate and weight decay at 'samples' consumed samples, for a checked config. */
double lr_at (const struct lr_config *config, int64_t samples);
double lr_decoupled_at (const struct lr_config *config, int64_t samples); /* without
                                                                           * 'decoupled',
                                                                           * this is
                                                                           * lr_at() */
double lr_weight_decay_at (const struct lr_config *config, int64_t samples);

/* Convert Megatron-LM's names ("constant", "inverse-square-root", "minus_sqrt") to styles
 * and back.  'what' is the option's name.  The text of a failure begins with 'what' and
 * lists all names.
 */
int lr_style_parse (const char *what, const char *name, enum lr_style *style,
                    struct mg_error *err);
int wd_style_parse (const char *what, const char *name, enum wd_style *style,
                    struct mg_error *err);
int wsd_style_parse (const char *what, const char *name, enum wsd_style *style,
                     struct mg_error *err);
const char *lr_style_name (enum lr_style style);
const char *wsd_style_name (enum wsd_style style);
const char *wd_style_name (enum wd_style style);

#endif /* LIBCORE_OPTIM_LR_H */
