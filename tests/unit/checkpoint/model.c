/* model.c - tensors of a test, cut into pieces in several ways */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/model.h"

const struct model_tensor model_small[] = {
    { "embedding.weight", MG_FLOAT32, 2, { 10, 6 } },
    { "embedding.bias", MG_FLOAT32, 1, { 7 } },
    { "steps", MG_INT64, 1, { 1 } },
    { "half", MG_BFLOAT16, 2, { 3, 5 } },
    { "bytes", MG_UINT8, 2, { 5, 3 } },
    { "double", MG_FLOAT64, 2, { 1, 9 } },
    { "none", MG_FLOAT32, 2, { 0, 4 } },
};
const size_t model_small_count = sizeof (model_small) / sizeof (model_small[0]);

/* More than a slab: in rows, in one row, in one dimension. */
const struct model_tensor model_large[] = {
    { "tall", MG_FLOAT32, 2, { 1501, 1003 } },
    { "wide", MG_FLOAT32, 2, { 3, 1100003 } },
    { "long", MG_BFLOAT16, 1, { 2100001 } },
    { "small", MG_FLOAT32, 1, { 3 } },
};
const size_t model_large_count = sizeof (model_large) / sizeof (model_large[0]);

static void place (struct piece *p, int dim, int part, int parts)
{
    int64_t size = (p->global[dim] + parts - 1) / parts;

    p->offset[dim] = part * size;
    p->extent[dim] = size;
}

/* False if the rank has nothing of the tensor. */
static bool cut_piece (struct piece *p, size_t t, enum model_cut cut, int rank, int ranks)
{
    p->owner = true;
    memcpy (p->extent, p->global, sizeof (p->extent));
    switch (cut) {
    case MODEL_WHOLE:
        p->owner = rank == 0;
        return true;
    case MODEL_ROWS:
        place (p, 0, rank, ranks);
        return true;
    case MODEL_COLS:
        place (p, p->ndims - 1, rank, ranks);
        return true;
    case MODEL_GRID:
        if (p->ndims == 1 || ranks % 2) {
            place (p, 0, rank, ranks);
            return true;
        }
        place (p, 0, rank / 2, ranks / 2);
        place (p, 1, rank % 2, 2);
        return true;
    default:
        return (int)(t % (size_t)ranks) == rank;
    }
}

static size_t bytes (const struct piece *p)
{
    size_t n = mg_dtype_size (p->dtype);

    for (int i = 0; i < p->ndims; i++)
        n *= (size_t)p->extent[i];
    return n;
}

void model_create (struct model *m, const struct model_tensor *tensors, size_t n,
                   enum model_cut cut, int rank, int ranks)
{
    m->n = 0;
    if (!(m->pieces = calloc (n, sizeof (*m->pieces))))
        bail_out ("out of memory");
    for (size_t t = 0; t < n; t++) {
        struct piece p = { .dtype = tensors[t].dtype, .ndims = tensors[t].ndims };

        snprintf (p.name, sizeof (p.name), "%s", tensors[t].name);
        memcpy (p.global, tensors[t].shape, sizeof (p.global));
        if (!cut_piece (&p, t, cut, rank, ranks))
            continue;
        if (!(p.data = malloc (bytes (&p) + 1)))
            bail_out ("out of memory");
        memset (p.data, 0xee, bytes (&p) + 1);
        m->pieces[m->n++] = p;
    }
}

void model_destroy (struct model *m)
{
    for (size_t i = 0; i < m->n; i++)
        free (m->pieces[i].data);
    free (m->pieces);
}

/* Byte 'b' of the element at a place. */
static unsigned char value (const struct piece *p, unsigned int seed, int64_t row,
                            int64_t col, size_t b)
{
    uint64_t x = seed * 1000003u + (unsigned char)p->name[0] * 31u
                 + (unsigned char)p->name[1];

    x = (x + (uint64_t)row) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29 ^ (uint64_t)col) * 0xbf58476d1ce4e5b9u;
    return (unsigned char)(x >> (8 * b + 3 * (b == 7)));
}

/* Walk the piece's bytes: write what lies inside, or count what differs. */
static size_t walk (const struct piece *p, unsigned int seed, bool write)
{
    const size_t size = mg_dtype_size (p->dtype);
    const int c = p->ndims - 1;
    const int64_t rows = c ? p->extent[0] : 1;
    unsigned char *at = p->data;
    size_t wrong = 0;

    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < p->extent[c]; k++) {
            int64_t row = c ? p->offset[0] + i : 0, col = p->offset[c] + k;
            bool inside = col < p->global[c] && (!c || row < p->global[0]);

            for (size_t b = 0; b < size; b++, at++) {
                unsigned char want = inside ? value (p, seed, row, col, b) : 0xee;

                if (write)
                    *at = want;
                wrong += *at != want;
            }
        }
    }
    return wrong;
}

void model_fill (struct model *m, unsigned int seed)
{
    for (size_t i = 0; i < m->n; i++)
        walk (&m->pieces[i], seed, true);
}

size_t model_check (const struct model *m, unsigned int seed)
{
    size_t wrong = 0;

    for (size_t i = 0; i < m->n; i++)
        wrong += walk (&m->pieces[i], seed, false);
    return wrong;
}
