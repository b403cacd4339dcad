/* layer_check.c - the proof that a specification is whole
 *
 * Three walks over the phases.  The first proves that every tensor is written before it is read,
 * the second that the work which phases leave on side streams is awaited in time.  The third finds
 * the phases that have to run again before each backward half, and proves that everything they read
 * still has its value.
 */

#include <errno.h>
#include <string.h>

#include "libcore/nn/layer.h"

/* --- tensors --- */

/* A phase has no operand that its operation does not know. */
static int check_operands (const struct layer_spec *spec, const struct phase *phase,
                           struct mg_error *err)
{
    for (int i = 0; i < LAYER_MAX_OPERANDS; i++) {
        if (phase->operand[i] != LAYER_NONE && !phase->op->operand[i].name)
            return mg_error_set (err, EINVAL, "%s: %s has operand %d, which %s does not list",
                                 spec->name, phase->name, i, phase->op->name);
    }
    return 0;
}

/* One pass over a phase: tensors that it reads must be known, those that it writes then are. */
static int check_phase (const struct layer_spec *spec, const struct phase *phase, bool forward,
                        bool *known, struct mg_error *err)
{
    int n = layer_num_operands (phase->op);

    for (int write = 0; write < 2; write++) {
        for (int i = 0; i < n; i++) {
            const struct layer_operand *o = &phase->op->operand[i];
            unsigned access = layer_access (phase, i, !forward);
            int t = phase->operand[i];

            if (o->param || t == LAYER_NONE)
                continue;
            if ((access & ~(unsigned)OPERAND_READ) && spec->tensor[t].life == LIFE_BATCH)
                return mg_error_set (err, EINVAL, "%s: %s writes the input %s", spec->name,
                                     phase->name, spec->tensor[t].name);
            if (write)
                known[t] |= (access & OPERAND_WRITE) != 0;
            else if ((access & OPERAND_READ) && !known[t])
                return mg_error_set (err, EINVAL, "%s: %s reads %s %s, which is not there then",
                                     spec->name, phase->name, forward ? "forward" : "backward",
                                     spec->tensor[t].name);
        }
    }
    return 0;
}

/* True if two tensors of a specification share memory. */
static bool same_memory (const struct layer_spec *spec, int a, int b)
{
    const struct layer_tensor *s = &spec->tensor[a], *t = &spec->tensor[b];

    return a == b
           || (s->life == LIFE_SHARED && t->life == LIFE_SHARED && s->gradient == t->gradient
               && strcmp (s->name, t->name) == 0);
}

/* --- side streams --- */

/* The work that a pass over a layer has put on the side streams, and that is not awaited yet. */
struct aside {
    const struct layer_spec *spec;
    const struct phase *left[NN_ALL_SIDES + 1]; /* by the bit of a side stream: the phase whose work
                                                   is not awaited yet; NULL: none */
    bool backward[NN_ALL_SIDES + 1];            /* that phase ran backward */
};

/* True if work that was left on a side stream and a later access to the same memory exclude each
 * other.
 */
static bool collide (unsigned left, unsigned access)
{
    const unsigned writes = OPERAND_WRITE | OPERAND_ADD | OPERAND_SCRATCH;

    return (left & OPERAND_ASIDE)
           && ((left & writes) ? (access & (writes | OPERAND_READ)) != 0 : (access & writes) != 0);
}

/* Check that a phase accesses no memory that the work in 'left' still uses. */
static int check_touch (const struct layer_spec *spec, const struct phase *phase, bool backward,
                        const struct phase *left, bool left_backward, struct mg_error *err)
{
    int n = layer_num_operands (phase->op), m = layer_num_operands (left->op);

    for (int i = 0; i < n * m; i++) {
        unsigned access = layer_access (phase, i / m, backward);
        unsigned work = layer_access (left, i % m, left_backward);
        int t = phase->operand[i / m];

        if (!phase->op->operand[i / m].param && !left->op->operand[i % m].param
            && collide (work, access) && same_memory (spec, t, left->operand[i % m]))
            return mg_error_set (err, EINVAL, "%s: %s uses %s %s before a phase awaits %s",
                                 spec->name, phase->name, backward ? "backward" : "forward",
                                 spec->tensor[t].name, left->name);
    }
    return 0;
}

/* Check that the work that a phase leaves uses an operand: else the table of the operation is not
 * complete.
 */
