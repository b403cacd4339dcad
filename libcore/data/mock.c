/* mock.c - lengths from NumPy's generator, tokens that count up */

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "libcore/data/mock.h"

__extension__ typedef unsigned __int128 uint128;

static uint128 wide (uint64_t high, uint64_t low)
{
    return (uint128)high << 64 | low;
}

/* PCG64.  NumPy uses the lower half of a draw first, then the upper one. */
struct pcg64 {
    uint128 state;
    uint32_t half;
    bool has_half;
};

static uint32_t draw (struct pcg64 *g)
{
    const uint128 factor = wide (0x2360ed051fc65da4, 0x4385df649fccf645);
    const uint128 increment = wide (0x418ddadb3af71a82, 0x588133bc447873a9);
    uint64_t folded;
    unsigned turn;

    if (g->has_half) {
        g->has_half = false;
        return g->half;
    }
    g->state = g->state * factor + increment;
    folded = (uint64_t)(g->state >> 64) ^ (uint64_t)g->state;
    turn = (unsigned)(g->state >> 122);
    folded = folded >> turn | folded << (-turn & 63);
    g->half = (uint32_t)(folded >> 32);
    g->has_half = true;
    return (uint32_t)folded;
}

/* Draw a number from 0 to n - 1, each as likely. */
static uint32_t draw_below (struct pcg64 *g, uint32_t n)
{
    const uint32_t threshold = -n % n;
    uint64_t product;

    do
        product = (uint64_t)draw (g) * n;
    while ((uint32_t)product < threshold);
    return (uint32_t)(product >> 32);
}

struct mock *mock_create (int32_t vocab_size, int32_t eod, struct mg_error *err)
{
    struct pcg64 g = { .state = wide (0x1aa1b5345996452d, 0x09585eb7a69561e3) };
    struct mock *mock = calloc (1, sizeof (*mock));

    if (!mock || !(mock->lengths = calloc (MOCK_DOCUMENTS, sizeof (*mock->lengths)))) {
        mock_destroy (mock);
        mg_error_set (err, ENOMEM, "mock data: out of memory");
        return NULL;
    }
    mock->vocab_size = vocab_size;
    mock->eod = eod;
    for (int i = 0; i < MOCK_DOCUMENTS; i++)
        mock->lengths[i] = 1 + (int32_t)draw_below (&g, MOCK_LONGEST);
    return mock;
}

void mock_destroy (struct mock *mock)
{
    if (mock) {
        int saved_errno = errno;

        free (mock->lengths);
        free (mock);
        errno = saved_errno;
    }
}

void mock_get (const struct mock *mock, size_t document, size_t offset, size_t n, int32_t *out)
{
    size_t last = (size_t)mock->lengths[document] - 1;

    for (size_t i = 0; i < n; i++)
        out[i] = offset + i < last ? (int32_t)((offset + i + 1) % (size_t)mock->vocab_size)
                                   : mock->eod;
}
