/* The tables of a layer: phases read only what was written, and write it once. */

#include "libcore/nn/block.h"
#include "tests/tap/tap.h"

int main (void)
{
    unsigned known = ACT_BIT (ACT_INPUT), saved = 0, written = 0;

    for (size_t i = 0; i < block_num_phases; i++) {
        const struct block_phase *p = &block_phases[i];

        ok ((p->reads & ~known) == 0, "%s reads what is there", p->name);
        ok (p->fwd != NULL, "%s has a forward pass", p->name);
        ok ((p->writes & known & ~ACT_BIT (ACT_BRANCH)) == 0,
            "%s overwrites nothing but the branch", p->name);
        known |= p->writes;
        written |= p->writes;
    }
    for (int a = 0; a < BLOCK_NUM_ACTS; a++) {
        ok (block_acts[a].name && block_acts[a].count, "tensor %d is described", a);
        if (block_acts[a].life == LIFE_SAVED)
            saved |= ACT_BIT (a);
    }
    is_int (written & saved, saved, "every saved tensor is written");
    ok (written & ACT_BIT (ACT_OUTPUT), "the output is written");
    for (int g = 0; g < BLOCK_NUM_GRADS; g++)
        ok (block_grads[g].name && block_grads[g].count, "gradient %d is described", g);
    return done_testing ();
}
