/* adder.c - stages that add numbers, orders of passes for tests */

#include <stdlib.h>

#include "tests/tap/tap.h"
#include "tests/unit/schedule/adder.h"

static int stage_of (const struct adder *a, int chunk)
{
    return chunk * a->schedule->shape.pp + a->schedule->shape.rank;
}

static int last_stage (const struct adder *a)
{
    return a->schedule->shape.pp * a->schedule->chunks - 1;
}

/* What the model is given. */
static int64_t number (int iteration, int microbatch, int i)
{
    return iteration * 1000000 + microbatch * 1000 + i;
}

/* What is added by the stages from 'first' to 'last'. */
static int64_t added (int first, int last)
{
    int64_t sum = 0;

    for (int g = first; g <= last; g++)
        sum += g + 1;
    return sum;
}

int64_t *adder_buffer (struct adder *a, enum sched_buffer which, int chunk, int slot)
{
    return a->buffer[which][a->schedule->pool[chunk]][slot];
}

void adder_forward (struct adder *a, const struct sched_step *step, int iteration)
{
    int g = stage_of (a, step->chunk);
    int64_t *in = adder_buffer (a, SCHED_INPUT, step->chunk, step->slot);
    int64_t *out = adder_buffer (a, SCHED_OUTPUT, step->chunk, step->slot);

    for (int i = 0; i < ADDER_NUMBERS; i++) {
        int64_t x = number (iteration, step->microbatch, i);

        if (g == 0)
            in[i] = x;
        a->wrong += in[i] != x + added (0, g - 1);
        out[i] = in[i] + g + 1;
    }
    a->passes++;
}

void adder_backward (struct adder *a, const struct sched_step *step, int iteration)
{
    int g = stage_of (a, step->chunk), last = last_stage (a);
    int64_t *in = adder_buffer (a, SCHED_INPUT, step->chunk, step->slot);
    int64_t *grad = adder_buffer (a, SCHED_GRADIENT, step->chunk, step->slot);

    for (int i = 0; i < ADDER_NUMBERS; i++) {
        int64_t x = number (iteration, step->microbatch, i);

        if (g == last)
            grad[i] = -x;
        a->wrong += grad[i] != -x + 10 * added (g + 1, last);
        a->wrong += in[i] != x + added (0, g - 1);
        in[i] = -1; // a second use shows
        grad[i] += 10 * (g + 1);
    }
    a->passes++;
}

/* Interleaved (Narayanan et al. 2021, section 2.2): groups of pp microbatches go through
 * one chunk after the other; backward the chunks come in reverse.
 */
static struct sched_pass *order_interleaved (const struct sched_shape *shape, int chunks,
                                             size_t *n)
{
    int pp = shape->pp, total = shape->microbatches * chunks;
    int warmup = (pp - shape->rank - 1) * 2 + (chunks - 1) * pp;
    struct sched_pass *table = calloc (total, sizeof (*table));
    struct sched_pass *pass = calloc (2 * (size_t)total, sizeof (*pass)), *p = pass;
    int k = 0;

    if (!table || !pass)
        bail_out ("out of memory");
    for (int g = 0; g < shape->microbatches; g += pp) {
        for (int c = 0; c < chunks; c++) {
            for (int m = g; m < g + pp && m < shape->microbatches; m++)
                table[k++] = (struct sched_pass){ false, m, c };
        }
    }
    if (warmup > total || shape->forward_only)
        warmup = total;
    for (int i = 0; i < total + warmup; i++) {
        if (i < total)
            *p++ = table[i];
        if (i >= warmup && !shape->forward_only) {
            *p = table[i - warmup];
            p->chunk = chunks - 1 - p->chunk;
            p->backward = true;
            p++;
        }
    }
    free (table);
    *n = (size_t)(p - pass);
    return pass;
}

static struct sched_pass *order_two (const struct sched_kind *kind,
                                     const struct sched_shape *shape, size_t *n,
                                     struct mg_error *err)
{
    (void)kind, (void)err;
    return order_interleaved (shape, 2, n);
}

static struct sched_pass *order_three (const struct sched_kind *kind,
                                       const struct sched_shape *shape, size_t *n,
                                       struct mg_error *err)
{
    (void)kind, (void)err;
    return order_interleaved (shape, 3, n);
}

