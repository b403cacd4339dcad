/* manifest.c - a checkpoint's manifest: what is read is written as the same text again
 *
 * Input: a number that chooses, then the file; with an odd number without its last field,
 * which is then put behind with the checksum that fits.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <xxhash.h>

#include "libcore/checkpoint/manifest.h"
#include "libcore/checkpoint/manifest_format.h"
#include "tests/fuzz/fuzz.h"

/* Places that readers compute from a manifest are inside its shards. */
static void check_parts (const struct manifest *m)
{
    for (size_t i = 0; i < m->roster->num_tensors; i++) {
        const struct roster_tensor *t = &m->roster->tensors[i];

        fuzz_check (roster_find (m->roster, t->name) == t, "%s is not found", t->name);
        for (size_t k = 0; k < t->num_parts; k++) {
            const struct roster_part *p = &t->parts[k];
            const struct manifest_shard *s = manifest_shard (m, p->rank);
            int64_t bytes = box_count (p->box) * (int64_t)mg_dtype_size (t->dtype);
            int64_t slab = shard_slab (m->slab_bytes, mg_dtype_size (t->dtype));

            fuzz_check (s && p->offset >= SHARD_HEADER_BYTES && p->offset + bytes <= s->size,
                        "%s: a part outside its shard", t->name);
            fuzz_check (p->num_sums == box_num_slabs (p->box, slab), "%s: sums", t->name);
        }
    }
}

static void check (const char *text, size_t len)
{
    struct manifest *m = manifest_decode (text, len, NULL), *again;
    char *one, *two;
    size_t one_len, two_len;

    if (!m)
        return;
    check_parts (m);
    one = manifest_encode (m, &one_len, NULL);
    fuzz_check (one, "what was read is not written");
    again = manifest_decode (one, one_len, NULL);
    fuzz_check (again, "what was written is not read");
    two = manifest_encode (again, &two_len, NULL);
    fuzz_check (two && two_len == one_len && memcmp (one, two, one_len) == 0, "other texts");
    free (one);
    free (two);
    manifest_destroy (again);
    manifest_destroy (m);
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    char *text;

    if (fuzz_number (&in, 1) % 2 == 0) {
        text = fuzz_copy (in);
        check (text, in.left);
    } else {
        text = malloc (in.left + MANIFEST_END + 1);
        fuzz_check (text, "out of memory");
        if (in.left > 0)
            memcpy (text, in.at, in.left);
        snprintf (text + in.left, MANIFEST_END + 1, MANIFEST_END_FORMAT,
                  (uint64_t)XXH3_64bits (text, in.left));
        check (text, in.left + MANIFEST_END);
    }
    free (text);
}

const struct fuzz_target fuzz_manifest = { "manifest", run };
