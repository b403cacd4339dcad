/* The nearest name to a word that is mistyped. */

#include <string.h>

#include "libcore/base/nearest.h"
#include "tests/tap/tap.h"

static const char *const all[] = { "hidden-size", "ffn-hidden-size", "lr", "min-lr", "seed", "tp",
                                   "num-layers", "num-attention-heads", "a" };

static const char *nearest (const char *word)
{
    struct nearest n;

    nearest_begin (&n, word, strlen (word));
    for (size_t i = 0; i < sizeof (all) / sizeof (all[0]); i++)
        nearest_try (&n, all[i]);
    return n.name ? n.name : "none";
}

int main (void)
{
    static const struct {
        const char *word, *name;
    } rows[] = {
        { "hiden-size", "hidden-size" },        // left out
        { "hidden-sizes", "hidden-size" },      // inserted
        { "hodden-size", "hidden-size" },       // replaced
        { "hiddne-size", "hidden-size" },       // exchanged
        { "num-attn-heads", "none" },           // five edits
        { "num_attention_heads", "num-attention-heads" },
        { "lrr", "lr" },
        { "sede", "seed" },
        { "eeds", "none" },                     // two edits in four letters
        { "tpp", "tp" },
        { "b", "none" },                        // all of a name replaced
        { "", "none" },
        { "bogus", "none" },
    };
    struct nearest n;
    char longest[NEAREST_MAX + 2];

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++)
        is_str (nearest (rows[i].word), rows[i].name, "\"%s\"", rows[i].word);
    memset (longest, 'x', sizeof (longest));
    longest[NEAREST_MAX + 1] = '\0';
    nearest_begin (&n, longest, NEAREST_MAX + 1);
    nearest_try (&n, longest);
    ok (!n.name, "a word that is too long is near to nothing");
    nearest_begin (&n, longest, NEAREST_MAX);
    nearest_try (&n, longest + 1);
    ok (n.name != NULL, "one of full length is itself");
    nearest_begin (&n, "lr=1", 2);
    nearest_try (&n, "lr");
    is_int ((long)n.edits, 0, "a part of a word");
    return done_testing ();
}