/* One microbatch after the other through all three chunks of one rank, and back. */
static struct sched_pass *order_chunks (const struct sched_shape *shape, bool late,
                                        size_t *n)
{
    struct sched_pass *pass = calloc (6 * (size_t)shape->microbatches, sizeof (*pass));
    struct sched_pass *p = pass;

    if (!pass)
        bail_out ("out of memory");
    for (int m = 0; m < shape->microbatches; m++) {
        for (int c = 0; c < 3; c++)
            *p++ = (struct sched_pass){ false, m, c };
        for (int c = 2; c >= 0 && !late; c--)
            *p++ = (struct sched_pass){ true, m, c };
    }
    for (int m = 0; m < shape->microbatches && late; m++) {
        for (int c = 2; c >= 0; c--)
            *p++ = (struct sched_pass){ true, m, c };
    }
    *n = (size_t)(p - pass);
    return pass;
}

static struct sched_pass *order_at_once (const struct sched_kind *kind,
                                         const struct sched_shape *shape, size_t *n,
                                         struct mg_error *err)
{
    (void)kind, (void)err;
    return order_chunks (shape, false, n);
}

static struct sched_pass *order_late (const struct sched_kind *kind,
                                      const struct sched_shape *shape, size_t *n,
                                      struct mg_error *err)
{
    (void)kind, (void)err;
    return order_chunks (shape, true, n);
}

const struct sched_kind test_kinds[NUM_KINDS] = {
    [KIND_TWO_CHUNKS] = { .name = "two chunks", .chunks = 2, .order = order_two },
    [KIND_THREE_CHUNKS] = { .name = "three chunks", .chunks = 3, .order = order_three },
    [KIND_AT_ONCE] = { .name = "at once", .chunks = 3, .order = order_at_once },
    [KIND_LATE] = { .name = "late", .chunks = 3, .order = order_late },
};

static struct schedule *make (const struct sched_kind *kind, const struct sched_shape *shape,
                              bool pooled)
{
    int pool[ADDER_CHUNKS] = { 0 };
    struct mg_error err;
    struct schedule *s;

    if (shape->rank == shape->pp - 1)
        pool[kind->chunks - 1] = kind->chunks > 1;
    if (!(s = schedule_create_pooled (kind, shape, pooled ? pool : NULL, &err)))
        bail_out ("%s", err.text);
    return s;
}

struct schedule *make_pooled (const struct sched_kind *kind, int pp, int rank,
                              int microbatches, bool forward_only)
{
    const struct sched_shape shape = { pp, rank, microbatches, .forward_only = forward_only };

    return make (kind, &shape, true);
}

struct schedule *make_schedule (const struct sched_kind *kind, int pp, int rank,
                                int microbatches, bool forward_only)
{
    const struct sched_shape shape = { pp, rank, microbatches, .forward_only = forward_only };

    return make (kind, &shape, false);
}

struct schedule *make_grouped (const struct sched_kind *kind, int pp, int rank, int microbatches,
                               bool forward_only, bool pooled)
{
    const struct sched_shape shape = { pp, rank, microbatches, .forward_only = forward_only,
                                       .grouped = true };

    return make (kind, &shape, pooled);
}

void set_create (struct set *set, const struct sched_kind *kind, int pp, int microbatches,
                 bool forward_only, bool pooled)
{
    set->pp = pp;
    for (int r = 0; r < pp; r++)
        set->all[r] = (pooled ? make_pooled : make_schedule) (kind, pp, r, microbatches,
                                                              forward_only);
}

void set_create_grouped (struct set *set, const struct sched_kind *kind, int pp, int microbatches,
                         bool forward_only, bool pooled)
{
    set->pp = pp;
    for (int r = 0; r < pp; r++)
        set->all[r] = make_grouped (kind, pp, r, microbatches, forward_only, pooled);
}

void set_destroy (struct set *set)
{
    for (int r = 0; r < set->pp; r++)
        schedule_destroy (set->all[r]);
}

size_t find_step (const struct schedule *s, enum sched_op op, int microbatch)
{
    for (size_t i = 0; i < s->nsteps; i++) {
        if (s->step[i].op == op && s->step[i].microbatch == microbatch)
            return i;
    }
    bail_out ("no %s of microbatch %d", sched_op_names[op], microbatch);
}
