/* num_microbatches.c - batch sizes that change with the number of consumed samples
 *
 * Every schedule of batch sizes is a list of steps: from so many samples on, the global batch
 * has this size.  A step takes whole iterations: the one that crosses a threshold still has the
 * old size.  All sizes are checked when the list is made.
 */

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/multiple.h"
#include "libcore/base/parse.h"
#include "libcore/optim/num_microbatches.h"

enum { STEPS_MAX = 1 << 20 };

/* What int64_t and double both hold exactly, with room to add. */
static const double number_max = 1e15;

struct step {
    int64_t from, global_batch;
};

struct num_microbatches {
    int micro_batch, dp;
    bool round_down;
    struct step *step;
    size_t count;
};

static int64_t per_round (const struct num_microbatches *n)
{
    return (int64_t)n->micro_batch * n->dp;
}

static int allocate (struct num_microbatches *n, size_t count, struct mg_error *err)
{
    if (!(n->step = calloc (count, sizeof (*n->step))))
        return mg_error_set (err, ENOMEM, "batch size: out of memory for %zu steps",
                             count);
    return 0;
}

/* "1.5K" of 'len' characters, cut to a whole number. */
static int parse_number (const char *text, size_t len, int64_t *out, struct mg_error *err)
{
    static const char suffix[] = "KMBT";
    char number[64];
    double value, unit = 1;
    const char *s;

    if (len == 0 || len >= sizeof (number))
        return mg_error_set (err, EINVAL,
                             "step-batch-size-schedule: \"%.60s\" is no number", text);
    memcpy (number, text, len);
    number[len] = '\0';
    if ((s = strchr (suffix, toupper ((unsigned char)number[len - 1])))) {
        unit = pow (1000, (double)(s - suffix) + 1);
        number[len - 1] = '\0';
    }
    if (parse_double ("step-batch-size-schedule", number, 0, number_max / unit, &value,
                      err)
        < 0)
        return -1;
    *out = (int64_t)(value * unit);
    return 0;
}

/* One "THRESHOLD:SIZE" of 'len' characters. */
static int parse_step (const struct batch_config *c, const char *text, size_t len,
                       struct step *step, struct mg_error *err)
{
    const char *colon = memchr (text, ':', len);

    if (!colon)
        return mg_error_set (err, EINVAL, "step-batch-size-schedule: \"%.*s\" is not "
                             "THRESHOLD:SIZE", len > 40 ? 40 : (int)len, text);
    if (parse_number (text, (size_t)(colon - text), &step->from, err) < 0
        || parse_number (colon + 1, len - (size_t)(colon - text) - 1, &step->global_batch,
                         err) < 0)
        return -1;
    if (step->global_batch < 1)
        return mg_error_set (err, EINVAL,
                             "step-batch-size-schedule: batch size in \"%.*s\" is "
                             "less than 1",
                             len > 40 ? 40 : (int)len, text);
    if (c->seq_length > 0)
        step->from /= c->seq_length;
    return 0;
}

static int by_from (const void *a, const void *b)
{
    const struct step *x = a, *y = b;

    return (x->from > y->from) - (x->from < y->from);
}

static const char separators[] = " \t\n\r\v\f,";

static int read_steps (struct num_microbatches *n, const struct batch_config *c,
                       struct mg_error *err)
{
    size_t most = strlen (c->steps) / 2 + 1;

