/* fuzzer.c - libFuzzer's side: the harness that $FUZZ_TARGET names gets every input */

#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

/* Called by libFuzzer, which declares them nowhere. */
int LLVMFuzzerInitialize (int *argc, char ***argv);
int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

int LLVMFuzzerInitialize (int *argc, char ***argv)
{
    const char *name = getenv ("FUZZ_TARGET");

    (void)argc, (void)argv;
    if (!name || !fuzz_find (name)) {
        fprintf (stderr, "fuzzer: FUZZ_TARGET names no harness\n");
        exit (2);
    }
    return 0;
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    static const struct fuzz_target *target;

    if (!target)
        target = fuzz_find (getenv ("FUZZ_TARGET"));
    target->run (data, size);
    return 0;
}
