/* sched_interleaved.c - one forward, one backward over several model chunks a rank
 *
 * Every rank walks one table of (microbatch, chunk): a group of microbatches through the
 * first chunk, the same group through the next chunk, and so on, then the next group.
 * Backward passes walk the same table with the chunks in reverse.  The warm-up is long
 * enough that the first gradient is there when the steady state begins: section 2.2 of
 * Narayanan et al. (2021), with the group's size as a parameter of its own, as in
 * Megatron-LM (get_schedule_table, get_pp_rank_microbatches).
 */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "libcore/schedule/schedule.h"

/* The rules of topo/margs_check.c once more: batch sizes that change during a run are not known
 * there, and this folder depends on no other.
 */
static int check_interleaved (const struct sched_kind *kind,
                              const struct sched_shape *shape, struct mg_error *err)
{
    int group = kind->group, count = shape->microbatches, rest;

    if (shape->pp < 2 || kind->chunks < 2)
        return mg_error_set (
            err, EINVAL,
            "interleaved schedule: pipeline of %d ranks, %d virtual stages "
            "on each; want at least 2 of both",
            shape->pp, kind->chunks);
    if (count < shape->pp)
        return mg_error_set (
            err, EINVAL,
            "interleaved schedule: %d microbatches are fewer than the %d "
            "pipeline ranks",
            count, shape->pp);
    if (group < shape->pp || group > count)
        return mg_error_set (
            err, EINVAL,
            "interleaved schedule: microbatch group size %d, want %d (the "
            "pipeline ranks) to %d (the microbatches)",
            group, shape->pp, count);
    rest = count % group;
    if (rest > 0 && rest < shape->pp)
        return mg_error_set (
            err, EINVAL,
            "interleaved schedule: %d microbatches in groups of %d leave %d, "
            "want none or at least %d (the pipeline ranks); use %d or %d "
            "microbatches",
            count, group, rest, shape->pp, count - rest, count - rest + shape->pp);
    return 0;
}

static int64_t total_passes (const struct sched_kind *kind,
                             const struct sched_shape *shape)
{
    return (int64_t)shape->microbatches * kind->chunks;
}

static int warmup_interleaved (const struct sched_kind *kind,
                               const struct sched_shape *shape)
{
    int64_t total = total_passes (kind, shape);
    int64_t warmup = 2 * ((int64_t)shape->pp - shape->rank - 1)
                     + ((int64_t)kind->chunks - 1) * kind->group;

    return (int)(shape->forward_only || warmup > total ? total : warmup);
}

/* The i-th row of the table, in closed form. */
static struct sched_pass row (const struct sched_kind *kind,
                              const struct sched_shape *shape, int64_t i, bool backward)
{
    int64_t whole = (int64_t)kind->group * kind->chunks;
    int64_t first = i / whole * kind->group; // of the group
    int64_t size = shape->microbatches - first;

    if (size > kind->group)
        size = kind->group;
    i -= first * kind->chunks;
    return (struct sched_pass){
        .backward = backward,
        .microbatch = (int)(first + i % size),
        .chunk = (int)(backward ? kind->chunks - 1 - i / size : i / size),
    };
}

static struct sched_pass *order_interleaved (const struct sched_kind *kind,
                                             const struct sched_shape *shape, size_t *n,
                                             struct mg_error *err)
{
    int64_t total = total_passes (kind, shape);
    int64_t warmup = warmup_interleaved (kind, shape);
    int64_t npasses = shape->forward_only ? total : 2 * total;
    struct sched_pass *pass, *p;

    if (total > INT32_MAX || !(pass = calloc ((size_t)npasses, sizeof (*pass)))) {
        mg_error_set (err, ENOMEM, "interleaved schedule: out of memory for %lld passes",
                      (long long)npasses);
        return NULL;
    }
    p = pass;
    for (int64_t i = 0; i < warmup; i++)
        *p++ = row (kind, shape, i, false);
    for (int64_t i = warmup; i < total; i++) {
        *p++ = row (kind, shape, i, false);
        *p++ = row (kind, shape, i - warmup, true);
    }
    for (int64_t i = total - warmup; i < total && !shape->forward_only; i++)
        *p++ = row (kind, shape, i, true);
    *n = (size_t)npasses;
    return pass;
}

struct sched_kind sched_interleaved (int chunks, int group)
{
    return (struct sched_kind){
        .name = "interleaved",
        .chunks = chunks,
        .group = group,
        .check = check_interleaved,
        .warmup = warmup_interleaved,
        .order = order_interleaved,
    };
}
