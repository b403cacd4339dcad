/* tokens.c - two datasets, PREFIX-all and PREFIX-half, of random tokens
 *
 *     bench/tokens PREFIX VOCABULARY
 *
 * The tokens of the one are below VOCABULARY, those of the other below half of it: in a run
 * that goes on with the second, the upper half of the embedding gets no gradient any more.
 */

#include <stdio.h>
#include <stdlib.h>

#include "libcore/base/rng.h"
#include "libcore/data/indexed.h"

enum { DOCUMENTS = 64, LENGTH = 4096 };

static int write_all (const char *prefix, uint32_t below, struct mg_error *err)
{
    struct indexed_builder *b = indexed_builder_create (prefix, INDEXED_INT32, err);
    int32_t tokens[LENGTH];
    int rc = b ? 0 : -1;

    for (uint32_t d = 0; rc == 0 && d < DOCUMENTS; d++) {
        for (uint32_t i = 0; i < LENGTH; i += 4) {
            uint32_t random[4];

            rng_philox (1, i, d, 0, random);
            for (int j = 0; j < 4; j++)
                tokens[i + (uint32_t)j] = (int32_t)(random[j] % below);
        }
        rc = indexed_builder_append (b, tokens, LENGTH, err);
        if (rc == 0)
            rc = indexed_builder_end_sequence (b, err);
        if (rc == 0)
            rc = indexed_builder_end_document (b, err);
    }
    if (rc == 0)
        rc = indexed_builder_finalize (b, err);
    indexed_builder_destroy (b);
    return rc;
}

int main (int argc, char **argv)
{
    struct mg_error err = { "" };
    char prefix[4096];
    int vocabulary;

    if (argc != 3 || (vocabulary = atoi (argv[2])) < 2) {
        fprintf (stderr, "Usage: bench/tokens PREFIX VOCABULARY\n");
        return 2;
    }
    for (int half = 0; half < 2; half++) {
        snprintf (prefix, sizeof (prefix), "%s-%s", argv[1], half ? "half" : "all");
        if (write_all (prefix, (uint32_t)(half ? vocabulary / 2 : vocabulary), &err) < 0) {
            fprintf (stderr, "bench: %s\n", err.text);
            return 1;
        }
    }
    return 0;
}
