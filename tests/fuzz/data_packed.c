/* data_packed.c - compressed input: any bytes end, with text or with a reason
 *
 * Input: a number that chooses the first bytes, then the file.
 */

#include <stdlib.h>
#include <string.h>

#include "cmd/data/packed.h"
#include "tests/fuzz/fuzz.h"

enum { MOST = 1 << 26 };

static void run (const uint8_t *data, size_t size)
{
    static const struct {
        const char *bytes;
        size_t size;
    } begins[] = { { "", 0 }, { "\x1f\x8b\x08", 3 }, { "BZh11AY&SY", 10 },
                   { "\xfd" "7zXZ\0", 6 }, { "\x28\xb5\x2f\xfd", 4 } };
    struct fuzz_input in = { data, size };
    size_t which = (size_t)fuzz_number (&in, 1) % 5, n, total = 0;
    char *file = malloc (begins[which].size + in.left + 1), text[4096];
    struct mg_error err = { .text = "" };
    struct data_packed *p;

    memcpy (file, begins[which].bytes, begins[which].size);
    if (in.left > 0)
        memcpy (file + begins[which].size, in.at, in.left);
    p = data_packed_open (fuzz_file ("packed", (struct fuzz_input){
        (const uint8_t *)file, begins[which].size + in.left }), &err);
    while (p && total < MOST && (n = fread (text, 1, sizeof (text), data_packed_stream (p))) > 0)
        total += n;
    if (p && total < MOST && data_packed_check (p, &err) == 0)
        fuzz_check (data_packed_compressed (p) || total == begins[which].size + in.left,
                    "%zu bytes of a file that is not compressed", total);
    else
        fuzz_check (total >= MOST || err.text[0], "no reason");
    data_packed_close (p);
    free (file);
}

const struct fuzz_target fuzz_data_packed = { "data_packed", run };