    if (most > STEPS_MAX)
        return mg_error_set (err, EINVAL, "step-batch-size-schedule is too long");
    if (allocate (n, most, err) < 0)
        return -1;
    for (const char *s = c->steps; *(s += strspn (s, separators));) {
        size_t len = strcspn (s, separators);

        if (parse_step (c, s, len, &n->step[n->count], err) < 0)
            return -1;
        n->count++;
        s += len;
    }
    if (n->count == 0)
        return mg_error_set (err, EINVAL, "step-batch-size-schedule is empty, want "
                             "THRESHOLD:SIZE ...");
    qsort (n->step, n->count, sizeof (*n->step), by_from);
    if (n->step[0].from != 0)
        return mg_error_set (err, EINVAL,
                             "step-batch-size-schedule: the first threshold is "
                             "%" PRId64 " samples, want 0",
                             n->step[0].from);
    for (size_t i = 1; i < n->count; i++) {
        if (n->step[i].from == n->step[i - 1].from)
            return mg_error_set (err, EINVAL,
                                 "step-batch-size-schedule: two thresholds are "
                                 "%" PRId64 " samples",
                                 n->step[i].from);
    }
    return 0;
}

/* The first sample at which the ramp has gone up 'i' times.  The number of times is the rounded
 * quotient of doubles, samples / samples_per_increment, cut to an integer.
 */
static int64_t ramp_from (double samples_per_increment, int64_t i)
{
    int64_t from = (int64_t)floor (samples_per_increment * (double)i);

    while (from > 0 && (int64_t)((double)(from - 1) / samples_per_increment) >= i)
        from--;
    while ((int64_t)((double)from / samples_per_increment) < i)
        from++;
    return from;
}

static int make_ramp (struct num_microbatches *n, const struct batch_config *c,
                      struct mg_error *err)
{
    int64_t way = c->global_batch - c->ramp_start, increments;
    double each;

    if (c->ramp_start < 1 || c->ramp_increment < 1 || c->ramp_samples < 1)
        return mg_error_set (err, EINVAL, "batch size ramp from %" PRId64 " by %" PRId64
                             " over %" PRId64 " samples: want at least 1 of each",
                             c->ramp_start, c->ramp_increment, c->ramp_samples);
    if (way < 1 || way % c->ramp_increment != 0
        || way / c->ramp_increment >= STEPS_MAX || (double)c->ramp_samples > number_max)
        return mg_error_set (err, EINVAL,
                             "batch size ramp from %" PRId64 " by %" PRId64
                             " does not lead to global-batch-size %" PRId64,
                             c->ramp_start, c->ramp_increment, c->global_batch);
    increments = way / c->ramp_increment;
    each = (double)c->ramp_samples / (double)increments;
    if (allocate (n, (size_t)increments + 2, err) < 0)
        return -1;
    for (int64_t i = 0; i <= increments; i++) {
        int64_t from = ramp_from (each, i);

        if (from > c->ramp_samples)
            break;
        if (n->count > 0 && n->step[n->count - 1].from == from)
            n->count--; // more increments than samples
        n->step[n->count++]
            = (struct step){ from, c->ramp_start + i * c->ramp_increment };
    }
    if (n->step[n->count - 1].global_batch < c->global_batch)
        n->step[n->count++] = (struct step){ c->ramp_samples + 1, c->global_batch };
    return 0;
}

static int make_constant (struct num_microbatches *n, const struct batch_config *c,
                          struct mg_error *err)
{
    struct batch_size size;

    if (allocate (n, 1, err) < 0)
        return -1;
    n->step[0].global_batch = c->global_batch;
    n->count = 1;
    num_microbatches_at (n, 0, &size);
    return num_microbatches_check (n, &size, err);
}

static int check_config (const struct batch_config *c, struct mg_error *err)
{
    if (c->micro_batch < 1 || c->dp < 1)
        return mg_error_set (err, EINVAL,
                             "micro-batch-size %d and data-parallel size %d: want "
                             "at least 1 of both",
                             c->micro_batch, c->dp);
    if (c->steps
        && (c->round_down || c->global_batch || c->ramp_start || c->ramp_increment
            || c->ramp_samples))
        return mg_error_set (err, EINVAL,
                             "step-batch-size-schedule excludes global-batch-"
                             "size, rampup-batch-size and decrease-batch-size-if-needed");
    if (!c->steps && (c->global_batch < 1 || (double)c->global_batch > number_max))
        return mg_error_set (err, EINVAL,
                             "global-batch-size is %" PRId64 ", want at least 1",
                             c->global_batch);
    return 0;
}

