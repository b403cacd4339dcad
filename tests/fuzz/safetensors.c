/* safetensors.c - files of weights: entries lie in the file and are found by name, and a GPT
 * that is read from Hugging Face's names can be written by them
 *
 * Input: a number of heads, a number that chooses, then the file; with an odd second number
 * the length of its header is put in front, from a part.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/safetensors.h"
#include "libcore/checkpoint/weights.h"
#include "tests/fuzz/fuzz.h"

static void check_entries (const struct safetensors *st)
{
    volatile unsigned char sum = 0;

    for (size_t i = 0; i < safetensors_count (st); i++) {
        const struct safetensors_entry *e = safetensors_at (st, i);
        int64_t count = 1;

        for (int d = 0; d < e->ndims; d++)
            count *= e->shape[d];
        fuzz_check (e->size == (size_t)count * mg_dtype_size (e->dtype), "%s has a size of %zu",
                    e->name, e->size);
        if (e->size > 0)
            sum = (unsigned char)(sum + ((const unsigned char *)e->data)[0]
                                  + ((const unsigned char *)e->data)[e->size - 1]);
        fuzz_check (safetensors_find (st, e->name) == e, "%s is not found", e->name);
    }
    fuzz_check (!safetensors_at (st, safetensors_count (st)), "an entry behind the last");
}

static void load_entries (const struct safetensors *st)
{
    for (size_t i = 0; i < safetensors_count (st); i++) {
        const struct safetensors_entry *e = safetensors_at (st, i);
        struct piece p = { .dtype = MG_FLOAT32, .ndims = e->ndims, .owner = true };
        size_t count = e->size / mg_dtype_size (e->dtype);
        bool real = e->dtype == MG_FLOAT32 || e->dtype == MG_FLOAT64
                    || e->dtype == MG_BFLOAT16 || e->dtype == MG_FLOAT16;

        if (e->ndims < 1 || e->ndims > PIECE_MAX_DIMS || !real
            || strlen (e->name) >= PIECE_NAME_MAX || !*e->name)
            continue;
        strcpy (p.name, e->name);
        memcpy (p.global, e->shape, (size_t)p.ndims * sizeof (p.global[0]));
        memcpy (p.extent, e->shape, (size_t)p.ndims * sizeof (p.global[0]));
        p.data = malloc (count * sizeof (float) + 1);
        fuzz_check (safetensors_load (st, &p, 1, NULL) == 0, "%s is not read", e->name);
        free (p.data);
    }
}

/* Out of tensors in memory by our own names. */
static void convert_back (const struct pieces *ours, int heads)
{
    struct weights w = { .pieces = ours, .scheme = &names_own };
    struct weights_conversion hf;
    struct model_config c;
    struct pieces read;

    fuzz_check (weights_sizes (&w, heads, &c, NULL) == 0, "a GPT without sizes");
    fuzz_check (weights_export (&w, &names_gpt2, &c, WEIGHTS_AS_IS, &hf, NULL) == 0,
                "a GPT has no way back");
    fuzz_check (pieces_read (&read, &hf.pieces, NULL) == 0, "it cannot be read");
    pieces_clear (&read);
    weights_clear (&hf);
}

static void convert (const struct safetensors *st, int heads)
{
    struct weights w = { .file = st, .scheme = &names_gpt2 };
    struct weights_conversion ours;
    struct model_config c;
    struct pieces read;

    weights_follow (st, &names_gpt2);
    if (weights_sizes (&w, heads, &c, NULL) < 0
        || weights_import (&w, &c, MG_FLOAT32, &ours, NULL) < 0)
        return;
    if (pieces_read (&read, &ours.pieces, NULL) == 0) {
        convert_back (&read, heads);
        pieces_clear (&read);
    } else
        fuzz_check (errno == ERANGE, "it cannot be read"); // float64 may be too large
    weights_clear (&ours);
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    int heads = fuzz_range (&in, 1, 16);
    struct safetensors *st;

    if (fuzz_number (&in, 1) % 2 == 1) {
        struct fuzz_input header = fuzz_part (&in);
        uint8_t *file = malloc (8 + header.left + in.left);
        uint64_t length = header.left;

        fuzz_check (file, "out of memory");
        for (int i = 0; i < 8; i++)
            file[i] = (uint8_t)(length >> 8 * i);
        if (header.left + in.left > 0) // they lie one behind the other
            memcpy (file + 8, header.at, header.left + in.left);
        fuzz_file ("a.st", (struct fuzz_input){ file, 8 + header.left + in.left });
        free (file);
    } else
        fuzz_file ("a.st", in);
    if (!(st = safetensors_open (fuzz_path ("a.st"), NULL)))
        return;
    check_entries (st);
    load_entries (st);
    convert (st, heads);
    safetensors_close (st);
}

const struct fuzz_target fuzz_safetensors = { "safetensors", run };