static int check_starts (const struct layer_spec *spec, const struct phase *phase, bool backward,
                         struct mg_error *err)
{
    for (int i = 0, n = layer_num_operands (phase->op); i < n; i++) {
        if (layer_access (phase, i, backward) & OPERAND_ASIDE)
            return 0;
    }
    return mg_error_set (err, EINVAL, "%s: %s leaves work on the %s stream that uses no operand",
                         spec->name, phase->name,
                         nn_side_text (backward ? phase->op->starts_bwd : phase->op->starts_fwd));
}

/* Check one direction of a phase.  The work that the phase awaits is done first. */
static int leave (struct aside *a, const struct phase *phase, bool backward, struct mg_error *err)
{
    unsigned awaits = backward ? phase->op->awaits_bwd : phase->op->awaits_fwd;
    unsigned starts = backward ? phase->op->starts_bwd : phase->op->starts_fwd;

    for (unsigned side = 1; side < NN_ALL_SIDES; side <<= 1) {
        if (awaits & side)
            a->left[side] = NULL;
        if (a->left[side] && check_touch (a->spec, phase, backward, a->left[side],
                                          a->backward[side], err) < 0)
            return -1;
        if (!(starts & side))
            continue;
        if (a->left[side])
            return mg_error_set (err, EINVAL, "%s: %s leaves work on the %s stream before a phase "
                                 "awaits %s", a->spec->name, phase->name, nn_side_text (side),
                                 a->left[side]->name);
        a->left[side] = phase;
        a->backward[side] = backward;
    }
    return starts ? check_starts (a->spec, phase, backward, err) : 0;
}

/* Check that no work is left that began after 'before'. */
static int check_left (const struct aside *a, const struct aside *before, struct mg_error *err)
{
    for (unsigned side = 1; side < NN_ALL_SIDES; side <<= 1) {
        if (a->left[side] && a->left[side] != before->left[side])
            return mg_error_set (err, EINVAL, "%s: no phase awaits %s, %s", a->spec->name,
                                 a->left[side]->name, a->backward[side] ? "backward" : "forward");
    }
    return 0;
}

/* The forward halves of phases, bits of 'phases'. */
static int check_sides_forward (struct aside *a, uint64_t phases, struct mg_error *err)
{
    const struct aside before = *a;

    for (int i = 0; i < a->spec->num_phases; i++) {
        if ((phases & UINT64_C (1) << i) && leave (a, &a->spec->phase[i], false, err) < 0)
            return -1;
    }
    return check_left (a, &before, err);
}

/* All side streams: forward, and backward with the phases that run again. */
static int check_sides (const struct layer_spec *spec, struct mg_error *err)
{
    const struct aside none = { .spec = spec };
    struct aside a = none;

    if (check_sides_forward (&a, UINT64_MAX, err) < 0)
        return -1;
    if (spec->forward_only)
        return 0;
    for (int i = spec->num_phases; i-- > 0;) {
        if (check_sides_forward (&a, spec->again[i], err) < 0
            || leave (&a, &spec->phase[i], true, err) < 0)
            return -1;
    }
    return check_left (&a, &none, err);
}

/* --- which phases run again? --- */

static bool writes (const struct layer_spec *spec, int phase, int t)
{
    const struct phase *p = &spec->phase[phase];

    for (int i = 0, n = layer_num_operands (p->op); i < n; i++) {
        const struct layer_operand *o = &p->op->operand[i];

        if (!o->param && p->operand[i] == t && (layer_access (p, i, false) & OPERAND_WRITE))
            return true;
    }
    return false;
}

/* The last phase before phase 'end' that writes a tensor forward; -1: none. */
static int writer_before (const struct layer_spec *spec, int t, int end)
{
    while (end-- > 0) {
        if (writes (spec, end, t))
            return end;
    }
    return -1;
}

/* True if, at some time in the backward pass, the tensor still holds its last forward value. */
static bool is_there (const struct layer_spec *spec, const bool *known, int t)
{
    switch (spec->tensor[t].life) {
    case LIFE_SAVED:
    case LIFE_INPUT:
    case LIFE_OUTPUT:
    case LIFE_BATCH:
        return true;
    case LIFE_RECOMPUTED:
        return known[t];
    default:
        return false;
    }
}