void num_microbatches_destroy (struct num_microbatches *n)
{
    if (n) {
        int saved_errno = errno;
        free (n->step);
        free (n);
        errno = saved_errno;
    }
}

struct num_microbatches *num_microbatches_create (const struct batch_config *c,
                                                  struct mg_error *err)
{
    struct num_microbatches *n;
    int rc;

    rc = check_config (c, err);
    if (rc < 0)
        return NULL;
    if (!(n = calloc (1, sizeof (*n)))) {
        mg_error_set (err, ENOMEM, "batch size: out of memory");
        return NULL;
    }
    n->micro_batch = c->micro_batch;
    n->dp = c->dp;
    n->round_down = c->round_down;
    if (c->steps)
        rc = read_steps (n, c, err);
    else if (c->ramp_start || c->ramp_increment || c->ramp_samples)
        rc = make_ramp (n, c, err);
    else
        rc = make_constant (n, c, err);
    if (rc < 0) {
        num_microbatches_destroy (n);
        return NULL;
    }
    return n;
}

void num_microbatches_at (const struct num_microbatches *n, int64_t consumed,
                          struct batch_size *size)
{
    size_t low = 0, high = n->count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (n->step[middle].from <= consumed)
            low = middle;
        else
            high = middle;
    }
    size->global_batch = size->running = n->step[low].global_batch;
    size->num_microbatches = size->global_batch / per_round (n);
    if (n->round_down)
        size->running = size->num_microbatches * per_round (n);
}

int num_microbatches_check (const struct num_microbatches *n,
                            const struct batch_size *size, struct mg_error *err)
{
    int64_t samples = size->num_microbatches < 1 ? size->global_batch : size->running;
    char of[80];

    snprintf (of, sizeof (of), "micro-batch-size %d x dp %d = %" PRId64, n->micro_batch, n->dp,
              per_round (n));
    return multiple_check ("global-batch-size", samples, per_round (n), of, "", err);
}

/* Where a run stands. */
struct position {
    int64_t iterations, samples;
};

/* Go on from 'p' until one of the two limits is reached.  A step takes whole iterations: the
 * one that crosses a threshold still has the old size.
 */
static struct position go_on (const struct num_microbatches *n, struct position p,
                              struct position limit)
{
    for (size_t i = 0; i < n->count; i++) {
        int64_t end = i + 1 < n->count ? n->step[i + 1].from : INT64_MAX;
        int64_t left = limit.iterations - p.iterations, take;
        struct batch_size size;

        if (end > limit.samples)
            end = limit.samples;
        if (end <= p.samples)
            continue;
        num_microbatches_at (n, p.samples, &size);
        if (size.running < 1)
            size.running = size.global_batch; // rounded down to nothing
        take = (end - p.samples - 1) / size.running + 1;
        if (take > left)
            take = left;
        p.iterations += take;
        if (__builtin_mul_overflow (take, size.running, &take)
            || __builtin_add_overflow (p.samples, take, &p.samples))
            p.samples = INT64_MAX;
    }
    return p;
}

int64_t num_microbatches_samples (const struct num_microbatches *n, int64_t iterations)
{
    return num_microbatches_after (n, 0, iterations);
}

int64_t num_microbatches_after (const struct num_microbatches *n, int64_t consumed,
                                int64_t iterations)
{
    const struct position from = { 0, consumed }, limit = { iterations, INT64_MAX };

    return go_on (n, from, limit).samples;
}

int64_t num_microbatches_iterations (const struct num_microbatches *n, int64_t samples)
{
    const struct position from = { 0, 0 }, limit = { INT64_MAX, samples };

    return go_on (n, from, limit).iterations;
}

size_t num_microbatches_count (const struct num_microbatches *n)
{
    return n->count;
}

int64_t num_microbatches_from (const struct num_microbatches *n, size_t i)
{
    return n->step[i].from;
}
