/* documents.c - where documents begin in a sample, against the plain definition */

#include <stdint.h>
#include <stdlib.h>

#include "libcore/data/documents.h"
#include "tests/unit/data/support.h"

enum { EOD = 9, MAX = 12 };

static void test_known (void)
{
    static const struct {
        const char *name;
        int n;
        int32_t tokens[MAX], starts[MAX], positions[MAX];
        float mask[MAX];
    } cases[] = {
        { "one document", 4, { 1, 2, 3, 4 }, { 0 }, { 0, 1, 2, 3 }, { 1, 1, 1, 1 } },
        { "two documents", 5, { 1, 2, EOD, 3, 4 }, { 0, 0, 0, 3, 3 }, { 0, 1, 2, 0, 1 },
          { 1, 1, 0, 1, 1 } },
        { "an end at the beginning", 3, { EOD, 1, 2 }, { 0, 1, 1 }, { 0, 0, 1 }, { 0, 1, 1 } },
        { "an end at the end", 3, { 1, 2, EOD }, { 0, 0, 0 }, { 0, 1, 2 }, { 1, 1, 0 } },
        { "ends alone", 3, { EOD, EOD, EOD }, { 0, 1, 2 }, { 0, 0, 0 }, { 0, 0, 0 } },
        { "one token", 1, { 5 }, { 0 }, { 0 }, { 1 } },
        { "no token", 0, { 0 }, { 0 }, { 0 }, { 0 } },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        const size_t bytes = (size_t)cases[i].n * sizeof (int32_t);
        int32_t starts[MAX], positions[MAX];
        float mask[MAX];

        for (int k = 0; k < MAX; k++)
            mask[k] = 1.f;
        documents_find (cases[i].tokens, cases[i].n, EOD, starts, positions);
        documents_mask_loss (cases[i].tokens, cases[i].n, EOD, mask);
        ok (memcmp (starts, cases[i].starts, bytes) == 0, "%s: starts", cases[i].name);
        ok (memcmp (positions, cases[i].positions, bytes) == 0, "%s: positions", cases[i].name);
        ok (memcmp (mask, cases[i].mask, bytes) == 0, "%s: weights", cases[i].name);
    }
}

/* Megatron-LM's way: behind each end, subtract what the positions before it have counted. */
static void test_subtraction (void)
{
    int wrong = 0;

    srand (3);
    for (int round = 0; round < 500; round++) {
        int32_t tokens[64], starts[64], positions[64], want[64];
        const int n = 1 + rand () % 64;
        int previous = 0;

        for (int i = 0; i < n; i++) {
            tokens[i] = rand () % 4 == 0 ? EOD : rand () % EOD;
            want[i] = i;
        }
        for (int i = 0; i < n; i++) {
            for (int k = i + 1; tokens[i] == EOD && k < n; k++)
                want[k] -= i + 1 - previous;
            if (tokens[i] == EOD)
                previous = i + 1;
        }
        documents_find (tokens, n, EOD, starts, positions);
        for (int i = 0; i < n; i++)
            wrong += positions[i] != want[i] || starts[i] != i - want[i];
    }
    is_int (wrong, 0, "position ids are those of the subtraction");
}

static void test_optional (void)
{
    static const int32_t tokens[] = { 1, EOD, 2 };
    int32_t out[3] = { 0 };

    documents_find (tokens, 3, EOD, NULL, NULL);
    documents_find (tokens, 3, EOD, out, NULL);
    is_int (out[2], 2, "starts alone");
    documents_find (tokens, 3, EOD, NULL, out);
    is_int (out[2], 0, "positions alone");
    documents_find (tokens, 3, -1, NULL, out);
    is_int (out[2], 2, "without a token that ends documents there is one");
}

int main (void)
{
    test_known ();
    test_subtraction ();
    test_optional ();
    return done_testing ();
}