/* Add the phases that make tensor 't' what it was before phase 'end' to *again. */
static int make_again (const struct layer_spec *spec, const bool *known, int t, int end,
                       uint64_t *again, struct mg_error *err)
{
    int w = writer_before (spec, t, end), n;
    const struct phase *p;

    if (is_there (spec, known, t)) {
        if (w == writer_before (spec, t, spec->num_phases))
            return 0;
        return mg_error_set (err, EINVAL, "%s: %s cannot run again: %s has changed since",
                             spec->name, spec->phase[end].name, spec->tensor[t].name);
    }
    if (w < 0)
        return mg_error_set (err, EINVAL, "%s: nothing writes %s again", spec->name,
                             spec->tensor[t].name);
    if (*again & UINT64_C (1) << w)
        return 0;
    *again |= UINT64_C (1) << w;
    p = &spec->phase[w];
    n = layer_num_operands (p->op);
    for (int i = 0; i < n; i++) {
        const struct layer_operand *o = &p->op->operand[i];

        if (!o->param && (layer_access (p, i, false) & OPERAND_READ)
            && make_again (spec, known, p->operand[i], w, again, err) < 0)
            return -1;
    }
    return 0;
}

/* Phases that run again leave every tensor that outlives them as the forward pass left it. */
static int check_again (const struct layer_spec *spec, uint64_t again, bool *known,
                        struct mg_error *err)
{
    for (int t = 1; t <= spec->num_tensors; t++) {
        int last = writer_before (spec, t, spec->num_phases);
        bool written = false;

        for (int i = 0; i < spec->num_phases; i++)
            written |= (again & UINT64_C (1) << i) && writes (spec, i, t);
        if (!written || spec->tensor[t].life == LIFE_SHARED)
            continue;
        if (!(again & UINT64_C (1) << last))
            return mg_error_set (err, EINVAL, "%s: %s would have to run again, too: it changes %s",
                                 spec->name, spec->phase[last].name, spec->tensor[t].name);
        known[t] = true;
    }
    return 0;
}

/* Find the phases that run again before the backward half of phase 'i', given the tensors
 * that are valid then. */
static int plan_again (struct layer_spec *spec, int i, bool *known, struct mg_error *err)
{
    const struct phase *p = &spec->phase[i];
    int n = layer_num_operands (p->op);

    spec->again[i] = 0;
    for (int o = 0; o < n; o++) {
        int t = p->operand[o];

        if (p->op->operand[o].param || !(layer_access (p, o, true) & OPERAND_READ)
            || spec->tensor[t].life != LIFE_RECOMPUTED || known[t])
            continue;
        if (make_again (spec, known, t, spec->num_phases, &spec->again[i], err) < 0)
            return -1;
    }
    return check_again (spec, spec->again[i], known, err);
}

/* Find what the forward pass leaves for the backward pass. */
static int keep_known (const struct layer_spec *spec, bool *known, struct mg_error *err)
{
    for (int t = 1; t <= spec->num_tensors; t++) {
        const struct layer_tensor *tensor = &spec->tensor[t];
        enum layer_life life = tensor->life;

        if (!known[t] && (life == LIFE_SAVED || life == LIFE_OUTPUT || life == LIFE_RECOMPUTED))
            return mg_error_set (err, EINVAL, "%s: nothing writes %s", spec->name,
                                 tensor->name);
        known[t] = life == LIFE_GRADIENT
                   || (known[t] && life != LIFE_SHARED && life != LIFE_RECOMPUTED);
    }
    return 0;
}

/* The tensors that are there before the first phase. */
static bool is_given (enum layer_life life)
{
    return life == LIFE_INPUT || life == LIFE_BATCH || life == LIFE_CACHE;
}

int layer_spec_check (struct layer_spec *spec, struct mg_error *err)
{
    bool known[LAYER_MAX_TENSORS + 1] = { false };

    if (spec->full)
        return mg_error_set (err, EINVAL, "%s: more than %d parameters, %d tensors or %d phases",
                             spec->name, LAYER_MAX_PARAMS, LAYER_MAX_TENSORS,
                             LAYER_MAX_PHASES);
    for (int t = 1; t <= spec->num_tensors; t++)
        known[t] = is_given (spec->tensor[t].life);
    for (int i = 0; i < spec->num_phases; i++) {
        if (check_operands (spec, &spec->phase[i], err) < 0
            || check_phase (spec, &spec->phase[i], true, known, err) < 0)
            return -1;
    }
    if (spec->forward_only)
        return check_sides (spec, err);
    if (keep_known (spec, known, err) < 0)
        return -1;
    for (int i = spec->num_phases; i-- > 0;) {
        if (plan_again (spec, i, known, err) < 0
            || check_phase (spec, &spec->phase[i], false, known, err) < 0)
            return -1;
    }
    return check_sides (spec, err);
}
