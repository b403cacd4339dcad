/* store.c - names in a directory of checkpoints, and the file of the latest one
 *
 * Input: a text: a name, and the content of the file.
 */

#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/shard.h"
#include "libcore/checkpoint/store.h"
#include "tests/fuzz/fuzz.h"

static void run (const uint8_t *data, size_t size)
{
    static const char latest[] = "latest_checkpointed_iteration.txt";
    char *name = fuzz_text ((struct fuzz_input){ data, size });
    char again[STORE_NAME_MAX], shard[SHARD_NAME_MAX];
    struct store_entry entry;
    int64_t iteration = -2;
    int rank;

    if (store_parse (name, &entry) != STORE_OTHER && entry.iteration >= 0) {
        const char *dash = strchr (name, '-');

        store_name (again, entry.kind, entry.iteration, dash ? dash + 1 : "");
        fuzz_check (strcmp (again, name) == 0, "\"%s\" is read as \"%s\"", name, again);
        fuzz_check (strcmp (entry.name, name) == 0, "\"%s\" has another name", name);
    }
    rank = shard_rank (name);
    if (rank >= 0) {
        shard_name (shard, rank);
        fuzz_check (strcmp (shard, name) == 0, "\"%s\" is read as \"%s\"", name, shard);
    }
    fuzz_file (latest, (struct fuzz_input){ data, size });
    if (store_read_latest (fuzz_folder (), &iteration, NULL) == 0)
        fuzz_check (iteration >= 0 && name[0] >= '0' && name[0] <= '9', "iteration of \"%s\"",
                    name);
    free (name);
}

const struct fuzz_target fuzz_store = { "store", run };
