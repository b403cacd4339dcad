/* context.c - zigzag positions, and the words that name an exchange */

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "libcore/topo/context.h"

static const char *const names[CONTEXT_NUM_COMMS] = {
    [CONTEXT_P2P] = "p2p",
    [CONTEXT_ALL_GATHER] = "all_gather",
    [CONTEXT_A2A] = "a2a",
    [CONTEXT_A2A_P2P] = "a2a+p2p",
};

const char *context_comm_name (enum context_comm comm)
{
    return names[comm];
}

int context_comm_parse (const char *word)
{
    if (strcmp (word, "allgather") == 0) // as Megatron-LM's help spells it
        return CONTEXT_ALL_GATHER;
    for (int i = 0; i < CONTEXT_NUM_COMMS; i++) {
        if (strcmp (word, names[i]) == 0)
            return i;
    }
    return -1;
}

static const char *word_at (const struct context_config *c, int i)
{
    return i == 0 ? c->first : c->rest[i - 1];
}

enum context_comm context_comm_at (const struct context_config *c, int layer)
{
    if (!c->first)
        return CONTEXT_P2P;
    return (enum context_comm)context_comm_parse (word_at (c, c->count > 1 ? layer : 0));
}

int context_inner (const struct context_config *c, enum context_comm comm, int cp)
{
    if (comm == CONTEXT_A2A)
        return cp;
    return comm == CONTEXT_A2A_P2P ? c->inner : 1;
}

int context_levels (const struct context_config *c, int cp)
{
    if (c->inner < 2 || c->inner >= cp)
        return 0;
    for (int i = 0; c->first && i < c->count; i++) {
        if (context_comm_parse (word_at (c, i)) == CONTEXT_A2A_P2P)
            return c->inner;
    }
    return 0;
}

int context_check_words (const struct context_config *c, struct mg_error *err)
{
    for (int i = 0; c->first && i < c->count; i++) {
        if (context_comm_parse (word_at (c, i)) < 0)
            return mg_error_set (err, EINVAL, "--cp-comm-type \"%.80s\": want p2p, all_gather, a2a "
                                 "or a2a+p2p", word_at (c, i));
    }
    return 0;
}

int context_check (const struct context_config *c, int cp, int layers, struct mg_error *err)
{
    bool hierarchy = false;

    if (context_check_words (c, err) < 0)
        return -1;
    for (int i = 0; c->first && i < c->count; i++)
        hierarchy |= context_comm_parse (word_at (c, i)) == CONTEXT_A2A_P2P;
    if (c->first && c->count != 1 && c->count != layers)
        return mg_error_set (err, EINVAL, "--cp-comm-type has %d words, want one, or one for each "
                             "of %d layers", c->count, layers);
    if (c->inner > 0 && (int64_t)c->inner * c->outer != cp)
        return mg_error_set (err, EINVAL, "--hierarchical-context-parallel-sizes %d %d: their "
                             "product is not the context-parallel size %d", c->inner, c->outer,
                             cp);
    if (hierarchy && cp > 1 && c->inner == 0)
        return mg_error_set (err, EINVAL, "--cp-comm-type a2a+p2p wants "
                             "--hierarchical-context-parallel-sizes A2A P2P");
    return 0;
}

int64_t context_position (int cp, int64_t seq, int64_t row)
{
    int64_t own = seq / cp, chunk = own / 2, rank = row / own, at = row % own;

    if (cp == 1)
        return row;
    return at < chunk ? rank * chunk + at : (2 * cp - 1 - rank) * chunk + at - chunk;
}
