/* context - how a sequence is split over context-parallel ranks, and which exchange their
 * attention uses.
 *
 * A sequence is cut into 2 cp chunks of one length.  Rank r has chunks r and 2 cp - 1 - r, in this
 * order: under a causal mask, all ranks then have the same amount of work (Megatron-LM's
 * zigzag).
 *
 * Queries need the keys and values of other ranks.  There are four exchanges, by Megatron-LM's
 * names:
 *
 *   p2p  keys and values go round the ranks; while a rank receives the keys and values of
 *               one rank, it computes the attention to the keys and values that it
 *               received before (Liu et al. 2023)
 *   all_gather  every rank gathers the keys and values of the whole sequence
 *   a2a         the heads are dealt out, and every rank has the whole sequence of its heads
 *               (Jacobs et al. 2023)
 *   a2a+p2p  the heads are dealt out among 'inner' neighbouring ranks, and keys and
 *               values go round between such neighbourhoods (Fang, Zhao 2024)
 *
 * Pure arithmetic over integers and words.
 */
#ifndef LIBCORE_TOPO_CONTEXT_H
#define LIBCORE_TOPO_CONTEXT_H

#include <stdint.h>

#include "megatron/error.h"

enum context_comm {
    CONTEXT_P2P,
    CONTEXT_ALL_GATHER,
    CONTEXT_A2A,
    CONTEXT_A2A_P2P,
    CONTEXT_NUM_COMMS
};

/* The exchanges of the layers, by their names.  The caller owns the strings, which must
 * outlive the structure.
 */
struct context_config {
    const char *first;  /* exchange of layer 0, or of all layers; NULL: p2p in all layers */
    char *const *rest;  /* exchanges of the other layers */
    int count;          /* number of names */
    int inner, outer;   /* sizes of the two levels of CONTEXT_A2A_P2P; 0: not given */
};

/* Returns the name of an exchange. */
const char *context_comm_name (enum context_comm comm);

/* Returns the exchange of a name, or -1 if no exchange has it.  "allgather" is all_gather. */
int context_comm_parse (const char *word);

/* Check that every word is a name.  0, or -1, EINVAL and a text. */
int context_check_words (const struct context_config *c, struct mg_error *err);

/* Check the words and sizes for 'layers' layers on 'cp' ranks: every word is a name, the
 * number of words is 1 or 'layers', and the product of the sizes is cp.  CONTEXT_A2A_P2P
 * needs sizes.  0, or -1, EINVAL and a text that names the argument.
 */
int context_check (const struct context_config *c, int cp, int layers, struct mg_error *err);

/* Returns the exchange of layer number 'layer', from 0.  The configuration has been checked. */
enum context_comm context_comm_at (const struct context_config *c, int layer);

/* Returns the number of ranks among which an exchange deals out the heads, 1 if it does
 * not deal out heads. */
int context_inner (const struct context_config *c, enum context_comm comm, int cp);

/* Returns the number of ranks of the first level if some layer needs both levels, and
 * each level is a part of the 'cp' ranks; else 0.
 */
int context_levels (const struct context_config *c, int cp);

/* Returns the position in the sequence of a row.  Rows are counted over all ranks, rank 0
 * first, and the sequence has 'seq' rows.  With cp 1 the position is the row.
 */
int64_t context_position (int cp, int64_t seq, int64_t row);

#endif /* LIBCORE_TOPO_CONTEXT_H */
